# SPDX-License-Identifier: Apache-2.0

"""A scene as the plain data that the page's script reads: numbers packed in base64, names as they are."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.codec import Plain
from ros2_dynid.excitation.collision import Nearest, Shapes
from ros2_dynid.model.mesh_file import Mesh
from ros2_dynid.model.robot import Array
from ros2_dynid.preview.bodies import Body
from ros2_dynid.preview.scene import Appearance, MotionData, Scene

STEPS = 65535
"""Steps that a mesh's extent is divided into along each axis: 16 bits a coordinate."""


def packed_scene(scene: Scene) -> dict[str, Plain]:
    """Return a scene as plain data."""
    return {
        "robot": packed_appearance(scene.appearance),
        "motion": packed_motion(scene.motion, scene.appearance.shapes),
        "warning": scene.warning,
        "notes": [str(note) for note in scene.notes],
    }


def packed_appearance(look: Appearance) -> dict[str, Plain]:
    """Return a robot without its motion."""
    skeleton = look.skeleton
    meshes: list[Plain] = []
    bodies = [_body(body, meshes) for body in look.bodies]
    return {
        "name": look.name,
        "active": list(skeleton.active),
        "joints": [
            {"name": link.name, "parent": link.parent, "prismatic": link.prismatic, "zero": _rows(link.zero)}
            for link in skeleton.links
        ],
        "base": _rows(skeleton.base),
        "G": skeleton.G.tolist(),
        "offset": skeleton.offset.tolist(),
        "bodies": bodies,
        "meshes": meshes,
        "tips": [{"link": tip.link, "joint": tip.joint, "point": _short(tip.point)} for tip in look.tips],
        "capsules": [] if look.shapes is None else _capsules(look.shapes),
        "floor": look.floor,
        "box": None if look.box is None else [x if np.isfinite(x) else None for x in look.box],
        "up": _short(look.up),
        "obstacles": [entry.plain() for entry in look.obstacles],
    }


def packed_motion(motion: MotionData, shapes: Shapes | None) -> dict[str, Plain]:
    """Return samples, limits and distances of a motion."""
    limits = {name: _finite(getattr(motion, name)) for name in ("lower", "upper", "velocity", "acceleration", "effort")}
    return {
        "kind": motion.kind,
        "duration": motion.duration,
        "count": len(motion.q),
        **{name: floats(getattr(motion, name)) for name in ("q", "dq", "ddq", "tau", "path")},
        "limits": limits,
        "use": {kind: _finite(fraction) for kind, fraction in motion.use.items()},
        "nearest": None if motion.nearest is None or shapes is None else _nearest(motion.nearest, shapes),
    }


def _nearest(nearest: Nearest, shapes: Shapes) -> Mapping[str, Plain] | None:
    if not np.isfinite(nearest.distance).all():
        return None
    return {
        "distance": floats(nearest.distance),
        "first": _encoded(nearest.first.astype("<i4")),
        "second": _encoded(nearest.second.astype("<i4")),
        "p": floats(nearest.p),
        "r": floats(nearest.r),
        "margin": shapes.margin,
        "links": list(shapes.links),
        "obstacles": [one.name for one in shapes.obstacles],
    }


def _capsules(shapes: Shapes) -> list[Plain]:
    return [
        {"joint": int(joint), "a": _short(a), "b": _short(b), "radius": float(radius)}
        for joint, a, b, radius in zip(shapes.joint, shapes.a, shapes.b, shapes.radius, strict=True)
    ]


def _body(body: Body, meshes: list[Plain]) -> Plain:
    number = None
    if body.mesh is not None:
        number = len(meshes)
        meshes.append(_mesh(body.mesh))
    return {
        "link": body.link,
        "joint": body.joint,
        "pose": _rows(body.pose),
        "kind": body.kind,
        "size": list(body.size),
        "colour": _short(body.colour),
        "mesh": number,
    }


def _mesh(mesh: Mesh) -> Plain:
    low = mesh.vertices.min(axis=0)
    step = np.maximum(np.ptp(mesh.vertices, axis=0), 1e-9) / STEPS
    places = np.rint((mesh.vertices - low) / step).astype("<u2")
    return {
        "low": _short(low, 8),
        "step": _short(step, 8),
        "vertices": _encoded(places),
        "triangles": _encoded(mesh.triangles.astype("<u4")),
    }


def floats(values: Array) -> str:
    """Return an array as base64 of little-endian 32-bit floats, row by row."""
    return _encoded(np.ascontiguousarray(values, dtype="<f4"))


def _encoded(values: NDArray[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _rows(T: Array) -> list[float]:
    """Return a transform (4, 4) as 16 numbers, row by row."""
    return [float(f"{x:.9g}") for x in T.ravel()]


def _short(values: Array | Sequence[float], digits: int = 6) -> list[float]:
    return [float(f"{x:.{digits}g}") for x in values]


def _finite(values: Array) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in values]
