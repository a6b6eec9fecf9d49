# SPDX-License-Identifier: Apache-2.0

"""Described parameters."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from ros2_dynid.nodes.common.parameters import Described, Settable

SHARE = Described("share", 0.5, "a share", 0.0, 1.0)


COUNT = Described("count", 3, "how many", 1, 9, settable=Settable.INACTIVE)


LAW = Described("law", "a", "which", choices=("a", "b"), settable=Settable.UNCONFIGURED, read_only=True)


POSE = Described("pose", [0.0], "where", -1.0, 1.0)


@pytest.mark.parametrize(
    ("parameter", "value", "state", "said"),
    [
        (SHARE, 0.0, {}, ""),
        (SHARE, 1.0, {"active": True, "configured": True}, ""),
        (SHARE, -0.001, {}, "share is out of range (0 to 1): -0.001"),
        (SHARE, 1.001, {}, "share is out of range (0 to 1): 1.001"),
        (SHARE, float("nan"), {}, "share is not finite: give numbers"),
        (POSE, [0.5, -1.0, 1.0], {}, ""),
        (POSE, [0.5, -2.0], {}, "pose is out of range (-1 to 1): -2"),
        (POSE, [0.5, float("inf")], {}, "pose is not finite: give numbers"),
        (LAW, "b", {}, ""),
        (LAW, "c", {}, "law is 'c': choose from a, b"),
        (LAW, "b", {"configured": True}, "law takes effect when the node is configured: clean up first"),
        (LAW, "b", {"active": True}, "law takes effect when the node is configured: clean up first"),
        (COUNT, 4, {"configured": True}, ""),
        (COUNT, 4, {"active": True}, "count takes effect when the node is activated: deactivate first"),
    ],
)
def test_which_values_a_parameter_takes_and_when(parameter, value, state, said):
    assert parameter.problem(value, **state) == said


def test_descriptors_show_ranges_choices_and_when():
    share, count, law = SHARE.descriptor(), COUNT.descriptor(), LAW.descriptor()
    (range_,) = share.floating_point_range
    assert (range_.from_value, range_.to_value, share.description) == (0.0, 1.0, "a share")
    (range_,) = count.integer_range
    assert (range_.from_value, range_.to_value) == (1, 9)
    assert count.additional_constraints == "set it while the node is not active"
    assert law.additional_constraints == "one of a, b; set it while the node is unconfigured"
    assert law.read_only and not share.read_only and share.additional_constraints == ""
    assert not POSE.descriptor().floating_point_range, "of a list ROS has none"
