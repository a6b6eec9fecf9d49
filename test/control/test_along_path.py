# SPDX-License-Identifier: Apache-2.0

"""Pauses, and jogs of one joint: rest on the trajectory that was checked, and as soon as nobody holds the joint."""

from __future__ import annotations

import numpy as np
import pytest

from follower import Follower
from ros2_dynid.control.along_path import stop_on_path
from ros2_dynid.control.checked_motion import JOG_SECONDS, JOG_SPEED, LEAST_JOG
from ros2_dynid.control.excitation_events import HoldBack, JogHeld, JogReleased, Pause, Phase, Stop
from ros2_dynid.control.excitation_machine import JOG_HOLD
from ros2_dynid.control.knots import reference_by_knots
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.control.stop_switch import STOP_SET
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.model.load import load_robot

ROBOT = load_robot("demo3")
LIMITS = motion_limits(ROBOT, MotionSettings())
HELD = ("elbow", 1)


def off_path(points, positions, shares=40):
    """Return the largest distance of positions from a trajectory, as a set of places."""
    path = points.within(np.linspace(0.0, 1.0, shares))[0]
    return max(float(np.min(np.abs(path - q).max(axis=1))) for q in positions)


def within_limits(made):
    assert np.all(made.fastest <= 1.03 * LIMITS.velocity) and np.all(made.hardest <= 1.03 * LIMITS.acceleration)


@pytest.mark.parametrize("from_desired", [True, False])
@pytest.mark.parametrize("after", [0.1, 0.7, 1.4, 1.7])
def test_a_pause_rests_on_the_trajectory_and_goes_on_along_it_to_its_end(from_desired, after):
    made = Follower(ROBOT, from_desired=from_desired, droop=0.003)
    made.running(after)
    run, begin = made.sent[-1][2], len(made.path)
    while made.machine.phase is Phase.RUNNING and made.machine.commands < 6:
        assert made.do(Pause(made.now)).accepted and made.machine.phase is Phase.SLOWING
        made.until(Phase.PAUSED, limit=3.0)
        assert np.all(made.desired[1] == 0.0)
        rests = made.desired[0].copy()
        made.run(2.0)
        assert np.array_equal(made.desired[0], rests) and made.machine.phase is Phase.PAUSED
        assert made.resume().answer == "exciting goes on"
        made.run(0.3)
    made.until(Phase.DONE)
    assert np.allclose(made.desired[0], [0.6, -0.8, 0.6], atol=1e-6)
    assert off_path(run, made.path[begin:]) < 0.004, "it follows the path, but for the error that it has"
    within_limits(made)


@pytest.mark.parametrize("part", [Phase.APPROACH, Phase.SETTLE])
def test_the_way_to_the_start_is_gone_on_with_after_a_pause(part):
    made = Follower(ROBOT, settings=MotionSettings(settle=0.4, tracking=0.1))
    made.start()
    made.until(part)
    made.run(0.1)
    made.do(Pause(made.now))
    made.until(Phase.PAUSED)
    made.run(1.0)
    assert made.resume().accepted
    made.until(Phase.RUNNING)
    assert np.allclose(made.desired[0], [0.3, -1.2, 0.2], atol=1e-6)
    made.until(Phase.DONE)
    within_limits(made)


def test_an_exciting_trajectory_can_be_paused_nearly_everywhere_and_within_its_limits():
    trajectory = plan(ROBOT, PlanOptions(duration_s=5.0, time_budget_s=1.0, seed=3)).trajectory
    curve = trajectory.ordered(ROBOT.active_names).curve
    path = reference_by_knots(ROBOT.active_names, curve.evaluate, curve.duration, LIMITS, 100.0)
    stops = [
        stop_on_path(path, s, LIMITS, MotionSettings(), np.full(3, 0.002)) for s in np.linspace(0.0, path.duration, 30)
    ]
    there = [found for found in stops if found is not None]
    assert len(there) >= 0.9 * len(stops)
    assert max(found.stop.points.duration for found in there) <= 2.0
    assert all(off_path(path, found.stop.points.q, 1000) < 1e-3 for found in there)


def test_a_pause_that_is_lost_ends_in_a_stop_and_so_does_one_that_the_limits_do_not_allow():
    made = Follower(ROBOT)
    made.running(0.5)
    made.lost = lambda number: number == 3
    made.do(Pause(made.now))
    made.until(Phase.BRAKING)
    assert "off its reference" in made.reason
    made.until(Phase.ABORTED)
    made.lost = lambda number: False
    made.running(0.5)
    made.droop = np.array([0.0, 0.0, 0.03])
    made.force(approach_speed=0.001)
    made.step()
    assert "cannot slow down" in made.do(Pause(made.now)).answer and made.machine.phase is Phase.BRAKING
    made.until(Phase.ABORTED)
    within_limits(made)


def test_a_stop_ends_a_paused_motion_and_a_pause_that_is_over_is_not_resumed():
    made = Follower(ROBOT)
    made.running(0.5)
    made.do(Pause(made.now))
    made.until(Phase.PAUSED)
    made.do(HoldBack(made.now, STOP_SET))
    refused = made.resume()
    assert not refused.accepted and "the stop is set" in refused.answer
    made.do(HoldBack(made.now, None))
    made.do(Stop(made.now))
    assert made.machine.phase is Phase.BRAKING and made.machine.paused is None
    made.until(Phase.ABORTED)
    assert made.start().accepted


def test_a_paused_robot_is_watched():
    made = Follower(ROBOT)
    made.running(0.5)
    made.do(Pause(made.now))
    made.until(Phase.PAUSED)
    made.silent = True
    made.until(Phase.BRAKING, limit=0.2)
    assert "no joint state" in made.reason


@pytest.mark.parametrize("end", ["released", "unheard", "stopped"])
@pytest.mark.parametrize(("joint", "direction"), [HELD, ("waist", -1)])
def test_a_joint_moves_at_a_tenth_of_its_speed_while_it_is_held_and_brakes_when_it_is_not(joint, direction, end):
    made = Follower(ROBOT, droop=0.002)
    assert made.jog(joint, direction).accepted
    j, begin = ROBOT.active_names.index(joint), made.desired[0].copy()
    for _ in range(10):
        made.run(0.1)
        assert made.do(JogHeld(made.now, joint, direction)).accepted
    assert made.fastest[j] == pytest.approx(JOG_SPEED * LIMITS.velocity[j], rel=0.02)
    moved = made.desired[0] - begin
    assert direction * moved[j] > 0.05 and np.all(np.abs(np.delete(moved, j)) <= 0.002 + 1e-9)
    let_go = made.now
    if end == "released":
        made.do(JogReleased(made.now))
    elif end == "stopped":
        made.do(Stop(made.now))
    made.until(Phase.IDLE if end != "stopped" else Phase.ABORTED)
    rests = made.now - let_go
    assert rests < 0.45 + (JOG_HOLD if end == "unheard" else 0.0), rests
    assert np.all(made.desired[1] == 0.0)
    assert abs(made.desired[0][j] - begin[j] - moved[j]) < JOG_SPEED * LIMITS.velocity[j] * rests


def test_a_jog_keeps_limits_and_what_is_in_the_way_and_ends_by_itself():
    made = Follower(ROBOT)
    for _ in range(40):
        try:
            made.jog("waist", 1)
        except InputError as error:
            assert "'waist' is at its limit" in str(error)
            break
        begin = made.now
        while made.machine.phase is Phase.JOGGING:
            made.step()
            made.do(JogHeld(made.now, "waist", 1))
        assert made.now - begin < JOG_SECONDS + 2.0
        made.until(Phase.IDLE)
    upper = motion_limits(ROBOT, MotionSettings()).upper[0]
    assert upper - 2 * LEAST_JOG <= made.desired[0][0] <= upper
    within_limits(made)
    with pytest.raises(InputError, match="come too close"):
        made.jog("elbow", 1, lambda q: 1)
    made.jog("elbow", 1, lambda q: int(np.sum(q[:, 2] < 0.055)))
    made.machine._held_until = np.inf
    made.until(Phase.IDLE)
    assert 0.04 < made.desired[0][2] < 0.055


def test_a_joint_that_is_let_go_before_its_jog_is_ready_does_not_move_and_another_direction_lets_go():
    made = Follower(ROBOT)
    before = made.machine.stops
    made.do(JogReleased(made.now))
    assert made.machine.stops == before + 1, "a jog prepared before is void"
    assert made.jog("elbow", 1).accepted
    made.run(0.2)
    assert made.do(JogHeld(made.now, "elbow", -1)).accepted and made.machine.phase is Phase.SLOWING
    made.until(Phase.IDLE)
    for wrong, said in ((("nose", 1), "there is no joint"), (("elbow", 2), "direction 2")):
        with pytest.raises(InputError, match=said):
            made.jog(*wrong)
    made.do(Pause(made.now))
    assert made.machine.phase is Phase.IDLE
