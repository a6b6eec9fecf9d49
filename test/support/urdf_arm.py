# SPDX-License-Identifier: Apache-2.0

"""A URDF of an arm of three joints with a bracket and a flange."""

from __future__ import annotations

from urdf_text import joint, link, urdf


def arm(name="seven", tools=True):
    return urdf(
        *(link(f"l{k}") for k in range(4)),
        link("flange"),
        link("bracket"),
        joint("j1", "l0", "l1", xyz="0 0 0.3"),
        joint("j2", "l1", "l2", xyz="0.4 0 0", axis="0 1 0"),
        joint("j3", "l2", "l3", xyz="0.2 0 0", axis="0 1 0"),
        joint("on", "l1", "bracket", type="fixed", xyz="0 0.1 0"),
        joint("end", "l3", "flange", type="fixed", xyz="0.1 0 0"),
        name=name,
    )
