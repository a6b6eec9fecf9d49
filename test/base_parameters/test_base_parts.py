# SPDX-License-Identifier: Apache-2.0

"""The parts of the computation, each against a plain way to the same: units, transfers, samples, scaling, noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import random_robot, screw
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.closed_form import (
    AXIS,
    DRIFT,
    FLOW,
    SPATIAL_INERTIA,
    RankMargin,
    gravity_reach,
    placements,
    rank_warnings,
    span,
    transfer_matrix,
    twists_to_child,
    units,
)
from ros2_dynid.base_parameters.identifiability import identifiability
from ros2_dynid.base_parameters.minimal_combinations import axis_before, minimal_combinations
from ros2_dynid.base_parameters.numeric import (
    TILTS,
    by_qr,
    comparable,
    in_column_order,
    model_rows,
    natural_units,
    points_needed,
    random_points,
    row_units,
    typical_length,
    without_effect,
)
from ros2_dynid.base_parameters.result import build, chosen_names, noise_level, preference, tidy
from ros2_dynid.base_parameters.scaling import criterion, scaled_points
from ros2_dynid.base_parameters.symbols import Polynomial, fit_polynomials, length_symbols, set_lengths, symbolic_terms
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.regressor import regressor, regressor_d0
from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.inertia import link_inertia
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, Coupling, Joint, Passive, Robot

QUARTER = np.pi / 2
JOINTS = (
    Joint("a", 0, r=0.3),
    Joint("b", 1, alpha=QUARTER, d=0.2, theta=0.3),
    Joint("c", 2, PRISMATIC, alpha=0.4, d=0.5, r=-0.1),
    Joint("d", 1, alpha=0.9, d=0.5, r=0.1, gamma=0.7, b=-0.2),
)
FORCES = (
    Force("s", ForceKind.SPRING, (0, 1), {1: 1.0, 2: -0.5}, rest=0.1),
    Force("strut", ForceKind.CYLINDER, (0, 1, 2), {}, (Pivot(4, (0.1, 0.2, -0.3)), Pivot(3, (0.1, -0.2, 0.3))), 0.4),
    Force("hose", ForceKind.CABLE, (1, 3), {4: 1.0}),
    Force("slide", ForceKind.CABLE, (1, 3), {3: 1.0}, rest=0.2),
    Force("balancer", ForceKind.CYLINDER, (0, 1), {}, (Pivot(0, (0.1, 0.2, -0.3)), Pivot(2, (0.1, -0.2, 0.3))), 0.4),
)


def elastic(**more) -> Robot:
    return Robot("elastic", JOINTS, forces=FORCES, **more)


# --- units and transfers ----------------------------------------------------------------------------------------------


def dimension(robot, name):
    """Return kg, m and s of a parameter: exponents read off its unit."""
    kind = name.rstrip("0123456789")
    number = int(name[len(kind) :])
    torque, force = (1, 2, -2), (1, 1, -2)
    if kind in ("Kf", "Ks", "Kq", "Kc"):
        element, power = robot.forces[number - 1], ("Kf", "Ks", "Kq", "Kc").index(kind)
        slides = element.kind is ForceKind.CYLINDER or robot.joints[min(element.weights) - 1].sigma == PRISMATIC
        return (1, 1 - power, -2) if slides else torque
    slides = robot.joints[number - 1].sigma == PRISMATIC
    if kind in ("Ia", "Iam"):
        return (1, 0, 0) if slides else (1, 2, 0)
    if kind in ("Fv", "Fvm"):
        return (1, 0, -1) if slides else (1, 2, -1)
    if kind in ("Fc", "Fcm", "off"):
        return force if slides else torque
    return {"M": (1, 0, 0), "MX": (1, 1, 0), "MY": (1, 1, 0), "MZ": (1, 1, 0)}.get(kind, (1, 2, 0))


@pytest.mark.parametrize(("length", "gravity"), [(0.37, 9.81), (2.3, 1.6), (1.0, 1.0)])
def test_units_are_those_of_mass_length_and_time(length, gravity):
    couplings = (Coupling(2, {1: 1.0, 2: 1.0}, True), Coupling(3, {3: 1.0, 4: 0.5}, True))
    robot = elastic(coupling=couplings)
    names = standard_names(robot)
    second = (length / gravity) ** 0.5
    expected = [length**m * second**s for _, m, s in (dimension(robot, name) for name in names)]
    np.testing.assert_allclose(units(robot, names, length, gravity), expected, rtol=1e-13)
    rows = row_units(robot, "torque", 2)
    np.testing.assert_allclose(rows, [gravity_of(robot) * x for x in (*arms(robot), *arms(robot))])
    np.testing.assert_allclose(row_units(robot, "accel", 2), rows)
    np.testing.assert_allclose(row_units(robot, "energy", 3), [gravity_of(robot) * typical_length(robot)] * 3)


def gravity_of(robot):
    return np.linalg.norm(robot.gravity)


def arms(robot):
    """Return what turns a force into each joint's effort."""
    return [1.0 if robot.joints[j - 1].sigma == PRISMATIC else typical_length(robot) for j in robot.active]


def test_typical_lengths():
    lengths = [0.3, 0.2, 0.5, -0.1, 0.5, 0.1, -0.2]
    assert typical_length(elastic()) == pytest.approx(np.sqrt(np.mean(np.square(lengths))), rel=1e-14)
    point = Robot("p", (Joint("a", 0), Joint("b", 1, alpha=1.0)), gravity=np.zeros(3))
    assert typical_length(point) == 1.0 and natural_units(point) == (1.0, 1.0)
    tiny = Robot("t", (Joint("a", 0, d=3e-200, r=-4e-200),), gravity=np.array((0.0, 3.0, -4.0)))
    assert natural_units(tiny) == (pytest.approx(np.sqrt(12.5) * 1e-200, rel=1e-14), 5.0)


@pytest.mark.parametrize("unit", [1.0, 0.4])
def test_placements_are_the_product_of_their_screws(unit):
    for seed in range(6):
        robot = random_robot(np.random.default_rng(seed), 5, tree=True)
        for joint, T in zip(robot.joints, placements(robot, unit), strict=True):
            expected = (
                screw("z", joint.gamma, joint.b / unit)
                @ screw("x", joint.alpha, joint.d / unit)
                @ screw("z", joint.theta, joint.r / unit)
            )
            np.testing.assert_allclose(T, expected, atol=1e-15)


def test_right_angles_are_exact():
    for k in range(-9, 10):
        for nearly in (0.0, 1e-9):
            T = placements(Robot("r", (Joint("a", 0, alpha=k * QUARTER + nearly),)))[0]
            exact = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)][k % 4]
            assert ((T[2, 2], T[2, 1]) == exact) == (nearly == 0.0)
            np.testing.assert_allclose((T[2, 2], T[2, 1]), exact, atol=2e-9)


def some_body(rng):
    """Return the ten parameters of points of mass."""
    x, m = rng.normal(size=(5, 3)), rng.uniform(0.1, 1.0, 5)
    return x, m, ten(x, m)


def ten(x, m):
    J = sum(w * (p @ p * np.eye(3) - np.outer(p, p)) for w, p in zip(m, x, strict=True))
    return np.array([J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(m @ x), m.sum()])


def cross(v):
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def test_parameters_moved_are_those_of_the_points_moved():
    rng = np.random.default_rng(3)
    x, m, chi = some_body(rng)
    T = screw("x", 0.7, 0.2) @ screw("z", -1.1, -0.5) @ screw("y", 0.3, 0.9)
    np.testing.assert_allclose(transfer_matrix(T) @ chi, ten(x @ T[:3, :3].T + T[:3, 3], m), atol=1e-13)
    stacked = transfer_matrix(np.stack((T, np.eye(4))))
    np.testing.assert_allclose(stacked[0], transfer_matrix(T), atol=1e-15)
    np.testing.assert_allclose(stacked[1], np.eye(10), atol=1e-15)
    spatial = np.block([[link_inertia(chi), cross(chi[6:9])], [cross(chi[6:9]).T, chi[9] * np.eye(3)]])
    np.testing.assert_allclose(SPATIAL_INERTIA @ chi, spatial, atol=1e-14)
    step = 1e-6
    for s in (REVOLUTE, PRISMATIC):
        ahead, behind = (screw("z", *((h, 0.0) if s == REVOLUTE else (0.0, h))) for h in (step, -step))
        np.testing.assert_allclose(FLOW[s], (transfer_matrix(ahead) - transfer_matrix(behind)) / (2 * step), atol=1e-8)
        rate = (twists_to_child(ahead, np.eye(6)) - twists_to_child(behind, np.eye(6))) / (2 * step)
        np.testing.assert_allclose(np.abs(DRIFT[s]), np.abs(rate), atol=1e-8)
        np.testing.assert_allclose(AXIS[s], (ahead - behind) / (2 * step), atol=1e-8)


def test_twists_seen_from_the_child_move_its_points_alike():
    rng = np.random.default_rng(4)
    T = screw("x", 0.7, 0.2) @ screw("z", -1.1, -0.5) @ screw("y", 0.3, 0.9)
    V = rng.normal(size=(4, 6))
    R, p = T[:3, :3], T[:3, 3]
    point = rng.normal(size=3)  # given in the child's frame
    for before, after in zip(V, twists_to_child(T, V), strict=True):
        here = before[3:] + np.cross(before[:3], p + R @ point)
        np.testing.assert_allclose(R @ (after[3:] + np.cross(after[:3], point)), here, atol=1e-14)


def test_gravity_as_the_base_sees_it():
    base = screw("x", 0.4, 0.3) @ screw("z", 0.2, 0.0)
    robot = Robot("r", JOINTS, gravity=np.array((1.0, -2.0, 3.0)), base=base)
    seen = base[:3, :3].T @ robot.gravity / np.sqrt(14.0)
    np.testing.assert_allclose(gravity_reach(robot, False), [[*seen, 1.0]])
    np.testing.assert_array_equal(gravity_reach(robot, True), np.eye(4))
    for tilting in (False, True):
        none = gravity_reach(replace(robot, gravity=np.zeros(3)), tilting)
        np.testing.assert_array_equal(none, [[0.0, 0.0, 0.0, 1.0]])


def test_spans_and_how_clear_they_are():
    rows = np.array([[3.0, 0.0, 0.0], [0.0, 0.03, 0.0], [0.0, 0.0, 3e-9]])
    margin = RankMargin()
    found = span(rows, 1e-8, margin)
    np.testing.assert_allclose(np.abs(found), np.eye(3)[:2], atol=1e-15)
    assert margin.kept == pytest.approx(0.01) and margin.dropped == pytest.approx(1e-9)
    span(np.diag((1.0, 0.5, 1e-12)), 1e-8, margin)
    assert margin.kept == pytest.approx(0.01) and margin.dropped == pytest.approx(1e-9)
    span(np.diag((1.0, 1e-3, 1e-8 / 3)), 1e-8, margin)
    assert margin.kept == pytest.approx(1e-3) and margin.dropped == pytest.approx(1e-8 / 3)
    assert len(span(np.zeros((2, 3)), 1e-8, margin)) == 0 and len(span(np.zeros((0, 3)), 1e-8, margin)) == 0
    np.testing.assert_array_equal(span(rows, 1e-10, RankMargin()), np.eye(3))


# --- samples and their scaling ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tilting", [False, True])
def test_points_cover_what_the_joints_can_do(tilting):
    robot = Robot("r", JOINTS, passive=(Passive(4, {1: 1.0}),), gravity=np.array((0.0, 3.0, -4.0)))
    length = typical_length(robot)
    second = np.sqrt(length / 5.0)
    points = random_points(robot, 4000, np.random.default_rng(0), tilting_base=tilting, spread=2.0)
    arm = np.array((1.0, 1.0, length))
    for values, reach in (
        (points.q, np.array((np.pi, np.pi, length))),
        (points.dq, 2.0 * arm / second),
        (points.ddq, 4.0 * arm / second**2),
    ):
        assert values.shape == (4000, 3)
        np.testing.assert_allclose(values.max(axis=0) / reach, 1.0, atol=0.01)
        np.testing.assert_allclose(values.min(axis=0) / reach, -1.0, atol=0.01)
        np.testing.assert_allclose(values.mean(axis=0) / reach, 0.0, atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(points.gravity, axis=1), 5.0)
    directions = np.unique(points.gravity, axis=0)
    assert len(directions) == (TILTS if tilting else 1) and points.gravity.shape == (4000, 3)
    assert np.linalg.matrix_rank(directions) == (3 if tilting else 1)
    assert points_needed(robot, "torque", 31) == 29 and points_needed(robot, "accel", 30, 1.0) == 18
    assert points_needed(robot, "energy", 30) == 68


@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_rows_are_those_of_the_model_under_each_points_gravity(source):
    robot = elastic()
    points = random_points(robot, 9, np.random.default_rng(1), tilting_base=True)
    columns = [3, 40, 57, 0]
    rows = model_rows(robot, source, points, columns)
    for k in range(9):
        standing = replace(robot, gravity=points.gravity[k].copy())
        q, dq, ddq = points.q[k : k + 1], points.dq[k : k + 1], points.ddq[k : k + 1]
        expected = {
            "torque": lambda r, q, dq, ddq: regressor(r, q, dq, ddq)[0],
            "accel": lambda r, q, dq, ddq: regressor_d0(r, q, ddq)[0],
            "energy": lambda r, q, dq, ddq: energy_regressor(r, q, dq),
        }[source](standing, q, dq, ddq)
        np.testing.assert_allclose(rows[k], expected[:, columns], atol=1e-12)
    every = model_rows(robot, source, points)
    np.testing.assert_array_equal(every[..., columns], rows)
    W = comparable(rows, source, points)
    if source == "energy":
        for direction in np.unique(points.gravity, axis=0):
            mine = (points.gravity == direction).all(axis=1)
            np.testing.assert_allclose(W[mine], rows[mine, 0] - rows[mine, 0].mean(axis=0), atol=1e-13)
    else:
        np.testing.assert_array_equal(W, rows.reshape(-1, 4))
    np.testing.assert_array_equal(model_rows(robot, source, points, columns), rows)  # the rows were not changed


def test_the_criterion_of_each_point():
    rows = np.array([[[3.0, -4.0, 0.0]], [[-2.0, 0.5, 1e-3]], [[0.0, 5.0, 0.0]]])
    live = np.array([[True, True, False]])
    J = criterion(rows, live, 2.0, 3.0)
    assert J[0] == pytest.approx(2.0 * 5.0 + 3.0 * 4.0 / 3.0)
    assert J[1] == pytest.approx(2.0 * np.sqrt(4.25 + 1e-6) + 3.0 * 4.0)
    assert np.isinf(J[2])


@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_every_point_is_scaled_better_and_a_thorough_search_goes_on(source):
    robot = Robot("r", JOINTS[:3])
    columns = [5, 6, 19, 20, 37]
    points = random_points(robot, 6, np.random.default_rng(2))
    length, g = natural_units(robot)
    size = units(robot, tuple(standard_names(robot)[k] for k in columns), length, g)

    def J(points, live=None):
        natural = model_rows(robot, source, points, columns) / row_units(robot, source, 1)[:, None] * size
        if live is None:
            live = np.max(np.abs(natural), axis=0) > 1e-12
        return criterion(natural, live, 1.0, 1.0), live

    first, live = J(points)
    quick = scaled_points(robot, source, points, columns)
    thorough = scaled_points(robot, source, points, columns, sweeps=5)
    assert np.all(J(quick, live)[0] <= first) and np.all(J(thorough, live)[0] <= J(quick, live)[0])
    assert np.median(J(quick, live)[0] / first) < 0.5
    assert np.min(J(thorough, live)[0] / J(quick, live)[0]) < 0.9
    untouched = {"torque": (), "accel": ("dq",), "energy": ("ddq",)}[source]
    for field in ("q", "dq", "ddq"):
        same = np.array_equal(getattr(points, field), getattr(thorough, field))
        assert same == (field in untouched)
    np.testing.assert_array_equal(thorough.gravity, points.gravity)
    still = scaled_points(
        robot, source, points, [9]
    )  # the mass of a link that turns about its origin's axis: no effect
    np.testing.assert_array_equal(still.q, points.q)


def scaled_one_by_one(robot, source, points, columns, sweeps):
    """Return the points as the search leaves them, each on its own: what a step lowers is kept, else nothing."""
    length, g = natural_units(robot)
    size = units(robot, tuple(standard_names(robot)[k] for k in columns), length, g)
    second = np.sqrt(length / g)
    arm = np.array([length if robot.joints[j - 1].sigma == PRISMATIC else 1.0 for j in robot.active])
    own = {"q": arm, "dq": arm / second, "ddq": arm / second**2}
    fields = {"torque": ("q", "dq", "ddq"), "accel": ("q", "ddq"), "energy": ("q", "dq")}[source]

    def natural(points):
        return model_rows(robot, source, points, columns) / row_units(robot, source, 1)[:, None] * size

    live = np.max(np.abs(natural(points)), axis=0) > 1e-12
    n, found = len(arm), []
    for k in range(len(points.q)):
        point = points.at(np.array([k]))
        best = criterion(natural(point), live, 1.0, 1.0)[0]
        rng = np.random.default_rng(0)

        def lowers(step):
            nonlocal point, best
            transfer_matrix = {f: getattr(point, f) + step[i * n : i * n + n] * own[f] for i, f in enumerate(fields)}
            J = criterion(natural(replace(point, **transfer_matrix)), live, 1.0, 1.0)[0]
            if best > J:
                point, best = replace(point, **transfer_matrix), J
                return True
            return False

        axes = np.eye(n * len(fields))
        for size_of_step in (0.5, 0.25, 0.1, 0.04):
            for axis in axes:
                lowers(size_of_step * axis)
                lowers(-size_of_step * axis)
        steps = np.full(len(axes), 0.5)
        for _ in range(sweeps):
            served = [lowers(s * a) | lowers(-s * a) for s, a in zip(steps, axes, strict=True)]
            for direction in rng.standard_normal((2 * len(axes), len(axes))):
                lowers(steps.mean() * direction)
            steps = np.where(served, 1.3 * steps, 0.8 * steps)
        found.append(point)
    return found


@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_all_points_at_once_end_where_each_alone_does(source):
    joints = (replace(JOINTS[1], parent=0), replace(JOINTS[2], parent=1))
    robot = Robot("r", joints, gravity=np.array((0.0, 0.0, -3.0)))
    columns = [5, 6, 19, 20, 23]
    points = random_points(robot, 2, np.random.default_rng(6))
    found = scaled_points(robot, source, points, columns, sweeps=2)
    for k, alone in enumerate(scaled_one_by_one(robot, source, points, columns, sweeps=2)):
        for field in ("q", "dq", "ddq"):
            np.testing.assert_allclose(getattr(found, field)[k], getattr(alone, field)[0], rtol=1e-9, atol=1e-12)


# --- noise, doubt and order -------------------------------------------------------------------------------------------


def test_the_noise_of_coefficients():
    eps = np.finfo(float).eps
    assert noise_level(1.0) == 1e-13 and noise_level(1e-9) == 1e-11
    assert noise_level(1e-3) == pytest.approx(20 * eps / 1e-3)


def test_rounding_noise_is_removed_in_the_robots_own_units():
    size = np.array((1.0, 0.01, 100.0))
    beta = np.array([[1.0, 0.29040000000000005, 5e-16], [1.0 - 1e-15, 1 / 3, -0.25 + 1e-16]])
    found = tidy(beta, size, [0, 0], 1e-13)
    assert list(found[0]) == [1.0, 0.2904, 0.0]
    assert list(found[1]) == [1.0, 1 / 3, -0.25]
    assert tidy(np.array([[2e-15]]), np.array((1.0,)), [0], 1e-15)[0, 0] == 2e-15
    # in units of the parameters: 5e-12 of a parameter that is small weighs little, of a large one much
    small = tidy(np.array([[1.0, 5e-12, 5e-14]]), size, [0], 1e-13)
    assert list(small[0]) == [1.0, 0.0, 5e-14]
    turned = tidy(np.array([[5e-12, 1.0, 0.0]]), size, [1], 1e-13)
    assert turned[0, 0] == 5e-12
    for excess, exact in ((5e-16, True), (5e-15, False)):  # a hundredth of the noise is allowed to the smallest
        assert (tidy(np.array([[1.0, 0.0012 + excess]]), np.ones(2), [0], 1e-13)[0, 1] == 0.0012) == exact
    off = 0.2904 + 2.5e-12
    assert tidy(np.array([[1.0, 0.0, off]]), size, [0], 1e-13)[0, 2] == off  # further than its noise: kept
    assert tidy(np.array([[1.0, 0.0, off]]), size, [0], 1e-11)[0, 2] == 0.2904


def test_results_are_in_the_order_of_chi():
    beta = np.array([[0.0, 0.5, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]])
    found = build(["XX1", "XY1", "XZ1", "YY1", "ZZ1"], [2, 0], beta, source="torque", method="qr", gap=3.0)
    assert found.leaders == ("XX1", "XZ1") and found.names == ("XX1", "XZR1")
    assert found.eliminated == ("YY1", "ZZ1") and found.regrouped == ("XY1",)
    np.testing.assert_array_equal(found.M, beta[::-1])
    assert found.terms(1) == {"XZ1": 1.0, "XY1": 0.5} and not found.M.flags.writeable
    nearly = build(["XX1", "XY1"], [0], np.array([[1.0 - 1e-12, 0.5]]), source="torque", method="qr", gap=3.0)
    assert nearly.terms(0) == {"XX1": 1.0, "XY1": 0.5}, "a leader counts once"


def test_when_a_count_is_in_doubt():
    for kept, dropped, words in (
        (1.0, 0.0, ""), (1.0, 0.9e-3, ""), (1.0, 1.1e-3, "is uncertain"), (1e-5, 0.9e-8, ""),
        (1e-5, 1.1e-8, "uncertain"),
        (1.1e-6, 0.0, ""), (0.9e-6, 0.0, "misalignment of only 9.0e-07"), (0.9e-6, 1e-12, "misalignment"),
    ):  # fmt: skip
        told = rank_warnings(kept, dropped)
        assert len(told) == bool(words) and all(words in str(text) for text in told)


def test_columns_without_effect_and_in_another_order():
    W = np.array([[1e-13, -2.0, 1.9e-12, 0.0], [0.0, 1.0, -2.1e-12, 0.0]])
    assert (
        without_effect(W) == [0, 3] and without_effect(0.1 * W) == [0, 2, 3] and without_effect(W, 1e-11) == [0, 2, 3]
    )
    rng = np.random.default_rng(5)
    W = rng.normal(size=(20, 4))
    W[:, 3] = W[:, 0] - 2.0 * W[:, 1]
    found = in_column_order(by_qr(W[:, [3, 2, 1, 0]]), [3, 2, 1, 0])
    assert found.leaders == [3, 2, 1]
    np.testing.assert_allclose(found.beta, [[1, 0, 0, 1], [0, 0, 1, 0], [2, 1, 0, 0]], atol=1e-13)


def test_what_may_lead_first():
    robot = elastic()
    names, note = chosen_names(robot, "torque", None)
    assert names == standard_names(robot) and note is None
    found, note = chosen_names(robot, "energy", None)
    assert found == tuple(n for n in names if n[:2] not in ("Fv", "Fc", "of")) and "not in the energy model" in note
    assert "Kf1" not in chosen_names(Robot("r", JOINTS), "accel", None)[0]
    for source in ("accel", "energy"):
        with pytest.raises(InputError, match=f"friction and offset cannot be identified from the {source} model"):
            chosen_names(robot, source, ("friction", "rotor", "offset"))
        assert chosen_names(robot, source, ("rotor",)) == (("Ia1", "Ia2", "Ia3", "Ia4"), None)
    order = [names[k] for k in preference(names, ["Ia", " ZZ2", "3", "force", "offset"])]
    assert order[:5] == ["Ia1", "Ia2", "Ia3", "Ia4", "ZZ2"] and len(order) == len(set(order)) == len(names)
    third = [n for n in names if n.endswith("3") and not n.startswith(("K", "Ia"))]
    assert order[5 : 5 + len(third)] == third
    assert order[5 + len(third) :][:11] == [n for n in names if n.startswith("K")]
    rest = order[5 + len(third) + 11 :]
    assert rest[:3] == ["off1", "off2", "off4"] and rest[3:] == [n for n in names if n in rest[3:]]
    assert preference(names, None) == list(range(len(names)))
    for wrong in ("Q", "9", "Ia9", "rotors", "²", "\uff13"):
        with pytest.raises(InputError, match="matches no parameter"):
            preference(names, ["Ia", wrong])


# --- springs and cables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "tilting"), [("torque", False), ("accel", False), ("energy", True)])
def test_closed_rules_with_springs_agree_with_samples(source, tilting):
    robot = elastic()
    closed, sampled = (
        base_parameters(robot, method=m, source=source, tilting_base=tilting) for m in ("closed-form", "qr")
    )
    assert closed.leaders == sampled.leaders and closed.eliminated == sampled.eliminated
    assert closed.method == "closed-form" and closed.warnings == sampled.warnings
    np.testing.assert_allclose(closed.M, sampled.M, atol=1e-9)
    if source == "torque":
        assert closed.terms(closed.leaders.index("off2"))["Kf1"] == pytest.approx(-0.5)
    # what the base parameters say is what all say
    points = random_points(robot, 5, np.random.default_rng(9))
    W = comparable(model_rows(robot, source, points), source, points)
    chi = np.random.default_rng(8).uniform(-1.0, 1.0, W.shape[1])
    place = {name: k for k, name in enumerate(standard_names(robot))}
    mine = np.zeros(len(chi))
    mine[[place[n] for n in closed.standard_names]] = chi[[place[n] for n in closed.standard_names]]
    np.testing.assert_allclose(W[:, closed.columns(robot)] @ closed.values(robot, mine), W @ mine, atol=1e-8)


def test_a_spring_without_rest_length_between_base_and_link_acts_as_a_weight():
    pivots = (Pivot(0, (0.0, 0.0, 0.0)), Pivot(2, (0.3, 0.1, 0.0)))
    joints = (Joint("a", 0, alpha=QUARTER), Joint("b", 1, d=0.4))
    robot = Robot("r", joints, forces=(Force("zero", ForceKind.CYLINDER, (1,), {}, pivots),))
    closed, sampled = (base_parameters(robot, method=m, groups=("inertial", "force")) for m in ("closed-form", "svd"))
    assert closed.leaders == sampled.leaders and "Ks1" in closed.leaders
    np.testing.assert_allclose(closed.M, sampled.M, atol=1e-10)


def test_doubts_about_links_or_springs_are_told_once():
    """A link that hangs on a misalignment, springs whose rests differ by a hair, both, and neither."""
    arm = (Joint("a", 0, alpha=1e-8), Joint("b", 1, alpha=QUARTER, d=0.3))
    straight = (replace(arm[0], alpha=0.0), arm[1])
    near = tuple(Force(f"s{k}", ForceKind.SPRING, (1,), {2: 1.0}, rest=k * 1e-8) for k in range(3))
    for joints, forces, told in ((arm, near[:1], 1), (straight, near, 1), (arm, near, 1), (straight, near[:1], 0)):
        robot = Robot("r", joints, forces=forces)
        bare = base_parameters(replace(robot, forces=()), method="closed-form", groups=("inertial",))
        found = base_parameters(robot, method="closed-form", groups=("inertial", "force"))
        assert len(found.warnings) == told and all("misalignment" in str(text) for text in found.warnings)
        assert found.gap <= bare.gap, "the less clear of the two"
        assert found.gap == bare.gap if len(forces) == 1 else joints is arm or found.gap < 1e-2 * bare.gap
        assert len([name for name in found.leaders if name.startswith("Ks")]) == min(len(forces), 2)


@pytest.mark.parametrize("source", ["torque", "energy"])
def test_springs_keep_model_tolerance_tilt_and_seed_of_the_request(source):
    pivots = (Pivot(0, (0.0, 0.0, 0.0)), Pivot(1, (0.3, 0.1, 0.2)))
    robot = Robot(
        "r", (Joint("a", 0), Joint("b", 1, alpha=QUARTER)), forces=(Force("z", ForceKind.CYLINDER, (1,), {}, pivots),)
    )
    robot = replace(robot, parameters={"M1": 1.0, "Ks1": 2.0})
    groups = ("inertial", "force")
    for tilting in (False, True):
        closed, sampled = (
            base_parameters(robot, method=m, source=source, groups=groups, tilting_base=tilting)
            for m in ("closed-form", "qr")
        )
        assert closed.leaders == sampled.leaders and closed.source == sampled.source == source
        np.testing.assert_allclose(closed.M, sampled.M, atol=1e-10)
    hair = replace(robot, joints=(replace(robot.joints[0], alpha=1e-8), robot.joints[1]))
    for tolerance, led in ((None, True), (1e-5, False)):
        found = base_parameters(hair, method="closed-form", groups=groups, source=source, tolerance=tolerance)
        assert ("MX1" in found.leaders) == led


def test_a_cylinder_that_never_moves_is_not_felt():
    """Its pivots lie on the first axis: their distance is the same in every position, but for rounding."""
    pivots = (Pivot(0, (0.0, 0.0, -0.1)), Pivot(1, (0.0, 0.0, 0.7)))
    idle = (*FORCES, Force("idle", ForceKind.CYLINDER, (0, 1), {}, pivots, 0.1))
    robot = Robot("r", (replace(JOINTS[0], theta=0.3), *JOINTS[1:]), forces=idle)
    closed, sampled = (base_parameters(robot, method=m) for m in ("closed-form", "qr"))
    assert {"Kf6", "Ks6"} <= set(closed.eliminated) and closed.eliminated == sampled.eliminated


def test_what_closed_rules_do_not_cover_is_computed_and_said():
    loop = Robot("loop", JOINTS, passive=(Passive(4, {1: 1.0}),))
    for robot, order, words in (
        (loop, None, "does not cover closed loops"),
        (elastic(), ["force"], "springs as leaders"),
    ):
        found = base_parameters(robot, method="closed-form", order=order)
        plain = base_parameters(robot, method="qr", order=order)
        assert found.method == "qr" and words in str(found.warnings[0]) and len(found.warnings) == 1
        assert found.leaders == plain.leaders and not plain.warnings
        np.testing.assert_array_equal(found.M, plain.M)
    first = base_parameters(elastic(), method="qr", order=["force"])
    assert {"Kf1", "Ks1", "Kf2"} <= set(first.leaders)


# --- why a parameter is not seen --------------------------------------------------------------------------------------


def test_the_first_axis_as_a_later_joint_sees_it():
    robot = Robot("r", (Joint("p", 0, PRISMATIC, alpha=0.3), Joint("a", 1, alpha=0.5), Joint("b", 2, alpha=0.7, d=0.1)))
    np.testing.assert_allclose(axis_before(robot, 2), [0.0, 0.0, 1.0], atol=1e-15)
    turn = screw("x", 0.7, 0.0)[:3, :3]
    np.testing.assert_allclose(axis_before(robot, 3), turn.T @ [0.0, 0.0, 1.0], atol=1e-15)


def reasons(robot, **options):
    base = base_parameters(robot, groups=("inertial",), **options)
    return {entry.name: entry.reason for entry in identifiability(robot, base, **options)}


def test_the_reasons_given():
    upright = Robot("u", (Joint("a", 0, d=0.2), Joint("b", 1, alpha=QUARTER, d=0.3)))
    found = reasons(upright)
    assert found["M1"] == "the origin of frame 1 never moves"
    assert found["XX1"] == "link 1 only turns about one direction, and XX1 is not a moment about it"
    assert found["MX1"] == "link 1 turns about a fixed line, and gravity does no work on MX1"
    assert found["YY2"].startswith("acts as ZZ1") and found["YY2"].endswith(
        "the effect of XX2 + YY2 on link 1 does not depend on q2"
    )
    assert found["M2"].endswith("the effect of M2 on link 1 does not depend on q2")
    floating = replace(upright, gravity=np.zeros(3))
    assert reasons(floating)["MY1"] == "link 1 turns about a fixed line, and there is no gravity"
    slide = Robot(
        "s", (Joint("p", 0, PRISMATIC), Joint("a", 1, PRISMATIC, alpha=QUARTER), Joint("b", 2, alpha=QUARTER))
    )
    found = reasons(slide)
    assert found["ZZ1"] == "link 1 never turns, so only its mass has an effect"
    assert found["MX2"] == "link 2 never turns, so only its mass has an effect"
    wrist = Robot("w", (Joint("a", 0), Joint("b", 1, PRISMATIC, alpha=QUARTER), Joint("c", 2, alpha=QUARTER)))
    found = reasons(wrist)
    assert found["YY2"].endswith("link 2 turns with link 1") and found["YY2"].startswith("acts as ZZ1")
    along = Robot(
        "l", (Joint("a", 0, alpha=QUARTER), Joint("b", 1, PRISMATIC), Joint("c", 2, PRISMATIC, alpha=QUARTER))
    )
    found = {name: reason for name, reason in reasons(along).items() if reason.startswith("acts as")}
    transfer_matrix = {name for name in found if name[:2] in ("MX", "MY", "MZ")}
    assert transfer_matrix and len(transfer_matrix) < len(found), (
        "first moments are regrouped as well, for other reasons"
    )
    for name, reason in found.items():
        assert (f"link {name[-1]} turns with link {int(name[-1]) - 1}" in reason) == (name not in transfer_matrix)


def test_the_reasons_given_for_loops_and_for_drives():
    always = "it changes no torque in any motion that the joints allow"
    upright = (Joint("a", 0, d=0.2), Joint("b", 1, alpha=QUARTER, d=0.3))
    loop = Robot("l", upright, passive=(Passive(2, {1: 0.5}),))
    found = reasons(loop)
    assert found["M1"] == found["XX1"] == always and "only together with" in found["ZZ1"]
    acting = [reason for reason in found.values() if reason.startswith("acts as")]
    assert acting and not any(":" in reason for reason in acting), "what a loop regroups has no simple reason"
    idle = Robot("i", upright, forces=(Force("s", ForceKind.SPRING, (1,), {1: 1.0}),))
    base = base_parameters(idle, groups=("inertial", "force"))
    table = {entry.name: entry for entry in identifiability(idle, replace(base, M=np.where(
        np.array(base.standard_names) == "Ks1", 0.0, base.M)))}  # fmt: skip
    assert table["Ks1"].reason == always and table["Ks1"].status == "not"


def test_reasons_name_the_link_before_and_only_where_there_is_one():
    """Joints 1 and 2 stand on the base side by side; joint 3 on link 2."""
    robot = Robot("t", (Joint("a", 0), Joint("b", 0, alpha=QUARTER), Joint("c", 2, alpha=QUARTER, d=0.3, r=0.2)))
    base = base_parameters(robot, groups=("inertial", "rotor"))
    table = {entry.name: entry for entry in identifiability(robot, base)}
    assert table["Ia2"].reason == "acts as ZZ2" and table["Ia2"].base == ("ZZR2",)
    for kind, what in (("MZ", "MZ3"), ("M", "M3"), ("YY", "XX3 + YY3")):
        assert table[f"{kind}3"].reason.endswith(f": the effect of {what} on link 2 does not depend on q3")
    assert table["ZZ2"].reason == "only together with Ia2, YY3, MZ3 and M3"
    turned = {e.name: e for e in identifiability(robot, base_parameters(robot, groups=("inertial",), order=["YY"]))}
    assert turned["XX3"].reason.startswith("acts as ") and ":" not in turned["XX3"].reason, "it turns against link 2"
    lying = replace(robot, gravity=np.array((0.0, -9.81, 0.0)))
    for name in ("MX1", "MY1"):
        assert {e.name: e for e in identifiability(lying, base_parameters(lying))}[name].status == "alone"


def test_a_tilting_base_is_felt_by_the_reasons():
    upright = Robot("u", (Joint("a", 0), Joint("b", 1, alpha=QUARTER)), gravity=np.zeros(3))
    heavy = replace(upright, gravity=np.array((0.0, 0.0, -9.81)))
    assert reasons(upright, tilting_base=True)["MZ1"] == "link 1 turns about a fixed line, and there is no gravity"
    assert (
        reasons(heavy, tilting_base=True)["MZ1"] == "link 1 turns about a fixed line, and gravity does no work on MZ1"
    )
    assert reasons(heavy)["MZ2"] == "the origin of frame 2 never moves, and gravity does no work on MZ2"
    assert reasons(upright)["MZ2"] == "the origin of frame 2 never moves, and there is no gravity"


def test_where_a_slide_stands_does_not_matter_to_theorem_2():
    found = []
    for r in (0.0, 0.4, -0.7):
        joints = (Joint("a", 0), Joint("p", 1, PRISMATIC, alpha=QUARTER, d=0.2, r=r), Joint("b", 2, alpha=0.3, d=0.1))
        found.append({c.name: c.terms for c in minimal_combinations(Robot("r", joints))})
    assert found[0] == found[1] == found[2] and {"m_2", "kx_3", "U33_1"} <= set(found[0])


# --- clear or not, and couplings that are alike -----------------------------------------------------------------------


def test_how_clear_a_count_is():
    robot = Robot(
        "r", (Joint("a", 0, alpha=0.1), Joint("b", 1, alpha=QUARTER, d=0.3), Joint("c", 2, d=0.4, alpha=1e-4))
    )
    for method in ("closed-form", "qr", "svd"):
        found = base_parameters(robot, method=method, groups=("inertial",))
        assert 1e3 < found.gap < 1e17 or np.isinf(found.gap)
    turned = replace(random_robot(np.random.default_rng(3), 5, prismatic=0.0))
    gaps = [base_parameters(turned, method=m, groups=("inertial",)).gap for m in ("closed-form", "qr", "svd")]
    assert all(1e6 < gap < 1e18 for gap in gaps)


@pytest.mark.parametrize("factor", [3.0, 0.7, 1.1, 7 / 3])
def test_motors_that_turn_alike_but_for_rounding_share_their_friction(factor):
    for weights, shared in (
        ({1: 0.1, 2: 0.3}, True),
        ({1: -0.1, 2: -0.3}, True),
        ({1: 0.1, 2: 0.3001}, False),
        ({1: 0.1, 2: 0.3 + 1e-8}, False),
    ):
        alike = {j: factor * w for j, w in {1: 0.1, 2: 0.3}.items()}
        robot = Robot("r", JOINTS[:2], coupling=(Coupling(1, weights), Coupling(2, alike)))
        found = base_parameters(robot, method="closed-form", groups=("friction",))
        assert ("Fcm2" in found.regrouped) == shared
        if shared:
            assert found.terms(found.leaders.index("Fcm1"))["Fcm2"] == pytest.approx(factor)


# --- symbols ----------------------------------------------------------------------------------------------------------


def test_only_polynomials_become_symbols():
    x = np.linspace(0.5, 1.5, 12)
    design = np.column_stack((np.ones(12), x, x**2))
    rows = np.array([[1.0 + 0 * x, 2.0 * x**2 - 3.0 * x, 1.0 / x], [-1.0 / x, np.exp(x), -(x**3)]])
    found = fit_polynomials(rows.transpose(2, 0, 1), design, [(), ("D",), ("D", "D")])
    assert found == {(0, 1): Polynomial({("D",): -3.0, ("D", "D"): 2.0})}


@pytest.mark.parametrize(
    ("size", "noise", "kept"),
    [(1e-3, 3e-10, True), (1e-3, 1e-8, False), (1.0, 3e-10, True), (1e5, 1e-6, True), (1e5, 1e-2, False)],
)
def test_how_well_a_polynomial_must_fit(size, noise, kept):
    """To 1e-9, of the largest value where that is beyond 1: noise is added where the fit is tested."""
    x = np.linspace(0.5, 1.5, 12)
    design = np.column_stack((np.ones(12), x, x**2))
    values = size * x**2
    values[-1] += noise
    found = fit_polynomials(values[:, None, None], design, [(), ("D",), ("D", "D")])
    assert (set(found) == {(0, 0)}) == kept


def symbolic_arm(**more):
    """Return an arm whose second and third links have lengths with names."""
    joints = (
        Joint("a", 0),
        Joint("b", 1, alpha=QUARTER, d=0.2, symbols={"d": "A"}),
        Joint("c", 2, d=0.5, r=-0.3, symbols={"d": "B", "r": "-C"}),
    )
    return Robot("arm", joints, **more)


@pytest.mark.parametrize(
    "options", [{}, {"order": ["3", "2"]}, {"tilting_base": True}, {"order": ["M3", "ZZ2"], "tilting_base": True}]
)
def test_symbols_follow_the_order_and_the_mounting_asked_for(options):
    robot, lengths = symbolic_arm(), {"A": 0.31, "B": 0.17, "C": 0.43}
    base = base_parameters(robot, groups=("inertial",), **options)
    there = base_parameters(set_lengths(robot, lengths), groups=("inertial",), **options)
    polynomials = symbolic_terms(robot, base, **options)
    for seed in (1, 2):
        assert symbolic_terms(robot, base, seed=seed, **options).keys() == polynomials.keys()
    assert polynomials
    for (row, column), polynomial in polynomials.items():
        value = sum(c * np.prod([lengths[s] for s in monomial]) for monomial, c in polynomial.terms.items())
        assert there.M[row, column] == pytest.approx(value, abs=1e-9)
    assert symbolic_terms(robot, base_parameters(robot, groups=("inertial",), order=["M3"])) == {}, "other leaders"


def test_too_many_symbols_stay_numbers():
    base = base_parameters(symbolic_arm(), method="closed-form", groups=("inertial",))
    long = [Joint("a", 0, alpha=QUARTER)]
    long += [Joint(f"j{k}", k, d=0.1, symbols={"d": f"L{k}"}) for k in range(1, 14)]
    assert symbolic_terms(Robot("r", tuple(long)), base) == {}


def test_small_shares_of_a_polynomial_are_kept_and_rounding_is_not():
    x = np.linspace(0.5, 1.5, 12)
    design = np.column_stack((np.ones(12), x, x**2))
    names = [(), ("D",), ("D", "D")]
    for small, terms in ((1e-4, {("D",): 1e-4, ("D", "D"): 1.0}), (1e-9, {("D", "D"): 1.0})):
        found = fit_polynomials((x**2 + small * x)[:, None, None], design, names)
        assert found == {(0, 0): Polynomial(terms)}
    third = fit_polynomials((x / 3)[:, None, None], design, names)
    assert third == {(0, 0): Polynomial({("D",): 0.333333})}


def test_lengths_and_their_symbols():
    joints = (
        Joint("a", 0, d=0.2, r=-0.3, symbols={"d": "D1", "r": "-R1"}),
        Joint("b", 1, b=0.5, d=0.0, r=0.3, symbols={"b": "B2", "d": "D2", "r": "R1"}),
        Joint("c", 2, d=0.7),
    )
    robot = Robot("r", joints)
    assert length_symbols(robot) == {"D1": 0.2, "R1": 0.3, "B2": 0.5}
    other = set_lengths(robot, {"D1": 0.9, "R1": 0.8, "D2": 0.4, "X": 1.0})
    assert [(j.b, j.d, j.r) for j in other.joints] == [(0.0, 0.9, -0.8), (0.5, 0.0, 0.8), (0.0, 0.7, 0.0)]
