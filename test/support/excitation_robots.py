# SPDX-License-Identifier: Apache-2.0

"""Robots that the tests of this folder share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Limits, Passive, Robot

TABLE_6 = {
    "ZZ1": 5.0186, "XX2": -2.05, "XY2": 0.7, "XZ2": -1.07, "YZ2": 0.65, "ZZ2": 6.55, "MX2": 4.3, "MY2": 0.6,
    "XX3": 0.7634, "XY3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZ3": 0.9646, "MX3": 0.528, "MY3": 1.14,
}  # fmt: skip
"""Base parameters of Gautier 1992, Table 6, as standard parameters that lead to them."""


FEW_STEPS = {"time_budget_s": 1000.0, "starts": 1, "iterations": 5}
"""Options of a short search whose result does not depend on the speed of the machine."""


def three_dof(velocity: float = 3.0, *, parameters: bool = True, **limits: float) -> Robot:
    """Return the robot of Gautier 1992, Table 1, with limits of +-pi rad, 10 rad/s^2 and 200 N.m."""
    values = {"lower": -np.pi, "upper": np.pi, "velocity": velocity, "acceleration": 10.0, "effort": 200.0} | limits
    bounds = Limits(**values)
    joints = (
        Joint("j1", 0, limits=bounds),
        Joint("j2", 1, alpha=-np.pi / 2, limits=bounds),
        Joint("j3", 2, d=0.5, r=0.2, limits=bounds),
    )
    return Robot("three", joints, parameters=TABLE_6 if parameters else {})


def uneven() -> Robot:
    """Return the robot demo3 with limits of its own for each joint, none of them symmetric."""
    limits = (
        Limits(-1.0, 2.0, 3.0, 5.0, effort=500.0),
        Limits(-2.0, -0.5, 1.0, 7.0, effort=400.0),
        Limits(0.2, 1.2, 2.0, 4.0, effort=300.0),
    )
    robot = load_robot("demo3")
    return replace(robot, joints=tuple(replace(one, limits=x) for one, x in zip(robot.joints, limits, strict=True)))


def example_urdf(path: str) -> Path:
    """Return a URDF of example-robot-data."""
    import pinocchio

    return Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots" / path


def with_follower() -> Robot:
    """Return an arm of three active joints and one that follows two of them: numbers 1, 3 and 4 are the active ones.

    No two joints share a limit, and none of the position limits is symmetric.
    """
    joints = (
        Joint("turn", 0, limits=Limits(-1.0, 2.0, 3.0, 5.0, effort=500.0)),
        Joint("follower", 1, alpha=-np.pi / 2, d=0.1, limits=Limits(-4.0, 5.0, 9.0, 40.0, effort=1.0)),
        Joint("lift", 2, d=0.4, r=0.1, limits=Limits(-2.0, -0.5, 1.0, 7.0, effort=400.0)),
        Joint("tilt", 3, d=0.3, alpha=0.4, limits=Limits(0.2, 1.2, 2.0, 4.0, effort=300.0)),
    )
    parameters = {
        f"{kind}{j}": value * (1 + 0.1 * j)
        for j in (1, 2, 3, 4)
        for kind, value in {"M": 4.0, "MX": 0.6, "MY": 0.2, "MZ": -0.1, "XX": 0.3, "YY": 0.4, "ZZ": 0.5}.items()
    } | {"Fv1": 2.0, "Fc1": 3.0, "Fv3": 1.0, "Fc3": 2.0, "Fv4": 0.5, "Fc4": 1.0}
    return Robot("follows", joints, passive=(Passive(2, {1: -0.1, 3: 0.2}, 0.3),), parameters=parameters)
