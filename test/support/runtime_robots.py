# SPDX-License-Identifier: Apache-2.0

"""Robots of every kind that the C++ runtime is compared on, and how its programs are compiled."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from oracle import random_robot
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Coupling, Passive
from urdf_oracle import example_urdfs

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "include"
STRICT = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]


def with_terms(robot, rng):
    """Return the robot with every friction law, spread over its joints."""
    terms = [
        FrictionTerm(
            joint,
            kind,
            rng.uniform(0.05, 0.3),
            speed=0.3 if kind is FrictionKind.STRIBECK else 0.0,
            exponent=1.7 if kind is FrictionKind.POWER else 0.0,
            recorded_speed=0.8 * (joint % 3),
        )
        for k, joint in enumerate(robot.active)
        for kind in [kind for kind in FrictionKind if not kind.thermal][k % 2 :: 2]
    ]
    return replace(robot, friction=tuple(terms))


def with_forces(robot):
    """Return the robot with a spring between joints, a cable, and cylinders from the base and between two links."""
    forces = (
        Force("spring", ForceKind.SPRING, (0, 1), {1: 1.0, 4: -0.5}, rest=0.2),
        Force("cable", ForceKind.CABLE, (1, 3), {3: 1.0}),
        Force("balancer", ForceKind.CYLINDER, (0, 1, 2), {}, (Pivot(0, (0.3, 0.1, 0.2)), Pivot(2, (0.1, 0.4, 0.0)))),
        Force("strut", ForceKind.CYLINDER, (1,), {}, (Pivot(5, (0.1, 0.1, 0.2)), Pivot(6, (0.5, 0.2, 0.3))), 0.7),
    )
    return replace(robot, forces=forces)


def coupled_loop(rng):
    """Return a tree with coupled motors and two joints that follow others, at offsets of their own."""
    robot = random_robot(rng, 7, tree=True)
    return replace(
        robot,
        coupling=(Coupling(5, {4: 0.5, 5: 1.0}, True), Coupling(7, {6: -1.0, 7: 2.0})),
        passive=(Passive(2, {1: 1.0, 4: -0.7}, 0.3), Passive(3, {1: -1.0}, -0.4)),
    )


def urdf(name):
    return robot_from_urdf_string(next(p for p in example_urdfs() if p.name == name).read_bytes())


@cache
def robots():
    rng = np.random.default_rng(5)
    tables = sorted(p.stem for p in (ROOT / "config" / "robots").glob("*.yaml"))
    found = {name: load_robot(name) for name in tables}
    found |= {name: urdf(name) for name in ("ur10_robot.urdf", "panda.urdf", "solo.urdf")}
    found["tree"] = random_robot(rng, 9, tree=True)
    found["loop"] = coupled_loop(rng)
    found["terms"] = with_terms(random_robot(rng, 6), rng)
    found["loop with terms"] = with_terms(coupled_loop(rng), rng)
    found["springs"] = with_forces(with_terms(random_robot(rng, 6, tree=True), rng))
    found["loop with springs"] = with_forces(coupled_loop(rng))
    return found
