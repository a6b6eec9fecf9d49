# SPDX-License-Identifier: Apache-2.0

"""URDF -> Robot: modified DH table, standard parameters in its frames, limits, passive joints, notes.

Links behind fixed and held joints belong to the moving joint before them. Joints are numbered depth first in the order
of the file, so that the antecedent's number is the smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.efforts import LINK_TORQUE
from ros2_dynid.model.floating_base import with_floating_base
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.inertia import merged
from ros2_dynid.model.mdh import Axis, inverse, mdh_table, rotation_about, snap_axes, transform
from ros2_dynid.model.robot import BASE_JOINTS, PRISMATIC, REVOLUTE, Array, Joint, Limits, Loops, Passive, Robot
from ros2_dynid.model.urdf import LoopCuts, UrdfJoint, UrdfTree, name_list, parse_urdf


class ChainOptions(TypedDict):
    """Which part of a URDF is the robot: from base_link to tip_link (None: all), joints held at [rad or m].

    floating_base: whether base_link floats.
    """

    base_link: str | None
    tip_link: str | None
    hold: Mapping[str, float]
    floating_base: bool


@dataclass(frozen=True)
class PlacedJoint:
    """Moving joint of a chain: antecedent's number, URDF frame and axis in the base link's frame at q = 0."""

    urdf: UrdfJoint
    parent: int
    pose: Array
    axis: Array
    mimic: tuple[float, Mapping[str, float]] | None = None
    """For a passive joint: the offset, and the active joints that lead it with their factors."""


@dataclass(frozen=True)
class PlacedLink:
    """Link of a chain: the number of the joint that carries it (0: the base) and its pose (4, 4) at q = 0."""

    name: str
    carrier: int
    pose: Array


@dataclass(frozen=True)
class Subchain:
    """The moving part of a URDF at the zero position, gravity (3,) and its opposite direction `up`, in the base link's
    frame.
    """

    tree: UrdfTree
    base_link: str
    joints: tuple[PlacedJoint, ...]
    links: tuple[PlacedLink, ...]
    gravity: Array
    up: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _JointMotion:
    """How a joint moves: held at `offset`, or offset + sum of factors times active joints, or freely (None)."""

    offset: float
    factors: Mapping[str, float]


def select_chain(
    tree: UrdfTree,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> Subchain:
    """Return the sub-chain from `base_link` (default: the root) to `tip_link` (default: every branch).

    Joints in `hold` stay at the position given [rad or m], the other joints left out at zero. floating_base: six
    joints lead from the world to the base link.
    """
    hold = dict(hold or {})
    if floating_base:
        tree = with_floating_base(tree, base_link)
        base_link = tree.root
    base = tree.root if base_link is None else base_link
    for link, option in ((base, "base link"), (tip_link, "tip link")):
        if link is not None and link not in tree.links:
            raise InputError(f"there is no {option} {link!r}", _choose("link", tree.links), tree.source)
    notes = _check_hold(tree, hold)
    carrier = {joint.child: joint for joint in tree.joints.values()}
    on_chain = _joints_on_chain(tree, base, tip_link, carrier)
    motions = _motions(tree, hold, on_chain, notes)
    _refuse_loops(tree, motions)
    joints, links = _place(tree, base, motions)
    if not joints:
        hint = (
            "choose other base and tip links, or hold fewer joints"
            if on_chain
            else "choose a link with joints beyond it"
        )
        raise InputError(f"no joint moves beyond link {base!r}", hint, tree.source)
    root_to_base = np.eye(4)
    link = base
    while link in carrier:
        root_to_base = _fixed_pose(carrier[link], motions) @ root_to_base
        link = carrier[link].parent
    # Gravity is given in the root's frame, however the base link is mounted on it.
    gravity = root_to_base[:3, :3].T @ tree.gravity
    strength = np.linalg.norm(gravity)
    up = -gravity / strength if strength > 0.0 else root_to_base[2, :3].copy()
    if base != tree.root and up[2] < 1.0 - 1e-12:
        notes.append(f"gravity is turned into the frame of base link {base!r}, which is not upright in {tree.root!r}")
    return Subchain(tree, base, tuple(joints), tuple(links), gravity, up, tuple(notes))


def _choose(kind: str, names: Mapping[str, object]) -> str:
    return f"choose one of the {name_list(kind, names, 12)}"


def _check_hold(tree: UrdfTree, hold: dict[str, float]) -> list[str]:
    notes = []
    for name, value in hold.items():
        if name not in tree.joints:
            raise InputError(f"there is no joint {name!r} to hold", _choose("joint", tree.joints), tree.source)
        joint = tree.joints[name]
        if not np.isfinite(value):
            raise InputError(f"joint {name!r} held at {value}", "give a finite position [rad or m]", tree.source)
        if not joint.moves and value != 0.0:
            raise InputError(f"joint {name!r} is {joint.type}", "it can only be held at 0", tree.source)
        has_range = joint.moves and joint.has_limit and joint.type != "continuous" and joint.lower < joint.upper
        if has_range and not joint.lower - 1e-6 <= value <= joint.upper + 1e-6:
            notes.append(f"joint {name!r} is held at {value:g}, outside its limits")
    return notes


def _joints_on_chain(tree: UrdfTree, base: str, tip: str | None, carrier: Mapping[str, UrdfJoint]) -> set[str]:
    """Return the moving joints of the sub-chain: from base to tip, or all below the base."""
    if tip is not None:
        names, link = set(), tip
        while link != base:
            if link not in carrier:
                raise InputError(
                    f"tip link {tip!r} is not beyond base link {base!r}", "swap them, or choose others", tree.source
                )
            names.add(carrier[link].name)
            link = carrier[link].parent
    else:
        names, stack = set(), [base]
        while stack:
            for joint in tree.children.get(stack.pop(), ()):
                names.add(joint.name)
                stack.append(joint.child)
    return {name for name in names if tree.joints[name].moves}


def _motions(
    tree: UrdfTree, hold: Mapping[str, float], on_chain: set[str], notes: list[str]
) -> dict[str, _JointMotion]:
    """Return how each joint that is not free moves; joints that mimic a free one carry its factor."""
    motions: dict[str, _JointMotion] = {}
    for joint in tree.joints.values():
        if joint.name in hold:
            motions[joint.name] = _JointMotion(hold[joint.name], {})
        elif joint.type == "fixed":
            motions[joint.name] = _JointMotion(0.0, {})
        elif not joint.moves:
            if joint.parent != tree.root:
                raise InputError(
                    f"joint {joint.name!r} is {joint.type}",
                    Text("hold it: ", Option("hold", {joint.name: 0})),
                    tree.source,
                )
            notes.append(f"{joint.type} joint {joint.name!r} of the base is held")
            motions[joint.name] = _JointMotion(0.0, {})
        elif joint.mimic is None and joint.name not in on_chain:
            motions[joint.name] = _JointMotion(0.0, {})
    for joint in tree.joints.values():
        _follow(tree, joint, motions, on_chain)
    return motions


def _refuse_loops(tree: UrdfTree, motions: Mapping[str, _JointMotion]) -> None:
    """Refuse constraints that are not read, unless all the joints that they bind are held."""
    for constraint, names in tree.loops:
        moving = sorted(name for name in names if name not in motions or motions[name].factors)
        if moving:
            what = f"{constraint} binds {name_list('joint', moving)}, which cannot be read"
            hint = Text("choose a chain without it by ", Option("tip_link"), " or hold them: ", Option("hold"))
            raise InputError(what, hint, tree.source)


def _follow(tree: UrdfTree, joint: UrdfJoint, motions: dict[str, _JointMotion], on_chain: set[str]) -> None:
    """Resolve a joint that mimics: through others that mimic, to held and free ones."""
    trail: list[UrdfJoint] = []
    while joint.mimic is not None and joint.name not in motions:
        trail.append(joint)
        leader = joint.mimic[0]
        joint = tree.joints[leader]
        if joint in trail:
            raise InputError(
                f"joint {joint.name!r} mimics itself", "let <mimic> lead to a joint that moves freely", tree.source
            )
    for follower in reversed(trail):
        assert follower.mimic is not None
        leader, multiplier, offset = follower.mimic
        motion = motions.get(leader, _JointMotion(0.0, {leader: 1.0}))
        factors = {name: multiplier * factor for name, factor in motion.factors.items()}
        if follower.name not in on_chain:
            factors = {}
        motions[follower.name] = _JointMotion(multiplier * motion.offset + offset, factors)


def _fixed_pose(joint: UrdfJoint, motions: Mapping[str, _JointMotion]) -> Array:
    """Return the transform parent link -> child link (4, 4): at the held position, or at zero if the joint moves."""
    motion = motions.get(joint.name)
    if motion is None or motion.factors or motion.offset == 0.0:
        return joint.origin
    if joint.type == "prismatic":
        return np.asarray(joint.origin @ transform(np.eye(3), motion.offset * joint.axis))
    return np.asarray(joint.origin @ transform(rotation_about(joint.axis, motion.offset), np.zeros(3)))


def _place(
    tree: UrdfTree, base: str, motions: Mapping[str, _JointMotion]
) -> tuple[list[PlacedJoint], list[PlacedLink]]:
    joints: list[PlacedJoint] = []
    links: list[PlacedLink] = []
    stack: list[tuple[UrdfJoint | None, int, Array]] = [(None, 0, np.eye(4))]
    while stack:
        joint, carrier, parent_pose = stack.pop()
        pose = parent_pose
        if joint is not None:
            pose = parent_pose @ _fixed_pose(joint, motions)
            motion = motions.get(joint.name)
            if motion is None or motion.factors:
                mimic = None if motion is None else (motion.offset, motion.factors)
                joints.append(PlacedJoint(joint, carrier, pose, pose[:3, :3] @ joint.axis, mimic))
                carrier = len(joints)
        link = base if joint is None else joint.child
        links.append(PlacedLink(link, carrier, pose))
        stack += [(child, carrier, pose) for child in reversed(tree.children.get(link, ()))]
    return joints, links


def robot_from_urdf_string(
    text: bytes | str,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
    source: str = "robot_description",
) -> Robot:
    """Return the robot of a URDF's text, as a node gets it from the topic robot_description."""
    chain = ChainOptions(base_link=base_link, tip_link=tip_link, hold=dict(hold or {}), floating_base=floating_base)
    return robot_from_tree(parse_urdf(text, source), chain)


def robot_from_tree(tree: UrdfTree, options: ChainOptions) -> Robot:
    """Return the robot of a parsed URDF, or of a sub-chain of it with the other joints held."""
    chain, tip_link = select_chain(tree, **options), options["tip_link"]
    tree = chain.tree
    axes = [Axis(joint.parent, joint.axis, joint.pose[:3, 3]) for joint in chain.joints]
    snapped, changes = snap_axes(axes, chain.up)
    axes = axes if tree.exact else snapped
    rows, frames = mdh_table(axes, _reference_x(chain.joints[0], axes[0].direction))
    notes = [*tree.notes, *chain.notes]
    if changes:
        names = [chain.joints[number - 1].urdf.name for number in changes]
        largest = f"(largest change {max(changes.values()):.1e} rad): {name_list('joint', names)}"
        if tree.exact:
            notes.append(f"axes that are parallel or perpendicular but for rounding kept as they are {largest}")
        else:
            notes.append(f"axes that were parallel or perpendicular but for rounding taken as exactly so {largest}")
    joints = tuple(
        Joint(
            name=chain_joint.urdf.name,
            parent=chain_joint.parent,
            sigma=PRISMATIC if chain_joint.urdf.type == "prismatic" else REVOLUTE,
            gamma=row.gamma,
            b=row.b,
            alpha=row.alpha,
            d=row.d,
            theta=row.theta,
            r=row.r,
            limits=_limits(chain_joint.urdf, notes),
            servo=chain_joint.urdf.servo,
            measures=LINK_TORQUE if chain_joint.urdf.name in BASE_JOINTS and options["floating_base"] else None,
        )
        for chain_joint, row in zip(chain.joints, rows, strict=True)
    )
    numbers = {joint.name: number for number, joint in enumerate(joints, start=1)}
    passive = tuple(
        Passive(number, {numbers[name]: factor for name, factor in chain_joint.mimic[1].items()}, chain_joint.mimic[0])
        for number, chain_joint in enumerate(chain.joints, start=1)
        if chain_joint.mimic is not None
    )
    if passive:
        followers = [joints[constraint.joint - 1].name for constraint in passive]
        notes.append(f"passive because of <mimic>: {name_list('joint', followers)}")
    return Robot(
        name=tree.name,
        joints=joints,
        gravity=_tidy(chain.gravity),
        base=_tidy(frames[0]),
        tools=_tools(chain, frames, tip_link),
        passive=passive,
        loops=None if tree.cuts is None else _loops(chain, tree.cuts, frames, joints),
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
    if len(chain.joints) >= len(BASE_JOINTS) and chain.joints[len(BASE_JOINTS) - 1].urdf.name == BASE_JOINTS[-1]:
        ends.add(len(BASE_JOINTS))  # what the base carries: its trunk, an IMU
    return {
        link.name: (link.carrier, _tidy(inverse(frames[link.carrier]) @ link.pose))
        for link in chain.links
        if (link.name == tip_link if tip_link is not None else link.carrier in ends)
    }


def _loops(chain: Subchain, cuts: LoopCuts, frames: Array, joints: tuple[Joint, ...]) -> Loops | None:
    """Return the loops around joints that move; of those joints, all that no actuator drives are passive."""
    links = {link.name: link for link in chain.links}
    pairs, around = [], set()
    for ends in cuts.pairs:
        if not all(name in links for name, _ in ends):
            continue  # a loop beyond the chain
        first, second = (links[name] for name, _ in ends)
        path = _joints_above(joints, first.carrier) ^ _joints_above(joints, second.carrier)
        if path:
            around |= path
            pivots = [_pivot(frames, links[name], point) for name, point in ends]
            pairs.append((pivots[0], pivots[1]))
    if not pairs:
        return None
    followers = {number for number, joint in enumerate(chain.joints, start=1) if joint.mimic is not None}
    passive = tuple(j for j in sorted(around - followers) if joints[j - 1].name not in cuts.driven)
    if not passive:
        what = f"actuators drive {name_list('joint', [joints[j - 1].name for j in sorted(around)])}, which form a loop"
        raise InputError(what, Text("hold some of them: ", Option("hold")), chain.tree.source)
    numbers = {joint.name: number for number, joint in enumerate(joints, start=1)}
    assembly = {numbers[name]: value for name, value in cuts.assembly.items() if name in numbers}
    return Loops(tuple(pairs), passive, assembly)


def _joints_above(joints: tuple[Joint, ...], number: int) -> set[int]:
    """Return the joints from the base to joint `number`."""
    above = set()
    while number:
        above.add(number)
        number = joints[number - 1].parent
    return above


def _pivot(frames: Array, link: PlacedLink, point: Array) -> Pivot:
    """Return a link's point in the frame of the joint that carries it."""
    pose = _tidy(inverse(frames[link.carrier]) @ link.pose)
    x, y, z = (float(value) for value in pose[:3, :3] @ point + pose[:3, 3])
    return Pivot(link.carrier, (x, y, z))


def _drive_values(joint: UrdfJoint) -> dict[str, float]:
    return {"Ia": joint.armature, "Fv": joint.damping, "Fc": joint.friction}


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
        values = body.standard() | _drive_values(joint.urdf)
        parameters |= {f"{kind}{number}": value for kind, value in values.items() if value != 0.0}
        for kind, value in (("damping", joint.urdf.damping), ("friction", joint.urdf.friction)):
            if value < 0:
                notes.append(f"joint {joint.urdf.name!r} has the negative {kind} {value:g}, kept as it is")
    return parameters
