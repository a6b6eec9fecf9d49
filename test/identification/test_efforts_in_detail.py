"""What efforts show, part by part: inertias, factors, contradictions, degrees, mounting; each by a plain way."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.inertia_matrix import gravity_torque, inertia_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.fit import Problem, inform
from ros2_dynid.identification.estimators.information import Block, Information
from ros2_dynid.identification.estimators.least_squares import own_errors, wls
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.validation import (
    HeldOut,
    diagnosis,
    effort_evidence,
    effort_scale,
    evidence,
    method_choice,
    mounting,
    torque_errors,
)
from ros2_dynid.identification.validation.effort_scale import Factor, against_prior, factors, refuse_contradictions
from ros2_dynid.identification.validation.sampled_motion import SampledMotion, sampled_motion
from ros2_dynid.identification.validation.torque_errors import cross_validate, folds, held_out_in_folds
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, with_gravity

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = standard_names(ROBOT)
BODIES = [k for k, name in enumerate(NAMES) if name[:2] not in ("Fv", "Fc", "of")]


def rubbing(size=2.0):
    chi = standard_vector(ROBOT)
    for j in (1, 2, 3):
        for part in ("Ia", "Fv", "Fc"):
            chi[NAMES.index(f"{part}{j}")] = size * j
    return chi


def only_bodies(chi):
    out = np.zeros_like(chi)
    out[BODIES] = chi[BODIES]
    return out


# --- evidence of one joint


def test_a_joint_is_asked_about_its_own_torque_inertia_and_friction(monkeypatch):
    """What the fit is made of: torques of links and rotors, M_jj, friction along the speed, the effort without mean."""
    q, dq, ddq = slow_motion()
    chi = rubbing()
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq) + np.array([0.0, 100.0, -30.0])
    tau[::3, 2] = np.nan
    asked = []
    monkeypatch.setattr(effort_evidence, "_inertia_sign", lambda *parts: asked.append(parts) or 1.0)
    effort_evidence.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau))
    rigid, M = inverse_dynamics(ROBOT, only_bodies(chi), q, dq, ddq), inertia_matrix(ROBOT, chi, q)
    assert len(asked) == 3
    for j, (Y, friction, own, acceleration, effort) in enumerate(asked):
        known = np.isfinite(tau[:, j])
        np.testing.assert_allclose(Y @ chi[BODIES], rigid[known, j], atol=1e-9 * np.abs(rigid).max())
        np.testing.assert_allclose(own @ chi[BODIES], M[known, j, j], rtol=1e-9)
        np.testing.assert_array_equal(acceleration, ddq[known, j])
        np.testing.assert_allclose(effort, tau[known, j] - np.nanmean(tau[:, j]), atol=1e-9)
        share = dq[known, j] / np.abs(dq[:, j]).max()
        np.testing.assert_allclose(friction, np.column_stack((np.tanh(20.0 * share), share)), atol=1e-12)


def test_no_sample_is_no_evidence():
    found = effort_evidence.effort_evidence(ROBOT, SampledMotion(*np.zeros((4, 0, 3))))
    assert len(found) == 3 and all(np.isnan([one.gravity_r, one.friction_r, one.inertia]).all() for one in found)


def test_an_offset_of_the_effort_is_no_evidence():
    q, dq, ddq = slow_motion()
    tau = inverse_dynamics(ROBOT, rubbing(), q, dq, ddq)
    plain, moved = (
        effort_evidence.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, x)) for x in (tau, tau + 40.0 * np.ptp(tau))
    )
    for a, b in zip(plain, moved, strict=True):
        for field in ("gravity_r", "gravity_scale", "friction_r", "inertia"):
            np.testing.assert_allclose(getattr(b, field), getattr(a, field), rtol=1e-6)


@pytest.mark.parametrize(("share", "told"), [(0.03, True), (0.015, False)])
def test_the_weight_of_a_joint_counts_beside_that_of_the_heaviest(share, told):
    q, dq, ddq = slow_motion()
    chi = only_bodies(standard_vector(ROBOT))
    last = chi[link_slice(2)].copy()
    for _ in range(8):  # a lighter last link weighs less on the one before it, too
        spread = gravity_torque(ROBOT, chi, q).std(axis=0)
        last *= share * spread[1] / spread[2]
        chi[link_slice(2)] = last
    robot = replace(ROBOT, parameters=dict(zip(NAMES, chi.tolist(), strict=True)))
    Q = gravity_torque(robot, chi, q)
    assert Q[:, 2].std() / Q.std(axis=0).max() == pytest.approx(share, rel=0.01)
    found = effort_evidence.effort_evidence(robot, SampledMotion(q, dq, ddq, 2.0 * Q))[2]
    assert np.isfinite(found.gravity_r) == told
    if told:
        assert found.gravity_scale == pytest.approx(2.0, rel=1e-6) and found.gravity_r == pytest.approx(1.0)


def orthogonal(columns, count=400):
    x = np.random.default_rng(0).normal(size=(count, columns))
    return np.linalg.qr(x - x.mean(axis=0))[0]


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("ratio", "told"), [(0.0024, True), (0.0016, False)])
def test_an_inertia_counts_where_the_motion_tells_it_from_others(ratio, told, sign):
    """Two columns nearly alike: the smallest singular value over the largest is `ratio`; their difference counts."""
    x = orthogonal(5)
    c = (1.0 - ratio**2) / (1.0 + ratio**2)
    Y = np.column_stack((x[:, 0], c * x[:, 0] + np.sqrt(1.0 - c**2) * x[:, 1]))
    own = np.tile([1.0, -1.0], (400, 1))
    effort = sign * (Y[:, 0] - Y[:, 1])
    found = effort_evidence._inertia_sign(Y, x[:, 2:4], own, x[:, 0], effort)
    np.testing.assert_equal(found, sign if told else np.nan)


@pytest.mark.parametrize("unit", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("share", "told"), [(0.72, True), (0.68, False)])
def test_an_inertia_must_be_determined_for_the_larger_part(share, told, unit):
    """As the motion shows it, whatever the units of the parameters."""
    x = orthogonal(4)
    Y = np.column_stack((unit * x[:, 0], x[:, 1], x[:, 1]))  # the motion does not tell the last two apart
    apart = np.sqrt(1.0 - share**2) / np.sqrt(2.0)
    own = np.tile([unit * share, apart, -apart], (400, 1))
    found = effort_evidence._inertia_sign(Y, x[:, 2:4], own, x[:, 0], x[:, 0])
    np.testing.assert_equal(found, 1.0 if told else np.nan)


@pytest.mark.parametrize("unit", [1e-7, 1.0, 1e7])
def test_the_sign_of_an_inertia_does_not_depend_on_units_or_on_columns_of_zeros(unit):
    x = orthogonal(5)
    own = np.tile([1.0 * unit, 0.0, 3.0], (400, 1))
    Y = np.column_stack((unit * x[:, 0], x[:, 1], np.zeros(400)))
    for sign in (1.0, -1.0):
        effort = sign * x[:, 0] + 0.2 * x[:, 2] + 0.3 * x[:, 1]
        np.testing.assert_equal(effort_evidence._inertia_sign(Y, x[:, 2:4], own, x[:, 0], effort), sign)


@pytest.mark.parametrize(("share", "told"), [(0.11, True), (0.09, False)])
def test_an_inertia_must_make_up_a_part_of_the_effort(share, told):
    x = orthogonal(4)
    own = np.tile([1.0, 0.0], (400, 1))
    effort = share * x[:, 0] + np.sqrt(1.0 - share**2) * x[:, 1]
    found = effort_evidence._inertia_sign(x[:, :2], x[:, 2:], own, x[:, 0], effort)
    np.testing.assert_equal(found, 1.0 if told else np.nan)
    friction = share * x[:, 2] + np.sqrt(1.0 - share**2) * x[:, 0]
    own_friction = effort_evidence._friction(x[:, :2], x[:, 2:], x[:, 2], friction)
    assert np.isfinite(own_friction) == told


def test_the_share_of_friction_is_of_what_bodies_leave_and_its_sign_that_of_its_power():
    x = orthogonal(6)
    dq = x[:, 2] - 2.0 * x[:, 3]
    for sign in (1.0, -1.0):
        friction = sign * (0.6 * x[:, 2] - 0.2 * x[:, 3])
        effort = 5.0 + 0.5 * x[:, 0] + friction + 0.3 * x[:, 4]
        found = effort_evidence._friction(x[:, :2], x[:, 2:4], dq, effort - effort.mean())
        size = np.hypot(0.6, 0.2)
        assert found == pytest.approx(sign * size / np.hypot(size, 0.3))


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6, 7])
def test_causes_that_hang_together_are_told_apart(seed):
    """Bodies, offset and friction with parts of each other: one least-squares fit of all has the answer."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 6)) @ (np.eye(6) + 0.4 * rng.normal(size=(6, 6))) + rng.normal(size=6)
    Y, friction, dq, ddq = x[:, :2], x[:, 2:4] + 0.5 * x[:, :1], x[:, 4], x[:, 5]
    truth = (-1.0) ** seed * np.array([0.8, 0.3, 2.0, -2.0, -3.0])
    every = np.column_stack((Y, np.ones(300), friction))
    effort = every @ truth + 0.3 * rng.normal(size=300)
    value = np.linalg.lstsq(every, effort, rcond=None)[0]
    own = np.tile([1.0, 0.0], (300, 1))
    alone = np.linalg.lstsq(every[:, :3], effort, rcond=None)[0]
    assert np.sign(alone[0]) != np.sign(value[0]), "bodies alone would have it the other way round"
    assert effort_evidence._inertia_sign(Y, friction, own, ddq, effort) == np.sign(value[0])
    rest = effort - every[:, :3] @ np.linalg.lstsq(every[:, :3], effort, rcond=None)[0]
    left = effort - every @ value
    fitted = rest - left  # what friction explains beyond bodies and offset
    wanted = np.sign(fitted @ dq) * np.linalg.norm(fitted) / np.linalg.norm(rest)
    assert effort_evidence._friction(Y, friction, dq, effort) == pytest.approx(wanted)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(("own", "seen"), [(0.32, True), (0.28, False)])
def test_how_much_of_friction_is_its_own_does_not_depend_on_its_unit(own, seen, unit):
    x = orthogonal(4)
    dq = x[:, 0]
    Y = np.column_stack((np.sqrt(1.0 - own**2) * x[:, 0] + own * x[:, 1], x[:, 2]))  # nearly the speed
    found = effort_evidence._friction(Y, unit * dq[:, None], dq, dq + 0.1 * x[:, 3])
    assert np.isfinite(found) == seen
    if seen:
        assert found == pytest.approx(own / np.hypot(own, 0.1))


# --- factors of joints


def two_columns(count=12, rows=4, seed=0, size=0.1):
    """Return blocks of one joint that feels a column of its own and one that others know, and the rows themselves."""
    rng = np.random.default_rng(seed)
    blocks, every = [], []
    for k in range(count):
        A = rng.normal(size=(rows, 2))
        y = A @ np.array([0.5, 3.0]) + size * rng.normal(size=rows)
        every.append(np.column_stack((A, y)))
        blocks.append(Block((every[-1],), np.array([rows]), float(k), k + 1.0))
    return Information(tuple(blocks), (np.arange(2),), ColumnLayout(2)), np.vstack(every)


@pytest.mark.parametrize("ratio", [0.0, 0.04, 0.09, 0.11, 1.0])
def test_a_factor_counts_the_doubt_of_the_others_and_is_none_where_that_is_large(ratio):
    """ratio: variance of what the other joints predict, by their covariance, over the power of what they predict."""
    information, rows = two_columns()
    shared = np.array([False, True])
    signal = np.sum((2.0 * rows[:, 1]) ** 2)
    variance = ratio * signal / np.sum(rows[:, 1] ** 2)
    rest = SimpleNamespace(
        value=np.array([9.0, 2.0]), covariance=np.diag([7.0, variance]), identified=np.array([False, True])
    )
    found = effort_scale._factor(information, 0, shared, rest)
    if ratio > 0.1:
        assert (found.value, found.std) == (1.0, np.inf)
        return
    A = np.column_stack((rows[:, 0], 2.0 * rows[:, 1]))
    value = np.linalg.lstsq(A, rows[:, 2], rcond=None)[0][-1]
    assert found.value == pytest.approx(value)
    sure = effort_scale._factor(
        information, 0, shared, SimpleNamespace(**{**vars(rest), "covariance": np.zeros((2, 2))})
    )
    assert found.std == pytest.approx(np.sqrt(sure.std**2 + value**2 * ratio)) and sure.std > 1e-3
    unknown = SimpleNamespace(**{**vars(rest), "identified": np.array([True, False])})
    assert effort_scale._factor(information, 0, shared, unknown).std == np.inf


@pytest.mark.parametrize(("rows", "freedom"), [(1, 10.0), (4, None)])
def test_a_fit_with_hardly_more_rows_than_parameters_proves_little(rows, freedom):
    information, _ = two_columns(12, rows)
    rest = SimpleNamespace(value=np.array([0.0, 2.0]), covariance=np.zeros((2, 2)), identified=np.ones(2, dtype=bool))
    found = effort_scale._factor(information, 0, np.array([False, True]), rest)
    few = effort_scale._factor(information.take(range(3)), 0, np.array([False, True]), rest)
    assert 2.0 < found.freedom <= 11.0 and (freedom is None or found.freedom <= freedom)
    assert rows > 1 or few.freedom == 1.0
    assert effort_scale._left_over(information) == 12 * rows - 2
    assert effort_scale._left_over(two_columns(2, 1)[0]) == 1.0, "at least one"


def test_a_joint_alone_or_one_whose_own_columns_say_the_same_has_no_factor():
    information, rows = two_columns()
    assert factors(information) == [Factor(1.0, np.inf)]
    same = np.column_stack((rows[:, 0], 2.0 * rows[:, 0], rows[:, 2]))
    blocks = tuple(Block((same[4 * k : 4 * k + 4],), np.array([4]), float(k), k + 1.0) for k in range(12))
    alike = Information(blocks, information.columns, information.layout)
    rest = SimpleNamespace(value=np.array([0.0, 2.0]), covariance=np.zeros((2, 2)), identified=np.ones(2, dtype=bool))
    assert effort_scale._factor(alike, 0, np.array([False, True]), rest).std == np.inf
    base = SimpleNamespace(leaders=("Fv1", "ZZ1"))
    told = against_prior(alike, base, np.array([0.0, 2.0]))
    assert told.std == np.inf, "links and friction make the same torque in this motion"
    apart = against_prior(information, base, np.array([0.0, 2.0]))
    assert apart.value == pytest.approx(1.5, abs=0.1) and 0.0 < apart.std < 0.05


def recorded(gains=(1.0, 1.0, 1.0), seed=0, noise=0.02, chi=None):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, rubbing() if chi is None else chi, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return as_prepared(ROBOT, q, dq, ddq, tau * np.array(gains))


@pytest.mark.parametrize("gains", [(1.0, 1.0, 1.0), (1.0, 4.0, 1.0), (-3.0, 1.0, 0.2)])
def test_every_joint_is_compared_with_what_any_of_the_others_know(gains):
    prepared = recorded(gains)
    information = inform(ROBOT, BASE, [prepared], delay=False)
    Y = regressor(ROBOT, prepared.q, prepared.dq, prepared.ddq)[:, :, BASE.columns(ROBOT)]
    felt = np.linalg.norm(Y, axis=0) > 1e-9
    for j, told in enumerate(factors(information)):
        others = [k for k in range(3) if k != j]
        value = wls(information.of_joints(others)).value
        shared = felt[j] & (felt[others[0]] | felt[others[1]])
        alone = felt[j] & ~shared
        A = np.column_stack((Y[:, j, alone], Y[:, j, shared] @ value[shared]))
        if np.isinf(told.std):
            assert gains != (1.0, 1.0, 1.0), "others that contradict each other tell nothing"
            continue
        assert told.value == pytest.approx(np.linalg.lstsq(A, prepared.tau[:, j], rcond=None)[0][-1], rel=1e-6)


def test_the_delay_is_no_parameter_that_joints_tell_each_other_about():
    """Its column is felt by all joints, but it is none of the robot."""
    prepared = recorded((1.0, 3.0, 1.0))
    plain, late = (inform(ROBOT, BASE, [prepared], delay=delay) for delay in (False, True))
    for a, b in zip(factors(plain), factors(late), strict=True):
        assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01))
    prior = BASE.values(ROBOT, standard_vector(ROBOT))
    a, b = (against_prior(one, BASE, one.layout.vector(prior)) for one in (plain, late))
    assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01)) and np.isfinite(a.std)
    nothing = late.layout.vector(np.zeros(len(BASE)), delay=0.1)
    none = against_prior(late, BASE, nothing)
    assert (none.value, none.std) == (1.0, np.inf), "no links to compare with"


def test_gains_are_looked_for_twice_for_each_joint_and_the_start_is_left_as_it_is(monkeypatch):
    tried = []
    monkeypatch.setattr(effort_scale, "scaled", lambda information, gains: tried.append(gains.copy()))
    monkeypatch.setattr(effort_scale, "backward_friction", lambda *_: [])
    monkeypatch.setattr(effort_scale, "factors", lambda part, without=None: [Factor(3.0, 0.01)] * 3)
    start = np.array([1.0, 2.0, -4.0])
    gains, agree = effort_scale.relative_gains(None, None, SimpleNamespace(n=3), start)
    assert not agree and len(tried) == 6
    np.testing.assert_array_equal(start, [1.0, 2.0, -4.0])
    np.testing.assert_array_equal(tried[0], start)
    assert np.prod(np.abs(gains)) == pytest.approx(8.0 / 3.0**6)


@pytest.mark.parametrize(
    ("found", "gains"), [("backward_friction", (1.0, -2.0, 4.0)), ("_backward_together", (1.0, -2.0, 4.0))]
)
def test_joints_that_friction_drives_are_turned_round(monkeypatch, found, gains):
    monkeypatch.setattr(effort_scale, "scaled", lambda information, gains: gains.copy())
    for name in ("backward_friction", "_backward_together"):
        asked = (lambda base, robot, part: [j for j in range(3) if part[j] * gains[j] < 0]) if name == found else None
        monkeypatch.setattr(effort_scale, name, asked or (lambda *_: []))
    monkeypatch.setattr(effort_scale, "factors", lambda part, without=None: [Factor(1.0, 0.01)] * 3)
    told, agree = effort_scale.relative_gains(None, None, SimpleNamespace(n=3), np.array([1.0, 2.0, -4.0]))
    assert agree
    np.testing.assert_array_equal(told, gains)


def test_friction_of_one_kind_alone_or_that_is_not_determined_accuses_nobody():
    chi = rubbing(-2.0)
    for j in (1, 2, 3):
        chi[NAMES.index(f"Ia{j}")] = 2.0
    prepared = recorded(chi=chi)
    information = inform(ROBOT, BASE, [prepared])
    for found in (effort_scale.backward_friction, effort_scale._backward_together):
        assert found(BASE, ROBOT, information) == [0, 1, 2]
        less = SimpleNamespace(leaders=tuple("X9" if name == "Fc2" else name for name in BASE.leaders))
        assert found(less, ROBOT, information) == [0, 2], "Fv alone may be something else"
    steady = replace(prepared, dq=np.where(np.arange(3) == 1, np.sign(prepared.dq), prepared.dq))
    tau = inverse_dynamics(ROBOT, chi, steady.q, steady.dq, steady.ddq)
    same = inform(ROBOT, BASE, [as_prepared(ROBOT, steady.q, steady.dq, steady.ddq, tau)])
    assert 1 not in effort_scale.backward_friction(BASE, ROBOT, same), "one speed does not tell Fv from Fc"
    assert 1 not in effort_scale._backward_together(BASE, ROBOT, same)


# --- recordings that contradict each other


def three_recordings(changes, noise, rows=20, seed=0):
    rng = np.random.default_rng(seed)
    truth, blocks = np.array([1.0, -2.0, 0.5]), []
    for k in range(12):
        A = rng.normal(size=(rows, 3))
        y = A @ truth * changes[k // 4] + noise[k // 4] * rng.normal(size=rows)
        blocks.append(Block((np.column_stack((A, y)),), np.array([rows]), float(k), k + 1.0, k // 4))
    return truth, Information(tuple(blocks), (np.arange(3),), ColumnLayout(3))


def errors_of(truth, information, k):
    """Return the relative errors of recording k, with the parameters given and with those that fit it best."""
    rows = np.vstack([block.R[0] for block in information.blocks if block.recording == k])
    best = np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)[0]
    return [np.linalg.norm(rows[:, 3] - rows[:, :3] @ x) / np.linalg.norm(rows[:, 3]) for x in (truth, best)]


@pytest.mark.parametrize("change", [1.07, 1.1, 1.13, 1.2, 1.5])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2, 0.3, 0.4, 0.6])
def test_a_recording_contradicts_where_its_error_is_material_and_thrice_that_alone(change, noise):
    truth, information = three_recordings((1.0, 1.0, change), (0.02, 0.02, noise))
    together, alone = errors_of(truth, information, 2)
    assert abs(together - 0.1) > 1e-4 and abs(together / alone - 3.0) > 1e-3
    if together > 0.1 and together > 3.0 * alone:
        with pytest.raises(InputError, match=f"c: torque error {100 * together:.0f} % .*, {100 * alone:.1f} % alone"):
            refuse_contradictions(information, truth, "abc")
    else:
        refuse_contradictions(information, truth, "abc")


@pytest.mark.parametrize(("changes", "noise", "named"), [
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.02), "c"),
    ((1.8, 1.0, 1.5), (0.02, 0.02, 0.02), "a"),
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.2), "a"),  # the other one is noisy alone, too
])  # fmt: skip
def test_of_several_that_contradict_the_clearest_is_named(changes, noise, named):
    truth, information = three_recordings(changes, noise)
    with pytest.raises(InputError, match=f"^{named}: "):
        refuse_contradictions(information, truth, "abc")


def test_a_recording_of_too_few_rows_contradicts_nobody():
    truth, information = three_recordings((1.0, 1.0, 3.0), (0.02, 0.02, 0.02))
    few = (
        *information.blocks[:8],
        replace(information.blocks[8], R=(information.blocks[8].R[0][:3],), rows=np.array([3])),
    )
    refuse_contradictions(replace(information, blocks=few), truth, "abc")
    # of two joints, one with two rows
    both = tuple(
        replace(block, R=(block.R[0], block.R[0][: (20 if block.recording < 2 else 1)]),
                rows=np.array([20, 20 if block.recording < 2 else 1]))
        for block in information.blocks[:10]
    )  # fmt: skip
    two = Information(both, (np.arange(3), np.arange(3)), ColumnLayout(3))
    refuse_contradictions(two, truth, "abc")
    with pytest.raises(InputError, match=r"^c: "):
        more = tuple(replace(b, R=(b.R[0], b.R[0]), rows=np.array([20, 20])) for b in information.blocks)
        refuse_contradictions(replace(two, blocks=more), truth, "abc")


# --- the law that efforts are judged by


def test_the_law_of_the_data_is_that_which_auto_finds(monkeypatch):
    """With its rows, its terms and a priori values for all of its columns."""
    prepared = recorded()
    information = inform(ROBOT, BASE, [prepared])
    plain = Problem(ROBOT, BASE, (prepared,), information, np.full(len(BASE), 7.0))
    term = FrictionTerm(2, FrictionKind.CUBIC)
    rows = inform(ROBOT, BASE, [prepared], delay=False, terms=(term,))
    law = SimpleNamespace(terms=(term,), prepared=("with the load",), information=rows)
    asked = []
    monkeypatch.setattr(diagnosis, "with_law", lambda *given: asked.append(given) or law)
    found = diagnosis._law_of_data(plain)
    assert asked == [(ROBOT, BASE, plain.prepared, information, "auto", Method.WLS)]
    assert found.prepared == law.prepared and found.information is rows and found.terms == (term,)
    np.testing.assert_allclose(found.prior, [*BASE.values(ROBOT, standard_vector(ROBOT)), 0.0])
    monkeypatch.setattr(diagnosis, "with_law", lambda *_: SimpleNamespace(terms=()))
    assert diagnosis._law_of_data(plain) is None, "plain friction"


def test_efforts_are_judged_without_terms_in_few_blocks(monkeypatch):
    prepared = [recorded(seed=k) for k in range(5)]
    term = FrictionTerm(2, FrictionKind.CUBIC)
    information = inform(ROBOT, BASE, prepared, delay=False, terms=(term,))
    assert len(information.blocks) == 150
    problem = Problem(ROBOT, BASE, tuple(prepared), information, information.layout.vector(np.ones(len(BASE))), (term,))
    seen = []

    def efforts(given, evidence, motion):
        seen.append(given)
        assert len(motion.q) == 1500 and len(evidence) == 3, "3000 samples, every second"
        return ("wrong",) if given.terms else ("of plain friction",)

    monkeypatch.setattr(diagnosis, "_efforts", efforts)
    found = diagnosis.diagnose(problem)
    assert found.findings == ("of plain friction",)
    assert [one.terms for one in seen] == [(term,), ()]
    for one in seen:
        assert len(one.information.blocks) <= 120 and one.information.size == len(BASE) + len(one.terms)
        assert one.information.rows.tolist() == information.rows.tolist()


def test_degrees_are_told_before_a_mounting_that_they_make_look_wrong(monkeypatch):
    prepared = recorded()
    information = inform(ROBOT, BASE, [prepared], delay=False)
    problem = Problem(ROBOT, BASE, (prepared,), information, np.ones(len(BASE)))
    monkeypatch.setattr(diagnosis, "_mounting", lambda *_: "gravity")
    assert diagnosis.diagnose(problem).findings == ("gravity",)
    monkeypatch.setattr(diagnosis, "_degrees", lambda *_: "degrees")
    assert diagnosis.diagnose(problem).findings == ("degrees",)


def test_a_refusal_names_its_recording_and_every_hint_once():
    found = [
        diagnosis.Finding("a", (), "first", "do this"),
        diagnosis.Finding("b", (), "second", "do that"),
        diagnosis.Finding("c", (), "third", "do this"),
    ]
    with pytest.raises(InputError, match=r"^run\.bag: first; second; third") as refused:
        diagnosis.refuse(found, "run.bag")
    assert refused.value.hint == "do this, and do that"


# --- degrees


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.8])
def test_angles_are_in_degrees_where_that_halves_the_error(noise):
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 400, 3)) * np.array([1.0, 2.0, 0.1])
    tau = inverse_dynamics(ROBOT, standard_vector(ROBOT), q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    unit = 180.0 / np.pi
    degrees, radians = (as_prepared(ROBOT, x * q, x * dq, x * ddq, tau) for x in (unit, 1.0))
    before, after = (inform(ROBOT, BASE, [one]) for one in (degrees, radians))
    problem = SimpleNamespace(robot=ROBOT, base=BASE, prepared=[degrees], information=before)
    found = diagnosis._degrees(problem, sampled_motion([degrees]))
    ratio = diagnosis._own_error(after) / diagnosis._own_error(before)
    assert abs(ratio - 0.5) > 1e-3 and (found is not None) == (ratio < 0.5)


@pytest.mark.parametrize(("reach", "told"), [(6.2, False), (6.4, True)])
def test_a_joint_turns_too_far_beyond_a_turn_and_a_slide_never_does(reach, told, monkeypatch):
    joints = tuple(replace(joint, sigma=PRISMATIC) if k == 2 else joint for k, joint in enumerate(ROBOT.joints))
    robot = replace(ROBOT, joints=joints, parameters={})
    q = np.zeros((4, 3))
    q[2] = (-reach, 0.5, 100.0)
    motion = SampledMotion(q, q, q, q)
    whole = as_prepared(robot, q + 1.0, q + 2.0, q + 3.0, q)
    monkeypatch.setattr(diagnosis, "inform", lambda robot, base, prepared: prepared)
    monkeypatch.setattr(diagnosis, "_own_error", lambda asked: 1.0 if asked == "as it is" else 0.4)
    seen = []
    monkeypatch.setattr(diagnosis, "inform", lambda robot, base, prepared: seen.append(prepared[0]) or "turned")
    problem = SimpleNamespace(robot=robot, base=None, prepared=[whole], information="as it is")
    found = diagnosis._degrees(problem, motion)
    assert (found is not None) == told == bool(seen)
    if found is not None:
        assert found.joints == (robot.active_names[0],)
        for name in ("q", "dq", "ddq", "top_speed"):
            small = getattr(whole, name) * np.array([np.pi / 180.0, np.pi / 180.0, 1.0])
            np.testing.assert_allclose(getattr(seen[0], name), small, rtol=1e-12)


# --- mounting


def test_a_robot_that_stands_still_in_an_upright_direction_has_gravity_of_its_own_size():
    """The direction is found; its size is that of the description, of the moon too."""
    q, dq, ddq = slow_motion(2)
    moon = replace(ROBOT, gravity=np.array([0.0, 0.0, -1.62]))
    tau = inverse_dynamics(with_gravity(ROBOT, (1.62, 0.0, 0.0)), rubbing(), q, dq, ddq)
    found = mounting.mounting(moon, SampledMotion(q, dq, ddq, tau))
    assert found.gravity == (1.62, 0.0, 0.0) and found.angle == pytest.approx(90.0, abs=2.0) and found.wrong


def test_drives_and_offsets_are_fitted_and_their_description_is_not_believed():
    """Rotors, friction and offsets of any size explain themselves; those described play no part."""
    q, dq, ddq = slow_motion(2)
    drives = [k for k in range(len(NAMES)) if NAMES[k][:2] in ("Ia", "Fv", "Fc", "of")]
    chi = standard_vector(ROBOT)
    chi[drives] = np.linspace(1.0, 20.0, len(drives))
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    motion = SampledMotion(q, dq, ddq, tau)
    plain = mounting.mounting(ROBOT, motion)
    assert plain.error < 0.15 and plain.described < 0.15 and not plain.wrong
    claims = dict(zip(NAMES, chi * np.where(np.isin(np.arange(len(chi)), drives), -3.0, 1.0), strict=True))
    assert mounting.mounting(replace(ROBOT, parameters=claims), motion) == plain


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
                chi[NAMES.index(f"{part}{j}")] = value
        tau = inverse_dynamics(ROBOT, chi, q, moved, ddq)
        assert mounting.mounting(ROBOT, SampledMotion(q, moved, ddq, tau)).brakes == (sign > 0.0)


def test_errors_are_shares_of_what_drives_leave():
    """By one stacked least-squares problem: gravity along three axes, the motion, and the columns of each joint."""
    q, dq, ddq = slow_motion(3, 400)
    rng = np.random.default_rng(0)
    chi = only_bodies(standard_vector(ROBOT))
    chi[[k for k, name in enumerate(NAMES) if name[:2] == "Ia"]] = 0.0
    tau = inverse_dynamics(with_gravity(ROBOT, (0.0, 9.81, 0.0)), rubbing(), q, dq, ddq)
    tau = tau + 0.3 * tau.std(axis=0) * rng.normal(size=tau.shape)
    found = mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    still = np.zeros_like(q)
    G = [inverse_dynamics(replace(ROBOT, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)]
    D = inverse_dynamics(replace(ROBOT, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    own = []
    for j in range(3):
        for column in (np.tanh(50.0 * dq / np.abs(dq).max(axis=0)), dq, ddq, np.ones_like(dq)):
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


@pytest.mark.parametrize(("gravity", "left"), [(3.0, 0.5), (-3.0, np.hypot(3.0, 0.5))])
def test_gravity_as_described_is_never_negative(gravity, left):
    x = orthogonal(3)
    y = gravity * x[:, 0] + 2.0 * x[:, 1] + 0.5 * x[:, 2]
    assert np.linalg.norm(mounting._left(x[:, :2], y)) == pytest.approx(left)


@pytest.mark.parametrize(("ratio", "told"), [(90.0, True), (110.0, False)])
def test_a_direction_that_the_motion_hardly_tells_is_not_told(monkeypatch, ratio, told):
    """Torques of unit gravity along the axes, the smallest `ratio` times smaller than the largest."""
    x = orthogonal(4, 300)
    shown = iter([x[:, 0], x[:, 1] / ratio, x[:, 2], x[:, 3]])
    monkeypatch.setattr(mounting, "inverse_dynamics", lambda *_: next(shown).reshape(100, 3))
    monkeypatch.setattr(mounting, "_own_columns", lambda robot, dq, ddq: np.zeros((300, 12)))
    motion = SampledMotion(*np.random.default_rng(1).normal(size=(4, 100, 3)))
    assert (mounting.mounting(ROBOT, motion) is not None) == told


# --- which estimator


def estimate(value, std, method=Method.WLS):
    known = np.ones(3, dtype=bool)
    return SimpleNamespace(base=np.array(value), base_std=np.array(std), base_identified=known, method=method)


@pytest.mark.parametrize(("std", "wide", "noise", "method"), [
    (0.01, 0.05, 0.35, Method.WLS), (0.05, 0.01, 0.35, Method.IV), (0.01, 0.03, 1.2, Method.IV),
    (0.01, 0.034, 0.35, Method.WLS),
])  # fmt: skip
def test_bias_is_measured_by_the_bars_of_the_estimate_without(monkeypatch, std, wide, noise, method):
    found, other = estimate((1.0, 2.0, 3.1), (std,) * 3), estimate((1.0, 2.0, 3.0), (wide,) * 3, Method.IV)
    monkeypatch.setattr(method_choice, "_best", lambda problem: other)
    monkeypatch.setattr(method_choice, "_noise", lambda problem: noise)
    problem = SimpleNamespace(base=SimpleNamespace(names=("a", "b", "c")))
    told = method_choice.method_choice(problem, found)
    assert told.method is method
    if told.reason is not None:
        assert f"c is off by {0.1 / wide:.1f} standard deviations" in told.reason
        assert f"makes {100 * noise:.0f} % of the power" in told.reason


@pytest.mark.parametrize(("stds", "best"), [
    ({Method.IV: 0.02, Method.IDIM_IV: 0.01, Method.DIDIM: 0.005}, Method.DIDIM),
    ({Method.IV: 0.02, Method.IDIM_IV: 0.01, Method.DIDIM: 0.015}, Method.IDIM_IV),
    ({Method.IV: 0.02, Method.IDIM_IV: 0.03, Method.DIDIM: 0.01}, Method.DIDIM),
    ({Method.IV: 0.02, Method.IDIM_IV: 0.02, Method.DIDIM: 0.02}, Method.IV),
    ({Method.IV: 0.02, Method.IDIM_IV: None, Method.DIDIM: 0.01}, Method.DIDIM),
    ({Method.IV: 9.0, Method.IDIM_IV: 8.0, Method.DIDIM: 7.0}, Method.IV),  # none knows a parameter well
])  # fmt: skip
def test_of_all_estimators_without_bias_the_narrowest_counts(monkeypatch, stds, best):
    def fitter(method, problem):
        if stds[method] is None:
            raise RankError("open", "record", rank=3, expected=4, tolerance=1e-8)
        return lambda chosen: estimate((1.0, 2.0, 3.0), (stds[method],) * 3, method)

    monkeypatch.setattr(method_choice, "fitter", fitter)
    problem = SimpleNamespace(controller=1, prepared=[SimpleNamespace(reference=1)])
    assert method_choice._best(problem).method is best


@pytest.mark.parametrize("method", [Method.WLS, Method.OLS, Method.IRLS])
def test_an_estimate_that_nothing_can_be_put_beside_stays(monkeypatch, method):
    def best(problem):
        raise RankError("open", "record", rank=3, expected=4, tolerance=1e-8)

    monkeypatch.setattr(method_choice, "_best", best)
    monkeypatch.setattr(method_choice, "_noise", lambda problem: 0.7)
    told = method_choice.method_choice(None, estimate((1.0, 2.0, 3.0), (0.1,) * 3, method))
    assert told == method_choice.MethodChoice(method, 0.7, None)


def test_estimates_that_correct_nothing_are_compared_with_least_squares(monkeypatch):
    asked = []
    monkeypatch.setattr(method_choice, "_noise", lambda problem: 0.5 * method_choice.NOISY)
    monkeypatch.setattr(
        method_choice, "_nothing_to_correct", lambda problem, found, fit, noise: asked.append((found, fit, noise))
    )
    for method in (Method.IV, Method.IDIM_IV, Method.DIDIM):
        found = estimate((1.0, 2.0, 3.0), (0.1,) * 3, method)
        method_choice.method_choice("problem", found, "fit")
        assert asked.pop() == (found, "fit", 0.5 * method_choice.NOISY)
    assert method_choice.method_choice("problem", estimate((1, 2, 3), (1, 1, 1))).method is Method.WLS
    assert not asked


# --- evidence


def test_springs_are_felt_by_their_outer_joint():
    """Of a spring between two joints the outer one counts, whatever the number of the spring."""
    forces = (
        Force("between", ForceKind.SPRING, (1,), {1: 1.0, 3: -1.0}),
        Force("own", ForceKind.SPRING, (1,), {2: 1.0}),
    )
    robot = replace(ROBOT, forces=forces)
    base = base_parameters(robot)
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = rng.normal(size=(4, 300, 3)) * np.array([1.0, 2.0, 3.0])
    information = inform(robot, base, [as_prepared(robot, q, dq, ddq, tau)])
    found = wls(information)
    fit = torque_errors(robot.active_names, information, found.value)
    seen = {one.name: one for one in evidence.evidence_of(robot, base, information, found, fit, HeldOut()).parameters}
    for name, joint in (("Ks1", 2), ("Ks2", 1)):
        one = seen[name]
        assert (one.joint, one.kind, one.group) == (robot.active_names[joint], "Ks", "force")
        assert one.noise == found.sigma[joint]
    assert seen["Ks2"].effect == pytest.approx(np.sqrt(np.mean(q[:, 1] ** 2)))
    assert seen["Ks1"].effect == pytest.approx(np.sqrt(np.mean((q[:, 0] - q[:, 2]) ** 2)))
    odd = replace(found, sigma=np.ones(5))  # of rows that are not those of the joints
    again = evidence.evidence_of(robot, base, information, odd, fit, HeldOut()).parameters
    own = own_errors(information)
    assert {one.name: one.noise for one in again}["Ks2"] == own[1] != found.sigma[1]


def test_only_rows_in_motion_are_judged():
    """Rows of joints that stand still are fitted to, but no model predicts their friction."""
    still, moving = (inform(ROBOT, BASE, [recorded(seed=0, noise=noise)]) for noise in (0.1, 0.02))
    fewer = tuple(replace(block, rows=block.rows // 2 + np.arange(3)) for block in moving.blocks)
    moving = replace(moving, blocks=fewer)  # than there are at rest and in motion
    both = replace(still, motion=moving.blocks)
    names = ROBOT.active_names
    value = wls(still).value
    assert torque_errors(names, both, value) == torque_errors(names, moving, value)
    fit = torque_errors(names, moving, value)
    seen, wanted = (evidence.evidence_of(ROBOT, BASE, one, wls(still), fit, HeldOut()).joints for one in (both, moving))
    assert seen == wanted

    def fitted(blocks):
        return wls(still.take(blocks))

    found = cross_validate(names, both, 3, fitted)
    errors, torques = np.zeros(3), np.zeros(3)
    for fold in folds(still, 3):
        rest = [b for b in range(len(still.blocks)) if b not in fold]
        x = fitted(rest).value
        for k in fold:
            for j, (R, columns) in enumerate(zip(moving.blocks[k].R, still.columns, strict=True)):
                errors[j] += np.sum((R[:, -1] - R[:, :-1] @ x[columns]) ** 2)
                torques[j] += np.sum(R[:, -1] ** 2)
    for j, name in enumerate(names):
        assert found[name].relative == pytest.approx(np.sqrt(errors[j] / torques[j]))
        assert found[name].rms == pytest.approx(np.sqrt(errors[j] / moving.rows[j]))


def test_folds_need_rows_in_as_many_blocks():
    rows = [10, 0, 10, 10, 0, 10]
    blocks = tuple(
        Block((np.random.default_rng(k).normal(size=(max(n, 1), 3)),), np.array([n]), float(k), k + 1.0)
        for k, n in enumerate(rows)
    )
    information = Information(blocks, (np.arange(2),), ColumnLayout(2))
    assert len(folds(information, 4)) == 4
    with pytest.raises(InputError, match=r"5 folds.*choose 2 to 4"):
        folds(information, 5)
    none = held_out_in_folds(["a"], information, None, lambda blocks: wls(information.take(blocks)))
    assert none == HeldOut() and none.folds == 0 and dict(none.errors) == {}
    with pytest.raises(InputError, match="5 folds"):
        held_out_in_folds(["a"], information, 5, lambda blocks: wls(information.take(blocks)))
    assert held_out_in_folds(["a"], information, 0, lambda blocks: None) == HeldOut(switched_off=True)
