# SPDX-License-Identifier: Apache-2.0

"""Time from a stop to the stop on the wire, over real nodes on this machine, while another node stands still.

    ./dynid python bench/stop_latency.py [STOPS]

The robot is simulated at 500 Hz in a process of its own. The time is taken from the call of ~/stop, or the publication
on the topic stop, to the arrival of the braking trajectory in this process. A recorder that listens to the same topics
is stopped by SIGSTOP meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "support"))

import numpy as np
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motions import saved_motion
from perfect import perfect_model
from ros2_dynid.control.stop import quintic
from ros2_dynid.nodes.common.messages import trajectory_message
from ros2_dynid.nodes.common.qos import LATCHED
from ros_graph import Graph, graph

REACH = 0.4
"""Size of the feedforward's motion [rad]."""


class Bench:
    """Starts motions of both nodes, and stops them."""

    def __init__(self, made: Graph) -> None:
        self._made, self._client, self._came, self._way = made, made.client, [], REACH
        self._stop = self._client.create_publisher(Bool, "stop", LATCHED)
        self._services = {
            node: self._client.create_client(Trigger, f"{node}/stop") for node in ("excitation", "feedforward")
        }
        self._client.create_subscription(
            JointTrajectory, "joint_trajectory", lambda _: self._came.append(time.monotonic()), 10
        )

    def excite(self) -> None:
        """Let the excitation move the robot."""
        self._made.run()

    def refer(self) -> None:
        """Let the feedforward move the robot, to and fro."""
        q, self._way = self._client.position(), -self._way
        points = quintic(self._made.robot.active_names, q, q + self._way, 2.5)
        self._client.send(trajectory_message(points), feedforward=True)

    def by_topic(self) -> None:
        """Set the stop of the suite."""
        self._stop.publish(Bool(data=True))

    def by_service(self) -> None:
        """Call the stop of the excitation."""
        self._services["excitation"].call_async(Trigger.Request())

    def took(self, move: Callable[[], None], stop: Callable[[], None]) -> float:
        """Return the time [s] from a stop in mid-motion to what is sent."""
        client = self._client
        move()
        client.wait(lambda: client.speed() > 0.05, 20.0, "the motion")
        before, begin = len(self._came), time.monotonic()
        stop()
        client.wait(lambda: len(self._came) > before, 5.0, "the stop")
        took = self._came[before] - begin
        client.wait_for_rest(0.02, 20.0)
        if move == self.excite:
            client.wait(lambda: client.excitation_state.state == ExcitationState.ABORTED, 20.0, "the end")
        self._stop.publish(Bool(data=False))
        time.sleep(0.2)
        return took


def main() -> None:
    """Stop again and again, and print the percentiles."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as name, graph(Path(name)) as made:
        saved_motion(Path(name) / "trajectories", made.robot)
        perfect_model(made.robot, Path(name) / "model.yaml")
        made.start("sim_robot", start="[0.0, -1.0, 0.0]", rate=500.0)
        made.start("excitation", start_delay=0.0, settle_seconds=0.0, approach_speed=1.0, tracking_tolerance=0.1)
        made.start("feedforward", model=Path(name) / "model.yaml")
        frozen = made.start("recorder")
        made.ready("sim_robot", "excitation", "feedforward", "recorder")
        made.client.position()
        made.client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        bench = Bench(made)
        time.sleep(1.0)
        os.kill(frozen.pid, signal.SIGSTOP)
        for text, move, stop in (
            ("excitation by its service", bench.excite, bench.by_service),
            ("excitation by the topic", bench.excite, bench.by_topic),
            ("feedforward by the topic", bench.refer, bench.by_topic),
        ):
            took = 1e3 * np.array([bench.took(move, stop) for _ in range(count)])
            p50, p99 = np.percentile(took, (50, 99))
            print(
                f"{text}: {count} stops, {p50:.1f} ms at the median, {p99:.1f} ms at the 99th percentile,"
                f" {took.max():.1f} ms at most",
                flush=True,
            )
        os.kill(frozen.pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
