"""A recording on a worker: of which robot it is, how it is prepared, in parts, changed, and asked about."""

from __future__ import annotations

from dataclasses import make_dataclass, replace
from functools import partial

import numpy as np
import pytest

from fleet_site import ROBOT, record
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet import map_recording as mapping
from ros2_dynid.fleet import parts
from ros2_dynid.fleet.distant import Recordings
from ros2_dynid.fleet.fingerprint import fingerprint
from ros2_dynid.fleet.map_recording import (
    KINDS,
    Failed,
    Outcome,
    Question,
    answer,
    map_packed,
    map_recording,
    map_several,
)
from ros2_dynid.fleet.parts import Change, Parts, Source, open_recording
from ros2_dynid.fleet.recordings import identity
from ros2_dynid.fleet.store import packed, read_whole, unpacked
from ros2_dynid.identification import read_problem
from ros2_dynid.identification.estimators import Information, inform
from ros2_dynid.identification.estimators.standstill import with_standstill
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation import PreparationOptions
from ros2_dynid.identification.preparation.rows import row_count
from ros2_dynid.identification.read_problem import all_prepared
from ros2_dynid.identification.validation.comparison import LIMIT
from ros2_dynid.identification.validation.row_evidence import lag_of, picture_stride, row_evidence
from ros2_dynid.identification.validation.sampled_motion import MOST, motion_stride, sample_count
from ros2_dynid.model.robot import Robot, with_gravity
from ros2_dynid.recording.read import iter_samples, load_samples
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.save import save_samples
from ros2_dynid.recording.units import Units


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return record(tmp_path_factory.mktemp("map") / "n.mcap", 7, 3, seconds=6.0)


def source(place, robot: Robot = ROBOT, **preparation) -> Source:
    options = IdentifyOptions(preparation=PreparationOptions(**preparation))
    return Source(str(place), identity(str(place)).content, robot, options.preparation, options.reading)


def prepared(place, robot: Robot = ROBOT, **preparation):
    options = IdentifyOptions(preparation=PreparationOptions(**preparation))
    return all_prepared(robot, [place], options, lambda stage, done: None, (0.0, 0.0))


def assert_same(mine: Information, theirs: Information) -> None:
    assert mine.layout == theirs.layout
    for a, b in zip(mine.blocks, theirs.blocks, strict=True):
        for x, y in zip(a.R, b.R, strict=True):
            np.testing.assert_array_equal(x, y)


# --- the map


def test_robots_in_one_process_are_not_mixed_up(bag):
    """What is kept for a robot is found by all that it is, not by its name or its place in memory."""
    tilted = with_gravity(ROBOT, (3.0, 0.0, -9.0))
    for robot in (ROBOT, tilted, replace(tilted), ROBOT):
        base = base_parameters(robot, method="closed-form")
        outcome = map_recording(source(bag, robot))
        assert_same(with_standstill(outcome.information), inform(robot, base, prepared(bag, robot)))


def test_a_delay_that_is_given_is_not_estimated(bag):
    base = base_parameters(ROBOT, method="closed-form")
    for delay in (None, 0.0):
        outcome = map_recording(source(bag, delay=delay))
        assert bool(outcome.information.layout.n_delay) == (delay is None)
        wanted = inform(ROBOT, base, prepared(bag, delay=delay), delay=delay is None)
        assert_same(with_standstill(outcome.information), wanted)


def test_so_many_rows_and_samples_are_kept_as_twice_the_share_of_the_robots_data(bag):
    for share in (1e-3, 3e-3, 0.02):
        outcome = map_recording(source(bag), share)
        stride = picture_stride([row_count(outcome.outline)], round(2 * share * LIMIT))
        assert outcome.rows.pictured.stride == stride > 1
        stride = motion_stride(sample_count(outcome.outline), round(2 * share * MOST))
        assert outcome.motion.stride == stride
    assert outcome.rows.successive.lag == lag_of(outcome.outline.filter) > 1
    assert outcome.start_ns == load_samples(bag).start_ns


def test_a_recording_that_is_all_of_its_robots_data_is_taken_for_that(bag, monkeypatch):
    monkeypatch.setattr(mapping, "LIMIT", 20)
    monkeypatch.setattr(mapping, "MOST", 10)
    plain, stored = map_recording(source(bag)), unpacked(map_packed(source(bag)), Outcome, KINDS)
    for outcome in (plain, stored):
        assert outcome.rows.pictured.stride == picture_stride([row_count(plain.outline)], 40) > 1
        assert outcome.motion.stride == motion_stride(sample_count(plain.outline), 20) > 1


def test_a_recording_without_an_estimate_of_its_own_has_no_error_of_its_own(bag, monkeypatch):
    assert 0.0 < map_recording(source(bag)).alone < 0.1

    def refuses(information):
        raise DynidError("too few rows; record more")

    monkeypatch.setattr(mapping, "weighted", refuses)
    outcome = map_recording(source(bag))
    assert isinstance(outcome, Outcome) and np.isnan(outcome.alone)


def test_outcomes_are_stored_where_the_worker_is_told_and_else_handed_back(bag, tmp_path):
    (tmp_path / "torn.mcap").write_text("torn")
    given = ((source(bag), 1.0), (source(tmp_path / "torn.mcap"), 1.0))
    whole, torn = map_several(given)
    assert whole == packed(map_recording(source(bag))) and isinstance(torn, Failed)
    files = (tmp_path / "out/a.fleet", tmp_path / "out/b.fleet")
    none, again = map_several(given, files)
    assert none is None and again == torn and read_whole(files[0]) == whole and not files[1].exists()


# --- parts


def in_pieces(monkeypatch, size: int) -> None:
    """Let recordings be read as much longer ones are: so many samples at a time."""

    def read(*arguments, **options):
        for found in iter_samples(*arguments, **options):
            for k in range(0, len(found), size // 2):
                yield found.take(slice(k, k + size // 2))

    monkeypatch.setattr(read_problem, "PIECE", size)
    monkeypatch.setattr(read_problem, "iter_samples", read)


def test_a_recording_prepared_in_another_way_is_another(bag):
    one = source(bag)
    other = Reading(units=Units(effort="mN.m"))
    filters = prepared(bag)[0].filter
    differently = [
        one, replace(one, place="x"), replace(one, content="x"), replace(one, robot=with_gravity(ROBOT, (0, 0, -1.0))),
        replace(one, options=PreparationOptions(row_cutoff=5.0)), replace(one, reading=other),
        replace(one, filters=filters), replace(one, filters=replace(filters, delay=0.01)),
    ]  # fmt: skip
    assert len({each.key for each in differently}) == len(differently)
    assert one.prepared_with(one.options, other, None).reading is other
    parts._kept.clear()
    plain, milli = (next(iter(Parts(each))) for each in (one, replace(one, reading=other)))
    np.testing.assert_allclose(milli.tau, 1e-3 * plain.tau, rtol=1e-9)
    slow = next(iter(Parts(replace(one, filters=replace(filters, row_cutoff=0.5 * filters.row_cutoff)))))
    assert slow.filter.row_cutoff == 0.5 * filters.row_cutoff


@pytest.mark.parametrize("piece", [200_000, 400])
def test_a_clock_that_was_set_back_takes_two_readings(tmp_path, monkeypatch, piece):
    samples = load_samples(record(tmp_path / "n.mcap", 7, 3, seconds=8.0))
    t = samples.t.copy()
    t[1600:] -= 5.0
    save_samples(replace(samples, t=t), tmp_path / "back.mcap")
    in_pieces(monkeypatch, piece)
    parts._kept.clear()
    one = source(tmp_path / "back.mcap")
    opened = open_recording(one)
    assert opened.twice and any("set back" in note.text for note in opened.outline.notes)
    assert (opened.whole is None) == (piece == 400)
    (whole,) = prepared(tmp_path / "back.mcap")
    assert opened.outline.notes == whole.notes and len(set(whole.notes)) == len(whole.notes)
    outcome = map_recording(one)
    assert (outcome.twice, outcome.long) == (True, piece == 400)
    assert_same(
        with_standstill(outcome.information),
        inform(ROBOT, base_parameters(ROBOT, method="closed-form"), [whole]),
    )
    top = outcome.outline.top_speed
    for known, speed in (
        (one, top),
        (replace(one, long=outcome.long, twice=True), top),
        (replace(one, long=True), None),
    ):
        found = list(Parts(known, (), speed))
        assert len(found) == (1 if piece == 200_000 else len(found)) >= 1
        for name in ("t", "q", "tau"):
            np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in found]), getattr(whole, name))
        assert all(np.array_equal(p.top_speed, whole.top_speed) for p in found)


def test_what_was_left_out_of_a_long_recording_is_noted_once(tmp_path, monkeypatch):
    samples = load_samples(record(tmp_path / "n.mcap", 7, 3, seconds=8.0))
    tau = samples.tau.copy()
    tau[1240:] = np.nan  # the drives are off
    save_samples(replace(samples, tau=tau), tmp_path / "off.mcap")
    in_pieces(monkeypatch, 500)
    (whole,) = prepared(tmp_path / "off.mcap")
    opened = open_recording(source(tmp_path / "off.mcap"))
    assert any("was left out" in note.text for note in whole.notes)
    assert sorted(map(str, opened.outline.notes)) == sorted(map(str, whole.notes))
    assert opened.whole is None and opened.start_ns == samples.start_ns


def test_the_recording_asked_for_last_is_kept_longest(bag, tmp_path, monkeypatch):
    one, two, three = (source(record(tmp_path / f"{k}.mcap", 7, k, seconds=6.0)) for k in range(3))
    parts._kept.clear()
    size = parts._bytes(open_recording(one).whole)
    monkeypatch.setattr(parts, "CACHE", int(2.5 * size))
    open_recording(two)
    list(Parts(one))
    open_recording(three)
    assert list(parts._kept) == [one.key, three.key]
    read = []
    monkeypatch.setattr(parts, "open_recording", lambda source: read.append(source.place) or open_recording(source))
    assert next(iter(Parts(one))).notes == open_recording(one).outline.notes
    assert not read
    list(Parts(two))
    assert read == [two.place]


# --- questions


def halved(part):
    """Return the first half of a recording."""
    n = len(part.t) // 2
    return replace(
        part, t=part.t[:n], q=part.q[:n], dq=part.dq[:n], ddq=part.ddq[:n], tau=part.tau[:n], sign=part.sign[:n],
        bridged=part.bridged[:n], segments=(slice(0, n),),
    )  # fmt: skip


def louder(part):
    return replace(part, tau=2.0 * part.tau)


def told(whole, samples, *extra):
    """Return what a question gets."""
    return whole, [part.tau for part in samples], extra


def test_a_question_gets_the_changed_samples_and_an_outline_that_is_true_of_them(bag):
    (plain,) = prepared(bag)
    outline = open_recording(source(bag)).outline

    def asked(*changes, extra=()):
        return answer(Question(source(bag), outline, changes, told, extra))

    whole, (tau,), extra = asked()
    assert whole is outline and np.array_equal(tau, plain.tau) and extra == ()
    whole, (tau,), extra = asked(Change(louder, True), extra=(7,))
    assert whole is outline and np.array_equal(tau, 2.0 * plain.tau) and extra == (7,)
    n = len(plain.t) // 2
    for changes in ((Change(halved, False),), (Change(louder, True), Change(halved, False))):
        whole, (tau,), _ = asked(*changes)
        assert whole.segments == (slice(0, n),) and whole.t[-1] == plain.t[n - 1] and len(tau) == n
        assert whole.notes == outline.notes

    def refuses(part):
        raise InputError("nothing is left", "record more")

    found = asked(Change(refuses, True))
    assert isinstance(found, Failed) and found.what == "nothing is left"


def test_questions_about_several_recordings_come_back_in_order_each_with_its_own(bag):
    places = "abc"
    sources = {name: replace(source(bag), content=name, place=name) for name in places}
    outline = open_recording(source(bag)).outline
    asked, bad = [], ""

    def ask(function, questions):
        asked.append([(one.source.place, one.extra, len(one.changes), one.outline.elsewhere) for one in questions])
        return [
            Failed("torn", "mend it", one.source.place) if one.source.place == bad else one.extra for one in questions
        ]

    recordings = Recordings(sources, {}, ask)
    monkey = [replace(outline, elsewhere=None)] * 3
    recordings._run = lambda function, arguments: list(monkey)
    found = recordings.prepare(ROBOT, recordings.distant(places), sources["a"].options, sources["a"].reading, None)
    recordings._run = ask
    found[1] = replace(found[1], elsewhere=found[1].elsewhere.later(louder, same_rows=True))
    where = found[0].elsewhere
    assert where.over(told, found, [10, 20, 30]) == [(10,), (20,), (30,)]
    assert asked.pop() == [("a", (10,), 0, None), ("b", (20,), 1, None), ("c", (30,), 0, None)]
    assert where.over(told, found) == [(), (), ()] and asked.pop()[2] == ("c", (), 0, None)
    recordings._known = lambda question: "known" if question.source.place == "b" else None
    assert where.over(told, found, [10, 20, 30]) == [(10,), "known", (30,)], "each in its place"
    assert [place for place, *_ in asked.pop()] == ["a", "c"]
    recordings._known = lambda question: None
    bad = "b"
    with pytest.raises(InputError, match="torn") as caught:
        where.over(told, found)
    assert caught.value.source == "b"


def test_rows_kept_as_dense_as_asked_for_are_not_asked_for_again(bag):
    outcome = map_recording(source(bag), 3e-3)
    kept = outcome.rows.pictured
    recordings = Recordings({str(bag): source(bag)}, {str(bag): outcome})
    base = base_parameters(ROBOT, method="closed-form")
    for stride in (kept.stride - 1, kept.stride, 2 * kept.stride):
        function = partial(row_evidence, ROBOT, base, (), True, outcome.information.columns, stride)
        found = recordings._known(Question(source(bag), outcome.outline, (), function, ()))
        assert (found is None) == (stride < kept.stride)
        if found is not None:
            assert found.pictured.stride == kept.thinned(stride).stride


def test_fingerprints_tell_where_a_list_or_a_mapping_ends():
    apart = [
        [[1], 2], [[1, 2]], [[], [1]], [[[1]]], [{"a": 1}, "b", 2], [{"a": 1, "b": 2}], [{}, "a", 1], 0.1, 0.1 + 1e-12,
    ]  # fmt: skip
    assert len({fingerprint(value) for value in apart}) == len(apart)
    assert fingerprint({"a": 1}, "b", 2) != fingerprint({"a": 1, "b": 2})
    assert fingerprint([1], 2) != fingerprint([1, 2])
    one, renamed, other = (
        make_dataclass(name, fields)(1, 2) for name, fields in (("A", ["x", "y"]), ("A", ["x", "z"]), ("B", ["x", "y"]))
    )
    assert len({fingerprint(value) for value in (one, renamed, other)}) == 3, "names of fields and types count"
