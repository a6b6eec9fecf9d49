# SPDX-License-Identifier: Apache-2.0

"""Coulomb friction that changes with the temperature: Fc + Ft (T - T0)."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="temperature",
        symbol="Ft",
        column=lambda x: x.sign * x.warmth,
        units=("N.m/K", "N/K"),
        formula="Ft (T - T0) sign(v)",
        meaning="Coulomb friction that changes with the temperature",
        code=0,
        positive=False,
        thermal=True,
    )
)
