# SPDX-License-Identifier: Apache-2.0

"""Viscous friction that grows with the load on the gear."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="load_viscous",
        symbol="Flv",
        column=lambda x: x.v * x.load,
        units=("s/rad", "s/m"),
        formula="Flv |tau_r| v",
        meaning="viscous friction that grows with the load on the gear",
        code=5,
        loaded=True,
    )
)
