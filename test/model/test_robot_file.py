# SPDX-License-Identifier: Apache-2.0

"""Robot files: a robot by its modified DH table, or additions to a URDF. Unknown keys are errors."""

from __future__ import annotations

import pytest

from named_robots import cylinder
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot_file import robot_from_dict

JOINTS = [{"name": f"j{k}", "d": 0.1 * k} for k in (1, 2, 3)]


def robot(**more):
    return robot_from_dict({"joints": JOINTS, **more}, "x.yaml")


def force(**entry):
    return {"forces": [{"name": "s", "type": "spring", "joints": {"j1": 1}, **entry}]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"forces": {}}, "forces is not a list"),
        (force(type="rubber"), "force 's' has type 'rubber'; use spring, cable, cylinder"),
        (force(stiff=1), "unknown key 'stiff'"),
        (force(coefficients={"stif": 1}), "unknown key 'stif'"),
        (force(coefficients={"stiffness": -0.1}), "has stiffness -0.1"),
        (force(type="cable", coefficients={"stiffness": -0.1}), "has stiffness -0.1"),
        (force(joints={"j9": 1}), "unknown joint 'j9'"),
        (force(joints={}), "force 's' has no joints"),
        (force(joints={"j1": 0}), "has no joints"),
        (force(rest=float("inf")), "rest is inf"),
        (force(**{"from": {"joint": 0, "point": [0, 0, 0]}}), "has no joints"),
        (cylinder(joints={"j1": 1}), "needs two pivots"),
        (cylinder(to={"joint": 0, "point": [0, 0, 1]}), "both pivots on one link"),
        (cylinder(to={"joint": "j2", "point": [0, 0]}), "give 3 numbers"),
        (cylinder(to={"joint": "j7", "point": [0, 0, 0]}), "unknown joint 'j7'"),
        (cylinder(to=5), "is not a mapping"),
    ],
)
def test_forces_that_are_none(given, words):
    with pytest.raises(InputError, match=rf"x\.yaml.*{words}"):
        robot(**given)


def test_notes_of_a_file_are_texts():
    assert robot(notes=["one", "two"]).notes == ("one", "two") and robot().notes == ()
    for wrong in ("one", {"a": 1}, [1], ["one", 2], ["one", None]):
        with pytest.raises(InputError, match="notes is not a list of texts"):
            robot(notes=wrong)
