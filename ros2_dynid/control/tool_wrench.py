# SPDX-License-Identifier: Apache-2.0

"""What a wrist force-torque sensor feels beyond its tool: the wrench measured, less weight, inertia and bias.

The sensor shows w = s Y phi + bias + contact, with Y of the motion (dynamics/sensor_wrench.py), phi the tool's ten
parameters and s = +1 if it shows what the robot exerts on the tool, -1 if the opposite. The rest, w - s Y phi - bias,
has the sensor's own sign; -s of it is what the surroundings exert on the tool. Its standard deviation is that of the
sensor's noise, of the bias and of the tool's parameters, which are taken as independent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ros2_dynid.control.held_load import Load, checked_load
from ros2_dynid.dynamics.kinematics import frames, jacobian
from ros2_dynid.dynamics.sensor_wrench import AXES, sensor_regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.files import as_mapping, read_bytes
from ros2_dynid.model.robot import Array, Robot

MAX_BYTES = 1_000_000
ZERO_SAMPLES = 50
"""Wrenches whose mean is taken for the bias."""


def _zeros() -> Array:
    return np.zeros(AXES)


@dataclass(frozen=True, eq=False)
class SensorTool:
    """A tool in the frame of the sensor's link, and the sensor: bias (6,) [N, N.m], sign, as `dynid tool` finds them.

    mass [kg], com (3,) [m], inertia about it (3, 3) [kg.m^2]; *_std: standard deviations, zero where not known; noise:
    level of each axis (6,).
    """

    link: str
    mass: float
    com: Array
    inertia: Array
    bias: Array
    sign: int = 1
    mass_std: float = 0.0
    com_std: Array | None = None
    inertia_std: Array | None = None
    bias_std: Array | None = None
    noise: Array | None = None

    @property
    def parameters(self) -> Array:
        """Ten parameters about the frame's origin, shape (10,)."""
        c, J = self.com, self.inertia + self.mass * (self.com @ self.com * np.eye(3) - np.outer(self.com, self.com))
        return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(self.mass * c), self.mass))

    @property
    def parameters_std(self) -> Array:
        """Standard deviations of the ten parameters, shape (10,)."""
        com_std = np.zeros(3) if self.com_std is None else self.com_std
        own = np.zeros((3, 3)) if self.inertia_std is None else self.inertia_std
        moment = np.hypot(self.mass * com_std, self.com * self.mass_std)
        c, pairs = self.com, ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        # about the origin, m c_i c_j is added: its part comes through the first moments
        shifted = [np.hypot(own[i, j], c[i] * moment[j] + c[j] * moment[i]) for i, j in pairs]
        return np.array((*shifted, *moment, self.mass_std))


@dataclass(frozen=True, eq=False)
class FeltWrench:
    """What a sensor feels beyond its tool, shape (6,) each, force first [N, N.m]: in its frame and sign, and its std.

    external: what the surroundings exert on the tool, in the sensor's frame.
    """

    wrench: Array
    std: Array
    external: Array


def feel_wrench(robot: Robot, tool: SensorTool, q: Array, dq: Array, ddq: Array, wrench: Array) -> FeltWrench:
    """Return what a measured wrench (6,) holds beyond the tool, for a motion q, dq, ddq of shape (n,) each."""
    Y = sensor_regressor(robot, tool.link, q[None], dq[None], ddq[None])[0]
    left = wrench - tool.bias - tool.sign * (Y @ tool.parameters)
    parts = (
        _zeros() if tool.noise is None else tool.noise,
        _zeros() if tool.bias_std is None else tool.bias_std,
        np.sqrt(Y**2 @ tool.parameters_std**2),
    )
    return FeltWrench(left, np.sqrt(sum(part**2 for part in parts)), -tool.sign * left)


def moved_wrench(robot: Robot, q: Array, wrench: Array, link: str, target: str) -> Array:
    """Return a wrench (6,) at the origin and in the frame of `link` at those of `target`, for q of shape (n,).

    target: a link of the robot, or "" for the base link.
    """
    T = np.linalg.inv(_pose(robot, q, target)) @ _pose(robot, q, link)
    force = T[:3, :3] @ wrench[:3]
    return np.concatenate((force, T[:3, :3] @ wrench[3:] + np.cross(T[:3, 3], force)))


def effort_of_wrench(robot: Robot, q: Array, external: Array, link: str) -> Array:
    """Return the joint torques J^T F, shape (n,), that a wrench on a link, in its frame, makes."""
    return np.asarray(jacobian(robot, q[None], link)[0].T @ external)


def _pose(robot: Robot, q: Array, link: str) -> Array:
    """Return the transform base link -> link, shape (4, 4)."""
    if not link:
        return np.eye(4)
    if link not in robot.tools:
        raise InputError(f"the robot has no link {link!r}", f"choose from {', '.join(robot.tools)}", robot.name)
    carrier, pose = robot.tools[link]
    return np.asarray(frames(robot, q[None])[0, carrier - 1] @ pose if carrier else pose)


def with_load(tool: SensorTool, load: Load, robot: Robot) -> SensorTool:
    """Return the sensor with another tool, given in its joint's frame; mass 0: none. Its error bars are not known."""
    load = checked_load(load)
    carrier, pose = robot.tools[tool.link]
    if load.joint != carrier:
        what = f"the tool is at joint {load.joint}, the sensor's link {tool.link!r} at joint {carrier}"
        raise InputError(what, "give it at a link behind the sensor", robot.name)
    R, p = pose[:3, :3], pose[:3, 3]
    com = R.T @ (load.com - p) if load.mass else np.zeros(3)
    bare = SensorTool(tool.link, load.mass, com, R.T @ load.inertia @ R, tool.bias, tool.sign)
    return replace(bare, bias_std=tool.bias_std, noise=tool.noise)


def zeroed(tool: SensorTool, left: Array) -> SensorTool:
    """Return the tool with the bias for which these wrenches beyond it, shape (N, 6), are zero on average."""
    if len(left) < ZERO_SAMPLES:
        raise InputError(f"{len(left)} wrenches have come", f"wait for {ZERO_SAMPLES}, without contact")
    std = left.std(axis=0, ddof=1) / np.sqrt(len(left))
    return replace(tool, bias=tool.bias + left.mean(axis=0), bias_std=std)


def read_tool(path: Path) -> SensorTool:
    """Return the tool of a file that `dynid tool` printed."""
    source = str(path)
    try:
        top = as_mapping(json.loads(read_bytes(path, MAX_BYTES)), "the file of the tool", source)
        std, sensor_std = (as_mapping(top[key], key, source) for key in ("std", "sensor_std"))
        return SensorTool(
            str(top["frame"]),
            float(_finite(top, "mass", ())),
            _finite(top, "com", (3,)),
            _finite(top, "inertia", (3, 3)),
            _finite(top, "bias", (AXES,)),
            -1 if _finite(top, "sign", ()) < 0 else 1,
            float(_finite(std, "mass", ())),
            _finite(std, "com", (3,)),
            _finite(std, "inertia", (3, 3)),
            _finite(sensor_std, "bias", (AXES,)),
            _finite(top, "residual", (AXES,)),
        )
    except (ValueError, KeyError, TypeError) as error:
        hint = "write it with dynid tool, as JSON"
        raise InputError(f"it is not what dynid tool prints: {error}", hint, source) from None


def _finite(entry: Mapping[object, object], key: str, shape: tuple[int, ...]) -> Array:
    value = np.array(entry[key], dtype=float)
    if value.shape != shape or not np.all(np.isfinite(value)):
        raise ValueError(f"{key} is {entry[key]!r}")
    return value
