# SPDX-License-Identifier: Apache-2.0

"""How well is the torque known on motion of another kind than the recorded one?

Stretches left out of a recording are of its own kind: where each joint moves at one frequency, say, its acceleration is
its position times a constant all the time, and no stretch tells a moment of inertia from a weight. So positions, speeds
and accelerations of each joint are taken from different moments of the recording. Each of them was recorded; their
combinations are new, and the error bars of the parameters say what of the torque they leave open there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.model.robot import Array, Robot

SAMPLES = 500
"""Moments that are combined anew: they tell a share to some percent of itself."""


def combine_anew(prepared: Sequence[Prepared], count: int = SAMPLES, seed: int = 0) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq, shape (count, n) each: recorded values of each joint, each of another moment."""
    rng = np.random.default_rng(seed)
    motion = [np.concatenate([getattr(part, name) for part in prepared]) for name in ("q", "dq", "ddq")]
    total, n = motion[0].shape
    q, dq, ddq = (x[rng.integers(total, size=(count, n)), np.arange(n)] for x in motion)
    return q, dq, ddq


def unknown_share(robot: Robot, base: BaseParameters, estimate: Estimate, prepared: Sequence[Prepared]) -> float:
    """Return the standard deviation of the torque on such motion beside the torque, root mean squares of all joints.

    Of what the parameters' covariance tells; those that were not excited at all are not counted.
    """
    Y = np.asarray(fast_regressor(robot, *combine_anew(prepared)))[:, :, base.columns(robot)]
    place = estimate.layout.base
    C = np.where(np.isfinite(estimate.covariance[place, place]), estimate.covariance[place, place], 0.0)
    variance = float(np.einsum("sjp,pq,sjq->", Y, C, Y, optimize=True))
    torque = float(np.linalg.norm(Y @ estimate.base))
    return float(np.sqrt(max(variance, 0.0))) / max(torque, 1e-300)
