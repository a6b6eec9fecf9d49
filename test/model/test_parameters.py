# SPDX-License-Identifier: Apache-2.0

"""Standard parameters: their order, names, units and groups (DESIGN conventions; Gautier 2013, eq. 3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import (
    declared_sensors,
)
from ros2_dynid.model.parameters import (
    group_of,
    select_groups,
    standard_names,
    standard_vector,
    unit_of,
    unmeasured_parameters,
)
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Robot


def test_parameters_must_be_finite():
    made = Robot("r", (Joint("a", 0),))
    assert standard_vector(made, {"M1": 2.0})[9] == 2.0 and standard_vector(made).sum() == 0.0
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="parameter MX1 is not finite"):
            standard_vector(made, {"M1": 1.0, "MX1": value, "off1": value})


JOINTS = tuple(Joint(f"j{k + 1}", k, d=0.1 * k) for k in range(4))


def test_units_and_groups_of_every_parameter():
    joints = (JOINTS[0], replace(JOINTS[1], sigma=PRISMATIC))
    robot = Robot("r", joints, coupling=(Coupling(2, {1: 1.0, 2: 1.0}, True), Coupling(1, {1: 1.0, 2: 1.0}, True)))
    units = {name: unit_of(robot, name) for name in standard_names(robot)}
    for j, (inertia, viscous, dry) in enumerate((("kg.m^2", "N.m.s/rad", "N.m"), ("kg", "N.s/m", "N")), start=1):
        for kind in ("XX", "XY", "XZ", "YY", "YZ", "ZZ"):
            assert units[f"{kind}{j}"] == "kg.m^2"
        assert [units[f"{kind}{j}"] for kind in ("MX", "MY", "MZ", "M")] == ["kg.m", "kg.m", "kg.m", "kg"]
        assert units[f"Ia{j}"] == units[f"Iam{j}"] == inertia and units[f"Fv{j}"] == units[f"Fvm{j}"] == viscous
        assert units[f"Fc{j}"] == units[f"Fcm{j}"] == units[f"off{j}"] == dry
    names = standard_names(robot)
    groups = {
        "inertial": ("XX", "M"),
        "rotor": ("Ia", "Iam"),
        "friction": ("Fv", "Fc", "Fvm", "Fcm"),
        "offset": ("off",),
    }
    for group, kinds in groups.items():
        assert all(group_of(f"{kind}1") == group for kind in kinds)
        assert select_groups(robot, [group]) == tuple(name for name in names if group_of(name) == group)
    assert select_groups(robot, None) == names
    assert select_groups(robot, ["offset", "rotor"]) == tuple(n for n in names if group_of(n) in ("rotor", "offset"))
    felt = declared_sensors(Robot("r", joints), "link")
    assert not {"Ia1", "Fv1", "Fc1"} & set(select_groups(felt, None)) and "off1" in select_groups(felt, None)
    for group in groups:  # what no effort holds is in no group either
        kept = [
            name for name in standard_names(felt) if group_of(name) == group and name not in unmeasured_parameters(felt)
        ]
        assert list(select_groups(felt, [group])) == kept
    for wrong, words in ((["spring"], "'spring'"), ([], "choose from"), (["rotor", "x"], "'x'")):
        with pytest.raises(InputError, match=words):
            select_groups(robot, wrong)
    with pytest.raises(InputError, match="not a standard parameter"):
        group_of("Q1")
    with pytest.raises(InputError, match="unknown parameter 'M9'; the robot has XX1 to"):
        standard_vector(robot, {"M9": 1.0})
