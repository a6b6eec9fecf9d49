# SPDX-License-Identifier: Apache-2.0

"""MJCF -> Robot, by way of the same tree of links and joints that a URDF gives.

MuJoCo moves a body by its joints in order, each about its point p and axis a, from the pose T that the file gives at
q = q_0:  T prod_i Trans(p_i) Rot(a_i, q_i - q_0i) Trans(-p_i).  A tree of joints with frames of their own says the
same, with massless links between several joints of one body. Axes are kept to the last digit, since MuJoCo does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ros2_dynid.model.forces import SYMBOLS, Force, ForceKind
from ros2_dynid.model.from_urdf import ChainOptions, robot_from_tree
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.mdh import rotation_about, transform
from ros2_dynid.model.mjcf_compiler import CompiledMjcf, compile_mjcf
from ros2_dynid.model.robot import Array, Robot, Servo
from ros2_dynid.model.urdf import LoopCuts, UrdfJoint, UrdfTree, name_list

BALL, SLIDE, HINGE = 1, 2, 3
JOINT_TYPES = ("floating", "ball", "prismatic", "revolute")
"""MuJoCo's types of joints, by its numbers, in the words of URDF."""
CONNECT, WELD, JOINT, TENDON = range(4)
"""Kinds of equality constraints."""
SITE = 6
"""Number of sites among MuJoCo's kinds of objects."""
WRAPPED_JOINT = 1
"""A tendon that is a sum of joint positions is made of these."""
WORLD = "world"


def robot_from_mjcf(
    file: Path,
    *,
    source: str = "",
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> Robot:
    """Return the robot of an MJCF file, or a sub-chain of it with the other joints held.

    A free base is held unless floating_base lets it float.
    """
    compiled = compile_mjcf(file)
    tree = tree_of_mjcf(compiled, source or str(file))
    chain = ChainOptions(base_link=base_link, tip_link=tip_link, hold=dict(hold or {}), floating_base=floating_base)
    robot = robot_from_tree(tree, chain)
    return _with_springs(robot, compiled)


def tree_of_mjcf(compiled: CompiledMjcf, source: str) -> UrdfTree:
    """Return links (bodies and sites) and joints of a compiled model; `source` names the file in errors and notes."""
    bodies, joint_names = _body_names(compiled), _joint_names(compiled)
    links: dict[str, Inertia | None] = {}
    joints: dict[str, UrdfJoint] = {}
    for body, name in enumerate(bodies):
        if body:
            _add_body(compiled, body, bodies, joint_names, joints, links)
        links[name] = _inertia(compiled, body)
    for site, name in enumerate(compiled["names"]["site"]):
        if name and name not in links:
            pose = _pose(compiled["site_pos"][site], compiled["site_quat"][site])
            _fix(bodies[compiled["site_bodyid"][site]], name, pose, joints)
            links[name] = None
    loops = _tie_joints(compiled, joint_names, joints)
    children: dict[str, list[UrdfJoint]] = {}
    for joint in joints.values():
        children.setdefault(joint.parent, []).append(joint)
    return UrdfTree(
        name=compiled["model"] or "robot",
        source=source,
        root=WORLD,
        links=links,
        joints=joints,
        notes=tuple(_left_out(compiled, bodies)),
        children={link: tuple(outgoing) for link, outgoing in children.items()},
        gravity=tuple(compiled["gravity"]),
        exact=True,
        loops=tuple(loops),
        cuts=_loop_cuts(compiled, bodies, joint_names),
    )


def _body_names(compiled: CompiledMjcf) -> list[str]:
    names = [name or f"body{i}" for i, name in enumerate(compiled["names"]["body"])]
    return [WORLD, *_distinct(names[1:], {WORLD})]


def _joint_names(compiled: CompiledMjcf) -> list[str]:
    names = [name or f"joint{i + 1}" for i, name in enumerate(compiled["names"]["jnt"])]
    return _distinct(names, set())


def _distinct(names: Iterable[str], taken: set[str]) -> list[str]:
    """Return the names, those that occur before with an underscore more."""
    distinct: list[str] = []
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        distinct.append(name)
    return distinct


def _pose(position: Iterable[float], quaternion: Iterable[float]) -> Array:
    """Return the transform (4, 4) of a position [m] and a unit quaternion w, x, y, z."""
    w, x, y, z = np.asarray(quaternion, dtype=float) / np.linalg.norm(np.asarray(quaternion, dtype=float))
    rotation = np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )
    return transform(rotation, np.asarray(position, dtype=float))


def _inertia(compiled: CompiledMjcf, body: int) -> Inertia:
    """Return the body's inertia in its own frame, from the principal one that MuJoCo computes with."""
    pose = _pose(compiled["body_ipos"][body], compiled["body_iquat"][body])
    moments = np.diag(compiled["body_inertia"][body])
    rotation = pose[:3, :3]
    return Inertia.at_centre_of_mass(compiled["body_mass"][body], pose[:3, 3], rotation @ moments @ rotation.T)


def _shift(offset: Array) -> Array:
    return transform(np.eye(3), offset)


def _fix(parent: str, child: str, pose: Array, joints: dict[str, UrdfJoint]) -> None:
    """Add a rigid connection of two links."""
    name = f"{child} fixed"
    joints[name] = UrdfJoint(name, "fixed", parent, child, pose, np.array([0.0, 0.0, 1.0]))


def _add_body(
    compiled: CompiledMjcf,
    body: int,
    bodies: list[str],
    joint_names: list[str],
    joints: dict[str, UrdfJoint],
    links: dict[str, Inertia | None],
) -> None:
    """Add the joints from a body's parent to it, with massless links between several, or a rigid connection."""
    origin = _pose(compiled["body_pos"][body], compiled["body_quat"][body])
    parent, name = bodies[compiled["body_parentid"][body]], bodies[body]
    own = [j for j, owner in enumerate(compiled["jnt_bodyid"]) if owner == body]
    if not own:
        _fix(parent, name, origin, joints)
        return
    for j in own:
        kind = compiled["jnt_type"][j]
        point = np.asarray(compiled["jnt_pos"][j]) if kind in (BALL, HINGE) else np.zeros(3)
        last = j == own[-1] and not point.any()
        child = name if last else f"{name} behind {joint_names[j]}"
        joints[joint_names[j]] = _joint(compiled, j, joint_names[j], parent, child, origin @ _shift(point))
        if not last:
            links[child] = Inertia(0.0, np.zeros(3), np.zeros((3, 3)))
        parent, origin = child, _shift(-point)
    if parent != name:
        _fix(parent, name, origin, joints)


def _joint(compiled: CompiledMjcf, j: int, name: str, parent: str, child: str, origin: Array) -> UrdfJoint:
    """Return joint j, whose frame has the pose `origin` at q = q_0, with its origin where q = 0."""
    kind = JOINT_TYPES[compiled["jnt_type"][j]]
    axis = np.asarray(compiled["jnt_axis"][j], dtype=float)
    if kind not in ("prismatic", "revolute"):
        return UrdfJoint(name, kind, parent, child, origin, axis)
    reference = compiled["qpos0"][compiled["jnt_qposadr"][j]]
    if kind == "prismatic":
        origin = origin @ _shift(-reference * axis)
    elif reference != 0.0:
        origin = origin @ transform(rotation_about(axis, -reference), np.zeros(3))
    limited = compiled["jnt_limited"][j]
    lower, upper = compiled["jnt_range"][j] if limited else (-np.inf, np.inf)
    dof = compiled["jnt_dofadr"][j]
    armature, damping, servo, effort = _drive(compiled, j)
    return UrdfJoint(
        name=name,
        type=kind if limited or kind == "prismatic" else "continuous",
        parent=parent,
        child=child,
        origin=origin,
        axis=axis,
        lower=lower,
        upper=upper,
        effort=effort,
        has_limit=True,
        damping=compiled["dof_damping"][dof] + damping,
        friction=compiled["dof_frictionloss"][dof],
        armature=compiled["dof_armature"][dof] + armature,
        servo=servo,
    )


def _drive(compiled: CompiledMjcf, j: int) -> tuple[float, float, Servo | None, float]:
    """Return what the actuators of joint j add: armature, damping, position servo and the limit of the effort.

    An actuator with gear g, gain k and bias b0 + b1 l + b2 dl, l = g q, gives the joint g (k u + b0 + b1 l + b2 dl):
    with b1 = -k a position servo for u = g q_r, with kp = g^2 k and kd = -g^2 b2.
    """
    armature, damping, servo, effort = 0.0, 0.0, None, np.inf
    if compiled["jnt_actfrclimited"][j]:
        effort = _smaller(compiled["jnt_actfrcrange"][j])
    for i, (target, transmission) in enumerate(
        zip(compiled["actuator_trnid"], compiled["actuator_trntype"], strict=True)
    ):
        if transmission > 1 or target[0] != j:  # 0, 1: at a joint
            continue
        gear = abs(compiled["actuator_gear"][i][0])
        armature += gear**2 * compiled.get("actuator_armature", [0.0] * (i + 1))[i]
        damping += gear**2 * compiled.get("actuator_damping", [0.0] * (i + 1))[i]
        if compiled["actuator_forcelimited"][i]:
            effort = min(effort, gear * _smaller(compiled["actuator_forcerange"][i]))
        if compiled["actuator_gaintype"][i] != 0:  # 0: a fixed gain
            continue
        gain, (_, stiffness, rate) = compiled["actuator_gainprm"][i][0], compiled["actuator_biasprm"][i][:3]
        if compiled["actuator_biastype"][i] == 0 and compiled["actuator_ctrllimited"][i]:  # a motor
            effort = min(effort, gear * abs(gain) * _smaller(compiled["actuator_ctrlrange"][i]))
        elif compiled["actuator_biastype"][i] == 1 and gain > 0 and abs(gain + stiffness) <= 1e-9 * gain:
            servo = Servo(gear**2 * gain, -(gear**2) * rate)
    return armature, damping, servo, effort if effort > 0 else np.inf


def _smaller(limits: Iterable[float]) -> float:
    """Return the smaller of two opposite limits; infinite where they do not enclose zero."""
    lower, upper = limits
    return min(-lower, upper) if lower < 0.0 < upper else np.inf


def _tie_joints(
    compiled: CompiledMjcf, names: list[str], joints: dict[str, UrdfJoint]
) -> list[tuple[str, frozenset[str]]]:
    """Let joints follow others where an equality is linear; return the other constraints and the joints they bind."""
    loops: list[tuple[str, frozenset[str]]] = []
    tied: set[int] = set()
    for kind, _, one, other, active, data in _equalities(compiled):
        if not active:
            continue
        if (
            kind == JOINT
            and one not in tied
            and not any(data[2:5])
            and {_kind(compiled, one), _kind(compiled, other)} <= {SLIDE, HINGE}
        ):
            tied.add(one)
            joints[names[one]] = _follower(compiled, joints[names[one]], one, other, names, data)
        elif kind == JOINT:
            loops.append(
                ("an <equality> between joints that is not linear", frozenset(names[j] for j in (one, other) if j >= 0))
            )
        elif kind == TENDON:
            bound = {names[j] for tendon in (one, other) if tendon >= 0 for j in _joints_of_tendon(compiled, tendon)}
            loops.append(("an <equality> of tendons", frozenset(bound)))
    return loops


def _loop_cuts(compiled: CompiledMjcf, bodies: list[str], names: list[str]) -> LoopCuts | None:
    """Return where <connect> and <weld> close loops, which are assembled in the first key frame, or else at qpos0."""
    pairs = []
    for kind, object_type, one, other, active, data in _equalities(compiled):
        if active and kind in (CONNECT, WELD):
            first, second = (bodies[compiled["site_bodyid"][i] if object_type == SITE else i] for i in (one, other))
            points = _cut_points(compiled, kind, object_type, (one, other), data)
            pairs += [((first, a), (second, b)) for a, b in zip(*points, strict=True)]
    if not pairs:
        return None
    transmissions = zip(compiled["actuator_trnid"], compiled["actuator_trntype"], strict=True)
    driven = frozenset(names[target[0]] for target, transmission in transmissions if transmission <= 1)
    pose = compiled["assembly"] or compiled["qpos0"]
    assembly = {name: float(pose[compiled["jnt_qposadr"][j]]) for j, name in enumerate(names)}
    return LoopCuts(tuple(pairs), driven, assembly)


def _equalities(compiled: CompiledMjcf) -> Iterable[tuple[int, int, int, int, bool, list[float]]]:
    fields = ("type", "objtype", "obj1id", "obj2id", "active0", "data")
    return zip(*(compiled[f"eq_{field}"] for field in fields), strict=True)


def _cut_points(
    compiled: CompiledMjcf, kind: int, object_type: int, ends: tuple[int, int], data: list[float]
) -> list[list[Array]]:
    """Return the points that meet, in the frame of each body: one of a <connect>, three of a <weld>."""
    if object_type == SITE:
        poses = [_pose(compiled["site_pos"][site], compiled["site_quat"][site]) for site in ends]
    elif kind == CONNECT:
        poses = [_shift(np.array(data[:3])), _shift(np.array(data[3:6]))]
    else:  # the second body's pose in the first one
        anchor = _shift(np.array(data[:3]))
        poses = [_pose(data[3:6], data[6:10]) @ anchor, anchor]
    offsets = np.zeros((1, 3)) if kind == CONNECT else np.vstack((np.zeros(3), 0.1 * np.eye(3)[:2]))
    return [[pose[:3, :3] @ offset + pose[:3, 3] for offset in offsets] for pose in poses]


def _kind(compiled: CompiledMjcf, joint: int) -> int:
    """Return the type of a joint; no joint (-1) stands for one that does not move."""
    return int(compiled["jnt_type"][joint]) if joint >= 0 else HINGE


def _follower(
    compiled: CompiledMjcf, joint: UrdfJoint, one: int, other: int, names: list[str], data: list[float]
) -> UrdfJoint:
    """Return the joint that follows another: q - q_0 = c0 + c1 (q' - q'_0); held at q_0 + c0 without another."""
    at_rest = [compiled["qpos0"][compiled["jnt_qposadr"][j]] if j >= 0 else 0.0 for j in (one, other)]
    if other < 0:
        value = at_rest[0] + data[0]
        motion = (
            _shift(value * joint.axis)
            if joint.type == "prismatic"
            else transform(rotation_about(joint.axis, value), np.zeros(3))
        )
        return replace(joint, type="fixed", origin=joint.origin @ motion)
    return replace(joint, mimic=(names[other], data[1], at_rest[0] + data[0] - data[1] * at_rest[1]))


def _joints_above(compiled: CompiledMjcf, body: int) -> list[int]:
    """Return the joints between the world and a body."""
    joints: list[int] = []
    while body > 0:
        joints += [j for j, owner in enumerate(compiled["jnt_bodyid"]) if owner == body]
        body = compiled["body_parentid"][body]
    return joints


def _joints_of_tendon(compiled: CompiledMjcf, tendon: int) -> list[int]:
    first, count = compiled["tendon_adr"][tendon], compiled["tendon_num"][tendon]
    wraps = range(first, first + count)
    return [compiled["wrap_objid"][k] for k in wraps if compiled["wrap_type"][k] == WRAPPED_JOINT]


def _left_out(compiled: CompiledMjcf, bodies: list[str]) -> list[str]:
    """Return one note for each kind of force that MuJoCo has and a robot here has not."""
    notes = []
    lifted = [name for name, share in zip(bodies, compiled["body_gravcomp"], strict=True) if share]
    if lifted:
        notes.append(
            f"gravcomp left out, torques are with gravity: {name_list('body', lifted)}".replace("bodys", "bodies")
        )
    if any(compiled["fluid"]):
        notes.append("forces of a fluid (density, viscosity) left out")
    tendon_forces = [
        compiled[f"tendon_{kind}"]
        for kind in ("stiffness", "damping", "armature", "frictionloss")
        if f"tendon_{kind}" in compiled
    ]
    if any(any(values) for values in tendon_forces):
        notes.append("stiffness, damping, friction and armature of tendons left out")
    curved = ("jnt_stiffnesspoly", "dof_dampingpoly", "actuator_dampingpoly")
    if any(np.any(compiled.get(kind, [])) for kind in curved):
        notes.append("stiffness and damping that are not linear left out")
    return notes


def _with_springs(robot: Robot, compiled: CompiledMjcf) -> Robot:
    """Return the robot with a spring for each moving joint that has stiffness."""
    numbers = {robot.joints[number - 1].name: number for number in robot.active}
    forces: list[Force] = []
    values: dict[str, float] = {}
    for j, name in enumerate(_joint_names(compiled)):
        stiffness = np.ravel(compiled["jnt_stiffness"][j])[0]
        if name in numbers and stiffness > 0:
            rest = compiled["qpos_spring"][compiled["jnt_qposadr"][j]]
            forces.append(Force(f"{name}_spring", ForceKind.SPRING, (1,), {numbers[name]: 1.0}, rest=rest))
            values[f"{SYMBOLS[1]}{len(forces)}"] = float(stiffness)
    return replace(robot, forces=tuple(forces), parameters={**robot.parameters, **values}) if forces else robot
