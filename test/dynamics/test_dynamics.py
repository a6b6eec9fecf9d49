# SPDX-License-Identifier: Apache-2.0

"""Torques, regressors and energies: against each other, against Pinocchio, and their refusals."""

from __future__ import annotations

import numpy as np
import pytest

from oracle import pin_model, pin_regressor, random_robot
from ros2_dynid.base_parameters.closed_form import placements
from ros2_dynid.dynamics import placement
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import frames, loop_motion
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics, velocity_torque
from ros2_dynid.dynamics.regressor import loop_regressor, regressor, regressor_d0
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import group_of, standard_names
from ros2_dynid.model.robot import Coupling, Joint, Passive, Robot

N = 7
CASES = [(seed, n, tree) for seed, (n, tree) in enumerate([(1, False), (3, False), (6, False), (5, True), (12, True)])]


def motion(rng, robot):
    return rng.normal(size=(3, N, len(robot.active)))


def columns(robot, *groups):
    return [k for k, name in enumerate(standard_names(robot)) if group_of(name) in groups]


@pytest.mark.parametrize(("seed", "n", "tree"), CASES)
def test_regressor_agrees_with_pinocchio(seed, n, tree):
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, n, tree=tree)
    q, dq, ddq = motion(rng, robot)
    theirs = pin_regressor(robot, q, dq, ddq)
    ours = regressor(robot, q, dq, ddq)[:, :, columns(robot, "inertial")]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize(("seed", "n", "tree"), CASES)
def test_frames_agree_with_pinocchio(seed, n, tree):
    import pinocchio as pin

    rng = np.random.default_rng(seed)
    robot = random_robot(rng, n, tree=tree)
    q = rng.normal(size=(N, n))
    model = pin_model(robot)
    data = model.createData()
    for sample, T in zip(q, frames(robot, q), strict=True):
        pin.forwardKinematics(model, data, sample)
        theirs = [placement.homogeneous for placement in data.oMi][1:]
        np.testing.assert_allclose(T, theirs, rtol=0, atol=1e-12 * n)


@pytest.mark.parametrize(("seed", "n", "tree"), CASES)
def test_inverse_dynamics_is_regressor_times_parameters(seed, n, tree):
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, n, tree=tree)
    q, dq, ddq = motion(rng, robot)
    chi = rng.normal(size=len(standard_names(robot)))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    np.testing.assert_allclose(regressor(robot, q, dq, ddq) @ chi, tau, rtol=0, atol=1e-12 * np.abs(tau).max())


@pytest.mark.parametrize(("seed", "n", "tree"), CASES)
def test_energy_changes_by_the_power_of_the_torque(seed, n, tree):
    """d/dt (h chi) = tau . dq, the derivative by central differences along the motion."""
    rng = np.random.default_rng(seed)
    robot = random_robot(rng, n, tree=tree)
    robot = Robot(robot.name, robot.joints, robot.gravity, robot.base, coupling=coupled(n))
    q, dq, ddq = motion(rng, robot)
    keep = columns(robot, "inertial", "rotor")
    chi = rng.normal(size=len(keep))
    step = 1e-5

    def H(s):
        return energy_regressor(robot, q + s * dq + s**2 / 2 * ddq, dq + s * ddq)[:, keep] @ chi

    power = np.einsum("tj,tj->t", regressor(robot, q, dq, ddq)[:, :, keep] @ chi, dq)
    np.testing.assert_allclose((H(step) - H(-step)) / (2 * step), power, rtol=0, atol=1e-7 * np.abs(power).max())


def coupled(n):
    return (Coupling(n, {n - 1: 0.5, n: 1.0}, independent_inertia=True),) if n > 1 else ()


def test_torque_is_inertia_plus_velocity_plus_gravity():
    rng = np.random.default_rng(4)
    robot = random_robot(rng, 5, tree=True)
    q, dq, ddq = motion(rng, robot)
    keep = columns(robot, "inertial", "rotor")
    chi = np.zeros(len(standard_names(robot)))
    chi[keep] = rng.normal(size=len(keep))
    M = inertia_matrix(robot, chi, q)
    np.testing.assert_allclose(M, M.transpose(0, 2, 1), rtol=0, atol=1e-12 * np.abs(M).max())
    parts = np.einsum("tij,tj->ti", M, ddq) + velocity_torque(robot, chi, q, dq) + gravity_torque(robot, chi, q)
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    np.testing.assert_allclose(parts, tau, rtol=0, atol=1e-12 * np.abs(tau).max())


def test_d0_is_the_regressor_at_rest():
    rng = np.random.default_rng(5)
    robot = random_robot(rng, 4)
    q, dq, ddq = motion(rng, robot)
    np.testing.assert_array_equal(regressor_d0(robot, q, ddq), regressor(robot, q, 0 * dq, ddq))


def test_coupling_columns_are_those_of_gautier_venture_2013():
    """tau5 += Ia6 ddq6 + Fvm6 dq6 + Fcm6 sign(dq5 + dq6), tau6 += Ia6 ddq5 + Fvm6 dq5 + Fcm6 sign(dq5 + dq6)."""
    joints = tuple(Joint(f"j{j}", j - 1, alpha=np.pi / 2 * (j % 2)) for j in range(1, 7))
    robot = Robot("coupled", joints, coupling=(Coupling(6, {5: 1.0, 6: 1.0}),))
    dq, ddq = np.arange(1.0, 7)[None] * [[1, -1, 1, 1, 1, -1]], np.arange(11.0, 17)[None]
    Y = dict(zip(standard_names(robot), regressor(robot, 0 * dq, dq, ddq)[0].T, strict=True))
    np.testing.assert_array_equal(Y["Ia6"], [0, 0, 0, 0, 16, 15 + 16])
    np.testing.assert_array_equal(Y["Fvm6"], [0, 0, 0, 0, -6, 5])
    np.testing.assert_array_equal(Y["Fcm6"], [0, 0, 0, 0, -1, -1])
    assert len(Y) == 86


def four_bar():
    """Joint 3 follows q1 - q2, as in a parallelogram."""
    joints = (Joint("a", 0), Joint("b", 1, d=0.4, alpha=0.3), Joint("c", 2, d=0.3, alpha=np.pi / 2))
    return Robot("loop", joints, passive=(Passive(3, {1: 1.0, 2: -1.0}, offset=0.2),))


def test_loop_is_the_tree_seen_through_the_constraint():
    rng = np.random.default_rng(6)
    robot = four_bar()
    tree = Robot("tree", robot.joints)
    qa, dqa, ddqa = rng.normal(size=(3, N, 2))
    G = np.array([[1.0, 0], [0, 1], [1, -1]])
    Y = regressor(tree, qa @ G.T + [0, 0, 0.2], dqa @ G.T, ddqa @ G.T)
    np.testing.assert_allclose(regressor(robot, qa, dqa, ddqa), np.einsum("jk,tjc->tkc", G, Y), rtol=0, atol=1e-13)
    chi = rng.normal(size=len(standard_names(robot)))
    np.testing.assert_allclose(
        inverse_dynamics(robot, chi, qa, dqa, ddqa), regressor(robot, qa, dqa, ddqa) @ chi, rtol=0, atol=1e-12
    )


def test_nonlinear_loop_keeps_the_energy_balance():
    """With q3 = sin(q1) q2 the second derivative of the constraint has to enter: d/dt (h chi) = tau_a . dq_a."""
    rng = np.random.default_rng(7)
    tree = Robot("tree", four_bar().joints)
    keep = columns(tree, "inertial", "rotor")
    chi = rng.normal(size=len(keep))
    qa, dqa, ddqa = rng.normal(size=(3, N, 2))

    def q_of(qa):
        return np.column_stack((qa, np.sin(qa[:, 0]) * qa[:, 1]))

    def G_of(qa):
        G = np.zeros((len(qa), 3, 2))
        G[:, 0, 0] = G[:, 1, 1] = 1.0
        G[:, 2, 0], G[:, 2, 1] = np.cos(qa[:, 0]) * qa[:, 1], np.sin(qa[:, 0])
        return G

    step = 1e-5
    Gdot = (G_of(qa + step * dqa) - G_of(qa - step * dqa)) / (2 * step)
    loop = loop_motion(q_of(qa), G_of(qa), dqa, ddqa, np.einsum("tjk,tk->tj", Gdot, dqa))
    power = np.einsum("tj,tj->t", loop_regressor(tree, loop)[:, :, keep] @ chi, dqa)

    def H(s):
        qs, dqs = qa + s * dqa + s**2 / 2 * ddqa, dqa + s * ddqa
        return energy_regressor(tree, q_of(qs), np.einsum("tjk,tk->tj", G_of(qs), dqs))[:, keep] @ chi

    np.testing.assert_allclose((H(step) - H(-step)) / (2 * step), power, rtol=0, atol=1e-7 * np.abs(power).max())


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (np.zeros((3, 2)), "shape (3, 2)"),
        (np.zeros(3), "shape (3,)"),
        (np.array([[0.0, np.nan, 0.0]]), "joint 'b' is not finite"),
    ],
)
def test_bad_motion_is_refused(q, message):
    robot = Robot("tree", four_bar().joints)
    with pytest.raises(InputError) as error:
        regressor(robot, q, q, q)
    assert message in str(error.value)


def test_motions_of_different_length_and_loops_that_do_not_fit_are_refused():
    robot = Robot("tree", four_bar().joints)
    for shapes in ((3, 2, 3), (3, 3, 2), (2, 3, 3)):
        with pytest.raises(InputError, match="q, dq and ddq have shapes"):
            regressor(robot, *(np.zeros((count, 3)) for count in shapes))
    fitting = {"q": (4, 3), "G": (4, 3, 2), "dq_active": (4, 2), "ddq_active": (4, 2), "Gdot_dq": (4, 3)}
    loop_motion(*(np.zeros(shape) for shape in fitting.values()))
    for name in ("q", "dq_active", "ddq_active", "Gdot_dq"):
        for wrong in ((4, 4), (5, fitting[name][1])):
            with pytest.raises(InputError, match="the motion does not fit it"):
                loop_motion(*(np.zeros(shape) for shape in (fitting | {name: wrong}).values()))


def test_long_batches_are_their_pieces():
    robot = Robot("tree", four_bar().joints[:2], gravity=np.array((1.0, -2.0, -9.0)))
    count = 2 * placement.CHUNK + 3
    q, dq, ddq = np.random.default_rng(1).normal(size=(3, count, 2))
    chi = np.random.default_rng(2).normal(size=28)
    pieces = [slice(k, min(k + 500, count)) for k in range(0, count, 500)]
    for whole in (regressor, lambda *row: inverse_dynamics(robot, chi, *row[1:])):
        found = whole(robot, q, dq, ddq)
        parts = np.concatenate([whole(robot, q[part], dq[part], ddq[part]) for part in pieces])
        np.testing.assert_allclose(found, parts, rtol=0, atol=1e-12)
    assert [(part.start, part.stop) for part in placement.chunks(placement.CHUNK + 1)] == [
        (0, placement.CHUNK), (placement.CHUNK, placement.CHUNK + 1)]  # fmt: skip
    assert list(placement.chunks(0)) == []


def test_wrong_number_of_parameters_is_refused():
    robot = four_bar()
    with pytest.raises(InputError, match=r"chi has shape \(42, 1\)"):
        inverse_dynamics(robot, np.zeros((42, 1)), *np.zeros((3, 1, 2)))
    with pytest.raises(InputError, match="all 42 standard parameters"):
        inverse_dynamics(robot, np.zeros(14), *np.zeros((3, 1, 2)))


def alpha_of_recursion(angle):
    return placement.place(Joint("a", 0, alpha=angle), np.zeros(1)).alpha


def alpha_of_closed_form(angle):
    T = placements(Robot("r", (Joint("a", 0, alpha=angle),)))[0]
    return T[2, 2], T[2, 1]


@pytest.mark.parametrize("cos_sin", [alpha_of_recursion, alpha_of_closed_form])
def test_right_angles_are_exact_and_no_others(cos_sin):
    """The 6e-17 of cos(pi/2) would invent base parameters; a misalignment of 1e-10 is one."""
    exact = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
    for k in range(-9, 10):
        assert tuple(cos_sin(k * np.pi / 2)) == exact[k % 4]
        for off in (-1e-10, 1e-10, 0.3):
            found = tuple(float(x) for x in cos_sin(k * np.pi / 2 + off))
            assert found == (np.cos(k * np.pi / 2 + off), np.sin(k * np.pi / 2 + off)) and found != exact[k % 4]
