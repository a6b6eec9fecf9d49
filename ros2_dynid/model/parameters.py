# SPDX-License-Identifier: Apache-2.0

"""Standard parameters: their order, names, units and groups (DESIGN conventions; Gautier 2013, eq. 3).

chi = [chi_1 ... chi_n, coupling], chi_j = [XX XY XZ YY YZ ZZ MX MY MZ M Ia Fv Fc off] of joint j, then for each coupled
motor k: Iam_k (if independent), Fvm_k, Fcm_k, then for each spring, compensator or cable i its coefficients among
Kf_i, Ks_i, Kq_i, Kc_i (model/forces.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import DRIVE
from ros2_dynid.model.forces import SYMBOLS, ForceKind
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

INERTIA = ("XX", "XY", "XZ", "YY", "YZ", "ZZ")
FIRST_MOMENT = ("MX", "MY", "MZ")
LINK = (*INERTIA, *FIRST_MOMENT, "M")
"""The ten inertial parameters of a link, in the frame of its joint, inertia about the frame's origin."""
PER_JOINT = (*LINK, "Ia", "Fv", "Fc", "off")
"""The standard parameters of a joint, in the order of chi_j ..."""
JOINT = len(PER_JOINT)
"""... and their number: parameter k of joint j (both from 0) is chi[JOINT * j + k]."""
IA, Fv, Fc, OFF = (PER_JOINT.index(kind) for kind in ("Ia", "Fv", "Fc", "off"))
"""Places of rotor inertia, viscous and Coulomb friction and offset among the parameters of a joint."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "inertial": LINK,
    "rotor": ("Ia", "Iam"),
    "friction": ("Fv", "Fc", "Fvm", "Fcm"),
    "offset": ("off",),
    "force": SYMBOLS,
}
KINDS = (*PER_JOINT, "Iam", "Fvm", "Fcm", *SYMBOLS)
"""Every kind of standard parameter, in the order of chi."""
_NAME = re.compile(r"([A-Za-z]+)([1-9][0-9]*)")


def link_slice(j: int) -> slice:
    """Return the places in chi of the ten inertial parameters of joint j (from 0)."""
    return slice(JOINT * j, JOINT * j + len(LINK))


def by_joint(robot: Robot, chi: Array) -> Array:
    """Return chi of all joints as rows, shape (n, JOINT), without what couplings add: a view, not a copy."""
    return chi[: JOINT * robot.n].reshape(robot.n, JOINT)


@lru_cache(maxsize=4096)
def split_name(name: str) -> tuple[str, int]:
    """Return kind and joint number of a standard parameter: ("ZZ", 1) for "ZZ1"."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(f"{name!r} is not a parameter name", "write a kind and a joint number, such as ZZ1")
    return match[1], int(match[2])


def standard_names(robot: Robot) -> tuple[str, ...]:
    """Return the names of all standard parameters of the robot, in the order of chi."""
    names = [f"{kind}{j}" for j in range(1, robot.n + 1) for kind in PER_JOINT]
    for coupling in robot.coupling:
        kinds = ("Iam", "Fvm", "Fcm") if coupling.independent_inertia else ("Fvm", "Fcm")
        names += [f"{kind}{coupling.motor}" for kind in kinds]
    names += [f"{SYMBOLS[power]}{i}" for i, force in enumerate(robot.forces, start=1) for power in force.powers]
    return tuple(names)


def force_slice(robot: Robot) -> slice:
    """Return the places in chi of the coefficients of springs, compensators and cables: the last ones."""
    size = len(standard_names(robot))
    return slice(size - sum(len(force.powers) for force in robot.forces), size)


@lru_cache(maxsize=4096)
def group_of(name: str) -> str:
    """Return "inertial", "rotor", "friction", "offset" or "force" for a standard parameter's name."""
    kind, _ = split_name(name)
    for group, kinds in GROUPS.items():
        if kind in kinds:
            return group
    raise InputError(f"{name!r} is not a standard parameter", f"kinds are {' '.join(KINDS)}")


def unit_of(robot: Robot, name: str) -> str:
    """Return the SI unit of a standard parameter, which for Ia, Fv, Fc and off depends on the joint's type."""
    kind, number = split_name(name)
    if kind in SYMBOLS:
        force, power = robot.forces[number - 1], SYMBOLS.index(kind)
        angular = force.kind is not ForceKind.CYLINDER and robot.joints[min(force.weights) - 1].sigma != PRISMATIC
        length = f"/{'rad' if angular else 'm'}{f'^{power}' if power > 1 else ''}" if power else ""
        return f"{'N.m' if angular else 'N'}{length}"
    prismatic = robot.joints[number - 1].sigma == 1
    if kind in INERTIA:
        return "kg.m^2"
    if kind in FIRST_MOMENT:
        return "kg.m"
    if kind == "M":
        return "kg"
    if kind in ("Ia", "Iam"):
        return "kg" if prismatic else "kg.m^2"
    if kind in ("Fv", "Fvm"):
        return "N.s/m" if prismatic else "N.m.s/rad"
    return "N" if prismatic else "N.m"


def explain_kind(kind: str, number: int) -> str:
    """Return in words what a standard parameter is: `number` is that of the joint, of a force that of the element."""
    if kind in INERTIA:
        one, other = kind[0].lower(), kind[1].lower()
        what = f"moment of inertia of link {number} about axis {one}"
        product = f"product of inertia of link {number} of axes {one} and {other}"
        return f"{what if one == other else product}, at the origin of frame {number}"
    if kind in FIRST_MOMENT:
        return f"mass of link {number} times its centre of mass along axis {kind[1].lower()} of frame {number}"
    if kind in SYMBOLS:
        return f"coefficient of elastic element {number}"
    return KIND_TEXTS[kind].format(j=number)


def explain_parameter(name: str, leader: str) -> str:
    """Return in words what a base parameter is: ZZR1 with the leader ZZ1; an R says that it absorbed others."""
    kind, number = split_name(leader)
    absorbed = "" if name == leader else "; with R: and what other parameters add to the same torque"
    return explain_kind(kind, number) + absorbed


KIND_TEXTS = {
    "M": "mass of link {j}",
    "Ia": "rotor inertia of drive {j}, on the joint's side",
    "Fv": "viscous friction of joint {j}",
    "Fc": "Coulomb friction of joint {j}",
    "off": "offset of the effort of joint {j}",
    "Iam": "inertia of the coupling of motor {j}",
    "Fvm": "viscous friction of motor {j} of a coupling",
    "Fcm": "Coulomb friction of motor {j} of a coupling",
}
"""What the parameters are that are no inertia of a link, joint {j} counted from 1."""


def select_groups(robot: Robot, groups: Iterable[str] | None) -> tuple[str, ...]:
    """Return the standard parameters of the groups named (all if None), in the order of chi.

    Drive parameters that link-side efforts do not include are left out.
    """
    unmeasured = unmeasured_parameters(robot)
    names = tuple(name for name in standard_names(robot) if name not in unmeasured)
    if groups is None:
        return names
    selected = set(groups)
    unknown = selected - set(GROUPS)
    if unknown or not selected:
        raise InputError(f"unknown parameter group {min(unknown, default='')!r}", f"choose from {', '.join(GROUPS)}")
    return tuple(name for name in names if group_of(name) in selected)


def unmeasured_parameters(robot: Robot) -> frozenset[str]:
    """Return the drive parameters that the robot's efforts do not include: those on the motor side of a link-side
    sensor; and of the joints of a floating base all but the inertia of the base link.
    """
    joints = enumerate(robot.joints, start=1)
    behind = {
        f"{part}{j}"
        for j, joint in joints
        for part in ((*DRIVE, "off") if joint.measured.absent else DRIVE)
        if part not in joint.measured_drive
    }
    none = {f"{kind}{j}" for j in range(1, robot.base_number) for kind in PER_JOINT}
    return frozenset(behind | none | {f"{kind}{robot.base_number}" for kind in PER_JOINT[IA:]} if none else behind)


def standard_vector(robot: Robot, values: Mapping[str, float] | None = None) -> Array:
    """Return chi, shape (n_standard,), from values by name (default: the robot's a priori ones), zero where absent."""
    values = robot.parameters if values is None else values
    names = standard_names(robot)
    unknown = set(values) - set(names)
    if unknown:
        raise InputError(f"unknown parameter {min(unknown)!r}", f"the robot has {names[0]} to {names[-1]}", robot.name)
    chi = np.array([values.get(name, 0.0) for name in names], dtype=float)
    if not np.all(np.isfinite(chi)):
        bad = names[int(np.flatnonzero(~np.isfinite(chi))[0])]
        raise InputError(f"parameter {bad} is not finite", "give a number", robot.name)
    return chi
