# SPDX-License-Identifier: Apache-2.0

"""Jacobians, momentum, coupled drives and friction terms: identities that need nobody else's code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.dynamics.energy import energy_regressor, momentum
from ros2_dynid.dynamics.friction import LOCKED, active_terms, carried_torque, frictionless, term_column, terms_torque
from ros2_dynid.dynamics.kinematics import frames, jacobian
from ros2_dynid.dynamics.newton_euler import inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.mdh import cos_sin, rotation_rpy, snap_angle, transform
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Coupling, Passive

POSE = transform(rotation_rpy(0.3, -0.8, 1.1), np.array((0.05, -0.2, 0.1)))


def made(seed, *, coupled=True, loop=False):
    """A branching robot with sliding joints, coupled motors that turn either way, and a passive joint if asked for."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 6, tree=seed % 2 == 0, prismatic=0.4)
    coupling = (
        Coupling(2, {2: 1.0, 4: -0.5}, independent_inertia=seed % 3 == 0),
        Coupling(5, {5: -1.5, 6: 0.7, 1: 0.3}, independent_inertia=seed % 3 == 1),
    )
    passive = (Passive(3, {1: 0.8, 4: -1.2}, 0.4),) if loop else ()
    robot = replace(
        robot, coupling=coupling if coupled else (), passive=passive, tools={"hand": (6, POSE), "foot": (0, POSE)}
    )
    chi = rng.normal(size=len(standard_names(robot)))
    q, dq, ddq = rng.normal(size=(3, 5, len(robot.active)))
    return robot, chi, q, dq, ddq


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_jacobian_is_the_motion_of_the_link(seed, loop):
    robot, _, q, *_ = made(seed, loop=loop)

    def hand(q):
        return frames(robot, q)[:, 5] @ POSE

    J = jacobian(robot, q, "hand")
    T = hand(q)
    for k in range(q.shape[1]):
        step = np.zeros_like(q)
        step[:, k] = 1e-6
        D = (hand(q + step) - hand(q - step)) / 2e-6
        local = np.linalg.inv(T) @ D  # [w]x and v in the link's own frame
        w = np.stack((local[:, 2, 1], local[:, 0, 2], local[:, 1, 0]), axis=1)
        np.testing.assert_allclose(J[:, :3, k], local[:, :3, 3], atol=1e-7)
        np.testing.assert_allclose(J[:, 3:, k], w, atol=1e-7)
    assert not jacobian(robot, q, "foot").any(), "fixed to the base"
    with pytest.raises(InputError, match="no link 'head'; choose from hand, foot"):
        jacobian(robot, q, "head")


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_momentum_is_inertia_times_speed_and_changes_with_the_torque(seed, loop):
    robot, chi, q, dq, ddq = made(seed, loop=loop)
    rubbing = momentum(robot, chi, q, dq)
    robot, chi = frictionless(robot, chi)
    p, beta = momentum(robot, chi, q, dq)
    np.testing.assert_allclose(rubbing, (p, beta), rtol=1e-12, atol=1e-12, err_msg="friction has no part in it")
    np.testing.assert_allclose(p, np.einsum("tij,tj->ti", inertia_matrix(robot, chi, q), dq), rtol=1e-9, atol=1e-9)
    h = 1e-5
    ahead, behind = (momentum(robot, chi, q + s * h * dq + 0.5 * h**2 * ddq, dq + s * h * ddq)[0] for s in (1, -1))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    np.testing.assert_allclose((ahead - behind) / (2 * h), beta + tau, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_coupled_drives_have_the_torque_of_their_columns(seed, loop):
    robot, chi, q, dq, ddq = made(seed, loop=loop)
    W = regressor(robot, q, dq, ddq)
    np.testing.assert_allclose(inverse_dynamics(robot, chi, q, dq, ddq), (W @ chi), rtol=1e-9, atol=1e-9)
    # by hand: a motor feels the sum of its joints' motions; at its own joints only what the others bring
    if loop:
        return
    plain = replace(robot, coupling=())
    bare = chi[: len(standard_names(plain))]
    wanted = inverse_dynamics(plain, bare, q, dq, ddq)
    place = {name: k for k, name in enumerate(standard_names(robot))}
    for coupling in robot.coupling:
        k = coupling.motor
        Ia = chi[place[f"Iam{k}" if coupling.independent_inertia else f"Ia{k}"]]
        Fv, Fc = chi[place[f"Fvm{k}"]], chi[place[f"Fcm{k}"]]
        total = sum(c * dq[:, j - 1] for j, c in coupling.weights.items())
        for j, c in coupling.weights.items():
            others = [(x, w) for x, w in coupling.weights.items() if x != j]
            acceleration = sum(w * ddq[:, x - 1] for x, w in others)
            speed = sum(w * dq[:, x - 1] for x, w in others)
            wanted[:, j - 1] += c * (Ia * acceleration + Fv * speed + Fc * np.sign(total))
    np.testing.assert_allclose(inverse_dynamics(robot, chi, q, dq, ddq), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_kinetic_energy_is_half_the_momentum_times_the_speed(seed):
    robot, chi, q, dq, _ = made(seed)
    robot, chi = frictionless(robot, chi)
    robot = replace(robot, gravity=np.zeros(3))
    p, _ = momentum(robot, chi, q, dq)
    energy = energy_regressor(robot, q, dq) @ chi - energy_regressor(robot, q, 0 * dq) @ chi
    np.testing.assert_allclose(energy, 0.5 * np.sum(p * dq, axis=1), rtol=1e-9)


# --- friction terms


def test_every_term_has_its_formula():
    v, load = np.array([-2.0, -0.3, 0.4, 1.5]), np.array([-5.0, 6.0, -7.0, 8.0])
    T = np.array([20.0, np.nan, 35.0, 50.0])
    sign, warm = np.sign(v), np.array([-5.0, 0.0, 10.0, 25.0])
    terms = {
        FrictionKind.ASYMMETRIC: ({}, np.abs(v)),
        FrictionKind.CUBIC: ({}, v**3),
        FrictionKind.ROOT: ({}, sign * np.sqrt(np.abs(v))),
        FrictionKind.STRIBECK: ({"speed": 0.7}, sign * np.exp(-((v / 0.7) ** 2))),
        FrictionKind.LOAD: ({}, sign * np.abs(load)),
        FrictionKind.LOAD_VISCOUS: ({}, v * np.abs(load)),
        FrictionKind.POWER: ({"exponent": 0.6}, sign * np.abs(v) ** 0.6),
        FrictionKind.TEMPERATURE: ({"reference": 25.0}, sign * warm),
        FrictionKind.TEMPERATURE_VISCOUS: ({"reference": 25.0}, v * warm),
    }
    assert set(terms) == set(FrictionKind)
    for kind, (shape, wanted) in terms.items():
        term = FrictionTerm(1, kind, 1.0, **shape)
        np.testing.assert_allclose(term_column(term, v, sign, load, T), wanted, err_msg=kind.name)
        assert term.shape == (shape.get("speed", 0.0) or shape.get("exponent", 0.0))
        if kind in (FrictionKind.TEMPERATURE, FrictionKind.TEMPERATURE_VISCOUS):
            assert not term_column(term, v, sign, load).any(), "nobody knows how warm it is"


@pytest.mark.parametrize(
    ("kind", "shape"), [(FrictionKind.STRIBECK, {"speed": 0.7}), (FrictionKind.POWER, {"exponent": 0.6})]
)
def test_a_column_of_the_shape_is_the_slope_of_the_term(kind, shape):
    v = np.array([-2.0, -0.3, 0.4, 1.5])
    name, value = next(iter(shape.items()))

    def column(x):
        return term_column(FrictionTerm(1, kind, 1.0, **{name: x}), v, np.sign(v), v)

    slope = (column(value + 1e-6) - column(value - 1e-6)) / 2e-6 * (value if name == "speed" else 1.0)
    found = term_column(FrictionTerm(1, kind, 1.0, of_shape=True, **shape), v, np.sign(v), v)
    np.testing.assert_allclose(found, slope, rtol=1e-6)
    still = term_column(FrictionTerm(1, kind, 1.0, of_shape=True, **shape), np.zeros(1), np.zeros(1), np.zeros(1))
    assert not still.any()


@pytest.mark.parametrize("seed", range(3))
def test_what_the_terms_leave_is_what_they_brake(seed):
    """x + terms(x) = tau, in either direction of torque and motion, of the right joint."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, 3)
    terms = (
        FrictionTerm(1, FrictionKind.LOAD, 0.3),
        FrictionTerm(3, FrictionKind.LOAD, 0.2),
        FrictionTerm(3, FrictionKind.LOAD_VISCOUS, 0.1),
        FrictionTerm(2, FrictionKind.CUBIC, 0.5),
        FrictionTerm(3, FrictionKind.TEMPERATURE, 0.05, reference=20.0),
    )
    robot = replace(robot, friction=terms)
    assert [(k, term.joint) for k, term in active_terms(robot, terms)] == [(t.joint - 1, t.joint) for t in terms]
    dq, tau, T = rng.normal(size=(40, 3)), 20 * rng.normal(size=(40, 3)), rng.uniform(10, 40, (40, 3))
    for temperature in (None, T):
        x = carried_torque(robot, tau, dq, np.sign(dq), temperature)
        np.testing.assert_allclose(x + terms_torque(robot, dq, np.sign(dq), x, temperature), tau, rtol=1e-9, atol=1e-9)
        assert np.any(x > 0) and np.any(x < 0)
    locked = replace(robot, friction=(FrictionTerm(2, FrictionKind.LOAD, 3.0),))
    still = np.ones((2, 3))
    for side in (-1.0, 1.0):
        x = carried_torque(locked, side * 10.0 * still, still, still)
        np.testing.assert_allclose(x[:, 1], side * 10.0 / (1 + side * LOCKED))
        x = carried_torque(locked, side * 10.0 * still, -still, -still)
        np.testing.assert_allclose(x[:, 1], side * 10.0 / (1 - side * LOCKED))
    assert LOCKED == 0.95


def test_angles_snap_to_right_ones_and_their_sines_are_exact():
    exact = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
    for k in range(-5, 6):
        right = k * (np.pi / 2)
        assert cos_sin(right) == exact[k % 4]
        assert cos_sin(right + 1e-9) == (np.cos(right + 1e-9), np.sin(right + 1e-9))
        assert snap_angle(right + 0.9e-3, 1e-3) == right == snap_angle(right - 0.9e-3, 1e-3)
        assert snap_angle(right + 1.1e-3, 1e-3) == right + 1.1e-3
