# SPDX-License-Identifier: Apache-2.0

"""Predicted torque beside the measured one."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.msg")
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from ros2_dynid.nodes.common.predicted import _names, _spread


def test_predicted_efforts_stand_where_the_measured_ones_do():
    def data(*names):
        return bytes(serialize_message(JointState(name=list(names))))

    assert _names(data("x", "b", "a"), ("a", "b")) == ["x", "b", "a"]
    assert _names(data("b"), ("a", "b")) == ["a", "b"], "a part of them"
    assert _names(data("a", "b", "a"), ("a", "b")) == ["a", "b"], "a name twice"
    spread = _spread(np.array([1.0, 2.0]), [2, 0], 4)
    assert isinstance(spread, array)
    np.testing.assert_array_equal(spread, [2.0, np.nan, 1.0, np.nan])
