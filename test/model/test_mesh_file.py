# SPDX-License-Identifier: Apache-2.0

"""Meshes from files: as coal (assimp) has them, whole or refused, and never more work than the limits allow."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from excitation_robots import example_urdf
from ros2_dynid.excitation.shapes import read_triangles
from ros2_dynid.model.mesh_file import MeshError, read_meshes

pytest.importorskip("trimesh")

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], dtype=float)
FACES = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
VERTICES = "".join(f"v {x:g} {y:g} {z:g} 0.5 0.5 0.5\n" for x, y, z in CORNERS)


def binary(triangles):
    data = bytes(80) + struct.pack("<I", len(triangles))
    for one in triangles:
        data += struct.pack("<12fH", 9.0, 9.0, 9.0, *one.ravel(), 7)
    return data


def area(triangles):
    edges = np.diff(triangles, axis=1)
    return 0.5 * np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1).sum()


@pytest.mark.parametrize(
    "name",
    [
        "ur_description/meshes/ur5/collision/forearm.stl",
        "tiago_description/meshes/torso/torso_lift_collision_core.dae",
        "baxter_description/meshes/torso/base_link.DAE",
        "solo_description/meshes/obj/with_foot/solo_foot.obj",
        "alexander_description/meshes/Foot.obj",
    ],
)
def test_meshes_are_those_that_coal_reads(name):
    """Y up and Z up, units and placed nodes in Collada; triangles, quads and polygons in OBJ."""
    coal = pytest.importorskip("coal")
    if name.lower().endswith(".dae"):
        pytest.importorskip("collada")
    file = Path(example_urdf("ur_description/urdf/ur5_robot.urdf")).parents[2] / name
    ours = read_triangles(file)
    theirs = coal.MeshLoader(coal.BV_OBBRSS).load(str(file), np.ones(3))
    corners = theirs.vertices()
    for end in (np.min, np.max):
        np.testing.assert_allclose(end(ours, axis=(0, 1)), end(corners, axis=0), atol=1e-6)
    numbers = np.array([[theirs.tri_indices(k)[i] for i in range(3)] for k in range(theirs.num_tris)])
    assert area(ours) == pytest.approx(area(corners[numbers]), rel=1e-3), "bent quads are cut either way"


def test_triangles_of_files(tmp_path):
    wanted = CORNERS[FACES]
    (tmp_path / "a.STL").write_bytes(binary(wanted))
    text = "".join(
        "facet normal 0 0 1\nouter loop\n" + "".join(f"vertex {x:g} {y:g} {z:g}\n" for x, y, z in one) + "endloop\n"
        for one in wanted
    )
    (tmp_path / "b.stl").write_text(f"solid x\n{text}endsolid x\n")
    faces = "".join(f"f {a + 1}/1/2 {b + 1}//3 {c + 1}\n" for a, b, c in FACES)
    (tmp_path / "c.obj").write_text(f"# a comment\n{VERTICES}vn 1 0 0\n{faces}")
    (tmp_path / "d.obj").write_bytes(f"{VERTICES}vn 1 0 0\n{faces}".replace("f ", "  f\t").encode())
    (tmp_path / "e.obj").write_bytes(f"{VERTICES}vn 1 0 0\n{faces}".replace("\n", "\r\n").encode())
    (tmp_path / "f.obj").write_text(
        VERTICES + "mtllib gone.mtl\no a\nf 1 2 3\nusemtl b\no b\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
    )
    for name in ("a.STL", "b.stl", "c.obj", "d.obj", "e.obj", "f.obj"):
        np.testing.assert_allclose(read_triangles(tmp_path / name), wanted, err_msg=name)
    (tmp_path / "g.obj").write_text("\n".join([*VERTICES.splitlines()[:3], "f -3 -2 -1", "v 0 0 3 ", "f -4 2 -1", "f"]))
    np.testing.assert_allclose(read_triangles(tmp_path / "g.obj"), wanted[:2], err_msg="back from the face")
    (tmp_path / "five.obj").write_text(VERTICES + "v 1 1 1\nf 1 2 3 4 5\nf 1 2 3\n")
    assert len(read_triangles(tmp_path / "five.obj")) == 4
    (tmp_path / "quad.obj").write_text(VERTICES + "f 1 2 3 4\n")
    found = {frozenset(map(tuple, one)) for one in read_triangles(tmp_path / "quad.obj")}
    assert found == {frozenset(map(tuple, CORNERS[one])) for one in ([0, 1, 2], [0, 2, 3])}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("before.obj", VERTICES + "f -1 -2 -5\n"),
        ("zero.obj", VERTICES + "f 0 1 2\n"),
        ("last_zero.obj", VERTICES + "f 1 2 0\n"),
        ("none.obj", VERTICES),
        ("far.obj", VERTICES + "f 1 2 9\n"),
        ("odd.obj", VERTICES + "f a b c\n"),
        ("nan.obj", VERTICES + "v nan 0 0\nf 1 2 5\n"),
        ("short.stl", bytes(83)),
        ("nan.stl", binary(np.full((1, 3, 3), np.nan))),
        ("empty.stl", binary(np.zeros((0, 3, 3)))),
        ("more.stl", binary(CORNERS[FACES]) + b"x"),
        ("cut.stl", "solid x\n" + "vertex 0 0 0\n" * 3),
        ("word.stl", "solid x\n" + "vertex a 0 0\n" * 3 + "endsolid x\n"),
        ("nothing.stl", "solid nothing"),
        ("x.dae", "<x/>"),
        ("x.png", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_read_whole_is_refused(tmp_path, name, data):
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    assert read_triangles(tmp_path / name) is None
    with pytest.raises(MeshError):
        read_meshes(tmp_path / name)


DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><created>2020-01-01T00:00:00</created><modified>2020-01-01T00:00:00</modified>
<unit name="x" meter="{unit}"/><up_axis>{up}</up_axis></asset>
<library_effects><effect id="e"><profile_COMMON><technique sid="c"><phong>
<diffuse><color>0.25 1.5 0.75 0.5</color></diffuse></phong></technique></profile_COMMON></effect></library_effects>
<library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh><source id="s"><float_array id="f" count="9">{points}</float_array>
<technique_common><accessor source="#f" count="3" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#s"/></vertices>
<triangles count="1" material="m"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="vs"><node id="n"><translate>10 0 0</translate><instance_geometry url="#g">
<bind_material><technique_common><instance_material symbol="m" target="#m"/></technique_common></bind_material>
</instance_geometry></node></visual_scene></library_visual_scenes>
<scene>{scene}</scene></COLLADA>
"""
SHOWN = '<instance_visual_scene url="#vs"/>'


def test_a_collada_file_is_placed_scaled_and_coloured(tmp_path):
    """Its up axis does not count: neither RViz nor MoveIt nor coal turns the numbers of a file."""
    pytest.importorskip("collada")
    points = np.array([[1.0, 2.0, 3.0], [4.0, 2.0, 3.0], [1.0, 5.0, 7.0]])
    text = " ".join(map(str, points.ravel()))
    file = tmp_path / "x.dae"
    for up in ("Z_UP", "Y_UP", "X_UP"):
        file.write_text(DAE.format(unit=0.01, up=up, points=text, scene=SHOWN))
        (mesh,) = read_meshes(file)
        wanted = 0.01 * (points + np.array([10.0, 0.0, 0.0]))
        np.testing.assert_allclose(mesh.vertices[mesh.triangles[0]], wanted, atol=1e-7)
        np.testing.assert_allclose(mesh.colour, (0.25, 1.0, 0.75, 1.0), atol=0.5 / 255, err_msg="in steps of 8 bits")
    for unit, scene, changed in (
        (1.0, SHOWN, text.replace("7.0", "inf")), (1.0, "", text), (0.0, SHOWN, text), ("x", SHOWN, text),
        ("nan", SHOWN, text), (1.0, SHOWN.replace("vs", "gone"), text),
    ):  # fmt: skip
        file.write_text(DAE.format(unit=unit, up="Z_UP", points=changed, scene=scene))
        with pytest.raises(MeshError):
            read_meshes(file)


@pytest.mark.parametrize(
    ("data", "why"),
    [(b'<!DOCTYPE x [<!ENTITY a "b">]><COLLADA/>', "DOCTYPE"), (b"<COLLADA", "not XML"), (b"<x/>", "not a readable")],
)
def test_a_collada_file_that_is_none_is_refused(tmp_path, data, why):
    pytest.importorskip("collada")
    (tmp_path / "a.dae").write_bytes(data)
    with pytest.raises(MeshError, match=why):
        read_meshes(tmp_path / "a.dae")


@pytest.mark.timeout(20)
def test_few_lines_that_stand_for_many_parts_are_refused(tmp_path):
    pytest.importorskip("collada")
    twice = '<instance_node url="#n{0}"/>' * 2
    nodes = "".join(f'<node id="n{k + 1}">{twice.format(k)}</node>' for k in range(40))
    text = DAE.format(unit=1, up="Z_UP", points="0 0 0 1 0 0 0 1 0", scene=SHOWN)
    library = f'<library_nodes><node id="n0"><instance_geometry url="#g"/></node>{nodes}</library_nodes>'
    text = text.replace("<library_visual_scenes>", library + "<library_visual_scenes>")
    deep = "<node>" * 100_000 + "</node>" * 100_000
    for inside in ('<instance_node url="#n40"/>', '<node id="round"><instance_node url="#round"/></node>', deep):
        (tmp_path / "x.dae").write_text(text.replace('<node id="n">', '<node id="n">' + inside))
        with pytest.raises(MeshError):
            read_meshes(tmp_path / "x.dae")
    (tmp_path / "x.dae").write_text(text.replace('<node id="n">', '<node id="n"><instance_node url="#n3"/>'))
    assert len(read_meshes(tmp_path / "x.dae")) == 9
    facet = "vertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n"
    (tmp_path / "x.stl").write_text(f"solid x\n{facet}endsolid x\n" * 100_000)
    with pytest.raises(MeshError, match="parts"):
        read_meshes(tmp_path / "x.stl")


@pytest.mark.parametrize(("name", "most"), [("x.obj", 20_000_000), ("x.DAE", 20_000_000), ("x.stl", 20_000_000)])
def test_text_over_20_mb_is_not_read(tmp_path, name, most):
    file = tmp_path / name
    with file.open("wb") as handle:
        handle.truncate(most + 1)
    if name == "x.stl":
        with file.open("r+b") as handle:
            handle.write(b"solid x")
    with pytest.raises(MeshError, match="20 MB are more than the 20 MB"):
        read_meshes(file)
