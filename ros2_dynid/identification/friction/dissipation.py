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

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

        Those terms are constant or proportional to the speed: values at speeds 0 and 1 tell both.
        """
        rows: list[Array] = []
        if not self.has(lambda term: not term.positive and not term.of_shape):
            return rows
        for direction in (1.0, -1.0):
            for T in warmth:

                def brakes(v: float, term: FrictionTerm, T: float = T, direction: float = direction) -> float:
                    return 0.0 if term.positive else braking(term, direction * v, direction, T)

                rows.append(self.row(0.0, 1.0, lambda term: brakes(0.0, term)))
                rows.append(self.row(1.0, 0.0, lambda term: brakes(1.0, term) - brakes(0.0, term)))
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
        speeds = np.linspace(fastest, limit, SPEEDS).tolist()
        rows: list[Array] = []
        if fastest <= 0.0:
            return rows
        for v in speeds:
            h = 1e-3 * v
            row = self.row(1.0, 0.0, lambda term: self._least(term, lambda one: _slope(one, v, h)))
            rows += [row] if np.any(row < 0.0) else []
        for v in speeds[1:]:
            r = v / fastest
            grown = self.row(
                0.0, r - 1.0, lambda term: self._least(term, lambda one: r * _brakes(one, fastest) - _brakes(one, v))
            )
            rows += [grown] if np.any(grown < 0.0) else []
        return rows

    def _least(self, term: FrictionTerm, figure: Callable[[FrictionTerm], float]) -> float:
        """Return the least figure of a term over the shapes that it may change to; 0 for one without a sign."""
        if not term.positive:
            return 0.0
        free = self.has(lambda other: other.of_shape and other.kind is term.kind)
        changes = (-STEP, 0.0, STEP) if free else (0.0,)
        return min(figure(change_shape(term, change) if change else term) for change in changes)


def braking(term: FrictionTerm, v: float, sign: float, temperature: float, load: float = 0.0) -> float:
    """Return what a term of coefficient 1 brakes with at a speed, its sign (which standstill needs) and a load."""
    arguments = (np.array(x, dtype=float) for x in (v, sign, load, temperature))
    return sign * float(term_column(term, *arguments))


def _brakes(term: FrictionTerm, v: float) -> float:
    return braking(term, v, 1.0, np.nan)


def _slope(term: FrictionTerm, v: float, h: float) -> float:
    return (_brakes(term, v + h) - _brakes(term, v)) / h
