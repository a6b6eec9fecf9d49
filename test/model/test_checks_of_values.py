# SPDX-License-Identifier: Apache-2.0

"""What makes no robot, no friction term and no value of a file: each refusal, and what is just still taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.efforts import (
    MeasuredEffort,
    check_sensors,
    declared_sensors,
    parse_sensor,
    sensor_name,
    with_sensors,
)
from ros2_dynid.model.files import as_number, as_pose, as_vector, check_keys
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm, law_columns
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.inertia import central_inertia, link_inertia, links_of, pseudo_inertia
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.parameters import (
    by_joint,
    force_slice,
    group_of,
    link_slice,
    select_groups,
    split_name,
    standard_names,
    standard_vector,
    unit_of,
    unmeasured_parameters,
)
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Passive, Robot, check_gravity, with_gravity
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
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
        (FrictionKind.LOAD, {"of_shape": True}, "takes no shape"),
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
    assert suggest("zzz", ["a", "b"]) == "use a, b" and suggest("zzz", []) == "there are none"
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


def test_a_coefficient_times_its_column_is_a_torque_or_a_force():
    """By hand, from the laws: N.m, or N of a sliding joint, over the unit of what the coefficient stands before."""
    turning = {"asymmetric": "N.m.s/rad", "cubic": "N.m.s^3/rad^3", "root": "N.m.(s/rad)^0.5", "stribeck": "N.m",
               "load": "1", "load_viscous": "s/rad", "power": "N.m.(s/rad)^p", "temperature": "N.m/K",
               "temperature_viscous": "N.m.s/(rad.K)"}  # fmt: skip
    for kind in FrictionKind:
        unit = turning[kind.name]
        assert kind.units == (unit, unit.replace("N.m", "N").replace("rad", "m"))


def test_columns_of_a_law_are_its_terms_and_the_shapes_that_were_estimated():
    plain = FrictionTerm(1, FrictionKind.CUBIC, 1.0, std=0.1)
    fixed = FrictionTerm(2, FrictionKind.STRIBECK, 1.0, speed=0.3)
    slow = FrictionTerm(1, FrictionKind.STRIBECK, 1.0, speed=0.3, speed_std=0.01)
    bent = FrictionTerm(3, FrictionKind.POWER, 1.0, exponent=1.5, exponent_std=0.0)
    names = [(term.name, term.of_shape) for term in law_columns((plain, slow, fixed, bent))]
    assert names == [("Fcub1", False), ("Fs1", False), ("vs1", True), ("Fs2", False), ("Fp3", False), ("p3", True)]
    assert law_columns(()) == () and law_columns((slow,))[1] == replace(slow, of_shape=True)


# --- sensors at the links


def test_sensors_by_their_names():
    for name, felt in (("motor", ("Ia", "Fv", "Fc")), ("link", ()), ("link+Fc", ("Fc",)), ("link+Fc+Ia", ("Ia", "Fc"))):
        assert parse_sensor(name) == MeasuredEffort(felt)
    assert [sensor_name(x) for x in (("Fc", "Fv", "Ia"), (), ("Fc",), ("Fc", "Ia"))] == [
        "motor",
        "link",
        "link+Fc",
        "link+Ia+Fc",
    ]
    for wrong in ("gear", "motor+Fc", "link+Fx", "link+Fc+Fc", ""):
        with pytest.raises(InputError, match="the sensor is"):
            parse_sensor(wrong)
        with pytest.raises(InputError, match="the sensor is"):
            check_sensors(f"j1=motor, j2={wrong}")
    check_sensors("j1=motor, j2=link+Fv")
    check_sensors("link")


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


# --- parameters and their units


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


def test_a_joint_held_outside_its_limits_is_noted_by_its_kind():
    def notes(value, kind="revolute", limit='<limit lower="-1" upper="1" velocity="1" effort="1"/>'):
        text = urdf(
            link("base"), link("a"), link("b"), joint("j1", "base", "a", type=kind, inside=limit), joint("j2", "a", "b")
        )
        return [str(note) for note in robot_from_urdf_string(text, hold={"j1": value}).notes if "outside" in str(note)]

    assert notes(1.1) and notes(-1.1) and not notes(1.0) and not notes(-1.0) and not notes(0.5)
    assert not notes(5.0, "continuous") and not notes(5.0, limit='<limit lower="0" upper="0" velocity="1" effort="1"/>')


# --- springs and cylinders in files


def test_forces_go_to_a_file_and_back_wherever_the_base_stands():
    base = transform(rotation_rpy(0.2, -0.4, 0.9), np.array((0.3, -0.2, 0.5)))
    pivots = (Pivot(0, (0.1, 0.2, 0.3)), Pivot(2, (-0.3, 0.0, 0.1)))
    forces = (
        Force("spring", ForceKind.SPRING, (0, 1), {1: 1.0, 2: -1.0}, rest=0.4),
        Force("piston", ForceKind.CYLINDER, (0, 1, 2), {}, pivots, 0.7),
    )
    values = {"Kf1": 1.0, "Ks1": 2.0, "Kf2": 3.0, "Ks2": 4.0, "Kq2": 5.0}
    robot = Robot("r", JOINTS, base=base, forces=forces, parameters=values)
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


# --- bodies


def test_pseudo_inertia_is_the_sum_over_points_of_mass():
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(7, 3)), rng.uniform(0.1, 1.0, 7)
    J = sum(w * (p @ p * np.eye(3) - np.outer(p, p)) for w, p in zip(m, x, strict=True))
    h, M = m @ x, m.sum()
    ten = np.array([J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *h, M])
    np.testing.assert_allclose(link_inertia(ten), J)
    ones = np.column_stack((x, np.ones(7)))
    np.testing.assert_allclose(pseudo_inertia(ten), (ones * m[:, None]).T @ ones)
    c = h / M
    central = sum(w * ((p - c) @ (p - c) * np.eye(3) - np.outer(p - c, p - c)) for w, p in zip(m, x, strict=True))
    np.testing.assert_allclose(central_inertia(ten), central)
    for mass in (0.0, -1.0):
        assert central_inertia(np.array([*ten[:9], mass])) is None
    chi = np.arange(14.0 * 4)
    robot = Robot("r", JOINTS)
    np.testing.assert_array_equal(links_of(robot, chi)[2], chi[28:38])
    assert link_slice(2) == slice(28, 38) and link_slice(0) == slice(0, 10)
    np.testing.assert_array_equal(by_joint(robot, np.append(chi, 99.0)), chi.reshape(4, 14))
    assert split_name("ZZ12") == ("ZZ", 12)
    for wrong in ("ZZ", "ZZ0", "1ZZ", "ZZ1x"):
        with pytest.raises(InputError, match="not a parameter name"):
            split_name(wrong)


@pytest.mark.parametrize(("rpy", "told"), [("0 0 1", False), ("0.5 0 0", True), ("0 -0.5 0", True)])
def test_a_base_link_that_is_not_upright_turns_gravity_and_says_so(rpy, told):
    parts = [link("root"), link("base"), link("a")]
    text = urdf(*parts, joint("mount", "root", "base", type="fixed", rpy=rpy), joint("j1", "base", "a"))
    found = robot_from_urdf_string(text, base_link="base")
    assert any("gravity is turned" in str(note) for note in found.notes) == told
    r, p, y = (float(x) for x in rpy.split())
    np.testing.assert_allclose(found.gravity, rotation_rpy(r, p, y).T @ [0.0, 0.0, -9.81], atol=1e-9)
    assert not any("gravity is turned" in str(note) for note in robot_from_urdf_string(text).notes)
