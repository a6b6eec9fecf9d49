# SPDX-License-Identifier: Apache-2.0

"""Meshes for pictures: read from STL, OBJ and Collada, made small enough for a page, and packed.

A mesh is indexed here: vertices, shape (v, 3) [m], and triangles as their numbers, shape (k, 3).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.excitation.shapes import read_triangles
from ros2_dynid.model.files import read_bytes
from ros2_dynid.model.robot import Array

Numbers = NDArray[np.intp]
Colour = tuple[float, float, float, float]
MAX_BINARY_BYTES = 100_000_000
MAX_TEXT_BYTES = 20_000_000
"""Text takes about 0.1 s a MB to read: a larger mesh takes too long, and its collision shape is drawn instead."""
GREY: Colour = (0.72, 0.75, 0.78, 1.0)


class MeshError(Exception):
    """Why a mesh cannot be drawn, in a few words."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices, shape (v, 3) [m], triangles as vertex numbers, shape (k, 3), and their colour (None: the URDF's)."""

    vertices: Array
    triangles: Numbers
    colour: Colour | None = None


class _Material(Protocol):
    effect: object


class _Primitive(Protocol):
    """The part of pycollada's bound primitives that is used."""

    vertex: Array | None
    vertex_index: Numbers | None
    material: _Material | None


def read_meshes(file: Path) -> list[Mesh]:
    """Return the meshes of an STL, OBJ or Collada file [m], or raise MeshError."""
    suffix, size = file.suffix.lower(), file.stat().st_size
    text = suffix in (".obj", ".dae") or (suffix == ".stl" and _is_text(file))
    max_bytes = MAX_TEXT_BYTES if text else MAX_BINARY_BYTES
    if size > max_bytes:
        raise MeshError(f"{size / 1e6:.0f} MB are more than the {max_bytes / 1e6:.0f} MB that are read")
    if suffix == ".dae":
        return list(_collada(file))
    triangles = read_triangles(file)
    if triangles is None or not len(triangles):
        raise MeshError("not a readable STL, OBJ or Collada file")
    return [indexed(triangles)]


def _is_text(file: Path) -> bool:
    """Return whether an STL is the kind written as text: binary ones have 50 bytes a triangle after 84."""
    with file.open("rb") as handle:
        head = handle.read(84)
    count = int.from_bytes(head[80:84], "little")
    return len(head) < 84 or file.stat().st_size != 84 + 50 * count


def indexed(triangles: Array) -> Mesh:
    """Return a mesh of triangles, shape (k, 3, 3), with corners at the same place joined."""
    return _merged(triangles.reshape(-1, 3), np.arange(3 * len(triangles)).reshape(-1, 3), None)


def _merged(vertices: Array, triangles: Numbers, cell: float | None) -> Mesh:
    """Join vertices in the same cell of a grid of this size [m], None for rounding only, and drop what collapses."""
    low = vertices.min(axis=0)
    size = cell or max(float(np.ptp(vertices, axis=0).max()), 1e-9) * 2.0**-20
    grid = np.floor((vertices - low) / size + 0.5).astype(np.int64)
    key = (grid[:, 0] << 42) + (grid[:, 1] << 21) + grid[:, 2]
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    if cell is None:
        unique = vertices[first]
    else:  # the middle of what falls together, so that surfaces do not move to one side
        count = np.bincount(place).astype(float)
        unique = np.stack([np.bincount(place, weights=vertices[:, k]) / count for k in range(3)], axis=1)
    corners = place[triangles]
    flat = (corners[:, 0] == corners[:, 1]) | (corners[:, 1] == corners[:, 2]) | (corners[:, 2] == corners[:, 0])
    corners = corners[~flat]
    _, once = np.unique(np.sort(corners, axis=1), axis=0, return_index=True) if cell else (None, slice(None))
    corners = corners[once]
    indices, numbers = np.unique(corners, return_inverse=True)
    return Mesh(unique[indices], numbers.reshape(-1, 3))


def decimated(mesh: Mesh, max_triangles: int) -> Mesh:
    """Return the mesh with at most about `max_triangles` triangles, by joining the vertices in each cell of a grid.

    The number of triangles grows with the square of the cells along an edge, so a few steps find the cell.
    """
    if len(mesh.triangles) <= max_triangles:
        return mesh
    extent = max(float(np.ptp(mesh.vertices, axis=0).max()), 1e-9)
    cells = np.sqrt(max_triangles)
    coarse = mesh
    for _ in range(6):
        coarse = _merged(mesh.vertices, mesh.triangles, extent / cells)
        if len(coarse.triangles) <= max_triangles:
            break
        cells *= max(0.9 * np.sqrt(max_triangles / len(coarse.triangles)), 0.2)
    return Mesh(coarse.vertices, coarse.triangles, mesh.colour)


def _collada(file: Path) -> Iterator[Mesh]:
    """Yield the meshes of a Collada file, placed, in metres and with z up."""
    if importlib.util.find_spec("collada") is None:
        raise MeshError("Collada meshes need the extra preview: pip install pycollada")
    collada = importlib.import_module("collada")
    data = read_bytes(file, MAX_TEXT_BYTES)
    _refuse_doctype(data)
    try:
        document = collada.Collada(io.BytesIO(data), ignore=[Exception])
        asset = document.assetInfo
        to_base = _up(str(asset.upaxis)) * float(asset.unitmeter or 1.0)
        parts = [part for geometry in document.scene.objects("geometry") for part in geometry.primitives()]
        for part in parts:
            mesh = _collada_part(part, to_base)
            if mesh is not None:
                yield mesh
    except MeshError:
        raise
    except Exception as error:  # the library raises whatever a damaged file leads it to
        raise MeshError(f"not a readable Collada file ({type(error).__name__})") from None
    if not parts:
        raise MeshError("it has no triangles")


def _collada_part(part: _Primitive, to_base: Array) -> Mesh | None:
    triangles = part.triangleset() if hasattr(part, "triangleset") else part
    vertices, corners = triangles.vertex, triangles.vertex_index
    if vertices is None or corners is None or not len(corners) or np.shape(corners)[1:] != (3,):
        return None
    points = np.asarray(vertices, dtype=float) @ to_base.T
    if not np.all(np.isfinite(points)):
        raise MeshError("it has points that are not finite")
    mesh = _merged(points, np.asarray(corners, dtype=np.intp), None)
    diffuse = getattr(getattr(part.material, "effect", None), "diffuse", None)
    colour = None
    if isinstance(diffuse, tuple) and len(diffuse) >= 3 and np.all(np.isfinite(diffuse)):
        red, green, blue = (float(np.clip(x, 0.0, 1.0)) for x in diffuse[:3])
        colour = (red, green, blue, 1.0)
    return Mesh(mesh.vertices, mesh.triangles, colour) if len(mesh.triangles) else None


def _up(axis: str) -> Array:
    """Return the rotation (3, 3) from Collada's axes to ours, z up."""
    if axis == "Y_UP":
        return np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    if axis == "X_UP":
        return np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    return np.eye(3)


def _refuse_doctype(data: bytes) -> None:
    """Refuse a document type, and with it entities that grow or name other files."""

    def refuse(*_: object) -> None:
        raise MeshError("it has a <!DOCTYPE>")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        raise MeshError("not XML") from None
