"""Friction that brakes: what the coefficients of a law must satisfy, as linear inequalities.

A law F(v) = Fv v + Fc sign(v) + terms is served only if friction never pushes, whatever the load on the gear. That is
required of each coefficient and not of the curve alone, so that no term undoes what another one does:

    Fv, Fc, Fvm, Fcm >= 0, and so are the coefficients of all terms but those that differ between the directions or with
    the temperature: each of them brakes at every speed and load
    Fc + Ft (T - T0) >= 0 and Fv + Ftv (T - T0) >= |Fva|: in both directions, at every temperature recorded
    dF/dv >= 0 from the fastest speed recorded, v_r, to the speed limit: friction that falls there was not seen
    F(v) / v <= F(v_r) / v_r there: nor was friction that grows faster than the speed
    a shape changes by STEP at most: what its linearised column can tell

If x satisfies them, so does any positive multiple of it: each is a row g with g . x >= 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ros2_dynid.dynamics.friction_terms import term_column
from ros2_dynid.identification.friction.shapes import STEP, change_shape
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import group_of
from ros2_dynid.model.robot import Array, Robot

BEYOND = 2.0
"""Speed up to which the law of a joint without a speed limit holds, in units of its fastest recorded speed."""
SPEEDS = 9
"""Speeds from the fastest recorded one to the limit at which slope and growth of a law are bounded: few are enough,
since laws are smooth there."""


@dataclass(frozen=True, eq=False)
class RecordedRange:
    """What recordings show of the n active joints: fastest speed (n,), lowest and highest temperature (2, n) or None.

    Temperatures [deg C] are NaN where they are not known.
    """

    speed: Array
    temperature: Array | None = None


def speed_limits(robot: Robot, fastest: Array) -> Array:
    """Return the speed up to which each active joint's law holds, shape (n,): its limit, or BEYOND times `fastest` (n,)
    without one, and at least that."""
    limits = np.array([robot.joints[joint - 1].limits.velocity for joint in robot.active])
    known = np.isfinite(limits) & (limits > 0.0)
    return np.asarray(np.maximum(np.where(known, limits, BEYOND * fastest), fastest))


def dissipation_rows(
    robot: Robot, leaders: Sequence[str], terms: Sequence[FrictionTerm], recorded: RecordedRange, size: int
) -> Array:
    """Return G, shape (m, size): friction brakes if G x >= 0 for base parameters, coefficients of terms and the rest.

    leaders: of the base parameters; terms: those of the columns that follow, in which a shape follows its term.
    """
    limits = speed_limits(robot, recorded.speed)
    signed = [group_of(name) == "friction" for name in leaders] + [term.positive for term in terms]
    rows = list(np.eye(len(signed))[signed])
    for k, joint in enumerate(robot.active):
        law = _JointLaw(joint, tuple(leaders), tuple(terms))
        warmth = (np.nan, np.nan) if recorded.temperature is None else recorded.temperature[:, k].tolist()
        rows += [*law.rows_of_signless_terms(warmth), *law.rows_of_shapes()]
        rows += law.rows_beyond(float(recorded.speed[k]), float(limits[k]))
    G = np.zeros((len(rows), size))
    G[:, : len(signed)] = np.reshape(rows, (len(rows), len(signed)))
    return G


@dataclass(frozen=True, eq=False)
class _JointLaw:
    """The law of one joint: Fv and Fc among the leaders of base parameters, and its own of the terms."""

    joint: int
    leaders: tuple[str, ...]
    terms: tuple[FrictionTerm, ...]

    def row(self, viscous: float, coulomb: float, of_term: Callable[[FrictionTerm], float]) -> Array:
        """Return a row with these factors of Fv and Fc, and of each term of the joint that is not a shape."""
        row = np.zeros(len(self.leaders) + len(self.terms))
        for name, factor in ((f"Fv{self.joint}", viscous), (f"Fc{self.joint}", coulomb)):
            if name in self.leaders:
                row[self.leaders.index(name)] = factor
        for k, term in enumerate(self.terms, start=len(self.leaders)):
            if term.joint == self.joint and not term.of_shape:
                row[k] = of_term(term)
        return row

    def has(self, condition: Callable[[FrictionTerm], bool]) -> bool:
        """Return whether one of its terms is so."""
        return any(term.joint == self.joint and condition(term) for term in self.terms)

    def rows_of_signless_terms(self, warmth: Sequence[float]) -> list[Array]:
        """Return the rows that keep terms which may be negative from taking more than Fc, or Fv, gives.

        Those terms are constant or proportional to the speed: what they do at speeds 0 and 1 tells both.
        """
        if not self.has(lambda term: not term.positive and not term.of_shape):
            return []
        rows = []
        for sign, T in itertools.product((1.0, -1.0), warmth):
            at_rest, at_one = (self.row(0.0, 0.0, partial(_signless_braking, v, sign, T)) for v in (0.0, 1.0))
            rows += [at_rest + self.row(0.0, 1.0, _nothing), at_one - at_rest + self.row(1.0, 0.0, _nothing)]
        return rows

    def rows_of_shapes(self) -> list[Array]:
        """Return the rows that bound the change of each shape, whose column follows that of its term."""
        rows = []
        for k, term in enumerate(self.terms, start=len(self.leaders)):
            for side in (-1.0, 1.0) if term.of_shape and term.joint == self.joint else ():
                row = np.zeros(len(self.leaders) + len(self.terms))
                row[k - 1], row[k] = STEP, side
                rows.append(row)
        return rows

    def rows_beyond(self, fastest: float, limit: float) -> list[Array]:
        """Return the rows of slope and growth from the fastest speed recorded to the limit, without load.

        A load adds only what grows, at most in proportion to the speed. A term whose shape is estimated counts at the
        shape, within a step, that is worst.
        """
        if fastest <= 0.0:
            return []
        speeds = np.linspace(fastest, limit, SPEEDS).tolist()
        slopes = [self.row(1.0, 0.0, partial(self._least, partial(_slope, v))) for v in speeds]
        growth = [
            self.row(0.0, v / fastest - 1.0, partial(self._least, partial(_short_of_growth, fastest, v)))
            for v in speeds[1:]
        ]
        return [row for row in (*slopes, *growth) if np.any(row < 0.0)]

    def _least(self, figure: Callable[[FrictionTerm], float], term: FrictionTerm) -> float:
        """Return the least figure of a term over the shapes that it may change to; 0 for one without a sign."""
        if not term.positive:
            return 0.0
        free = self.has(lambda other: other.of_shape and other.kind is term.kind)
        changes = (-STEP, 0.0, STEP) if free else (0.0,)
        return min(figure(change_shape(term, change) if change else term) for change in changes)


def _nothing(term: FrictionTerm) -> float:
    return 0.0


def _signless_braking(v: float, sign: float, temperature: float, term: FrictionTerm) -> float:
    """Return what a term that may be negative brakes with at speed v in one direction, 0 for the others."""
    return 0.0 if term.positive else braking(term, sign * v, sign, temperature)


def _slope(v: float, term: FrictionTerm) -> float:
    """Return dF/dv of a term of coefficient 1 at a speed v."""
    h = 1e-3 * v
    return (braking(term, v + h) - braking(term, v)) / h


def _short_of_growth(fastest: float, v: float, term: FrictionTerm) -> float:
    """Return by how much a term of coefficient 1 is smaller at v than if it grew in proportion from `fastest` on."""
    return v / fastest * braking(term, fastest) - braking(term, v)


def braking(term: FrictionTerm, v: float, sign: float = 1.0, temperature: float = np.nan, load: float = 0.0) -> float:
    """Return what a term of coefficient 1 brakes with at a speed, whose sign standstill needs, and a load."""
    arguments = (np.array(x, dtype=float) for x in (v, sign, load, temperature))
    return sign * float(term_column(term, *arguments))
