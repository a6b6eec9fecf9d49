"""Instruments and simulated loops: the parts that they are made of, each by its definition."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.inertia_matrix import inertia_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators import didim, idim_iv, instrumental, instruments, simulated_loop
from ros2_dynid.identification.estimators.covariance import Moments, jackknife
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.information import combine, gather
from ros2_dynid.identification.estimators.instrumental import CrossMoments
from ros2_dynid.identification.estimators.least_squares import error_levels, wls
from ros2_dynid.identification.friction.columns import signs
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.validation import method_choice
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.sim.forward_dynamics import ForwardDynamics
from ros2_dynid.sim.tracking_loop import Command
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
    spectrum = Spectrum(np.full(3, noise**2 / (0.5 * RATE)), np.array([0.5, 0.8, 1.35]), np.full(3, 20.0))
    return replace(
        p,
        known=FirstPiece(RATE, spectrum),
        filter=replace(p.filter, row_cutoff=8.0),
        reference=1.1 * q if reference else None,
        carried=10.0 * q,
    )


# --- smooth motion


@pytest.mark.parametrize("count", [12, 40, 300])
def test_motion_is_mirrored_about_its_ends(count):
    q = np.cumsum(np.random.default_rng(0).normal(size=(count, 2)), axis=0)
    before = instruments._mirrored(q, 60)
    assert before.shape == (60, 2)
    whole = np.concatenate((before, q))
    at = 60
    for k in range(1, min(60, count - 1) + 1):
        np.testing.assert_allclose(whole[at - k], 2 * q[0] - q[k])


def test_smooth_motion_and_its_derivatives():
    p = recording(2000, 1e-3)
    t = p.t
    w = 2 * np.pi * np.array([0.5, 0.8, 1.1])
    q, dq, ddq = instruments._smooth(p.q, 6.0, RATE)
    inside = slice(200, -200)
    np.testing.assert_allclose(q[inside], np.sin(w * t[:, None])[inside], atol=2e-3)
    np.testing.assert_allclose(dq[inside], (w * np.cos(w * t[:, None]))[inside], atol=0.03)
    np.testing.assert_allclose(ddq[inside], (-(w**2) * np.sin(w * t[:, None]))[inside], atol=1.2)
    assert len(q) == len(p.q)
    np.testing.assert_allclose(instruments.in_band(p.q, 6.0, RATE), q, atol=1e-12)


def test_the_end_of_a_motion_is_smoothed_as_its_beginning():
    """Backwards in time, speeds have the other sign; a motion at constant speed goes on beyond both ends."""
    q = np.cumsum(np.random.default_rng(1).normal(size=(90, 2)), axis=0)
    for one, other, sign in zip(
        instruments._smooth(q, 3.0, RATE), instruments._smooth(q[::-1], 3.0, RATE), (1.0, -1.0, 1.0), strict=True
    ):
        np.testing.assert_allclose(one, sign * other[::-1], atol=1e-7 * np.abs(one).max())
    line = np.outer(np.arange(90) / RATE, [2.0, -3.0]) + 1.0
    for found, wanted in zip(instruments._smooth(line, 3.0, RATE), (line, [2.0, -3.0], 0.0), strict=True):
        np.testing.assert_allclose(found - wanted, 0.0, atol=0.02)


def test_the_band_of_the_motion():
    p = recording()
    assert instruments.motion_band(p) == pytest.approx(1.35 / 0.45)
    narrow = replace(p, filter=replace(p.filter, row_cutoff=2.0))
    assert instruments.motion_band(narrow) == 2.0
    for bad in (replace(p, known=None), replace(p, filter=replace(p.filter, row_cutoff=None))):
        with pytest.raises(InputError, match="positions as recorded"):
            instruments.motion_band(bad)


def test_the_share_of_noise_in_accelerations():
    p = recording(4000, 1e-3)
    found = instruments.noise_share(p, 8.0)
    floor = 1e-6 / (0.5 * RATE)
    noise = floor * (2 * np.pi) ** 4 * 8.0**5 / 5.0
    power = np.mean(instruments._smooth(p.q, 8.0, RATE)[2] ** 2, axis=0)
    np.testing.assert_allclose(found, noise / (power - noise), rtol=1e-9)
    w = 2 * np.pi * np.array([0.5, 0.8, 1.1])
    np.testing.assert_allclose(found, noise / (0.5 * w**4), rtol=0.25)
    loud = replace(p, known=FirstPiece(RATE, replace(p.known.spectrum, floor=np.full(3, 1.0))))
    share = (2 * np.pi) ** 4 * 8.0**5 / 5.0 / (1e-3 * power)
    np.testing.assert_allclose(instruments.noise_share(loud, 8.0), share), "more noise than there is motion"


def test_noise_within_the_band_of_the_motion_is_refused_at_the_worst_joint():
    p = recording(4000, 1e-4)
    instruments.refuse_shared_noise(p, NAMES)
    loud = replace(p.known.spectrum, floor=np.array([1e-9, 3e-2, 1e-9]))
    spoilt = replace(p, known=FirstPiece(RATE, loud))
    with pytest.raises(InputError, match=f"joint '{NAMES[1]}'.*no instrument is without it"):
        instruments.refuse_shared_noise(spoilt, NAMES)
    instruments.refuse_shared_noise(replace(spoilt, reference=p.q), NAMES)


@pytest.mark.parametrize(("share", "refused"), [(0.0049, False), (0.0051, True)])
def test_noise_of_half_a_percent_of_the_acceleration_may_be_shared(share, refused):
    p = recording(2000)
    band = instruments.motion_band(p)
    power = np.mean(instruments._smooth(p.q, band, RATE)[2] ** 2, axis=0)
    noise = np.array([0.1, 0.2, 1.0]) * share * power / (1.0 + share)
    floor = noise * 5.0 / ((2 * np.pi) ** 4 * band**5)
    p = replace(p, known=FirstPiece(RATE, replace(p.known.spectrum, floor=floor)))
    assert instruments.noise_share(p, band)[2] == pytest.approx(share)
    if not refused:
        instruments.refuse_shared_noise(p, NAMES)
        return
    with pytest.raises(InputError, match=rf"run: joint '{NAMES[2]}': .*\(0\.51 % of the acceleration\)"):
        instruments.refuse_shared_noise(p, NAMES)


@pytest.mark.parametrize("reference", [True, False])
def test_what_instruments_see(reference):
    p = replace(recording(1500, 1e-3, reference), segments=(slice(0, 700), slice(700, 1500)))
    found = instruments.instrument_motion(ROBOT, p)
    band = 8.0 if reference else 1.35 / 0.45
    source = p.reference if reference else p.q
    for segment in p.segments:
        q, dq, ddq = instruments._smooth(source[segment], band, RATE)
        for mine, wanted in ((found.q, q), (found.dq, dq), (found.ddq, ddq)):
            np.testing.assert_allclose(mine[segment], wanted, atol=1e-9)
        for field in ("tau", "carried"):
            slow = instruments._smooth(getattr(p, field)[segment], 1.35 / 0.45, RATE)[0]
            np.testing.assert_allclose(getattr(found, field)[segment], slow, atol=1e-9)
    np.testing.assert_array_equal(found.sign, signs(ROBOT, found.dq))
    assert instruments.instrument_motion(ROBOT, replace(p, carried=None)).carried is None


@pytest.mark.parametrize(("noise", "asked"), [(0.99e-4, False), (1.01e-4, True)])
def test_noise_below_a_ten_thousandth_of_the_acceleration_biases_nothing(monkeypatch, noise, asked):
    best = []
    monkeypatch.setattr(method_choice, "_noise", lambda problem: noise)
    monkeypatch.setattr(method_choice, "_best", lambda problem: best.append(problem) or estimate)
    estimate = SimpleNamespace(base=np.ones(1), base_std=np.full(1, 0.01), base_identified=np.ones(1, bool),
                               method=Method.WLS)  # fmt: skip
    method_choice.method_choice(SimpleNamespace(base=SimpleNamespace(names=("a",))), estimate)
    assert bool(best) == asked


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
    assert instrumental.joined_moments([one, two]).phases is None
    found = instrumental.joined_moments([one, replace(two, phases=one)])
    assert len(found.A) == 5 and found.A[:2].all() and not found.A[2:].any()
    assert len(found.phases.y) == 4 and found.phases.y.all(), "blocks of time where a motion does not repeat"


@pytest.mark.parametrize("blocks", [None, range(5, 25)])
def test_the_estimate_of_instruments_is_that_of_the_normal_equations(blocks):
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.uniform(-2, 2, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq) + 0.3 * rng.normal(size=q.shape)
    p = as_prepared(ROBOT, q, dq, ddq, tau)
    information = inform(ROBOT, BASE, [p], delay=False)
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
    assert idim_iv.moved(estimate(before, (1, 1)), estimate(found, std)) == pytest.approx(far)
    rounded = idim_iv.moved(estimate((3.0, 4.0), (1, 1)), estimate((3.0 + 2.0**-40, 4.0), (1e-16, 0.5)))
    assert rounded == pytest.approx(2.0**-40 / 5e-12), "rounding is no way"


@pytest.mark.parametrize(("last", "rounds"), [(0.301, 3), (0.32, 3), (0.33, 4)])
def test_rounds_end_below_a_tenth_of_the_last_deviation(monkeypatch, last, rounds):
    """Deviations of the estimate before do not count."""
    told = iter([([0.5], [1.0]), ([0.3], [0.01]), ([last], [0.21]), ([last], [0.21])])
    monkeypatch.setattr(
        idim_iv, "iv", lambda information, moments, prior: SimpleNamespace(told=next(told), prior=prior)
    )
    monkeypatch.setattr(idim_iv, "replace", lambda found, method: estimate(*found.told))
    seen = []
    found, moments = idim_iv.idim_iv(None, estimate([3.0], [0.1]), lambda e: seen.append(e) or len(seen))
    assert moments == rounds == len(seen) and found.value[0] == last


def test_rounds_end_when_nothing_moves_and_are_refused_when_it_does(monkeypatch):
    values = iter([1.0, 0.5, 0.3, 0.29])
    monkeypatch.setattr(didim, "output_error", lambda information, prior: estimate([next(values)], [0.2]))
    seen = []
    found, rows = didim.didim(estimate([3.0], [1.0]), lambda e: seen.append(float(e.value[0])) or len(seen))
    assert found.value[0] == 0.29 and rows == 4 and seen == [3.0, 1.0, 0.5, 0.3]
    monkeypatch.setattr(didim, "output_error", lambda information, prior: estimate([np.random.rand()], [1e-9]))
    with pytest.raises(InputError, match="still move after 10 simulations"):
        didim.didim(estimate([3.0], [1.0]), lambda e: None)
    # the instruments of as many rounds are asked for, and then no more
    swinging, asked = itertools.cycle((1.0, -1.0)), []
    monkeypatch.setattr(idim_iv, "iv", lambda information, moments, prior: estimate([next(swinging)], [0.1]))
    monkeypatch.setattr(idim_iv, "replace", lambda found, method: found)
    with pytest.raises(InputError, match="the estimates of idim-iv still move after 10 simulations"):
        idim_iv.idim_iv(None, estimate([3.0], [1.0]), asked.append)
    assert len(asked) == 10


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
    linked = replace(ROBOT, joints=(replace(ROBOT.joints[0], felt=()), *ROBOT.joints[1:]), parameters={})
    warm = FrictionTerm(1, FrictionKind.TEMPERATURE, reference=20.0)
    linked_last = replace(ROBOT, joints=(*ROBOT.joints[:2], replace(ROBOT.joints[2], felt=("Fc",))), parameters={})
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


def command(count=300):
    t = np.arange(count) / 100.0
    q = np.column_stack((np.sin(t), np.cos(1.3 * t), np.sin(2 * t)))
    return Command(100.0, q, np.gradient(q, 0.01, axis=0), np.zeros_like(q), (slice(0, count),))


def test_a_model_that_cannot_move_gets_heavier_rotors():
    chi = true_parameters(ROBOT, 1)
    good = ForwardDynamics(ROBOT, chi, np.full(3, 1e-3))
    assert simulated_loop._movable(good, command()) is good
    bad = chi.copy()
    bad[[0, 3, 5, 14, 17, 19]] *= -1.0
    bad[10:42:14] = 0.0
    lifted = simulated_loop._movable(ForwardDynamics(ROBOT, bad, np.full(3, 1e-3)), command())
    M = inertia_matrix(ROBOT, bad, command().q)
    size = np.sqrt(np.abs(np.einsum("tjj->tj", M)).mean(axis=0))
    least = np.linalg.eigvalsh(0.5 * (M + M.transpose(0, 2, 1)) / np.outer(size, size)).min()
    assert least < 0.005
    np.testing.assert_allclose((lifted.chi - bad)[10:42:14], (0.05 - least) * size**2, rtol=1e-6)
    assert np.count_nonzero(lifted.chi != bad) == 3
    after = inertia_matrix(ROBOT, lifted.chi, command().q) / np.outer(size, size)
    assert np.linalg.eigvalsh(0.5 * (after + after.transpose(0, 2, 1))).min() == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(("least", "lifted"), [(0.0049, True), (0.0051, False), (0.0099, False), (-0.01, True)])
def test_a_model_is_lifted_where_its_smallest_inertia_is_below_half_a_percent(least, lifted):
    """Inertia matrices made to measure: of unit diagonal, with this smallest eigenvalue."""
    M = np.array([[1.0, 1.0 - least, 0.0], [1.0 - least, 1.0, 0.0], [0.0, 0.0, 1.0]]) * np.outer([2, 3, 5], [2, 3, 5])

    @dataclass(frozen=True)
    class Model:
        robot = SimpleNamespace(active=(1, 3, 4))
        chi: np.ndarray

        def inertia(self, q):
            return np.tile(M, (len(q), 1, 1))

    model = Model(np.zeros(56))
    found = simulated_loop._movable(model, command())
    assert (found is not model) == lifted
    if lifted:
        np.testing.assert_allclose(found.chi[[10, 38, 52]], (0.05 - least) * np.array([4.0, 9.0, 25.0]), rtol=1e-9)
        assert np.count_nonzero(found.chi) == 3


def test_the_loop_that_follows_closely_is_critically_damped():
    chi = true_parameters(ROBOT, 1)
    found = simulated_loop._following(ForwardDynamics(ROBOT, chi, np.full(3, 1e-3)), command())
    M = np.einsum("tjj->tj", inertia_matrix(ROBOT, chi, command().q[::4])).mean(axis=0)
    w = 20 * np.pi
    np.testing.assert_allclose(found.Kp, M * w**2, rtol=1e-9)
    np.testing.assert_allclose(found.Kd, 2 * M * w, rtol=1e-9)


def test_finer_samples_and_those_that_are_not_used():
    x = np.random.default_rng(0).normal(size=(6, 2))
    found = simulated_loop._finer(x, 3)
    assert len(found) == 16
    np.testing.assert_allclose(found[::3], x)
    np.testing.assert_allclose(found[1], x[0] + (x[1] - x[0]) / 3)
    p = replace(recording(100), segments=(slice(0, 40), slice(40, 100)))
    p.bridged[[10, 50]] = 0.7
    fine = SimpleNamespace(segments=(slice(0, 79), slice(79, 198)), rate=200.0)
    bad = simulated_loop._unusable(p, fine, SimpleNamespace(time_constant=0.0099), 2)
    assert len(bad) == 198 and (bad[:10] == 1.0).all() and (bad[79:89] == 1.0).all()
    assert np.flatnonzero(bad == 0.7).tolist() == [20, 21, 99, 100] and np.count_nonzero(bad) == 24


def test_the_reference_at_a_finer_rate():
    p = replace(recording(400, reference=True), segments=(slice(0, 150), slice(150, 400)))
    t = p.t[:, None] + np.arange(2) / (2 * RATE)
    w = np.array([3.0, 4.0, 5.0])
    positions, efforts = np.sin(w * t[:, :, None]), np.cos(w * t[:, :, None])
    p = replace(p, commands=np.stack((positions, efforts), axis=2))
    found, ddq = simulated_loop._command(ROBOT, p, 4)
    assert found.rate == pytest.approx(4 * RATE) and found.segments == (slice(0, 597), slice(597, 597 + 997))
    for (a, b), first in zip(((0, 597), (597, 1594)), (0, 150), strict=True):
        at = p.t[first] + np.arange(b - a) / (4 * RATE)
        np.testing.assert_allclose(found.q[a:b], np.sin(w * at[:, None]), atol=1e-5)
        np.testing.assert_allclose(found.dq[a:b], w * np.cos(w * at[:, None]), atol=2e-3)
        np.testing.assert_allclose(ddq[a:b][20:-20], (-(w**2) * np.sin(w * at[:, None]))[20:-20], atol=0.02)
        np.testing.assert_allclose(found.tau_f[a:b], np.cos(w * at[:, None]), atol=1e-3)
    bare, _ = simulated_loop._command(ROBOT, replace(p, commands=None, reference=None), 4)
    assert not bare.tau_f.any() and bare.segments == found.segments
    smooth = instruments.instrument_motion(ROBOT, replace(p, commands=None, reference=None)).q
    np.testing.assert_allclose(bare.q[:597:4], smooth[:150], atol=1e-9)
