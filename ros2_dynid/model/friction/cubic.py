# SPDX-License-Identifier: Apache-2.0

"""Viscous friction that grows faster than the speed."""

from ros2_dynid.model.friction.kind import FrictionKind, register

register(
    FrictionKind(
        name="cubic",
        symbol="Fcub",
        column=lambda x: x.v * x.v * x.v,
        units=("N.m.s^3/rad^3", "N.s^3/m^3"),
        formula="Fcub v^3",
        meaning="viscous friction that grows faster than the speed",
        code=1,
        # it takes over forces of the fastest moves, which few folds have: 1.4 on a KR300, 2.0 on a TX-40, where 2.7 and
        # more are true terms of simulated arms
        evidence=2.5,
    )
)
