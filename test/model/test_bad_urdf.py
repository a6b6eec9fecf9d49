# SPDX-License-Identifier: Apache-2.0

"""URDFs that are refused, each with one line that names the file, the element and the hint; and oddities that pass."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.urdf import parse_urdf
from urdf_text import joint, link, urdf

BASE, ARM = link("base"), link("arm")
INERTIA = '<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'


def inertial(mass="1", inertia=INERTIA, origin=""):
    return f'<link name="arm"><inertial>{origin}<mass value="{mass}"/>{inertia}</inertial></link>'


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    "<robot name='&b;'/>"
)
EXTERNAL = '<!DOCTYPE robot SYSTEM "http://example.invalid/robot.dtd"><robot name="r"/>'

REFUSED = {
    "not XML": ("this is no XML", ("not XML", "line 1")),
    "empty": ("", ("not XML",)),
    "cut off": (urdf(BASE, ARM, joint("j1", "base", "arm"))[:-20], ("not XML",)),
    "binary": (b"\x7fELF\x02\x01\x01\x00\x00", ("not XML",)),
    "an entity bomb": (BOMB, ("DOCTYPE",)),
    "an external document type": (EXTERNAL, ("DOCTYPE",)),
    "SDF": ("<sdf version='1.6'><model name='m'/></sdf>", ("<sdf>", "URDF")),
    "no joints": (urdf(BASE), ("no <joint>",)),
    "only fixed joints": (urdf(BASE, ARM, joint("j1", "base", "arm", type="fixed")), ("no joint moves", "'base'")),
    "a cycle": (
        urdf(BASE, ARM, link("c"), joint("j1", "base", "arm"), joint("j2", "arm", "c"), joint("j3", "c", "base")),
        ("cycle", "cut the loop"),
    ),
    "a cycle off the root": (
        urdf(BASE, ARM, link("c"), link("d"), joint("j1", "base", "arm"), joint("j2", "c", "d"), joint("j3", "d", "c")),
        ("cycle", "'j3'"),
    ),
    "two parents": (
        urdf(BASE, ARM, link("c"), joint("j1", "base", "c"), joint("j2", "base", "arm"), joint("j3", "arm", "c")),
        ("'c'", "'j1'", "'j3'"),
    ),
    "a joint onto itself": (urdf(BASE, joint("j1", "base", "base")), ("cycle", "'j1'")),
    "two roots": (
        urdf(BASE, ARM, link("c"), link("d"), joint("j1", "base", "arm"), joint("j2", "c", "d")),
        ("'base'", "'c'", "roots"),
    ),
    "unknown parent": (urdf(BASE, ARM, joint("j1", "ground", "arm")), ("'j1'", "'ground'", "parent")),
    "unknown child": (urdf(BASE, ARM, joint("j1", "base", "leg")), ("'j1'", "'leg'", "child")),
    "no parent": (
        urdf(BASE, ARM, '<joint name="j1" type="fixed"><child link="arm"/></joint>'),
        ("'j1'", "<parent>", "add it"),
    ),
    "zero axis": (urdf(BASE, ARM, joint("j1", "base", "arm", axis="0 0 0")), ("'j1'", "zero axis", "0 0 1")),
    "axis of two numbers": (urdf(BASE, ARM, joint("j1", "base", "arm", axis="0 1")), ("'j1'", "'0 1'", "3 numbers")),
    "text for a number": (urdf(BASE, ARM, joint("j1", "base", "arm", xyz="0 0 a")), ("'j1'", "'0 0 a'")),
    "xacro left over": (urdf(BASE, ARM, joint("j1", "base", "arm", xyz="0 0 ${h}")), ("'j1'", "run xacro")),
    "nan in a position": (urdf(BASE, ARM, joint("j1", "base", "arm", xyz="nan 0 0")), ("'j1'", "finite")),
    "inf in an angle": (urdf(BASE, ARM, joint("j1", "base", "arm", rpy="0 inf 0")), ("'j1'", "finite")),
    "nan in the axis": (urdf(BASE, ARM, joint("j1", "base", "arm", axis="0 nan 1")), ("'j1'", "finite")),
    "nan limit": (
        urdf(BASE, ARM, joint("j1", "base", "arm", inside='<limit lower="nan" upper="1" effort="1" velocity="1"/>')),
        ("'j1'", "lower", "finite"),
    ),
    "nan damping": (
        urdf(BASE, ARM, joint("j1", "base", "arm", inside='<dynamics damping="nan"/>')),
        ("'j1'", "damping"),
    ),
    "nan mass": (urdf(BASE, inertial("nan"), joint("j1", "base", "arm")), ("'arm'", "<mass>", "finite")),
    "infinite inertia": (
        urdf(BASE, inertial(inertia=INERTIA.replace('"1"', '"inf"', 1)), joint("j1", "base", "arm")),
        ("'arm'", "ixx", "finite"),
    ),
    "negative mass": (urdf(BASE, inertial("-0.5"), joint("j1", "base", "arm")), ("'arm'", "negative mass -0.5 kg")),
    "inertial without mass": (
        urdf(BASE, f'<link name="arm"><inertial>{INERTIA}</inertial></link>', joint("j1", "base", "arm")),
        ("'arm'", "<mass>"),
    ),
    "inertia without izz": (
        urdf(BASE, inertial(inertia=INERTIA.replace('izz="1"', "")), joint("j1", "base", "arm")),
        ("'arm'", "izz"),
    ),
    "unknown joint type": (urdf(BASE, ARM, joint("j1", "base", "arm", type="spherical")), ("'j1'", "'spherical'")),
    "no joint type": (
        urdf(BASE, ARM, '<joint name="j1"><parent link="base"/><child link="arm"/></joint>'),
        ("'j1'", "type"),
    ),
    "floating in the middle": (
        urdf(BASE, ARM, link("c"), joint("j1", "base", "arm"), joint("j2", "arm", "c", type="floating")),
        ("'j2'", "floating", "hold: {j2: 0}"),
    ),
    "planar in the middle": (
        urdf(BASE, ARM, link("c"), joint("j1", "base", "arm"), joint("j2", "arm", "c", type="planar")),
        ("'j2'", "planar", "hold: {j2: 0}"),
    ),
    "a joint twice": (
        urdf(BASE, ARM, link("c"), joint("j1", "base", "arm"), joint("j1", "arm", "c")),
        ("'j1'", "twice"),
    ),
    "a link twice": (urdf(BASE, ARM, ARM, joint("j1", "base", "arm")), ("'arm'", "twice")),
    "a link without a name": (urdf(BASE, ARM, "<link/>", joint("j1", "base", "arm")), ("link number 3", "name")),
    "mimic of itself": (
        urdf(BASE, ARM, joint("j1", "base", "arm", inside='<mimic joint="j1"/>')),
        ("'j1'", "mimics itself"),
    ),
    "mimic in a circle": (
        urdf(
            *(BASE, ARM, link("c"), joint("j1", "base", "arm", inside='<mimic joint="j2"/>')),
            joint("j2", "arm", "c", inside='<mimic joint="j1"/>'),
        ),
        ("mimics itself",),
    ),
    "line breaks in a name": (
        urdf(BASE, ARM, joint("j&#10;1", "base", "arm", axis="0 0 0")),
        ("zero axis",),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_line_with_the_file_the_element_and_the_hint(case, tmp_path):
    content, expected = REFUSED[case]
    path = tmp_path / "bad.urdf"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        load_robot(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert "; " in message
    for words in expected:
        assert words in message


def test_a_huge_file_is_refused(tmp_path, monkeypatch):
    from ros2_dynid.model import load

    monkeypatch.setattr(load, "MAX_BYTES", 1000)
    path = tmp_path / "huge.urdf"
    path.write_text(urdf(BASE, ARM, joint("j1", "base", "arm"), " " * 1000))
    with pytest.raises(InputError, match="more than"):
        load_robot(path)


def test_what_other_tools_put_into_a_urdf_is_passed_over():
    text = urdf(
        "<!-- comment -->",
        '<material name="red"><color rgba="1 0 0"/></material>',
        '<link name="base"><visual><geometry><mesh filename="package://nowhere/a.dae" scale="x"/></geometry></visual>'
        "</link>",
        '<joint name="j1" type="revolute"><axis xyz="0 0 1"/><child link="arm"/><parent link="base"/>'
        '<limit effort="3" velocity="2" lower="-1" upper="1"/><safety_controller k_velocity="a"/>'
        '<calibration rising="?"/><unknown/></joint>',
        '<link name="arm" type="x"><inertial><mass value="1"/><origin xyz="0 0 1"/>' + INERTIA + "</inertial>"
        '<collision><geometry><ball r="1"/></geometry></collision></link>',
        '<gazebo reference="arm"><sensor name="s"/></gazebo><gazebo><plugin name="p"/></gazebo>',
        '<transmission name="t"><joint name="j1"/><actuator name="m"/></transmission>',
        '<ros2_control name="c" type="system"><joint name="j1"><command_interface name="effort"/></joint>'
        "</ros2_control>",
        '<xacro:macro xmlns:xacro="http://ros.org/wiki/xacro" name="m"/>',
    )
    robot = robot_from_urdf_string(text)
    assert robot.n == 1
    assert robot.parameters["MZ1"] == pytest.approx(1.0)
    assert (robot.joints[0].limits.lower, robot.joints[0].limits.upper) == (-1, 1)


@pytest.mark.parametrize("encode", [str.encode, lambda t: b"\xef\xbb\xbf" + t.encode(), lambda t: t.encode("utf-16")])
def test_unicode_names_and_byte_order_marks(encode, tmp_path):
    text = urdf(BASE, ARM, joint("épaule 肩", "base", "arm")).replace('<?xml version="1.0"?>', "")
    path = tmp_path / "unicode.urdf"
    path.write_bytes(encode(text))
    assert load_robot(path).joints[0].name == "épaule 肩"


def test_text_from_a_topic_with_an_encoding_declared():
    text = urdf(BASE, ARM, joint("é", "base", "arm")).replace('version="1.0"', 'version="1.0" encoding="latin-1"')
    assert robot_from_urdf_string("\ufeff\n" + text).joints[0].name == "é"


def test_a_long_chain_needs_no_recursion():
    parts = [link("l0")]
    for i in range(1500):
        parts += [joint(f"f{i}", f"l{i}", f"l{i + 1}", type="revolute" if i == 0 else "fixed"), link(f"l{i + 1}")]
    assert robot_from_urdf_string(urdf(*parts)).n == 1


def test_defaults_of_urdf():
    text = urdf(
        *(BASE, ARM, link("c"), joint("j1", "base", "arm", axis=None)),
        '<joint name="j2" type="continuous"><parent link="arm"/><child link="c"/>'
        '<limit effort="5" velocity="1" lower="-1" upper="1"/><mimic joint="j1"/></joint>',
    )
    robot = robot_from_urdf_string(text)
    assert np.array_equal(robot.base[:3, 2], [1, 0, 0])
    assert robot.joints[1].limits.lower == -np.inf
    assert dict(robot.passive[0].terms) == {1: 1.0}
    assert robot.passive[0].offset == 0.0


def test_limits_that_say_nothing_are_noted():
    robot = robot_from_urdf_string(
        urdf(BASE, ARM, joint("j1", "base", "arm", inside='<limit lower="0" upper="0" velocity="0" effort="-1"/>'))
    )
    limits = robot.joints[0].limits
    assert (limits.lower, limits.upper, limits.velocity, limits.effort) == (-np.inf, np.inf, np.inf, np.inf)
    assert sum("unlimited" in note for note in robot.notes) == 3


def test_missing_and_impossible_inertia_are_notes():
    bad = INERTIA.replace('izz="1"', 'izz="3"')
    text = urdf(
        *(BASE, inertial("1", bad), link("c"), link("frame"), joint("j1", "base", "arm"), joint("j2", "arm", "c")),
        joint("f", "c", "frame", type="fixed"),
    )
    robot = robot_from_urdf_string(text)
    assert any("triangle" in note and "'arm'" in note for note in robot.notes)
    assert any("no <inertial>" in note and "'c'" in note and "frame" not in note for note in robot.notes)
    assert robot.parameters["ZZ1"] == 3.0
    assert not any(name.endswith("2") for name in robot.parameters)


def test_what_is_fixed_to_a_moving_link_and_has_a_shape_should_have_an_inertia():
    cover, plate = (
        '<link name="{}"><{}/></link>'.format(*pair) for pair in (("cover", "visual"), ("plate", "collision"))
    )
    foot = '<link name="foot"><visual/></link>'
    parts = (BASE, foot, ARM, cover, plate, link("frame"), joint("j1", "base", "arm"))
    fixed = [joint(f"f{k}", *ends, type="fixed") for k, ends in enumerate(
        (("base", "foot"), ("arm", "cover"), ("arm", "plate"), ("arm", "frame")))]  # fmt: skip
    told = [note for note in robot_from_urdf_string(urdf(*parts, *fixed)).notes if "no <inertial>" in note]
    assert len(told) == 1 and "'cover', 'plate'" in told[0] and "frame" not in told[0] and "foot" not in told[0]


def test_links_that_no_joint_names_are_no_roots():
    text = urdf(link("stray"), BASE, ARM, joint("j1", "base", "arm"), link("spare"))
    tree = parse_urdf(text)
    assert tree.root == "base" and robot_from_urdf_string(text).n == 1


@pytest.mark.parametrize(("value", "taken"), [("1e29", True), ("1.1e30", False), ("1e200", False)])
@pytest.mark.parametrize("sign", ["", "-"])
def test_numbers_that_overflow_in_products_are_refused(value, taken, sign):
    text = urdf(BASE, ARM, joint("j1", "base", "arm", xyz=f"0 0 {sign}{value}"))
    if taken:
        assert parse_urdf(text).joints["j1"].origin[2, 3] == float(sign + value)
        return
    with pytest.raises(InputError, match="not a finite number"):
        parse_urdf(text)


@pytest.mark.parametrize("text", ["0 0 1_0", "0 0", "0 0 0 0", "0 0 0x1", "0 0 nan", ""])
def test_places_are_three_numbers_as_other_readers_take_them(text):
    with pytest.raises(InputError, match="joint 'j1' <origin> has xyz"):
        parse_urdf(urdf(BASE, ARM, joint("j1", "base", "arm", xyz=text)))


@pytest.mark.parametrize("mimic", ["<mimic/>", '<mimic joint="nobody"/>', '<mimic joint="j1" multiplier="x"/>'])
def test_what_a_fixed_joint_mimics_does_not_matter(mimic):
    plate = joint("glue", "arm", "plate", type="fixed", inside=mimic)
    robot = robot_from_urdf_string(urdf(BASE, ARM, link("plate"), joint("j1", "base", "arm"), plate))
    assert robot.active == (1,) and not any("mimic" in note for note in robot.notes)


def test_a_link_may_weigh_nothing():
    nothing = "".join(f' {name}="0"' for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"))
    robot = robot_from_urdf_string(urdf(BASE, inertial("0", f"<inertia{nothing}/>"), joint("j1", "base", "arm")))
    assert not robot.parameters and robot.notes == ()


def test_mimic_of_an_unknown_joint_is_a_note():
    robot = robot_from_urdf_string(urdf(BASE, ARM, joint("j1", "base", "arm", inside='<mimic joint="nobody"/>')))
    assert robot.active == (1,)
    assert any("unknown joint" in note and "'j1'" in note for note in robot.notes)


def test_floating_base_is_held():
    robot = robot_from_urdf_string(
        urdf(link("world"), BASE, ARM, joint("free", "world", "base", type="floating"), joint("j1", "base", "arm"))
    )
    assert robot.n == 1
    assert any("'free'" in note for note in robot.notes)
