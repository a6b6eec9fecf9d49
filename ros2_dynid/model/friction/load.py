# SPDX-License-Identifier: Apache-2.0

"""Coulomb friction that grows with the load on the gear."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="load",
        symbol="Fl",
        column=lambda x: x.sign * x.load,
        units=("1", "1"),
        formula="Fl |tau_r| sign(v)",
        meaning="Coulomb friction that grows with the load on the gear",
        code=4,
        loaded=True,
    )
)
