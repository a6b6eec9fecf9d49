# SPDX-License-Identifier: Apache-2.0

"""Viscous friction that grows slower than the speed."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="root",
        symbol="Frt",
        column=lambda x: x.sign * x.root(x.v),
        units=("N.m.(s/rad)^0.5", "N.(s/m)^0.5"),
        formula="Frt sqrt(|v|) sign(v)",
        meaning="viscous friction that grows slower than the speed",
        code=2,
    )
)
