# SPDX-License-Identifier: Apache-2.0

"""Estimates with friction that brakes: least squares under linear inequalities.

Of all x with G x >= 0 (`dissipation_rows`), the one that fits best minimises |W (x - x0)|^2, where x0 is the fit
without the inequalities and W its weighted rows: all other parameters are estimated anew with it. For estimators other
than least squares this is the closest such x by the same measure. A quadratic programme; in z = T (x - x0), with T the
R factor of W, it is Lawson and Hanson's least distance programming, min |z| with G T^-1 z >= -G x0, solved by their
non-negative least squares (Solving Least Squares Problems, chapter 23).

The covariance is that of x0 projected onto the face of the inequalities that hold with equality: with A = T^T T and G_a
their rows, P C P^T, P = 1 - A^-1 G_a^T (G_a A^-1 G_a^T)^-1 G_a. A coefficient that is held at zero has no scatter then:
its error bar says how the fit scatters with it held there, not how well it is known to be zero.

A law F(v) = Fv v + Fc sign(v) + terms is served only if friction never pushes, whatever the load on the gear. That is
required of each coefficient and not of the curve alone, so that no term undoes what another one does:

    Fv, Fc, Fvm, Fcm >= 0, and so are the coefficients of all terms but those that differ between the directions or with
    the temperature: each of them brakes at every speed and load
    Fv_j >= sum of c_j^2 Fvm_k over the motors k coupled to joint j, whose own part Fv_j holds (dynamics.newton_euler)
    Fc + Ft (T - T0) >= 0 and Fv + Ftv (T - T0) >= |Fva|: in both directions, at every temperature recorded
    a shape changes by SHAPE_STEP at most: what its linearised column can tell

Beyond the fastest speed recorded terms keep their value (`FrictionTerm.recorded_speed`), so that the law does not fall
there. If x satisfies the inequalities, so does any positive multiple of it: each is a row g with g . x >= 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.friction import term_column
from ros2_dynid.identification.friction_columns import SHAPE_STEP
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import error_levels, weighted_triangle
from ros2_dynid.identification.regression.prior import Prior
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import group_of
from ros2_dynid.model.robot import Array, Robot


def dissipation_rows(
    robot: Robot, leaders: Sequence[str], terms: Sequence[FrictionTerm], warmth: Array | None, size: int
) -> Array:
    """Return G, shape (m, size): friction brakes if G x >= 0 for base parameters, coefficients of terms and the rest.

    leaders: of the base parameters; terms: those of the columns that follow, in which a shape follows its term. warmth:
    lowest and highest temperature recorded of each active joint, shape (2, n) [deg C], NaN or None: not known.
    """
    signed = [group_of(name) == "friction" for name in leaders] + [term.positive for term in terms]
    rows = [*np.eye(len(signed))[signed], *_rows_of_couplings(robot, tuple(leaders), len(signed))]
    for k, joint in enumerate(robot.active):
        law = _JointLaw(joint, tuple(leaders), tuple(terms))
        own = (np.nan, np.nan) if warmth is None else warmth[:, k].tolist()
        rows += [*law.rows_of_signless_terms(own), *law.rows_of_shapes()]
    G = np.zeros((len(rows), size))
    G[:, : len(signed)] = np.reshape(rows, (len(rows), len(signed)))
    return G


def _rows_of_couplings(robot: Robot, leaders: tuple[str, ...], size: int) -> list[Array]:
    """Return the rows that leave each joint of a coupled motor viscous friction of its own."""
    rows = []
    for joint in sorted({joint for coupling in robot.coupling for joint in coupling.weights}):
        row = np.zeros(size)
        motors = {f"Fvm{one.motor}": -(one.weights[joint] ** 2) for one in robot.coupling if joint in one.weights}
        for name, factor in {f"Fv{joint}": 1.0, **motors}.items():
            if name in leaders:
                row[leaders.index(name)] += factor
        rows.append(row)
    return rows


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
        rows = []
        for state in self._states(warmth):
            at_rest, at_one = (self.row(0.0, 0.0, partial(_signless_braking, state, v)) for v in (0.0, 1.0))
            rows += [at_rest + self.row(0.0, 1.0, _nothing), at_one - at_rest + self.row(1.0, 0.0, _nothing)]
        return rows

    def _states(self, warmth: Sequence[float]) -> list[tuple[float, float]]:
        """Return the directions and temperatures that terms which may be negative tell apart; none without them."""
        signless = self.has(lambda term: not term.positive and not term.of_shape)
        return list(itertools.product((1.0, -1.0), warmth)) if signless else []

    def rows_of_shapes(self) -> list[Array]:
        """Return the rows that bound the change of each shape, whose column follows that of its term."""
        rows = []
        for k, term in enumerate(self.terms, start=len(self.leaders)):
            for side in (-1.0, 1.0) if term.of_shape and term.joint == self.joint else ():
                row = np.zeros(len(self.leaders) + len(self.terms))
                row[k - 1], row[k] = SHAPE_STEP, side
                rows.append(row)
        return rows


def _nothing(term: FrictionTerm) -> float:
    return 0.0


def _signless_braking(state: tuple[float, float], v: float, term: FrictionTerm) -> float:
    """Return what a term that may be negative, of coefficient 1, brakes with at speed v >= 0, unloaded; others: 0.

    state: direction and temperature.
    """
    if term.positive:
        return 0.0
    sign, temperature = state
    arguments = (np.array(x) for x in (sign * v, sign, 0.0, temperature))
    return sign * float(term_column(term, *arguments))


def rows_beside_terms(rows: Array, terms: Sequence[FrictionTerm]) -> tuple[Array, Array]:
    """Return rows (m, b) and least values (m,) for base parameters beside terms whose coefficients are known.

    rows: of base parameters and then of these terms, shape (m, b + f).
    """
    b = rows.shape[1] - len(terms)
    of_base = np.any(rows[:, :b] != 0.0, axis=1)
    return rows[of_base, :b], -rows[of_base, b:] @ np.array([term.coefficient for term in terms])


RIDGE = 1e-7
"""Rows added to W of unit columns, so that what the data leave open may move freely but not without bound."""
ROUNDING = 1e-12
"""An inequality holds if it is violated by less, as a share of the sum of its parts' sizes."""


def dissipative_estimate(
    information: Information,
    estimate: Estimate,
    rows: Array,
    *,
    least: Array | None = None,
    prior: Prior | None = None,
    weight: float = 0.0,
    free: NDArray[np.bool_] | None = None,
) -> Estimate:
    """Return the estimate under rows @ value >= least, rows of shape (m, size); unchanged where they hold already.

    information: the rows that it was fitted to; least: shape (m,), zero if None; prior, weight: what it was drawn
    towards as well; free: parameters that may change, shape (size,), all if None.
    """
    least = np.zeros(len(rows)) if least is None else least
    if _hold(rows, estimate.value, least):
        return estimate
    weights, W = _weights_and_rows(information, estimate, prior, weight)
    value, projection = constrain(W, estimate.value, rows, least, free)
    covariance = projection @ estimate.covariance @ projection.T
    return replace(estimate, value=value, covariance=covariance, sigma=error_levels(information, value, weights))


def dissipative_value(
    information: Information, estimate: Estimate, rows: Array, *, prior: Prior | None = None, weight: float = 0.0
) -> Array:
    """Return the value of `dissipative_estimate`, shape (size,), without its error bars."""
    if _hold(rows, estimate.value, np.zeros(len(rows))):
        return estimate.value
    return constrain(_weights_and_rows(information, estimate, prior, weight)[1], estimate.value, rows)[0]


def _weights_and_rows(
    information: Information, estimate: Estimate, prior: Prior | None, weight: float
) -> tuple[Array, Array]:
    """Return the joints' weights of an estimate, shape (n,), and the rows W of its fit, those of the prior below."""
    weights = np.ones(information.n) if estimate.method is Method.OLS else 1.0 / estimate.sigma
    W = weighted_triangle(information, weights).W
    return weights, W if prior is None or weight == 0.0 else np.vstack((W, np.sqrt(weight) * prior.root))


def constrain(
    W: Array, value: Array, rows: Array, least: Array | None = None, free: NDArray[np.bool_] | None = None
) -> tuple[Array, Array]:
    """Return the x with rows @ x >= least (zero if None) that minimises |W (x - value)|; what is not `free` stays.

    And the projection (size, size) onto the face of the inequalities that hold with equality.
    """
    places = np.arange(len(value)) if free is None else np.flatnonzero(free)
    used = np.any(rows[:, places] != 0.0, axis=1)
    rows, least = rows[used], np.zeros(np.count_nonzero(used)) if least is None else least[used]
    projection = np.eye(len(value))
    if _hold(rows, value, least):
        return value, projection
    norm = np.linalg.norm(W[:, places], axis=0)
    scale = np.where(norm > 0.0, norm, 1.0)
    T = np.asarray(np.linalg.qr(np.vstack((W[:, places] / scale, RIDGE * np.eye(len(places)))), mode="r"))
    N = np.linalg.solve(T.T, (rows[:, places] / scale).T).T
    length = np.maximum(np.linalg.norm(N, axis=1), 1e-300)
    N, missing = N / length[:, None], (least - rows @ value) / length
    unit = float(np.abs(missing).max())
    z, active = _shortest(N, missing / unit)
    new = value.copy()
    new[places] += np.linalg.solve(T, unit * z) / scale
    new[_held_at_zero(rows[active & (least == 0.0)])] = 0.0  # and not some 1e-17 beside it
    on_face = np.eye(len(places)) - np.linalg.pinv(N[active]) @ N[active]
    projection[np.ix_(places, places)] = np.linalg.solve(T, on_face @ T) * scale / scale[:, None]
    return new, projection


def _hold(rows: Array, value: Array, least: Array) -> bool:
    """Return whether rows @ value >= least but for rounding."""
    return bool(np.all(rows @ value >= least - ROUNDING * (np.abs(rows) @ np.abs(value))))


def _shortest(A: Array, b: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the shortest z with A z >= b, and which of these hold with equality."""
    from scipy.optimize import nnls  # here, since it takes a while to import and most friction brakes by itself

    E = np.vstack((A.T, b))
    f = np.append(np.zeros(A.shape[1]), 1.0)
    multipliers, _ = nnls(E, f, maxiter=30 * len(A))
    r = E @ multipliers - f
    return -r[:-1] / r[-1], multipliers > 0.0


def _held_at_zero(rows: Array) -> NDArray[np.intp]:
    """Return the parameters that a row of their own holds at zero."""
    alone = rows[np.count_nonzero(rows, axis=1) == 1]
    return np.flatnonzero(np.any(alone != 0.0, axis=0))
