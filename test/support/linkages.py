# SPDX-License-Identifier: Apache-2.0

"""Linkages with closed loops: of drives, of hydraulic arms, of parallel robots, and random ones in space."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oracle import random_linkage
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Loops, Robot

UPRIGHT = np.pi / 2
CRANK, COUPLER, ROCKER, GROUND = 0.3, 0.9, 0.7, 1.0


def four_bar() -> Robot:
    """Return a crank and rocker in the vertical plane, cut between coupler and rocker."""
    joints = (
        Joint("crank", 0, alpha=UPRIGHT),
        Joint("coupler", 1, d=CRANK),
        Joint("rocker", 0, alpha=UPRIGHT, d=GROUND),
    )
    pair = (Pivot(2, (COUPLER, 0.0, 0.0)), Pivot(3, (ROCKER, 0.0, 0.0)))
    return Robot("four_bar", joints, loops=Loops((pair,), (2, 3), {1: 0.5, 2: 0.3, 3: 2.0}))


def driven_four_bar() -> Robot:
    """Return the four-bar of steel rods, 6 kg a metre, with limits of its drive: to be simulated and moved."""
    robot, values = four_bar(), {}
    for j, length in enumerate((CRANK, COUPLER, ROCKER), start=1):
        m = 6.0 * length
        about_end = m * length**2 / 3.0 + 1e-3
        values |= {f"M{j}": m, f"MX{j}": m * length / 2.0, f"YY{j}": about_end, f"ZZ{j}": about_end, f"XX{j}": 2e-3}
    crank = replace(robot.joints[0], limits=Limits(-3.0, 3.0, 4.0, 20.0, 60.0))
    return replace(robot, joints=(crank, *robot.joints[1:]), parameters=values)


def slider_crank() -> Robot:
    """Return a crank that drives a piston along x, cut between rod and piston."""
    joints = (
        Joint("crank", 0, alpha=UPRIGHT),
        Joint("rod", 1, d=0.2),
        Joint("piston", 0, PRISMATIC, gamma=UPRIGHT, alpha=UPRIGHT),
    )
    pair = (Pivot(2, (0.6, 0.0, 0.0)), Pivot(3, (0.0, 0.0, 0.0)))
    return Robot("slider_crank", joints, loops=Loops((pair,), (2, 3), {1: 0.4, 2: -0.6, 3: 0.75}))


def cylinder_arm() -> Robot:
    """Return a boom on a yaw axis that a hydraulic cylinder lifts: the rod is active, boom and swivel follow."""
    joints = (
        Joint("yaw", 0, r=0.5),
        Joint("boom", 1, alpha=UPRIGHT),
        Joint("swivel", 1, b=-0.4, alpha=UPRIGHT, d=0.2),
        Joint("rod", 3, PRISMATIC, alpha=-UPRIGHT),
        Joint("wrist", 2, d=1.5),
    )
    pair = (Pivot(2, (0.6, -0.1, 0.0)), Pivot(4, (0.0, 0.0, 0.0)))
    return Robot("cylinder_arm", joints, loops=Loops((pair,), (2, 3), {2: 0.4, 3: -0.7, 4: 0.7}))


def delta() -> Robot:
    """Return a Delta: three arms, rods with ball joints, and a platform that only shifts."""
    joints, pairs, active = [], [], []
    for k in range(3):
        turn = 2.0 * np.pi * k / 3.0
        first = len(joints) + 1
        joints += [
            Joint(f"arm{k}", 0, gamma=turn, alpha=UPRIGHT, d=0.2),
            Joint(f"swing{k}", first, d=0.4),
            Joint(f"tilt{k}", first + 1, alpha=-UPRIGHT),
        ]
        active.append(first)
    place = len(joints)
    joints += [
        Joint("x", 0, PRISMATIC, gamma=UPRIGHT, alpha=UPRIGHT),
        Joint("y", place + 1, PRISMATIC, alpha=-UPRIGHT, theta=UPRIGHT),
        Joint("z", place + 2, PRISMATIC, alpha=UPRIGHT),
    ]
    tree = Robot("delta", tuple(joints))
    start = np.zeros(12)
    start[[0, 3, 6]], start[[1, 4, 7]] = -0.3, -1.0
    T = frames(tree, start[None])[0]
    rods = [T[3 * k + 2] @ np.array((0.9, 0.0, 0.0, 1.0)) for k in range(3)]
    centre = np.mean(rods, axis=0)[:3]
    # the platform hangs at the centre of the rods' ends: its own coordinates are those that lead there
    ends = T[-1][:3, :3].T
    axes = np.array([T[9 + k][:3, 2] for k in range(3)])
    start[9:] = np.linalg.solve(axes.T, centre - T[-1][:3, 3])
    for k, end in enumerate(rods):
        pairs.append((Pivot(3 * k + 3, (0.9, 0.0, 0.0)), Pivot(12, tuple((ends @ (end[:3] - centre)).tolist()))))
    passive = tuple(j for j in range(1, 13) if j not in active)
    return replace(tree, loops=Loops(tuple(pairs), passive, dict(enumerate(start.tolist(), start=1))))


def linkages() -> list[Robot]:
    """Return linkages of every kind, and random ones in space."""
    rng = np.random.default_rng(4)
    return [four_bar(), slider_crank(), cylinder_arm(), delta(), *(random_linkage(rng) for _ in range(6))]
