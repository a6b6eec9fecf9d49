# SPDX-License-Identifier: Apache-2.0

"""Reorder values of named joints; the only place that does."""

from __future__ import annotations

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_order import joint_order


def test_values_in_another_order():
    assert joint_order(("a", "b", "c"), ("c", "a", "b")) == [1, 2, 0]
    assert joint_order(("a",), ["a"]) == [0]
    for given in (("c", "a"), ("a", "b", "c", "d"), ("a", "b", "b"), ("a", "b", "x"), ("a", "b", "c", "c"), ()):
        with pytest.raises(InputError, match="it must name the joints a, b, c"):
            joint_order(("a", "b", "c"), given)
    with pytest.raises(InputError, match=r"there: .*the reference"):
        joint_order(("a",), ("b",), "reference", "there")
