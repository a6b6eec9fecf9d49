# SPDX-License-Identifier: Apache-2.0

"""The parts of the preparation one by one, each against a plain way to the same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import VelocitySource
from ros2_dynid.identification.preparation.even_grid import (
    Stretch,
    _with_fresh_efforts,
    even_grid,
    later_effort,
    quantum_of,
    repeated,
    spline_at,
)
from ros2_dynid.identification.preparation.filters import Cutoffs
from ros2_dynid.identification.preparation.prepare import (
    _commands,
    check_signals,
    effort_streams,
    finite,
    swapped,
    velocity_sources,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples

# --- splines


def plain_spline(t, x, at):
    """Cubics with unknown coefficients: through the points, smooth to the second derivative, parabolas at the ends."""
    n = len(t) - 1
    A, b = np.zeros((4 * n, 4 * n)), np.zeros(4 * n)
    row = 0

    def put(k, d, order, sign=1.0):
        factors = {0: (1, d, d**2, d**3), 1: (0, 1, 2 * d, 3 * d**2), 2: (0, 0, 2, 6 * d), 3: (0, 0, 0, 6)}[order]
        A[row, 4 * k : 4 * k + 4] += sign * np.array(factors)

    for k in range(n):
        for d, value in ((0.0, x[k]), (t[k + 1] - t[k], x[k + 1])):
            put(k, d, 0)
            b[row] = value
            row += 1
    for k in range(n - 1):
        for order in (1, 2):
            put(k, t[k + 1] - t[k], order)
            put(k + 1, 0.0, order, -1.0)
            row += 1
    for k in (0, n - 1):
        put(k, 0.0, 3)
        row += 1
    c = np.linalg.solve(A, b).reshape(n, 4)
    k = np.clip(np.searchsorted(t, at, side="right") - 1, 0, n - 1)
    d = at - t[k]
    return c[k, 0] + d * (c[k, 1] + d * (c[k, 2] + d * c[k, 3]))


@pytest.mark.parametrize("count", [3, 4, 9])
def test_splines_are_the_smoothest_curves_through_uneven_samples(count):
    rng = np.random.default_rng(count)
    t = 5.0 + np.cumsum(rng.uniform(0.3, 2.0, count))
    x = rng.normal(size=(count, 2))
    at = np.concatenate((t, np.linspace(t[0], t[-1], 50), [t[0] - 0.2, t[-1] + 0.3]))
    found = spline_at(t, x, at)
    for j in range(2):
        if count > 3:
            np.testing.assert_allclose(found[:, j], plain_spline(t, x[:, j], at), atol=1e-9)
        else:
            np.testing.assert_allclose(found[:, j], np.polyval(np.polyfit(t - 5, x[:, j], 2), at - 5), atol=1e-9)
    with pytest.raises(ValueError, match="increase"), np.errstate(all="ignore"):
        spline_at(np.array([0.0, 0.0, 0.0, 0.0]), np.zeros((4, 1)), at)


# --- encoder steps


@pytest.mark.parametrize("step", [1e-4, 2.5e-3])
def test_the_step_of_an_encoder_is_found(step):
    t = np.arange(5000) / 500
    q = np.column_stack((np.sin(t), np.round(np.sin(1.3 * t) / step) * step + 0.4 * step, np.zeros(5000)))
    np.testing.assert_allclose(quantum_of(q), [0.0, step, 0.0], rtol=1e-6)
    rough = q.copy()
    rough[:100, 1] += np.random.default_rng(0).uniform(0, step, 100)  # too much of it is not on the steps
    assert quantum_of(rough)[1] == 0.0
    late = np.concatenate((np.sin(np.arange(20_000) / 500), np.round(np.sin(t) / step) * step))
    assert quantum_of(late[:, None])[0] == 0.0, "the first 20 000 samples count"
    assert quantum_of(q[:1]).tolist() == [0.0, 0.0, 0.0] and quantum_of(q[:, 2:]).tolist() == [0.0]


# --- repeats


def moving(count=2000):
    t = np.arange(count) / 500
    return np.column_stack((np.sin(2 * t), np.cos(3 * t)))


@pytest.mark.parametrize("every", [2, 4, 20])
def test_a_driver_that_publishes_too_often_repeats(every):
    x = moving()[::every].repeat(every, axis=0)[:2000]
    wanted = np.arange(2000) % every != 0
    np.testing.assert_array_equal(repeated(x), wanted)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_repeats_of_a_motion_in_one_direction(sign):
    t = np.arange(2000) / 500
    x = sign * np.column_stack((t**3, t**2))[::4].repeat(4, axis=0)
    np.testing.assert_array_equal(repeated(x)[1000:], np.arange(1000) % 4 != 0)


def test_what_does_not_count_as_repeated():
    x = moving()
    assert not repeated(x).any()
    one = x.copy()
    one[::2, 0] = one[1::2, 0]  # one joint repeats, the other does not
    assert not repeated(one).any()
    still = np.concatenate((x[:900], np.repeat(x[899:900], 200, axis=0), x[900:]))
    assert not repeated(still).any(), "a standstill"
    slow = np.round(moving()[:, :1] * 200) / 200
    assert not repeated(slow).any(), "an encoder whose steps are coarse goes on by one of them"
    few = x.copy()
    few[[300, 700]] = few[[299, 699]]
    assert not repeated(few).any(), "two in two thousand"
    some = x.copy()
    lost = np.arange(50, 1950, 100)
    some[lost] = some[lost - 1]
    np.testing.assert_array_equal(np.flatnonzero(repeated(some)), lost)
    assert not repeated(np.zeros((50, 2))).any() and not repeated(x[:1]).any()
    stops = np.concatenate((x[:900], np.repeat(x[899:900], 15, axis=0)))
    assert not repeated(stops).any(), "it stops at the end"
    often = np.concatenate((x[:800:4].repeat(4, axis=0), np.repeat(x[796:797], 2, axis=0)))
    assert repeated(often)[-5:].all(), "as before"


@pytest.mark.parametrize("seed", range(12))
def test_repeats_are_those_of_their_definition(seed):
    """Run by run, in loops: a run counts where some joint goes on by more than one and a half small steps after it."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([1.0, 2.0, 3.0, -1.0], size=(400, 2), p=[0.5, 0.3, 0.1, 0.1])
    lengths = rng.choice([1, 1, 1, 2, 5, 21, 22], size=400)
    x = np.cumsum(steps, axis=0).repeat(lengths, axis=0)
    small = [np.quantile(c[c > 0], 0.1) for c in np.abs(np.diff(x, axis=0)).T]
    fresh = [0, *(k for k in range(1, len(x)) if np.any(x[k] != x[k - 1]))]
    wanted = np.zeros(len(x), bool)
    known = False
    for k, first in enumerate(fresh):
        after = fresh[k + 1] if k + 1 < len(fresh) else len(x)
        if k + 1 < len(fresh):
            moved = np.any(np.abs(x[after] - x[first]) > 1.5 * np.array(small))
            known = known or (moved and after - first > 1)
        else:
            moved = known
        if moved and after - first - 1 <= 20:
            wanted[first + 1 : after] = True
    assert wanted.mean() > 0.005
    np.testing.assert_array_equal(repeated(x), wanted)


@pytest.mark.parametrize(("share", "found"), [(0.0045, False), (0.0055, True)])
def test_few_repeats_may_be_chance(share, found):
    x = moving(4000)
    lost = np.arange(100, 100 + 150 * int(share * 4000), 150)
    x[lost] = x[lost - 1]
    assert repeated(x).any() == found


@pytest.mark.parametrize(
    ("off", "share", "found"), [(0.018, 1.0, True), (0.022, 1.0, False), (0.3, 0.008, True), (0.3, 0.012, False)]
)
def test_steps_that_are_off_the_grid(off, share, found):
    rng = np.random.default_rng(0)
    steps = rng.integers(2, 9, 4000).astype(float)
    steps[0] = 1.0
    chosen = rng.permutation(np.arange(1, 4000))[: int(share * 3999)]
    steps[chosen] += off * rng.choice([-1.0, 1.0], len(chosen))
    q = np.concatenate(([0.0], np.cumsum(steps)))[:, None]
    assert quantum_of(q)[0] == pytest.approx(1.0 if found else 0.0)


def test_steps_of_rounding_are_no_steps():
    """Numbers that differ in their last digit only: an encoder's step is larger, and no joint moves by that."""
    k = np.arange(4000)
    q = np.round(np.sin(k / 500) / 2.5e-3) * 2.5e-3
    wiggle = 1e-15 * (k % 2)
    np.testing.assert_allclose(quantum_of((q + wiggle)[:, None]), [2.5e-3], rtol=1e-6)
    slow = np.round(np.sin(k / 500) * 200) / 200
    goes_on = np.diff(slow, prepend=slow[0]) != 0.0
    rests = 1e-15 * np.cumsum(goes_on * (1 + k % 7)) + np.where(k > 3900, 0.01 * (k - 3900), 0.0)
    assert not repeated(np.column_stack((slow, rests))).any()


# --- what can be used


def recording(count=100):
    t = np.linspace(0.0, 1.0, count)
    q = np.column_stack((np.sin(t), 2e-3 * np.cos(5 * t)))
    return Samples(t, ("a", "b"), q, tau=np.column_stack((np.cos(t), np.sin(t))), source="x.csv")


def changed(field, values):
    good = recording()
    return good.with_arrays(good.t, good.arrays() | {field: values(good.arrays()[field].copy())})


def spoilt(rows, joint, value=np.nan):
    def change(x):
        x[rows, joint] = value
        return x

    return change


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (recording(15), "has only 15 samples"),
        (changed("q", spoilt(slice(None), 1)), "joint 'b' has no position: all of it is NaN"),
        (changed("tau", spoilt(slice(None), 0)), "joint 'a' has no effort: all of it is NaN"),
        (changed("tau", spoilt(slice(0, 51), 1)), "joint 'b': 51 of 100 values of its effort are NaN"),
        (changed("q", spoilt(slice(49, None), 0, np.inf)), "joint 'a': 51 of 100 values of its position"),
        (changed("q", lambda q: q * [1.0, 0.2]), "joint 'b' never moved"),
        (changed("tau", spoilt(slice(None), 1, 0.7)), r"the effort of joint 'b' is constant \(0\.7\)"),
    ],
)
def test_what_cannot_be_identified_from(samples, words):
    with pytest.raises(InputError, match=words):
        check_signals(samples)


def test_what_can():
    for good in (
        recording(), recording(16), changed("tau", spoilt(slice(0, 50), 1)), changed("q", lambda q: q * [1.0, 0.3]),
    ):  # fmt: skip
        check_signals(good)
    assert finite(recording()) is not None and len(finite(recording())) == 100 and finite(recording()).notes == ()
    bad = changed("tau", spoilt([5, 6, 40], 1, -np.inf))
    assert (
        len(finite(bad)) == 97 and "3 samples" in finite(bad).notes[0].text and "'b' first" in finite(bad).notes[0].text
    )
    bad = changed("q", spoilt([7], 0))
    assert len(finite(bad)) == 99 and "'a' first" in finite(bad).notes[0].text


# --- grids


@pytest.mark.parametrize("n", [-3, -1, 0, 2, 20])
def test_a_later_effort_belongs_to_an_earlier_motion(n):
    count = 12
    k = np.arange(count, dtype=float)
    bridged = k == 5
    part = Stretch(0.1 * k, k[:, None], 100 + k[:, None], 200 + k[:, None], bridged, 300 + k[:, None])
    found = later_effort(part, n)
    pairs = [(i, i + n) for i in range(count) if 0 <= i + n < count]
    np.testing.assert_allclose(found.t, [0.1 * i for i, _ in pairs])
    for array, offset, column in ((found.q, 0, 0), (found.tau, 100, 1), (found.dq, 200, 0), (found.q_r, 300, 0)):
        np.testing.assert_array_equal(array[:, 0], [offset + pair[column] for pair in pairs])
    assert list(found.bridged) == [i == 5 or j == 5 for i, j in pairs]
    bare = later_effort(Stretch(part.t, part.q, part.tau, None, bridged), n)
    assert bare.dq is None and bare.q_r is None


def sampled(t):
    q = np.column_stack((np.sin(3 * t), np.cos(2 * t)))
    dq = np.column_stack((3 * np.cos(3 * t), -2 * np.sin(2 * t)))
    return Samples(t, ("a", "b"), q, dq, None, np.column_stack((np.cos(t), np.sin(t))), q_r=q + 0.1)


def test_a_recording_that_is_even_stays_as_it_is():
    t = np.arange(2000) / 100
    grid = even_grid(sampled(t))
    (part,) = grid.parts
    assert grid.known.rate == pytest.approx(100.0) and grid.notes == ()
    np.testing.assert_allclose(part.t, t, atol=1e-9)
    for found, given in ((part.q, sampled(t).q), (part.tau, sampled(t).tau), (part.dq, sampled(t).dq)):
        np.testing.assert_array_equal(found, given)
    assert not part.bridged.any() and part.q_r is not None


@pytest.mark.parametrize(("lost", "parts"), [(5, 1), (30, 2)])
def test_short_gaps_are_bridged_and_long_ones_split(lost, parts):
    t = np.delete(np.arange(2000) / 100, slice(700, 700 + lost))
    grid = even_grid(sampled(t))
    assert len(grid.parts) == parts
    told = " ".join(note.text for note in grid.notes)
    if parts == 2:
        assert "a gap splits the recording" in told
        assert [len(part.t) for part in grid.parts] == [700, 1300 - lost]
        return
    (part,) = grid.parts
    assert "1 gaps of at most 60 ms are bridged" in told and len(part.t) == 2000
    assert np.flatnonzero(part.bridged).tolist() == list(range(699, 705))
    np.testing.assert_allclose(part.q, sampled(part.t).q, atol=1e-5)
    straight = np.interp(part.t[part.bridged], t, sampled(t).tau[:, 0])
    np.testing.assert_allclose(part.tau[part.bridged, 0], straight, atol=1e-9)


def test_repeats_are_left_out_and_coarse_positions_named():
    t = np.arange(4000) / 200
    twice = sampled(t).q[::2].repeat(2, axis=0)
    samples = Samples(t, ("a", "b"), twice, tau=sampled(t).tau)
    grid = even_grid(samples)
    (told,) = [note.text for note in grid.notes if "of the samples repeat the one before" in note.text]
    assert 45 <= float(told.split()[0]) <= 50 and grid.known.rate == pytest.approx(200.0)
    coarse = sampled(np.arange(3000) / 100)
    q = coarse.q.copy()
    q[:, 1] = np.round(q[:, 1] / 0.01) * 0.01
    grid = even_grid(coarse.with_arrays(coarse.t, coarse.arrays() | {"q": q}))
    assert any("the positions of 1 joints, 'b' first, have steps of 0.01" in note.text for note in grid.notes)
    with pytest.raises(InputError, match="only 15 usable samples"):
        even_grid(sampled(np.arange(15) / 100))


@pytest.mark.parametrize(("rate", "cutoff", "passes"), [(200.0, 5.0, 20.0), (200.0, 40.0, 40.0), (50.0, 30.0, 15.0)])
def test_commands_are_hardly_filtered_and_those_of_every_sample(rate, cutoff, passes):
    t = np.arange(600) / rate
    f = 0.4 * passes
    q_r = np.column_stack((np.sin(2 * np.pi * f * t), np.cos(2 * np.pi * 4.0 * passes * t)))
    tau_f = np.column_stack((np.sign(np.sin(3 * t)), t))
    part = Stretch(t, q_r, q_r, None, np.zeros(600, dtype=bool), q_r=q_r, tau_f=tau_f)
    index = np.arange(120, 480, 3)
    gains = np.array([2.0, -1.0])
    found = _commands(part, index, 3, rate, cutoff, gains)
    assert found.shape == (120, 3, 2, 2)
    every = index[:, None] + np.arange(3)
    np.testing.assert_allclose(found[:, :, 0, 0], q_r[every, 0], atol=0.02)
    if 4.0 * passes < rate / 2:
        assert np.abs(found[:, :, 0, 1]).max() < 0.02, "well beyond"
    np.testing.assert_array_equal(found[:, :, 1], (tau_f * gains)[every])
    bare = _commands(Stretch(t, q_r, q_r, None, part.bridged, q_r=q_r), index, 3, rate, cutoff, gains)
    assert not bare[:, :, 1].any()


# --- velocities


def stretch_of(gain=1.0, delay=0.0, noise=0.0, seed=0):
    t = np.arange(4000) / 200
    q, dq = np.zeros((4000, 1)), np.zeros((4000, 1))
    rng = np.random.default_rng(seed)
    for w, a in ((2.0, 0.5), (5.0, 0.3)):
        q[:, 0] += a * np.sin(w * t)
        dq[:, 0] += a * w * np.cos(w * (t - delay))
    q += 1e-4 * rng.normal(size=q.shape)
    return Stretch(t, q, q, gain * dq + noise * rng.normal(size=q.shape), np.zeros(4000, dtype=bool))


CUTOFFS = Cutoffs(position=20.0, row=4.0, step=1, row_step=1)


@pytest.mark.parametrize(
    ("what", "used", "told"),
    [
        ({}, True, ""), ({"gain": 1.0017}, True, ""), ({"gain": 1.0023}, False, ""), ({"gain": 0.9977}, False, ""),
        ({"delay": 7e-4}, True, ""), ({"delay": 9e-4}, False, ""), ({"delay": -9e-4}, False, ""),
        ({"noise": 3.3e-3}, True, ""), ({"noise": 4e-3}, False, ""), ({"noise": 0.3}, False, ""),
        ({"gain": 1.18}, False, ""), ({"gain": 1.22}, False, "gain 1.22"),
        ({"gain": 1.4}, False, "gain 1.40"), ({"gain": -1.0}, False, "gain -1.00"),
        ({"delay": 0.05}, False, "(gain 0.98, late by 50."), ({"delay": -0.05}, False, "(gain 0.98, late by -50."),
        ({"delay": 0.05, "gain": 2.0}, False, "(gain 1.95, late by 50."), ({"delay": 0.1}, False, "late by 10"),
    ],
)  # fmt: skip
def test_measured_velocities_are_used_where_they_agree_and_are_quieter(what, used, told):
    sources, notes = velocity_sources(stretch_of(**what), 200.0, CUTOFFS, VelocitySource.AUTO, ("a",))
    assert sources == ("measured" if used else "position",)
    assert bool(notes) == bool(told) and all(told in note.text for note in notes)


def test_velocities_as_asked_for():
    part = stretch_of(gain=3.0)
    for wanted in (VelocitySource.POSITION, VelocitySource.MEASURED):
        assert velocity_sources(part, 200.0, CUTOFFS, wanted, ("a",)) == ((wanted.value,), ())
    bare = Stretch(part.t, part.q, part.tau, None, part.bridged)
    assert velocity_sources(bare, 200.0, CUTOFFS, VelocitySource.AUTO, ("a",)) == (("position",), ())
    with pytest.raises(InputError, match="no velocities"):
        velocity_sources(bare, 200.0, CUTOFFS, VelocitySource.MEASURED, ("a",))


@pytest.mark.parametrize(("share", "filled"), [(0.018, False), (0.022, True)])
def test_efforts_that_are_held_are_interpolated_where_they_are_many(share, filled):
    t = np.arange(4000) / 500
    q, tau = np.column_stack((np.sin(2 * t), np.cos(3 * t))), np.column_stack((3 * np.cos(2 * t), np.sin(t)))
    held = np.zeros(4000, bool)
    held[np.arange(30, 30 + 40 * int(share * 4000), 40)] = True
    kept = np.where(held[:, None], np.roll(tau, 1, axis=0), tau)
    samples = Samples(t, ("a", "b"), q, tau=kept, source="x.csv")
    found, notes = _with_fresh_efforts(samples, np.zeros(4000, bool))
    assert bool(notes) == filled
    assert np.abs(kept - tau).max() > 5e-3  # those that hardly change need not be found
    np.testing.assert_allclose(found.tau, tau if filled else kept, atol=5e-4)
    again, none = _with_fresh_efforts(samples, held)  # their positions repeat, too: they are left out anyway
    assert not none and again is samples


@pytest.mark.parametrize(("times", "named"), [(0.9, False), (1.1, True)])
def test_steps_of_an_encoder_are_coarse_from_a_thousandth_of_the_motion_on(times, named):
    t = np.arange(4000) / 200
    q = np.column_stack((np.sin(2.0 * t), 0.5 * np.cos(3.0 * t)))
    step = times * 1e-3 * np.ptp(q[:, 1])
    q[:, 1] = np.round(q[:, 1] / step) * step
    notes = even_grid(Samples(t, ("a", "b"), q, tau=np.column_stack((np.cos(t), np.sin(t))), source="x.csv")).notes
    assert any("'b' first, have steps" in note.text and "of 1 joints" in note.text for note in notes) == named


@pytest.mark.parametrize(("share", "there"), [(0.49, False), (0.51, True)])
def test_a_second_sensor_counts_where_half_of_it_is_known(share, there):
    robot = load_robot("demo3")
    tau, torque = np.ones((100, 3)), 5.0 * np.ones((100, 3))
    torque[int(100 * share) :, 1] = np.nan
    torque[:, 2] = np.nan
    samples = Samples(np.arange(100.0), robot.active_names, tau, tau=tau, tau_l=torque, source="x")
    found = effort_streams(robot, samples)
    np.testing.assert_array_equal(found.tau, tau)
    assert np.isfinite(found.tau_l).any(axis=0).tolist() == [True, there, False]
    at_link = replace(robot, joints=tuple(replace(joint, measured_drive=()) for joint in robot.joints))
    other = effort_streams(at_link, samples)
    assert swapped(at_link, other).tolist() == [True, there, False] and not swapped(robot, found).any()
    assert np.nanmax(other.tau, axis=0).tolist() == [5.0, 5.0 if there else 1.0, 1.0]
    assert np.nanmax(other.tau_l[:, 0]) == 1.0
    alone = replace(samples, tau=None, tau_l=np.full((100, 3), 5.0))
    assert effort_streams(at_link, alone).tau.max() == 5.0 and effort_streams(at_link, alone).tau_l is None
    with pytest.raises(InputError, match="no efforts of motors"):
        effort_streams(robot, alone)
