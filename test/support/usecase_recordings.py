# SPDX-License-Identifier: Apache-2.0

"""Recordings of a simulated arm as the use cases take them."""

from __future__ import annotations

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.payload import HalfWidths
from ros2_dynid.usecases.robot_source import RobotSource

DEMO = RobotSource("demo3")


ROBOT = DEMO.load()


NAMES = ROBOT.active_names


CHI = standard_vector(ROBOT)


def motion(seed=0, seconds=8.0, rate=200.0, n=3):
    """Return t, q, dq and ddq of three waves a joint."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    w, phase, a = rng.uniform(1.0, 6.0, (3, n)), rng.uniform(0.0, 6.0, (3, n)), rng.uniform(0.1, 0.4, (3, n))
    angle = t[:, None, None] * w + phase
    q, dq = (a * np.sin(angle)).sum(1), (a * w * np.cos(angle)).sum(1)
    return t, q, dq, -(a * w**2 * np.sin(angle)).sum(1)


def samples_of(load=0.0, seed=0, **more):
    """Return a recording, with a load of so many kg at 0.1 m on the last link."""
    t, *x = motion(seed, **more)
    chi = CHI.copy()
    last = 14 * (ROBOT.n - 1)
    chi[last : last + 10] += load * np.array([0.02, 0.0, 0.0, 0.02, 0.0, 0.01, 0.1, 0.0, 0.05, 1.0])
    noise = np.random.default_rng(seed + 1).normal(size=x[0].shape)
    return Samples(t, NAMES, x[0], tau=inverse_dynamics(ROBOT, chi, *x) + 0.05 * noise)


def tuples(values):
    return tuple(tuple(map(float, row)) for row in values)


def assert_same_load(told, load):
    """Compare every figure of an outcome with the load it tells."""
    assert (told.mass, told.com, told.inertia) == (load.mass, tuple(load.com), tuples(load.inertia))
    assert told.std == HalfWidths(load.mass_std, tuple(load.com_std), tuples(load.inertia_std))
    mass, com, inertia = load.interval
    assert told.interval95 == HalfWidths(mass, tuple(com), tuples(inertia))
    assert (told.frame, told.significant) == (load.frame, load.significant)
