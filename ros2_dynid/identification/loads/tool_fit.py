# SPDX-License-Identifier: Apache-2.0

"""The tool beyond a wrist force-torque sensor, and the sensor's bias, from its wrenches and the robot's motion.

The wrench is linear in the ten parameters phi of what lies beyond the sensor (dynamics/sensor_wrench.py): wrench =
+-Y phi + bias(t). The bias is piecewise linear in time: sensors drift. Rows
are filtered, weighted and given error bars as those of torques are; the six axes take the place of the joints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.dynamics.sensor_wrench import AXES
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.payload_fit import Payload, payload_in
from ros2_dynid.identification.loads.tool_rows import build_tool_information
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.preparation.prepared import Prepared
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.recording.wrench import Wrenches


@dataclass(frozen=True, eq=False)
class Tool:
    """The tool as a payload in the sensor's frame, and the sensor: mean bias (6,) [N, N.m] and drift (6,) [a second].

    bias_std, drift_std: standard deviations; sigma: residual level of each axis (6,); delay: how late wrenches come
    against joint states [s]; sign: +1 if the sensor shows what the robot exerts on the tool, -1 if the opposite.
    """

    load: Payload
    bias: Array
    bias_std: Array
    drift: Array
    drift_std: Array
    sigma: Array
    delay: float
    sign: int
    rows: int


def identify_tool(robot: Robot, prepared: Prepared, wrenches: Wrenches, link: str, *, free: bool = False) -> Tool:
    """Return the tool beyond the sensor at `link`; free: ten parameters that fit best, even if no body has them."""
    information, knots = build_tool_information(robot, prepared, wrenches, link)
    estimate = wls(information)
    if not np.all(estimate.load_identified):
        unknown = [name for name, known in zip(LINK, estimate.load_identified, strict=True) if not known]
        what = f"{', '.join(unknown)} of the tool not excited"
        raise InputError(what, "turn the sensor about axes that are not parallel, and accelerate", robot.name)
    sign = 1 if estimate.load[-1] >= 0 else -1
    estimate = _with_load_sign(estimate, sign)
    if not free:
        value = estimate.value.copy()
        value[estimate.layout.load] = closest_body(estimate.load, estimate.load_covariance)
        estimate = replace(estimate, value=value)
    load = payload_in(estimate, np.eye(4), link, robot.tools[link][0])
    mean, slope = weigh_knots(knots)
    bias, drift = (np.kron(np.eye(AXES), row) for row in (mean, slope))
    covariance = estimate.base_covariance
    return Tool(
        load,
        bias @ estimate.base,
        np.sqrt(np.einsum("ij,jk,ik->i", bias, covariance, bias)),
        drift @ estimate.base,
        np.sqrt(np.einsum("ij,jk,ik->i", drift, covariance, drift)),
        estimate.sigma,
        estimate.delay,
        sign,
        int(information.rows.sum()),
    )


def _with_load_sign(estimate: Estimate, sign: int) -> Estimate:
    """Return the estimate of sign times phi."""
    s = np.ones(estimate.layout.size)
    s[estimate.layout.load] = sign
    return replace(estimate, value=s * estimate.value, covariance=s[:, None] * estimate.covariance * s)


def weigh_knots(knots: Array) -> tuple[Array, Array]:
    """Return rows that give mean and mean slope of a piecewise linear function from its values at the knots."""
    mean = np.zeros(len(knots))
    widths = np.diff(knots)
    mean[:-1] += widths / 2
    mean[1:] += widths / 2
    slope = np.zeros(len(knots))
    slope[0], slope[-1] = -1.0, 1.0
    return mean / (knots[-1] - knots[0]), slope / (knots[-1] - knots[0])
