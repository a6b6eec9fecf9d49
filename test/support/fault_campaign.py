# SPDX-License-Identifier: Apache-2.0

"""The fault campaign: missions of a small fast robot, each met by one or two faults, under a watchdog.

A lane is one graph of real nodes in a domain of its own: `motion` (robot from a file), `description` (robot from
robot_description, time from /clock) and `effort` (streamed torques). sim_robot is behind fault_proxy. After every run
the robot must rest, no limit may have been passed, what was recorded must be there, and the next run must start.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.srv import SetParameters
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation, SetPayload, StartRecording, StopRecording
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from bag_messages import bag_messages
from fault_proxy import BLIND, COMMAND_FAULTS, STATE_FAULTS, Fault, Later, Proxy
from node_zygote import ForkedNodes
from pauses import file_of, longest_pause, watch_pauses
from perfect import perfect_model
from ros2_dynid.control.stop import approach_reference, quintic
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import COMMANDS, LATCHED
from ros2_dynid.processes import Processes, own_domain
from watchdog import Watchdog

HERE = str(Path(__file__).resolve().parent)
MATCHING = 0.1
"""Time [s] for a server to find a new client: a response before that is lost."""
TRIES, STARVED = 3, 0.05
"""A run with a violation is made again if a busy machine paused a process for longer than this [s], a third of what the
nodes must bear. What endangers the robot or a recording is excused by a pause of the robot or of the proxy only."""
BRAKED, SLOW = 0.6, 0.3
"""A robot of which nothing is known is slower than this [rad/s] so long [s] later: STALE, braking from the highest
speed of the motion, with the tracking tolerance and a robot that stood meanwhile allowed for (0.34 s), and a tenth of a
second for the way there."""
SLOWLY = "frozen values"
"""A fault that shows when the reference has moved on by the tracking tolerance only."""
SIM_RATE = 250.0
PARTS = 2
"""Graphs of each lane beside each other: a run takes some 3 s, most of which is waiting."""
AND = " + "
"""Between the names of two faults that meet in one run."""
LATER = 0.3
"""The second of two faults comes up to this much later [s]."""
STALE = 0.15
"""Longest silence that the excitation accepts [s]."""
HALF_SECOND = 1.0
"""A recorder that is killed may lose what came this long [s] before; it promises half a second."""

ROBOT = """\
name: arm2
joints:
  - {name: lift, parent: 0, alpha: -1.5707963267948966,
     limits: {lower: -0.6, upper: 0.6, velocity: 4.5, acceleration: 40.0, effort: 60.0}}
  - {name: bend, parent: 1, d: 0.25,
     limits: {lower: -0.6, upper: 0.6, velocity: 4.5, acceleration: 40.0, effort: 30.0}}
parameters: {XX1: 0.01, YY1: 0.08, ZZ1: 0.08, MX1: 0.4, M1: 3.0, Ia1: 0.1, Fv1: 0.3, Fc1: 1.0,
             XX2: 0.003, YY2: 0.02, ZZ2: 0.02, MX2: 0.12, M2: 1.0, Ia2: 0.05, Fv2: 0.1, Fc2: 0.4}
"""

LINK = (
    '<link name="{0}"><inertial><origin xyz="0.13 0 0"/><mass value="{1}"/><inertia ixx="{2}" ixy="0" ixz="0" '
    'iyy="{3}" iyz="0" izz="{3}"/></inertial></link>'
)
JOINT = (
    '<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><origin xyz="{3} 0 0"/>'
    '<axis xyz="0 1 0"/><limit lower="-0.6" upper="0.6" velocity="4.5" effort="{4}"/>'
    '<dynamics damping="{5}" friction="{6}"/></joint>'
)
URDF = (
    '<robot name="arm2"><link name="base"/>'
    + LINK.format("upper", 3.0, 0.01, 0.03)
    + LINK.format("lower", 1.0, 0.003, 0.006)
    + JOINT.format("lift", "base", "upper", 0.0, 60.0, 0.3, 1.0)
    + JOINT.format("bend", "upper", "lower", 0.25, 30.0, 0.1, 0.4)
    + "</robot>"
)


@dataclass
class Run:
    """What happened in one run."""

    lane: str
    index: int
    seed: int
    fault: str
    moment: float
    lasts: float
    ended: str = ""
    seconds: float = 0.0
    peak_speed: float = 0.0
    gap: float = 0.0
    paused: float = 0.0
    spoilt: bool = False
    recorded: int = 0
    violations: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)


class Output:
    """What a node writes, on its way to a file: by a terminal or by a pipe, which can be stopped."""

    def __init__(self, path: Path, *, terminal: bool) -> None:
        self._path, self._flows, self._terminal = path, threading.Event(), terminal
        self._reader, self.writer = os.openpty() if terminal else os.pipe()
        self._flows.set()
        threading.Thread(target=self._pass_on, daemon=True).start()

    def _pass_on(self) -> None:
        with self._path.open("ab") as file, contextlib.suppress(OSError):  # a terminal whose writers are gone
            while self._flows.wait() and (data := os.read(self._reader, 4096)):
                file.write(data)
                file.flush()
        os.close(self._reader)

    def stop(self) -> None:
        self._flows.clear()
        if self._terminal:
            termios.tcflow(self.writer, termios.TCOOFF)
            return
        full = os.open(f"/proc/self/fd/{self.writer}", os.O_WRONLY | os.O_NONBLOCK)
        for _ in range(2):  # the thread may take one more piece
            with contextlib.suppress(BlockingIOError):
                while True:
                    os.write(full, b"\n" * 4096)
            time.sleep(0.002)
        os.close(full)

    def go_on(self) -> None:
        if self._terminal:
            termios.tcflow(self.writer, termios.TCOON)
        self._flows.set()


class Nodes:
    """Nodes by name, forked from a process that has imported them: one that was killed is replaced at once."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes, self._folder = processes, folder
        self._arguments: dict[str, list[str]] = {}
        self._outputs: dict[str, Output] = {}
        self._number = 0
        self.running: dict[str, Any] = {}

    def describe(self, node: str, remap: tuple[str, ...], **parameters: Any) -> None:
        text = [part for key, value in parameters.items() for part in ("-p", f"{key}:={value}")]
        text += [part for rule in remap for part in ("-r", rule)]
        self._arguments[node] = ["watched_node", str(self._folder), node, "--ros-args", *text]

    def start(self, node: str) -> Any:
        self._number += 1
        name = f"{node}_{self._number}"
        output = self._outputs[node] = Output(self._folder / f"{name}.log", terminal=self._number % 2 == 0)
        self.running[node] = self._processes.start(name, self._arguments[node], output=output.writer)
        return self.running[node]

    def stop_output(self, node: str) -> Callable[[], None]:
        """Let nobody take what a node writes, as Ctrl-S or a hung log collector does; return what ends that."""
        output = self._outputs[node]
        output.stop()
        return output.go_on

    def kill(self, node: str) -> None:
        process = self.running.pop(node)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    def pauses(self, since: float) -> dict[str, float]:
        """Return the longest time [s] that the machine has kept each node waiting since a time [s]."""
        return {
            node: longest_pause(file_of(self._folder, process.pid), since) for node, process in self.running.items()
        }

    def died(self) -> list[str]:
        """Return the nodes that have ended by themselves."""
        return [node for node, process in self.running.items() if process.poll() is not None]

    def last_words(self) -> str:
        logs = sorted(self._folder.glob("*.log"), key=lambda file: file.stat().st_mtime)
        lines = logs[-1].read_text().strip().splitlines() if logs else []
        return lines[-1] if lines else ""


class Lane(Node):
    """One graph under faults; its methods block the caller, callbacks run in a thread."""

    kind = ""
    controlled = True
    """Whether something controls the position: torques alone hold no limit of it."""
    anew: tuple[str, ...] = ()
    """Nodes that are started anew after a run with a violation."""

    def __init__(self, folder: Path, processes: Processes, robot_path: Path, seed: int) -> None:
        super().__init__("campaign")
        self.folder, self.seed = folder, seed
        self.robot = load_robot(str(robot_path))
        self.robot_path = robot_path
        self.nodes = Nodes(processes, folder)
        self.watchdog = Watchdog(self.robot, controlled=self.controlled)
        self.proxy = Proxy(self, self.watchdog.state, self.watchdog.trajectory, self.watchdog.efforts)
        self.state, self.exciting = "", False
        self._asking: dict[str, Any] = {}
        self._seen_bags: set[Path] = set((folder / "recordings").glob("*"))
        self._bag_state: dict[str, Any] = {}
        self._sent_before: list[Any] = []
        self._healing: list[Callable[[], None]] = []
        self._healer, self._running = threading.RLock(), None
        self._own_pauses = file_of(folder, os.getpid())
        watch_pauses(self._own_pauses)
        self._later = Later()
        self._stop = self.create_publisher(Bool, "stop", LATCHED)
        self.create_subscription(ExcitationState, "excitation_state", self._on_excitation_state, LATCHED)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self)
        threading.Thread(target=self._spin, daemon=True).start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def _on_excitation_state(self, message: ExcitationState) -> None:
        self.state, self.exciting = message.text, message.state == ExcitationState.EXCITING

    # --- talking to the nodes

    def call(self, kind: Any, name: str, timeout: float = 2.0, **fields: Any) -> Any:
        """Return the response of a service, or None if there was none."""
        client = self._asking.get(name)
        if client is None:
            client = self._asking[name] = self.create_client(kind, name)
            client.wait_for_service(timeout)
            time.sleep(MATCHING)
        if not client.wait_for_service(timeout):
            return None
        done = threading.Event()
        future = client.call_async(kind.Request(**fields))
        future.add_done_callback(lambda _: done.set())
        if not done.wait(timeout):
            client.remove_pending_request(future)
            return None
        return future.result()

    def until(self, done: Callable[[], Any], timeout: float) -> bool:
        """Wait until done(); return whether that came in time."""
        end = time.monotonic() + timeout
        while not done():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def transition(self, node: str, number: int) -> Any:
        return self.call(ChangeState, f"{node}/change_state", transition=Transition(id=number))

    # --- faults that a lane's own ones are added to

    def state_faults(self) -> dict[str, Callable[[random.Random], None]]:
        def spoil(name: str) -> Callable[[random.Random], None]:
            def act(rng: random.Random) -> None:
                self.proxy.states = Fault(name, rng, len(self.robot.active))
                self._healing.append(lambda: setattr(self.proxy, "states", None))

            return act

        return {name: spoil(name) for name in STATE_FAULTS}

    def command_faults(self) -> dict[str, Callable[[random.Random], None]]:
        def spoil(name: str) -> Callable[[random.Random], None]:
            def act(rng: random.Random) -> None:
                self.proxy.command_delay, self.proxy.commands = rng.uniform(0.02, 0.2), name
                self._healing.append(lambda: setattr(self.proxy, "commands", ""))

            return act

        return {name: spoil(name) for name in COMMAND_FAULTS}

    def paused(self, node: str) -> Callable[[random.Random], None]:
        def act(_: random.Random) -> None:
            pid = self.nodes.running[node].pid
            os.kill(pid, signal.SIGSTOP)
            self._healing.append(lambda: os.kill(pid, signal.SIGCONT))

        return act

    def output_stopped(self, node: str) -> Callable[[random.Random], None]:
        """Let the terminal or pipe of a node take nothing, while a line is written to it."""

        def act(_: random.Random) -> None:
            self._healing.append(self.nodes.stop_output(node))
            # a subscription that does not match makes who publishes log a line
            self.create_subscription(JointTrajectory, "joint_trajectory", lambda message: None, LATCHED)

        return act

    def full_disk(self, node: str) -> Callable[[random.Random], None]:
        """Let files of a node grow no more, as on a full disk."""

        def act(_: random.Random) -> None:
            pid = self.nodes.running[node].pid
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
            self._bag_state["disk"] = True
            self._healing.append(lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard)))

        return act

    def suite_stopped(self, _: random.Random) -> None:
        self._stop.publish(Bool(data=True))
        self._healing.append(lambda: self._stop.publish(Bool(data=False)))

    def killed(self, node: str) -> Callable[[random.Random], None]:
        def act(_: random.Random) -> None:
            self.nodes.kill(node)
            if node == "recorder":
                self._bag_state["killed"] = time.monotonic()
            self._healing.append(lambda: self.restart(node))

        return act

    def describe_guard(self, **more: Any) -> None:
        self.nodes.describe("guard", (), robot=self.robot_path, stale_seconds=STALE, tracking_tolerance=0.2,
                             stop_deceleration=35.0, **more)  # fmt: skip

    def restart(self, node: str) -> None:
        self.nodes.start(node)
        if node == "sim_robot":
            self.watchdog.forget()

    def strike_too(self, fault: str, index: int, rng: random.Random) -> None:
        """Let a second fault come, unless its run is over; a process that is gone already can get no other."""
        with self._healer, contextlib.suppress(KeyError, ProcessLookupError):
            if self._running == index:
                self.faults()[fault](rng)

    def heal(self, index: int) -> None:
        """End the fault of a run, unless that run is over."""
        with self._healer:
            if self._running != index:
                return
            healing, self._healing = self._healing, []
            for act in healing:
                with contextlib.suppress(ProcessLookupError):
                    act()

    # --- runs

    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        """Return every fault of this lane."""
        raise NotImplementedError

    def mission(self, run: Run, rng: random.Random, strike: Callable[[], None]) -> None:
        """Fly one mission; call strike() at its moment. Violations go to the watchdog."""
        raise NotImplementedError

    def begin(self) -> None:
        """Start the nodes."""
        raise NotImplementedError

    def run(self, index: int, fault: str) -> Run:
        """Make one run and return what happened; one that the machine spoilt by its pauses is made again."""
        for _ in range(TRIES):
            run = self._once(index, fault)
            if not run.violations:
                break
            self.begin_anew()
            if not run.spoilt:
                break
        return run

    def _pauses(self, fault: str, since: float) -> tuple[float, float]:
        """Return the longest pauses [s] that were not the fault: of the robot and this process, and of any process."""
        nodes = {node: pause for node, pause in self.nodes.pauses(since).items() if node not in fault}
        own = longest_pause(self._own_pauses, since)
        gap = 0.0 if "sim_robot" in fault else self.watchdog.longest_gap
        plant = max(own, gap, nodes.get("sim_robot", 0.0))
        return plant, max(plant, *nodes.values())

    def begin_anew(self) -> None:
        """Start the moving nodes again, so that the next run shows its own fault."""
        for node in self.anew:
            self.nodes.kill(node)
            self.restart(node)
        self.until(self.ready, 60.0)

    def ready(self) -> bool:
        """Return whether a mission can begin."""
        raise NotImplementedError

    def _once(self, index: int, fault: str) -> Run:
        rng = random.Random(f"{self.seed} {self.kind} {index}")
        lasts = rng.choice((rng.uniform(0.02, 0.3), rng.uniform(0.3, 1.0), 10.0))
        moment = rng.uniform(-0.1, self.length())
        if fault in BLIND and rng.random() < 0.5:  # early enough for the motion to go on for long if nobody stops it
            moment = self.length() - rng.uniform(BRAKED, 0.8)
        run = Run(self.kind, index, self.seed, fault, moment, lasts)
        began = time.monotonic()
        self.watchdog.begin()
        self._bag_state = {}
        self._sent_before, self.proxy.published = self.proxy.published, []

        first, *second = fault.split(AND)

        def strike() -> None:
            self.faults()[first](rng)
            for name in second:
                self._later.do(rng.uniform(0.0, LATER), lambda name=name: self.strike_too(name, index, rng))
            self._later.do(lasts, lambda: self.heal(index))

        self._running = index
        try:
            self.mission(run, rng, strike)
        finally:
            self.heal(index)
            self._running = None
        self.until(lambda: self.watchdog.hears, 30.0)  # a robot that was started anew is found by and by
        if not self.until(lambda: self.watchdog.resting, 8.0):
            self.watchdog.note("the robot does not come to rest", danger=True)
            self.call(SetBool, "sim_robot/emergency_stop", data=True)
            self.call(SetBool, "sim_robot/emergency_stop", data=False)
        for node in self.nodes.died():
            self.watchdog.note(f"{node} ended by itself: {self.nodes.last_words()}")
            self.nodes.running.pop(node)
            self.restart(node)
        run.recorded = self.check_bags()
        run.seconds, run.peak_speed = time.monotonic() - began, self.watchdog.peak_speed
        run.gap = self.watchdog.longest_gap
        run.violations = self.watchdog.violations
        plant, run.paused = self._pauses(fault, began)
        run.spoilt = bool(run.violations) and (plant if self.watchdog.endangered else run.paused) > STARVED
        run.sent = self.watchdog.sent if run.violations else []
        return run

    def length(self) -> float:
        """Time [s] that a mission takes."""
        return 1.5

    # --- recordings

    def check_bags(self) -> int:
        """Look at the bags that this run has made; return the number of joint states in them."""
        total = 0
        for path in sorted(set((self.folder / "recordings").glob("*")) - self._seen_bags):
            if not path.is_dir():
                continue
            self._seen_bags.add(path)
            total += self._check_bag(path, written=path == max((self.folder / "recordings").glob("*")))
        return total

    def _check_bag(self, path: Path, written: bool) -> int:
        """Look at a bag; written: it is the last one, which a recorder that was killed was writing."""
        try:
            found = bag_messages(path)
        except Exception as error:
            if "disk" not in self._bag_state:
                self.watchdog.note(f"{path.name} cannot be read: {error}", danger=True)
            return 0
        # a recorder that was paused writes what it had when it goes on, which may be in the next run
        published = [*self._sent_before, *self.proxy.published]
        sent = [data for _, data in published]
        if not found:
            return 0
        starts = [k for k, data in enumerate(sent) if data == found[0]]
        if not any(sent[k : k + len(found)] == found for k in starts):
            what = f"{path.name}: its {len(found)} joint states are not what was sent without a gap"
            self.watchdog.note(what, danger=True)
        elif "killed" in self._bag_state and written:
            last = max(time_ for time_, data in published if data == found[-1])
            lost = max((time_ for time_, _ in published if time_ <= self._bag_state["killed"]), default=last) - last
            if lost > HALF_SECOND:
                self.watchdog.note(f"{path.name}: the last {lost:.2f} s before the kill are lost", danger=True)
        return len(found)

    def close(self) -> None:
        self.proxy.close()
        self._executor.shutdown(timeout_sec=1.0)


class MotionLane(Lane):
    """The excitation moves the robot and the recorder follows it."""

    kind = "motion"
    anew = ("sim_robot", "excitation")
    sim_time = False
    motion, amplitude = 0.9, 0.8
    """Length [s] and size [rad] of the exciting motion: 62 % of the velocity limit, 70 % of the acceleration limit."""

    def begin(self) -> None:
        sim = ("joint_states:=truth_states", "joint_trajectory:=robot_trajectory", "effort_commands:=robot_efforts")
        clock = ("/clock:=truth_clock",) if self.sim_time else ()
        self.nodes.describe("sim_robot", (*sim, *clock), robot=self.robot_path, rate=SIM_RATE, start='[-0.3, 0.3]',
                             publish_clock=self.sim_time)  # fmt: skip
        self.nodes.describe("recorder", (), folder=self.folder / "recordings", buffer_seconds=5.0,
                             use_sim_time=self.sim_time)  # fmt: skip
        self.nodes.describe("excitation", (), **self.excitation())
        save_motion(self.folder / "trajectories", self.robot.active_names, self.motion, self.amplitude)
        self._descriptions: Any = None
        if self.sim_time:
            self._clock_out = self.create_publisher(Clock, "/clock", 10)
            self._clock_offset, self._clock_runs = 0, True
            self._clock_count, self._clock_every = 0, 1
            self.create_subscription(Clock, "truth_clock", self._on_clock, 10)
        self.describe_guard(use_sim_time=self.sim_time)
        for node in ("sim_robot", "recorder", "excitation", "guard"):
            self.nodes.start(node)
        if not self.until(self.planned, 60.0):
            raise RuntimeError(f"the graph did not start: {self.refusal or self.nodes.last_words()}")

    def excitation(self) -> dict[str, Any]:
        return {
            "robot": self.robot_path, "folder": self.folder / "trajectories", "stale_seconds": STALE,
            "approach_speed": 0.6, "settle_seconds": 0.05, "control_period": 0.005, "tracking_tolerance": 0.2,
            "stop_deceleration": 35.0, "use_sim_time": self.sim_time, "collisions": False,
        }  # fmt: skip

    def ready(self) -> bool:
        return "excitation" in self.nodes.running and self.planned() and self.watchdog.resting

    def planned(self) -> bool:
        """Return whether the excitation has taken the motion."""
        answer = self.call(PlanExcitation, "excitation/plan", file=["motion.yaml"])
        self.refusal = "" if answer is None else answer.message
        return bool(answer and answer.success)

    def length(self) -> float:
        return 0.4 + self.motion

    def _on_clock(self, message: Clock) -> None:
        self._clock_count += 1
        if self._clock_runs and self._clock_count % self._clock_every == 0:
            message.clock.sec += self._clock_offset
            self._clock_out.publish(message)

    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        found = {
            "none": lambda rng: None,
            **self.state_faults(),
            **self.command_faults(),
            **{f"{node} killed": self.killed(node) for node in ("excitation", "recorder", "sim_robot", "guard")},
            **{f"{node} paused": self.paused(node) for node in ("excitation", "recorder", "sim_robot", "guard")},
            "output of the excitation stopped": self.output_stopped("excitation"),
            "the stop of the suite": self.suite_stopped,
            "full disk": self.full_disk("recorder"),
            "full disk of the excitation": self.full_disk("excitation"),
            "stop": lambda rng: self.asked("excitation/stop"),
            "stop three times": lambda rng: [self.asked("excitation/stop") for _ in range(3)],
            "start again": lambda rng: self.asked("excitation/start"),
            "stop and start": lambda rng: [self.asked(f"excitation/{word}") for word in ("stop", "start")],
            "rehearse": lambda rng: self.asked("excitation/rehearse"),
            "plan": lambda rng: self.planned(),
            "deactivated": self.deactivated,
            "parameters": self.parameters,
            "a second excitation": self.second,
        }
        if self.sim_time:
            found |= {
                "clock ahead": lambda rng: self.clock(1000),
                "clock back": lambda rng: self.clock(-1000),
                "clock stands": self.clock_stands,
                "clock at 10 Hz": self.clock_coarse,
                "description again": lambda rng: self.describe(URDF),
                "another description": lambda rng: self.describe(URDF.replace('"4.5"', '"4.4"')),
                "a wrong description": lambda rng: self.describe("<robot>"),
            }
        return found

    def clock(self, seconds: int) -> None:
        self._clock_offset = seconds
        self._healing.append(lambda: setattr(self, "_clock_offset", 0))

    def clock_stands(self, _: random.Random) -> None:
        self._clock_runs = False
        self._healing.append(lambda: setattr(self, "_clock_runs", True))

    def clock_coarse(self, _: random.Random) -> None:
        self._clock_every = round(SIM_RATE / 10)
        self._healing.append(lambda: setattr(self, "_clock_every", 1))

    def describe(self, text: str) -> None:
        if self._descriptions is None:  # once: one that is destroyed while the executor waits for it ends the executor
            self._descriptions = self.create_publisher(String, "robot_description", LATCHED)
        publisher = self._descriptions
        self.until(lambda: publisher.get_subscription_count() > 0, 1.0)
        publisher.publish(String(data=text))
        self._healing.append(lambda: publisher.publish(String(data=URDF)))

    def asked(self, name: str) -> None:
        """Call a service without waiting for the answer."""
        client = self._asking.get(name) or self.create_client(Trigger, name)
        self._asking[name] = client
        client.call_async(Trigger.Request())

    def deactivated(self, _: random.Random) -> None:
        self.transition("excitation", Transition.TRANSITION_DEACTIVATE)
        self._healing.append(lambda: self.transition("excitation", Transition.TRANSITION_ACTIVATE))

    def parameters(self, rng: random.Random) -> None:
        """Ask for other parameters: they take effect or are refused."""
        values = {"approach_speed": rng.uniform(0.4, 0.7), "tracking_tolerance": rng.uniform(0.15, 0.25)}
        self.set("excitation", **values)

    def set(self, node: str, **values: Any) -> Any:
        wanted = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        return self.call(SetParameters, f"{node}/set_parameters", parameters=wanted)

    def second(self, _: random.Random) -> None:
        """Start a second excitation beside the first."""
        first = self.nodes.running["excitation"]
        other = self.nodes.start("excitation")
        self.nodes.running["excitation"] = first

        def end() -> None:
            other.kill()
            other.wait()

        self._healing.append(end)

    def mission(self, run: Run, rng: random.Random, strike: Callable[[], None]) -> None:
        early = run.moment < 0
        if early:
            strike()
        answer = self.started(patient=not early)
        if answer is None:
            run.ended = "not started"
            return
        began = time.monotonic()
        if not early:
            while time.monotonic() < began + run.moment and not self.over():
                time.sleep(0.005)
            struck_in, struck = self.state, time.monotonic()
            left = began + self.length() - struck
            strike()
            blind = run.fault in BLIND and struck_in == "exciting" and min(run.lasts, left) > BRAKED
            if blind and run.fault != SLOWLY:
                self._brakes_in_time(struck)
        if not self.until(self.over, 12.0):
            self.watchdog.note(f"it neither ends nor aborts: {self.state}")
            self.asked("excitation/stop")
        run.ended = self.state
        if not early and blind and left > STALE + 0.4 and not self.state.startswith("aborted"):
            self.watchdog.note(f"the motion went on without knowing where the robot is: {self.state}")

    def _brakes_in_time(self, struck: float) -> None:
        """Look whether the robot itself rests soon after nothing is known of it any more."""
        time.sleep(max(struck + BRAKED - time.monotonic(), 0.0))
        if (speed := self.watchdog.speed) > SLOW:
            self.watchdog.note("the motion goes on without knowing where the robot is, at this speed [rad/s]", speed)

    def over(self) -> bool:
        """Return whether nothing is to be waited for any more."""
        if "excitation" not in self.nodes.running:
            return self.watchdog.resting
        return self.state.startswith(("done", "aborted", "idle", "fault", "stopped", "inactive"))

    def started(self, patient: bool) -> Any:
        """Start the motion; while the graph recovers from the last fault, ask again."""
        self.state = ""
        end, why = time.monotonic() + (30.0 if patient else 0.5), "no answer"
        while time.monotonic() < end:
            answer = self.call(Trigger, "excitation/start", timeout=1.0)
            if answer is not None and answer.success:
                self.until(lambda: self.state, 1.0)
                return answer
            why = answer.message if answer else why
            if "plan" in why or answer is None:
                self.planned()
            time.sleep(0.05)
        if patient:
            self.watchdog.note(f"it does not start again: {why}")
        return None


class DescriptionLane(MotionLane):
    """The same with the robot from robot_description and the time from /clock."""

    kind = "description"
    sim_time = True
    motion, amplitude = 1.2, 0.4  # a URDF has no acceleration limits: twice the velocity limit is assumed, 9 rad/s^2

    def excitation(self) -> dict[str, Any]:
        return super().excitation() | {"robot": "''"}


class EffortLane(Lane):
    """The feedforward streams torques along references; nothing controls the position, and the drive has a timeout."""

    kind = "effort"
    anew = ("sim_robot", "feedforward")
    controlled = False

    def begin(self) -> None:
        sim = ("joint_states:=truth_states", "joint_trajectory:=robot_trajectory", "effort_commands:=robot_efforts")
        self.nodes.describe("sim_robot", sim, robot=self.robot_path, rate=SIM_RATE)
        self.nodes.describe("recorder", (), folder=self.folder / "recordings", buffer_seconds=5.0)
        perfect_model(self.robot, self.folder / "model.yaml")
        # a robot that its brakes hold has no gravity in its efforts, and would be refused as one that holds itself
        self.nodes.describe("feedforward", (), robot=self.robot_path, model=self.folder / "model.yaml",
                             output="effort", rate=SIM_RATE, background_rate=10.0, priority=0,
                             robot_adds="['nothing']", check_rest_efforts="false")  # fmt: skip
        self.describe_guard()
        for node in ("sim_robot", "recorder", "feedforward", "guard"):
            self.nodes.start(node)
        self._reference = self.create_publisher(JointTrajectory, "reference", COMMANDS)
        self._braked = False
        self._brakes = self.create_client(SetBool, "sim_robot/emergency_stop")
        self.proxy.ceased = self.brake
        if not self.until(self.ready, 60.0) or self.call(StopRecording, "recorder/stop", timeout=30.0) is None:
            raise RuntimeError(f"the graph did not start: {self.nodes.last_words()}")

    def ready(self) -> bool:
        return self._reference.get_subscription_count() > 0 and self.watchdog.resting

    def length(self) -> float:
        return 1.0

    def faults(self) -> dict[str, Callable[[random.Random], None]]:
        return {
            "none": lambda rng: None,
            **self.state_faults(),
            **self.command_faults(),
            **{f"{node} killed": self.killed(node) for node in ("feedforward", "recorder", "guard")},
            **{f"{node} paused": self.paused(node) for node in ("feedforward", "recorder", "guard")},
            "output of the feedforward stopped": self.output_stopped("feedforward"),
            "the stop of the suite": self.suite_stopped,
            "full disk": self.full_disk("recorder"),
            "deactivated": self.deactivated,
            "a small payload": lambda rng: self.payload(0.1),
            "an absurd payload": self.absurd,
            "another reference": lambda rng: self.refer(self.way(rng, 0.5)),
            "a reference of other joints": lambda rng: self.refer(self.way(rng, 0.5), names=("left", "right")),
            "a reference of NaN": lambda rng: self.refer(self.way(rng, 0.5), spoil=True),
        }

    def brake(self) -> None:
        """Do what a drive with a timeout, or the user, does when torques cease."""
        self._braked = True
        self._brakes.call_async(SetBool.Request(data=True))

    def deactivated(self, _: random.Random) -> None:
        self.transition("feedforward", Transition.TRANSITION_DEACTIVATE)
        self._healing.append(lambda: self.transition("feedforward", Transition.TRANSITION_ACTIVATE))

    def payload(self, mass: float) -> Any:
        request = SetPayload.Request()
        request.payload.m = mass
        self._healing.append(lambda: self.call(SetPayload, "feedforward/set_payload"))
        return self.call(SetPayload, "feedforward/set_payload", payload=request.payload)

    def absurd(self, rng: random.Random) -> None:
        answer = self.payload(10.0 ** rng.uniform(4, 9))
        if answer is not None and answer.success:
            self.watchdog.note("an absurd payload was taken")

    def way(self, rng: random.Random, seconds: float) -> Any:
        """Return a move from where the robot is to a random pose within reach, in `seconds`."""
        q = np.array(self.watchdog.q)
        to = np.clip(q + np.array([rng.uniform(-0.35, 0.35) for _ in q]), -0.3, 0.3)
        return quintic(self.robot.active_names, q, to, seconds)

    def refer(self, points: Any, names: Any = None, spoil: bool = False) -> None:
        message = trajectory_message(points)
        if names:
            message.joint_names = list(names)
        if spoil:
            message.points[len(message.points) // 2].positions[0] = float("nan")
        self._reference.publish(message)

    def home(self) -> None:
        """Bring the robot back by its own position control, with no torque of ours."""
        self.proxy.hold_efforts_back()
        self.call(SetBool, "sim_robot/emergency_stop", data=False)
        self._braked = False
        q = np.array(self.watchdog.q)
        to = np.clip(q, -0.25, 0.25)
        limits = np.full(len(q), 1.0)
        self.proxy.to_robot(
            trajectory_message(approach_reference(self.robot.active_names, q, to, limits, 8 * limits).shifted(0.02))
        )
        time.sleep(0.15)
        self.until(lambda: self.watchdog.resting, 3.0)
        self.proxy.efforts_pass = True

    def mission(self, run: Run, rng: random.Random, strike: Callable[[], None]) -> None:
        self.home()
        self.watchdog.begin()
        self.call(StartRecording, "recorder/start", path=[f"run_{run.index}"])
        streamed = rng.random() < 0.4
        points = self.way(rng, 0.7)
        began, done = time.monotonic(), False
        if run.moment < 0:
            strike()
            done = True
        if not streamed:
            self.refer(points)
        while (now := time.monotonic() - began) < self.length() + 0.2:
            if not done and now >= run.moment:
                strike()
                done = True
            if streamed and now < points.duration:
                self._stream(points, now)
            time.sleep(0.005)
        run.ended = ("streamed" if streamed else "followed") + (": braked" if self._braked else "")
        self.until(lambda: self.watchdog.resting, 4.0)
        self.heal(run.index)
        if "killed" not in self._bag_state:
            self.call(StopRecording, "recorder/stop")

    def _stream(self, points: Any, t: float) -> None:
        q, dq, ddq, _ = points.at(t)
        message = JointTrajectory(joint_names=list(points.joint_names))
        from trajectory_msgs.msg import JointTrajectoryPoint

        message.points = [
            JointTrajectoryPoint(positions=q.tolist(), velocities=dq.tolist(), accelerations=ddq.tolist())
        ]
        self._reference.publish(message)


LANES: dict[str, type[Lane]] = {lane.kind: lane for lane in (MotionLane, DescriptionLane, EffortLane)}


def save_motion(folder: Path, names: tuple[str, ...], duration: float, amplitude: float) -> None:
    """Write the exciting motion: out and back in `duration` [s], across the middle of the range."""
    t = np.linspace(0, duration, 19)
    phase = 2 * np.pi * t / duration
    signs = np.array([1.0, -1.0])
    q = signs * (-amplitude * np.cos(phase) / 2)[:, None]
    dq = signs * (amplitude * np.pi / duration * np.sin(phase))[:, None]
    dq[[0, -1]] = 0.0
    folder.mkdir(parents=True, exist_ok=True)
    save_trajectory(folder / "motion.yaml", Trajectory(names, through_points(t, q, dq)))


@contextlib.contextmanager
def lane(kind: str, folder: Path, seed: int) -> Iterator[Lane]:
    """Yield a lane whose graph runs; on leaving, every process is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    robot = folder / ("arm2.urdf" if kind == "description" else "arm2.yaml")
    robot.write_text(URDF if kind == "description" else ROBOT)
    with own_domain() as environment:
        os.environ.update(environment)
        rclpy.init()
        path = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
        with ForkedNodes(folder, {**environment, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}) as processes:
            made = LANES[kind](folder, processes, robot, seed)
            try:
                made.begin()
                yield made
            finally:
                made.close()
        rclpy.try_shutdown()


def schedule(names: list[str], runs: int, seed: int) -> list[str]:
    """Return which fault each run meets: all in turn, in random order."""
    rng = random.Random(seed)
    chosen: list[str] = []
    while len(chosen) < runs:
        chosen += rng.sample(names, len(names))
    return chosen[:runs]


def main(kind: str, folder: Path, seed: int, plan: list[tuple[int, str]]) -> None:
    """Make the runs of a lane, given as number and fault, and print one JSON object each."""
    with lane(kind, folder, seed) as made:
        for index, fault in plan:
            try:
                run = made.run(index, fault)
            except Exception:
                run = Run(kind, index, seed, fault, 0.0, 0.0, violations=[traceback.format_exc()])
            print(json.dumps(asdict(run)), flush=True)


def fault_names(kind: str) -> list[str]:
    """Return the faults of a lane."""
    return list(LANES[kind].faults(LANES[kind].__new__(LANES[kind])))


def plan_of(kind: str, runs: int, seed: int, pairs: float = 0.0) -> list[tuple[int, str]]:
    """Return which fault each run of a lane meets; pairs: share of the runs that meet a second one."""
    names, rng = fault_names(kind), random.Random(f"{seed} {kind} pairs")
    chosen = schedule(names, runs, seed)
    return [(k, name + AND + rng.choice(names) if rng.random() < pairs else name) for k, name in enumerate(chosen)]


def campaign(
    plans: dict[str, list[tuple[int, str]]], seed: int, folder: Path, saw: Callable[[Run], None] = lambda run: None
) -> list[Run]:
    """Make the runs of several lanes, one lane after the other; `saw` is called with each.

    A lane is flown in PARTS graphs of its own beside each other: most of the time they wait. More at a time pause each
    other on two cores, and then the torques of most runs do not move the robot.
    """
    path = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])
    found: list[Run] = []

    def listen(process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            if line.startswith("{"):
                found.append(Run(**json.loads(line)))
                saw(found[-1])

    for kind in plans:
        with Processes(folder, {"PYTHONPATH": path}) as processes:
            threads = []
            for part in range(PARTS):
                name, plan = f"lane_{kind}_{part}", json.dumps(plans[kind][part::PARTS])
                arguments = ["fault_campaign", kind, str(folder / name), str(seed), plan]
                process = processes.start(name, arguments, talk=True)
                threads.append(threading.Thread(target=listen, args=(process,)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    for kind, plan in plans.items():
        if missing := len(plan) - sum(run.lane == kind for run in found):
            logs = [(folder / f"lane_{kind}_{part}.log").read_text().strip().splitlines() for part in range(PARTS)]
            last = [line for log in logs for line in log[-1:]]
            found.append(Run(kind, -1, seed, "", 0.0, 0.0, violations=[f"{missing} runs are missing: {last}"]))
    return found


def described(run: Run) -> str:
    """Return a run in one line, and one for each violation."""
    head = (
        f"{run.lane} {run.index} (seed {run.seed}): {run.fault!r} at {run.moment:.2f} s for {run.lasts:.2f} s; "
        f"{run.ended or '-'}; peak {run.peak_speed:.2f} of the speed limit, {run.recorded} states, "
        f"{run.seconds:.1f} s, longest pause of the robot {run.gap:.2f} s, of any process {run.paused:.2f} s"
    )
    if run.spoilt:
        head += "; spoilt by a busy machine, not judged"
    return "\n".join(
        [head, *(f"    VIOLATION {text}" for text in run.violations), *(f"    {text}" for text in run.sent)]
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), [(k, fault) for k, fault in json.loads(sys.argv[4])])
    sys.stdout.flush()
    os._exit(0)  # rclpy's threads need not be waited for
