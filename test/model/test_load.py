# SPDX-License-Identifier: Apache-2.0

"""Load any robot description: URDF, xacro, MJCF, robot file, or the name of a shipped robot."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model import load
from ros2_dynid.model.load import load_robot, shipped_file, shipped_robots, urdf_of
from ros2_dynid.model.mdh import mdh_transform
from urdf_arm import arm


@pytest.fixture
def files(tmp_path):
    """Return a writer of robot files beside arm.urdf, in a folder that is not the present one."""
    folder = tmp_path / "robots"
    folder.mkdir()
    (folder / "arm.urdf").write_text(arm())

    def write(text, name="r.yaml"):
        (folder / name).write_text(text)
        return folder / name

    return write


def test_what_is_asked_for_counts_before_what_the_file_says(files):
    file = files("urdf: arm.urdf\nbase_link: l1\ntip_link: l3\nhold: {j1: 0.5}\n")
    assert [j.name for j in load_robot(file).joints] == ["j2", "j3"]
    assert [j.name for j in load_robot(file, base_link="l2").joints] == ["j3"]
    assert [j.name for j in load_robot(file, tip_link="l2").joints] == ["j2"]
    assert [j.name for j in load_robot(file, hold={"j3": 0.0}).joints] == ["j2"]
    held = files("urdf: arm.urdf\nhold: {j1: 0.5, j3: 0.25}\n", "held.yaml")
    for given, wanted in ((None, 0.5), ({"j1": -0.7}, -0.7)):
        robot = load_robot(held, hold=given)
        assert [j.name for j in robot.joints] == ["j2"]
        axis = robot.base[:3, :3] @ mdh_transform(robot.joints[0])[:3, 2]
        np.testing.assert_allclose(axis, [-np.sin(wanted), np.cos(wanted), 0.0], atol=1e-12)


def test_limits_that_a_robot_file_names_lie_beside_it(files):
    files(
        "joint_limits: {j2: {max_acceleration: 3.5, min_position: -1.25, max_position: 0.75, max_effort: 9}}\n",
        "l.yaml",
    )
    file = files("urdf: arm.urdf\njoint_limits: l.yaml\n")
    own = load_robot(file).joints[1].limits
    assert (own.lower, own.upper, own.velocity, own.acceleration, own.effort) == (-1.25, 0.75, 2.0, 3.5, 9.0)
    more = files("joint_limits: {j2: {max_acceleration: 1.5}}\n", "more.yaml")
    assert load_robot(file, joint_limits=more).joints[1].limits.acceleration == 1.5


@pytest.mark.parametrize("name", ["", "  ", "demo3\0", "a\0.urdf"])
def test_what_is_no_name_of_a_robot(name):
    with pytest.raises(InputError, match="is not a robot"):
        load_robot(name)


def test_followers_of_a_urdf_stay_beside_those_of_the_file(files):
    mimic = '<mimic joint="j1" multiplier="-0.5" offset="0.2"/>'
    (files("", "x").parent / "arm.urdf").write_text(
        arm().replace('<joint name="j2" type="revolute">', f'<joint name="j2" type="revolute">{mimic}')
    )
    plain = load_robot(files("urdf: arm.urdf\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in plain.passive] == [(2, {1: -0.5}, 0.2)]
    both = load_robot(files("urdf: arm.urdf\npassive: {j3: {j1: 2.0, offset: -0.1}}\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in both.passive] == [(2, {1: -0.5}, 0.2), (3, {1: 2.0}, -0.1)]
    other = load_robot(files("urdf: arm.urdf\npassive: {j2: {j3: 1.5}}\n"))
    assert [(p.joint, dict(p.terms), p.offset) for p in other.passive] == [(2, {3: 1.5}, 0.0)]


@pytest.mark.parametrize(
    ("sensor", "kept"), [("motor", "Ia Fv Fc"), ("link", ""), ("link+Fc", "Fc"), ("link+Ia+Fv", "Ia Fv")]
)
def test_values_of_what_an_effort_does_not_hold_are_dropped(files, sensor, kept):
    values = "{Ia1: 0.1, Fv1: 0.2, Fc1: 0.3, off1: 0.4, Ia2: 0.5, Fv2: 0.6, Fc2: 0.7, off2: 0.8, M2: 0.9}"
    robot = load_robot(files(f"urdf: arm.urdf\njoints: [{{name: j2, sensor: {sensor}}}]\nparameters: {values}\n"))
    assert [joint.measured_drive for joint in robot.joints] == [
        ("Ia", "Fv", "Fc"),
        tuple(kept.split()),
        ("Ia", "Fv", "Fc"),
    ]
    wanted = {"Ia1": 0.1, "Fv1": 0.2, "Fc1": 0.3, "off1": 0.4, "off2": 0.8, "M2": 0.9}
    wanted |= {f"{part}2": value for part, value in (("Ia", 0.5), ("Fv", 0.6), ("Fc", 0.7)) if part in kept.split()}
    assert robot.parameters == wanted


@pytest.mark.parametrize("name", ["arm", "arm.txt", "arm.model"])
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b" \n\t", "utf-16"])
def test_a_urdf_is_known_by_its_text_where_its_name_does_not_tell(tmp_path, name, before):
    text = arm()
    plain = text.replace('<?xml version="1.0"?>', "")
    data = text.encode("utf-16") if before == "utf-16" else before + plain.encode()
    (tmp_path / name).write_bytes(data)
    assert load_robot(tmp_path / name).active_names == ("j1", "j2", "j3")


@pytest.mark.parametrize("text", ["joints: []", "{}", "", "# <robot>"])
def test_what_is_neither_a_urdf_nor_a_robot_file_is_refused(tmp_path, text):
    (tmp_path / "arm.txt").write_text(text)
    with pytest.raises(InputError, match="neither a URDF nor a robot file"):
        load_robot(tmp_path / "arm.txt")


def test_the_urdf_and_the_chain_that_a_file_names(tmp_path):
    for name in ("a.urdf", "b.xml", "c.xacro", "d.URDF"):
        (tmp_path / name).write_text("<robot/>")
    for name, is_urdf in (("a.urdf", True), ("b.xml", True), ("c.xacro", False), ("d.URDF", True)):
        found, chain = urdf_of(tmp_path / name, base_link="x", hold={"j": 1.0})
        assert found == (tmp_path / name if is_urdf else None)
        assert chain == {"base_link": "x", "tip_link": None, "hold": {"j": 1.0}, "floating_base": False}
    file = tmp_path / "r.yaml"
    file.write_text("urdf: a.urdf\nbase_link: low\ntip_link: high\nhold: {j1: 0.5, j2: 1.5}\nfloating_base: true\n")
    found, chain = urdf_of(file)
    assert found == tmp_path / "a.urdf"
    assert chain == {"base_link": "low", "tip_link": "high", "hold": {"j1": 0.5, "j2": 1.5}, "floating_base": True}
    _, chain = urdf_of(file, base_link="mine", hold={"j2": 2.0, "j3": 3.0})
    assert chain["base_link"] == "mine" and chain["hold"] == {"j1": 0.5, "j2": 2.0, "j3": 3.0}
    assert urdf_of(file, tip_link="tip")[1]["tip_link"] == "tip"
    file.write_text("urdf: c.xacro\n")
    assert urdf_of(file)[0] is None
    for text in ("joints: []\n", "[1, 2]\n", "urdf:\n"):
        file.write_text(text)
        found, chain = urdf_of(file, tip_link="t")
        assert found is None and chain == {"base_link": None, "tip_link": "t", "hold": {}, "floating_base": False}


def test_shipped_files(tmp_path, monkeypatch):
    robots = shipped_robots()
    assert robots["puma560"].name == "puma560.yaml" and all(path.is_file() for path in robots.values())
    folder = robots["puma560"].parent
    assert shipped_file("robots/puma560.yaml") == folder / "puma560.yaml"
    for missing in ("robots/none.yaml", "robots"):
        with pytest.raises(InputError, match=f"file config/{missing} is not installed"):
            shipped_file(missing)
    # from a share folder, as installed; a package.xml alone, or config/robots alone, is no checkout
    inner = tmp_path / "lib" / "python" / "ros2_dynid" / "model"
    inner.mkdir(parents=True)
    monkeypatch.setattr(load, "__file__", str(inner / "load.py"))
    assert shipped_robots() == {}
    with pytest.raises(InputError, match="is not installed"):
        shipped_file("x")
    (tmp_path / "lib" / "package.xml").touch()
    (tmp_path / "lib" / "python" / "config" / "robots").mkdir(parents=True)
    assert shipped_robots() == {}
    share = tmp_path / "share" / "ros2_dynid" / "config" / "robots"
    share.mkdir(parents=True)
    (share / "one.yaml").touch()
    (share / "one.urdf").touch()
    (share / "two.urdf").touch()
    assert shipped_robots() == {"one": share / "one.yaml", "two": share / "two.urdf"}
    checkout = tmp_path / "lib" / "config" / "robots"
    checkout.mkdir(parents=True)
    (checkout / "three.yaml").touch()
    assert shipped_robots() == {"three": checkout / "three.yaml"}
