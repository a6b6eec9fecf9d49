# SPDX-License-Identifier: Apache-2.0

"""A robot behind a joint trajectory controller, with a clock of its own: what leaves the machine is followed, watched.

As ros2_control's does, the controller goes by a cubic from where it is to the first point of what comes: from the
measured state, or from the state it desired. Messages arrive late, or not at all.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.along_path import resumed_motion
from ros2_dynid.control.checked_motion import checked_motion, jog_motion
from ros2_dynid.control.excitation_events import (
    ActivateExcitation,
    ExcitationTick,
    Jog,
    ParametersChanged,
    Phase,
    Resume,
    RobotChanged,
    Start,
)
from ros2_dynid.control.excitation_machine import ExcitationMachine
from ros2_dynid.control.joint_trust import JointStateArrived
from ros2_dynid.control.motion_gate import MotionGate
from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.control.reference import reference
from ros2_dynid.control.stop import quintic
from ros2_dynid.model.joint_state import State

PERIOD = 4e-3


class Follower:
    """The machine with its robot; `run` lets time pass. droop: distance [rad] of the measured from the desired."""

    def __deepcopy__(self, memo):
        import copy

        made = object.__new__(Follower)
        memo[id(self)] = made
        for name, value in vars(self).items():
            setattr(made, name, copy.deepcopy(value, memo))
        return made

    def __init__(self, robot, *, settings=None, from_desired=True, latency=0.004, droop=0.0, lost=lambda k: False):
        self.robot, self.from_desired, self.latency, self.droop, self.lost = robot, from_desired, latency, droop, lost
        self.now = 100.0
        self.desired = np.array([0.0, -1.0, 0.0]), np.zeros(3)
        self.sent, self.arriving, self.announced = [], [], []
        self.followed, self.begin, self.ends, self.state = None, 0.0, 0.0, None
        self.tampered = lambda state: state
        self.silent = self.deaf = self.paused = False
        self.fastest, self.hardest = np.zeros(3), np.zeros(3)
        self.path = []
        self.machine = ExcitationMachine(settings or MotionSettings(settle=0.1, tracking=0.1), MotionGate(self.publish))
        self.do(RobotChanged(self.now, robot))
        self.do(ActivateExcitation(self.now))
        self.run(0.3)

    def publish(self, points, delay, number):
        self.sent.append((self.now, self.machine.phase, points))
        self.ends = self.now + delay + points.duration
        if not self.lost(len(self.sent)):
            self.arriving.append((self.now + self.latency, points, delay))
        return self.now

    def do(self, event):
        outcome = self.machine.handle(event)
        self.announced += outcome.announced
        return outcome

    def start(self, q_from=(0.3, -1.2, 0.2), q_to=(0.6, -0.8, 0.6), seconds=2.0, name="exciting"):
        run = quintic(self.robot.active_names, np.array(q_from), np.array(q_to), seconds)
        machine = self.machine
        motion = checked_motion(
            name, machine.robot, run, machine.where(self.now), machine.settings, machine.limits, machine.stops
        )
        return self.do(Start(self.now, motion))

    def jog(self, joint, direction, free=None):
        machine = self.machine
        q = machine.where(self.now)
        motion = jog_motion(machine.robot, joint, direction, q, machine.settings, machine.limits, machine.stops, free)
        return self.do(Jog(self.now, motion))

    def resume(self):
        machine = self.machine
        motion = resumed_motion(machine.paused, machine.limits, machine.settings, machine.stops)
        return self.do(Resume(self.now, motion))

    def set(self, **changes):
        from dataclasses import replace

        return self.do(ParametersChanged(self.now, replace(self.machine.settings, **changes)))

    def force(self, **changes):
        """Change settings in mid-motion, as nobody can, to see one guard of it without the others."""
        from dataclasses import replace

        machine = self.machine
        machine.settings = replace(machine.settings, **changes)
        machine._watch.use(machine.limits, machine.settings)

    @property
    def measured(self):
        q, dq = self.desired
        return q - self.droop, dq

    def arrivals(self):
        """Let the controller take what has arrived."""
        while self.arriving and self.arriving[0][0] <= self.now:
            _, points, delay = self.arriving.pop(0)
            if self.deaf:
                continue
            q, dq = self.desired if self.from_desired else self.measured
            t, first = np.concatenate(([0.0], points.t + delay)), (q, dq, np.zeros(3))
            given = [x for x in (points.q, points.dq, points.ddq) if x is not None]
            rows = [np.vstack(pair) for pair in zip(first, given, strict=False)]
            self.followed = reference(points.joint_names, t, *rows)
            self.begin = self.now

    def step(self):
        self.now += PERIOD
        if self.paused:  # the robot's computer stands: neither its time goes on nor does anything arrive
            self.begin += PERIOD
            self.do(ExcitationTick(self.now))
            return
        self.arrivals()
        if self.followed is not None:
            q, dq, ddq, _ = self.followed.at(self.now - self.begin)
            self.desired = q, dq
            self.fastest, self.hardest = np.maximum(self.fastest, np.abs(dq)), np.maximum(self.hardest, np.abs(ddq))
        self.path.append(self.desired[0])
        if not self.silent:
            q, dq = self.measured
            state = State(self.robot.active_names, q.copy(), dq.copy(), np.zeros(3), int(self.now * 1e9))
            state = self.tampered(state)
            if state is not None:
                self.state = state
                self.do(JointStateArrived(self.now, state, self.now if state.stamp == 0 else 1e-9 * state.stamp))
        self.do(ExcitationTick(self.now))

    def run(self, seconds):
        for _ in range(round(seconds / PERIOD)):
            self.step()

    def until(self, *phases, limit=30.0):
        self.wait(lambda: self.machine.phase in phases, f"one of {[phase.name for phase in phases]}", limit)

    def wait(self, done, what, limit=30.0):
        """Let time pass until it is done; fail after `limit` [s] of the robot's time."""
        end = self.now + limit
        while not done():
            assert self.now < end, f"{what} did not come within {limit:g} s: {self.machine.phase}"
            self.step()

    def running(self, seconds=1.0):
        """Start, and let the trajectory run for a while, in full motion."""
        assert self.start().accepted
        self.until(Phase.RUNNING)
        self.until_moving()
        self.run(seconds)

    def until_moving(self):
        self.wait(lambda: np.max(np.abs(self.desired[1])) >= 0.02, "a motion")

    @property
    def reason(self):
        return [a.reason for a in self.announced if a.reason][-1]
