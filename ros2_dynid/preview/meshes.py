# SPDX-License-Identifier: Apache-2.0

"""Meshes for pictures: corners at the same place joined, and few enough triangles for a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ros2_dynid.model.mesh_file import Colour, Mesh, Numbers, read_meshes
from ros2_dynid.model.robot import Array

GREY: Colour = (0.72, 0.75, 0.78, 1.0)


def read_picture_meshes(file: Path) -> list[Mesh]:
    """Return the meshes of a file, without parts that cannot be read or are flat, with corners at one place joined."""
    meshes = [
        replace(indexed(mesh.vertices[mesh.triangles]), colour=mesh.colour)
        for mesh in read_meshes(file, skip_broken=True)
    ]
    return [mesh for mesh in meshes if len(mesh.triangles)]


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
