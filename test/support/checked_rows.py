# SPDX-License-Identifier: Apache-2.0

"""A robot and a good recording of it, which tests of checks spoil."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Robot
from ros2_dynid.recording.samples import Samples

T = np.arange(5000) / 500.0


ROBOT = Robot(
    "r",
    (
        Joint("a", 0, d=0.1, limits=Limits(-2.0, 3.0, velocity=4.0, effort=50.0)),
        Joint("b", 1, d=0.1, sigma=PRISMATIC, limits=Limits(-0.5, 0.5, velocity=3.0, effort=90.0)),
        Joint("c", 2, d=0.1),
    ),
)


def good():
    q = np.column_stack((np.sin(T), 0.2 * np.cos(1.3 * T), 0.5 + np.sin(0.7 * T)))
    dq = np.column_stack((np.cos(T), -0.26 * np.sin(1.3 * T), 0.7 * np.cos(0.7 * T)))
    noise = 0.1 * np.random.default_rng(0).normal(size=q.shape)
    return Samples(T, ("a", "b", "c"), q, dq, None, 10.0 * q - 3.0 + noise, source="run")
