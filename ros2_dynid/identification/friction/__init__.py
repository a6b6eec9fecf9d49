# SPDX-License-Identifier: Apache-2.0

"""Friction in the regressor: `columns` of Fv, Fc and off, with signs filtered like the torque; `laws` by name."""

from ros2_dynid.identification.friction.columns import put_signs, signs
from ros2_dynid.identification.friction.laws import AUTO, PLAIN, candidates, check_law, given_terms

__all__ = ["AUTO", "PLAIN", "candidates", "check_law", "given_terms", "put_signs", "signs"]
