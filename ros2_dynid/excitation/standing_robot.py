# SPDX-License-Identifier: Apache-2.0

"""A robot that stands still beside ours: its collision shapes at given positions, as capsules that cover them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.shapes import capsules_of, urdf_solids
from ros2_dynid.model.load import load_robot, urdf_of


def standing_capsules(path: Path, q: Mapping[str, float]) -> list[list[float]]:
    """Return x, y, z, X, Y, Z, radius [m] of each capsule in the frame of the robot's base link.

    path: of its URDF or robot file; q: positions of its joints [rad or m], 0 where not given.
    """
    robot = load_robot(path)
    unknown = sorted(set(q) - set(robot.active_names))
    if unknown:
        raise InputError(
            f"it has no joint {unknown[0]!r}", f"its joints are {', '.join(robot.active_names)}", str(path)
        )
    urdf, chain = urdf_of(path)
    if urdf is None:
        raise InputError("it has no URDF, and so no collision shapes", "give its capsules instead", str(path))
    solids, missing = urdf_solids(robot, urdf, **chain)
    if not solids or missing:
        what = f"the shapes of {', '.join(missing[:6])} were not found" if missing else "it has no collision shapes"
        raise InputError(what, "give its capsules, or the folder of its meshes", str(path))
    T = [np.eye(4), *frames(robot, np.array([[q.get(name, 0.0) for name in robot.active_names]]))[0]]
    rows = []
    for _, joint, a, b, radius in capsules_of(solids):
        ends = [(T[joint] @ np.append(end, 1.0))[:3] for end in (a, b)]
        rows.append([*np.round(np.concatenate(ends), 6).tolist(), float(np.ceil(radius * 1e6) / 1e6)])
    return rows
