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


def cassie_leg() -> Robot:
    """Return a leg as Cassie's: a rod between ball joints holds the tarsus, a four-bar moves the foot from a crank."""
    joints = (
        Joint("hip", 0, alpha=UPRIGHT),
        Joint("knee", 1, d=0.12, r=0.02),
        Joint("tarsus", 2, d=0.44),
        Joint("rod_swing", 1, r=-0.05),
        Joint("rod_tilt", 4, alpha=UPRIGHT),
        Joint("crank", 3, d=0.06),
        Joint("plantar_rod", 6, d=0.055),
        Joint("foot", 3, d=0.41),
    )
    tree, q = Robot("cassie_leg", joints), np.array([0.3, -0.9, 1.3, -0.4, 0.15, 0.4, -0.3, -1.2])
    cuts = ((5, (0.5, 0.0, 0.0), 3), (7, (0.36, 0.02, 0.0), 8))
    return replace(tree, loops=_met(tree, q, cuts, (3, 4, 5, 7, 8)))


def counterbalanced_arm() -> Robot:
    """Return six axes as a KR300's, whose second a cylinder supports: barrel and rod follow."""
    joints = (
        Joint("a1", 0, r=0.675),
        Joint("a2", 1, alpha=-UPRIGHT, d=0.35),
        Joint("a3", 2, d=1.15),
        Joint("a4", 3, alpha=-UPRIGHT, d=-0.041, r=1.0),
        Joint("a5", 4, alpha=UPRIGHT),
        Joint("a6", 5, alpha=-UPRIGHT),
        Joint("barrel", 1, alpha=-UPRIGHT, d=-0.3, b=-0.2),
        Joint("rod", 7, PRISMATIC, alpha=UPRIGHT),
    )
    tree, q = Robot("counterbalanced_arm", joints), np.array([0.0, -1.2, 1.0, 0.0, 0.0, 0.0, 0.5, 0.7])
    return replace(tree, loops=_met(tree, q, ((8, (0.0, 0.0, 0.0), 2),), (7, 8)))


def _met(tree: Robot, q: np.ndarray, cuts: tuple, passive: tuple[int, ...]) -> Loops:
    """Return loops of cuts (joint, point in its frame, other joint), which meet at q of all joints."""
    T, pairs = frames(tree, q[None])[0], []
    for joint, point, other in cuts:
        there = np.linalg.inv(T[other - 1]) @ T[joint - 1] @ np.append(point, 1.0)
        pairs.append((Pivot(joint, point), Pivot(other, tuple(there[:3].tolist()))))
    return Loops(tuple(pairs), passive, dict(enumerate(q.tolist(), start=1)))


def linkages() -> list[Robot]:
    """Return linkages of every kind, and random ones in space."""
    rng = np.random.default_rng(4)
    return [four_bar(), slider_crank(), cylinder_arm(), delta(), *(random_linkage(rng) for _ in range(6))]
