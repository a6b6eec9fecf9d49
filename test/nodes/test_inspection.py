# SPDX-License-Identifier: Apache-2.0

"""Every node is a managed node with described parameters, in any namespace, and refuses what does not fit."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import DescribeParameters, ListParameters

from ros2_dynid.nodes.common import parameters
from ros2_dynid.nodes.common.caller import ClientError
from ros_graph import graph

CONFIG = Path(__file__).parents[2] / "config"
NODES = ("sim_robot", "excitation", "recorder", "identification", "feedforward")


def parameters_of(node):
    """Return all parameters of a node, by its own table."""
    try:
        own = importlib.import_module(f"ros2_dynid.nodes.{node}.parameters").PARAMETERS
    except ModuleNotFoundError:
        own = getattr(parameters, node.upper())
    return (*parameters.COMMON, *own)


@pytest.mark.parametrize("node", (*NODES, "payload_bridge", "guard", "wrist_sensor"))
def test_the_yaml_of_a_node_is_its_parameters(node):
    table = {p.name: p.default for p in parameters_of(node)}
    assert yaml.safe_load((CONFIG / f"{node}.yaml").read_text()) == {"/**": {"ros__parameters": table}}


@pytest.mark.timeout(120)
def test_lifecycle_descriptions_and_namespaces(tmp_path):
    with graph(tmp_path) as made:
        for node in NODES:
            made.start(node, name=f"left_{node}", remap=("__ns:=/left",), autostart="false")
        client = made.client
        for node in NODES:
            name = f"/left/{node}"
            assert client.call(GetState, f"{name}/get_state").current_state.label == "unconfigured"
            for transition in (1, 3, 4, 2, 1, 3):  # configure, activate, deactivate, cleanup, and again
                request = ChangeState.Request()
                request.transition.id = transition
                assert client.call(ChangeState, f"{name}/change_state", transition=request.transition).success
            assert client.call(GetState, f"{name}/get_state").current_state.label == "active"
            listed = client.call(ListParameters, f"{name}/list_parameters").result.names
            ours = [p.name for p in parameters_of(node)]
            assert set(ours) <= set(listed)
            described = client.call(DescribeParameters, f"{name}/describe_parameters", names=ours).descriptors
            assert all(descriptor.description for descriptor in described)
        with pytest.raises(ClientError, match="range"):
            client.set("/left/excitation", approach_speed=7.0)
        for refused, value, reason in (
            ("folder", "/tmp/elsewhere", "read-only"),
            ("expected_rate", 5.0, "clean up first"),
            ("lead_seconds", float("nan"), "lead_seconds"),
            ("autostart", True, "read-only"),
        ):
            with pytest.raises(ClientError, match=reason):
                client.set("/left/recorder", **{refused: value})
        with pytest.raises(ClientError, match="choose from ols, wls"):
            client.set("/left/identification", method="nonsense")
        with pytest.raises(ClientError, match="deactivate first"):
            client.set("/left/identification", online=True)
        client.set("/left/identification", method="ols")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("option", "reason"), [({"method": "nonsense"}, "choose from ols"), ({"drift_ratio": 3}, "drift_ratio")]
)
def test_a_parameter_without_meaning_ends_the_start_with_one_line(tmp_path, option, reason):
    with graph(tmp_path, forked=False) as made:
        node = made.start("identification", **option)
        assert node.wait(30.0) == 2
        said = made.log("identification").strip()
        assert reason in said and len(said.splitlines()) == 1, said


@pytest.mark.timeout(60)
def test_a_model_of_another_robot_is_refused(tmp_path):
    from ros2_dynid.base_parameters.compute import base_parameters
    from ros2_dynid.identification.model_file import model_of, save_model
    from ros2_dynid.model.load import load_robot
    from ros2_dynid.model.parameters import standard_vector

    other = load_robot("demo6")
    base = base_parameters(other)
    value = base.values(other, standard_vector(other))
    import numpy as np

    save_model(model_of(other, base, value, 0.1 * np.ones(len(base)), np.eye(len(base))), tmp_path / "model.yaml")
    with graph(tmp_path) as made:
        for node in ("feedforward", "identification"):
            made.start(node, model=tmp_path / "model.yaml")
            made.client.wait(lambda node=node: "joints" in made.log(node), 20.0, "the refusal")
            assert "this robot has waist" in made.log(node)
            assert made.client.call(GetState, f"{node}/get_state").current_state.label == "unconfigured"
