"""Is the effort what the robot's weight and friction make of it? Its sign and unit, judged without trusting the model.

For each joint, tau is explained by the gravity torque of the a priori parameters, by friction along dq_j, and by all
accelerations. What gravity explains beyond everything else gives its scale a and a partial correlation r: a near 1 is
right, a strongly negative r means a reversed sign, a near 1000 a wrong unit. Friction always opposes motion, whatever
the parameters are: so an effort that helps motion in its place is reversed too, and friction of the right sign
acquits a joint whose a priori centre of mass is wrong. With parameters that are zero nothing is held against anyone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.samples import Samples

STEP = 0.02
"""Signals are averaged over this time [s]; faster ones do not matter here."""
MOST_STEPS = 20_000
STRONG = 0.8
"""Partial correlation from which gravity speaks clearly."""
CLEAR = 0.5
OWN, MATERIAL = 0.3, 0.1
"""Part of a cause that nothing else explains, and part of the effort that this must make up, to count as evidence.

Motion at one frequency makes gravity look like inertia: what is left of it then says nothing.
"""
UNIT_FACTOR = 30.0
"""Masses are seldom wrong by more; N.mm, gear ratios and raw currents mostly are."""


@dataclass(frozen=True)
class Evidence:
    """What the effort of one joint shows: r and a of gravity, r of friction (negative: it drives), NaN if unknown."""

    gravity_r: float = np.nan
    gravity_scale: float = np.nan
    friction_r: float = np.nan

    @property
    def reversed(self) -> bool:
        """Return whether gravity or friction is against the effort's sign and the other does not defend it."""
        by_gravity = self.gravity_r < -STRONG and not self.friction_r > CLEAR
        by_friction = self.friction_r < -CLEAR and not self.gravity_r > CLEAR
        return bool(by_gravity or by_friction)

    @property
    def wrong_unit(self) -> bool:
        """Return whether the effort follows gravity but at an impossible scale."""
        scale = abs(self.gravity_scale)
        return bool(abs(self.gravity_r) > STRONG and not 1 / UNIT_FACTOR < scale < UNIT_FACTOR)


def effort_evidence(samples: Samples, robot: Robot) -> list[Evidence]:
    """Return the evidence for each joint, from samples in the robot's order with times that increase."""
    from ros2_dynid.dynamics.inertia import gravity_torque
    from ros2_dynid.model.parameters import standard_vector

    n = len(samples.joint_names)
    if samples.tau is None:
        return [Evidence()] * n
    grid = _averaged(samples)
    if grid is None:
        return [Evidence()] * n
    q, dq, ddq, tau, keep = grid
    Q = gravity_torque(robot, standard_vector(robot), q)
    heaviest = float(np.max(np.std(Q, axis=0)))
    found = []
    for j in range(n):
        known = keep & np.isfinite(tau[:, j])
        if np.count_nonzero(known) < 20 * (n + 5):
            found.append(Evidence())
            continue
        found.append(_evidence(j, q[known], dq[known], ddq[known], tau[known], Q[known], heaviest))
    return found


def _evidence(j: int, q: Array, dq: Array, ddq: Array, tau: Array, Q: Array, heaviest: float) -> Evidence:
    speed = float(np.max(np.abs(dq[:, j])))
    if speed < 1e-6 or np.std(tau[:, j]) == 0:
        return Evidence()
    one = np.ones((len(q), 1))
    friction = np.column_stack((np.tanh(dq[:, j] / (0.05 * speed)), dq[:, j] / speed))
    gravity_r = scale = np.nan
    size = float(np.linalg.norm(tau[:, j] - tau[:, j].mean()))
    if np.std(Q[:, j]) > 0.02 * heaviest:
        others = np.hstack((one, friction, ddq))
        own, effort = _beyond(Q[:, [j]], others)[:, 0], _beyond(tau[:, [j]], others)[:, 0]
        if np.linalg.norm(own) > OWN * np.linalg.norm(Q[:, j] - Q[:, j].mean()):
            a = float(own @ effort / (own @ own))
            if abs(a) * np.linalg.norm(own) > MATERIAL * size:
                gravity_r, scale = _correlation(own, effort), a
    others = np.hstack((one, Q[:, [j]], np.sin(q[:, [j]]), np.cos(q[:, [j]]), ddq))
    columns, effort = _beyond(friction, others), _beyond(tau[:, [j]], others)[:, 0]
    columns = columns[:, np.linalg.norm(columns, axis=0) > OWN * np.linalg.norm(friction, axis=0)]
    friction_r = np.nan
    if columns.shape[1]:
        fitted = columns @ np.linalg.lstsq(columns, effort, rcond=1e-6)[0]
        if np.linalg.norm(fitted) > MATERIAL * size:
            share = float(np.linalg.norm(fitted)) / max(float(np.linalg.norm(effort)), 1e-300)
            friction_r = float(np.sign(fitted @ dq[:, j])) * share
    return Evidence(gravity_r, scale, friction_r)


def _beyond(columns: Array, others: Array) -> Array:
    """Return what of the columns the others cannot explain."""
    scaled = others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)
    rest: Array = columns - scaled @ np.linalg.lstsq(scaled, columns, rcond=1e-9)[0]
    return rest


def _correlation(a: Array, b: Array) -> float:
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size > 0 else 0.0


def _averaged(samples: Samples) -> tuple[Array, Array, Array, Array, NDArray[np.bool_]] | None:
    """Return q, dq, ddq, tau on an even grid, smoothed alike, and where the recording really has samples."""
    from scipy.signal import savgol_filter

    assert samples.tau is not None
    good = np.isfinite(samples.q).all(axis=1)
    t = samples.t[good]
    if len(t) < 200 or t[-1] - t[0] < 50 * STEP:
        return None
    step = max(STEP, float(np.median(np.diff(t))))
    bins = np.floor((t - t[0]) / step).astype(np.int64)
    inside = bins < MOST_STEPS
    bins, count = bins[inside], int(min(bins[-1] + 1, MOST_STEPS))
    q = _bin_means(samples.q[good][inside], bins, count)
    tau = _bin_means(samples.tau[good][inside], bins, count)
    filled = np.isfinite(q).all(axis=1)
    index = np.arange(count)
    q = np.column_stack([np.interp(index, index[filled], column[filled]) for column in q.T])
    window = 9
    smooth, dq, ddq = (savgol_filter(q, window, 3, deriv=k, delta=step, axis=0) for k in range(3))
    known = np.isfinite(tau)
    tau = savgol_filter(np.where(known, tau, 0.0), window, 3, axis=0)
    # A value is used only where no bin of its window is empty.
    near = np.apply_along_axis(lambda a: np.convolve(a, np.ones(window), "same") > window - 0.5, 0, known.astype(float))
    keep = np.convolve(filled.astype(float), np.ones(window), "same") > window - 0.5
    return smooth, dq, ddq, np.where(near, tau, np.nan), keep


def _bin_means(values: Array, bins: NDArray[np.int64], count: int) -> Array:
    means = np.empty((count, values.shape[1]))
    for column in range(values.shape[1]):
        known = np.isfinite(values[:, column])
        number = np.bincount(bins[known], minlength=count)
        total = np.bincount(bins[known], weights=values[known, column], minlength=count)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[:, column] = total / number
    return means
