# SPDX-License-Identifier: Apache-2.0

"""Meshes of a robot description: STL, OBJ and Collada files, within limits of size; STL and Collada by trimesh."""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.robot import Array

Numbers = NDArray[np.intp]
Colour = tuple[float, float, float, float]
MAX_BINARY_BYTES = 100_000_000
MAX_TEXT_BYTES = 20_000_000
"""Text takes about 0.1 s a MB to read."""
MAX_PARTS = 2000
"""Parts of a file, with those that are repeated: a few lines of Collada could stand for billions."""
FORMATS = {"stl": "STL", "obj": "OBJ", "dae": "Collada"}
TOO_MANY_PARTS = f"it has more than {MAX_PARTS} parts"


class MeshError(Exception):
    """Why a mesh cannot be read, in a few words."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices, shape (v, 3) [m], triangles as vertex numbers, shape (k, 3), and their colour (None: the URDF's)."""

    vertices: Array
    triangles: Numbers
    colour: Colour | None = None


def read_meshes(file: Path, *, skip_broken: bool = False) -> list[Mesh]:
    """Return the meshes of an STL, OBJ or Collada file [m], or raise MeshError.

    skip_broken: leave out parts of a Collada file that cannot be read, as a picture may; a collision shape may not.
    """
    kind = file.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise MeshError("not a readable STL, OBJ or Collada file")
    data = _limited_bytes(file, kind)
    try:
        meshes = {"stl": _read_stl, "obj": _read_obj, "dae": _read_collada}[kind](data, skip_broken)
    except (MeshError, MissingPackageError):
        raise
    except Exception as error:  # the library raises whatever a damaged file leads it to
        raise MeshError(f"not a readable {FORMATS[kind]} file ({type(error).__name__})") from None
    meshes = [mesh for mesh in meshes if len(mesh.triangles)]
    if not meshes:
        raise MeshError(f"not a readable {FORMATS[kind]} file: it has no triangles")
    return meshes


def _read_stl(data: bytes, skip_broken: bool) -> list[Mesh]:
    if data.lower().count(b"endsolid") > MAX_PARTS:
        raise MeshError(TOO_MANY_PARTS)
    loaded = _import_reader("stl").load_stl(io.BytesIO(data))
    parts = loaded["geometry"].values() if "geometry" in loaded else [loaded]
    return [_mesh(part, np.eye(4)) for part in parts]


def _read_obj(data: bytes, skip_broken: bool) -> list[Mesh]:
    """Return the mesh of an OBJ.

    Not by trimesh, which takes a corner counted back from its face for one counted back from the end of the file, and
    faces of three and of five corners for faces of four where there are as many of both.
    """
    corners: list[list[float]] = []
    triangles: list[list[int]] = []
    for line in data.splitlines():
        words = line.split()
        if words[:1] == [b"v"]:
            corners.append([float(word) for word in words[1:4]])
        elif words[:1] == [b"f"]:
            numbers = [int(word.split(b"/")[0]) for word in words[1:]]
            place = [len(corners) + k if k < 0 else k - 1 for k in numbers]
            triangles += [[place[0], *edge] for edge in pairwise(place[1:])]
    return [_mesh({"vertices": corners, "faces": triangles}, np.eye(4))]


def _read_collada(data: bytes, skip_broken: bool) -> list[Mesh]:
    if importlib.util.find_spec("collada") is None:
        raise MeshError("Collada meshes need the extra preview: pip install pycollada")
    unit = np.diag([*3 * [_collada_unit(data)], 1.0])
    loaded = _import_reader("dae").load_collada(io.BytesIO(data), ignore_broken=skip_broken)
    return [_mesh(loaded["geometry"][item["geometry"]], unit @ item["matrix"]) for item in loaded["graph"]]


def _import_reader(kind: str) -> ModuleType:
    """Return trimesh's reader of a format: its classes would leave out triangles without a word."""
    try:
        return importlib.import_module(f"trimesh.exchange.{kind}")
    except ImportError:
        raise MissingPackageError("trimesh", "reading meshes") from None


def _limited_bytes(file: Path, kind: str) -> bytes:
    """Return the bytes of a file; text may have fewer than numbers in binary."""
    size = file.stat().st_size
    binary = kind == "stl" and not _is_text(file, size)
    most = MAX_BINARY_BYTES if binary else MAX_TEXT_BYTES
    if size > most:
        raise MeshError(f"{size / 1e6:.0f} MB are more than the {most / 1e6:.0f} MB that are read")
    try:
        return read_bytes(file, most)
    except InputError as error:
        raise MeshError(str(error)) from None


def _is_text(file: Path, size: int) -> bool:
    """Return whether an STL is the kind written as text: binary ones have 50 bytes a triangle after 84."""
    with file.open("rb") as handle:
        head = handle.read(84)
    return len(head) < 84 or size != 84 + 50 * int.from_bytes(head[80:84], "little")


def _mesh(part: Mapping[str, Any], pose: Array) -> Mesh:
    """Return vertices and faces, in the terms of trimesh, at their pose (4, 4) as a mesh [m]."""
    corners, triangles = np.asarray(part["vertices"], dtype=float), np.asarray(part["faces"], dtype=np.intp)
    if not len(triangles):
        return Mesh(np.empty((0, 3)), np.empty((0, 3), dtype=np.intp))
    if not 0 <= triangles.min() <= triangles.max() < len(corners):
        raise MeshError("it has triangles without corners")
    with np.errstate(invalid="ignore"):  # of points that are not finite
        vertices = corners @ pose[:3, :3].T + pose[:3, 3]
    if not np.all(np.isfinite(vertices[triangles])):
        raise MeshError("it has points that are not finite")
    diffuse = getattr(getattr(part.get("visual"), "material", None), "baseColorFactor", None)
    if diffuse is None:
        return Mesh(vertices, triangles)
    red, green, blue = (float(x) / 255.0 for x in diffuse[:3])
    return Mesh(vertices, triangles, (red, green, blue, 1.0))


class _WithoutDoctype(ElementTree.TreeBuilder):
    """Refuses a document type, and with it entities that grow or name other files."""

    def doctype(self, *_: object) -> None:
        raise MeshError("it has a <!DOCTYPE>")


def _collada_unit(data: bytes) -> float:
    """Return the unit of a Collada file [m], and refuse what grows when it is read.

    Its up_axis counts as little as in RViz, MoveIt and coal: a URDF places the numbers of the file.
    """
    try:
        root = ElementTree.fromstring(data, ElementTree.XMLParser(target=_WithoutDoctype()))
    except (ElementTree.ParseError, ValueError, LookupError):
        raise MeshError("not XML") from None
    _limit_parts(root)
    unit = root.find("{*}asset/{*}unit")
    try:
        metres = float("1" if unit is None else unit.get("meter", "1"))
    except ValueError:
        metres = 0.0
    if not 0.0 < metres < np.inf:
        raise MeshError("its unit is not a length")
    return metres


def _limit_parts(root: ElementTree.Element) -> None:
    """Refuse a Collada file whose nodes repeat each other into too many shapes."""
    nodes = {f"#{node.get('id')}": node for node in root.iterfind(".//{*}node")}
    counts: dict[ElementTree.Element, float] = {}

    def count(node: ElementTree.Element) -> float:
        if node not in counts:
            counts[node] = np.inf  # of a node inside itself
            inner = [child if child.tag.endswith("}node") else nodes.get(child.get("url", "")) for child in node]
            shapes = sum(child.tag.endswith("}instance_geometry") for child in node)
            counts[node] = shapes + sum(count(child) for child in inner if child is not None)
        return counts[node]

    try:
        if sum(count(scene) for scene in root.iterfind(".//{*}visual_scene")) > MAX_PARTS:
            raise MeshError(TOO_MANY_PARTS)
    except RecursionError:
        raise MeshError("its nodes are nested too deeply") from None
