"""The identification node: the model that it serves, and the robot that this is of."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.msg import BaseParameters
from ros2_dynid.srv import GetBaseParameters
from std_msgs.msg import String

from perfect import perfect_model
from ros2_dynid.nodes.common.messages import LATCHED
from ros_graph import graph
from urdf_text import joint, link, urdf

DEMO6 = Path(__file__).parents[3] / "config" / "robots" / "demo6.urdf"
OTHER = urdf(link("base"), link("arm"), joint("turn", "base", "arm"))


@pytest.mark.timeout(60)
def test_a_model_is_served_though_a_description_of_another_robot_comes(tmp_path):
    with graph(tmp_path, str(DEMO6)) as made:
        client = made.client
        perfect_model(made.robot, tmp_path / "model.yaml")
        description = client.create_publisher(String, "robot_description", LATCHED)
        description.publish(String(data=DEMO6.read_text()))
        node = made.start("identification", robot=None, model=tmp_path / "model.yaml")
        made.ready("identification")
        heard = []
        client.create_subscription(BaseParameters, "base_parameters", heard.append, LATCHED)
        client.wait(lambda: bool(heard), 10.0, "the model")
        for other in (OTHER, "<robot", ""):
            count = made.log("identification").count("robot_description: ")
            description.publish(String(data=other))
            client.wait(lambda n=count: made.log("identification").count("robot_description: ") > n, 10.0, "a refusal")
            served = client.call(GetBaseParameters, "identification/get_base_parameters").parameters
            assert served.model_id == heard[0].model_id and served.robot == made.robot.name
        assert len(heard) == 1 and node.poll() is None
