# SPDX-License-Identifier: Apache-2.0

"""What nothing is said about is the same for a node and for the command line."""

from __future__ import annotations

import typing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.action import Identify
from ros2_dynid.msg import IdentifyOptions as OptionsMessage
from ros2_dynid.srv import ConvertUrdf, IdentifyPayload, IdentifyRecording, PlanExcitation

from ros2_dynid.cli import parse_arguments
from ros2_dynid.commands import excite, identify, payload
from ros2_dynid.commands.shared.arguments import robot_source
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.nodes.excitation.parameters import PARAMETERS as EXCITATION
from ros2_dynid.nodes.excitation.planning import plan_request
from ros2_dynid.nodes.identification.parameters import PARAMETERS as IDENTIFICATION
from ros2_dynid.nodes.identification.requests import identify_request, payload_request, robot_to_convert
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = RobotSource("arm.urdf")
DEFAULT = {parameter.name: parameter.default for parameter in IDENTIFICATION}
PLANNING = {parameter.name: parameter.default for parameter in EXCITATION}


def typed(line):
    """Return the arguments of a command line."""
    return parse_arguments(line.split())


@pytest.mark.parametrize("request_type", [Identify.Goal, IdentifyRecording.Request])
def test_identify(request_type):
    by_node = identify_request(request_type(), ROBOT, ["a.mcap"], [], DEFAULT["method"], DEFAULT["sensor"])
    by_hand = identify.request_of(typed("identify arm.urdf a.mcap"))
    assert by_node == replace(by_hand, command="")


def test_payload():
    by_node = payload_request(IdentifyPayload.Request(), ROBOT, ["a"], ["b"], DEFAULT["sensor"])
    assert by_node == payload.request_of(typed("payload arm.urdf --empty a --loaded b"))


def test_plan():
    by_node = plan_request(PlanExcitation.Request(), ROBOT, Path("plan.yaml"), PLANNING.__getitem__)
    assert by_node == excite.request_of(typed("excite arm.urdf -o plan.yaml"))


def test_convert():
    by_node = robot_to_convert(ConvertUrdf.Request(), "<robot/>")
    assert replace(by_node, path="arm.urdf", urdf="") == robot_source(typed("mdh arm.urdf"))


def leaves(kind):
    """Return the names of a dataclass's fields, those of its parts in their place."""
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if isinstance(hint, type) and is_dataclass(hint):
            yield from (f"{name}_unit" if field.name == "units" else name for name in leaves(hint))
        else:
            yield field.name


def test_a_goal_has_a_field_for_every_option():
    renamed = {"topic": "topics", "checks": "no_checks"}
    options = {renamed.get(name, name) for name in leaves(IdentifyOptions)} | {"gain_joints"}
    for request in (Identify.Goal, IdentifyRecording.Request):
        own = set(request.get_fields_and_field_types()) - {"bags", "validation_bags", "output_directory", "options"}
        assert own | set(OptionsMessage.get_fields_and_field_types()) == options


def test_whatever_may_be_left_out_is_a_list_of_at_most_one():
    told = OptionsMessage.get_fields_and_field_types()
    lists = {"topics", "columns", "gain_joints", "gains", "contacts", "standing"}
    flags = {"no_checks"}
    assert {name for name, kind in told.items() if not kind.endswith(", 1>")} == lists | flags
