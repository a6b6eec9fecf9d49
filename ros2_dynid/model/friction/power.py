# SPDX-License-Identifier: Apache-2.0

"""Viscous friction with an exponent of its own, which is fitted where it is asked for."""

from ros2_dynid.model.friction.kind import FrictionKind, Shape, register

register(
    FrictionKind(
        name="power",
        symbol="Fp",
        column=lambda x: x.sign * x.power(x.v, x.shape),
        units=("N.m.(s/rad)^p", "N.(s/m)^p"),
        formula="Fp |v|^p sign(v)",
        meaning="viscous friction with an exponent of its own, p",
        code=6,
        # 1 is viscous friction, which every joint has; below 0.2 it is Coulomb's, and no gear or lubricant shows 5
        shape=Shape(
            "p",
            "exponent",
            logarithmic=False,
            tried=(0.4, 0.65, 1.5, 2.2, 3.2),
            relative=False,
            least=0.2,
            most=5.0,
            gap=(0.9, 1.1),
        ),
        automatic=False,  # root and cubic stand for powers: a free one beside them fits whatever is left
    )
)
