# SPDX-License-Identifier: Apache-2.0

"""Motion of all joints from that of the active ones: q = F(q_a), with the constraint's Jacobian G and its derivative.

For a tree all joints are active and G is the identity. For loops with explicit linear constraints (robot files, URDF
mimic) G is constant. For other loops the caller fills in a `Motion` with its own F, G and Gdot dq_a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True)
class Motion:
    """Motion of all n joints of the tree, samples last: q, dq, ddq of shape (n, N).

    G: Jacobian dq/dq_a, shape (n, n_active) if constant or (n, n_active, N); None if every joint is active.
    """

    q: Array
    dq: Array
    ddq: Array
    G: Array | None = None

    def to_active(self, tau: Array) -> Array:
        """Return G^T tau: torques, or columns of a regressor, of shape (..., n, N), felt at the active joints."""
        if self.G is None:
            return tau
        subscripts = "jk,...jt->...kt" if self.G.ndim == 2 else "jkt,...jt->...kt"
        return np.asarray(np.einsum(subscripts, self.G, tau, optimize=True))


def constraint(robot: Robot) -> tuple[Array, Array]:
    """Return G, shape (n, n_active), and the offset, shape (n,), of q = G q_a + offset."""
    column = {joint: k for k, joint in enumerate(robot.active)}
    G, offset = np.zeros((robot.n, len(column))), np.zeros(robot.n)
    for joint, k in column.items():
        G[joint - 1, k] = 1.0
    for passive in robot.passive:
        offset[passive.joint - 1] = passive.offset
        for joint, coefficient in passive.terms.items():
            G[passive.joint - 1, column[joint]] = coefficient
    return G, offset


def motion_of(robot: Robot, q: ArrayLike, dq: ArrayLike | None = None, ddq: ArrayLike | None = None) -> Motion:
    """Return the motion of all joints for q, dq, ddq of the active ones, shape (N, n_active); None means at rest."""
    qa = _samples_last(robot, q, "q")
    dqa = np.zeros_like(qa) if dq is None else _samples_last(robot, dq, "dq")
    ddqa = np.zeros_like(qa) if ddq is None else _samples_last(robot, ddq, "ddq")
    if not qa.shape == dqa.shape == ddqa.shape:
        raise InputError(f"q, dq and ddq have shapes {qa.T.shape}, {dqa.T.shape}, {ddqa.T.shape}", "make them equal")
    if not robot.passive:
        return Motion(qa, dqa, ddqa)
    G, offset = constraint(robot)
    return Motion(G @ qa + offset[:, None], G @ dqa, G @ ddqa, G)


def loop_motion(q: Array, G: Array, dq_active: Array, ddq_active: Array, Gdot_dq: Array) -> Motion:
    """Return the motion of a loop with constraint q = F(q_a), samples first as everywhere outside.

    q: F(q_a), shape (N, n); G: its Jacobian, shape (N, n, n_active); dq_active, ddq_active: shape (N, n_active);
    Gdot_dq: the second derivative's part Gdot dq_a, shape (N, n), so that ddq = G ddq_a + Gdot dq_a.
    """
    N, n, n_active = G.shape
    if q.shape != (N, n) or Gdot_dq.shape != (N, n) or not dq_active.shape == ddq_active.shape == (N, n_active):
        raise InputError(f"G has shape {G.shape}, the motion does not fit it", "give q and Gdot_dq (N, n), dq (N, n_a)")
    dq = np.einsum("tjk,tk->jt", G, dq_active)
    ddq = np.einsum("tjk,tk->jt", G, ddq_active) + Gdot_dq.T
    return Motion(np.ascontiguousarray(q.T), dq, ddq, np.ascontiguousarray(np.moveaxis(G, 0, 2)))


def check_samples(robot: Robot, values: ArrayLike, name: str) -> Array:
    """Return values as an array of shape (N, n_active), C order, or refuse them: wrong shape, or not finite."""
    array = np.ascontiguousarray(values, dtype=float)
    n_active = len(robot.active)
    if array.ndim != 2 or array.shape[1] != n_active:
        raise InputError(f"{name} has shape {array.shape}", f"give samples by joints, (N, {n_active})", robot.name)
    if not np.all(np.isfinite(array)):
        sample, k = np.argwhere(~np.isfinite(array))[0]
        what = f"{name} of joint {robot.active_names[k]!r} is not finite in sample {sample}"
        raise InputError(what, "cut or repair the data first", robot.name)
    return array


def _samples_last(robot: Robot, values: ArrayLike, name: str) -> Array:
    """Return checked values with samples last, shape (n_active, N)."""
    return np.ascontiguousarray(check_samples(robot, values, name).T)
