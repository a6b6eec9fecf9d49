# SPDX-License-Identifier: Apache-2.0

"""A model is used on its own robot only, and limits of a joint_limits.yaml are those that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Passive
from ros2_dynid.model.same_robot import check_same_robot
from urdf_arm import arm

ROBOT = load_robot("demo6")


def with_joint(k, **changes):
    joints = list(ROBOT.joints)
    joints[k] = replace(joints[k], **changes)
    return replace(ROBOT, joints=tuple(joints))


@pytest.mark.parametrize("key", ["gamma", "b", "alpha", "d", "theta", "r"])
@pytest.mark.parametrize("k", [0, 3, 5])
def test_another_geometry_is_refused_and_rounding_is_not(key, k):
    own = getattr(ROBOT.joints[k], key)
    check_same_robot(ROBOT, with_joint(k, **{key: own + 5e-7}), "model.yaml")
    for change in (1e-4, -1e-4):
        with pytest.raises(InputError, match=rf"model\.yaml.*another geometry at joint '{ROBOT.joints[k].name}'"):
            check_same_robot(ROBOT, with_joint(k, **{key: own + change}), "model.yaml")


def test_other_joints_kinds_of_joints_and_trees_are_refused():
    check_same_robot(ROBOT, load_robot("demo6"), "x")
    with pytest.raises(InputError, match="another geometry at joint"):
        check_same_robot(ROBOT, with_joint(2, sigma=PRISMATIC), "x")
    with pytest.raises(InputError, match="another geometry at joint"):
        check_same_robot(ROBOT, with_joint(3, parent=1), "x")
    with pytest.raises(InputError, match=f"has the joints {', '.join(load_robot('demo3').active_names)}"):
        check_same_robot(ROBOT, load_robot("demo3"), "x")
    swapped = [replace(ROBOT.joints[k], name=ROBOT.joints[(0, 2, 1, 3, 4, 5)[k]].name) for k in range(6)]
    with pytest.raises(InputError, match="has the joints"):
        check_same_robot(ROBOT, replace(ROBOT, joints=tuple(swapped)), "x")
    coupled = load_robot("tx40")
    with pytest.raises(InputError, match="coupled motors"):
        check_same_robot(coupled, replace(coupled, coupling=()), "x")


def test_motors_and_loops_that_couple_joints_otherwise_are_refused():
    own = Coupling(6, {5: 1.0, 6: 0.5})
    loop = Passive(3, {2: -1.0, 4: 0.5}, 0.2)
    robot = replace(ROBOT, coupling=(own,), passive=(loop,))

    def other(coupling=own, passive=loop):
        return replace(robot, coupling=(coupling,), passive=(passive,))

    check_same_robot(
        robot, other(Coupling(6, {6: 0.5, 5: 1.0 + 4e-7}), Passive(3, {4: 0.5, 2: -1.0 + 4e-7}, 0.2 - 4e-7)), "x"
    )
    for changed in (
        other(replace(own, weights={5: 1.0, 6: 0.50001})), other(replace(own, weights={4: 1.0, 6: 0.5})),
        other(replace(own, motor=5)), other(replace(own, independent_inertia=True)),
        other(passive=replace(loop, terms={2: -1.0, 4: 0.50001})), other(passive=replace(loop, terms={2: -1.0})),
        other(passive=replace(loop, offset=0.20001)),
    ):  # fmt: skip
        for pair in ((robot, changed), (changed, robot)):
            with pytest.raises(InputError, match="other coupled motors or closed loops; identify this robot"):
                check_same_robot(*pair, "x")


def limited(tmp_path, text):
    (tmp_path / "limits.yaml").write_text(text)
    return with_joint_limits(ROBOT, tmp_path / "limits.yaml")


def test_each_limit_goes_where_it_belongs_unless_it_is_switched_off(tmp_path):
    name, own = ROBOT.joints[1].name, ROBOT.joints[1].limits
    keys = {"max_acceleration": "acceleration", "max_velocity": "velocity", "max_effort": "effort"}
    for key, field in keys.items():
        flag = f"has_{field}_limits"
        for text, taken in (("", True), (f"{flag}: true, ", True), (f"{flag}: false, ", False)):
            robot = limited(tmp_path, f"joint_limits: {{{name}: {{{text}{key}: 1.25}}}}")
            assert robot.joints[1].limits == (replace(own, **{field: 1.25}) if taken else own)
            assert [j.limits for j in robot.joints if j.name != name] == [
                j.limits for j in ROBOT.joints if j.name != name
            ]
    robot = limited(tmp_path, f"p: {{q: {{joint_limits: {{{name}: {{min_position: -0.3, max_position: 0.4}}}}}}}}")
    assert (robot.joints[1].limits.lower, robot.joints[1].limits.upper) == (-0.3, 0.4)
    held = limited(tmp_path, f"joint_limits: {{{name}: {{min_position: 0.2, max_position: 0.2}}}}")
    assert (held.joints[1].limits.lower, held.joints[1].limits.upper) == (0.2, 0.2)
    off = limited(
        tmp_path, f"joint_limits: {{{name}: {{has_position_limits: false, min_position: -0.3, max_position: 0.4}}}}"
    )
    assert off.joints[1].limits == own


@pytest.mark.parametrize(("entry", "words"), [
    ("{max_velocity: 0}", "max_velocity is 0; give a positive number"), ("{max_effort: -2}", "positive"),
    ("{max_acceleration: .inf}", "finite"), ("{max_acceleration: true}", "finite"), ("{max_velocity: fast}", "finite"),
    ("{min_position: 1, max_position: 0.5}", "exchange them"), ("[1, 2]", "not a mapping"),
])  # fmt: skip
def test_limits_that_are_none(tmp_path, entry, words):
    with pytest.raises(InputError, match=words):
        limited(tmp_path, f"joint_limits: {{{ROBOT.joints[1].name}: {entry}}}")
    for text in ("a: {b: 1}", "a: {b: {}}", "a: {b: {c: 1}, d: {e: 1}}", "joint_limits: {nobody: {max_velocity: 1}}"):
        with pytest.raises(InputError, match=r"no mapping joint_limits|none of its joints"):
            limited(tmp_path, text)


def test_a_robot_with_one_more_follower_is_another_one():
    robot = robot_from_urdf_string(arm())
    more = replace(robot, joints=(*robot.joints, Joint("extra", 3)), passive=(Passive(4, {1: 1.0}),))
    assert more.active_names == robot.active_names
    for pair in ((robot, more), (more, robot)):
        with pytest.raises(InputError, match="other coupled motors or closed loops"):
            check_same_robot(*pair, "model.yaml")
    check_same_robot(more, replace(more, name="of another name"), "model.yaml")
