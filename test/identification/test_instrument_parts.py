"""Instruments and simulated loops: the parts that they are made of, each by its definition."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.inertia_matrix import inertia_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.estimators import didim, idim_iv, instrumental, instruments, simulated_loop
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.instrumental import CrossMoments
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.friction.columns import signs
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.cutoffs import Spectrum
from ros2_dynid.identification.preparation.even_grid import FirstPiece
from ros2_dynid.identification.preparation.rows import Rows
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
    assert np.all(instruments.noise_share(loud, 8.0) > 100.0)


def test_noise_within_the_band_of_the_motion_is_refused_at_the_worst_joint():
    p = recording(4000, 1e-4)
    instruments.refuse_shared_noise(p, NAMES)
    loud = replace(p.known.spectrum, floor=np.array([1e-9, 3e-2, 1e-9]))
    spoilt = replace(p, known=FirstPiece(RATE, loud))
    with pytest.raises(InputError, match=f"joint '{NAMES[1]}'.*no instrument is without it"):
        instruments.refuse_shared_noise(spoilt, NAMES)
    instruments.refuse_shared_noise(replace(spoilt, reference=p.q), NAMES)


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
    scale = np.sqrt(np.abs(np.diag(A)))
    s = np.linalg.svd(A / np.outer(scale, scale), compute_uv=False)
    assert found.cond == pytest.approx(np.sqrt(s[0] / s[-1])) and found.rank == len(BASE)
    truth = BASE.values(ROBOT, true_parameters(ROBOT, 1))
    z = (found.value - truth) / found.std
    assert 0.4 < np.sqrt(np.mean(z**2)) < 1.8
    twice = replace(moments, A=moments.A.copy(), y=moments.y.copy())
    twice.A[..., 3, :], twice.A[..., :, 3] = twice.A[..., 4, :], twice.A[..., :, 4]
    with pytest.raises(RankError, match="do not excite all"):
        instrumental.iv(information, twice, None, blocks)


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


def test_rounds_end_when_nothing_moves_and_are_refused_when_it_does(monkeypatch):
    values = iter([1.0, 0.5, 0.3, 0.29])
    monkeypatch.setattr(didim, "output_error", lambda information, prior: estimate([next(values)], [0.2]))
    seen = []
    found, rows = didim.didim(estimate([3.0], [1.0]), lambda e: seen.append(float(e.value[0])) or len(seen))
    assert found.value[0] == 0.29 and rows == 4 and seen == [3.0, 1.0, 0.5, 0.3]
    monkeypatch.setattr(didim, "output_error", lambda information, prior: estimate([np.random.rand()], [1e-9]))
    with pytest.raises(InputError, match="still move after 10 simulations"):
        didim.didim(estimate([3.0], [1.0]), lambda e: None)


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


def test_loops_that_are_not_known_are_refused():
    p = recording(200, reference=True)
    didim.refuse_unknown_loop(ROBOT, p, object(), ())
    linked = replace(ROBOT, joints=(replace(ROBOT.joints[0], felt=()), *ROBOT.joints[1:]), parameters={})
    warm = FrictionTerm(1, FrictionKind.TEMPERATURE, reference=20.0)
    for args, words in (
        ((linked, p, object(), ()), "simulates motors"),
        ((ROBOT, p, object(), (warm,)), "changes with the temperature"),
        ((ROBOT, p, None, ()), "controller is not known"),
        ((ROBOT, replace(p, reference=None), object(), ()), "no commanded positions"),
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
