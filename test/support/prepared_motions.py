# SPDX-License-Identifier: Apache-2.0

"""Small motions as preparation and regression see them: filtered, a stretch on an even grid, information in rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.preparation.cutoffs import Cutoffs
from ros2_dynid.identification.preparation.even_grid import Stretch
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.model.load import load_robot
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
CUTOFFS = Cutoffs(position=20.0, row=4.0, step=1, row_step=1)


def filtered_motion(count=900, step=6, cutoff=8.0):
    """Return a motion of ROBOT in two segments, prepared with both filters."""
    t = np.arange(count) / 100.0
    w = np.array([2.0, 3.0, 4.0])
    q, dq, ddq = np.sin(w * t[:, None]), w * np.cos(w * t[:, None]), -(w**2) * np.sin(w * t[:, None])
    tau = inverse_dynamics(ROBOT, true_parameters(ROBOT, 1), q, dq, ddq)
    p = as_prepared(ROBOT, q, dq, ddq, tau, t)
    kernels = [lowpass_kernel(cutoff, 100.0, k) for k in (0, 1)]
    return replace(
        p,
        kernel=kernels[0],
        slope_kernel=kernels[1],
        step=step,
        segments=(slice(0, 300), slice(310, count)),
        filter=replace(p.filter, row_cutoff=cutoff, slow=0.0, row_rate=100.0 / step),
    )


def stretch_of(gain=1.0, delay=0.0, noise=0.0, seed=0):
    """Return a stretch of one joint whose recorded velocity has this gain, delay [s] and noise [rad/s]."""
    t = np.arange(4000) / 200
    q, dq = np.zeros((4000, 1)), np.zeros((4000, 1))
    rng = np.random.default_rng(seed)
    for w, a in ((2.0, 0.5), (5.0, 0.3)):
        q[:, 0] += a * np.sin(w * t)
        dq[:, 0] += a * w * np.cos(w * (t - delay))
    q += 1e-4 * rng.normal(size=q.shape)
    return Stretch(t, q, q, gain * dq + noise * rng.normal(size=q.shape), np.zeros(4000, dtype=bool))


def small_information(seed=0, blocks=8, rows=12, noise=1.0):
    """Return two joints with base columns 0 to 4 and a delay, which both feel; nothing moves column 4."""
    rng = np.random.default_rng(seed)
    columns = (np.array([0, 1, 2, 4, 5]), np.array([2, 3, 5]))
    truth = np.array([1.0, -2.0, 0.5, 3.0, 9.0, 0.1])
    parts = []
    for k in range(blocks):
        R = []
        for own, size, like in zip(columns, (0.3, 0.05), (0.9, 3.0), strict=True):
            W = rng.normal(size=(rows, len(own))) * np.where(own == 4, 0.0, 1.0)
            W[:, 0] += like * W[:, 1]
            R.append(np.column_stack((W, W @ truth[own] + noise * size * rng.normal(size=rows))))
        parts.append(Block(tuple(R), np.array([rows, rows]), float(k), k + 1.0, k // 5))
    return Information(tuple(parts), columns, ColumnLayout(5, 1))
