# SPDX-License-Identifier: Apache-2.0

"""Viscous friction that changes with the temperature: Fv + Ftv (T - T0)."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="temperature_viscous",
        symbol="Ftv",
        column=lambda x: x.v * x.warmth,
        units=("N.m.s/(rad.K)", "N.s/(m.K)"),
        formula="Ftv (T - T0) v",
        meaning="viscous friction that changes with the temperature",
        code=1,
        positive=False,
        thermal=True,
        viscous=True,
    )
)
