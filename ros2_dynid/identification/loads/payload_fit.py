# SPDX-License-Identifier: Apache-2.0

"""Unknown loads at the end of the robot, from recordings with each of them and without any, or with the robot's model.

A load adds its ten parameters phi to those of the last link, so the base parameters become base + M_L phi. All
recordings are fitted together: rows without a load see [W 0 0], rows with the first one [W, W M_L, 0], and so on.
Friction is taken to be the same in all.

With a stored model of the robot without the load its torque is taken off the rows, what is left is fitted by phi and
the delay of the effort. The error bars hold those of the model as well: phi moves by G d for an error d of its base
parameters and friction terms, which adds G C G^T with C the covariance of them all: what one of them takes from another
cancels.

Whether the joints agree about a load: its mass as each joint's rows alone tell it. A gain that is off or friction that
grows with the load makes joints contradict each other, and error bars from the scatter in time do not see that. What
the joints differ by beyond their own bars (DerSimonian and Laird) widens the bars of the load, as an error of its
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.regression.error_bars import (
    block_moments,
    deviations_beyond_chance,
    half_width,
    jackknife,
)
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import (
    Information,
    combine,
    each_triangle,
    restrict,
    select_friction,
)
from ros2_dynid.identification.regression.least_squares import weighted_triangle, wls
from ros2_dynid.model.friction_kinds import law_columns
from ros2_dynid.model.inertia import Inertia, link_inertia
from ros2_dynid.model.parameters import LINK, link_slice
from ros2_dynid.model.robot import Array, Robot

SIGNIFICANCE = 0.01
"""Joints are called contradictory where chance alone makes them differ as much in 1 of 100 cases."""
WEAK = 0.5
"""Joints that know the scale of the load worse than this are not asked."""
NEGATIVE_BY_CHANCE = 1e-5
"""How often chance may make the mass of no load at all negative, so that its recordings are refused."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """Mass by each joint's rows over that by all, with std, shape (n,), NaN if a joint does not tell it.

    Each joint is asked for the mass alone: mass times centre and inertia about the frame are those of all joints.
    variance: of the mean of all joints, by what they differ beyond their bars; contradicting: numbers of the
    joints that contradict the others, from 0.
    """

    scale: Array
    std: Array
    variance: float
    contradicting: tuple[int, ...]


def compare_joints(
    loaded: Information,
    base: Array,
    covariance: Array,
    delay: float,
    load_map: Array,
    load: Array,
    load_covariance: Array,
) -> Agreement:
    """Return whether the joints agree about the ten parameters `load`, whose last one is the mass.

    loaded: rows with the load; base, covariance, delay: of the robot without it; load_map: what ten parameters add to
    the base parameters, shape (b, 10).
    """
    layout, n = loaded.layout, loaded.n
    empty = layout.vector(base + load_map[:, :-1] @ load[:-1], delay)
    with_load = layout.vector(load_map[:, -1] * load[-1])
    others = load_map[:, :-1] @ load_covariance[:-1, :-1] @ load_map[:, :-1].T
    scale, std = np.full(n, np.nan), np.full(n, np.nan)
    for j, columns in enumerate(loaded.columns):
        of_base = columns < layout.n_base
        a, g = np.zeros(len(loaded.blocks)), np.zeros(len(loaded.blocks))
        slope = np.zeros(layout.n_base)
        for k, block in enumerate(loaded.blocks):
            R = block.R[j]
            x = R[:, :-1] @ with_load[columns]
            a[k], g[k] = x @ x, x @ (R[:, -1] - R[:, :-1] @ empty[columns])
            slope[columns[of_base]] += R[:, :-1][:, of_base].T @ x
        total = a.sum()
        if total <= 0.0 or len(a) < 2 or np.any(a >= total):
            continue
        value = g.sum() / total
        own = np.sum(((g - value * a) / (total - a)) ** 2)
        spread = np.sqrt(own + slope @ (covariance + others) @ slope / total**2)
        if 0.0 < spread < WEAK:
            scale[j], std[j] = value, spread
    return Agreement(scale, std, *find_disagreement(scale, std))


def find_disagreement(scale: Array, std: Array) -> tuple[float, tuple[int, ...]]:
    """Return the variance of the mean scale by the scatter between joints, and the joints that contradict the rest.

    The joint without which the others agree best is named, and so on until the rest agree: a joint with narrow bars
    draws the mean of all to itself, so that the distance from that mean would blame the others. Of two joints that
    contradict each other both are named.
    """
    rest = np.flatnonzero(np.isfinite(scale))
    if len(rest) < 2 or _agree(scale[rest], std[rest]):
        return 0.0, ()
    w = 1.0 / std[rest] ** 2
    between = (_scatter(scale[rest], std[rest]) - (len(rest) - 1)) / (w.sum() - w @ w / w.sum())
    variance = float(between * (w @ w) / w.sum() ** 2)
    named: list[int] = []
    while not _agree(scale[rest], std[rest]):
        if len(rest) == 2:
            named += [int(j) for j in rest]
            break
        without = [np.delete(rest, k) for k in range(len(rest))]
        best = int(np.argmin([_scatter(scale[others], std[others]) for others in without]))
        named.append(int(rest[best]))
        rest = without[best]
    return variance, tuple(sorted(named))


def _scatter(scale: Array, std: Array) -> float:
    """Return the sum of squared distances from the weighted mean, in standard deviations."""
    w = 1.0 / std**2
    return float(w @ (scale - w @ scale / w.sum()) ** 2)


def _agree(scale: Array, std: Array) -> bool:
    """Return whether chance explains what the joints differ by."""
    return len(scale) < 2 or bool(_scatter(scale, std) <= chdtri(len(scale) - 1, SIGNIFICANCE))


@dataclass(frozen=True, eq=False)
class Payload:
    """A load: mass [kg], com (3,) [m], inertia about it (3, 3) [kg.m^2] in the frame named, each with std and interval.

    interval: half width of the 95 % confidence interval of mass, com and inertia. significant: whether there is a load.
    joint_mass, joint_mass_std: mass by each active joint's rows alone, shape (n,), NaN if it does not tell;
    contradicting: joints whose mass is far from that of the others, which widens all bars.
    """

    mass: float
    com: Array
    inertia: Array
    mass_std: float
    com_std: Array
    inertia_std: Array
    interval: tuple[float, Array, Array]
    frame: str
    joint: int
    parameters: Array
    covariance: Array
    significant: bool
    joint_mass: Array = field(default_factory=lambda: np.zeros(0))
    joint_mass_std: Array = field(default_factory=lambda: np.zeros(0))
    contradicting: tuple[str, ...] = ()


def load_joint(robot: Robot, link: str | None = None) -> int:
    """Return the number of the joint that carries a load on `link`; None: on the robot's only end.

    An end is a joint that carries no other one and moves by itself.
    """
    if link is not None:
        if link not in robot.tools or not robot.tools[link][0]:
            known = ", ".join(name for name, (number, _) in robot.tools.items() if number)
            raise InputError(f"the robot has no moving link {link!r}", f"choose from {known or 'none'}", robot.name)
        return robot.tools[link][0]
    carrying = {joint.parent for joint in robot.joints}
    ends = [number for number in robot.active if number not in carrying] or [robot.n]
    if len(ends) > 1:
        names = ", ".join(robot.joints[number - 1].name for number in ends)
        hint = Text(
            "name the link that carries the load by ", Option("link"), ", or the chain to it by ", Option("tip_link")
        )
        raise InputError(f"the robot has {len(ends)} ends: {names}", hint, robot.name)
    return ends[0]


def load_link(robot: Robot, link: str | None) -> str | None:
    """Return the link in whose frame a load is given: the one named, else the first that the robot's end carries."""
    end = load_joint(robot, link)
    return link or next((name for name, (number, _) in robot.tools.items() if number == end), None)


def build_load_information(
    robot: Robot, base: BaseParameters, empty: Information, loaded: Sequence[Information], link: str | None = None
) -> Information:
    """Return the information of recordings without and with loads, about [base, delay, phi_1, phi_2, ...].

    phi_k: ten parameters of load number k, whose recordings are loaded[k]; link: see load_joint.
    """
    M_L, count = load_map(robot, base, link), len(loaded)
    with_load = [add_load_columns(part, M_L, place, count) for place, part in enumerate(loaded)]
    return combine([add_load_columns(empty, None, 0, count), *with_load])


def one_load(estimate: Estimate, place: int) -> Estimate:
    """Return an estimate of several loads as one of load number `place` (from 0) alone."""
    layout, first = estimate.layout, estimate.layout.load.start + len(LINK) * place
    kept = [*range(layout.load.start), *range(first, first + len(LINK))]
    return replace(
        estimate,
        layout=replace(layout, n_load=len(LINK)),
        value=estimate.value[kept],
        covariance=estimate.covariance[np.ix_(kept, kept)],
        identified=estimate.identified[kept],
    )


def load_map(robot: Robot, base: BaseParameters, link: str | None = None) -> Array:
    """Return M_L, shape (b, 10): what the ten parameters of a load add to the base parameters; link: see load_joint."""
    return base.full_map(robot)[:, link_slice(load_joint(robot, link) - 1)]


def identify_loads(
    robot: Robot,
    base: BaseParameters,
    empty: Information,
    loaded: Sequence[Information],
    *,
    link: str | None = None,
    free: bool = False,
) -> list[Payload]:
    """Return loads on one link, each with recordings of its own, in one fit; link, free: see `payload_of`."""
    together = build_load_information(robot, base, empty, loaded, link)
    estimate, M_L = wls(together), load_map(robot, base, link)
    alone = estimate_empty_robot(empty, together, estimate)
    C, plain = alone.base_covariance, [select_friction(part, (), alone.friction) for part in loaded]
    return [
        payload_of(robot, one_load(estimate, k), alone.base, C, part, M_L, link=link, free=free)
        for k, part in enumerate(plain)
    ]


def estimate_empty_robot(empty: Information, together: Information, estimate: Estimate) -> Estimate:
    """Return the robot without its load, by which the joints are asked about it: from the recordings without the load.

    A fit to both recordings, `estimate` to `together`, takes a share of what the joints contradict each other by into
    base parameters and friction; it serves where the recordings without the load do not show all of them.
    """
    alone = wls(empty)
    information, known = (empty, alone) if np.all(alone.identified) else (together, estimate)
    # joints that contradict each other also make errors that last: bars that grow with those would hide them
    moments = block_moments(information, known.value, 1.0 / known.sigma)
    return replace(known, covariance=jackknife(moments, known.identified, grow=False)[0])


def payload_of(
    robot: Robot,
    estimate: Estimate,
    base: Array,
    covariance: Array,
    loaded: Information,
    M_L: Array,
    *,
    link: str | None = None,
    free: bool = False,
) -> Payload:
    """Return the load of an estimate in the frame of `link` (default: that of the last joint), with error bars.

    free: ten parameters that fit best, even if no body has them. base, covariance: of the robot without the load;
    loaded: rows with it; M_L: see load_map. What the joints contradict each other by widens the error bars.
    """
    if not np.all(estimate.load_identified):
        unknown = [name for name, known in zip(LINK, estimate.load_identified, strict=True) if not known]
        what = f"{', '.join(unknown)} of the load not excited"
        raise InputError(what, "move more joints, about axes that are not all parallel, in both recordings", robot.name)
    load, at = estimate.load, estimate.layout.load
    agreement = compare_joints(loaded, base, covariance, estimate.delay, M_L, load, estimate.load_covariance)
    wider, value = estimate.covariance.copy(), estimate.value.copy()
    wider[at, at] += agreement.variance * np.outer(load, load)
    if not free:
        _refuse_negative_mass(float(load[-1]), float(np.sqrt(wider[at, at][-1, -1])), estimate.dof)
        value[at] = closest_body(load, wider[at, at])
    payload = payload_in(
        replace(estimate, value=value, covariance=wider), *load_frame(robot, link), load_joint(robot, link)
    )
    return replace(
        payload,
        joint_mass=agreement.scale * load[-1],
        joint_mass_std=agreement.std * abs(load[-1]),
        contradicting=tuple(robot.active_names[j] for j in agreement.contradicting),
    )


def _refuse_negative_mass(mass: float, std: float, dof: float) -> None:
    """Refuse a load that the robot clearly has less of in the recordings with it than in those without."""
    if mass < -deviations_beyond_chance(dof, NEGATIVE_BY_CHANCE) * std:
        what = f"the load has a negative mass, {mass:.3g} +- {std:.2g} kg: the robot carries less with it than without"
        raise InputError(what, Text("swap the recordings; if that is how it is, use ", Option("free")))


def load_frame(robot: Robot, link: str | None) -> tuple[Array, str]:
    """Return the pose (4, 4) of the load's joint in the frame of `link`, which it carries, and the frame's name.

    None: the joint's own frame.
    """
    number = load_joint(robot, link)
    if link is None:
        return np.eye(4), f"joint {robot.joints[number - 1].name}"
    return np.asarray(np.linalg.inv(robot.tools[link][1])), link


def payload_in(estimate: Estimate, pose: Array, frame: str, joint: int) -> Payload:
    """Return the load from the estimate of its ten parameters, moved by `pose` (4, 4) to a frame, with error bars."""
    parameters, covariance = estimate.load, estimate.load_covariance
    figures = physical(parameters, pose)
    step = 1e-6 * np.maximum(np.abs(parameters), np.sqrt(np.diag(covariance)))
    jacobian = np.column_stack(
        [
            (physical(parameters + h * e, pose) - physical(parameters - h * e, pose)) / (2 * h)
            for h, e in zip(step, np.eye(len(LINK)), strict=True)
        ]
    )
    std = np.sqrt(np.einsum("ij,jk,ik->i", jacobian, covariance, jacobian))
    width = half_width(estimate.dof) * std
    return Payload(
        mass=float(figures[0]),
        com=figures[1:4],
        inertia=link_inertia(figures[4:]),
        mass_std=float(std[0]),
        com_std=std[1:4],
        inertia_std=link_inertia(std[4:]),
        interval=(float(width[0]), width[1:4], link_inertia(width[4:])),
        frame=frame,
        joint=joint,
        parameters=parameters,
        covariance=covariance,
        significant=bool(abs(figures[0]) > width[0]),
    )


def physical(parameters: Array, pose: Array) -> Array:
    """Return mass, centre of mass and inertia about it (XX XY XZ YY YZ ZZ), shape (10,), in the frame with `pose`."""
    body = Inertia(float(parameters[9]), np.asarray(parameters[6:9], dtype=float), link_inertia(parameters)).moved(pose)
    M = body.mass if body.mass != 0.0 else 1e-300
    c = body.first_moment / M
    central = body.matrix - M * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array([M, *c, *central[np.triu_indices(3)]])


def add_load_columns(information: Information, M_L: Array | None, place: int = 0, count: int = 1) -> Information:
    """Return the information with ten more columns for each of `count` loads: R M_L for load number `place`, else zero.

    M_L: None where there is no load.
    """
    layout = replace(information.layout, n_load=count * len(LINK))
    extra = np.arange(layout.load.start, layout.load.stop)
    columns = tuple(np.append(old, extra) if len(old) else old for old in information.columns)

    def with_load(triangle: Array, old: NDArray[np.intp]) -> Array:
        if not len(old):  # a joint whose effort is not measured
            return triangle
        added = np.zeros((len(triangle), layout.n_load))
        if M_L is not None:
            of_base = old < layout.n_base
            own = slice(place * len(LINK), (place + 1) * len(LINK))
            added[:, own] = triangle[:, :-1][:, of_base] @ M_L[old[of_base]]
        return np.column_stack((triangle[:, :-1], added, triangle[:, -1]))

    return each_triangle(information, with_load, columns, layout)


def identify_load_on_model(
    model: IdentifiedModel,
    base: BaseParameters,
    loaded: Information,
    *,
    link: str | None = None,
    free: bool = False,
) -> Payload:
    """Return the load on the robot's link; `base` are the base parameters that `loaded` is about.

    Columns of friction terms in `loaded` are those of `law_columns`: the model's law, at the load that its gears carry.
    """
    robot, layout = model.robot, loaded.layout
    if model.leaders != base.leaders:
        raise InputError("the model has other base parameters", "identify the robot without the load again", robot.name)
    M_L, value, covariance = load_map(robot, base, link), model.value, model.covariance
    if layout.n_friction:  # known from the model like the base parameters, whatever the load
        columns = law_columns(robot.friction)
        covariance = model.known_covariance
        value = np.append(value, [0.0 if column.of_shape else column.coefficient for column in columns])
        M_L = np.vstack((M_L, np.zeros((len(columns), M_L.shape[1]))))
        loaded = replace(loaded, layout=replace(layout, n_base=len(value), n_friction=0))
    full = add_load_columns(loaded, M_L)
    _refuse_open(model, full)
    estimate = wls(without_base(full, value))
    triangle = weighted_triangle(full, 1.0 / estimate.sigma)
    X = triangle.W[:, full.layout.n_base :]
    G = np.linalg.lstsq(X, triangle.base, rcond=None)[0]
    estimate = replace(estimate, covariance=estimate.covariance + G @ covariance @ G.T)
    return payload_of(robot, estimate, value, covariance, loaded, M_L, link=link, free=free)


def _refuse_open(model: IdentifiedModel, loaded: Information) -> None:
    """Refuse a model whose recording did not excite what this motion needs: its error is not known."""
    norms = np.zeros(loaded.size)
    for j, columns in enumerate(loaded.columns):
        norms[columns] += np.linalg.norm(loaded.triangle(j)[:, :-1], axis=0)
    excited = norms[: len(model.std)] > 1e-9 * norms.max(initial=0.0)
    unknown = [
        name
        for name, std, needed in zip(model.names, model.std, excited, strict=True)
        if needed and not np.isfinite(std)
    ]
    if unknown:
        what = f"the model does not know {', '.join(unknown[:5])}"
        raise InputError(what, "identify the robot without the load from a motion of all joints", model.robot.name)


def without_base(information: Information, value: Array) -> Information:
    """Return the information about delay and load alone: the torque of the base parameters is taken off."""
    old = information.layout
    return restrict(information, range(old.n_base, old.size), ColumnLayout(0, old.n_delay, old.n_load), value)
