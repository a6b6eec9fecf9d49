"""What makes no robot, no friction term and no value of a file: each refusal, and what is just still taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Passive, Robot, check_gravity, with_gravity
from ros2_dynid.model.yaml_values import as_number, as_pose, as_vector, check_keys, suggest
from urdf_text import joint, link, urdf

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
        ({"friction": (FrictionTerm(5, FrictionKind.CUBIC, 1.0),)}, "Fcub5 is of no active joint"),
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


# --- friction terms


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (FrictionKind.CUBIC, {"coefficient": np.nan}, "coefficient nan; give a number that is not negative"),
        (FrictionKind.CUBIC, {"coefficient": -0.1}, "coefficient -0.1"),
        (FrictionKind.ASYMMETRIC, {"coefficient": np.inf}, "give a finite number"),
        (FrictionKind.CUBIC, {"std": -1.0}, "standard deviation -1"),
        (FrictionKind.CUBIC, {"std": np.nan}, "deviation nan"),
        (FrictionKind.STRIBECK, {"speed": 1.0, "speed_std": -1.0}, "standard deviation"),
        (FrictionKind.POWER, {"exponent": 1.0, "exponent_std": np.inf}, "standard deviation"),
        (FrictionKind.STRIBECK, {}, "has speed 0; give the speed"),
        (FrictionKind.STRIBECK, {"speed": -1.0}, "speed -1"),
        (FrictionKind.STRIBECK, {"speed": np.inf}, "speed inf"),
        (FrictionKind.CUBIC, {"speed": 0.5}, "leave speed out"),
        (FrictionKind.CUBIC, {"speed_std": 0.1}, "has no speed"),
        (FrictionKind.POWER, {"exponent": 0.19}, "exponent 0.19; give one of 0.2 to 5"),
        (FrictionKind.POWER, {"exponent": 5.1}, "exponent 5.1"),
        (FrictionKind.CUBIC, {"exponent": 1.0}, "leave exponent out"),
        (FrictionKind.CUBIC, {"exponent_std": 0.1}, "has no exponent"),
        (FrictionKind.TEMPERATURE, {"reference": np.nan}, "reference nan"),
        (FrictionKind.TEMPERATURE_VISCOUS, {"reference": -274.0}, "reference -274"),
        (FrictionKind.LOAD, {"reference": 20.0}, "does not change with the temperature"),
        (FrictionKind.LOAD, {"of_shape": True}, "has no shape"),
    ],
)
def test_what_is_no_friction_term(kind, values, words):
    with pytest.raises(InputError, match=words):
        FrictionTerm(2, kind, **values)


def test_friction_terms_and_their_names():
    for kind, values, name in (
        (FrictionKind.ASYMMETRIC, {"coefficient": -1.0, "std": 0.0}, "Fva3"),
        (FrictionKind.CUBIC, {"coefficient": 0.0}, "Fcub3"), (FrictionKind.ROOT, {}, "Frt3"),
        (FrictionKind.STRIBECK, {"speed": 0.01, "speed_std": 0.0}, "Fs3"), (FrictionKind.LOAD, {}, "Fl3"),
        (FrictionKind.LOAD_VISCOUS, {}, "Flv3"), (FrictionKind.POWER, {"exponent": 0.2}, "Fp3"),
        (FrictionKind.POWER, {"exponent": 5.0, "exponent_std": 0.1}, "Fp3"),
        (FrictionKind.TEMPERATURE, {"coefficient": -0.5, "reference": -273.0}, "Ft3"),
        (FrictionKind.TEMPERATURE_VISCOUS, {"coefficient": -0.5}, "Ftv3"),
        (FrictionKind.STRIBECK, {"speed": 0.5, "of_shape": True, "coefficient": -1.0}, "vs3"),
        (FrictionKind.POWER, {"exponent": 0.5, "of_shape": True, "coefficient": -1.0}, "p3"),
    ):  # fmt: skip
        assert FrictionTerm(3, kind, **values).name == name


# --- values of files


def test_numbers():
    for value, wanted in ((3, 3.0), (2.5, 2.5), ("1e-3", 1e-3)):
        assert as_number(value, "x", "f") == wanted
    for value in (True, "two", None, [1.0]):
        with pytest.raises(InputError, match="give a number"):
            as_number(value, "x", "f")
    for value in (float("nan"), float("inf"), "inf", 10**400):
        with pytest.raises(InputError, match="give a finite number"):
            as_number(value, "x", "f")
    assert (
        as_number("inf", "x", "f", infinite=True) == np.inf and as_number(-(10**400), "x", "f", infinite=True) == np.inf
    )
    with pytest.raises(InputError, match="finite"):
        as_number(float("nan"), "x", "f", infinite=True)
    assert list(as_vector([1, "2", 3.5], "x", "f")) == [1.0, 2.0, 3.5]
    for value in ([1, 2], [1, 2, 3, 4], "123", 5):
        with pytest.raises(InputError, match="give 3 numbers"):
            as_vector(value, "x", "f")


def test_names():
    check_keys({"mass": 1}, ("mass", "com"), "it", "f")
    with pytest.raises(InputError, match="it has the unknown key 'mas'; did you mean 'mass'"):
        check_keys({"com": 0, "mas": 1}, ("mass", "com"), "it", "f")
    assert suggest("zzz", ["a", "b"]) == "use a, b" and suggest("zzz", []) == "there is none to name here"
    many = [f"k{k:02}" for k in range(13)]
    assert suggest("zzz", many) == f"use {', '.join(many[:12])}, ..." and suggest("zzz", many[:12]).endswith("k11")


def test_transforms_are_rigid():
    c, s = np.cos(0.3), np.sin(0.3)
    good = [[c, -s, 0, 1], [s, c, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    np.testing.assert_allclose(as_pose(good, "x", "f"), good)
    np.testing.assert_allclose(
        as_pose((np.array(good) + 1e-10 * np.eye(4) * [1, 1, 1, 0]).tolist(), "x", "f"), good, atol=1e-9
    )
    for bad in (good[:3], [row[:3] for row in good], 5, [*good, [0, 0, 0, 1]], [tuple(row) for row in good]):
        with pytest.raises(InputError, match="is not a 4x4 transform"):
            as_pose(bad, "x", "f")
    mirrored = [[-x if k == 0 else x for k, x in enumerate(row)] for row in good[:3]] + [good[3]]
    for bad in (
        mirrored, [*good[:3], [0, 0, 0, 2]], [*good[:3], [0, 0, 1e-3, 1]], (1.001 * np.array(good)).tolist(),
        (np.array(good) + 2e-9 * np.eye(4) * [1, 1, 1, 0]).tolist(),
    ):  # fmt: skip
        with pytest.raises(InputError, match="not a rigid transform"):
            as_pose(bad, "x", "f")


# --- mimic


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
