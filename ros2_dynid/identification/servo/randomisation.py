# SPDX-License-Identifier: Apache-2.0

"""Random drives within the error bars of identified ones, for domain randomisation: with their correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.identification.servo.drive import BIAS, COMPLIANCE, DELAY, OWN, nonnegative
from ros2_dynid.identification.servo.model import ServoModel, term_names
from ros2_dynid.model.robot import Array

FIELDS = ("kp", "armature", "damping", "coulomb", "bias", "delay", "limit")
"""Names of the values in the order of the ratios."""
MOST_SAMPLES = 100_000


@dataclass(frozen=True, eq=False)
class DrawnDrives:
    """Values of drives in units, one row for each draw: by NAME.field, each of shape (N,).

    ranges: least and largest of the middle 95 % of the draws. fixed: joints whose stiffness is not drawn, since the
    recording does not tell it.
    """

    values: dict[str, Array]
    ranges: dict[str, tuple[float, float]]
    fixed: tuple[str, ...]


def draw_drives(servo: ServoModel, count: int, seed: int) -> DrawnDrives:
    """Return drives drawn from the normal distribution of the ratios of each joint; none is negative that cannot be."""
    if not 1 <= count <= MOST_SAMPLES or seed < 0:
        raise InputError(f"{count} samples with seed {seed}", f"give 1 to {MOST_SAMPLES} samples and a seed from 0")
    rng = np.random.default_rng(seed)
    names = (*FIELDS, *term_names(servo.drives.terms))
    values: dict[str, Array] = {}
    for j, joint in enumerate(servo.joints):
        x = servo.drives.ratios[:, j]
        C = np.where(np.isfinite(servo.covariance[j]), servo.covariance[j], 0.0)
        still = ~np.isfinite(x) | ~np.isfinite(np.diag(servo.covariance[j]))
        still[COMPLIANCE] |= not servo.scale_told[j]
        C[still], C[:, still] = 0.0, 0.0
        mean = np.where(np.isfinite(x), x, 0.0)
        draws = rng.multivariate_normal(mean, C, count, method="eigh")
        positive = nonnegative(servo.drives.terms)
        draws[:, positive] = np.maximum(draws[:, positive], 0.0)
        compliance = np.maximum(draws[:, COMPLIANCE], LEAST_COMPLIANCE * x[COMPLIANCE])
        for k, name in enumerate(names):
            if not np.isfinite(x[k]) or (k >= OWN and x[k] == 0.0):
                continue
            own = k in (BIAS, DELAY) or (k >= OWN and servo.drives.terms[k - OWN].kind.loaded)
            drawn = 1.0 / compliance if k == COMPLIANCE else draws[:, k] if own else draws[:, k] / compliance
            values[f"{joint}.{name}"] = np.asarray(drawn)
    low, high = ({name: float(np.quantile(v, q)) for name, v in values.items()} for q in (0.025, 0.975))
    fixed = tuple(name for name, told in zip(servo.joints, servo.scale_told, strict=True) if not told)
    return DrawnDrives(values, {name: (low[name], high[name]) for name in values}, fixed)


LEAST_COMPLIANCE = 0.2
"""A drive is five times as stiff as identified at most, however wide the error bar: 1/kp near zero is no drive."""
