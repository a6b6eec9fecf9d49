# SPDX-License-Identifier: Apache-2.0

"""Friction that falls from standstill; vs, its shape, is the speed at which it has fallen to a third."""

from ros2_dynid.model.friction.kind import FrictionKind, Shape, register

register(
    FrictionKind(
        name="stribeck",
        symbol="Fs",
        column=lambda x: x.sign * x.gauss(x.v, x.shape),
        units=("N.m", "N"),
        formula="Fs exp(-(v / vs)^2) sign(v)",
        meaning="friction that falls from standstill; vs is its shape",
        code=3,
        # Slower than the first the rows are left out as too slow, faster than the last it is hard to tell from viscous
        # friction that grows with the speed. Each is 1.6 times the one before: with the column of its change beside it,
        # the best of them misses the true term by a few percent, and a step of Gauss and Newton goes the right way.
        shape=Shape("vs", "speed", logarithmic=True, tried=(0.04, 0.065, 0.105, 0.17), relative=True),
    )
)
