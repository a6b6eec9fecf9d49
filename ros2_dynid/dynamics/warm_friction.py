# SPDX-License-Identifier: Apache-2.0

"""Friction at a temperature of the drives: a law without terms of the temperature, with the Fc and Fv it has there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ros2_dynid.dynamics.friction_terms import active_terms
from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import Fc, Fv, by_joint
from ros2_dynid.model.robot import Array, Robot


def references(robot: Robot) -> dict[int, float]:
    """Return T0 [deg C] of the active joints whose friction changes with the temperature, by their place."""
    return {place: term.reference for place, term in active_terms(robot, robot.friction) if term.kind.thermal}


def at_temperature(robot: Robot, chi: Array, temperature: Array) -> tuple[Robot, Array]:
    """Return the robot without terms of the temperature, and chi, shape (n_standard,), with Fc + Ft (T - T0), Fv alike.

    temperature: of the drives, shape (n_active,) [deg C]; NaN: not known, and taken as T0. Neither Fc nor Fv falls
    below zero, where the line would lead far from the temperatures recorded: friction does not push.
    """
    if temperature.shape != (len(robot.active),):
        what = f"{temperature.size} temperatures for {len(robot.active)} joints"
        raise InputError(what, "give one for each joint", robot.name)
    chi = chi.copy()
    drives = by_joint(robot, chi)
    for place, term in active_terms(robot, [term for term in robot.friction if term.kind.thermal]):
        if np.isfinite(temperature[place]):
            column = Fv if term.kind.viscous else Fc
            cold = drives[term.joint - 1, column]
            warm = cold + term.coefficient * (temperature[place] - term.reference)
            drives[term.joint - 1, column] = max(warm, min(cold, 0.0))
    return replace(robot, friction=tuple(term for term in robot.friction if not term.kind.thermal)), chi
