# SPDX-License-Identifier: Apache-2.0

"""URDF -> Robot: modified DH table, standard parameters in its frames, limits, passive joints, notes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ros2_dynid.model.inertia import merged
from ros2_dynid.model.mdh import Axis, mdh_table, snap_axes
from ros2_dynid.model.robot import PRISMATIC, REVOLUTE, STANDARD_GRAVITY, Array, Joint, Limits, Passive, Robot
from ros2_dynid.model.subchain import PlacedJoint, PlacedLink, Subchain, select_chain
from ros2_dynid.model.transforms import inverse
from ros2_dynid.model.urdf import UrdfJoint, UrdfTree, name_list, parse_urdf


def robot_from_urdf_string(
    text: bytes | str,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    source: str = "robot_description",
) -> Robot:
    """Return the robot of a URDF's text, as a node gets it from the topic robot_description."""
    return robot_from_tree(parse_urdf(text, source), base_link=base_link, tip_link=tip_link, hold=hold)


def robot_from_tree(
    tree: UrdfTree,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
) -> Robot:
    """Return the robot of a parsed URDF, or of a sub-chain of it with the other joints held."""
    chain = select_chain(tree, base_link, tip_link, hold)
    axes = [Axis(joint.parent, joint.axis, joint.pose[:3, 3]) for joint in chain.joints]
    axes, changes = snap_axes(axes, chain.up)
    rows, frames = mdh_table(axes, _reference_x(chain.joints[0], axes[0].direction))
    notes = [*tree.notes, *chain.notes]
    if changes:
        names = [chain.joints[number - 1].urdf.name for number in changes]
        notes.append(
            f"axes that were parallel or perpendicular but for rounding taken as exactly so (largest change "
            f"{max(changes.values()):.1e} rad): {name_list('joint', names)}"
        )
    joints = tuple(
        Joint(
            name=placed.urdf.name,
            parent=placed.parent,
            sigma=PRISMATIC if placed.urdf.type == "prismatic" else REVOLUTE,
            gamma=row.gamma,
            b=row.b,
            alpha=row.alpha,
            d=row.d,
            theta=row.theta,
            r=row.r,
            limits=_limits(placed.urdf, notes),
        )
        for placed, row in zip(chain.joints, rows, strict=True)
    )
    numbers = {joint.name: number for number, joint in enumerate(joints, start=1)}
    passive = tuple(
        Passive(number, {numbers[name]: factor for name, factor in placed.mimic[1].items()}, placed.mimic[0])
        for number, placed in enumerate(chain.joints, start=1)
        if placed.mimic is not None
    )
    if passive:
        followers = [joints[constraint.joint - 1].name for constraint in passive]
        notes.append(f"passive because of <mimic>: {name_list('joint', followers)}")
    return Robot(
        name=tree.name,
        joints=joints,
        gravity=STANDARD_GRAVITY[2] * _tidy(chain.up),
        base=_tidy(frames[0]),
        tools=_tools(chain, frames, tip_link),
        passive=passive,
        parameters=_parameters(chain, frames, notes),
        notes=tuple(notes),
    )


def _reference_x(first: PlacedJoint, axis: Array) -> Array:
    """Return the coordinate direction of joint 1's own URDF frame that its x axis can follow: x, else y."""
    x, y = first.pose[:3, 0], first.pose[:3, 1]
    return x if abs(x @ axis) < 0.9 else y


def _tidy(array: Array) -> Array:
    """Return the array without the rounding errors around zero (and without negative zeros)."""
    return np.where(np.abs(array) < 1e-15, 0.0, array)


def _limits(joint: UrdfJoint, notes: list[str]) -> Limits:
    """Return the joint's limits; what the URDF leaves out or gives as nonsense is unknown, with a note."""
    lower, upper = joint.lower, joint.upper
    if joint.type == "continuous":
        lower, upper = -np.inf, np.inf
    elif not joint.has_limit:
        notes.append(f"joint {joint.name!r} has no <limit>: taken as unlimited")
        lower, upper = -np.inf, np.inf
    elif not lower < upper:
        notes.append(f"joint {joint.name!r} has the limits {lower:g} to {upper:g}: taken as unlimited")
        lower, upper = -np.inf, np.inf
    values = {}
    for kind, value in (("velocity", joint.velocity), ("effort", joint.effort)):
        if value <= 0:
            notes.append(f"joint {joint.name!r} has the {kind} limit {value:g}: taken as unlimited")
            value = np.inf
        values[kind] = value
    return Limits(lower=lower, upper=upper, velocity=values["velocity"], effort=values["effort"])


def _tools(chain: Subchain, frames: Array, tip_link: str | None) -> dict[str, tuple[int, Array]]:
    """Return the pose (4, 4) of the tip link in its joint's frame, or of all links that the last joints carry."""
    inner = {joint.parent for joint in chain.joints}
    ends = set(range(1, len(chain.joints) + 1)) - inner
    return {
        link.name: (link.carrier, _tidy(inverse(frames[link.carrier]) @ link.pose))
        for link in chain.links
        if (link.name == tip_link if tip_link is not None else link.carrier in ends)
    }


def _parameters(chain: Subchain, frames: Array, notes: list[str]) -> dict[str, float]:
    """Return the standard parameters: the links that each joint carries, seen from its frame; damping and friction."""
    parameters: dict[str, float] = {}
    tree = chain.tree
    missing = []
    faults: dict[str, list[str]] = {}
    own = {joint.urdf.child for joint in chain.joints}
    for link in chain.links:
        body = tree.links[link.name]
        if link.carrier == 0:
            continue
        if body is None:
            if link.name in own or link.name in tree.solid:
                missing.append(link.name)
        elif (fault := body.fault()) is not None:
            faults.setdefault(fault, []).append(link.name)
    if missing:
        notes.append(f"no <inertial>, taken as zero: {name_list('link', missing)}")
    notes += [f"{fault}, kept as it is: {name_list('link', names)}" for fault, names in faults.items()]
    links_of_joint: dict[int, list[PlacedLink]] = {number: [] for number in range(len(chain.joints) + 1)}
    for link in chain.links:
        links_of_joint[link.carrier].append(link)
    for number, joint in enumerate(chain.joints, start=1):
        from_base = inverse(frames[number])
        bodies = [(tree.links[link.name], link.pose) for link in links_of_joint[number]]
        body = merged(body.moved(from_base @ pose) for body, pose in bodies if body is not None)
        values = body.standard() | {"Fv": joint.urdf.damping, "Fc": joint.urdf.friction}
        parameters |= {f"{kind}{number}": value for kind, value in values.items() if value != 0.0}
        for kind, value in (("damping", joint.urdf.damping), ("friction", joint.urdf.friction)):
            if value < 0:
                notes.append(f"joint {joint.urdf.name!r} has the negative {kind} {value:g}, kept as it is")
    return parameters
