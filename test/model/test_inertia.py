# SPDX-License-Identifier: Apache-2.0

"""Inertias of bodies: as standard parameters in the frame of a joint, and as matrices."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import Inertia, central_inertia, link_inertia, links_of, pseudo_inertia
from ros2_dynid.model.parameters import (
    by_joint,
    link_slice,
    split_name,
)
from ros2_dynid.model.robot import Joint, Robot


@pytest.mark.parametrize(
    ("moments", "fault"),
    [
        ((1.0, 1.0, 1.0), None),
        ((1.0, 1.0, 2.0), None),  # a disc
        ((1.0, 1.0, 2.0 + 1e-6), None),
        ((1.0, 1.0, 2.0 + 1e-5), "triangle"),
        ((2.0 + 1e-5, 1.0, 1.0), "triangle"),
        ((0.0, 1.0, 1.0), None),  # a rod
        ((-1e-7, 1.0, 1.0), None),
        ((-1e-5, 1.0, 1.0), "negative"),
        ((1.0, -1e-5, 1.0), "negative"),
    ],
)
@pytest.mark.parametrize("centre", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.1)])
def test_bodies_that_cannot_be(moments, fault, centre):
    found = Inertia.at_centre_of_mass(2.0, np.array(centre), np.diag(moments)).fault()
    assert (found is None) == (fault is None) and (fault is None or fault in found)


def test_bodies_without_mass():
    assert Inertia(0.0, np.zeros(3), np.zeros((3, 3))).fault() is None
    assert Inertia(0.0, np.zeros(3), np.diag([0.0, 0.1, 0.0])).fault() == "inertia without mass"


JOINTS = tuple(Joint(f"j{k + 1}", k, d=0.1 * k) for k in range(4))


def test_pseudo_inertia_is_the_sum_over_points_of_mass():
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(7, 3)), rng.uniform(0.1, 1.0, 7)
    J = sum(w * (p @ p * np.eye(3) - np.outer(p, p)) for w, p in zip(m, x, strict=True))
    h, M = m @ x, m.sum()
    ten = np.array([J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *h, M])
    np.testing.assert_allclose(link_inertia(ten), J)
    ones = np.column_stack((x, np.ones(7)))
    np.testing.assert_allclose(pseudo_inertia(ten), (ones * m[:, None]).T @ ones)
    c = h / M
    central = sum(w * ((p - c) @ (p - c) * np.eye(3) - np.outer(p - c, p - c)) for w, p in zip(m, x, strict=True))
    np.testing.assert_allclose(central_inertia(ten), central)
    for mass in (0.0, -1.0):
        assert central_inertia(np.array([*ten[:9], mass])) is None
    chi = np.arange(14.0 * 4)
    robot = Robot("r", JOINTS)
    np.testing.assert_array_equal(links_of(robot, chi)[2], chi[28:38])
    assert link_slice(2) == slice(28, 38) and link_slice(0) == slice(0, 10)
    np.testing.assert_array_equal(by_joint(robot, np.append(chi, 99.0)), chi.reshape(4, 14))
    assert split_name("ZZ12") == ("ZZ", 12)
    for wrong in ("ZZ", "ZZ0", "1ZZ", "ZZ1x"):
        with pytest.raises(InputError, match="not a parameter name"):
            split_name(wrong)
