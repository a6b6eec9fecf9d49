# SPDX-License-Identifier: Apache-2.0

"""Unknown loads at the end of the robot, from recordings with each of them and without any.

A load adds its ten parameters phi to those of the last link, so the base parameters become base + M_L phi. All
recordings are fitted together: rows without a load see [W 0 0], rows with the first one [W, W M_L, 0], and so on.
Friction is taken to be the same in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.joint_agreement import agreement
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.physical.standard import full_map
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, combine, each_triangle
from ros2_dynid.identification.regression.least_squares import block_moments, jackknife, wls
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.parameters import LINK, link_slice
from ros2_dynid.model.robot import Array, Robot

CONFIDENCE = 0.95


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


def load_information(
    robot: Robot, base: BaseParameters, empty: Information, loaded: Information, joint: int | None = None
) -> Information:
    """Return both recordings' information about [base, delay, phi]: phi are the ten parameters of the load."""
    return loads_information(robot, base, empty, [loaded], joint)


def loads_information(
    robot: Robot, base: BaseParameters, empty: Information, loaded: Sequence[Information], joint: int | None = None
) -> Information:
    """Return the same for several loads, each with recordings of its own: [base, delay, phi_1, phi_2, ...]."""
    M_L, count = load_map(robot, base, robot.n if joint is None else joint), len(loaded)
    with_load = [widened(part, M_L, place, count) for place, part in enumerate(loaded)]
    return combine([widened(empty, None, 0, count), *with_load])


def one_load(found: Estimate, place: int) -> Estimate:
    """Return an estimate of several loads as one of load number `place` (from 0) alone."""
    layout, first = found.layout, found.layout.load.start + len(LINK) * place
    kept = [*range(layout.load.start), *range(first, first + len(LINK))]
    return replace(
        found,
        layout=replace(layout, n_load=len(LINK)),
        value=found.value[kept],
        covariance=found.covariance[np.ix_(kept, kept)],
        identified=found.identified[kept],
    )


def load_map(robot: Robot, base: BaseParameters, joint: int) -> Array:
    """Return M_L, shape (b, 10): what the ten parameters of a load on link `joint` add to the base parameters."""
    return full_map(robot, base)[:, link_slice(joint - 1)]


def identify_load(
    robot: Robot,
    base: BaseParameters,
    empty: Information,
    loaded: Information,
    *,
    joint: int | None = None,
    link: str | None = None,
    free: bool = False,
) -> Payload:
    """Return the load on the last link (or that of `joint`), in the frame of `link` (default: the joint's own).

    free: ten parameters that fit best, even if no body has them.
    """
    return identify_loads(robot, base, empty, [loaded], joint=joint, link=link, free=free)[0]


def identify_loads(
    robot: Robot,
    base: BaseParameters,
    empty: Information,
    loaded: Sequence[Information],
    *,
    joint: int | None = None,
    link: str | None = None,
    free: bool = False,
) -> list[Payload]:
    """Return several loads, each with recordings of its own, in one fit; else as identify_load."""
    number = robot.n if joint is None else joint
    together = loads_information(robot, base, empty, loaded, number)
    found = wls(together)
    M_L = load_map(robot, base, number)
    alone = empty_robot(empty, together, found)
    C = alone.base_covariance
    return [
        load_of(robot, one_load(found, k), alone.base, C, part, M_L, joint=number, link=link, free=free)
        for k, part in enumerate(loaded)
    ]


def empty_robot(empty: Information, together: Information, found: Estimate) -> Estimate:
    """Return the robot without its load, by which the joints are asked about it: from the recordings without the load.

    A fit to both recordings, `found` to `together`, takes a share of what the joints contradict each other by into
    base parameters and friction; it serves where the recordings without the load do not show all of them.
    """
    alone = wls(empty)
    information, known = (empty, alone) if np.all(alone.identified) else (together, found)
    # joints that contradict each other also make errors that last: bars that grow with those would hide them
    moments = block_moments(information, known.value, 1.0 / known.sigma)
    return replace(known, covariance=jackknife(moments, known.identified, grow=False)[0])


def load_of(
    robot: Robot,
    found: Estimate,
    base: Array,
    covariance: Array,
    loaded: Information,
    M_L: Array,
    *,
    joint: int | None = None,
    link: str | None = None,
    free: bool = False,
) -> Payload:
    """Return the load of an estimate, made one that a body can have unless `free`, with bars that joints agree on.

    base, covariance: of the robot without the load; loaded: rows with it; M_L: see load_map.
    """
    number = robot.n if joint is None else joint
    if not np.all(found.load_identified):
        unknown = [name for name, known in zip(LINK, found.load_identified, strict=True) if not known]
        what = f"{', '.join(unknown)} of the load not excited"
        raise InputError(what, "move more joints, about axes that are not all parallel, in both recordings", robot.name)
    load, at = found.load, found.layout.load
    agreed = agreement(loaded, base, covariance, found.delay, M_L, load, found.load_covariance)
    wider = found.covariance.copy()
    wider[at, at] += agreed.variance * np.outer(load, load)
    value = found.value.copy()
    if not free:
        value[at] = closest_body(load, wider[at, at])
    payload = payload_of(robot, replace(found, value=value, covariance=wider), number, link)
    return replace(
        payload,
        joint_mass=agreed.scale * load[-1],
        joint_mass_std=agreed.std * abs(load[-1]),
        contradicting=tuple(robot.active_names[j] for j in agreed.contradicting),
    )


def payload_of(robot: Robot, found: Estimate, joint: int, link: str | None) -> Payload:
    """Return the load from the estimate of its ten parameters, moved to the frame of `link`, with error bars."""
    pose: Array = np.eye(4)
    frame = f"joint {robot.joints[joint - 1].name}"
    if link is not None:
        carried = {name: transform for name, (number, transform) in robot.tools.items() if number == joint}
        if link not in carried:
            raise InputError(f"link {link!r} is not on joint {joint}", f"choose from {', '.join(carried) or 'none'}")
        pose, frame = np.asarray(np.linalg.inv(carried[link])), link
    return payload_in(found, pose, frame, joint)


def payload_in(found: Estimate, pose: Array, frame: str, joint: int) -> Payload:
    """Return the load from the estimate of its ten parameters, moved by `pose` (4, 4) to a frame, with error bars."""
    parameters, covariance = found.load, found.load_covariance
    figures = physical(parameters, pose)
    step = 1e-6 * np.maximum(np.abs(parameters), np.sqrt(np.diag(covariance)))
    jacobian = np.column_stack(
        [
            (physical(parameters + h * e, pose) - physical(parameters - h * e, pose)) / (2 * h)
            for h, e in zip(step, np.eye(len(LINK)), strict=True)
        ]
    )
    std = np.sqrt(np.einsum("ij,jk,ik->i", jacobian, covariance, jacobian))
    level = 0.5 + CONFIDENCE / 2
    width = float(stdtrit(found.dof, level) if np.isfinite(found.dof) else ndtri(level)) * std
    return Payload(
        mass=float(figures[0]),
        com=figures[1:4],
        inertia=_matrix(figures[4:]),
        mass_std=float(std[0]),
        com_std=std[1:4],
        inertia_std=_matrix(std[4:]),
        interval=(float(width[0]), width[1:4], _matrix(width[4:])),
        frame=frame,
        joint=joint,
        parameters=parameters,
        covariance=covariance,
        significant=bool(abs(figures[0]) > width[0]),
    )


def physical(parameters: Array, pose: Array) -> Array:
    """Return mass, centre of mass and inertia about it (XX XY XZ YY YZ ZZ), shape (10,), in the frame with `pose`."""
    XX, XY, XZ, YY, YZ, ZZ = parameters[:6]
    J = np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ)))
    body = Inertia(float(parameters[9]), np.asarray(parameters[6:9], dtype=float), J).moved(pose)
    M = body.mass if body.mass != 0.0 else 1e-300
    c = body.first_moment / M
    central = body.matrix - M * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array([M, *c, central[0, 0], central[0, 1], central[0, 2], central[1, 1], central[1, 2], central[2, 2]])


def _matrix(six: Array) -> Array:
    XX, XY, XZ, YY, YZ, ZZ = six
    return np.array(((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ)))


def widened(information: Information, M_L: Array | None, place: int = 0, count: int = 1) -> Information:
    """Return the information with ten more columns for each of `count` loads: R M_L for load number `place`, else zero.

    M_L: None where there is no load.
    """
    layout = replace(information.layout, n_load=count * len(LINK))
    extra = np.arange(layout.load.start, layout.load.stop)
    columns = tuple(np.append(old, extra) for old in information.columns)

    def with_load(triangle: Array, old: NDArray[np.intp]) -> Array:
        added = np.zeros((len(triangle), layout.n_load))
        if M_L is not None:
            of_base = old < layout.n_base
            own = slice(place * len(LINK), (place + 1) * len(LINK))
            added[:, own] = triangle[:, :-1][:, of_base] @ M_L[old[of_base]]
        return np.column_stack((triangle[:, :-1], added, triangle[:, -1]))

    return each_triangle(information, with_load, columns, layout)
