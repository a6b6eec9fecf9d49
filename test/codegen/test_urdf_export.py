# SPDX-License-Identifier: Apache-2.0

"""The URDF with new parameters: numbers change where they stand, nothing else does, and Pinocchio reads the same."""

import re

import numpy as np
import pytest

from ros2_dynid.codegen.urdf_export import updated_urdf
from ros2_dynid.errors import InputError
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.parameters import LINK
from urdf_oracle import example_urdfs
from urdf_text import joint, link, urdf

URDF = b"""<?xml version="1.0"?>
<!-- keep me -->
<robot name="two">
  <link name="base"/>
  <link name="upper">   <!-- a comment with <mass value="7"/> in it -->
    <inertial>
      <origin rpy='0.1 0.2 0.3' xyz='0 0 0.1' />
      <mass
         value="2.0" note="a > b"/>
      <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.05"/>
    </inertial>
    <visual><geometry><box size="1 1 1"/></geometry></visual>
  </link>
\t<link name="lower"/>
  <link name="plate"><inertial><mass value="0.5"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
  <joint name="a" type="revolute">
    <parent link="base"/><child link="upper"/><origin xyz="0 0 0.3" rpy="0 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/>
    <dynamics damping="0.5"/>
  </joint>
  <joint name="b" type="prismatic">
    <parent link="upper"/><child link="lower"/><origin xyz="0.1 0 0.3" rpy="1.0 0.4 0"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/>
  </joint>
  <joint name="glue" type="fixed"><parent link="lower"/><child link="plate"/><origin xyz="0 0.2 0" rpy="0 0 0.5"/></joint>
</robot>
"""  # noqa: E501


def new_parameters(robot, seed=0):
    """Return other, physical parameters for every joint."""
    rng = np.random.default_rng(seed)
    values = {}
    for j in range(1, robot.n + 1):
        A = rng.normal(size=(3, 3))
        second = A @ A.T + np.eye(3)  # second moments: any positive ones belong to a body
        J = np.trace(second) * np.eye(3) - second
        body = Inertia.at_centre_of_mass(rng.uniform(2.0, 5.0), rng.uniform(-0.2, 0.2, 3), J)
        values |= {f"{kind}{j}": x for kind, x in body.standard().items()}
        values |= {f"Fv{j}": float(rng.uniform(0, 1)), f"Fc{j}": float(rng.uniform(0, 1))}
    return values


def test_parameters_are_read_back():
    robot = robot_from_urdf_string(URDF)
    values = new_parameters(robot)
    text, notes = updated_urdf(URDF, robot, values)
    again = robot_from_urdf_string(text)
    for j in range(1, robot.n + 1):
        for kind in (*LINK, "Fv", "Fc"):
            assert again.parameters.get(f"{kind}{j}", 0.0) == pytest.approx(values[f"{kind}{j}"], rel=1e-9, abs=1e-9)
    assert notes == []


def test_only_numbers_change():
    robot = robot_from_urdf_string(URDF)
    text, _ = updated_urdf(URDF, robot, new_parameters(robot))
    assert b"<!-- keep me -->" in text and b'<mass value="7"/> in it -->' in text and b'note="a > b"' in text
    assert b"rpy='0.1 0.2 0.3'" in text and b'<box size="1 1 1"/>' in text
    assert b'<mass value="0.5"/>' in text, "the link that is glued on keeps its mass"
    numbers = re.compile(rb"[-+]?\d[\d.e+-]*")
    old_lines, new_lines = URDF.splitlines(), text.splitlines()
    kept = [line for line in old_lines if line in new_lines]
    assert len(kept) >= len(old_lines) - 6
    for old in set(old_lines) - set(kept):
        if b"<link" not in old:
            shape = numbers.sub(b"#", old.replace(b"'", b'"'))
            shapes = [numbers.sub(b"#", new.replace(b"'", b'"')) for new in new_lines]
            assert shape in shapes or b"dynamics" in old or b"origin" in old


def test_the_same_parameters_change_nothing():
    robot = robot_from_urdf_string(URDF)
    text, _ = updated_urdf(URDF, robot, {name: v for name, v in robot.parameters.items() if not name.endswith("2")})
    assert text == URDF


def test_pinocchio_reads_the_new_parameters():
    pin = pytest.importorskip("pinocchio")
    path = next(path for path in example_urdfs() if path.name == "ur5_robot.urdf")
    data = path.read_bytes()
    robot = robot_from_urdf_string(data)
    values = {name: v for name, v in new_parameters(robot).items() if name[:2] not in ("Fv", "Fc")}
    text, _ = updated_urdf(data, robot, values)
    model = pin.buildModelFromXML(text.decode())
    for j, own in enumerate(robot.joints, start=1):
        inertia = model.inertias[model.getJointId(own.name)]
        assert inertia.mass == pytest.approx(values[f"M{j}"], rel=1e-9)
        about = robot_from_urdf_string(text).parameters
        assert about[f"ZZ{j}"] == pytest.approx(values[f"ZZ{j}"], rel=1e-9)
    assert data.count(b"<!--") == text.count(b"<!--")


def test_unphysical_parameters_and_foreign_urdfs_are_said():
    robot = robot_from_urdf_string(URDF)
    _, notes = updated_urdf(URDF, robot, {**new_parameters(robot), "M1": -1.0})
    assert any("upper" in note and "negative mass" in note for note in notes)
    other = robot_from_urdf_string(URDF.replace(b'name="b"', b'name="c"'))
    with pytest.raises(InputError, match="not those of the model"):
        updated_urdf(URDF, other, {})
    with pytest.raises(InputError, match="UTF-8"):
        updated_urdf(URDF.decode().encode("utf-16"), robot, {})


@pytest.mark.parametrize("chain", [{}, {"tip_link": "lc"}, {"base_link": "la", "hold": {"left2": 0.4}}])
def test_parameters_are_read_back_with_followers_held_joints_and_sub_chains(chain):
    """A joint that follows another one with an offset is written where the file has its zero."""
    rng = np.random.default_rng(4)
    mimic = '<mimic joint="left1" multiplier="-0.5" offset="0.6"/>'
    text = urdf(
        *(link(name, rng) for name in ("torso", "la", "lb", "lc", "ra", "hand")),
        joint("left1", "torso", "la", xyz="0.1 0.2 0.3", rpy="0.4 0.1 0", axis="1 0 0"),
        joint("left2", "la", "lb", xyz="0 0.1 0.3", rpy="0.2 0 0.5", axis="0 1 0", inside="" if chain else mimic),
        joint("left3", "lb", "lc", xyz="0.1 0 0.3", type="prismatic", axis="0 1 1"),
        joint("right1", "la", "ra", xyz="0.1 -0.2 0.3", rpy="0 0.3 0", axis="1 0 0"),
        joint("glue", "lc", "hand", xyz="0.1 0 0", rpy="0.1 0.2 0.3", type="fixed"),
    ).encode()
    robot = robot_from_urdf_string(text, **chain)
    assert bool(robot.passive) == (not chain)
    values = {name: 9.0 * value for name, value in new_parameters(robot, seed=2).items()}  # more than others carry
    new, _ = updated_urdf(text, robot, values, **chain)
    again = robot_from_urdf_string(new, **chain)
    for name, value in values.items():
        assert again.parameters.get(name, 0.0) == pytest.approx(value, rel=1e-9, abs=1e-9), name


TWO_LINKS = b"""<robot name="r"><link name="base"/>
  <link name="arm"/>
  <link name="hand"><inertial><mass value="1.0"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="a" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/></joint>
  <joint name="b" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="0.5 0 0"/><axis xyz="0 0 1"/>
    <limit lower="-1" upper="1" effort="5" velocity="2"/><dynamics damping="1.0" friction="2.0"/></joint>
</robot>
"""  # noqa: E501


def test_a_urdf_gets_only_what_it_lacks_and_what_has_changed():
    robot = robot_from_urdf_string(TWO_LINKS)
    body = {"XX1": 0.4, "YY1": 0.5, "ZZ1": 0.6, "XY1": 0.01, "XZ1": -0.02, "YZ1": 0.03, "MX1": 0.2, "MY1": -0.1,
            "MZ1": 0.3, "M1": 2.0}  # fmt: skip
    text, notes = updated_urdf(TWO_LINKS, robot, {**body, "Fv1": 0.0, "Fc1": 0.0})
    assert notes == [] and text.count(b"<dynamics") == 1, "no friction where there is none"
    again = robot_from_urdf_string(text).parameters
    assert {name: again[name] for name in body} == pytest.approx(body, rel=1e-9)
    assert b'<link name="arm">\n    <inertial>\n      <origin xyz="0.1 -0.05 0.15" rpy="0 0 0"/>\n' in text
    assert b"\n    </inertial>\n  </link>" in text
    text, _ = updated_urdf(TWO_LINKS, robot, {"Fv1": 0.0, "Fc1": 0.25, "Fc2": 3.0})
    assert b'<dynamics damping="0.0" friction="0.25"/>' in text and b'damping="1.0" friction="3.0"' in text
    assert robot_from_urdf_string(text).parameters["Fc1"] == 0.25
    for change, kept in ((1e-13, True), (1e-11, False)):
        text, _ = updated_urdf(TWO_LINKS, robot, {"Fv2": 1.0 + change})
        assert (text == TWO_LINKS) == kept, "rounding is no change"
    assert updated_urdf(TWO_LINKS, robot, {})[0] == TWO_LINKS
    _, notes = updated_urdf(TWO_LINKS, robot, {**body, "XX1": -5.0})
    assert len(notes) == 1 and "link 'arm'" in str(notes[0])


def test_tags_are_found_by_their_ends_and_their_links():
    """Quotes of either kind may hold a >, a visual has an origin of its own, and a link may come twice in a path."""
    text = TWO_LINKS.replace(b'<mass value="1.0"/>', b"<mass note='a > b \"' value='1.0'/><origin xyz='0.1 0 0'/>")
    text = text.replace(b"</inertial></link>", b'</inertial><visual><origin xyz="9 9 9"/></visual></link>')
    robot = robot_from_urdf_string(text)
    body = {"XX2": 2.0, "YY2": 2.1, "ZZ2": 2.2, "MX2": 0.3, "M2": 3.0}
    new, notes = updated_urdf(text, robot, body)
    assert notes == [] and b'<mass note=\'a > b "\' value="3.0"/>' in new and b'xyz="9 9 9"' in new
    again = robot_from_urdf_string(new).parameters
    assert {name: again[name] for name in body} == pytest.approx(body)
    with pytest.raises(InputError, match="UTF-8"):
        updated_urdf(b"\xfe\xff" + text.decode().encode("utf-16-be"), robot, body)


def test_a_moment_without_a_mass_is_written_and_told():
    robot = robot_from_urdf_string(TWO_LINKS)
    text, notes = updated_urdf(TWO_LINKS, robot, {"ZZ2": 0.5})
    assert b'<mass value="0.0"/>' in text and b'izz="0.5"' in text and b"nan" not in text
    assert len(notes) == 1 and "link 'hand': inertia without mass; identify with " in str(notes[0])
    text, notes = updated_urdf(TWO_LINKS, robot, {"M2": 2.0, "XX2": 1.0, "YY2": 1.0, "ZZ2": -0.1})
    assert len(notes) == 1 and "link 'hand': negative principal moment" in str(notes[0])
    for small, kept in ((1e-18, True), (1e-15, False)):  # beside a zero there is nothing to be small against
        text, _ = updated_urdf(TWO_LINKS.replace(b'damping="1.0"', b'damping="0"'), robot, {"Fv2": small})
        assert (b'damping="0"' in text) == kept
