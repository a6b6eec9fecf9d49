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

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.joint_agreement import compare_joints
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.regression.information import Information, combine, each_triangle
from ros2_dynid.identification.regression.least_squares import block_moments, half_width, jackknife, wls
from ros2_dynid.model.inertia import Inertia, link_inertia
from ros2_dynid.model.parameters import LINK, link_slice
from ros2_dynid.model.robot import Array, Robot


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


def build_load_information(
    robot: Robot, base: BaseParameters, empty: Information, loaded: Sequence[Information]
) -> Information:
    """Return the information of recordings without and with loads, about [base, delay, phi_1, phi_2, ...].

    phi_k: ten parameters of load number k, whose recordings are loaded[k].
    """
    M_L, count = load_map(robot, base), len(loaded)
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


def load_map(robot: Robot, base: BaseParameters) -> Array:
    """Return M_L, shape (b, 10): what the ten parameters of a load on the last link add to the base parameters."""
    return base.full_map(robot)[:, link_slice(robot.n - 1)]


def identify_loads(
    robot: Robot,
    base: BaseParameters,
    empty: Information,
    loaded: Sequence[Information],
    *,
    link: str | None = None,
    free: bool = False,
) -> list[Payload]:
    """Return loads on the last link, each with recordings of its own, in one fit; link, free: see `payload_of`."""
    together = build_load_information(robot, base, empty, loaded)
    estimate, M_L = wls(together), load_map(robot, base)
    alone = estimate_empty_robot(empty, together, estimate)
    return [
        payload_of(robot, one_load(estimate, k), alone.base, alone.base_covariance, part, M_L, link=link, free=free)
        for k, part in enumerate(loaded)
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
    """Return the load of an estimate in the frame of `link` (default: the last joint's own), with error bars.

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
        value[at] = closest_body(load, wider[at, at])
    payload = payload_in(replace(estimate, value=value, covariance=wider), *load_frame(robot, link), robot.n)
    return replace(
        payload,
        joint_mass=agreement.scale * load[-1],
        joint_mass_std=agreement.std * abs(load[-1]),
        contradicting=tuple(robot.active_names[j] for j in agreement.contradicting),
    )


def load_frame(robot: Robot, link: str | None) -> tuple[Array, str]:
    """Return the pose (4, 4) of the last joint's frame in that of `link`, which it carries, and the frame's name.

    None: the joint's own frame.
    """
    if link is None:
        return np.eye(4), f"joint {robot.joints[robot.n - 1].name}"
    frames = {name: transform for name, (number, transform) in robot.tools.items() if number == robot.n}
    if link not in frames:
        raise InputError(f"link {link!r} is not on joint {robot.n}", f"choose from {', '.join(frames) or 'none'}")
    return np.asarray(np.linalg.inv(frames[link])), link


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
    columns = tuple(np.append(old, extra) for old in information.columns)

    def with_load(triangle: Array, old: NDArray[np.intp]) -> Array:
        added = np.zeros((len(triangle), layout.n_load))
        if M_L is not None:
            of_base = old < layout.n_base
            own = slice(place * len(LINK), (place + 1) * len(LINK))
            added[:, own] = triangle[:, :-1][:, of_base] @ M_L[old[of_base]]
        return np.column_stack((triangle[:, :-1], added, triangle[:, -1]))

    return each_triangle(information, with_load, columns, layout)
