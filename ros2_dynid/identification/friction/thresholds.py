# SPDX-License-Identifier: Apache-2.0

"""The thresholds by which friction laws are chosen, each with its reason (bench/study_friction.py)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FrictionThresholds:
    """When a joint's law is taken, and when its refinement ends.

    folds: stretches of time that are left out in turn; with fewer than ten, what is left of a short recording does not
    show the inertias. chance: how often chance alone may add a term to a robot with plain friction, over all joints and
    terms together; kinds that take over forces which are not in the model ask for more (`evidence` in model/friction).
    alike: standard errors by which a doubtful law must be better than one of its size that was taken: one in ten by
    chance (Student, ten folds). gain: share of the joint's squared held-out error that each further term must take off,
    3.5 % of the error; what is linearised, shapes and load, is known no better. terms: of a joint's law, at most,
    beside those of the temperature; more cannot be told apart by one motion. shape_change: largest change of log vs, or
    of an exponent, from a shape on the grid, one and a quarter of its steps; a term that asks for more is another law.
    collinear: least share of a column's squared norm beyond the other columns of friction and links, and least
    determinant of a law's columns of unit norm; below, terms could cancel each other.

    significance: standard deviations that a coefficient of the finished law is from zero; at three, error bars hold the
    truth in 95 of 100 cases. chunks: of rows that a choice is made from, about; a quarter of an hour at the usual
    rates, and more do not change it. same_load: change of the load on the gears, as a share, that is none: what is left
    is a share of a share of the torque. same_shape: change of log vs, or of an exponent, that is none: its column
    accounts for the rest. slowest, fastest: range of a shape that is a speed, as shares of the top speed: beyond, it
    does not show. rounds: of shapes and loads, at most.
    """

    folds: int = 10
    chance: float = 0.05
    alike: float = 1.4
    gain: float = 0.07
    terms: int = 3
    shape_change: float = 0.6
    collinear: float = 1e-6
    significance: float = 3.0
    chunks: int = 60
    same_load: float = 0.02
    same_shape: float = 0.03
    slowest: float = 0.02
    fastest: float = 0.45
    rounds: int = 3


DEFAULTS = FrictionThresholds()
