# SPDX-License-Identifier: Apache-2.0

"""Physical consistency: could links with these parameters exist? Tested (Gautier 2013, Table III) and imposed.

A link exists if its pseudo-inertia (model/inertia.py) is positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import fast_regressor
from ros2_dynid.dynamics.kinematics import random_positions
from ros2_dynid.dynamics.newton_euler import inertia_matrix
from ros2_dynid.errors import MissingPackageError, ProgrammeError
from ros2_dynid.identification.regression.estimate import Triangle
from ros2_dynid.model.inertia import central_inertia, link_inertia, links_of, pseudo_inertia
from ros2_dynid.model.parameters import LINK, group_of, link_slice, standard_names
from ros2_dynid.model.robot import Array, Robot

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix

TOLERANCES = (0.0, -0.01, -0.02, -0.04)
"""Smallest eigenvalue allowed for an inertia matrix at the centre of mass, as in Table III [kg.m^2]."""
FLOOR = 1e-6
"""Smallest eigenvalue imposed on a pseudo-inertia in its own units, so that it is definite in floating point too."""
NEARNESS = (1e-4, 1e-2)
"""Weight of the distance to the a priori values beside the fit, in units of the squared error that the data leave: it
only decides what they leave open. The second one if the first leaves the programme too ill-conditioned to be solved."""
LEAST_ERROR = 1e-5
"""Relative error of the torque that data have at least, so that exact ones leave the programme a weight."""
LEAST_MOMENT_SHARE = 1e-3
"""Smallest second moment of mass over the largest that counts as a body's own and not as rounding."""
LEAST_MASS = 1e-3
"""Mass [kg] below which none was given."""
INERTIA_POSES = 256
"""Random positions at which the inertia matrix of base parameters is looked at."""
FREE = 1e3
"""How much more freely what CAD does not know (rotors, friction, offsets without a value) may change than links may."""
SMALLEST_MASS, SMALLEST_LENGTH = 1e-2, 2e-2
"""Units of links without a useful a priori value [kg, m]."""
KINDS = len(LINK)


def consistent_links(robot: Robot, chi: Array, tolerance: float = 0.0, *, by: str = "eigenvalues") -> list[bool]:
    """Return for each link whether its mass is positive and its inertia at the centre of mass positive definite.

    No eigenvalue may be at or below `tolerance` <= 0 [kg.m^2], which allows for noise. by="pivots": no pivot of the
    Cholesky factorisation may, as Gautier 2013 counts in Table III; the two agree at tolerance 0 only.
    """
    central = (central_inertia(parameters) for parameters in links_of(robot, chi))
    spectrum = cholesky_pivots if by == "pivots" else np.linalg.eigvalsh
    return [J is not None and bool(spectrum(0.5 * (J + J.T)).min() > tolerance) for J in central]


def cholesky_pivots(J: Array) -> Array:
    """Return the pivots d, shape (n,), of J = L diag(d) L^T with a unit lower triangular L, no rows exchanged.

    They are the squares of the diagonal of Cholesky's factor where J is positive definite; -inf after a zero pivot.
    """
    rest, pivots = J.copy(), np.full(len(J), -np.inf)
    for k in range(len(J)):
        pivots[k] = rest[k, k]
        if rest[k, k] == 0.0:
            break
        rest[k + 1 :, k + 1 :] -= np.outer(rest[k + 1 :, k], rest[k, k + 1 :]) / rest[k, k]
    return pivots


def fully_consistent_links(robot: Robot, chi: Array) -> list[bool]:
    """Return for each link whether its pseudo-inertia is positive definite: the triangle inequality included."""
    return [bool(np.linalg.eigvalsh(pseudo_inertia(parameters))[0] > 0.0) for parameters in links_of(robot, chi)]


def table(robot: Robot, chi: Array) -> dict[str, int]:
    """Return the number of consistent inertia matrices at each tolerance, as Table III, and of pseudo-inertias."""
    counts = {f"{t:g}": sum(consistent_links(robot, chi, t)) for t in TOLERANCES}
    return {**counts, "full": sum(fully_consistent_links(robot, chi))}


def smallest_joint_inertia(robot: Robot, chi: Array, *, count: int = 500, seed: int = 0) -> float:
    """Return the smallest eigenvalue of M(q) over `count` random positions: positive if M(q) is positive definite."""
    return _smallest_eigenvalue(inertia_matrix(robot, chi, _random_positions(robot, count, seed)))


def has_positive_inertia(robot: Robot, base: BaseParameters, value: Array) -> bool:
    """Return whether base parameters (b,), served as they are, have a positive kinetic energy wherever it is looked."""
    return _smallest_eigenvalue(_inertia_columns(robot, base) @ value) > 0.0


@lru_cache(maxsize=2)
def _inertia_columns(robot: Robot, base: BaseParameters) -> Array:
    """Return what each base parameter adds to M(q) at INERTIA_POSES random positions, shape (poses, n, n, b)."""
    q, columns = _random_positions(robot, INERTIA_POSES, 0), base.columns(robot)
    still, n = np.zeros_like(q), q.shape[1]
    at_rest, added = fast_regressor(robot, q, still, still)[:, :, columns], np.empty((len(q), n, n, len(columns)))
    for k, ddq in enumerate(np.eye(n)):
        added[:, :, k] = fast_regressor(robot, q, still, still + ddq)[:, :, columns] - at_rest
    return added


def _random_positions(robot: Robot, count: int, seed: int) -> Array:
    """Return positions within the limits of the active joints, shape (count, n)."""
    if robot.loops is not None:
        return random_positions(robot, np.random.default_rng(seed), count, np.pi)
    limits = [robot.joints[j - 1].limits for j in robot.active]
    lower = np.array([x.lower if np.isfinite(x.lower) else -np.pi for x in limits])
    upper = np.array([x.upper if np.isfinite(x.upper) else np.pi for x in limits])
    return np.random.default_rng(seed).uniform(lower, upper, (count, len(limits)))


def _smallest_eigenvalue(M: Array) -> float:
    return float(np.linalg.eigvalsh(0.5 * (M + M.transpose(0, 2, 1))).min())


def make_consistent(robot: Robot, chi: Array) -> Array:
    """Return a priori parameters with those links made physical that are not; the others stay as they are.

    Second moments of mass about the centre that no body has are lifted to those of a ball that reaches the frame's
    origin, M |c|^2 / 5; links without mass get a gram, or as much as puts their first moments, where only those are
    given, at the longest link's end. Rounding in a URDF often leaves a point mass or less.
    """
    out = chi.copy()
    length = longest_link(robot)
    for link in links_of(robot, out):  # rows are views into out
        m = link[6:9].copy()
        if link[9] < LEAST_MASS:
            link[9] = max(LEAST_MASS, float(np.linalg.norm(m)) / length)
        M = link[9]
        S = pseudo_inertia(link)[:3, :3] - np.outer(m, m) / M
        moments, axes = np.linalg.eigh(0.5 * (S + S.T))
        if moments[0] > LEAST_MOMENT_SHARE * max(moments[-1], 1e-12):
            continue
        ball = max(float(m @ m) / M / 5.0, 1e-4 * M / 5.0)
        S = axes * np.maximum(moments, ball) @ axes.T + np.outer(m, m) / M
        J = np.trace(S) * np.eye(3) - S
        link[:6] = J[np.triu_indices(3)]
    return out


def longest_link(robot: Robot) -> float:
    """Return the largest distance [m] between the frames of neighbouring joints, 1 where all are in one place."""
    return max((abs(x) for joint in robot.joints for x in (joint.d, joint.r)), default=0.0) or 1.0


def scales(robot: Robot, reference: Array) -> Array:
    """Return how freely each standard parameter may change, shape (n_standard,).

    Mass m, first moment m l and inertia m l^2 of a link with a priori mass m and radius of gyration l; the size of
    the a priori value for rotors, friction and offsets, or FREE where they have none.
    """
    S = np.array([FREE if v == 0.0 else abs(v) for v in reference])
    for j in range(robot.n):
        at = link_slice(j)
        link = reference[at]
        m = max(float(link[9]), SMALLEST_MASS)
        length = max(np.sqrt(max(link[0] + link[3] + link[5], 0.0) / 2.0 / m), SMALLEST_LENGTH)
        S[at] = [m * length**2] * 6 + [m * length] * 3 + [m]
    return S


@dataclass(frozen=True, eq=False)
class Consistent:
    """Standard parameters that links can have, and their base parameters.

    loss: growth of the weighted error's norm over that of the best fit without constraints.
    """

    chi: Array
    value: Array
    loss: float


@dataclass(frozen=True, eq=False)
class ConsistencyProgramme:
    """The part of the semidefinite programme that no data change; x are the parameters in chi = reference + scale x.

    M: from chi to base parameters, shape (b, n_standard); signed: places of rotor inertias and friction in chi, which
    are not negative. G, h: h - G x is in the cones, first all of signed, then the friction rows, which depend on chi as
    `own` says and on the other columns of W as `others` says, then each link's pseudo-inertia, over FLOOR.
    """

    M: Array
    reference: Array
    scale: Array
    signed: NDArray[np.intp]
    own: Array
    others: Array
    G: csc_matrix
    h: Array
    cones: list[Any]

    def right_side(self, values: Array) -> Array:
        """Return h for friction rows beside these values of the columns that are not base parameters."""
        h, first = self.h.copy(), len(self.signed)
        if len(self.own):
            h[first : first + len(self.own)] += self.others @ values
        return h


def build_programme(
    robot: Robot, base: BaseParameters, reference: Array, friction: Array | None = None
) -> ConsistencyProgramme:
    """Return the programme of consistent parameters close to `reference`, shape (n_standard,).

    friction: rows g, shape (m, size), with g . value >= 0 where friction brakes (regression.dissipative_fit).
    """
    clarabel = _import_solver()
    M, S, names = base.full_map(robot), scales(robot, reference), standard_names(robot)
    signed = np.array(
        [k for k, name in enumerate(names) if group_of(name) in ("rotor", "friction") and not name.startswith("Iam")],
        dtype=np.intp,
    )
    rows = np.zeros((0, len(M))) if friction is None else friction
    # The sign of a single parameter is asked for anyway.
    several = np.any(rows[:, : len(M)] != 0.0, axis=1) & (np.count_nonzero(rows, axis=1) > 1)
    own, others = rows[several, : len(M)] @ M, rows[several, len(M) :]
    parts, right = [-np.eye(len(names))[signed] * S, -own * S], [reference[signed], own @ reference]
    for j, unit in enumerate(_link_units(robot, reference)):
        matrix, cone, at = np.zeros((10, len(names))), _triangle_map(unit), link_slice(j)
        matrix[:, at] = -cone * S[at]
        parts.append(matrix)
        right.append(cone @ reference[at] - FLOOR * _svec(np.eye(4)))
    cones = [clarabel.NonnegativeConeT(len(part)) for part in parts[:2]]
    cones += [clarabel.PSDTriangleConeT(4)] * robot.n
    G, h = _sparse(np.vstack(parts)), np.concatenate(right)
    return ConsistencyProgramme(M, reference, S, signed, own, others, G, h, cones)


def impose(programme: ConsistencyProgramme, T: Triangle, value: Array) -> Consistent:
    """Return the consistent parameters that fit best, by a semidefinite programme.

    Minimises |W M chi - tau|^2 with T the weighted triangle of [W tau], less what `value` says of its other columns
    (delay, friction terms), plus a trace of the distance to the reference, under P_j >= FLOOR for every link and rotor
    inertia and friction not negative.
    """
    M, S, reference = programme.M, programme.scale, programme.reference
    # Fit in units of its own optimum
    W, tau = T.base, T.tau_of_base(value)
    size = max(float(np.linalg.norm(tau)), 1e-300)
    A = W @ (M * S) / size
    rest = (tau - W @ (M @ reference)) / size
    best = float(np.linalg.norm(tau - W @ np.linalg.lstsq(W / size, tau / size, rcond=None)[0]))
    error = max(best / size, LEAST_ERROR)
    h = programme.right_side(value[~T.layout.is_base])
    for nearness in NEARNESS:
        P = A.T @ A + nearness * error**2 * np.eye(len(S))
        x, status = _solve_programme(P, -A.T @ rest, programme.G, h, programme.cones, max_iter=200)
        if x is not None:
            break
    else:
        raise ProgrammeError(f"the semidefinite programme ended with {status}; check the a priori parameters")
    chi = reference + S * x
    chi[programme.signed] = np.maximum(chi[programme.signed], 0.0)  # -1e-9 is the solver's zero
    ours = np.linalg.norm(tau - W @ (M @ chi))
    return Consistent(chi, M @ chi, float(ours) / max(best, 1e-300) - 1.0)


def closest_body(parameters: Array, covariance: Array) -> Array:
    """Return the ten parameters of a body closest to `parameters` in units of their covariance (10, 10).

    They stay as they are if a body can have them.
    """
    if np.linalg.eigvalsh(pseudo_inertia(parameters))[0] > 0.0:
        return parameters
    clarabel = _import_solver()
    mass = max(abs(float(parameters[9])), 1e-3)
    length = np.sqrt(max(float(np.trace(link_inertia(np.abs(parameters)))) / 2.0 / mass, 1e-4))
    S = np.array([mass * length**2] * 6 + [mass * length] * 3 + [mass])
    scaled = covariance / np.outer(S, S)
    information = np.linalg.inv(scaled + 1e-9 * np.trace(scaled) * np.eye(KINDS))
    information /= np.abs(information).max()
    cone = _triangle_map((mass, float(length)))
    right = cone @ parameters - FLOOR * _svec(np.eye(4))
    cones = [clarabel.PSDTriangleConeT(4)]
    x, status = _solve_programme(information, np.zeros(KINDS), _sparse(-cone * S), right, cones)
    if x is None:
        raise ProgrammeError(f"the semidefinite programme ended with {status}; identify the load without it")
    return np.asarray(parameters + S * x)


def _solve_programme(
    P: Array, q: Array, G: csc_matrix, h: Array, cones: list[Any], **settings: object
) -> tuple[Array | None, str]:
    """Return x that minimises x . P x / 2 + q . x with h - G x in the cones, None if none was found, and the status."""
    clarabel = _import_solver()
    options = clarabel.DefaultSettings()
    options.verbose = False
    for name, value in settings.items():
        setattr(options, name, value)
    solution = clarabel.DefaultSolver(_sparse(np.triu(P)), q, G, h, cones, options).solve()
    status = str(solution.status)
    return (np.array(solution.x) if status in ("Solved", "AlmostSolved") else None), status


def _sparse(A: Array) -> csc_matrix:
    """Return a matrix without its zeros, as the solver takes it."""
    from scipy.sparse import csc_matrix

    stored = A.T != 0.0
    columns = np.append(0, np.cumsum(np.count_nonzero(stored, axis=1)))
    return csc_matrix((A.T[stored], np.nonzero(stored)[1], columns), shape=A.shape)


def _svec(P: Array) -> Array:
    """Return the upper triangle of P column by column, off-diagonal elements times the root of 2."""
    return np.array([P[i, j] * (1.0 if i == j else np.sqrt(2.0)) for j in range(len(P)) for i in range(j + 1)])


def _triangle_map(unit: tuple[float, float]) -> Array:
    """Return the map, shape (10, 10), from a link's parameters to svec(D P D) / mass in units of mass and length."""
    mass, length = unit
    D = np.array([1.0 / length] * 3 + [1.0])
    return np.asarray(_svec(np.outer(D, D) / mass)[:, None] * _unscaled_map())


@cache
def _unscaled_map() -> Array:
    """Return the map, shape (10, 10), from a link's parameters to the upper triangle of P."""
    return np.column_stack([_svec(pseudo_inertia(e)) / _svec(np.ones((4, 4))) for e in np.eye(KINDS)])


def _link_units(robot: Robot, reference: Array) -> list[tuple[float, float]]:
    """Return mass [kg] and length [m] that bring each link's pseudo-inertia near 1."""
    units = []
    for parameters in links_of(robot, reference):
        mass = max(float(parameters[9]), 1e-2)
        length = np.sqrt(max(float(np.trace(link_inertia(parameters))) / 2.0 / mass, 1e-4))
        units.append((mass, float(length)))
    return units


def _import_solver() -> Any:
    """Return the solver of semidefinite programmes, which takes a while to import."""
    try:
        import clarabel
    except ModuleNotFoundError:
        raise MissingPackageError("clarabel", "physical consistency by semidefinite programme") from None
    return clarabel
