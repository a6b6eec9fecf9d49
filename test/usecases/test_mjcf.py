# SPDX-License-Identifier: Apache-2.0

"""MuJoCo: a robot with its parameters becomes MJCF with the URDF's shapes, and a list of what MJCF cannot say."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

import urdf_text
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mesh_file import Mesh
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Passive, Robot
from ros2_dynid.preview.bodies import Body
from ros2_dynid.sim.mjcf import body_tree
from ros2_dynid.usecases.mjcf import add_shapes, link_names, mjcf_files, stl_bytes

DEMO3 = load_robot("demo3")


def numbers(text):
    return [float(x) for x in text.split()]


def looped():
    own = (
        Limits(-1.0, 2.0, effort=40.0), Limits(), Limits(-2.5, 0.5, effort=np.inf), Limits(0.5, 0.5, effort=0.0),
        Limits(-np.inf, 1.0, effort=7.0),
    )  # fmt: skip
    joints = tuple(Joint(f"j{k + 1}", k, d=0.1, limits=x, sigma=PRISMATIC if k == 3 else 0) for k, x in enumerate(own))
    return Robot("r", joints, passive=(Passive(2, {1: 0.5}, 0.2), Passive(5, {1: 1.0, 3: -2.0}, 0.3)))


def test_joints_have_their_drives_ranges_and_followers():
    robot = looped()
    chi = np.zeros((5, 14))
    chi[:, [0, 3, 5]], chi[:, 9] = 0.1, 1.0
    chi[:, 10:] = np.array([[1, 2, 3, 0], [1, 0, 0, 0], [1, -2, -3, 0], [1, 0.5, 0.25, 0], [1, 0, 0, 0]])
    made = mjcf_files(robot, chi.ravel(), name="my arm")
    (file,) = made.files
    assert file.endswith(".xml") and " " not in file
    root = ET.fromstring(made.files[file])
    joints = {x.get("name"): x for x in root.iter("joint") if x.get("name")}
    assert [numbers(joints[f"j{k}"].get("damping")) for k in range(1, 6)] == [[2.0], [0.0], [0.0], [0.5], [0.0]]
    assert [numbers(joints[f"j{k}"].get("frictionloss")) for k in range(1, 6)] == [[3.0], [0.0], [0.0], [0.25], [0.0]]
    ranges = {name: numbers(x.get("range")) for name, x in joints.items() if x.get("range")}
    assert ranges == {"j1": [-1.0, 2.0], "j3": [-2.5, 0.5]}
    assert {name for name, x in joints.items() if x.get("limited") == "true"} == {"j1", "j3"}
    motors = {x.get("name"): x for x in root.iter("motor")}
    assert list(motors) == ["j1", "j3", "j4"] and all(x.get("joint") == name for name, x in motors.items())
    for key in ("ctrlrange", "forcerange"):
        assert {name: numbers(x.get(key)) for name, x in motors.items() if x.get(key)} == {"j1": [-40.0, 40.0]}
    assert motors["j1"].get("ctrllimited") == motors["j1"].get("forcelimited") == "true"
    one, several = root.find("equality")
    assert (one.get("joint1"), one.get("joint2"), numbers(one.get("polycoef"))) == ("j2", "j1", [0.2, 0.5, 0, 0, 0])
    (tendon,) = root.find("tendon")
    assert several.get("tendon1") == tendon.get("name") and numbers(several.get("polycoef")) == [0.3, 0, 0, 0, 0]
    assert [(x.get("joint"), float(x.get("coef"))) for x in tendon] == [("j5", 1.0), ("j1", -1.0), ("j3", 2.0)]
    assert root.find("option").get("integrator") == "implicitfast"
    assert any("soft constraints" in str(note) for note in made.notes)
    chi[3, 13] = 0.25
    assert any("off4 0.25" in str(note) for note in mjcf_files(robot, chi.ravel()).notes), "what MJCF cannot say"
    plain = mjcf_files(DEMO3, standard_vector(DEMO3))
    assert not any("soft constraints" in str(note) for note in plain.notes)
    assert ET.fromstring(next(iter(plain.files.values()))).find("equality") is None


def test_bodies_are_called_by_the_links_they_carry_and_links_are_sites():
    pose = np.eye(4)
    pose[:3, 3] = [0.1, 0.2, 0.3]
    robot = replace(
        DEMO3, tools={"hand": (3, pose), "finger": (3, np.eye(4)), "table": (0, pose)}, base=2.0 * pose - np.eye(4)
    )
    assert link_names(robot) == ["link1", "link2", "hand_body"]
    twice = replace(robot, tools={"hand": (3, pose), "link1_body": (2, pose), "x": (1, pose)})
    assert link_names(twice) == ["x_body", "link1_body_body", "hand_body"]
    sites = {
        x.get("name"): x
        for x in ET.fromstring(next(iter(mjcf_files(robot, standard_vector(robot)).files.values()))).iter("site")
    }
    assert set(sites) == {"hand", "finger", "table"}
    assert numbers(sites["hand"].get("pos")) == [0.1, 0.2, 0.3] and numbers(sites["finger"].get("pos")) == [0, 0, 0]
    assert numbers(sites["table"].get("pos")) == pytest.approx([0.3, 0.6, 0.9])
    assert numbers(sites["hand"].get("xyaxes")) == [1, 0, 0, 0, 1, 0]


def test_shapes_keep_their_size_and_meshes_become_files():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    mesh, flat = Mesh(corners, faces), Mesh(corners, faces[:3])
    colour = (0.1, 0.2, 0.3, 1.0)
    turned = np.array([[0.0, 0.0, 1.0, 0.4], [1.0, 0.0, 0.0, 0.5], [0.0, 1.0, 0.0, 0.6], [0.0, 0.0, 0.0, 1.0]])
    bodies = [
        Body("a", 1, turned, "box", (0.2, 0.4, 0.6), colour), Body("b", 2, np.eye(4), "sphere", (0.3,), colour),
        Body("c", 3, np.eye(4), "cylinder", (0.1, 0.8), colour), Body("d", 0, np.eye(4), "capsule", (0.2, 0.6), colour),
        Body("e f", 1, np.eye(4), "mesh", (), colour, mesh), Body("g", 1, np.eye(4), "mesh", (), colour, flat),
    ]  # fmt: skip
    tree = body_tree(DEMO3, standard_vector(DEMO3), ["l1", "l2", "l3"], DEMO3.active_names)
    files = add_shapes(tree, bodies)
    geoms = [x for x in tree.root.iter("geom") if x.get("rgba")]
    sizes = {x.get("type"): numbers(x.get("size")) for x in geoms if x.get("size")}
    assert sizes == {"box": [0.1, 0.2, 0.3], "sphere": [0.3], "cylinder": [0.1, 0.4], "capsule": [0.2, 0.3]}
    assert all(numbers(x.get("rgba")) == list(colour) for x in geoms) and len(geoms) == 5
    for geom in geoms:
        assert [geom.get(key) for key in ("contype", "conaffinity", "group", "density")] == ["0", "0", "2", "0"]
    under = [[x.get("type") for x in body.findall("geom") if x.get("rgba")] for body in tree.bodies]
    assert under == [["capsule"], ["box", "mesh"], ["sphere"], ["cylinder"]], "each on the body of its joint"
    box = geoms[[x.get("type") for x in geoms].index("box")]
    assert numbers(box.get("pos")) == [0.4, 0.5, 0.6] and numbers(box.get("xyaxes")) == [0, 1, 0, 0, 0, 1]
    (path,) = files
    (asset,) = tree.root.find("asset")
    (drawn,) = [x for x in geoms if x.get("type") == "mesh"]
    assert asset.get("file") == path and asset.get("name") == drawn.get("mesh")
    assert [x.tag for x in tree.root][2] == "asset" and asset.get("inertia") == "shell"
    data = files[path]
    assert data == stl_bytes(mesh) and len(data) == 84 + 4 * 50 and struct.unpack("<I", data[80:84]) == (4,)
    for k in range(4):
        row = struct.unpack("<12fH", data[84 + 50 * k : 134 + 50 * k])
        assert np.array_equal(np.reshape(row[3:12], (3, 3)), corners[faces[k]]) and row[12] == 0


def test_shapes_and_what_is_missing_of_them_come_from_the_urdf(tmp_path):
    rng = np.random.default_rng(0)
    box, mesh = '<box size="0.2 0.4 0.6"/>', '<mesh filename="none.stl"/>'
    links = [
        urdf_text.link(name, rng).replace("</link>", f"<visual><geometry>{shape}</geometry></visual></link>")
        for name, shape in (("one", box), ("two", mesh))
    ]
    joints = [urdf_text.joint("a", "base", "one"), urdf_text.joint("b", "one", "two")]
    text = urdf_text.urdf(urdf_text.link("base"), *links, *joints)
    (tmp_path / "arm.urdf").write_text(text)
    robot = load_robot(tmp_path / "arm.urdf")
    made = mjcf_files(robot, standard_vector(robot), urdf=tmp_path / "arm.urdf", name="mine")
    assert list(made.files) == ["mine.xml"] and b'type="box"' in made.files["mine.xml"]
    assert any("two" in str(note) for note in made.notes)
    bare = mjcf_files(robot, standard_vector(robot))
    assert b'type="box"' not in bare.files[f"{robot.name}.xml"], "without a URDF there are no shapes"
