# SPDX-License-Identifier: Apache-2.0

"""A URDF as frozen data: links with their inertias, joints with their origins, read by urdf_parser_py."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.urdf import clean_urdf, name_list, parse_urdf
from urdf_text import joint, link, urdf


def test_names_in_one_line():
    assert name_list("joint", ["a"]) == "joint 'a'" and name_list("joint", "ab") == "joints 'a', 'b'"
    assert name_list("link", range(7)) == "links 0, 1, 2, 3, 4, 5 and 1 more"
    assert name_list("link", range(6)).endswith("5") and name_list("link", range(3), 2) == "links 0, 1 and 1 more"


@pytest.mark.parametrize("size", [1e-13, 1e-11])
def test_an_axis_needs_a_direction(size):
    text = urdf(link("b"), link("a"), joint("j", "b", "a", axis=f"0 {size} 0"))
    if size < 1e-12:
        with pytest.raises(InputError, match="zero axis"):
            clean_urdf(text, "f")
    else:
        np.testing.assert_allclose(parse_urdf(text).joints["j"].axis, [0.0, 1.0, 0.0])


def test_the_axis_of_a_joint_that_names_none_and_unit_length():
    for axis, wanted in (("3 0 4", [0.6, 0.0, 0.8]), ("0 0 -7", [0.0, 0.0, -1.0])):
        found = parse_urdf(urdf(link("b"), link("a"), joint("j", "b", "a", axis=axis))).joints["j"].axis
        np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_links_with_a_shape_are_known():
    shapes = '<link name="b"><visual/></link><link name="c"><collision/></link>'
    joints = [joint(f"j{k}", *pair) for k, pair in enumerate((("a", "b"), ("b", "c"), ("c", "d")))]
    found = clean_urdf(urdf(link("a"), shapes, link("d"), *joints), "x.urdf")
    assert found.solid == {"b", "c"}
