# SPDX-License-Identifier: Apache-2.0

"""Requests and outcomes as plain data: what comes out goes in again, and what does not fit is named by its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.codec import decode, encode
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions, VelocitySource
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import Reading, Units
from ros2_dynid.usecases.check import CheckRequest
from ros2_dynid.usecases.gains import GainsRequest
from ros2_dynid.usecases.identify import IdentifyRequest
from ros2_dynid.usecases.payload import PayloadRequest
from ros2_dynid.usecases.plan import PlanMethod, PlanRequest, Surroundings
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = RobotSource(path="demo6", tip_link="link6", hold={"finger": 0.02})
OPTIONS = IdentifyOptions(
    method=Method.IRLS,
    preparation=PreparationOptions(
        position_cutoff=12.0, velocity=VelocitySource.MEASURED, gains={"elbow": -1.0}, delay=0.002
    ),
    reading=Reading(topic=("/a", "/b"), columns={"time": "stamp"}, units=Units(angle="deg"), start=1.0, end=9.5),
    cross_validate=3,
    essential=True,
)
REQUESTS = [
    IdentifyRequest(ROBOT, ("a.mcap", "b.csv"), ("c.mcap",), OPTIONS, "out", True, "dynid identify ..."),
    PayloadRequest(ROBOT, ("a",), ("b",), "tool0", OPTIONS),
    GainsRequest(ROBOT, ("a",), ("b",), 2.5),
    CheckRequest(ROBOT, ("a.mcap",), Reading(topic="/joint_states")),
    PlanRequest(
        ROBOT,
        "plan.yaml",
        PlanMethod.POINTS,
        groups=("inertial",),
        max_velocity=1.0,
        surroundings=Surroundings(box=(-1.0, 1.0, -1.0, 1.0, 0.0, 2.0)),
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_survives_json(request_):
    assert decode(type(request_), json.loads(json.dumps(encode(request_)))) == request_


def test_fields_left_out_take_their_defaults():
    found = decode(IdentifyRequest, {"robot": {"path": "demo6"}, "recordings": ["a.mcap"]})
    assert found == IdentifyRequest(RobotSource("demo6"), ("a.mcap",))


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"methd": "wls"}, "methd"),
        ({"options": {"methd": "wls"}}, "options.methd"),
        ({"options": {"method": "magic"}}, "options.method"),
        ({"options": {"preparation": {"row_cutoff": "fast"}}}, "options.preparation.row_cutoff"),
        ({"options": {"preparation": {"gains": {"elbow": "big"}}}}, "options.preparation.gains.elbow"),
        ({"options": {"preparation": {"gains": [1.0]}}}, "options.preparation.gains"),
        ({"options": {"essential": 1}}, "options.essential"),
        ({"options": {"cross_validate": 2.5}}, "options.cross_validate"),
        ({"options": {"cross_validate": True}}, "options.cross_validate"),
        ({"recordings": "a.mcap"}, "recordings"),
        ({"recordings": ["a.mcap", 3]}, "recordings[1]"),
        ({"robot": "demo6"}, "robot"),
        ({"output": 7}, "output"),
        ({"overwrite": None}, "overwrite"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(change, path):
    data = {"robot": {"path": "demo6"}, "recordings": ["a.mcap"], **change}
    with pytest.raises(InputError) as caught:
        decode(IdentifyRequest, data)
    assert path in caught.value.what.replace("'", " ").split()


def test_a_missing_field_and_values_out_of_range_are_refused():
    with pytest.raises(InputError, match="'recordings' is missing"):
        decode(IdentifyRequest, {"robot": {"path": "demo6"}})
    with pytest.raises(InputError, match="no robot"):
        decode(RobotSource, {})
    with pytest.raises(InputError, match="friction"):
        decode(IdentifyOptions, {"friction": "magic"})
    with pytest.raises(InputError, match="row_cutoff"):
        decode(PreparationOptions, {"row_cutoff": -4})
    with pytest.raises(InputError, match="mapping"):
        decode(IdentifyRequest, ["robot"])


@dataclass(frozen=True, eq=False)
class Arrays:
    x: Array
    pair: tuple[int, float]
    rows: tuple[tuple[float, ...], ...] = ()
    names: tuple[str, ...] | None = field(default=None)


def test_arrays_become_lists_and_what_is_not_finite_null():
    value = Arrays(np.array([[1.0, 2.0], [3.0, 4.0]]), (1, 2.0), ((1.0,), ()))
    data = encode(value)
    assert data == {"x": [[1.0, 2.0], [3.0, 4.0]], "pair": [1, 2.0], "rows": [[1.0], []], "names": None}
    again = decode(Arrays, data)
    assert np.array_equal(again.x, value.x) and again.pair == value.pair and again.rows == value.rows
    assert encode(replace(value, pair=(1, float("nan"))))["pair"] == [1, None]
    for pair in ([1], [1.5, 2.0], [1, float("inf")], "ab"):
        with pytest.raises(InputError, match="pair"):
            decode(Arrays, {**data, "pair": pair})
    with pytest.raises(InputError, match="x is"):
        decode(Arrays, {**data, "x": [[1.0, "a"]]})
    for x in (3.0, "12", None, {"a": 1.0}):
        with pytest.raises(InputError, match=f"x is {x!r}; give a list"):
            decode(Arrays, {**data, "x": x})
    with pytest.raises(TypeError):
        encode(object())


class Colour(Enum):
    RED = "rot"
    BLUE = 7


@dataclass(frozen=True)
class Inner:
    with_: float
    from_: int = 3


@dataclass(frozen=True)
class Outer:
    inner: Inner
    place: Path
    colour: Colour
    flag: bool
    scale: float
    pair: tuple[str, int]
    names: list[str]
    by_name: Mapping[str, float]
    either: float | str
    maybe: Inner | None = None
    many: tuple[Inner, ...] = field(default_factory=tuple)


OUTER = Outer(
    Inner(0.5), Path("a/b"), Colour.BLUE, True, 2.0, ("x", 1), ("n",), {"k": 1.5}, "text", Inner(1.0, 4), (Inner(2.0),)
)  # fmt: skip
PLAIN = {
    "inner": {"with": 0.5, "from": 3}, "place": "a/b", "colour": 7, "flag": True, "scale": 2.0, "pair": ["x", 1],
    "names": ["n"], "by_name": {"k": 1.5}, "either": "text", "maybe": {"with": 1.0, "from": 4},
    "many": [{"with": 2.0, "from": 3}],
}  # fmt: skip


def test_fields_that_are_keywords_enums_paths_and_unions_go_both_ways():
    assert encode(OUTER) == PLAIN and decode(Outer, PLAIN) == OUTER
    assert decode(Outer, {**PLAIN, "either": 1, "colour": "rot", "scale": 3}) == replace(
        OUTER, either=1.0, colour=Colour.RED, scale=3.0
    )
    assert type(decode(Outer, {**PLAIN, "scale": 3}).scale) is float
    short = {key: value for key, value in PLAIN.items() if key not in ("maybe", "many")}
    assert decode(Outer, short) == replace(OUTER, maybe=None, many=())
    assert decode(Outer, {**PLAIN, "maybe": None}).maybe is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inner": {"with_": 0.5}}, "unknown field 'inner.with_'; choose from with, from"),
        ({"inner": {}}, "the field 'inner.with' is missing; give it"),
        ({"inner": {"with": True}}, "inner.with is True; give a number"),
        ({"inner": {"with": float("nan")}}, "inner.with is nan; give a number"),
        ({"inner": {"with": 1.0, "from": 2.0}}, "inner.from is 2.0; give a whole number"),
        ({"inner": None}, "inner is None; give a mapping of fields"),
        ({"place": 3}, "place is 3; give a path"),
        ({"colour": "RED"}, "colour is 'RED'; choose from rot, 7"),
        ({"flag": 1}, "flag is 1; give true or false"),
        ({"pair": ["x", 1, 2]}, "pair is ['x', 1, 2]; give a list of 2"),
        ({"pair": ["x", True]}, "pair[1] is True; give a whole number"),
        ({"pair": {"x": 1}}, "pair is {'x': 1}; give a list"),
        ({"names": "abc"}, "names is 'abc'; give a list"),
        ({"names": ["a", b"b"]}, "names[1] is b'b'; give a text"),
        ({"by_name": {3: 1.0}}, "by_name is {3: 1.0}; give a mapping of names"),
        ({"by_name": {"k": "1"}}, "by_name.k is '1'; give a number"),
        ({"either": None}, "either is None; give a text"),
        ({"either": [1.0]}, "either is [1.0]; give a text"),
        ({"maybe": {"with": "x"}}, "maybe.with is 'x'; give a number"),
        ({"many": [{"with": 1.0}, {"with": "x"}]}, "many[1].with is 'x'; give a number"),
        ({"scale": "x" * 80}, f"scale is '{'x' * 59}...; give a number"),
    ],
)
def test_a_refusal_says_where_what_and_what_to_give(change, words):
    with pytest.raises(InputError) as caught:
        decode(Outer, {**PLAIN, **change})
    assert str(caught.value) == words
    with pytest.raises(InputError) as caught:
        decode(Outer, {**PLAIN, **change}, "here")
    assert "here." in str(caught.value)


def test_numbers_in_rows_and_names_of_any_kind_become_plain():
    odd = [1.0, float("nan"), float("inf"), None]
    assert encode(odd) == [1.0, None, None, None] and encode((1.0, float("-inf"))) == [1.0, None]
    assert encode([1.0, None]) == [1.0, None] and encode([]) == [] and encode([1, 2.5, "a"]) == [1, 2.5, "a"]
    assert encode(np.array([1.0, np.nan])) == [1.0, None] and encode(np.float64(2.0)) == 2.0
    assert encode(np.int64(3)) == 3 and encode(np.bool_(True)) is True and encode(float("nan")) is None
    assert encode({Colour.RED: 1, 2: Path("x")}) == {"rot": 1, "2": "x"} and encode(Colour.BLUE) == 7
    with pytest.raises(TypeError, match="set has no plain form"):
        encode({1, 2})
    with pytest.raises(TypeError, match="type has no plain form"):
        encode(Outer)
    text = Text("see ", Option("topic"))
    assert encode([text])[0].render(lambda option: option.key.upper()) == "see TOPIC"


@dataclass(frozen=True)
class Odd:
    """Names with underscores, and one value of three kinds."""

    _own: int
    in_: bool | int | tuple[str, ...]


@pytest.mark.parametrize("value", [True, 3, ("a", "b"), ()])
def test_a_value_may_be_of_any_kind_of_its_union_and_only_the_last_underscore_goes(value):
    plain = {"_own": 1, "in": list(value) if isinstance(value, tuple) else value}
    found = decode(Odd, plain)
    assert encode(Odd(1, value)) == plain and found == Odd(1, value) and type(found.in_) is type(value)


@dataclass(frozen=True)
class Figure:
    x: float


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_null_wherever_it_stands(odd):
    places = (
        (lambda x: x, lambda y: y),
        (lambda x: {"a": x}, lambda y: {"a": y}),
        (lambda x: [x], lambda y: [y]),
        (lambda x: (x, 2.0), lambda y: [y, 2.0]),
        (lambda x: [x, None], lambda y: [y, None]),
        (lambda x: [x, "a", 1], lambda y: [y, "a", 1]),
        (lambda x: [[1.0, x], (x,)], lambda y: [[1.0, y], [y]]),
        (Figure, lambda y: {"x": y}),
        (lambda x: [Figure(x)], lambda y: [{"x": y}]),
        (np.float64, lambda y: y),
        (lambda x: np.array([[x, 1.0]]), lambda y: [[y, 1.0]]),
    )
    for put, plain in places:
        for value, expected in ((odd, None), (-0.5, -0.5), (1e300, 1e300)):
            found = encode(put(value))
            assert found == plain(expected)
            json.dumps(found, allow_nan=False)
