"""Friction in the regressor: `columns` of Fv, Fc and off, with signs filtered like the torque; `laws` by name."""

from ros2_dynid.identification.friction.columns import put_signs, signs
from ros2_dynid.identification.friction.laws import FRICTION_LAWS

__all__ = ["FRICTION_LAWS", "put_signs", "signs"]
