# SPDX-License-Identifier: Apache-2.0

"""The excitation keeps the robot off its surroundings: plans stay inside, ways that leave are refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import ExcitationState
from ros2_dynid.srv import Jog, PlanExcitation, SetObstacles
from std_msgs.msg import String
from std_srvs.srv import Trigger

from ros2_dynid.excitation.collision import clearance
from ros2_dynid.excitation.obstacles import read_obstacles
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.surroundings import surroundings
from ros2_dynid.excitation.trajectory import Trajectory, save_trajectory
from ros2_dynid.nodes.common.caller import ClientError
from ros2_dynid.nodes.common.qos import LATCHED
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
        other_obstacles_are_taken_while_the_robot_rests(made, folder)


def other_obstacles_are_taken_while_the_robot_rests(made, folder):
    client, told = made.client, []
    client.create_subscription(String, "excitation/obstacles", told.append, LATCHED)
    client.wait(lambda: told, 10.0, "the obstacles of the file")
    assert "lamp" in told[-1].data

    def put(text, **more):
        return client.call(SetObstacles, "excitation/set_obstacles", obstacles=text, **more).message

    away = "obstacles: [{name: post, cylinder: [0.1, 1.0], at: [-2, 2, 0.5]}]"
    assert put(away, save=["post.yaml"]).startswith("1 obstacle; the plan keeps clear of them; kept in ")
    client.wait(lambda: "post" in told[-1].data and "lamp" not in told[-1].data, 10.0, "the new obstacles")
    assert [one.name for one in read_obstacles(folder / "post.yaml")] == ["post"]
    client.call(PlanExcitation, "excitation/plan", file=["up.yaml"])  # the lamp has gone
    for text, said in (
        (away, "exists already"),
        ("obstacles: [{cone: 1}]", "obstacle 1 has"),
        ("obstacles: [{robot: ../arm.urdf}]", "not inside the folder"),
    ):
        with pytest.raises(ClientError, match=said):
            put(text, save=["post.yaml"])
    assert "up" not in told[-1].data and "post" in told[-1].data
    said = put("obstacles: [{name: shelf, box: [0.2, 0.2, 0.05], at: [0.5, 0, 1.1]}]")
    assert "the plan is forgotten: the trajectory is not safe: fore and shelf come within" in said
    with pytest.raises(ClientError, match="there is no plan"):
        client.call(Trigger, "excitation/start")
    with pytest.raises(ClientError, match="not safe: fore and shelf come within"):
        client.call(PlanExcitation, "excitation/plan", file=["up.yaml"])
    put("obstacles: [{name: ceiling, box: [0.2, 0.4, 0.1], at: [-0.85, 0, 0.49]}]")
    for direction, may in ((1, False), (-1, True)):  # so close above the fore arm that this may only turn down
        try:
            client.call(Jog, "excitation/jog", joint="a", direction=direction)
        except ClientError as error:
            assert "come too close" in str(error) and not may
        else:
            assert may
    client.wait_for_excitation(ExcitationState.IDLE, timeout=10.0)
