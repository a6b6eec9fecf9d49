# SPDX-License-Identifier: Apache-2.0

"""Elastic elements beside links and drives: springs, gravity compensators, cables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from named_robots import cylinder
from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.parameters import (
    force_slice,
    standard_names,
    unit_of,
)
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.model.same_robot import check_same_robot
from urdf_arm import arm


def test_forces_name_joints_that_there_are():
    robot = robot_from_urdf_string(arm())
    spring = Force("s", ForceKind.SPRING, (1,), {2: 1.0})
    assert replace(robot, forces=(spring,)).forces == (spring,)
    base = Force("c", ForceKind.CYLINDER, (0, 1), pivots=(Pivot(0, (0.0, 0.0, 1.0)), Pivot(3, (0.0, 0.0, 0.0))))
    assert replace(robot, forces=(base,)).forces == (base,)
    for wrong, number in (({0: 1.0}, 0), ({4: 1.0}, 4), ({1: 1.0, 0: -1.0}, 0)):
        with pytest.raises(InputError, match=f"names joint {number}"):
            replace(robot, forces=(replace(spring, weights=wrong),))
    with pytest.raises(InputError, match="names joint 4"):
        replace(robot, forces=(replace(base, pivots=(Pivot(0, (0.0, 0.0, 1.0)), Pivot(4, (0.0, 0.0, 0.0)))),))


JOINTS = [{"name": f"j{k}", "d": 0.1 * k} for k in (1, 2, 3)]


def robot(**more):
    return robot_from_dict({"joints": JOINTS, **more}, "x.yaml")


def force(**entry):
    return {"forces": [{"name": "s", "type": "spring", "joints": {"j1": 1}, **entry}]}


def test_forces_have_usual_coefficients():
    for kind, powers in ((ForceKind.SPRING, (1,)), (ForceKind.CABLE, (1, 3)), (ForceKind.CYLINDER, (0, 1))):
        given = cylinder() if kind is ForceKind.CYLINDER else force(type=str(kind))
        (found,) = robot(**given).forces
        assert found.kind is kind and found.powers == powers == kind.usual and found.rest == 0.0
    found = robot(**force(coefficients=["cubic", "preload"], rest=0.5))
    assert found.forces[0].powers == (0, 3) and found.parameters == {"Kf1": 0.0, "Kc1": 0.0}
    assert found.forces[0].rest == 0.5
    found = robot(**cylinder(coefficients={"stiffness": -2.0}))
    assert found.parameters == {"Ks1": -2.0}
    assert robot(**force(coefficients={"preload": -1.0, "stiffness": 0.0})).parameters == {"Kf1": -1.0, "Ks1": 0.0}
    unnamed = {"type": "spring", "joints": {2: -0.5}}
    found = robot(forces=[unnamed, unnamed])
    assert [f.name for f in found.forces] == ["force 1", "force 2"] and dict(found.forces[0].weights) == {2: -0.5}


def test_elements_without_meaning():
    ends = (Pivot(0, (0.0, 0.0, 0.0)), Pivot(1, (0.0, 0.0, 1.0)))
    for powers in ((), (1, 0), (1, 1), (4,), (-1,)):
        with pytest.raises(InputError, match="has no coefficients"):
            Force("s", ForceKind.SPRING, powers, {1: 1.0})
    for weights in ({}, {1: np.nan}, {1: 1.0, 2: np.inf}, {1: 1.0, 2: 0.0}):
        with pytest.raises(InputError, match="has no joints"):
            Force("s", ForceKind.SPRING, (1,), weights)
    with pytest.raises(InputError, match="has no joints"):
        Force("s", ForceKind.CABLE, (1,), {1: 1.0}, ends)
    with pytest.raises(InputError, match="needs two pivots"):
        Force("s", ForceKind.CYLINDER, (1,), {}, ends[:1])
    with pytest.raises(InputError, match="a pivot that is not finite"):
        Force("s", ForceKind.CYLINDER, (1,), {}, (ends[0], Pivot(1, (0.0, np.nan, 0.0))))
    for rest in (np.nan, np.inf):
        with pytest.raises(InputError, match="has rest"):
            Force("s", ForceKind.SPRING, (1,), {1: 1.0}, rest=rest)
    assert Force("s", ForceKind.CYLINDER, (0, 3), {}, ends).joints == {0, 1}
    assert Force("s", ForceKind.SPRING, (0, 1, 2, 3), {2: 1.0, 3: -1.0}).joints == {2, 3}


def test_other_forces_make_another_robot():
    ends = (Pivot(0, (0.1, 0.0, 0.0)), Pivot(2, (0.0, 0.0, 1.0)))
    own = Force("c", ForceKind.CYLINDER, (0, 1), {}, ends, 0.3)
    spring = Force("s", ForceKind.SPRING, (1,), {1: 1.0}, rest=0.2)

    def having(*forces):
        return replace(robot(), forces=forces)

    check_same_robot(having(own, spring), having(replace(own, name="other", rest=0.3 + 4e-7), spring), "m")
    near = replace(own, pivots=(ends[0], Pivot(2, (4e-7, 0.0, 1.0))))
    check_same_robot(having(own), having(near), "m")
    for other in (
        replace(own, rest=0.3 + 2e-6), replace(own, powers=(0,)),
        replace(own, pivots=(ends[0], Pivot(1, ends[1].point))),
        replace(own, pivots=(Pivot(0, (0.1 + 2e-6, 0.0, 0.0)), ends[1])), replace(own, pivots=ends[::-1]),
    ):  # fmt: skip
        with pytest.raises(InputError, match="other springs"):
            check_same_robot(having(own), having(other), "m")
    for other in (having(), having(spring, spring), having(replace(spring, weights={1: 1.1}))):
        with pytest.raises(InputError, match="other springs"):
            check_same_robot(having(spring), other, "m")


CHAIN = tuple(Joint(f"j{k + 1}", k, d=0.1 * k) for k in range(4))


def test_forces_go_to_a_file_and_back_wherever_the_base_stands():
    base = transform(rotation_rpy(0.2, -0.4, 0.9), np.array((0.3, -0.2, 0.5)))
    pivots = (Pivot(0, (0.1, 0.2, 0.3)), Pivot(2, (-0.3, 0.0, 0.1)))
    forces = (
        Force("spring", ForceKind.SPRING, (0, 1), {1: 1.0, 2: -1.0}, rest=0.4),
        Force("piston", ForceKind.CYLINDER, (0, 1, 2), {}, pivots, 0.7),
    )
    values = {"Kf1": 1.0, "Ks1": 2.0, "Kf2": 3.0, "Ks2": 4.0, "Kq2": 5.0}
    robot = Robot("r", CHAIN, base=base, forces=forces, parameters=values)
    again = robot_from_dict(robot_to_dict(robot), "x.yaml")
    assert again.parameters == values and [f.name for f in again.forces] == ["spring", "piston"]
    for one, two in zip(forces, again.forces, strict=True):
        assert (one.kind, one.powers, dict(one.weights), one.rest) == (
            two.kind,
            two.powers,
            dict(two.weights),
            two.rest,
        )
        for a, b in zip(one.pivots, two.pivots, strict=True):
            assert a.joint == b.joint
            np.testing.assert_allclose(a.point, b.point, atol=1e-12)
    written = robot_to_dict(robot)["forces"][1]
    np.testing.assert_allclose(written["from"]["point"], base[:3, :3] @ [0.1, 0.2, 0.3] + base[:3, 3])
    assert written["to"] == {"joint": "j2", "point": [-0.3, 0.0, 0.1]} and written["rest"] == 0.7
    units = [unit_of(robot, name) for name in ("Kf1", "Ks1", "Kf2", "Ks2", "Kq2")]
    assert units == ["N.m", "N.m/rad", "N", "N/m", "N/m^2"]
    assert force_slice(robot) == slice(14 * 4, 14 * 4 + 5) and standard_names(robot)[56:] == tuple(values)
