# SPDX-License-Identifier: Apache-2.0

"""Time from a call of ~/stop to the stop on the wire, over real nodes on this machine.

    ./dynid python bench/stop_latency.py [STOPS]

The robot is simulated at 500 Hz in a process of its own. The time is taken from the call to the arrival of the stop in
this process, service and topic included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "support"))

import numpy as np
from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from motions import saved_motion
from ros_graph import graph


def main() -> None:
    """Stop again and again, and print the percentiles."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    took = []
    with tempfile.TemporaryDirectory() as folder, graph(Path(folder)) as made:
        saved_motion(Path(folder) / "trajectories", made.robot)
        made.start("sim_robot", start="[0.0, -1.0, 0.0]", rate=500.0)
        made.start("excitation", start_delay=0.0, settle_seconds=0.0, approach_speed=1.0, tracking_tolerance=0.1)
        made.ready("sim_robot", "excitation")
        client, came = made.client, []
        client.create_subscription(JointTrajectory, "joint_trajectory", lambda _: came.append(time.monotonic()), 10)
        stop = client.create_client(Trigger, "excitation/stop")
        client.position()
        client.call(PlanExcitation, "excitation/plan", file=["slow.yaml"])
        while len(took) < count:
            made.run()
            client.wait(lambda: client.speed() > 0.05, 20.0, "the motion")
            before = len(came)
            begin = time.monotonic()
            stop.call_async(Trigger.Request())
            client.wait(lambda before=before: len(came) > before, 5.0, "the stop")
            took.append(came[before] - begin)
            client.wait(lambda: client.excitation_state.state == ExcitationState.ABORTED, 20.0, "the end")
    p50, p99 = (1e3 * float(np.percentile(took, q)) for q in (50, 99))
    print(
        f"{count} stops: {p50:.1f} ms at the median, {p99:.1f} ms at the 99th percentile,"
        f" {1e3 * max(took):.1f} ms at most"
    )


if __name__ == "__main__":
    main()
