# SPDX-License-Identifier: Apache-2.0

"""A robot as frozen data: modified Denavit-Hartenberg joints, couplings, constraints and a priori parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import (
    MeasuredEffort,
    declared_sensors,
    with_sensors,
)
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.parameters import (
    unmeasured_parameters,
)
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Passive, Robot, check_gravity, with_gravity
from urdf_text import joint, link, urdf


@pytest.mark.parametrize(("levels", "found"), [(0, True), (7, True), (8, False)])
def test_limits_under_the_names_of_nodes(tmp_path, levels, found):
    text = "joint_limits: {a: {max_velocity: 2.0}}"
    for k in range(levels):
        text = f"l{k}: {{{text}}}"
    (tmp_path / "l.yaml").write_text(text)
    robot = Robot("r", (Joint("a", 0, limits=Limits(-1.0, 1.0, 5.0, 6.0, 7.0)),))
    if found:
        limits = with_joint_limits(robot, tmp_path / "l.yaml").joints[0].limits
        assert limits == Limits(-1.0, 1.0, 2.0, 6.0, 7.0)
    else:
        with pytest.raises(InputError, match="no mapping joint_limits"):
            with_joint_limits(robot, tmp_path / "l.yaml")


JOINTS = tuple(Joint(f"j{k + 1}", k, d=0.1 * k) for k in range(4))


def test_a_limit_that_nobody_gives_is_none():
    limits = Limits()
    assert (limits.lower, limits.upper) == (-np.inf, np.inf)
    assert limits.velocity == limits.acceleration == limits.effort == np.inf


def changed(k, **more):
    return {"joints": tuple(replace(j, **more) if i == k else j for i, j in enumerate(JOINTS))}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"joints": ()}, "no moving joint"),
        (changed(2, name="j1"), "joint 'j1' occurs twice"),
        (changed(1, parent=2), r"joint 'j2' \(number 2\) has parent 2; name a joint listed before it: 0 .* to 1"),
        (changed(3, parent=-1), "has parent -1"),
        (changed(0, sigma=2), "joint 'j1' has sigma 2"),
        *(
            (changed(1, **{key: value}), "joint 'j2' has a non-finite length or angle")
            for key in ("gamma", "b", "alpha", "d", "theta", "r")
            for value in (np.nan, np.inf)
        ),
        *(
            (changed(2, limits=Limits(**{key: np.nan})), "joint 'j3' has a limit that is not a number")
            for key in ("lower", "upper", "velocity", "acceleration", "effort")
        ),
        *(
            (changed(3, limits=Limits(**{key: -0.1})), "joint 'j4' has impossible limits")
            for key in ("velocity", "acceleration", "effort")
        ),
        (changed(3, limits=Limits(0.2, 0.1)), "joint 'j4' has impossible limits"),
        ({"gravity": np.zeros(2)}, "gravity must be 3 numbers"),
        ({"base": np.eye(3)}, "base 4x4"),
        ({"gravity": np.array([0.0, np.nan, 0.0])}, "not finite"),
        ({"base": np.diag([1.0, np.inf, 1.0, 1.0])}, "not finite"),
        ({"coupling": (Coupling(2, {1: 1.0, 3: 1.0}),)}, "coupling of motor 2"),
        ({"coupling": (Coupling(2, {2: 1.0, 5: 1.0}),)}, "of 1 to 4"),
        ({"coupling": (Coupling(2, {2: 1.0}),)}, "at least one other"),
        ({"coupling": (Coupling(2, {2: 1.0, 3: 1.0}), Coupling(2, {2: 1.0, 4: 1.0}))}, "coupled twice"),
        ({"passive": (Passive(5, {1: 1.0}),)}, "passive joints are unknown"),
        ({"passive": (Passive(2, {1: 1.0}), Passive(2, {3: 1.0}))}, "repeated"),
        ({"passive": tuple(Passive(k, {}) for k in (1, 2, 3, 4))}, "all of the joints"),
        ({"passive": (Passive(2, {1: 1.0, 2: 1.0}),)}, "passive joint 'j2' depends on joint 2"),
        ({"passive": (Passive(2, {1: 1.0}), Passive(3, {2: 1.0}))}, "passive joint 'j3' depends on joint 2"),
        ({"passive": (Passive(2, {5: 1.0}),)}, "depends on joint 5"),
        ({"friction": (FrictionTerm(5, FrictionKind.CUBIC, 1.0),)}, "Fcub5 belongs to no active joint"),
        (
            {"friction": (FrictionTerm(2, FrictionKind.CUBIC, 1.0),), "passive": (Passive(2, {1: 1.0}),)},
            "no active joint",
        ),
        ({"friction": (FrictionTerm(2, FrictionKind.CUBIC, 1.0),) * 2}, "Fcub2 occurs twice"),
    ],
)
def test_what_is_no_robot(wrong, words):
    with pytest.raises(InputError, match=words):
        Robot("r", **({"joints": JOINTS} | wrong))


def test_what_just_still_is_one():
    robot = Robot(
        "r",
        (*JOINTS[:3], replace(JOINTS[3], limits=Limits(0.1, 0.1, 0.0, 0.0, 0.0), sigma=PRISMATIC)),
        coupling=(Coupling(2, {2: 1.0, 3: 1.0}), Coupling(4, {4: 1.0, 1: 1.0})),
        passive=(Passive(1, {2: 1.0}),),
        friction=(FrictionTerm(2, FrictionKind.CUBIC, 1.0), FrictionTerm(3, FrictionKind.CUBIC, 1.0)),
    )
    assert robot.active == (2, 3, 4) and robot.active_names == ("j2", "j3", "j4")
    for gravity in ([0, 0], [0, 0, 0, 0], [0, 0, np.nan], [np.inf, 0, 0]):
        with pytest.raises(InputError, match="gravity is"):
            check_gravity(gravity)
    assert list(with_gravity(robot, [1, 2, 3]).gravity) == [1.0, 2.0, 3.0]


def test_followers_are_named_and_one_that_follows_nobody_is_refused():
    def robot(inside):
        parts = [link("base"), link("a"), link("b"), link("c")]
        joints = [joint("j1", "base", "a"), joint("j2", "a", "b", inside=inside), joint("j3", "b", "c")]
        return robot_from_urdf_string(urdf(*parts, *joints))

    found = robot('<mimic joint="j3" multiplier="-2" offset="0.5"/>')
    assert found.passive == (Passive(2, {3: -2.0}, 0.5),) and found.active_names == ("j1", "j3")
    assert any("<mimic>" in str(note) and "'j2'" in str(note) and "j1" not in str(note) for note in found.notes)
    assert robot('<mimic joint="j1"/>').passive == (Passive(2, {1: 1.0}, 0.0),)
    for inside in ("<mimic/>", '<mimic joint=""/>'):
        with pytest.raises(InputError, match="<mimic> names no joint"):
            robot(inside)
    with pytest.raises(InputError, match="mimic"):
        robot('<mimic joint="j1" multiplier="much"/>')


def test_what_a_link_side_sensor_does_not_feel_is_dropped():
    robot = Robot(
        "r", JOINTS, parameters={"Ia1": 1.0, "Fv1": 2.0, "Fc2": 3.0, "Ia2": 4.0, "M1": 5.0},
        friction=(FrictionTerm(1, FrictionKind.CUBIC, 1.0), FrictionTerm(3, FrictionKind.CUBIC, 1.0)),
    )  # fmt: skip
    found = declared_sensors(robot, "j1=link+Fv, j2=link")
    assert [j.measured_drive for j in found.joints] == [("Fv",), (), ("Ia", "Fv", "Fc"), ("Ia", "Fv", "Fc")]
    assert found.parameters == {"Fv1": 2.0, "M1": 5.0} and [t.joint for t in found.friction] == [3]
    assert (
        unmeasured_parameters(found) == {"Ia1", "Fc1", "Ia2", "Fv2", "Fc2"}
        and unmeasured_parameters(robot) == frozenset()
    )
    assert all(j.measured_drive == () for j in declared_sensors(robot, "link").joints)
    with pytest.raises(InputError, match="sensor of the joint 'j9'; the robot has j1, j2, j3, j4"):
        declared_sensors(robot, "j9=link")
    for felt in (("Ia", "Fv", "Fc"), ()):
        with pytest.raises(InputError, match="sensor of the joint 'j2'; the robot has j1, j3, j4"):
            with_sensors(Robot("r", JOINTS, passive=(Passive(2, {1: 1.0}),)), {"j2": MeasuredEffort(felt)})
    link = tuple(replace(j, measures=MeasuredEffort(())) if k in (0, 1) else j for k, j in enumerate(JOINTS))
    for more, words in (
        ({"passive": (Passive(2, {1: 1.0}),)}, "'j2' is passive"),
        ({"coupling": (Coupling(1, {1: 1.0, 3: 1.0}),)}, "'j1' has a coupled motor"),
        ({"friction": (FrictionTerm(1, FrictionKind.CUBIC, 1.0),)}, "Fcub1 belongs to a joint whose effort is"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            Robot("r", link, **more)
    with pytest.raises(InputError, match="its effort includes"):
        Robot("r", (replace(JOINTS[0], measures=MeasuredEffort(("Fc", "Ia"))),))
