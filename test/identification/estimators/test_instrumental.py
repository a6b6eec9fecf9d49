# SPDX-License-Identifier: Apache-2.0

"""Instruments and simulated loops: the parts that they are made of, each by its definition."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.estimators import didim, instrumental, simulated_loop
from ros2_dynid.identification.estimators.instrumental import CrossMoments
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import Moments, jackknife
from ros2_dynid.identification.regression.information import combine, gather
from ros2_dynid.identification.regression.least_squares import error_levels, wls
from ros2_dynid.model.efforts import MeasuredEffort
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = ROBOT.active_names
RATE = 100.0


def recording(count=1500, noise=0.0, reference=False):
    """Return a slow motion (0.5, 0.8 and 1.1 Hz) with noise, whose spectrum is known."""
    t = np.arange(count) / RATE
    w = 2 * np.pi * np.array([0.5, 0.8, 1.1])
    q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    rng = np.random.default_rng(0)
    p = as_prepared(ROBOT, q + noise * rng.normal(size=q.shape), dq, ddq, tau, t, source="run")
    spectrum = Spectrum(np.full(3, noise**2 / (0.5 * RATE)), np.array([0.5, 0.8, 1.35]), np.full(3, 20.0), RATE)
    return replace(
        p,
        spectrum=spectrum,
        filter=replace(p.filter, row_cutoff=8.0),
        reference=1.1 * q if reference else None,
        gear_torque=10.0 * q,
    )


# --- smooth motion


def test_the_band_of_the_motion():
    p = recording()
    assert instrumental.motion_band(p) == pytest.approx(1.35 / 0.45)
    narrow = replace(p, filter=replace(p.filter, row_cutoff=2.0))
    assert instrumental.motion_band(narrow) == 2.0
    for bad in (replace(p, spectrum=None), replace(p, filter=replace(p.filter, row_cutoff=None))):
        with pytest.raises(InputError, match="positions as recorded"):
            instrumental.motion_band(bad)


def test_noise_within_the_band_of_the_motion_is_refused_at_the_worst_joint():
    p = recording(4000, 1e-4)
    instrumental.refuse_shared_noise(p, NAMES)
    loud = replace(p.spectrum, floor=np.array([1e-9, 3e-2, 1e-9]))
    spoilt = replace(p, spectrum=loud)
    with pytest.raises(InputError, match=f"joint '{NAMES[1]}'.*instruments made from the positions have it too"):
        instrumental.refuse_shared_noise(spoilt, NAMES)
    instrumental.refuse_shared_noise(replace(spoilt, reference=p.q), NAMES)


# --- instrumental variables


def chunk(seed, count=200, size=4):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(size, 2, count))
    return Rows(np.arange(count) / 10.0, W, rng.normal(size=(2, count)), rng.uniform(size=(2, count)) > 0.2)


def test_moments_of_blocks_and_of_phases():
    rows, other = chunk(0), chunk(1)
    starts = np.array([0.0, 5.0, 12.0])
    found = instrumental.cross_moments([other], [rows], starts, period=4.0)
    keep = rows.keep & other.keep
    number = np.searchsorted(starts, rows.t, side="right") - 1
    for k in range(3):
        for j in range(2):
            some = (number == k) & keep[j]
            np.testing.assert_allclose(found.A[k, j], other.W[:, j, some] @ rows.W[:, j, some].T)
            np.testing.assert_allclose(found.y[k, j], other.W[:, j, some] @ rows.tau[j, some])
    np.testing.assert_allclose(found.phases.A.sum(axis=0), found.A.sum(axis=0))
    phase = np.floor((rows.t % 4.0) / 4.0 * len(found.phases.A) + 1e-9).astype(int)
    some = (phase == 3) & keep[1]
    np.testing.assert_allclose(found.phases.y[3, 1], other.W[:, 1, some] @ rows.tau[1, some])
    late = instrumental.cross_moments([other], [rows], starts + 3.0)
    some = (rows.t < 8.0) & keep[1]
    np.testing.assert_allclose(late.y[0, 1], other.W[:, 1, some] @ rows.tau[1, some]), "rows before the first block"
    assert late.phases is None
    w = np.array([2.0, 0.5])
    A, y = found.weighted(w, [2, 0])
    np.testing.assert_allclose(A[0], 4.0 * found.A[2, 0] + 0.25 * found.A[2, 1])
    np.testing.assert_allclose(y[1], 4.0 * found.y[0, 0] + 0.25 * found.y[0, 1])
    with pytest.raises(InputError, match="no row"):
        instrumental.cross_moments([], [], starts)


def test_moments_of_several_recordings():
    one, two = (
        CrossMoments(np.ones((2, 1, 1, 1)), np.ones((2, 1, 1))),
        CrossMoments(np.zeros((3, 1, 1, 1)), np.zeros((3, 1, 1))),
    )
    assert instrumental.join_moments([one, two]).phases is None
    found = instrumental.join_moments([one, replace(two, phases=one)])
    assert len(found.A) == 5 and found.A[:2].all() and not found.A[2:].any()
    assert len(found.phases.y) == 4 and found.phases.y.all(), "blocks of time where a motion does not repeat"


@pytest.mark.parametrize("blocks", [None, range(5, 25)])
def test_the_estimate_of_instruments_is_that_of_the_normal_equations(blocks):
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.uniform(-2, 2, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq) + 0.3 * rng.normal(size=q.shape)
    p = as_prepared(ROBOT, q, dq, ddq, tau)
    information = build_information(ROBOT, BASE, [p], delay=False)
    from ros2_dynid.identification.preparation.rows import row_chunks

    rows = list(row_chunks(ROBOT, p, BASE.columns(ROBOT)))
    other = [replace(part, W=part.W + 0.1 * rng.normal(size=part.W.shape)) for part in rows]
    starts = np.array([block.start for block in information.blocks])
    moments = instrumental.cross_moments(other, rows, starts)
    found = instrumental.iv(information, moments, None, blocks)
    part = information if blocks is None else information.take(blocks)
    weights = wls(part).sigma ** -2.0
    chosen = list(range(30) if blocks is None else blocks)
    A = np.einsum("j,kjab->ab", weights, moments.A[chosen])
    y = np.einsum("j,kja->a", weights, moments.y[chosen])
    np.testing.assert_allclose(found.value, np.linalg.solve(A, y), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.sigma, error_levels(part, found.value, np.sqrt(weights)), rtol=1e-9)
    scale = np.sqrt(np.abs(np.diag(A)))
    s = np.linalg.svd(A / np.outer(scale, scale), compute_uv=False)
    assert found.cond == pytest.approx(np.sqrt(s[0] / s[-1])) and found.rank == len(BASE)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    z = (found.value - truth) / found.std
    assert 0.4 < np.sqrt(np.mean(z**2)) < 1.8
    twice = replace(moments, A=moments.A.copy(), y=moments.y.copy())
    twice.A[..., 3, :], twice.A[..., :, 3] = twice.A[..., 4, :], twice.A[..., :, 4]
    with pytest.raises(RankError, match=rf"do not excite all .*\(rank {len(BASE) - 1} of {len(BASE)}"):
        instrumental.iv(information, twice, None, blocks)


def moments_with(rng, count, size, noise=1.0):
    A = np.einsum("kjma,kjmb->kjab", *(rng.normal(size=(2, count, 1, 30, size)) + 0.8))
    return CrossMoments(
        A, noise * rng.normal(size=(count, 1, size)) + np.einsum("kjab,b->kja", A, np.arange(1.0, size + 1.0))
    )


def test_bars_of_instruments_are_those_of_the_blocks_of_every_recording_and_of_the_period():
    """Columns that nothing excites have no value, no bars, and take nothing from the others."""
    rng = np.random.default_rng(8)
    shapes = (3, 1, 120), (1, 120)
    rows = [Rows(np.arange(120.0), *map(rng.standard_normal, shapes), np.ones((1, 120), bool)) for _ in range(2)]
    information = combine([gather([one], np.ones((1, 3), bool), 120, n_blocks=6) for one in rows])
    moments = replace(moments_with(rng, 12, 3), phases=moments_with(rng, 9, 3, 8.0))
    for part in (moments, moments.phases):
        part.A[..., 1, :], part.A[..., :, 1], part.y[..., 1] = 0.0, 0.0, 0.0
    found = instrumental.iv(information, moments)
    weight = wls(information).sigma ** -2.0
    kept = np.ix_([0, 2], [0, 2])
    A, y = (weight * part.sum(axis=0)[0] for part in (moments.A, moments.y))
    value = np.array([*np.linalg.solve(A[kept], y[[0, 2]])])
    np.testing.assert_allclose(found.value, [value[0], 0.0, value[1]], rtol=1e-9)
    assert found.identified.tolist() == [True, False, True] and found.rank == 2 and np.isinf(found.std[1])

    def own(part, recording, phases=None):
        A, y = weight * part.A[:, 0], weight * part.y[:, 0]
        return Moments(A, y - A @ found.value, recording, phases)

    numbers = np.repeat([0.0, 1.0], 6)
    by_phase = own(moments.phases, np.zeros(9))
    covariance, dof = jackknife(own(moments, numbers, by_phase), found.identified)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-6)
    assert found.dof == pytest.approx(dof)
    plain = jackknife(own(moments, numbers), found.identified)[0]
    assert not np.allclose(plain, covariance, rtol=0.01), "the period tells more"
    assert not np.allclose(plain, jackknife(own(moments, np.zeros(12)), found.identified)[0], rtol=0.01)
    some = instrumental.iv(information, moments, None, list(range(11)))
    assert np.array_equal(some.dof, instrumental.iv(information, replace(moments, phases=None), None, range(11)).dof)
    np.testing.assert_array_equal(
        some.covariance, instrumental.iv(information, replace(moments, phases=None), None, range(11)).covariance
    )


# --- estimates that follow each other


def estimate(value, std):
    return SimpleNamespace(value=np.array(value), std=np.array(std))


@pytest.mark.parametrize(
    ("before", "found", "std", "far"),
    [
        ((1.0, 2.0), (1.1, 1.0), (0.1, 0.5), 2.0),
        ((1.0, 2.0), (1.3, 2.0), (0.1, 0.5), 3.0),
        ((1.0, 2.0), (9.0, 2.5), (np.inf, 0.5), 1.0),  # what is not known says nothing
        ((1.0, 2.0), (9.0, 2.0), (0.0, 0.5), 0.0),
    ],
)
def test_how_far_estimates_move(before, found, std, far):
    assert simulated_loop.measure_change(estimate(before, (1, 1)), estimate(found, std)) == pytest.approx(far)
    rounded = simulated_loop.measure_change(estimate((3.0, 4.0), (1, 1)), estimate((3.0 + 2.0**-40, 4.0), (1e-16, 0.5)))
    assert rounded == pytest.approx(2.0**-40 / 5e-12), "rounding is no way"


# --- is the simulated loop that of the robot?


def moved_by(off, led, bridged=0):
    """Return a recording that is `led` from its reference and `off` from its simulation, which is twice as fine."""
    p = recording(1000)
    w = np.sin(2 * np.pi * 0.3 * p.t)[:, None]
    p = replace(p, reference=p.q + np.array(led) * w, segments=(slice(0, 400), slice(400, 1000)))
    fine = np.repeat(p.q + np.array(off) * w, 2, axis=0)
    simulated = replace(p, q=fine, step=2, bridged=np.zeros(2000), segments=(slice(0, 800), slice(800, 2000)))
    simulated.bridged[:bridged] = 1.0
    return p, simulated


@pytest.mark.parametrize(
    ("off", "led", "wrong"),
    [
        ((0.0, 0.0, 0.0), (0.1, 0.1, 0.1), None),
        ((0.04, 0.04, 0.04), (0.1, 0.1, 0.1), None),  # less than half of it is left
        ((0.0, 0.06, 0.0), (0.1, 0.1, 0.1), 1),
        ((0.0, 0.0, 0.06), (0.1, 0.1, -0.1), 2),
        ((0.06, 0.2, 0.06), (0.1, 0.1, 0.1), 1),  # the worst is named
        ((0.001, 0.001, 0.001), (0.0001, 0.0001, 0.0001), None),  # too little to matter
    ],
)
def test_a_loop_that_moves_otherwise_is_refused(off, led, wrong):
    pair = moved_by(off, led)
    if wrong is None:
        didim.refuse_other_motion(*pair, NAMES)
        return
    with pytest.raises(InputError, match=f"joint '{NAMES[wrong]}'.*another than was given") as refused:
        didim.refuse_other_motion(*pair, NAMES)
    far, apart = abs(off[wrong]) / np.sqrt(2), abs(led[wrong]) / np.sqrt(2)
    assert f"is {far:.1g}"[:7] in refused.value.what and f"{apart:.1g}"[:4] in refused.value.what
    none = (moved_by(off, led, bridged=2000)[0], moved_by(off, led, bridged=2000)[1])
    didim.refuse_other_motion(*none, NAMES)


@pytest.mark.parametrize(("off", "led", "refused"), [
    (0.049, 0.1, False), (0.051, 0.1, True),  # half of the way to the reference
    (0.0019, 0.0, False), (0.0021, 0.0, True),  # 0.2 % of the motion
])  # fmt: skip
@pytest.mark.parametrize("joint", [0, 2])
def test_how_far_a_simulated_robot_may_be_from_the_recorded_one(off, led, refused, joint):
    """Wherever it moves: its motion is what it does about its mean."""
    one = np.arange(3) == joint
    p, simulated = moved_by(off * one, led * one)
    p, simulated = (replace(x, q=x.q + 5.0, reference=p.reference + 5.0) for x in (p, simulated))
    if refused:
        with pytest.raises(InputError, match=f"run: joint '{NAMES[joint]}'"):
            didim.refuse_other_motion(p, simulated, NAMES)
    else:
        didim.refuse_other_motion(p, simulated, NAMES)


def test_stretches_that_cannot_be_compared_do_not_count():
    """Neither those where the loop still starts nor those that were bridged; distances are rms of the others."""
    p, simulated = moved_by((0.0, 0.3, 0.0), (0.1, 0.1, 0.1))
    far = np.zeros(1000, dtype=bool)
    far[200:300] = True
    moved = np.where(np.repeat(far, 2)[:, None], simulated.q, np.repeat(p.q, 2, axis=0))
    simulated = replace(simulated, q=moved)
    with pytest.raises(InputError, match="another than was given"):
        didim.refuse_other_motion(p, simulated, NAMES)
    near = np.convolve(far, np.ones(201), mode="same") > 0.0
    didim.refuse_other_motion(replace(p, bridged=near.astype(float)), simulated, NAMES)
    didim.refuse_other_motion(p, replace(simulated, bridged=np.repeat(near, 2).astype(float)), NAMES)
    p, simulated = moved_by((0.0, 0.3, 0.0), (0.1, 0.1, 0.1))
    half = 1.0 * (np.arange(1000) < 500)
    for some in (p, replace(simulated, bridged=np.repeat(half, 2))), (replace(p, bridged=half), simulated):
        with pytest.raises(InputError, match=r"is 0\.21 rad or m away .*, which is 0\.07\d? away"):
            didim.refuse_other_motion(*some, NAMES)


def test_simulated_samples_are_those_at_the_recorded_times():
    """Every second one; what lies between does not count."""
    p, simulated = moved_by((0.0, 0.3, 0.0), (0.1, 0.1, 0.1))
    odd = 1.0 * (np.arange(2000) % 2)
    with pytest.raises(InputError, match="another than was given"):
        didim.refuse_other_motion(p, replace(simulated, bridged=odd), NAMES)
    didim.refuse_other_motion(p, replace(simulated, bridged=1.0 - odd), NAMES)
    right = np.where(odd[:, None] > 0.0, simulated.q, np.repeat(p.q, 2, axis=0))
    didim.refuse_other_motion(p, replace(simulated, q=right), NAMES)


def test_the_worst_joint_is_the_one_farthest_off_for_its_motion():
    """Joint 3 moves a hundredth as far as joint 1: what is little for joint 1 is much for it."""
    p, simulated = moved_by((0.3, 0.0, 0.03), (0.1, 0.1, 0.01))
    small = np.array([1.0, 1.0, 0.01])
    off = simulated.q - np.repeat(p.q, 2, axis=0)
    p = replace(p, reference=p.q * small + p.reference - p.q, q=p.q * small)
    with pytest.raises(InputError, match=f"joint '{NAMES[2]}'"):
        didim.refuse_other_motion(p, replace(simulated, q=np.repeat(p.q, 2, axis=0) + off), NAMES)


def test_loops_that_are_not_known_are_refused():
    p = recording(200, reference=True)
    for terms in ((), (FrictionTerm(1, FrictionKind.ROOT),)):
        didim.refuse_unknown_loop(ROBOT, p, object(), terms)
    linked = replace(
        ROBOT, joints=(replace(ROBOT.joints[0], measures=MeasuredEffort(())), *ROBOT.joints[1:]), parameters={}
    )
    warm = FrictionTerm(1, FrictionKind.TEMPERATURE, reference=20.0)
    linked_last = replace(
        ROBOT, joints=(*ROBOT.joints[:2], replace(ROBOT.joints[2], measures=MeasuredEffort(("Fc",)))), parameters={}
    )
    for args, words in (
        ((linked_last, p, object(), ()), "run: .*simulates motors"),
        ((linked, p, object(), ()), "simulates motors"),
        ((ROBOT, p, object(), (FrictionTerm(1, FrictionKind.ROOT), warm)), "run: .*changes with the temperature"),
        ((ROBOT, p, None, ()), "controller is not known"),
        ((ROBOT, replace(p, reference=None), object(), ()), "run: .*no commanded positions"),
    ):
        with pytest.raises(InputError, match=words):
            didim.refuse_unknown_loop(*args)


# --- the model that is simulated


def test_the_model_of_an_estimate_leaves_out_friction_that_drives():
    value = np.linspace(1.0, 2.0, len(BASE))
    for name in ("Fv1", "Fc2", "ZZ3"):
        value[BASE.leaders.index(name)] *= -1.0
    found = SimpleNamespace(
        base=value, friction=np.zeros(0), friction_std=np.zeros(0), identified=np.ones(0, bool), value=value
    )
    robot, chi = simulated_loop.model_of_estimate(ROBOT, BASE, (), found)
    place = {name: k for k, name in enumerate(standard_names(ROBOT))}
    for name, x in zip(BASE.leaders, value, strict=True):
        assert chi[place[name]] == (0.0 if name in ("Fv1", "Fc2") else x)
    assert np.count_nonzero(chi) == len(BASE) - 2 and robot.friction == ()


def test_friction_of_coupled_motors_may_have_any_sign():
    """It is a part of what the joints that they move have together."""
    robot = load_robot("tx40")
    names = standard_names(robot)
    base = SimpleNamespace(columns=lambda robot: list(range(len(names))))
    found = SimpleNamespace(base=np.full(len(names), -2.0), friction=np.zeros(0), friction_std=np.zeros(0))
    _, chi = simulated_loop.model_of_estimate(robot, base, (), found)
    joints = {f"{part}{j}" for part in ("Fv", "Fc") for j in range(1, robot.n + 1)}
    assert [name for name, value in zip(names, chi, strict=True) if value == 0.0] == [n for n in names if n in joints]
    assert any(name.startswith("Fvm") for name in names) and set(chi) == {0.0, -2.0}
