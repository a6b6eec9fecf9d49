# SPDX-License-Identifier: Apache-2.0

"""URDFs written for tests: short to read, with inertias that a body can have."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def link(name: str, rng: np.random.Generator | None = None) -> str:
    """Return a link; with a generator, a box of random size, mass, place and orientation."""
    if rng is None:
        return f'<link name="{name}"/>'
    mass, sides = rng.uniform(0.2, 5), rng.uniform(0.05, 0.5, 3) ** 2
    ixx, iyy, izz = mass / 12 * (sides.sum() - sides)
    xyz, rpy = (" ".join(map(repr, map(float, rng.uniform(-s, s, 3)))) for s in (0.3, 3))
    return (
        f'<link name="{name}"><inertial><origin xyz="{xyz}" rpy="{rpy}"/><mass value="{float(mass)!r}"/>'
        f'<inertia ixx="{float(ixx)!r}" ixy="0" ixz="0" iyy="{float(iyy)!r}" iyz="0" izz="{float(izz)!r}"/>'
        "</inertial></link>"
    )


def joint(
    name: str,
    parent: str,
    child: str,
    *,
    type: str = "revolute",
    xyz: Iterable[float] | str = "0 0 0",
    rpy: Iterable[float] | str = "0 0 0",
    axis: Iterable[float] | str | None = "0 0 1",
    inside: str = "",
) -> str:
    """Return a joint; `inside` is further XML."""

    def words(values: Iterable[float] | str) -> str:
        return values if isinstance(values, str) else " ".join(repr(float(value)) for value in values)

    limit = '<limit lower="-3" upper="3" velocity="2" effort="50"/>' if type in ("revolute", "prismatic") else ""
    return (
        f'<joint name="{name}" type="{type}"><origin xyz="{words(xyz)}" rpy="{words(rpy)}"/>'
        f'<parent link="{parent}"/><child link="{child}"/>'
        + (f'<axis xyz="{words(axis)}"/>' if axis is not None and type != "fixed" else "")
        + (limit if "<limit" not in inside else "")
        + f"{inside}</joint>"
    )


def urdf(*parts: str, name: str = "test") -> str:
    """Return a whole URDF."""
    return f'<?xml version="1.0"?><robot name="{name}">{"".join(parts)}</robot>'
