# SPDX-License-Identifier: Apache-2.0

"""Loads from recordings with and without them, their drive gains and error bars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads import payload_fit, quick_load
from ros2_dynid.identification.loads.drive_gains import drive_gains, keep_gain, measure_load, measure_share
from ros2_dynid.identification.loads.payload_fit import compare_joints
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import Moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import select_friction
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo6")


BASE = base_parameters(ROBOT)


MASS, COM = 2.5, np.array((0.03, -0.05, 0.12))


INERTIA = np.array(((0.02, 0.002, -0.001), (0.002, 0.015, 0.003), (-0.001, 0.003, 0.012)))


def identify_load(robot, base, empty, loaded, **more):
    return payload_fit.identify_loads(robot, base, empty, [loaded], **more)[0]


def ten(mass=MASS, com=COM, inertia=INERTIA):
    """Return the ten parameters of a body in the frame of its link."""
    J = inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass))


def motion(seed, count=400):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, count, ROBOT.n))


def rows_of(chi, seed, noise=0.02, gains=1.0, delay=False):
    m = motion(seed)
    tau = inverse_dynamics(ROBOT, chi, *m)
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(seed + 50).normal(size=tau.shape)
    return build_information(ROBOT, BASE, [as_prepared(ROBOT, *m, tau / gains)], delay=delay)


def truth(load=None):
    chi = true_parameters(ROBOT, 2)
    if load is not None:
        chi[link_slice(ROBOT.n - 1)] += load
    return chi


def pose():
    c, s = np.cos(0.7), np.sin(0.7)
    return np.array(((c, -s, 0.0, 0.3), (s, c, 0.0, -0.2), (0.0, 0.0, 1.0, 0.5), (0.0, 0.0, 0.0, 1.0)))


def test_the_figures_of_a_body_in_its_frame_and_in_another():
    own = payload_fit.physical(ten(), np.eye(4))
    six = INERTIA[np.triu_indices(3)]
    np.testing.assert_allclose(own, [MASS, *COM, *six], atol=1e-12)
    R, p = pose()[:3, :3], pose()[:3, 3]
    moved = payload_fit.physical(ten(), pose())
    np.testing.assert_allclose(moved[:4], [MASS, *(R @ COM + p)], atol=1e-12)
    np.testing.assert_allclose(moved[4:], (R @ INERTIA @ R.T)[np.triu_indices(3)], atol=1e-12)
    assert np.all(np.isfinite(payload_fit.physical(np.zeros(10), np.eye(4))))
    np.testing.assert_allclose(payload_fit.physical(-ten(), np.eye(4)), [-MASS, *COM, *(-six)], atol=1e-12)


@pytest.mark.parametrize("dof", [np.inf, 9.0])
def test_error_bars_of_a_body_are_those_of_draws(dof):
    rng = np.random.default_rng(0)
    L = rng.normal(size=(10, 10)) * 1e-4
    covariance = np.zeros((13, 13))
    covariance[3:, 3:] = L @ L.T
    value = np.concatenate((np.zeros(3), ten()))
    layout = ColumnLayout(2, 1, 10)
    found = Estimate(layout, value, covariance, np.ones(13, bool), np.ones(1), 1.0, 13, Method.WLS, dof)
    load = payload_fit.payload_in(found, pose(), "tool", 6)
    draws = np.array([payload_fit.physical(ten() + L @ rng.normal(size=10), pose()) for _ in range(4000)])
    std = np.concatenate(([load.mass_std], load.com_std, load.inertia_std[np.triu_indices(3)]))
    np.testing.assert_allclose(std, draws.std(axis=0), rtol=0.06)
    np.testing.assert_array_equal(load.inertia_std, load.inertia_std.T)
    width = norm.ppf(0.975) if np.isinf(dof) else t.ppf(0.975, dof)
    bars = np.concatenate(([load.interval[0]], load.interval[1], load.interval[2][np.triu_indices(3)]))
    np.testing.assert_allclose(bars, width * std, rtol=1e-9)
    assert (load.frame, load.joint, load.significant) == ("tool", 6, True)
    np.testing.assert_allclose(load.inertia, pose()[:3, :3] @ INERTIA @ pose()[:3, :3].T, atol=1e-12)
    for factor, there in ((0.9, False), (1.1, True)):
        small = value.copy()
        small[-1] = factor * width * np.sqrt(covariance[-1, -1])
        assert payload_fit.payload_in(replace(found, value=small), np.eye(4), "x", 6).significant == there
        small[-1] *= -1.0
        assert payload_fit.payload_in(replace(found, value=small), np.eye(4), "x", 6).significant == there


def test_a_load_adds_its_columns_to_the_rows_with_it():
    first, second = ten(), ten(1.0, -COM, 0.5 * INERTIA)
    parts = [rows_of(truth(load), k, noise=0.0) for k, load in enumerate((None, first, second))]
    together = payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])
    value = np.concatenate((BASE.values(ROBOT, truth()), first, second))
    assert together.layout.n_load == 20 and together.size == len(value)
    for j in range(ROBOT.n):
        R = together.triangle(j)
        left = R[:, -1] - R[:, :-1] @ value[together.columns[j]]
        assert np.linalg.norm(left) < 1e-9 * np.linalg.norm(R[:, -1])
    M_L = payload_fit.load_map(ROBOT, BASE)
    np.testing.assert_allclose(M_L @ first, BASE.values(ROBOT, truth(first)) - BASE.values(ROBOT, truth()), atol=1e-9)
    found = wls(together)
    one = payload_fit.one_load(found, 1)
    np.testing.assert_allclose(one.load, second, atol=1e-6)
    np.testing.assert_array_equal(one.load_covariance, found.covariance[-10:, -10:])
    np.testing.assert_array_equal(one.base, found.base)
    np.testing.assert_allclose(payload_fit.one_load(found, 0).load, first, atol=1e-6)


@pytest.mark.parametrize("free", [True, False])
def test_loads_are_found_within_their_bars(free):
    first, second = ten(), ten(1.0, -COM, 0.5 * INERTIA)
    parts = [rows_of(truth(load), k) for k, load in enumerate((None, first, second))]
    found = payload_fit.identify_loads(ROBOT, BASE, parts[0], parts[1:], free=free)
    for load, wanted in zip(found, ((MASS, COM), (1.0, -COM)), strict=True):
        assert abs(load.mass - wanted[0]) < 4 * load.mass_std < 0.4 * wanted[0]
        assert np.all(np.abs(load.com - wanted[1]) < 4 * load.com_std)
        assert load.significant and load.contradicting == () and load.frame == f"joint {ROBOT.joints[-1].name}"
        known = np.isfinite(load.joint_mass)
        assert known.any() and np.all(np.abs(load.joint_mass[known] - wanted[0]) < 5 * load.joint_mass_std[known])
    with pytest.raises(InputError, match="no moving link"):
        payload_fit.identify_loads(ROBOT, BASE, parts[0], parts[1:], link="nose")


def test_a_joint_with_another_gain_contradicts_and_widens_the_bars():
    gains = np.ones(ROBOT.n)
    plain = identify_load(ROBOT, BASE, rows_of(truth(), 0), rows_of(truth(ten()), 1))
    gains[1] = 1.5
    parts = [rows_of(truth(load), k, gains=gains) for k, load in enumerate((None, ten()))]
    load = identify_load(ROBOT, BASE, *parts)
    assert load.contradicting == (ROBOT.active_names[1],) and plain.contradicting == ()
    assert load.mass_std > 3.0 * plain.mass_std
    assert 0.4 * MASS < load.joint_mass[1] < 0.8 * MASS
    assert load.joint_mass[2] == pytest.approx(MASS, rel=0.15)


def test_what_each_joint_says_about_the_mass_by_its_definition():
    """One regression for each joint: what is left of its torque without the robot and the rest of the load."""
    loaded = rows_of(truth(ten()), 1)
    M_L, load = payload_fit.load_map(ROBOT, BASE), 1.1 * ten()
    base, b = BASE.values(ROBOT, truth()), len(BASE)
    C, C_L = 1e-6 * np.eye(b), 1e-8 * np.eye(10)
    found = compare_joints(loaded, base, C, 0.0, M_L, load, C_L)
    m = motion(1)
    tau = inverse_dynamics(ROBOT, truth(ten()), *m)
    tau = tau + 0.02 * tau.std(axis=0) * np.random.default_rng(51).normal(size=tau.shape)
    W = regressor(ROBOT, *m)[:, :, BASE.columns(ROBOT)]
    for j in range(ROBOT.n):
        x = W[:, j] @ M_L[:, -1] * load[-1]
        if not np.isfinite(found.scale[j]):
            continue
        y = tau[:, j] - W[:, j] @ (base + M_L[:, :-1] @ load[:-1])
        assert found.scale[j] == pytest.approx(x @ y / (x @ x))
        at = [slice(k, min(k + 14, 400)) for k in range(0, 400, 14)]  # 29 blocks
        moves = [np.delete(x, np.r_[s]) @ np.delete(y, np.r_[s]) / np.sum(np.delete(x, np.r_[s]) ** 2) for s in at]
        own = np.sum((np.array(moves) - found.scale[j]) ** 2)
        g = W[:, j].T @ x / (x @ x)
        other = M_L[:, :-1] @ C_L[:-1, :-1] @ M_L[:, :-1].T
        assert found.std[j] == pytest.approx(np.sqrt(own + g @ (C + other) @ g), rel=1e-6)
    assert np.isfinite(found.scale).sum() >= 3


def stored(noise=0.02):
    empty = rows_of(truth(), 0, noise)
    found = wls(empty)
    return model_of(ROBOT, BASE, found.value, found.std, found.covariance), empty


def test_a_load_on_a_stored_model_has_the_bars_of_both():
    model, _ = stored()
    loaded = rows_of(truth(ten()), 1)
    load = payload_fit.identify_load_on_model(model, BASE, loaded, free=True)
    assert abs(load.mass - MASS) < 4 * load.mass_std < 0.4 * MASS
    exact = model_of(ROBOT, BASE, model.value, 0.0 * model.std, 0.0 * model.covariance)
    bare = payload_fit.identify_load_on_model(exact, BASE, loaded, free=True)
    assert bare.mass == pytest.approx(load.mass) and bare.mass_std < load.mass_std
    # what an error of the model does to the load: by moving the model
    step = 1e-4
    D = np.zeros((10, len(BASE)))
    for k in range(len(BASE)):
        value = model.value.copy()
        value[k] += step
        other = model_of(ROBOT, BASE, value, 0.0 * model.std, 0.0 * model.covariance)
        D[:, k] = (
            payload_fit.identify_load_on_model(other, BASE, loaded, free=True).parameters - bare.parameters
        ) / step
    alone = payload_fit.without_base(
        payload_fit.add_load_columns(loaded, payload_fit.load_map(ROBOT, BASE)), model.value
    )
    assert alone.size == 10
    more = load.covariance - bare.covariance
    wanted = D @ model.covariance @ D.T
    np.testing.assert_allclose(np.diag(more), np.diag(wanted), rtol=0.05)
    wrong = model_of(ROBOT, BASE, model.value, np.where(np.arange(len(BASE)) == 3, np.inf, model.std), model.covariance)
    with pytest.raises(InputError, match=f"does not know {BASE.names[3]}"):
        payload_fit.identify_load_on_model(wrong, BASE, loaded)


def test_without_the_robot_only_the_load_is_left():
    loaded = payload_fit.add_load_columns(rows_of(truth(ten()), 1, 0.0, delay=True), payload_fit.load_map(ROBOT, BASE))
    alone = payload_fit.without_base(loaded, BASE.values(ROBOT, truth()))
    assert (alone.layout.n_base, alone.layout.n_delay, alone.layout.n_load) == (0, 1, 10)
    value = np.concatenate(([0.0], ten()))
    for j in range(ROBOT.n):
        R = alone.triangle(j)
        assert np.linalg.norm(R[:, -1] - R[:, :-1] @ value[alone.columns[j]]) < 1e-8 * np.linalg.norm(
            loaded.triangle(j)[:, -1]
        )


@pytest.mark.parametrize(
    ("load", "mass", "centre"),
    [
        (ten(), MASS, COM),
        (np.zeros(10), 0.0, np.zeros(3)),
        (-ten(), 0.0, np.zeros(3)),
        (np.array((0, 0, 0, 0, 0, 0, 3.0, -40.0, 0.1, 0.1)), 0.1, np.array((10.0, -10.0, 1.0))),
    ],
)
def test_what_a_load_is_taken_for_at_first(load, mass, centre):
    mean, std = quick_load.compact_body_prior(np.asarray(load, dtype=float), 1)
    own = mass * 0.07**2
    np.testing.assert_allclose(mean[1:7], ten(mass, centre, own * np.eye(3))[:6], atol=1e-12)
    assert mean[0] == 0.0 and not mean[7:].any()
    np.testing.assert_allclose(std, [0.05, *[max(own, 1e-3 * 0.07**2)] * 6, 1e3, 1e3, 1e3, 1e3])
    assert len(quick_load.compact_body_prior(np.zeros(10), 0)[0]) == 10


def test_a_quick_load_from_rows_and_a_model():
    model, _ = stored()
    loaded = rows_of(truth(ten()), 1)
    load = quick_load.quick_load(model, BASE, loaded)
    assert abs(load.mass - MASS) < 4 * load.mass_std < 0.4 * MASS and load.significant
    assert np.all(np.abs(load.com - COM) < 5 * load.com_std)
    assert quick_load.quick_load(model, BASE, loaded.take(range(2))) is None
    assert quick_load.quick_load(model, BASE, loaded.take(range(3))) is not None
    none = quick_load.quick_load(model, BASE, rows_of(truth(), 2))
    assert not none.significant and abs(none.mass) < 4 * none.mass_std
    lost = replace(model, leaders=model.leaders[1:] + model.leaders[:1])
    with pytest.raises(InputError, match="other base parameters"):
        quick_load.quick_load(lost, BASE, loaded)


def test_a_quick_load_is_drawn_towards_a_compact_body_and_has_the_bars_of_all_it_rests_on(monkeypatch):
    """By the rows themselves: the prior is that of the load found, the covariance that of data, prior and model."""
    model, _ = stored()
    std = np.where(np.arange(len(BASE)) == 4, np.inf, model.std)
    model = replace(model, std=std)
    loaded = rows_of(truth(ten()), 1, delay=True).take(range(5))
    told = []

    def kept(robot, found, value, covariance, rows, M_L, **more):
        told.append((found, covariance))
        return payload_fit.payload_of(robot, found, value, covariance, rows, M_L, **more)

    monkeypatch.setattr(quick_load, "payload_of", kept)
    quick_load.quick_load(model, BASE, loaded)
    ((found, C),) = told
    known = np.arange(len(BASE)) != 4
    np.testing.assert_array_equal(C, np.where(np.outer(known, known), model.covariance, 0.0))
    b, M_L = len(BASE), payload_fit.load_map(ROBOT, BASE)
    mean, spread = quick_load.compact_body_prior(found.load, 1)
    P = np.diag(spread**-2.0)
    X, y, Y, blocks = [], [], [], []
    for k, block in enumerate(loaded.blocks):
        for j, columns in enumerate(loaded.columns):
            wide = np.zeros((len(block.R[j]), b + 1))
            wide[:, columns] = block.R[j][:, :-1] / found.sigma[j]
            X.append(np.column_stack((wide[:, b:], wide[:, :b] @ M_L)))
            Y.append(wide[:, :b])
            y.append(block.R[j][:, -1] / found.sigma[j] - wide[:, :b] @ model.value)
            blocks += [k] * len(wide)
    X, Y, y, blocks = np.vstack(X), np.vstack(Y), np.concatenate(y), np.array(blocks)
    inverse = np.linalg.inv(X.T @ X + P)
    np.testing.assert_allclose(found.value, inverse @ (X.T @ y + P @ mean), rtol=1e-2, atol=1e-5)
    left, B = y - X @ found.value, len(loaded.blocks)
    A = np.array([X[blocks == k].T @ X[blocks == k] + P / B for k in range(B)])
    g = np.array([X[blocks == k].T @ left[blocks == k] + P @ (mean - found.value) / B for k in range(B)])
    of_data, dof = jackknife(Moments(A, g, np.zeros(B, dtype=int)))
    G = inverse @ X.T @ Y
    wanted = of_data + inverse @ P @ inverse + G @ C @ G.T
    np.testing.assert_allclose(np.diag(found.covariance), np.diag(wanted), rtol=0.02)
    assert found.dof == pytest.approx(dof) and np.all(found.identified) and found.rank == 11


@pytest.mark.parametrize(("kilograms", "told"), [(30.0, True), (300.0, False)])
def test_a_load_that_is_hardly_known_is_not_told(kilograms, told):
    """A mass that is not known to 100 kg is none."""
    model, _ = stored()
    usual = quick_load.quick_load(model, BASE, rows_of(truth(ten()), 1)).mass_std
    found = quick_load.quick_load(model, BASE, rows_of(truth(ten()), 1, noise=0.02 * kilograms / usual))
    assert (found is not None) == told
    if told:
        assert 10.0 < found.mass_std < 100.0


def test_friction_terms_are_taken_off():
    rng = np.random.default_rng(4)
    plain = rows_of(truth(), 0, delay=True)
    layout = ColumnLayout(plain.layout.n_base - 2, 1, 0, 2)  # two columns of the base stand for terms
    information = replace(plain, layout=layout)
    coefficients = rng.normal(size=2)
    found = select_friction(information, (), coefficients)
    assert found.layout == replace(layout, n_friction=0)
    at = layout.friction
    for j, columns in enumerate(information.columns):
        R, mine = information.triangle(j), found.triangle(j)
        kept = [k for k, c in enumerate(columns) if not at.start <= c < at.stop]
        off = [k for k, c in enumerate(columns) if at.start <= c < at.stop]
        tau = R[:, -1] - R[:, off] @ coefficients[columns[off] - at.start]
        whole = np.column_stack((R[:, kept], tau))
        np.testing.assert_allclose(mine.T @ mine, whole.T @ whole, rtol=1e-8, atol=1e-6)
        shifted = [c if c < at.start else c - 2 for c in columns[kept]]
        assert list(found.columns[j]) == shifted


def test_gains_from_a_mass_and_from_a_whole_load():
    gains = np.array([3.0, -2.0, 50.0, 0.4, 1.0, 8.0])
    parts = [rows_of(truth(load), k, 0.005, gains=gains) for k, load in enumerate((None, ten()))]
    found = drive_gains(ROBOT, BASE, *parts, MASS)
    known = np.isfinite(found.value)
    assert known.sum() >= 4
    for j in np.flatnonzero(known):
        assert abs(found.value[j] - gains[j]) < 5 * abs(found.std[j])
        assert 1e-4 < abs(found.std[j] / gains[j]) < 0.2
    twice = drive_gains(ROBOT, BASE, *parts, 2.0 * MASS)
    np.testing.assert_allclose(twice.value, 2.0 * found.value, rtol=1e-6)
    np.testing.assert_allclose(twice.std, 2.0 * found.std, rtol=1e-6)
    whole = drive_gains(ROBOT, BASE, *parts, MASS, load=ten())
    for j in range(ROBOT.n):
        assert abs(whole.value[j] - gains[j]) < max(5 * abs(whole.std[j]), 0.03 * abs(gains[j]))
    assert all(whole.from_mass)
    for mass in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="mass of the known load"):
            drive_gains(ROBOT, BASE, *parts, mass)
    for bad in (ten()[:9], np.full(10, np.nan), -ten()):
        with pytest.raises(InputError, match="positive mass"):
            drive_gains(ROBOT, BASE, *parts, MASS, load=bad)
    with pytest.raises(InputError, match=r"no joint feels|no positive mass"):
        drive_gains(ROBOT, BASE, parts[0], parts[0], MASS)


def test_joints_that_do_not_feel_the_mass_see_the_load_that_the_others_measured():
    gains = np.array([3.0, -2.0, 50.0, 0.4, 1.0, 8.0])
    parts = [rows_of(truth(load), k, 0.03, gains=gains) for k, load in enumerate((None, ten()))]
    together = payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])
    found = drive_gains(ROBOT, BASE, *parts, MASS)
    assert found.from_mass == (True, True, True, False, False, False) and np.all(np.isfinite(found.value))
    of_mass = np.where(found.from_mass, found.value, np.nan)
    load, draws = measure_load(together, of_mass, MASS)
    assert load[-1] == pytest.approx(MASS) and all(draw[-1] == pytest.approx(MASS) for draw in draws)
    scatter = np.std(draws, axis=0)[:9]
    assert len(draws) == 32 and np.all(np.abs(load - ten())[:9] < 5 * scatter) and np.all(scatter > 0.0)
    first = together.layout.load.start
    for j in (3, 4, 5):
        R, columns = together.triangle(j), together.columns[j]
        own, of_load = R[:, :-1][:, columns < first], R[:, :-1][:, columns >= first]

        def share(direction, own=own, of_load=of_load, tau=R[:, -1]):
            return np.linalg.lstsq(np.column_stack((own, of_load @ direction)), tau, rcond=None)[0][-1]

        assert found.value[j] == pytest.approx(1.0 / share(load), rel=1e-6)
        assert abs(found.value[j] - gains[j]) < 5 * found.std[j]
        if j != 4:
            continue
        _, error = measure_share(together, j, load, free=False)
        doubt = np.std([share(draw) for draw in draws])
        assert doubt > 0.1 * error
        assert found.std[j] == pytest.approx(np.hypot(error, doubt) / share(load) ** 2, rel=1e-5)
    for j in (0, 1, 2):  # the mass alone, the load's other parameters being what they are
        R = together.triangle(j)
        value, *_ = np.linalg.lstsq(R[:, :-1], R[:, -1], rcond=None)
        assert found.value[j] == pytest.approx(MASS / value[-1], rel=1e-4)


def test_gains_with_a_whole_load_are_one_fit_of_all_joints():
    """v_j g_j = W_j base + W_Lj load, rows divided by the size of the effort; bars by blocks left out in turn."""
    gains, load = np.array([3.0, -2.0, 50.0, 0.4, 1.0, 8.0]), ten()
    parts = [rows_of(truth(x), k, 0.01, gains=gains).take(range(4)) for k, x in enumerate((None, load))]
    together = payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])
    b, n = len(BASE), ROBOT.n
    first = together.layout.load.start

    def fit(left_out=None):
        rows = []
        for j, columns in enumerate(together.columns):
            size = np.linalg.norm(together.triangle(j)[:, -1])
            for k, block in enumerate(together.blocks):
                if k != left_out:
                    R = block.R[j] / size
                    wide = np.zeros((len(R), b + n + 1))
                    of_base = columns < b
                    wide[:, columns[of_base]] = R[:, :-1][:, of_base]
                    wide[:, b + j] = -R[:, -1]
                    wide[:, -1] = -R[:, :-1][:, columns >= first] @ load[columns[columns >= first] - first]
                    rows.append(wide)
        A = np.vstack(rows)
        scale = np.maximum(np.linalg.norm(A[:, :-1], axis=0), 1e-300)
        return (np.linalg.lstsq(A[:, :-1] / scale, A[:, -1], rcond=None)[0] / scale)[b:]

    found = drive_gains(ROBOT, BASE, *parts, np.nan, load=load)
    each = np.array([fit(k) for k in range(8)])
    std = np.sqrt(7 / 8 * np.sum((each - each.mean(axis=0)) ** 2, axis=0))
    good = std < 0.2 * np.abs(fit())
    assert np.count_nonzero(good) >= 4
    np.testing.assert_allclose(found.value[good], fit()[good], rtol=1e-5)
    np.testing.assert_allclose(found.std[good], std[good], rtol=1e-3)
    assert np.all(np.isnan(found.value[~good])) and np.all(np.isnan(found.std[~good]))


def test_a_load_in_the_frame_of_a_link_and_links_that_do_not_carry_it():
    found = Estimate(
        ColumnLayout(0, 0, 10), ten(), 1e-6 * np.eye(10), np.ones(10, bool), np.ones(6), 1.0, 10, Method.WLS, np.inf
    )
    robot = replace(ROBOT, tools={"flange": (ROBOT.n, pose()), "elbow": (3, pose())})
    own = payload_fit.payload_in(found, *payload_fit.load_frame(robot, None), ROBOT.n)
    moved = payload_fit.payload_in(found, *payload_fit.load_frame(robot, "flange"), ROBOT.n)
    assert own.frame == f"joint {ROBOT.joints[-1].name}" and moved.frame == "flange" and own.joint == ROBOT.n
    np.testing.assert_allclose(own.com, COM)
    np.testing.assert_allclose(pose()[:3, :3] @ moved.com + pose()[:3, 3], COM, atol=1e-12)
    np.testing.assert_allclose(pose()[:3, :3] @ moved.inertia @ pose()[:3, :3].T, INERTIA, atol=1e-12)
    assert [payload_fit.load_joint(robot, link) for link in (None, "flange", "elbow")] == [ROBOT.n, ROBOT.n, 3]
    with pytest.raises(InputError, match="choose from flange, elbow"):
        payload_fit.load_frame(robot, "nowhere")
    with pytest.raises(InputError, match="choose from none"):
        payload_fit.load_frame(replace(robot, tools={}), "flange")


def test_a_robot_with_a_counterweight_is_asked_where_the_load_is():
    *arm, last = ROBOT.joints
    robot = replace(ROBOT, joints=(*arm, replace(last, parent=2)), tools={"flange": (5, pose()), "lead": (6, pose())})
    base = base_parameters(robot)
    with pytest.raises(InputError, match=f"2 ends: {arm[-1].name}, {last.name}") as refusal:
        payload_fit.load_map(robot, base)
    assert "link" in refusal.value.hint and "tip_link" in refusal.value.hint
    for link, number in robot.tools.items():
        expected = base.full_map(robot)[:, link_slice(number[0] - 1)]
        np.testing.assert_array_equal(payload_fit.load_map(robot, base, link), expected)


def test_gains_scatter_as_their_bars_say():
    gains, z = np.array([3.0, -2.0, 50.0, 0.4, 1.0, 8.0]), []
    for seed in range(0, 12, 2):
        parts = [rows_of(truth(load), seed + k, 0.02, gains=gains) for k, load in enumerate((None, ten()))]
        found = drive_gains(ROBOT, BASE, *parts, MASS)
        known = np.isfinite(found.value)
        z += list((found.value[known] - gains[known]) / found.std[known])
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.6 and len(z) > 20


@pytest.mark.parametrize(
    ("share", "error", "kept"),
    [(0.5, 0.09, True), (0.5, 0.11, False), (-0.5, 0.09, True), (0.0, 0.0, False), (0.5, np.inf, False)],
)
def test_a_gain_counts_where_it_is_known_to_a_fifth(share, error, kept):
    value, std = np.full(3, np.nan), np.full(3, np.nan)
    keep_gain(value, std, 1, share, error)
    assert np.isfinite(value).tolist() == np.isfinite(std).tolist() == [False, kept, False]
    if kept:
        assert (value[1], std[1]) == (pytest.approx(1.0 / share), pytest.approx(error / share**2))
