# SPDX-License-Identifier: Apache-2.0

"""A robot as frozen data: modified Denavit-Hartenberg joints, couplings, constraints and a priori parameters.

Joints are numbered from 1 as in the papers; number 0 is the base. `robot.joints[j - 1]` is joint j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import DRIVE, MOTOR_TORQUE, AddedEffort, MeasuredEffort
from ros2_dynid.model.forces import Force, Pivot
from ros2_dynid.model.friction_kinds import FrictionTerm

Array = NDArray[np.float64]

REVOLUTE, PRISMATIC = 0, 1
STANDARD_GRAVITY = (0.0, 0.0, -9.81)
"""Gravity in the base frame [m/s^2] unless configured."""
BASE_JOINTS = ("base.x", "base.y", "base.z", "base.yaw", "base.pitch", "base.roll")
"""The first joints of a robot whose base floats (floating_base.py)."""


@dataclass(frozen=True)
class Limits:
    """Limits of one joint: position [rad or m], velocity, acceleration and effort [N.m or N]; infinite if unknown."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    acceleration: float = np.inf
    effort: float = np.inf


@dataclass(frozen=True)
class Servo:
    """Position servo of a joint: tau = kp (q_r - q) - kd dq, with kp [N.m/rad or N/m] and kd [N.m.s/rad or N.s/m].

    Its largest torque is the joint's effort limit.
    """

    kp: float
    kd: float


@dataclass(frozen=True)
class Joint:
    """Joint j and its frame, fixed to link j, z_j along the joint's axis.

    The transform from frame a(j) (`parent`) to frame j is Rot(z,gamma) Trans(z,b) Rot(x,alpha) Trans(x,d) Rot(z,theta)
    Trans(z,r), with theta + q for a revolute joint (sigma 0) and r + q for a prismatic one (sigma 1). Angles in rad,
    lengths in m. measures: what the joint's measured effort holds; adds: what the robot adds to a commanded one
    (efforts.py); servo: a priori gains of its position servo; None: not declared.
    """

    name: str
    parent: int
    sigma: int = REVOLUTE
    gamma: float = 0.0
    b: float = 0.0
    alpha: float = 0.0
    d: float = 0.0
    theta: float = 0.0
    r: float = 0.0
    limits: Limits = Limits()
    symbols: Mapping[str, str] = field(default_factory=dict)
    """The geometry's own symbols, for readable expressions: {"d": "D3", "r": "R3"}."""
    measures: MeasuredEffort | None = None
    adds: AddedEffort | None = None
    servo: Servo | None = None

    @property
    def measured(self) -> MeasuredEffort:
        """What the measured effort holds: as declared, else the torque of the motor."""
        return self.measures or MOTOR_TORQUE

    @property
    def measured_drive(self) -> tuple[str, ...]:
        """Drive parameters, of Ia, Fv and Fc, that the effort holds: all at the motor, none at the link."""
        return self.measured.drive


@dataclass(frozen=True)
class Coupling:
    """Motor k that is coupled to several joints: its coordinate on the joint side is the sum of weights[j] q_j.

    The rotor's inertia Ia_k couples into all those joints (as a parameter of its own, Iam_k, if
    `independent_inertia`), and the motor has friction parameters Fvm_k and Fcm_k of its own (Gautier 2013, eq. 34, 35).
    """

    motor: int
    weights: Mapping[int, float]
    independent_inertia: bool = False


@dataclass(frozen=True)
class Passive:
    """Joint p of a closed loop, given explicitly: q_p = offset + sum of terms[j] q_j over active joints j."""

    joint: int
    terms: Mapping[int, float]
    offset: float = 0.0


@dataclass(frozen=True)
class Loops:
    """Closed loops, each cut open at a joint: pairs of points, one on either link, that coincide.

    One pair is a ball joint, two are a hinge, three weld the links. passive: numbers of the joints whose positions
    follow, from all pairs together; assembly: positions [rad or m] of joints by number, 0 if absent, near a pose in
    which the loops close: the motion stays on that branch.
    """

    pairs: tuple[tuple[Pivot, Pivot], ...]
    passive: tuple[int, ...]
    assembly: Mapping[int, float] = field(default_factory=dict)


NO_LOOPS = Loops((), ())


def _identity() -> Array:
    return np.eye(4)


def _standard_gravity() -> Array:
    return np.array(STANDARD_GRAVITY)


@dataclass(frozen=True, eq=False)
class Robot:
    """A serial or tree robot in modified DH form, with its a priori standard parameters.

    base: transform base link -> frame 0 (4, 4); tools: transform of the last frame -> link, by link name, with the
    number of the joint that carries it. gravity: acceleration of gravity in the base link's frame [m/s^2].
    parameters: a priori standard parameters by name (`ZZ1`, `Fv3`, ...), zero where absent. friction: terms beyond Fv,
    Fc and off, with their coefficients: part of every complete torque, but not of chi. forces: springs, compensators
    and cables, whose coefficients are part of chi.
    """

    name: str
    joints: tuple[Joint, ...]
    gravity: Array = field(default_factory=_standard_gravity)
    base: Array = field(default_factory=_identity)
    tools: Mapping[str, tuple[int, Array]] = field(default_factory=dict)
    coupling: tuple[Coupling, ...] = ()
    passive: tuple[Passive, ...] = ()
    loops: Loops | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    friction: tuple[FrictionTerm, ...] = ()
    forces: tuple[Force, ...] = ()
    notes: tuple[str, ...] = ()
    """Remarks of the reader for the user, one line each."""
    standing: tuple[tuple[str, int], ...] = ()
    """Feet that stand in all recordings, whose forces are not known, each with its components (standing.py)."""

    def __post_init__(self) -> None:
        """Refuse an invalid robot."""
        _check(self)
        for array in (self.gravity, self.base, *(transform for _, transform in self.tools.values())):
            array.setflags(write=False)

    @property
    def n(self) -> int:
        """Number of joints of the tree, passive ones included."""
        return len(self.joints)

    @property
    def floating(self) -> bool:
        """Whether the base floats: whether the first six joints are those between the world and the base link."""
        return tuple(joint.name for joint in self.joints[: len(BASE_JOINTS)]) == BASE_JOINTS

    @property
    def base_number(self) -> int:
        """Number of the joint that carries the base link: 0 unless the base floats."""
        return len(BASE_JOINTS) if self.floating else 0

    @property
    def active(self) -> tuple[int, ...]:
        """Numbers of the joints that move independently: all but the passive ones."""
        passive = self.passive_joints
        return tuple(j for j in range(1, self.n + 1) if j not in passive)

    @property
    def passive_joints(self) -> frozenset[int]:
        """Numbers of the joints that follow others, linearly or by closed loops."""
        return frozenset((*(constraint.joint for constraint in self.passive), *(self.loops or NO_LOOPS).passive))

    @property
    def active_names(self) -> tuple[str, ...]:
        """Names of the active joints, in the robot's order: the columns of q, dq, ddq and tau."""
        return tuple(self.joints[j - 1].name for j in self.active)

    @property
    def drive_names(self) -> tuple[str, ...]:
        """Names of the active joints but those of a floating base, which nothing drives."""
        return self.active_names[self.base_number :]


def _check(robot: Robot) -> None:
    """Raise InputError unless numbers are finite, parents come before children and couplings name joints."""
    if not robot.joints:
        raise InputError("the robot has no moving joint", "give at least one", robot.name)
    numbers = set(range(1, robot.n + 1))
    passive = robot.passive_joints
    _check_joints(robot)
    _check_frame(robot)
    _check_couplings(robot, numbers)
    repeated = len(passive) != len(robot.passive) + len((robot.loops or NO_LOOPS).passive)
    if repeated or not passive <= numbers or passive == numbers:
        what = "passive joints are unknown, repeated, or all of the joints"
        raise InputError(what, "leave an active joint", robot.name)
    _check_friction(robot, numbers - passive)
    _check_sensors(robot, passive)
    _check_forces(robot, numbers)
    _check_constraints(robot, numbers - passive)
    if robot.loops is not None:
        _check_loops(robot, robot.loops)


def _check_joints(robot: Robot) -> None:
    """Refuse repeated names, parents after their children, and numbers that no joint can have."""
    names = [joint.name for joint in robot.joints]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"joint {twice!r} occurs twice", "give every joint its own name", robot.name)
    for j, joint in enumerate(robot.joints, start=1):
        if not 0 <= joint.parent < j:
            raise InputError(
                f"joint {joint.name!r} (number {j}) has parent {joint.parent}",
                f"name a joint listed before it: 0 (the base) to {j - 1}",
                robot.name,
            )
        if joint.sigma not in (REVOLUTE, PRISMATIC):
            raise InputError(f"joint {joint.name!r} has sigma {joint.sigma}", "use 0 or 1", robot.name)
        geometry = (joint.gamma, joint.b, joint.alpha, joint.d, joint.theta, joint.r)
        if not np.all(np.isfinite(geometry)):
            raise InputError(f"joint {joint.name!r} has a non-finite length or angle", "correct it", robot.name)
        limits = joint.limits
        if np.any(np.isnan((limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.effort))):
            raise InputError(f"joint {joint.name!r} has a limit that is not a number", "correct it", robot.name)
        if limits.lower > limits.upper or min(limits.velocity, limits.acceleration, limits.effort) < 0:
            raise InputError(f"joint {joint.name!r} has impossible limits", "lower <= upper, others >= 0", robot.name)


def _check_frame(robot: Robot) -> None:
    """Refuse gravity or a base transform of another shape or with numbers that are not finite."""
    if robot.gravity.shape != (3,) or robot.base.shape != (4, 4):
        raise InputError("gravity must be 3 numbers and base 4x4", "correct their shape", robot.name)
    if not (np.all(np.isfinite(robot.gravity)) and np.all(np.isfinite(robot.base))):
        raise InputError("gravity or the base transform is not finite", "correct it", robot.name)


def _check_couplings(robot: Robot, numbers: set[int]) -> None:
    """Refuse a coupling of unknown joints, or two couplings of one motor."""
    for coupling in robot.coupling:
        if coupling.motor not in coupling.weights or not set(coupling.weights) <= numbers or len(coupling.weights) < 2:
            raise InputError(
                f"coupling of motor {coupling.motor}: joints {sorted(coupling.weights)}",
                f"name the motor's own joint and at least one other, of 1 to {robot.n}",
                robot.name,
            )
    if len({coupling.motor for coupling in robot.coupling}) != len(robot.coupling):
        raise InputError("a motor is coupled twice", "join its couplings into one", robot.name)


def _check_friction(robot: Robot, active: set[int]) -> None:
    """Refuse a friction term that occurs twice or belongs to no active joint."""
    names = [term.name for term in robot.friction]
    for term in robot.friction:
        if term.joint not in active:
            raise InputError(
                f"friction term {term.name} belongs to no active joint", "name an active joint", robot.name
            )
        if names.count(term.name) > 1:
            raise InputError(f"friction term {term.name} occurs twice", "keep one of them", robot.name)


def _check_forces(robot: Robot, numbers: set[int]) -> None:
    """Refuse springs, compensators and cables on joints that do not exist."""
    for force in robot.forces:
        wrong = force.joints - numbers - {0} | (set(force.weights) & {0})
        if wrong:
            what = f"force {force.name!r} names joint {min(wrong)}"
            raise InputError(what, f"name joints of 1 to {robot.n}, or 0 for the base of a pivot", robot.name)


def _check_constraints(robot: Robot, active: set[int]) -> None:
    """Refuse a passive joint that depends on a joint that is not active."""
    for constraint in robot.passive:
        wrong = set(constraint.terms) - active
        if wrong:
            raise InputError(
                f"passive joint {robot.joints[constraint.joint - 1].name!r} depends on joint {min(wrong)}",
                "it may only depend on active joints",
                robot.name,
            )


def _check_loops(robot: Robot, loops: Loops) -> None:
    """Refuse cuts of unknown links or with too few points, and loops without passive joints."""
    pivots = [pivot for pair in loops.pairs for pivot in pair]
    numbers = [pivot.joint for pivot in pivots] + list(loops.assembly)
    if not all(0 <= number <= robot.n for number in numbers) or 0 in loops.assembly:
        raise InputError(
            "the loops name an unknown joint", f"name joints of 1 to {robot.n}, or 0: the base", robot.name
        )
    values = [x for pivot in pivots for x in pivot.point] + list(loops.assembly.values())
    if not np.all(np.isfinite(values)):
        raise InputError("a point or a position of the loops is not finite", "correct it", robot.name)
    if any(first.joint == second.joint for first, second in loops.pairs):
        raise InputError("a loop is cut between points of one link", "give points of two links", robot.name)
    if not loops.passive or 3 * len(loops.pairs) < len(loops.passive):
        what = f"{len(loops.pairs)} pairs of points do not determine {len(loops.passive)} passive joints"
        hint = "name at least one passive joint, and at most three for each pair (a cut with an axis has two pairs)"
        raise InputError(f"loops: {what}", hint, robot.name)


def _check_sensors(robot: Robot, passive: frozenset[int]) -> None:
    """Refuse efforts at the link where the drives act on several joints, or where no effort is measured."""
    coupled_joints = {j for coupling in robot.coupling for j in coupling.weights}
    for j, joint in enumerate(robot.joints, start=1):
        if joint.measured_drive == DRIVE:
            continue
        if j in coupled_joints or j in passive:
            kind = "is passive" if j in passive else "has a coupled motor"
            what = f"joint {joint.name!r} {kind}: its effort cannot be that of a link-side sensor"
            raise InputError(what, "leave its sensor out", robot.name)
        if joint.measured.absent and not robot.floating:
            what = f"the effort of joint {joint.name!r} is not measured, and the base does not float"
            raise InputError(what, "measure it, or let the base float and measure the forces on it", robot.name)
    for term in robot.friction:
        if robot.joints[term.joint - 1].measured_drive != DRIVE:
            what = f"friction term {term.name} belongs to a joint whose effort is measured at the link"
            raise InputError(what, "leave the term out", robot.name)
    if len({joint.measured.gravity for j, joint in enumerate(robot.joints, 1) if j not in passive}) > 1:
        hint = "declare it alike at all joints: the robot's controller compensates gravity, or it does not"
        raise InputError("the efforts of some joints hold gravity, those of others do not", hint, robot.name)


def refuse_loops(robot: Robot, what: str) -> None:
    """Refuse a robot with closed loops for `what`, in the plural, which covers linear constraints only."""
    if robot.loops is not None:
        hint = "identification, Fourier excitation, feedforward and exported C, NumPy and MJCF cover them"
        raise InputError(f"{what} do not cover closed loops whose joints do not follow linearly", hint, robot.name)


@lru_cache(maxsize=64)
def open_tree(robot: Robot) -> Robot:
    """Return the tree in which every joint moves independently."""
    return replace(robot, passive=(), loops=None)


def check_gravity(gravity: Sequence[float]) -> None:
    """Refuse an invalid acceleration of gravity."""
    if len(gravity) != 3 or not np.all(np.isfinite(gravity)):
        raise InputError(f"gravity is {list(gravity)}", "give three numbers x,y,z in the base link's frame [m/s^2]")


def with_gravity(robot: Robot, gravity: Sequence[float]) -> Robot:
    """Return the robot with this gravity in the base link's frame, shape (3,) [m/s^2]."""
    check_gravity(gravity)
    return replace(robot, gravity=np.array(gravity, dtype=float))
