"""Requests and outcomes as plain data: what comes out goes in again, and what does not fit is named by its path."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ros2_dynid.codec import decode, encode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method, VelocitySource
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation import PreparationOptions
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.units import Units
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
    CheckRequest(ROBOT, "a.mcap", Reading(topic="/joint_states")),
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
    with pytest.raises(TypeError):
        encode(object())
