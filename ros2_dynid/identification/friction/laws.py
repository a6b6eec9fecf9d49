"""The friction laws that a joint may have, by name."""

from __future__ import annotations

FRICTION_LAWS = ("viscous+coulomb",)
"""viscous+coulomb: Fv dq + Fc sign(dq) + off."""
