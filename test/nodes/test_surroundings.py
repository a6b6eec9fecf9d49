# SPDX-License-Identifier: Apache-2.0

"""The excitation keeps the robot off its surroundings: plans stay inside, ways that leave are refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import PlanExcitation
from std_srvs.srv import Trigger

from ros2_dynid.excitation.collision import clearance
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.surroundings import surroundings
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.common.caller import ClientError
from ros_graph import graph

BODY = """<inertial><origin xyz="0.25 0 0"/><mass value="1"/>
<inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><origin xyz="0.3 0 0" rpy="0 1.5708 0"/><geometry><cylinder radius="0.04" length="0.3"/></geometry>
</collision>"""
LIMIT = '<axis xyz="0 1 0"/><limit lower="-3.1" upper="3.1" velocity="2" effort="60"/>'
ARM = f"""<robot name="arm"><link name="base"/><link name="upper">{BODY}</link><link name="fore">{BODY}</link>
<joint name="a" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.5"/>{LIMIT}</joint>
<joint name="b" type="revolute"><parent link="upper"/><child link="fore"/><origin xyz="0.5 0 0"/>{LIMIT}</joint></robot>
"""
BOX = [-9.0, 9.0, -9.0, 9.0, 0.1, 9.0]


def saved(file, *angles):
    """Write a motion of joint a through angles [rad], at rest at each."""
    q = np.array([[angle, 0.0] for angle in angles])
    t = 3.0 * np.arange(len(q))
    save_trajectory(file, Trajectory(("a", "b"), through_points(t, q, np.zeros_like(q)), "points"))


@pytest.mark.timeout(120)
def test_plans_stay_in_the_box_and_off_obstacles_and_ways_that_leave_it_are_refused(tmp_path):
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(ARM)
    folder = tmp_path / "trajectories"
    folder.mkdir()
    saved(folder / "level.yaml", 0.0, 0.2, 0.0)
    saved(folder / "down.yaml", 0.0, 0.9, 0.0)
    saved(folder / "up.yaml", 0.0, -0.9, 0.0)
    around = tmp_path / "around.yaml"
    around.write_text("obstacles: [{name: lamp, sphere: 0.1, at: [0.5, 0, 1.13]}]")
    with graph(tmp_path, str(urdf)) as made:
        made.start("sim_robot", start="[3.0, 0.0]")  # level, but on the other side
        made.start("excitation", workspace=str(BOX), obstacles=str(around))
        made.ready("sim_robot", "excitation")
        client = made.client
        client.position()
        with pytest.raises(ClientError, match="not safe: fore and plane 5 come within"):
            client.call(PlanExcitation, "excitation/plan", file=["down.yaml"])
        with pytest.raises(ClientError, match="not safe: fore and lamp come within"):
            client.call(PlanExcitation, "excitation/plan", file=["up.yaml"])
        planned = client.call(PlanExcitation, "excitation/plan")
        robot, shapes = surroundings(made.robot, urdf, box=BOX, obstacles=around)
        q = np.array([point.positions for point in planned.trajectory.points])
        assert clearance(robot, shapes, q)[0] >= shapes.margin - 1e-3
        client.call(PlanExcitation, "excitation/plan", file=["level.yaml"])
        with pytest.raises(ClientError, match="on the straight way to the start fore and plane 5"):
            client.call(Trigger, "excitation/start")
        client.wait_for_excitation(ExcitationState.IDLE, timeout=5.0)
