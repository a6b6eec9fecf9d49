# SPDX-License-Identifier: Apache-2.0

"""Which way gravity points: thresholds, and estimates of motions with gravity in any direction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.validation.effort_sign_and_unit import SampledMotion
from ros2_dynid.identification.validation.mounting import Mounting, estimate_mounting
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity

ROBOT = load_robot("demo3")
PARAMETERS = standard_names(ROBOT)


@pytest.mark.parametrize(
    ("error", "described", "angle", "brakes", "wrong", "certain"),
    [
        (0.1, 0.9, 90.0, True, True, True),
        (0.1, 0.9, 20.0, True, False, False),  # what wrong masses may do
        (0.4, 0.9, 90.0, True, True, False),  # poor masses
        (0.65, 1.0, 90.0, True, False, False),  # they explain nothing
        (0.1, 0.13, 90.0, True, False, False),  # the description is as good
        (0.1, 0.9, 178.0, True, True, True),  # on the ceiling
        (0.1, 0.9, 178.0, False, False, False),  # all efforts reversed
        (0.1, 0.9, 120.0, False, True, True),
        (0.1, 0.9, 24.0, True, False, False),
        (0.1, 0.9, 26.0, True, True, True),
        (0.1, 0.9, 154.0, False, True, True),
        (0.1, 0.9, 156.0, False, False, False),
        (0.1, 0.9, 156.0, True, True, True),
        (0.1, 0.141, 90.0, True, False, False),
        (0.1, 0.144, 90.0, True, True, True),
        (0.59, 0.95, 90.0, True, True, False),
        (0.61, 0.95, 90.0, True, False, False),
        (0.34, 0.9, 90.0, True, True, True),
        (0.36, 0.9, 90.0, True, True, False),
    ],
)
def test_mounting(error, described, angle, brakes, wrong, certain):
    found = Mounting((0.0, 9.81, 0.0), error, described, angle, brakes)
    assert (found.is_wrong(), found.is_certain()) == (wrong, certain)


def rubbing(size=2.0):
    chi = standard_vector(ROBOT)
    for j in (1, 2, 3):
        for part in ("Ia", "Fv", "Fc"):
            chi[PARAMETERS.index(f"{part}{j}")] = size * j
    return chi


def true_chi(friction=1.0):
    chi, names = standard_vector(ROBOT), PARAMETERS
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = friction, friction
    return chi


@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (0.0, 0.0, 9.81), (6.9, 0.0, -6.9), (0.0, 9.81, 0.0)])
def test_gravity_is_found_whatever_the_size_of_the_motion_torque(gravity):
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(with_gravity(ROBOT, gravity), true_chi(), q, dq, ddq)
    found = estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    angle = np.degrees(
        np.arccos(np.dot(gravity, ROBOT.gravity) / np.linalg.norm(gravity) / np.linalg.norm(ROBOT.gravity))
    )
    np.testing.assert_allclose(found.gravity, np.array(gravity) * 9.81 / np.linalg.norm(gravity), atol=0.3)
    assert found.error < 0.1 and found.brakes and found.angle == pytest.approx(angle, abs=2.0)
    assert found.is_wrong() == found.is_certain() == (angle > 25.0)
    assert (found.described < 0.1) == (angle < 25.0) and found.described < 1.0 + 1e-9
    backward = estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, -tau))
    assert not backward.brakes and backward.angle == pytest.approx(180.0 - angle, abs=2.0)
    smooth = inverse_dynamics(
        with_gravity(ROBOT, gravity),
        np.where([n[:2] in ("Fv", "Fc", "of") for n in PARAMETERS], 0.0, standard_vector(ROBOT)),
        q,
        dq,
        ddq,
    )
    assert estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, smooth)).brakes, "of inertia, where there is no friction"
    assert not estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, -smooth)).brakes
    for unit in (1e-6, 1e6):  # nothing depends on the unit of the effort
        for effort, wanted in ((tau, found), (-tau, backward)):
            other = estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, unit * effort))
            assert (other.brakes, other.is_wrong(), other.gravity) == (wanted.brakes, wanted.is_wrong(), wanted.gravity)
            assert other.described == pytest.approx(wanted.described, rel=1e-6)
        for sign in (1.0, -1.0):
            assert estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, sign * unit * smooth)).brakes == (sign > 0.0)


def test_mounting_is_not_told_without_masses_gravity_or_motion():
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(ROBOT, true_chi(), q, dq, ddq)
    motion = SampledMotion(q, dq, ddq, tau)
    assert estimate_mounting(replace(ROBOT, parameters={}), motion) is None
    assert estimate_mounting(replace(ROBOT, gravity=np.zeros(3)), motion) is None
    assert estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, 0.0 * tau)) is None
    one = q * np.array([1.0, 1e-4, 1e-4])
    assert estimate_mounting(ROBOT, SampledMotion(one, dq, ddq, tau)) is None


def test_a_robot_that_stands_still_in_an_upright_direction_has_gravity_of_its_own_size():
    """The direction is found; its size is that of the description, of the moon too."""
    q, dq, ddq = slow_motion(2)
    moon = replace(ROBOT, gravity=np.array([0.0, 0.0, -1.62]))
    tau = inverse_dynamics(with_gravity(ROBOT, (1.62, 0.0, 0.0)), rubbing(), q, dq, ddq)
    found = estimate_mounting(moon, SampledMotion(q, dq, ddq, tau))
    assert found.gravity == (1.62, 0.0, 0.0) and found.angle == pytest.approx(90.0, abs=2.0) and found.is_wrong()


def test_drives_and_offsets_are_fitted_and_their_description_is_not_believed():
    """Rotors, friction and offsets of any size explain themselves; those described play no part."""
    q, dq, ddq = slow_motion(2)
    drives = [k for k in range(len(PARAMETERS)) if PARAMETERS[k][:2] in ("Ia", "Fv", "Fc", "of")]
    chi = standard_vector(ROBOT)
    chi[drives] = np.linspace(1.0, 20.0, len(drives))
    fast = np.all(np.abs(dq) > 0.2 * np.abs(dq).max(axis=0), axis=1)  # friction is its sign times a constant there
    q, dq, ddq = q[fast], dq[fast], ddq[fast]
    motion = SampledMotion(q, dq, ddq, inverse_dynamics(ROBOT, chi, q, dq, ddq))
    plain = estimate_mounting(ROBOT, motion)
    assert plain.error < 0.02 and plain.described < 0.02 and not plain.is_wrong()
    claims = dict(zip(PARAMETERS, chi * np.where(np.isin(np.arange(len(chi)), drives), -3.0, 1.0), strict=True))
    assert estimate_mounting(replace(ROBOT, parameters=claims), motion) == plain


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_friction_brakes_whatever_rotors_and_offsets_do(sign):
    """A motion that speeds up: rotors and offsets take much power, and give it where it slows down."""
    rng = np.random.default_rng(0)
    q, dq = rng.uniform(-1.5, 1.5, (2, 400, 3))
    for ahead in (3.0, -3.0):
        moved = dq + 0.5
        ddq = ahead * moved + rng.normal(size=dq.shape)
        chi = standard_vector(ROBOT)
        for j in (1, 2, 3):
            for part, value in (("Ia", 5.0), ("off", 4.0 * ahead), ("Fv", sign), ("Fc", sign)):
                chi[PARAMETERS.index(f"{part}{j}")] = value
        tau = inverse_dynamics(ROBOT, chi, q, moved, ddq)
        assert estimate_mounting(ROBOT, SampledMotion(q, moved, ddq, tau)).brakes == (sign > 0.0)


def test_errors_are_shares_of_what_drives_leave():
    """By one stacked least-squares problem: gravity along three axes, the motion, and the columns of each joint."""
    q, dq, ddq = slow_motion(3, 400)
    rng = np.random.default_rng(0)
    chi = np.where([name[:2] in ("Fv", "Fc", "of") for name in PARAMETERS], 0.0, standard_vector(ROBOT))
    chi[[k for k, name in enumerate(PARAMETERS) if name[:2] == "Ia"]] = 0.0
    tau = inverse_dynamics(with_gravity(ROBOT, (0.0, 9.81, 0.0)), rubbing(), q, dq, ddq)
    tau = tau + 0.3 * tau.std(axis=0) * rng.normal(size=tau.shape)
    found = estimate_mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    still = np.zeros_like(q)
    G = [inverse_dynamics(replace(ROBOT, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)]
    D = inverse_dynamics(replace(ROBOT, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    own = []
    for j in range(3):
        for column in (np.tanh(20.0 * dq / np.abs(dq).max(axis=0)), dq, ddq, np.ones_like(dq)):
            own.append(np.where(np.arange(3) == j, column, 0.0).ravel())

    def left(columns):
        A = np.column_stack(columns)
        return np.linalg.norm(tau.ravel() - A @ np.linalg.lstsq(A, tau.ravel(), rcond=None)[0])

    there = left(own)
    assert found.error == pytest.approx(left([*own, *G, D]) / there, rel=1e-6)
    g = np.column_stack(G) @ ROBOT.gravity
    assert found.described == pytest.approx(min(left([*own, g, D]), left([*own, D])) / there, rel=1e-6)
    value = np.linalg.lstsq(np.column_stack([*own, *G, D]), tau.ravel(), rcond=None)[0][-4:-1]
    angle = np.degrees(np.arccos(value @ ROBOT.gravity / np.linalg.norm(value) / np.linalg.norm(ROBOT.gravity)))
    assert found.angle == pytest.approx(angle, rel=1e-6)
