# SPDX-License-Identifier: Apache-2.0

"""What is computed anew in a second run: whatever a result was made from is part of its key."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.fleet import run
from ros2_dynid.fleet.fleet_file import Member
from ros2_dynid.fleet.recordings import Identity
from ros2_dynid.fleet.reduce_robot import RobotResult, store_robot
from ros2_dynid.fleet.store import Store, packed
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.recording.samples import Reading

ROBOT = load_robot("demo3")
KNOWN = {"a": Identity("one", 10, "s"), "b": Identity("two", 30, "s"), "c": Identity("one", 10, "t")}


def member(name="arm", robot=ROBOT, **options) -> Member:
    return Member(name, "", robot, IdentifyOptions(**options), (), ())


def found(*places, validate=()) -> SimpleNamespace:
    return SimpleNamespace(recordings=places, validate=validate)


def key_of(one: Member, place="a") -> str:
    sources, _ = run._sources([one], {one.id: found(place)}, KNOWN)
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
    monkeypatch.setattr(run, "__version__", "99.0.0")
    others.add(key_of(member()))
    monkeypatch.setattr(run, "FORMAT", 99)
    others.add(key_of(member()))
    assert len(others - {plain}) == 7


def test_the_same_content_counts_once_for_a_robot_and_is_mapped_once_for_all():
    tilted = with_gravity(ROBOT, (0.0, 0.0, 1.0))
    members = [member("one"), member("two"), member("three", tilted)]
    places = {"one": found("a", "b", "c", "unread"), "two": found("c"), "three": found("a")}
    sources, keys = run._sources(members, places, KNOWN)
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
        sources, keys = run._sources([one], {"arm": places}, known)
        store = Store(tmp_path / "outcomes")
        for key in keys:
            store.save(key, packed(1))
        workers = SimpleNamespace(count=2, dashboard="", share_files=False)
        return run._Tasks([one], {"arm": places}, known, sources, keys, store, tmp_path, "", workers)

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
    monkeypatch.setattr(run, "__version__", "99.0.0")
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
        assert run._geometry(robot) != run._geometry(other)
    heavier = replace(coupled, parameters={name: 2.0 * value for name, value in coupled.parameters.items()})
    assert run._geometry(heavier) == run._geometry(coupled)
