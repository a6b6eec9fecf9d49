# SPDX-License-Identifier: Apache-2.0

"""Preparation: what uneven, gappy, partly missing and plainly bad recordings become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prepared_motions import CUTOFFS, stretch_of
from recordings import simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, Option, remark
from ros2_dynid.identification.options import PreparationOptions, VelocitySource
from ros2_dynid.identification.preparation.prepare import (
    check_signals,
    drop_unknown,
    find_exchanged_streams,
    join_prepared,
    order_streams,
    prepare,
    prepare_each,
    prepare_pieces,
    select_velocity_sources,
)
from ros2_dynid.identification.preparation.prepared import as_prepared, shift_effort, temperature_range
from ros2_dynid.identification.preparation.rows import row_chunks, row_count, windows
from ros2_dynid.model.efforts import MeasuredEffort
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.recording.samples import Samples

ROBOT = load_robot("demo6")


def smooth(rate=500.0, seconds=8.0, seed=0, names=ROBOT.active_names):
    """Return a recording of sines with known derivatives, and those derivatives."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    f, a = rng.uniform(0.3, 1.2, len(names)), rng.uniform(0.5, 1.0, len(names))
    w = 2 * np.pi * f
    q, dq, ddq = a * np.sin(w * t[:, None]), a * w * np.cos(w * t[:, None]), -a * w**2 * np.sin(w * t[:, None])
    return Samples(t, tuple(names), q, tau=10 * q + 0.1 * rng.standard_normal(q.shape)), (f, a, w, dq, ddq)


@pytest.mark.parametrize("rate", [100.0, 250.0, 1000.0, 5000.0])
def test_derivatives_are_right_at_any_rate(rate):
    samples, (_, a, w, _, _) = smooth(rate)
    p = prepare(ROBOT, samples)
    assert np.allclose(p.dq, a * w * np.cos(w * p.t[:, None]), atol=2e-2 * np.max(a * w))
    assert np.allclose(p.ddq, -a * w**2 * np.sin(w * p.t[:, None]), atol=2e-2 * np.max(a * w**2))
    assert p.filter.row_cutoff < p.filter.position_cutoff <= 0.31 * rate


def test_uneven_stamps_are_resampled():
    samples, (_, a, w, _, _) = smooth(500.0)
    rng = np.random.default_rng(1)
    t = samples.t + rng.uniform(-0.3, 0.3, len(samples.t)) / 500.0
    q = a * np.sin(w * t[:, None])
    p = prepare(ROBOT, replace(samples, t=t, q=q))
    assert any("uneven" in note.text for note in p.notes)
    assert np.allclose(p.ddq, -a * w**2 * np.sin(w * p.t[:, None]), atol=2e-2 * np.max(a * w**2))


def test_gaps_split_the_recording_and_no_row_crosses_them():
    samples, _ = smooth(500.0, 12.0)
    kept = (samples.t < 5.0) | (samples.t > 5.5)
    p = prepare(ROBOT, samples.take(kept))
    assert len(p.segments) == 2
    t = np.concatenate([p.t[window.at] for window in windows(p, 200)])
    reach = p.filter.dropped
    assert not np.any((t > 5.0 - 0.9 * reach) & (t < 5.5 + 0.9 * reach))


def test_some_nan_are_dropped_with_a_note():
    samples, _ = smooth()
    q = samples.q.copy()
    q[100, 2] = np.nan
    assert any("not finite" in note.text and "'" in note.text for note in prepare(ROBOT, replace(samples, q=q)).notes)


def test_good_measured_velocity_is_used_and_a_late_one_is_not():
    rng = np.random.default_rng(0)
    samples, (_, a, w, dq, _) = smooth(500.0)
    coarse = np.round(samples.q / 1e-3) * 1e-3
    good = prepare(ROBOT, replace(samples, q=coarse, dq=dq + 1e-5 * rng.standard_normal(dq.shape)))
    assert set(good.filter.velocity) == {"measured"}
    truth = a * w * np.cos(w * good.t[:, None]), -a * w**2 * np.sin(w * good.t[:, None])
    for found, true in zip((good.dq, good.ddq), truth, strict=True):
        assert np.allclose(found, true, atol=1e-3 * np.max(np.abs(true))), "far better than positions of 1 mrad can be"
    late = a * w * np.cos(w * (samples.t[:, None] - 0.02))
    assert set(prepare(ROBOT, replace(samples, q=coarse, dq=late)).filter.velocity) == {"position"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: replace(s, tau=None), "no effort"),
        (lambda s: replace(s, tau=s.tau * np.where(np.arange(6) == 3, np.nan, 1.0)), "joint 'joint4' has no effort"),
        (lambda s: replace(s, tau=s.tau * np.where(np.arange(6) == 1, 0.0, 1.0)), "is constant"),
        (lambda s: s.take(slice(0, 10)), "only 10 samples"),
        (lambda s: s.take(slice(0, 24)), "no stretch"),
        (lambda s: replace(s, joint_names=tuple(f"x{k}" for k in range(6))), "not in the recording"),
    ],
)
def test_bad_recordings_are_refused_in_one_line(change, message):
    samples, _ = smooth()
    message = message.replace("joint4", ROBOT.active_names[3])
    with pytest.raises(InputError, match=message) as error:
        prepare(ROBOT, change(samples))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{"row_cutoff": -1.0}, {"slow": 1.5}, {"velocity": "guess"}, {"delay": np.inf}, {"row_rate": 0.0}]
)
def test_settings_without_meaning_are_refused(options):
    with pytest.raises(InputError):
        PreparationOptions(**options)


def test_cutoff_beyond_the_rate_is_refused():
    samples, _ = smooth(100.0)
    with pytest.raises(InputError, match="too high"):
        prepare(ROBOT, samples, PreparationOptions(position_cutoff=60.0))


def test_gains_scale_the_effort_and_unknown_joints_are_refused():
    samples, _ = smooth()
    name = ROBOT.active_names[1]
    plain, scaled = (prepare(ROBOT, samples, PreparationOptions(gains=g)) for g in ({}, {name: -2.5}))
    assert np.allclose(scaled.tau[:, 1], -2.5 * plain.tau[:, 1])
    assert np.allclose(scaled.tau[:, 0], plain.tau[:, 0])
    with pytest.raises(InputError, match="drive gain"):
        prepare(ROBOT, samples, PreparationOptions(gains={"nobody": 2.0}))


@pytest.mark.parametrize("delay", [0.03, -0.02])
def test_a_given_delay_moves_the_effort_to_the_motion_it_belongs_to(delay):
    """An effort that was recorded `delay` late is taken that much later; the motion stays where it is."""
    samples, (_, a, w, _, _) = smooth(500.0)
    tau = 10 * a * np.sin(w * (samples.t[:, None] - delay))
    p = prepare(ROBOT, replace(samples, tau=tau), PreparationOptions(delay=delay))
    assert p.filter.delay == pytest.approx(delay, abs=1e-3)
    step = abs(p.filter.delay - delay)
    assert np.allclose(p.tau, 10 * p.q, atol=10 * np.max(a * w) * (step + 1e-4) + 0.02)
    assert np.allclose(p.q, a * np.sin(w * p.t[:, None]), atol=1e-3)


@pytest.mark.parametrize("delay", [0.0316, 0.0004, -0.0007, -0.0212])
def test_a_delay_is_taken_to_a_fraction_of_a_sample(delay):
    """At 500 Hz a sample is 2 ms: what is left of the delay beside whole samples is the filter's to take."""
    samples, (_, a, w, _, _) = smooth(500.0)
    tau = 10 * a * np.sin(w * (samples.t[:, None] - delay))
    p = prepare(ROBOT, replace(samples, tau=tau), PreparationOptions(delay=delay))
    assert p.filter.delay == pytest.approx(delay, abs=1e-12)
    np.testing.assert_allclose(p.tau, 10 * p.q, atol=10 * np.max(a * w) * 1e-4)


def test_arrays_must_fit():
    with pytest.raises(InputError, match="shapes"):
        as_prepared(ROBOT, np.zeros((5, 6)), np.zeros((5, 6)), np.zeros((4, 6)), np.zeros((5, 6)))


def test_simulated_recording_keeps_most_of_its_rows():
    robot, _ = simulated_truth()
    p = prepare(robot, simulated(seconds=6.0))
    assert p.filter.dropped < 0.6
    assert row_count(p) > 50


def test_a_piece_that_cannot_be_used_is_left_out_with_a_note():
    samples, _ = smooth(seconds=24.0)
    third = len(samples) // 3
    first, short, last = (
        samples.take(part) for part in (slice(0, third), slice(third, third + 10), slice(third, None))
    )
    found = prepare_pieces(ROBOT, [first, short, last])
    assert len(found.segments) == 2
    assert [note.text for note in found.notes if "left out" in note.text] == [
        f"the piece of {short.t[0]:.6g} to {short.t[-1]:.6g} s was left out: only 10 usable samples are left"
    ]
    with pytest.raises(InputError, match="only 10 samples"):
        prepare_pieces(ROBOT, [short])


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
        (changed("q", lambda q: q * 0.0), "no joint moved"),
        (changed("tau", spoilt(slice(None), 1, 0.7)), r"the effort of joint 'b' is constant \(0\.7\)"),
    ],
)
def test_what_cannot_be_identified_from(samples, words):
    with pytest.raises(InputError, match=words):
        check_signals(samples)


def test_what_can():
    for good in (
        recording(), recording(16), changed("tau", spoilt(slice(0, 50), 1)), changed("q", lambda q: q * [1.0, 0.0]),
    ):  # fmt: skip
        check_signals(good)
    assert (
        drop_unknown(recording()) is not None
        and len(drop_unknown(recording())) == 100
        and drop_unknown(recording()).notes == ()
    )
    bad = changed("tau", spoilt([5, 6, 40], 1, -np.inf))
    assert (
        len(drop_unknown(bad)) == 97
        and "3 samples" in drop_unknown(bad).notes[0].text
        and "'b' first" in drop_unknown(bad).notes[0].text
    )
    bad = changed("q", spoilt([7], 0))
    assert len(drop_unknown(bad)) == 99 and "'a' first" in drop_unknown(bad).notes[0].text


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
    sources, notes = select_velocity_sources(stretch_of(**what), 200.0, CUTOFFS, VelocitySource.AUTO, ("a",))
    assert sources == ("measured" if used else "position",)
    assert bool(notes) == bool(told) and all(told in note.text for note in notes)


@pytest.mark.parametrize(("share", "there"), [(0.49, False), (0.51, True)])
def test_a_second_sensor_counts_where_half_of_it_is_known(share, there):
    robot = load_robot("demo3")
    tau, torque = np.ones((100, 3)), 5.0 * np.ones((100, 3))
    torque[int(100 * share) :, 1] = np.nan
    torque[:, 2] = np.nan
    samples = Samples(np.arange(100.0), robot.active_names, tau, tau=tau, tau_l=torque, source="x")
    found = order_streams(robot, samples)
    np.testing.assert_array_equal(found.tau, tau)
    assert np.isfinite(found.tau_l).any(axis=0).tolist() == [True, there, False]
    at_link = replace(robot, joints=tuple(replace(joint, measures=MeasuredEffort(())) for joint in robot.joints))
    other = order_streams(at_link, samples)
    assert (
        find_exchanged_streams(at_link, other).tolist() == [True, there, False]
        and not find_exchanged_streams(robot, found).any()
    )
    assert np.nanmax(other.tau, axis=0).tolist() == [5.0, 5.0 if there else 1.0, 1.0]
    assert np.nanmax(other.tau_l[:, 0]) == 1.0
    alone = replace(samples, tau=None, tau_l=np.full((100, 3), 5.0))
    assert order_streams(at_link, alone).tau.max() == 5.0 and order_streams(at_link, alone).tau_l is None
    with pytest.raises(InputError, match="no efforts of motors"):
        order_streams(robot, alone)


DEMO3 = load_robot("demo3")


NAMES = DEMO3.active_names


W = np.array([2.0, 3.1, 4.3])


def moving(t, scale=1.0):
    """Return a recording at these times whose signals all differ."""
    q = np.sin(np.outer(t, scale * W))
    return Samples(t, NAMES, q, tau=5.0 * np.cos(np.outer(t, scale * W[::-1])), source="made")


def test_the_longest_stretch_decides_about_filters_and_velocities():
    t = np.concatenate((np.arange(0.0, 4.0, 0.005), np.arange(10.0, 40.0, 0.005)))
    samples = moving(t, 0.2)
    rng = np.random.default_rng(0)
    speed = 0.2 * W * np.cos(np.outer(t, 0.2 * W))
    speed[:700] *= 3.0  # a measured velocity that does not fit, in the first and shorter stretch
    noisy = replace(samples, q=samples.q + 1e-4 * rng.normal(size=samples.q.shape), dq=speed)
    found = prepare(DEMO3, noisy)
    alone = prepare(DEMO3, noisy.take(t > 9.0))
    assert found.filter.velocity == ("measured",) * 3 and len(found.segments) == 2
    assert found.filter.row_cutoff == pytest.approx(alone.filter.row_cutoff, rel=0.2)
    short = prepare(DEMO3, moving(np.arange(0.0, 4.0, 0.005), 0.2))
    assert short.filter.row_cutoff > 1.5 * alone.filter.row_cutoff


def test_commands_keep_what_positions_keep():
    t = np.arange(0.0, 6.0, 0.005)
    fast = np.sin(2.0 * np.pi * 18.0 * t)[:, None] * np.ones(3)
    found = prepare(DEMO3, replace(moving(t), q_r=fast), PreparationOptions(position_cutoff=45.0, row_cutoff=4.0))
    wanted = np.sin(2.0 * np.pi * 18.0 * found.t)
    np.testing.assert_allclose(found.commands[:-20, 0, 0, 1], wanted[:-20], atol=0.02)


def test_notes_of_a_recording_stay_and_a_slow_rate_is_told():
    t = np.arange(0.0, 30.0, 0.05)
    found = prepare(DEMO3, replace(moving(t, 2.0), notes=(remark("as recorded"),)))
    assert found.notes[0].text == "as recorded"
    assert any(note.text.startswith("20 samples a second show motion") for note in found.notes)
    fast = prepare(DEMO3, moving(np.arange(0.0, 30.0, 0.005), 2.0))
    assert not any("samples a second" in note.text for note in fast.notes)


def test_times_that_are_not_finite_are_left_out():
    t = np.arange(400) / 200.0
    samples = moving(t)
    samples.t[7] = np.nan
    samples.q[9, 1] = np.nan
    assert len(drop_unknown(samples)) == 398 and "2 samples" in drop_unknown(samples).notes[0].text


def test_arrays_as_they_are():
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(4, 30, 3)) - 2.0
    found = as_prepared(DEMO3, *arrays, 0.25 * np.arange(30.0), slow=0.1, source="x")
    np.testing.assert_array_equal(found.top_speed, np.abs(arrays[1]).max(axis=0))
    assert (found.filter.rate, found.filter.inner_rate, found.filter.row_rate, found.filter.slow) == (
        4.0,
        4.0,
        4.0,
        0.1,
    )
    assert found.filter.dropped == 0.0 and found.step == 1 and found.segments == (slice(0, 30),) and found.source == "x"
    np.testing.assert_array_equal(found.sign, np.sign(arrays[1]))
    np.testing.assert_array_equal(as_prepared(DEMO3, *arrays).t, np.arange(30.0))
    assert as_prepared(DEMO3, *arrays[:, :1]).filter.rate == 1.0
    assert as_prepared(DEMO3, *arrays[:, :2], np.array([0.0, 0.25])).filter.rate == 4.0
    for k, name in enumerate(("q", "dq", "ddq", "tau")):
        bad = arrays.copy()
        bad[k, 3, 1] = np.inf
        with pytest.raises(InputError, match=f"^x: {name} holds values that are not finite"):
            as_prepared(DEMO3, *bad, source="x")
    with pytest.raises(InputError, match="time holds values"):
        as_prepared(DEMO3, *arrays, np.where(np.arange(30) == 4, np.nan, np.arange(30.0)))


def all_rows(*args, **more):
    chunks = list(row_chunks(*args, **more))
    return [np.concatenate([getattr(c, name) for c in chunks], axis=-1) for name in ("t", "W", "tau", "keep")]


def test_rows_of_a_robot_with_passive_joints():
    robot = load_robot("hitachi_hpr")
    assert len(robot.active) == 5 < robot.n
    t = np.arange(0.0, 5.0, 0.01)
    w = np.linspace(1.0, 3.0, 5)
    samples = Samples(t, robot.active_names, 0.4 * np.sin(np.outer(t, w)), tau=np.cos(np.outer(t, w[::-1])))
    p = prepare(robot, samples, PreparationOptions(position_cutoff=12.0, row_cutoff=4.0, slow=0.0))
    columns = base_parameters(robot).columns(robot)
    _, found, tau, _ = all_rows(robot, p, columns)
    Y = regressor(robot, p.q, p.dq, p.ddq)[:, :, columns]
    smooth = [k for k, column in enumerate(columns) if not standard_names(robot)[column].startswith("Fc")]
    for j in range(5):
        np.testing.assert_allclose(tau[j], np.convolve(p.tau[:, j], p.kernel, "valid")[:: p.step], atol=1e-9)
        for k in smooth:
            wanted = np.convolve(Y[:, j, k], p.kernel, "valid")[:: p.step]
            np.testing.assert_allclose(found[k, j], wanted, atol=1e-9 * max(1.0, np.abs(wanted).max()))


def prepared(count=60, start=0.0, seed=0):
    rng = np.random.default_rng(seed)
    q, dq, ddq, tau = rng.normal(size=(4, count, 3))
    return as_prepared(DEMO3, q, dq, ddq, tau, t=start + np.arange(count) / 100.0)


@pytest.mark.parametrize("samples", [3, -4])
def test_a_late_effort_is_taken_later_in_every_stretch(samples):
    whole = replace(prepared(), segments=(slice(0, 25), slice(25, 27), slice(27, 60)))
    rate = whole.filter.inner_rate
    assert shift_effort(whole, 0.4 / rate) is whole
    found = shift_effort(whole, samples / rate)
    size = abs(samples)
    rows = np.concatenate([np.arange(a, b - size) for a, b in ((0, 25), (27, 60))])
    motion, effort = (rows, rows + size) if samples > 0 else (rows + size, rows)
    for field in ("t", "q", "dq", "ddq", "sign"):
        np.testing.assert_array_equal(getattr(found, field), getattr(whole, field)[motion])
    np.testing.assert_array_equal(found.tau, whole.tau[effort])
    assert found.segments == (slice(0, 25 - size), slice(25 - size, 25 - size + 33 - size)), "2 samples are too short"
    assert found.filter.delay == pytest.approx(samples / rate)
    again = shift_effort(found, 1 / rate)
    assert again.filter.delay == pytest.approx((samples + 1) / rate)
    with pytest.raises(InputError, match=r"longer than the effort's delay of .*record longer"):
        shift_effort(whole, 40 / rate)


def test_pieces_are_joined_in_their_order():
    a, b, c = (replace(prepared(30, 10.0 * k, k), notes=(remark("same"), remark(f"of {k}"))) for k in range(3))
    b = replace(b, segments=(slice(0, 12), slice(15, 30)), top_speed=b.top_speed * np.array([9.0, 0.1, 1.0]))
    found = join_prepared([a, b, c], (remark("last"),))
    for field in ("t", "q", "dq", "ddq", "tau", "sign", "bridged"):
        joined = np.concatenate([getattr(x, field) for x in (a, b, c)])
        np.testing.assert_array_equal(getattr(found, field), joined)
    assert found.segments == (slice(0, 30), slice(30, 42), slice(45, 60), slice(60, 90))
    np.testing.assert_array_equal(found.top_speed, np.max([x.top_speed for x in (a, b, c)], axis=0))
    assert [note.text for note in found.notes] == ["same", "of 0", "of 1", "of 2", "last"]
    assert found.reference is None
    commanded = [replace(x, reference=x.q + 1.0) for x in (a, b, c)]
    np.testing.assert_array_equal(join_prepared(commanded).reference, found.q + 1.0)
    assert join_prepared([*commanded[:2], c]).reference is None, "not of all"
    assert [note.text for note in join_prepared([a], (remark("last"),)).notes] == ["same", "of 0", "last"]


def test_cutoffs_of_another_recording_unless_others_are_asked_for():
    options = PreparationOptions(row_cutoff=3.0)
    assert options.with_filters(None, 5.0, 50.0) is options and options.with_filters(5.0, None, 50.0) is options
    found = options.with_filters(20.0, 5.0, 50.0)
    assert (found.position_cutoff, found.row_cutoff) == (20.0, 3.0)
    low = PreparationOptions().with_filters(20.0, 5.0, 4.0)
    assert (low.position_cutoff, low.row_cutoff) == (4.0, 4.0)
    for gains in ({DEMO3.active_names[0]: 0.0}, {DEMO3.active_names[0]: np.nan}):
        with pytest.raises(InputError, match="zero or not finite"):
            PreparationOptions(gains=gains).gains_of(DEMO3)


def test_which_of_two_efforts_comes_first():
    t = np.arange(10) / 10.0
    tau, link = np.full((10, 3), 1.0), np.full((10, 3), 2.0)
    link[:6, 2] = np.nan  # known for less than half of the time
    link[:5, 1] = np.nan
    samples = Samples(t, DEMO3.active_names, np.zeros((10, 3)), tau=tau, tau_l=link, source="x")
    joints = tuple(
        replace(joint, measures=MeasuredEffort(()) if k != 1 else None) for k, joint in enumerate(DEMO3.joints)
    )
    robot = replace(DEMO3, joints=joints, parameters={})
    found = order_streams(robot, samples)
    assert list(found.tau[9]) == [2.0, 1.0, 1.0]
    np.testing.assert_array_equal(found.tau_l[9], [1.0, 2.0, np.nan])
    assert list(find_exchanged_streams(robot, found)) == [True, False, False]
    plain = replace(samples, tau_l=None)
    assert order_streams(robot, plain) is plain and not find_exchanged_streams(robot, plain).any()
    nothing = order_streams(robot, replace(samples, tau_l=np.full((10, 3), np.nan)))
    assert nothing.tau_l is None and (nothing.tau == 1.0).all()
    with pytest.raises(InputError, match="torques at the links and no efforts"):
        order_streams(robot, replace(samples, tau=None))
    every = replace(
        DEMO3, joints=tuple(replace(joint, measures=MeasuredEffort(())) for joint in DEMO3.joints), parameters={}
    )
    alone = order_streams(every, replace(samples, tau=None))
    np.testing.assert_array_equal(alone.tau, link) and alone.tau_l is None


def moving_piece(seconds, start=0.0, rate=200.0, hertz=0.5, noise=0.0):
    t = start + np.arange(int(seconds * rate)) / rate
    w = 2.0 * np.pi * hertz * np.array([1.0, 1.3, 1.7])
    q = 0.5 * np.sin(w * t[:, None]) + noise * np.random.default_rng(0).normal(size=(len(t), 3))
    return Samples(t, DEMO3.active_names, q, tau=np.cos(w * t[:, None]), source="made")


def test_the_first_piece_decides_about_grid_and_filters_of_all():
    """The others move faster, are noisier and come at another rate: alone they would be filtered otherwise."""
    pieces = [
        moving_piece(10.0),
        moving_piece(10.0, 20.0, 400.0, 3.0, 1e-4),
        moving_piece(10.0, 40.0, 100.0, 0.1, 1e-3),
    ]
    parts = list(prepare_each(DEMO3, pieces, None, []))
    alone = [prepare(DEMO3, piece) for piece in pieces]
    assert len({p.filter.rate for p in alone}) == len({p.filter.row_cutoff for p in alone}) == 3
    for part in parts:
        assert part.filter == alone[0].filter and part.cutoffs == alone[0].cutoffs
        np.testing.assert_allclose(np.diff(part.t), 1.0 / alone[0].filter.inner_rate)
    np.testing.assert_array_equal(parts[0].tau, alone[0].tau)
    whole = prepare_pieces(DEMO3, pieces)
    assert whole.filter == alone[0].filter and len(whole.segments) == 3
    np.testing.assert_array_equal(whole.tau, np.concatenate([part.tau for part in parts]))


def test_velocities_are_taken_as_in_the_first_piece():
    def with_speed(piece, gain):
        return replace(piece, dq=gain * np.gradient(piece.q, piece.t, axis=0))

    measured = PreparationOptions()
    first = replace(moving_piece(10.0, noise=1e-3), dq=np.gradient(moving_piece(10.0).q, 1.0 / 200.0, axis=0))
    parts = list(prepare_each(DEMO3, [first, with_speed(moving_piece(10.0, 20.0), 2.0)], measured, []))
    assert parts[0].filter.velocity == ("measured",) * 3
    own = prepare(DEMO3, moving_piece(10.0, 20.0), PreparationOptions(position_cutoff=5.0))
    assert parts[1].filter.velocity == ("measured",) * 3
    assert np.abs(parts[1].dq).max() == pytest.approx(2.0 * np.abs(own.dq).max(), rel=0.05), (
        "although it is wrong there"
    )


def test_filters_of_another_recording_are_those_of_every_piece():
    other = prepare(DEMO3, moving_piece(10.0), PreparationOptions(position_cutoff=17.0, row_cutoff=3.5))
    found = prepare_pieces(DEMO3, [moving_piece(10.0), moving_piece(10.0, 20.0)], filters=other.filter)
    assert (found.filter.position_cutoff, found.filter.row_cutoff) == (17.0, 3.5)


def still(seconds, start):
    samples = moving_piece(seconds, start)
    return replace(samples, q=np.zeros_like(samples.q), source="still")


def test_a_piece_may_stand_still_unless_it_is_the_first():
    refused = []
    pieces = [still(4.0, 0.0), moving_piece(10.0, 10.0), still(4.0, 30.0), moving_piece(10.0, 40.0)]
    parts = list(prepare_each(DEMO3, pieces, None, refused))
    assert [round(p.t[0]) for p in parts] == [10, 30, 40] and not parts[1].dq.any()
    assert [note.text[:38] for note in refused] == ["the piece of 0 to 3.995 s was left out"]
    assert "no joint moved" in refused[0].text
    short = moving_piece(0.05)
    with pytest.raises(InputError, match="no joint moved"):
        list(prepare_each(DEMO3, [still(4.0, 0.0), short, short.take(slice(0, 0))], None, refused))
    assert refused[-1].text.startswith("the piece of no samples was left out")


def test_temperatures_of_pieces_are_those_of_all_or_not_known():
    def warm(piece, first, last):
        return replace(piece, temperature=np.tile(np.linspace(first, last, len(piece.t))[:, None], (1, 3)))

    a, b = warm(moving_piece(10.0), 20.0, 30.0), warm(moving_piece(10.0, 20.0), 40.0, 25.0)
    found = prepare_pieces(DEMO3, [a, b])
    np.testing.assert_allclose(found.temperatures, np.tile([[20.0], [40.0]], (1, 3)), atol=1.0)
    assert len(found.temperature) == len(found.t)
    without = prepare_pieces(DEMO3, [a, replace(b, temperature=None)])
    assert without.temperature is None and without.temperatures is None
    known, unknown = np.array([[1.0, 5.0], [2.0, 6.0]]), np.array([[0.0, np.nan], [9.0, np.nan]])
    np.testing.assert_array_equal(temperature_range([known, unknown]), [[0.0, np.nan], [9.0, np.nan]])


@pytest.mark.parametrize("samples", [4, -4])
def test_only_the_effort_is_taken_later(samples):
    rng, count = np.random.default_rng(0), 80
    p = as_prepared(DEMO3, *rng.normal(size=(4, count, 3)), t=np.arange(count) / 100.0)
    bridged = np.where(np.arange(count) == 30, 0.7, 0.0)
    p = replace(
        p,
        kernel=np.ones(21),
        segments=(slice(0, 24), slice(24, 80)),
        bridged=bridged,
        commands=rng.normal(size=(count, 2, 2, 3)),
        **{name: rng.normal(size=(count, 3)) for name in ("reference", "temperature", "second")},
    )
    found = shift_effort(p, samples / 100.0)
    assert found.segments == (slice(0, 52),), "the first stretch is then shorter than the filter"
    motion = np.arange(24, 76) + max(-samples, 0)
    for name in ("t", "q", "dq", "ddq", "sign", "reference", "temperature", "second", "commands"):
        np.testing.assert_array_equal(getattr(found, name), getattr(p, name)[motion])
    np.testing.assert_array_equal(found.tau, p.tau[motion + samples])
    np.testing.assert_array_equal(found.bridged, np.where((motion == 30) | (motion + samples == 30), 0.7, 0.0))
    just = shift_effort(replace(p, segments=(slice(0, 25), slice(25, 80))), samples / 100.0)
    assert just.segments == (slice(0, 21), slice(21, 72))


@pytest.mark.parametrize(("unit", "factor"), [("ms", 1e3), ("us", 1e6)])
def test_times_in_another_unit_are_refused_with_the_unit(unit, factor):
    robot, samples = simulated_truth()[0], simulated()
    with pytest.raises(InputError, match="samples a second") as error:
        prepare(robot, replace(samples, t=factor * samples.t))
    assert Option("time_unit", unit) in error.value.hint.parts


@pytest.mark.parametrize("value", [1e300, -1e12])
def test_a_value_that_no_robot_has_is_refused_with_its_place(value):
    robot, samples = simulated_truth()[0], simulated()
    tau = samples.tau.copy()
    tau[100, 2] = value
    with pytest.raises(InputError, match=rf"{samples.joint_names[2]}.*which no robot has"):
        prepare(robot, replace(samples, tau=tau))
