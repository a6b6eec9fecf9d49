# SPDX-License-Identifier: Apache-2.0

"""The order of a run: what is mapped and reduced when, and what is known already."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fleet_results import OPTIONS, ROBOT, hands, reduced
from ros2_dynid.errors import InputError
from ros2_dynid.fleet import workers
from ros2_dynid.fleet.fleet_file import Member
from ros2_dynid.fleet.map_recording import Failed, Source
from ros2_dynid.fleet.recordings import Identity
from ros2_dynid.fleet.reduce_robot import (
    Reduced,
    RobotResult,
    put,
    reduce_robot,
    store_robot,
)
from ros2_dynid.fleet.run import geometry_name
from ros2_dynid.fleet.store import Store, packed
from ros2_dynid.fleet.tasks import Tasks, in_turn, list_sources
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.recording.samples import Reading


def test_robots_with_large_recordings_come_first_and_each_recording_once():
    sizes = {"a": 5, "b": 50, "c": 7, "d": 6, "e": 50, "f": 1}
    robots = {"one": ["a", "c"], "two": ["d", "b"], "three": ["e", "f", "a"], "four": []}
    assert in_turn(robots, sizes) == ["b", "d", "e", "a", "f", "c"]
    assert in_turn({"x": ["a", "b", "c"]}, sizes) == ["b", "c", "a"]


def test_a_robot_comes_as_soon_as_its_recordings_are_mapped(tmp_path):
    """Tasks without the work: who is asked for what, and when."""
    members = [Member(name, "", ROBOT, OPTIONS, (), ()) for name in ("small", "large", "none", "broken")]
    pairs = {"small": ["s1", "s2"], "large": ["l1", "l2", "s2"], "none": [], "broken": ["x1"]}
    known = {key: Identity(key, size, "") for key, size in (("s1", 1), ("s2", 2), ("l1", 9), ("l2", 8), ("x1", 1))}
    keys = {key: Source(key, key, ROBOT, OPTIONS.preparation, OPTIONS.reading) for key in known}
    sources = {robot: [(keys[key], key) for key in own] for robot, own in pairs.items()}
    found = {robot: SimpleNamespace(validate=("l1", "gone")) for robot in pairs}
    store = Store(tmp_path / "outcomes")
    tasks = Tasks(members, found, known, sources, keys, store, tmp_path, "again", hands(2))

    def mapped(task, result):
        return tasks.take(workers.Done(task, (result,), 1.0))

    order = [tasks.next_task() for _ in range(5)]
    assert [task.subject for task in order] == ["l1", "l2", "s2", "s1", "x1"] and tasks.next_task() is None
    by_key = {task.subject: task for task in order}
    assert mapped(by_key["l1"], packed(1)) == ("reading recordings (1 of 5)", pytest.approx(0.9 / 5))
    mapped(by_key["l2"], packed(2))
    assert tasks.next_task() is None
    mapped(by_key["x1"], Failed("torn", "mend it"))
    assert tasks.broken == {"x1": "torn; mend it"} and tasks.next_task() is None, "nothing of it can be used"
    mapped(by_key["s2"], packed(3))
    robot = tasks.next_task()
    assert robot.subject == "large"
    job = robot.arguments[0]
    assert [source.place for source in job.sources] == ["l1", "l2", "s2"] and job.stored[2] == packed(3)
    assert [source.place for source in job.validation] == ["l1"]
    assert (job.folder, job.command, job.id) == ("robots/large", "again", "large")
    assert job.target is None, "who does not reach our files hands them back"
    assert tasks.next_task() is None and tasks.mapped == 4 and tasks.mapping == 4.0
    stage, done = tasks.take(workers.Done(robot, Reduced(reduced("large"), {"model.yaml": b"a", "t/b.csv": b"c"}), 2.0))
    assert stage == "identifying robots (1 of 4)" and done == pytest.approx(0.9 * 4 / 5 + 0.1 * 1 / 4)
    assert tasks.reduced == 1 and 2.0 <= tasks.identifying < 3.0 and list(tasks.results) == ["large"]
    assert tasks.folders == {"large": ("robots/large/model.yaml", "robots/large/report.html")}
    assert (tmp_path / "robots/large/t/b.csv").read_bytes() == b"c"
    with pytest.raises(InputError, match="large: torn"):
        tasks.take(workers.Done(robot, Failed("torn", "mend it"), 2.0))
    some = {"large": sources["large"]}
    again = Tasks(members[1:2], found, known, some, keys, store, tmp_path, "another command", hands(2))
    assert again.next_task() is None and list(again.results) == ["large"] and again.reduced == again.mapped == 0
    (tmp_path / "robots/large/t/b.csv").unlink()
    anew = Tasks(members[1:2], found, known, some, keys, store, tmp_path, "", hands(1))
    task = anew.next_task()
    assert task.subject == "large"
    anew.take(workers.Done(task, Reduced(reduced("large", problem="odd"), {}), 0.0))
    assert not (tmp_path / "robots/large/model.yaml").exists() and anew.folders == {}
    other = replace(OPTIONS, standard=True)
    for changed in (
        replace(members[1], options=other),
        replace(members[1], robot=with_gravity(ROBOT, (0.0, 0.0, 1.0))),
    ):
        different = Tasks([changed], found, known, some, keys, store, tmp_path, "", hands(2))
        assert different.next_task() is not None
    less = Tasks(members[1:2], found, known, {"large": sources["large"][:2]}, keys, store, tmp_path, "", hands(2))
    assert less.next_task().arguments[0].stored == (packed(1), packed(2))
    unchecked = {"large": SimpleNamespace(validate=())}
    assert Tasks(members[1:2], unchecked, known, some, keys, store, tmp_path, "", hands(2)).next_task() is not None
    mapped(by_key["s1"], packed(4))
    store.path("s1").unlink()
    with pytest.raises(InputError, match="its stored R factors are missing") as caught:
        tasks.next_task()
    assert caught.value.source == "s1"


def test_workers_of_this_machine_store_what_they_find_themselves(tmp_path):
    """Outcomes and models do not pass through the process that hands out the tasks."""
    source = Source("k", "k", ROBOT, OPTIONS.preparation, OPTIONS.reading)
    found, known, sources = {"arm": SimpleNamespace(validate=())}, {"k": Identity("k", 1, "")}, {"arm": [(source, "k")]}
    members, store = [Member("arm", "", ROBOT, OPTIONS, (), ())], Store(tmp_path / "outcomes")
    given = (members, found, known, sources, {"k": source}, store, tmp_path, "")
    tasks = Tasks(*given, hands(1, share_files=True))
    recording = tasks.next_task()
    assert recording.arguments == ((source,), (store.path("k"),))
    store.save("k", packed(1))  # as the worker does
    assert tasks.take(workers.Done(recording, (None,), 1.0)) == ("reading recordings (1 of 1)", pytest.approx(0.9))
    robot = tasks.next_task()
    job = robot.arguments[0]
    assert job.stored == (store.path("k"),) and job.target == tmp_path / "robots" / "arm"
    foreign = reduce_robot(job)
    assert isinstance(foreign, Failed) and "missing or damaged" in foreign.what
    stored = store_robot(job.target, job.key, reduced("arm"), lambda new: put({"model.yaml": b"m"}, new))
    tasks.take(workers.Done(robot, Reduced(stored.result, {}, stored), 1.0))
    assert tasks.folders == {"arm": ("robots/arm/model.yaml", "robots/arm/report.html")} and tasks.reduced == 1
    again = Tasks(*given, hands(1, share_files=True))
    assert again.next_task() is None and again.results["arm"].id == "arm" and again.folders == tasks.folders
    (job.target / "model.yaml").write_bytes(b"")  # as after a power cut: it is not what was written
    assert Tasks(*given, hands(1, share_files=True)).next_task() is not None
    store.path("k").unlink()
    gone = reduce_robot(job)
    assert isinstance(gone, Failed) and "missing or damaged" in gone.what and gone.source == "k"
    with pytest.raises(InputError, match="missing or damaged; repeat") as caught:
        tasks.take(workers.Done(robot, gone, 1.0))
    assert caught.value.source == "k"


def test_short_recordings_are_mapped_several_at_a_time_and_each_by_itself_after_a_loss(tmp_path):
    few = {"together_bytes": 100, "spread": 2}
    sizes = [300, 60, 40, 39, 20, 20, 20, 20, 20, 20]
    known = {f"k{k}": Identity(f"k{k}", size, "") for k, size in enumerate(sizes)}
    keys = {key: Source(key, key, ROBOT, OPTIONS.preparation, OPTIONS.reading) for key in known}
    sources = {"arm": [(source, key) for key, source in keys.items()]}
    members, found = [Member("arm", "", ROBOT, OPTIONS, (), ())], {"arm": SimpleNamespace(validate=())}
    tasks = Tasks(members, found, known, sources, keys, Store(tmp_path), tmp_path, "", hands(1), **few)
    order = [tasks.next_task() for _ in range(7)]
    assert [task.subject for task in order] == ["k0", "k1 k2", "k3 k4 k5", "k6", "k7", "k8", "k9"]
    assert tasks.next_task() is None
    tasks.take(workers.Done(order[2], Failed("lost", "more memory"), 0.0))
    assert tasks.mapped == 0 and not tasks.broken
    again = [tasks.next_task() for _ in range(3)]
    assert [task.subject for task in again] == ["k3", "k4", "k5"] and tasks.next_task() is None
    early = Tasks(members, found, known, sources, keys, Store(tmp_path), tmp_path, "", hands(1), **few)
    early.take(workers.Done([early.next_task() for _ in range(2)][1], Failed("lost", "more memory"), 0.0))
    assert [early.next_task().subject for _ in range(3)] == ["k1", "k2", "k3 k4 k5"], "many others are left, and yet"
    tasks.take(workers.Done(again[1], Failed("lost", "more memory"), 0.0))
    assert tasks.broken == {"k4": "lost; more memory"} and tasks.mapped == 1
    tasks.take(workers.Done(order[1], (packed(1), Failed("torn", "mend it")), 0.0))
    assert set(tasks.broken) == {"k2", "k4"} and tasks.mapped == 3 and tasks.last_mapped > 0.0


KNOWN = {"a": Identity("one", 10, "s"), "b": Identity("two", 30, "s"), "c": Identity("one", 10, "t")}


def member(name="arm", robot=ROBOT, **options) -> Member:
    return Member(name, "", robot, IdentifyOptions(**options), (), ())


def found(*places, validate=()) -> SimpleNamespace:
    return SimpleNamespace(recordings=places, validate=validate)


def key_of(one: Member, place="a") -> str:
    sources, _ = list_sources([one], {one.id: found(place)}, KNOWN)
    ((source, key),) = sources[one.id]
    assert (source.place, source.content, source.robot) == (place, KNOWN[place].content, one.robot)
    assert (source.options, source.reading) == (one.options.preparation, one.options.reading)
    return key


def test_a_recording_is_mapped_again_when_it_is_of_another_robot_or_read_in_another_way(monkeypatch):
    plain = key_of(member())
    assert plain == key_of(member("other")) == key_of(member(), "c"), "the same content for the same robot"
    assert plain == key_of(member(standard=True, friction="load", essential=True)), "what is done with it later"
    others = {
        key_of(member(), "b"),
        key_of(member(robot=with_gravity(ROBOT, (0.0, 0.0, 1.0)))),
        key_of(member(preparation=PreparationOptions(row_cutoff=5.0))),
        key_of(member(preparation=PreparationOptions(gains={"elbow": 2.0}))),
        key_of(member(reading=Reading(start=1.0))),
    }
    monkeypatch.setattr("ros2_dynid.fleet.tasks.__version__", "99.0.0")
    others.add(key_of(member()))
    monkeypatch.setattr("ros2_dynid.fleet.tasks.FORMAT", 99)
    others.add(key_of(member()))
    assert len(others - {plain}) == 7


def test_the_same_content_counts_once_for_a_robot_and_is_mapped_once_for_all():
    tilted = with_gravity(ROBOT, (0.0, 0.0, 1.0))
    members = [member("one"), member("two"), member("three", tilted)]
    places = {"one": found("a", "b", "c", "unread"), "two": found("c"), "three": found("a")}
    sources, keys = list_sources(members, places, KNOWN)
    assert [[source.place for source, _ in sources[name]] for name in places] == [["a", "b"], ["c"], ["a"]]
    first, second, third = ({key for _, key in sources[name]} for name in places)
    assert second < first and not third & first and set(keys) == first | third
    assert {source.place for source in keys.values()} == {"a", "b"}
    assert [keys[key].robot for key in third] == [tilted] and all(keys[key].robot is ROBOT for key in first)


@pytest.fixture
def done(tmp_path):
    """Make a robot that an earlier run has identified from two recordings; return how to begin a run on it."""
    one = member()
    places = found("a", "b", validate=("c", "b", "gone"))

    def begun(one=one, places=places, known=KNOWN):
        sources, keys = list_sources([one], {"arm": places}, known)
        store = Store(tmp_path / "outcomes")
        for key in keys:
            store.save(key, packed(1))
        workers = SimpleNamespace(count=2, dashboard="", share_files=False)
        return Tasks([one], {"arm": places}, known, sources, keys, store, tmp_path, "", workers)

    task = begun().next_task()
    none = np.zeros(1, dtype=bool)
    result = RobotResult("arm", (), ("Fv1",), ("",), np.zeros(1), np.eye(1), none, (), "good", (), {}, {})
    store_robot(tmp_path / "robots/arm", task.arguments[0].key, result, None)
    assert begun().next_task() is None, "it is known"
    return begun


def test_a_robot_is_identified_again_when_anything_it_was_made_from_changes(done, monkeypatch):
    one = member()
    for changed in (
        replace(one, options=IdentifyOptions(standard=True)), replace(one, options=IdentifyOptions(friction="load")),
        replace(one, robot=replace(ROBOT, parameters={**ROBOT.parameters, "M1": 3.0})),
    ):  # fmt: skip
        assert done(changed).next_task() is not None
    assert done(places=found("a", validate=("c", "b"))).next_task() is not None, "a recording less"
    assert done(places=found("a", "b", validate=("b",))).next_task() is not None, "one less to validate on"
    assert done(known={**KNOWN, "c": Identity("three", 10, "t")}).next_task() is not None, "another to validate on"
    assert done(places=found("b", "a", validate=("b", "c"))).next_task() is None, "the order does not matter"
    monkeypatch.setattr("ros2_dynid.fleet.tasks.__version__", "99.0.0")
    assert done().next_task() is not None


def test_recordings_to_validate_on_are_in_the_order_of_their_content(done):
    changed = member(preparation=PreparationOptions(row_cutoff=5.0), reading=Reading(start=1.0))
    for places in (("b", "c", "gone"), ("c", "b")):
        job = done(changed, found("a", validate=places)).next_task().arguments[0]
        assert [(source.place, source.content) for source in job.validation] == [("c", "one"), ("b", "two")]
        assert all(source.options is changed.options.preparation for source in job.validation)
        assert all(source.reading is changed.options.reading for source in job.validation)


def test_robots_that_differ_in_more_than_their_parameters_are_of_another_kind():
    coupled, closed = load_robot("tx40"), load_robot("hitachi_hpr")
    assert coupled.coupling and closed.passive
    spring = Force("balance", ForceKind.SPRING, (1,), {1: 1.0, 2: -0.5}, rest=0.2)
    raised = ROBOT.base.copy()
    raised[2, 3] += 0.5
    for robot, other in (
        (coupled, replace(coupled, coupling=())), (closed, replace(closed, passive=())),
        (ROBOT, replace(ROBOT, forces=(spring,))), (ROBOT, replace(ROBOT, base=raised)),
    ):  # fmt: skip
        assert geometry_name(robot) != geometry_name(other)
    heavier = replace(coupled, parameters={name: 2.0 * value for name, value in coupled.parameters.items()})
    assert geometry_name(heavier) == geometry_name(coupled)
