# SPDX-License-Identifier: Apache-2.0

"""Where priors come from: the masses and inertias of the robot's description, or the model of a sister robot.

How far a link may be from its description is measured by the entropic distance between pseudo-inertias P (Lee, Wensing
and Park, 2020): tr(P0^-1 P) - log det(P0^-1 P) - 4, which does not depend on units or frames. Near P0 it is half of
tr(P0^-1 dP P0^-1 dP), their constant pull-back metric, and that is used: it is quadratic, so base parameters have it
in closed form, and the semidefinite programme takes it as further rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.linalg import null_space

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.physical.consistency import longest_link, make_consistent
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.information import Information
from ros2_dynid.identification.regression.least_squares import joint_torques
from ros2_dynid.identification.regression.prior import Prior, embed_prior, torque_scale
from ros2_dynid.model.inertia import links_of, pseudo_inertia
from ros2_dynid.model.parameters import LINK, group_of, link_slice, standard_names, standard_vector
from ros2_dynid.model.robot import STANDARD_GRAVITY, Array, Robot
from ros2_dynid.model.same_robot import check_same_robot

DESCRIBED, GUESSED = "the URDF prior", "a generic prior scaled to the torques"
G = -STANDARD_GRAVITY[2]
"""Gravity [m/s^2] that the size of bodies is guessed with, however the robot is mounted."""
OFFSET = 0.1
"""Offsets beside the torque that was measured at their joint: 0.02 in the median of 25 joints of four real robots, 0.13
as root mean square. A joint that moved in one direction only has friction there, not an offset."""
SMALLEST = 1e-9
"""Relative eigenvalue of a covariance below which its inverse is not formed: the file rounds it."""


def has_masses(robot: Robot) -> bool:
    """Return whether the description says what the links weigh: without masses it is no prior."""
    return bool(np.any(links_of(robot, standard_vector(robot))[:, 9] > 0.0))


def bodies_to_start_from(robot: Robot, information: Information) -> Array:
    """Return a priori parameters that bodies can have, shape (n_standard,).

    A description without masses says nothing of their size, and the programme needs units to measure in: each link is
    then a ball that reaches as far as the longest one and weighs what would need, at the end of that, the largest
    torque measured at its joint or behind it.
    """
    chi = standard_vector(robot)
    if not has_masses(robot):
        torque = joint_torques(information) / np.sqrt(np.maximum(information.rows, 1))
        length = longest_link(robot)
        for k, link in enumerate(links_of(robot, chi), start=1):  # rows are views into chi
            mass = _torque_that_bears(robot, k, torque) / (G * length)
            link[9] = mass
            link[[0, 3, 5]] = 0.4 * mass * length**2
    return make_consistent(robot, chi)


def _torque_that_bears(robot: Robot, number: int, torque: Array) -> float:
    """Return the largest torque measured at joint `number` or behind it; if nothing is, before it, or anywhere.

    torque: shape (n_active,). Passive joints, and the last links of a branch of a linkage, have no drive behind them.
    """
    size: dict[int, float] = dict(zip(robot.active, torque.tolist(), strict=True))
    above = _joints_to_base(robot, number)
    behind = [size[j] for j in robot.active if number in _joints_to_base(robot, j)]
    before = [size[j] for j in robot.active if j in above]
    return max(behind or before or size.values())


def _joints_to_base(robot: Robot, number: int) -> set[int]:
    """Return joint `number` and those that carry it."""
    joints = set()
    while number:
        joints.add(number)
        number = robot.joints[number - 1].parent
    return joints


def described_prior(problem: Problem, *, guess: bool = False) -> Prior:
    """Return the prior of the robot's description; friction and offsets are drawn towards its values, too.

    guess: whether bodies may be guessed where the description has no masses (`bodies_to_start_from`): they know little
    but that links are bodies, and how heavy bodies of that torque are.

    Friction that nobody described may make as much torque as was measured at its joint, an offset a tenth of that.
    """
    robot, base = problem.robot, problem.base
    described = has_masses(robot)
    if not described and not guess:
        hint = Text("add masses, or identify without: ", Option("prior", "none"))
        raise InputError("the robot's description has no masses to draw the estimate towards", hint)
    chi = bodies_to_start_from(robot, problem.information)
    M, names = base.full_map(robot), standard_names(robot)
    link = np.array([group_of(name) == "inertial" for name in names])
    scatter = M[:, link] @ np.linalg.inv(entropic_metric(robot, chi)) @ M[:, link].T
    # Rotors, friction and offsets are not described: what they add to a base parameter has a flat prior.
    free = null_space(M[:, ~link].T) if np.any(~link) else np.eye(len(M))
    L = free @ np.linalg.inv(free.T @ scatter @ free) @ free.T
    mean, information = embed_prior(problem.information.layout, M @ chi, L)
    leaders = [names[k] for k in base.columns(robot)]
    drives = {
        k: OFFSET if group_of(name) == "offset" else 1.0
        for k, name in enumerate(leaders)
        if group_of(name) in ("friction", "offset")
    }
    return _with_drives(problem, Prior(mean, information, DESCRIBED if described else GUESSED), drives)


def model_prior(problem: Problem, model: IdentifiedModel, source: str) -> Prior:
    """Return the prior of another identified model, of this robot or of a sister: its values and their covariance."""
    robot, base, layout = problem.robot, problem.base, problem.information.layout
    check_same_robot(robot, model.robot, source)
    if tuple(model.names) != tuple(base.names):
        raise InputError("the model has other base parameters", "identify it with the same robot file", source)
    known = np.isfinite(model.std)
    L = np.zeros((len(base), len(base)))
    L[np.ix_(known, known)] = _inverse(model.covariance[np.ix_(known, known)])
    mean, information = embed_prior(layout, np.where(known, model.value, base.values(robot, standard_vector(robot))), L)
    coefficients = {(term.name, term.shape): term.coefficient for term in model.robot.friction}
    for k, term in zip(range(layout.friction.start, layout.friction.stop), problem.terms, strict=True):
        mean[k] = coefficients.get((term.name, term.shape), 0.0)
    return _with_drives(problem, Prior(mean, information, source), {})


def entropic_metric(robot: Robot, chi: Array) -> Array:
    """Return G, shape (10 n, 10 n): half of tr(P0^-1 dP P0^-1 dP) of all links is dchi^T G dchi."""
    G = np.zeros((len(LINK) * robot.n, len(LINK) * robot.n))
    for j, parameters in enumerate(links_of(robot, chi)):
        inverse = np.linalg.inv(pseudo_inertia(parameters))
        moved = np.array([inverse @ pseudo_inertia(e) for e in np.eye(len(LINK))])
        at = slice(len(LINK) * j, len(LINK) * (j + 1))
        G[at, at] = 0.5 * np.einsum("aij,bji->ab", moved, moved)
    assert link_slice(0).stop == len(LINK)
    return G


def _with_drives(problem: Problem, prior: Prior, columns: Mapping[int, float]) -> Prior:
    """Return the prior with the friction terms and with these columns, each by its share of the torque measured."""
    information, layout = prior.information.copy(), problem.information.layout
    shares = {**columns, **dict.fromkeys(range(layout.friction.start, layout.friction.stop), 1.0)}
    for k, share in shares.items():
        scale = share * torque_scale(problem.information, k)
        if 0.0 < scale < np.inf:
            information[k, k] += 1.0 / scale**2
    return Prior(prior.mean, information, prior.source)


def _inverse(covariance: Array) -> Array:
    """Return the inverse, directions that the file's digits do not resolve held to the smallest one that they do."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    values = np.maximum(values, SMALLEST * values[-1])
    return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))
