# SPDX-License-Identifier: Apache-2.0

"""A gantry with a hand, whose plans are easy to check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from excitation_robots import uneven
from ros2_dynid.excitation.collision import make_shapes
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot

ROBOT = uneven()


GANTRY = Robot(
    "gantry",
    tuple(
        replace(joint, **axis, sigma=PRISMATIC, limits=one.limits)
        for joint, axis, one in zip(
            (Joint("up", 0), Joint("side", 1), Joint("ahead", 2)),
            ({}, {"alpha": np.pi / 2}, {"alpha": np.pi / 2, "gamma": np.pi / 2}),
            ROBOT.joints,
            strict=True,
        )
    ),
)
"""Three slides at right angles, with the limits of ROBOT: the hand's distance from a plane is a coordinate."""


AXES = np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
"""Directions of its slides in the base frame."""


HAND = ("hand", 3, np.zeros(3), np.zeros(3), 0.01)


def wall(joint, at, side=1.0):
    """Return shapes of GANTRY, with a margin of 0.05 m: the hand is side (q_joint - at) [m] away from a plane."""
    return make_shapes(GANTRY, [HAND], planes=[(side * AXES[joint], side * at - HAND[4])], margin=0.05)
