# SPDX-License-Identifier: Apache-2.0

"""Sub-chains: base and tip link, held joints with their links lumped, mimic chains, gravity in the base's frame."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.mdh import rotation_rpy
from ros2_dynid.model.parameters import standard_vector
from urdf_arm import arm
from urdf_oracle import PinUrdf, axis_errors, inertial_only
from urdf_text import joint, link, urdf


def two_arms():
    rng = np.random.default_rng(8)
    parts = [link(name, rng) for name in ("torso", "chest", "la", "lb", "lc", "ra", "rb")]
    return urdf(
        *parts,
        joint("waist", "torso", "chest", xyz="0 0 0.4", axis="0 1 0"),
        joint("left1", "chest", "la", xyz="0.1 0.2 0.3", rpy="0.4 0.1 0", axis="1 0 0"),
        joint("left2", "la", "lb", xyz="0 0 0.3", axis="0 1 0"),
        joint("left3", "lb", "lc", xyz="0.1 0 0.3", type="prismatic", axis="0 1 1"),
        joint("right1", "chest", "ra", xyz="0.1 -0.2 0.3", axis="1 0 0"),
        joint("right2", "ra", "rb", xyz="0 0 0.3", axis="0 1 0"),
    )


def compare(robot, text, held, base=None):
    """Compare torques and axes with Pinocchio's of the whole robot, the other joints held."""
    theirs = PinUrdf(text, robot, held)
    q, dq, ddq = np.random.default_rng(0).uniform(-1, 1, size=(3, 4, len(robot.active)))
    chi = standard_vector(robot, inertial_only(robot))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    expected = np.array([theirs.torque(*sample) for sample in zip(q, dq, ddq, strict=True)])
    np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    for sample, T in zip(q, frames(robot, q), strict=True):
        pose = np.eye(4) if base is None else theirs.link(base, sample)
        assert max(axis_errors(robot, pose @ T, theirs.axes(sample))) < 1e-9


def test_tip_link_keeps_the_way_to_it_and_lumps_the_rest():
    robot = robot_from_urdf_string(two_arms(), tip_link="lc")
    assert [joint.name for joint in robot.joints] == ["waist", "left1", "left2", "left3"]
    assert list(robot.tools) == ["lc"]
    compare(robot, two_arms(), {})


def test_base_link_stands_still_and_gravity_stays_vertical():
    held = {"waist": 0.6, "right2": -0.4}
    robot = robot_from_urdf_string(two_arms(), base_link="chest", hold=held)
    assert [joint.name for joint in robot.joints] == ["left1", "left2", "left3", "right1"]
    np.testing.assert_allclose(robot.gravity, [9.81 * np.sin(0.6), 0, -9.81 * np.cos(0.6)], atol=1e-12)
    assert any("gravity" in note for note in robot.notes)
    compare(robot, two_arms(), held, base="chest")


def test_base_and_tip_with_a_held_joint_between():
    held = {"left2": 0.7}
    robot = robot_from_urdf_string(two_arms(), base_link="chest", tip_link="lc", hold=held)
    assert [joint.name for joint in robot.joints] == ["left1", "left3"]
    compare(robot, two_arms(), held, base="chest")


def test_prismatic_joint_held_away_from_zero():
    robot = robot_from_urdf_string(two_arms(), hold={"left3": 0.25})
    assert robot.n == 5
    compare(robot, two_arms(), {"left3": 0.25})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base_link": "nowhere"}, ("base link 'nowhere'", "'torso'")),
        ({"tip_link": "nowhere"}, ("tip link 'nowhere'",)),
        ({"base_link": "la", "tip_link": "rb"}, ("'rb'", "not beyond", "'la'")),
        ({"base_link": "lc"}, ("no joint moves", "'lc'")),
        ({"hold": {"elbow": 0.0}}, ("'elbow'", "'waist'")),
        ({"hold": {"waist": np.nan}}, ("'waist'", "finite")),
        ({"hold": dict.fromkeys(("waist", "left1", "left2", "left3", "right1", "right2"), 0.0)}, ("no joint moves",)),
    ],
)
def test_refusals_name_the_element(options, words):
    with pytest.raises(InputError) as caught:
        robot_from_urdf_string(two_arms(), **options)
    for word in words:
        assert word in str(caught.value)


def test_a_position_outside_the_limits_is_noted():
    assert any("outside" in note for note in robot_from_urdf_string(two_arms(), hold={"waist": 5.0}).notes)


def fingers(*mimics):
    rng = np.random.default_rng(9)
    parts = [link(f"l{i}", rng) for i in range(len(mimics) + 1)]
    for i, mimic in enumerate(mimics, start=1):
        parts.append(joint(f"j{i}", f"l{i - 1}", f"l{i}", xyz="0.1 0 0.02", axis="0 1 0.2", inside=mimic))
    return urdf(*parts)


def test_mimic_chains_lead_to_active_joints():
    text = fingers(
        "", '<mimic joint="j1" multiplier="2" offset="0.5"/>', '<mimic joint="j2" multiplier="-3" offset="1"/>'
    )
    robot = robot_from_urdf_string(text)
    assert robot.active == (1,)
    second, third = robot.passive
    assert (dict(second.terms), second.offset) == ({1: 2.0}, 0.5)
    assert (dict(third.terms), third.offset) == ({1: -6.0}, -0.5)
    compare(robot, text, {})


def test_mimic_may_lead_forward_in_the_file():
    robot = robot_from_urdf_string(fingers('<mimic joint="j2" multiplier="0.5"/>', ""))
    assert robot.active == (2,)
    assert dict(robot.passive[0].terms) == {2: 0.5}


def test_holding_the_leader_holds_its_followers():
    text = fingers("", '<mimic joint="j1" multiplier="2" offset="0.5"/>', "")
    robot = robot_from_urdf_string(text, hold={"j1": 0.2})
    assert [joint.name for joint in robot.joints] == ["j3"]
    compare(robot, text, {"j1": 0.2, "j2": 0.9})


def test_a_held_follower_leaves_its_leader_free():
    text = fingers("", '<mimic joint="j1" multiplier="2"/>', "")
    robot = robot_from_urdf_string(text, hold={"j2": 0.3})
    assert [joint.name for joint in robot.joints] == ["j1", "j3"]
    assert not robot.passive
    compare(robot, text, {"j2": 0.3})


@pytest.mark.parametrize("held", [(0.3, 0.4, -0.5), (-1.0, 0.2, 0.9)])
def test_gravity_behind_several_held_joints(held):
    """Seen from a link behind three turned joints, up is e_z turned back by all of them in their order."""
    text = urdf(
        *(link(name) for name in ("root", "a", "b", "c", "d")),
        joint("x", "root", "a", rpy="0.1 0 0.2", axis="1 0 0"),
        joint("y", "a", "b", xyz="0.1 0 0.2", axis="0 1 0"),
        joint("z", "b", "c", rpy="0 0.3 0", axis="0 0 1"),
        joint("moves", "c", "d", axis="0 1 0"),
    )
    robot = robot_from_urdf_string(text, base_link="c", hold=dict(zip("xyz", held, strict=True)))
    turn = Rotation.from_euler
    R = (
        turn("xyz", [0.1, 0, 0.2]) * turn("x", held[0]) * turn("y", held[1]) * turn("xyz", [0, 0.3, 0])
        * turn("z", held[2])
    )  # fmt: skip
    np.testing.assert_allclose(robot.gravity, R.inv().apply([0.0, 0.0, -9.81]), atol=1e-12)
    free = robot_from_urdf_string(text, base_link="c")  # joints above the base that nobody holds are at zero
    zero = turn("xyz", [0.1, 0, 0.2]) * turn("xyz", [0, 0.3, 0])
    np.testing.assert_allclose(free.gravity, zero.inv().apply([0.0, 0.0, -9.81]), atol=1e-12)


def test_followers_beside_the_chain_are_held_where_their_leader_is_at_zero():
    mimic = '<mimic joint="turn" multiplier="2" offset="0.4"/>'
    text = urdf(
        *(link(name, np.random.default_rng(3)) for name in ("root", "a", "tip", "side")),
        joint("turn", "root", "a", axis="0 0 1"),
        joint("lift", "a", "tip", xyz="0.3 0 0", axis="0 1 0"),
        joint("beside", "a", "side", xyz="0 0.2 0", axis="1 0 0", inside=mimic),
    )
    robot = robot_from_urdf_string(text, tip_link="tip")
    assert robot.active_names == ("turn", "lift") and robot.n == 2 and robot.passive == ()
    at_offset = robot_from_urdf_string(text.replace(mimic, ""), tip_link="tip", hold={"beside": 0.4})
    for name, value in at_offset.parameters.items():
        assert robot.parameters[name] == pytest.approx(value, abs=1e-12)
    whole = robot_from_urdf_string(text)
    assert [(p.joint, dict(p.terms), p.offset) for p in whole.passive] == [(3, {1: 2.0}, 0.4)]


def test_a_robot_has_its_urdfs_name():
    assert robot_from_urdf_string(arm("seven")).name == "seven"
    assert robot_from_urdf_string(arm().replace(' name="seven"', "")).name == "robot"
    assert robot_from_urdf_string(arm("")).name == "robot"


def test_tools_are_the_links_behind_the_last_joints():
    robot = robot_from_urdf_string(arm())
    assert {name: number for name, (number, _) in robot.tools.items()} == {"l3": 3, "flange": 3}
    pose = robot.tools["flange"][1]
    np.testing.assert_allclose(pose[:3, 3] - robot.tools["l3"][1][:3, 3], pose[:3, :3] @ [0.1, 0.0, 0.0], atol=1e-12)
    assert list(robot_from_urdf_string(arm(), tip_link="bracket").tools) == ["bracket"]
    assert robot_from_urdf_string(arm(), tip_link="bracket").tools["bracket"][0] == 1
    assert [j.name for j in robot_from_urdf_string(arm(), tip_link="bracket").joints] == ["j1"]
    two = robot_from_urdf_string(
        arm().replace("</robot>", joint("j4", "bracket", "finger") + link("finger") + "</robot>")
    )
    wanted = {name: two.active_names.index(carrier) + 1 for name, carrier in
              (("l3", "j3"), ("flange", "j3"), ("finger", "j4"))}  # fmt: skip
    assert {name: number for name, (number, _) in two.tools.items()} == wanted, "every branch has its own end"


def test_nobody_changes_a_robot():
    robot = robot_from_urdf_string(arm())
    for values in (robot.gravity, robot.base, robot.tools["flange"][1]):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


@pytest.mark.parametrize(
    ("kind", "inside", "limits", "told"),
    [
        ("revolute", '<limit lower="-1" upper="2" velocity="3" effort="4"/>', (-1, 2, 3, 4), 0),
        ("revolute", '<limit lower="-1" upper="2"/>', (-1, 2, np.inf, np.inf), 0),
        ("prismatic", '<limit lower="0" upper="0.5" velocity="3" effort="4"/>', (0, 0.5, 3, 4), 0),
        ("revolute", '<limit velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="2" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="1" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 1),
        ("revolute", '<limit lower="-1" upper="1" velocity="0" effort="-4"/>', (-1, 1, np.inf, np.inf), 2),
        ("revolute", "<!-- no <limit -->", (-np.inf, np.inf, np.inf, np.inf), 1),
        ("continuous", "", (-np.inf, np.inf, np.inf, np.inf), 0),
        ("continuous", '<limit lower="-1" upper="1" velocity="3" effort="4"/>', (-np.inf, np.inf, 3, 4), 0),
    ],
)
def test_limits_of_a_urdf(kind, inside, limits, told):
    robot = robot_from_urdf_string(urdf(link("b"), link("a"), joint("j", "b", "a", type=kind, inside=inside)))
    found = robot.joints[0].limits
    assert (found.lower, found.upper, found.velocity, found.effort) == limits and found.acceleration == np.inf
    assert len([note for note in robot.notes if "unlimited" in str(note)]) == told


@pytest.mark.parametrize(
    ("dynamics", "Fv", "Fc", "told"),
    [("", 0.0, 0.0, 0), ('<dynamics damping="2"/>', 2.0, 0.0, 0), ('<dynamics friction="3"/>', 0.0, 3.0, 0),
     ('<dynamics damping="-2" friction="-3"/>', -2.0, -3.0, 2)],
)  # fmt: skip
def test_friction_of_a_urdf(dynamics, Fv, Fc, told):
    robot = robot_from_urdf_string(urdf(link("b"), link("a"), joint("j", "b", "a", inside=dynamics)))
    assert (robot.parameters.get("Fv1", 0.0), robot.parameters.get("Fc1", 0.0)) == (Fv, Fc)
    assert len([note for note in robot.notes if "negative" in str(note)]) == told


def test_a_joint_held_outside_its_limits_is_noted_by_its_kind():
    def notes(value, kind="revolute", limit='<limit lower="-1" upper="1" velocity="1" effort="1"/>'):
        text = urdf(
            link("base"), link("a"), link("b"), joint("j1", "base", "a", type=kind, inside=limit), joint("j2", "a", "b")
        )
        return [str(note) for note in robot_from_urdf_string(text, hold={"j1": value}).notes if "outside" in str(note)]

    assert notes(1.1) and notes(-1.1) and not notes(1.0) and not notes(-1.0) and not notes(0.5)
    assert not notes(5.0, "continuous") and not notes(5.0, limit='<limit lower="0" upper="0" velocity="1" effort="1"/>')


@pytest.mark.parametrize(("rpy", "told"), [("0 0 1", False), ("0.5 0 0", True), ("0 -0.5 0", True)])
def test_a_base_link_that_is_not_upright_turns_gravity_and_says_so(rpy, told):
    parts = [link("root"), link("base"), link("a")]
    text = urdf(*parts, joint("mount", "root", "base", type="fixed", rpy=rpy), joint("j1", "base", "a"))
    found = robot_from_urdf_string(text, base_link="base")
    assert any("gravity is turned" in str(note) for note in found.notes) == told
    r, p, y = (float(x) for x in rpy.split())
    np.testing.assert_allclose(found.gravity, rotation_rpy(r, p, y).T @ [0.0, 0.0, -9.81], atol=1e-9)
    assert not any("gravity is turned" in str(note) for note in robot_from_urdf_string(text).notes)
