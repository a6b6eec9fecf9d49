# SPDX-License-Identifier: Apache-2.0

"""Fields of services that are known by name alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")
from ros2_dynid.srv import SetPayload
from std_msgs.msg import Float64MultiArray

from ros2_dynid.errors import InputError
from ros2_dynid.nodes.payload_bridge.node import check_path, get_path, set_path

pytestmark = pytest.mark.in_process


def test_fields_are_set_and_read_by_path():
    message = SetPayload.Request()
    set_path(message, "payload.com.y", 0.5)
    set_path(message, "link", "tool")
    assert (message.payload.com.y, message.link) == (0.5, "tool")
    assert get_path(message, "payload.com.y") == 0.5 and get_path(message, "link") == "tool"
    values = Float64MultiArray()
    set_path(values, "data", (1.0, 2.0, 3.0))
    assert get_path(values, "data") == (1.0, 2.0, 3.0)
    check_path(Float64MultiArray, "data", "com")
    check_path(Float64MultiArray, "data", "inertia")
    check_path(SetPayload.Request, "link", "link")
    for kind, path, figure in (
        (Float64MultiArray, "data", "mass"),
        (SetPayload.Request, "payload.m", "link"),
        (SetPayload.Request, "payload.m", "com"),
    ):
        with pytest.raises(InputError, match="cannot hold"):
            check_path(kind, path, figure)


@pytest.mark.parametrize(
    ("figure", "fits"),
    [
        ("mass", ("double", "float", "float64", "float32")),
        ("link", ("string",)),
        ("com", ("double[3]", "float[3]", "sequence<double>", "sequence<float>")),
        ("inertia", ("double[9]", "float[9]", "sequence<double>", "sequence<float>")),
    ],
)
def test_a_figure_goes_where_there_is_room_for_all_of_it(figure, fits):
    others = ("int32", "boolean", "double[6]", "double[12]", "sequence<double, 3>", "geometry_msgs/Vector3")
    for field in {*fits, *others, "double", "string", "double[3]", "double[9]", "sequence<float>"}:
        kind = SimpleNamespace(get_fields_and_field_types=lambda field=field: {"value": field})
        if field in fits:
            check_path(lambda kind=kind: kind, "value", figure)
        else:
            with pytest.raises(InputError, match="cannot hold"):
                check_path(lambda kind=kind: kind, "value", figure)
