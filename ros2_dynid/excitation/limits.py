# SPDX-License-Identifier: Apache-2.0

"""Limits of a robot with a margin, and the check of a trajectory against them on exact extrema."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.dynamics.kinematics import REGULAR, Motion, constraint, linear_constraint, motion_of
from ros2_dynid.dynamics.loops import close_loops, loop_margin
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.trajectory import Curve, Trajectory
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot

DEFAULT_MARGIN = 0.05
TOLERANCE = 1e-9
"""Excess over a limit that is rounding, relative to 1 rad (m), 1 rad/s, 1 rad/s^2."""
SPEED_UP_TIME_S = 0.5
"""Time to full speed where no acceleration limit is known [s]."""
EFFORT_RATE_HZ = 500.0
LOOP_RATE_HZ = 200.0
"""Rate at which the passive joints of closed loops are checked [Hz]."""
WAY_SLACK = 0.01
"""On the way to a start passive joints may pass a limit by that [rad, m], since they may rest at it."""


@dataclass(frozen=True)
class Caps:
    """The user's limits beside the robot's own; the tighter one holds: |q|, |dq|, |ddq|, |tau|."""

    position: float = np.inf
    velocity: float = np.inf
    acceleration: float = np.inf
    effort: float = np.inf


@dataclass(frozen=True, eq=False)
class Bounds:
    """Limits of all joints of the tree, passive ones included, each of shape (n,); effort of the active ones."""

    names: tuple[str, ...]
    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array
    effort: Array
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LimitViolation:
    """A reason not to run a trajectory: in words, and as numbers."""

    joint: str
    quantity: str
    value: float
    limit: float
    text: str

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


def bounds_of(robot: Robot, margin: float = DEFAULT_MARGIN, caps: Caps | None = None) -> Bounds:
    """Return the limits less the margin (a fraction of each: of the range for positions), or refuse the robot.

    A velocity and a position range must be known for every joint. Without an acceleration limit, full speed is reached
    in half a second, and the notes say so.
    """
    if not 0.0 <= margin < 1.0:
        raise InputError(f"margin {margin}", "give a fraction from 0 to below 1", robot.name)
    caps = caps or Caps()
    for kind in ("position", "velocity", "acceleration", "effort"):
        if not getattr(caps, kind) > 0:
            raise InputError(f"limit of {getattr(caps, kind)} on every {kind}", "give a positive one", robot.name)
    active = {robot.joints[j - 1].name for j in robot.active}
    rows, notes, unknown = [], [], []
    for joint in robot.joints:
        own = joint.limits
        lower, upper = max(own.lower, -caps.position), min(own.upper, caps.position)
        velocity, acceleration = min(own.velocity, caps.velocity), min(own.acceleration, caps.acceleration)
        if joint.name in active:
            for kind, limits in (
                ("position", np.isfinite(lower) and np.isfinite(upper)),
                ("velocity", np.isfinite(velocity)),
            ):
                if not limits:
                    raise InputError(
                        f"joint {joint.name!r} has no {kind} limit",
                        Text("add it to the robot file, or give ", Option(f"max_{kind}")),
                        robot.name,
                    )
            if not (upper > lower and velocity > 0 and acceleration > 0):
                raise InputError(
                    f"joint {joint.name!r} cannot move: position {lower:.4g} to {upper:.4g}, velocity {velocity:.4g},"
                    f" acceleration {acceleration:.4g}",
                    Text("correct its limits, or hold it: ", Option("hold", {joint.name: "VALUE"})),
                    robot.name,
                )
            if not np.isfinite(acceleration):
                acceleration = velocity / SPEED_UP_TIME_S
                unknown.append(joint.name)
        rows.append((lower, upper, velocity, acceleration, min(own.effort, caps.effort)))
    if unknown:
        notes.append(
            Text(
                f"no acceleration limit known for {', '.join(unknown)}: reaching full speed takes {SPEED_UP_TIME_S} s"
                " or more (",
                Option("max_acceleration"),
                " sets it)",
            )
        )
    lower_, upper_, velocity_, acceleration_, effort_ = np.array(rows).T
    wide = upper_ - lower_
    half = 0.5 * margin * np.where(np.isfinite(wide), wide, 0.0)
    keep = 1.0 - margin
    effort_ = effort_[[j - 1 for j in robot.active]]
    return Bounds(
        tuple(joint.name for joint in robot.joints),
        lower_ + half,
        upper_ - half,
        keep * velocity_,
        keep * acceleration_,
        keep * effort_,
        tuple(notes),
    )


def all_joints(robot: Robot, curve: Curve) -> Curve:
    """Return the curve of all joints of the tree from that of the active ones."""
    return curve.mapped(*constraint(robot)) if robot.passive_joints else curve


def joint_extrema(robot: Robot, curve: Curve) -> tuple[Array, Array, Array]:
    """Return lowest and highest q, dq and ddq of all joints, shape (2, n) each, exact for those of the curve.

    Passive joints of closed loops are sampled at LOOP_RATE_HZ; infinite where the loops do not close all the way.
    """
    if robot.loops is None:
        return all_joints(robot, curve).extrema()
    motion, active = loop_samples(robot, curve), [j - 1 for j in robot.active]
    ranges = []
    for k, exact in enumerate(curve.extrema()):
        whole = np.array([np.full(robot.n, -np.inf), np.full(robot.n, np.inf)])
        if motion is not None:
            x = (motion.q, motion.dq, motion.ddq)[k]
            whole = np.array([x.min(axis=1), x.max(axis=1)])
        whole[:, active] = exact
        ranges.append(whole)
    return ranges[0], ranges[1], ranges[2]


def loop_samples(robot: Robot, curve: Curve) -> Motion | None:
    """Return the motion of all joints at LOOP_RATE_HZ, or None where the loops do not close all the way."""
    t = np.linspace(0.0, curve.duration, int(curve.duration * LOOP_RATE_HZ) + 2)
    try:
        return motion_of(robot, *curve.evaluate(t))
    except InputError:
        return None


def _loop_problems(robot: Robot, curve: Curve) -> list[LimitViolation]:
    """Return whether the loops open, or come near a pose in which the linkage could leave its branch."""
    if robot.loops is None:
        return []
    motion = loop_samples(robot, curve)
    margin = 0.0 if motion is None else float(loop_margin(robot, motion.q).min())
    if margin >= REGULAR:
        return []
    text = "the loops do not close on the whole way, or come near a singular pose: narrow the limits of the joints"
    return [LimitViolation(robot.joints[robot.loops.passive[0] - 1].name, "loop", margin, REGULAR, text)]


def closed_way(robot: Robot, q: Array) -> tuple[int, str]:
    """Return how many positions of a way, shape (N, n_active), closed loops can go, and what is wrong with the next.

    They must close, not be nearly singular, and keep the limits of the passive joints.
    """
    if robot.loops is None:
        return len(q), ""
    G, offset = linear_constraint(robot)
    closed = close_loops(robot, G @ q.T + offset[:, None])
    reasons: dict[str, NDArray[np.bool_]] = {
        "the loops would open": np.asarray(np.isnan(closed).any(axis=0)),
        "the loops would come near a singular pose": np.asarray(loop_margin(robot, closed) < REGULAR),
    }
    for joint, x in zip(robot.joints, closed, strict=True):
        lower, upper = joint.limits.lower - WAY_SLACK, joint.limits.upper + WAY_SLACK
        reasons[f"joint {joint.name!r} would pass its limits"] = (x < lower) | (x > upper)
    first = {what: int(np.argmax(wrong)) for what, wrong in reasons.items() if wrong.any()}
    return min(((k, what) for what, k in first.items()), default=(len(q), ""), key=lambda pair: pair[0])


def use_of(robot: Robot, curve: Curve, bounds: Bounds, chi: Array | None = None) -> dict[str, float]:
    """Return the largest fraction used of each kind of limit: position, velocity, acceleration, effort (None: 0)."""
    return {kind: float(np.max(fractions)) for kind, fractions in use_by_joint(robot, curve, bounds, chi).items()}


def use_by_joint(robot: Robot, curve: Curve, bounds: Bounds, chi: Array | None = None) -> dict[str, Array]:
    """Return the fraction used of each kind of limit, shape (n,), of effort (n_active,); 0 where no limit is known."""
    q, dq, ddq = joint_extrema(robot, curve)
    half = 0.5 * (bounds.upper - bounds.lower)
    has_limit = np.isfinite(half)
    middle = np.where(has_limit, bounds.upper, 0.0) - np.where(has_limit, half, 0.0)
    position = np.abs(q - middle) / half
    use = {
        "position": np.max(position, axis=0),
        "velocity": np.max(np.abs(dq) / bounds.velocity, axis=0),
        "acceleration": np.max(np.abs(ddq) / bounds.acceleration, axis=0),
        "effort": np.zeros(len(robot.active)),
    }
    if chi is not None:
        use["effort"] = peak_effort(robot, curve, chi) / bounds.effort
    return use


def peak_effort(robot: Robot, curve: Curve, chi: Array) -> Array:
    """Return the largest |tau| predicted with the standard parameters chi at each active joint, shape (n_active,)."""
    t = np.linspace(0.0, curve.duration, max(200, int(curve.duration * EFFORT_RATE_HZ)) + 1)
    return np.asarray(np.abs(inverse_dynamics(robot, chi, *curve.evaluate(t))).max(axis=0))


def known_parameters(robot: Robot, chi: Array | None = None) -> Array | None:
    """Return chi, or the robot's a priori parameters, or None where there are none to predict torques with."""
    chi = standard_vector(robot) if chi is None else chi
    return chi if np.any(chi) else None


def check_trajectory(
    robot: Robot,
    trajectory: Trajectory,
    chi: Array | None = None,
    margin: float = 0.0,
    caps: Caps | None = None,
) -> list[LimitViolation]:
    """Return the reasons not to run the trajectory on the robot; an empty list if it is safe.

    Position, velocity and acceleration are judged at the exact extrema of the curve, torque at 500 Hz with chi
    (default: the robot's a priori parameters), and both ends must be at rest. Collisions: see collision.py.
    """
    if set(trajectory.joint_names) != set(robot.active_names):
        missing = sorted(set(robot.active_names) ^ set(trajectory.joint_names))[0]
        text = f"joint {missing!r} is in the trajectory or in the robot, but not in both"
        return [LimitViolation(missing, "names", np.nan, np.nan, text)]
    curve = trajectory.ordered(robot.active_names).curve
    bounds = bounds_of(robot, margin, caps)
    return [*_rest_problems(robot, curve), *limit_problems(robot, curve, bounds), *_effort(robot, curve, bounds, chi)]


def limit_problems(robot: Robot, curve: Curve, bounds: Bounds) -> list[LimitViolation]:
    """Return the joints that leave their limits of position, velocity or acceleration."""
    q, dq, ddq = joint_extrema(robot, curve)
    problems = _loop_problems(robot, curve)
    for quantity, extrema, lower, upper in (
        ("position", q, bounds.lower, bounds.upper),
        ("velocity", dq, -bounds.velocity, bounds.velocity),
        ("acceleration", ddq, -bounds.acceleration, bounds.acceleration),
    ):
        for j, name in enumerate(bounds.names):
            for value, limit, excess in (
                (extrema[0, j], lower[j], lower[j] - extrema[0, j]),
                (extrema[1, j], upper[j], extrema[1, j] - upper[j]),
            ):
                if not excess <= TOLERANCE:
                    text = f"{quantity} of joint {name!r} reaches {value:.6g}, the limit is {limit:.6g}"
                    problems.append(LimitViolation(name, quantity, float(value), float(limit), text))
    return problems


def _rest_problems(robot: Robot, curve: Curve) -> list[LimitViolation]:
    _, dq, ddq = curve.evaluate(np.array([0.0, curve.duration]))
    problems = []
    for k, name in enumerate(robot.active_names):
        if np.max(np.abs(dq[:, k])) > 1e-6 or np.max(np.abs(ddq[:, k])) > 1e-4:
            text = f"joint {name!r} is not at rest at the start or the end of the trajectory"
            problems.append(LimitViolation(name, "rest", float(np.max(np.abs(dq[:, k]))), 0.0, text))
    return problems


def _effort(robot: Robot, curve: Curve, bounds: Bounds, chi: Array | None) -> list[LimitViolation]:
    chi = known_parameters(robot, chi)
    if chi is None or not np.any(np.isfinite(bounds.effort)):
        return []
    peak = peak_effort(robot, curve, chi)
    return [
        LimitViolation(
            name,
            "effort",
            float(tau),
            float(limit),
            f"torque of joint {name!r} reaches {tau:.6g} N.m (or N) by the"
            f" a priori parameters, the limit is {limit:.6g}",
        )
        for name, tau, limit in zip(robot.active_names, peak, bounds.effort, strict=True)
        if tau > limit * (1.0 + 1e-9)
    ]
