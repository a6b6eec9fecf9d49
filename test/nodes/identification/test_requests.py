# SPDX-License-Identifier: Apache-2.0

"""Fields of messages, each in its place in the request of the use case."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.action import Identify
from ros2_dynid.msg import IdentifyOptions as OptionsMessage
from ros2_dynid.srv import ConvertUrdf, IdentifyPayload

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions, VelocitySource
from ros2_dynid.nodes.identification.requests import identify_request, payload_request, robot_to_convert
from ros2_dynid.recording.samples import Reading, Units
from ros2_dynid.usecases.identify import IdentifyRequest
from ros2_dynid.usecases.payload import PayloadRequest
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = RobotSource("arm.urdf")
EVERY = OptionsMessage(
    topics=["/a", "/b"], torque_topic=["/t"], start=[0.0], end=[2.0], stamps=["bag"], rate=[250.0],
    format=["rtde"], episode=[0],
    columns=["elbow.position=q3", "waist.effort=tau_1"],
    time_unit=["ms"], angle_unit=["deg"], length_unit=["mm"], effort_unit=["mN.m"],
    gain_joints=["elbow", "waist"], gains=[3.0, -4.0],
    position_cutoff=[5.0], row_cutoff=[6.0], row_rate=[7.0], slow=[0.0], velocity=["measured"], delay=[0.0],
    friction=["load"], prior=["none"], sensor=["link"], torque_sensor=["link+Fc"], controller=["gains.yaml"],
    distance=["euclidean"], essential_std=[0.2], no_checks=True,
)  # fmt: skip
READING = Reading(
    topic=("/a", "/b"),
    columns={"elbow.position": "q3", "waist.effort": "tau_1"},
    units=Units("ms", "deg", "mm", "mN.m"),
    stamps="bag",
    start=0.0,
    end=2.0,
    rate=250.0,
    torque_topic="/t",
    format="rtde",
    episode=0,
)
PREPARATION = PreparationOptions(
    5.0, 6.0, 7.0, 0.0, VelocitySource("measured"), gains={"elbow": 3.0, "waist": -4.0}, delay=0.0
)
OPTIONS = {
    "preparation": PREPARATION, "reading": READING, "checks": False, "friction": "load", "prior": "none",
    "distance": "euclidean", "essential_std": 0.2, "sensor": "link", "controller": "gains.yaml",
    "torque_sensor": "link+Fc",
}  # fmt: skip


@pytest.mark.parametrize("flag", ["essential", "standard", "consistent"])
def test_identify(flag):
    goal = Identify.Goal(method=["irls"], cross_validate=[0], options=EVERY, **{flag: True})
    options = IdentifyOptions(method=Method.IRLS, cross_validate=0, **{flag: True}, **OPTIONS)
    expected = IdentifyRequest(ROBOT, ("a", "b"), ("c",), options)
    assert identify_request(goal, ROBOT, ["a", "b"], ["c"], "wls", "motor") == expected


def test_parameters_that_are_not_significant_are_dropped_on_request():
    goal = Identify.Goal(options=OptionsMessage(significant=[0.01]))
    assert identify_request(goal, ROBOT, ["a"], [], "ols", "motor").options.significant == 0.01


def test_a_goal_that_names_no_method_and_no_sensor_has_those_of_the_node():
    options = identify_request(Identify.Goal(), ROBOT, ["a"], [], "ols", "elbow=link").options
    assert options == IdentifyOptions(method=Method.OLS, sensor="elbow=link")


def test_payload():
    request = IdentifyPayload.Request(link=["hand"], free=True, options=EVERY)
    expected = PayloadRequest(ROBOT, ("a",), ("b", "c"), "hand", IdentifyOptions(**OPTIONS), free=True)
    assert payload_request(request, ROBOT, ["a"], ["b", "c"], "motor") == expected


def test_convert():
    request = ConvertUrdf.Request(
        urdf=["<robot/>"], base_link=["one"], tip_link=["two"], hold_joints=["a", "b"], hold_positions=[0.0, -1.0]
    )
    assert robot_to_convert(request, "") == RobotSource(
        urdf="<robot/>", base_link="one", tip_link="two", hold={"a": 0.0, "b": -1.0}
    )
    for wrong, reason in ((ConvertUrdf.Request(), "no URDF"), (ConvertUrdf.Request(hold_joints=["a"]), "differ in")):
        with pytest.raises(InputError, match=reason):
            robot_to_convert(wrong, "")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"gain_joints": ["elbow"]}, "options.gains differ in number"),
        ({"columns": ["/etc/passwd"]}, "options.columns holds '/etc/passwd'"),
        ({"columns": ["a=b,c=d"]}, "options.columns holds"),
        ({"angle_unit": [""]}, "unknown angle unit ''"),
        ({"row_cutoff": [0.0]}, "row_cutoff is 0"),
    ],
)
def test_a_field_that_cannot_be_is_named(wrong, reason):
    with pytest.raises(InputError, match=reason):
        identify_request(Identify.Goal(options=OptionsMessage(**wrong)), ROBOT, ["a"], [], "wls", "auto")
