# SPDX-License-Identifier: Apache-2.0

"""Plan: a robot and what surrounds it give an exciting trajectory, checked and written to a file."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ros2_dynid.codec import NamedChoice
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import DEFAULT_MARGIN_M, Shapes, clearance
from ros2_dynid.excitation.exact import available, exact_clearance
from ros2_dynid.excitation.friction_sweeps import friction_sweeps
from ros2_dynid.excitation.gripper import gripper_notes
from ros2_dynid.excitation.limits import (
    DEFAULT_MARGIN,
    Caps,
    bounds_of,
    check_trajectory,
    known_parameters,
    use_of,
)
from ros2_dynid.excitation.plan import CHECK_RATE_HZ, Plan, PlanOptions, validation_plan
from ros2_dynid.excitation.plan import plan as planned
from ros2_dynid.excitation.plan_figures import figure_files, predicted_std, save_figures
from ros2_dynid.excitation.servo_motion import servo_motion
from ros2_dynid.excitation.static import ramps, static_poses
from ros2_dynid.excitation.surroundings import known_shapes, surroundings
from ros2_dynid.excitation.trajectory import DEFAULT_RATE_HZ, Trajectory, rehearsal, save_trajectory
from ros2_dynid.model.load import urdf_of
from ros2_dynid.model.robot import PRISMATIC, Robot, refuse_loops
from ros2_dynid.output_files import check_outputs
from ros2_dynid.progress import Progress, ignore_progress
from ros2_dynid.usecases.robot_source import RobotSource

EXACT_RATE_HZ = 20.0
EXACT_POSES = 400
"""Rate and number of poses at which the true shapes are looked at."""


MAX_POINTS = 500_000
"""Points of a trajectory file: nearly three hours at 50 Hz, and as large a file as can be read again."""
LARGEST = {
    "duration": (3600.0, " s"),
    "rate": (10_000.0, " Hz"),
    "hold_time": (600.0, " s"),
    "harmonics": (100, ""),
    "periods": (1000, ""),
    "poses": (1000, ""),
    "rows": (100_000, ""),
}
"""Largest value of fields whose time and memory grow with them, and its unit; no robot is excited with more."""


class PlanMethod(NamedChoice):
    """Kinds of trajectories."""

    FOURIER = "fourier"
    """A Fourier series optimised on the torque regressor."""
    POINTS = "points"
    """Optimum points of the energy model joined by quintics."""
    STATIC = "static"
    """Poses held, for gravity."""
    RAMPS = "ramps"
    """Constant velocities, for friction."""
    FRICTION = "friction"
    """The same at several gravity loads on each joint, for friction that depends on the load."""
    SERVO = "servo"
    """Reversals at several amplitudes, steps, slow reversals and holds, for position servos without torque."""
    VALIDATION = "validation"
    """Another Fourier series than the one to identify with."""


@dataclass(frozen=True)
class Surroundings:
    """What the robot must not touch: itself, a floor, the walls of a box, obstacles.

    collisions: whether the shapes of `file`, or of the robot's own URDF if there is none, count; margin: distance kept
    [m]; floor: its height [m]; box: x, X, y, Y, z, Z [m], both in the base frame; obstacles: a file of them.
    """

    collisions: bool = True
    file: str | None = None
    margin: float = DEFAULT_MARGIN_M
    floor: float | None = None
    box: tuple[float, float, float, float, float, float] | None = None
    obstacles: str | None = None


@dataclass(frozen=True)
class PlanRequest:
    """What to plan and where to write it: .csv, or else YAML that `ros2 topic pub` takes.

    groups: of inertial, rotor, friction, offset (None: all that the model shows); rows: of W for points; duration:
    Fourier period [s]; criterion, weights, equilibrium, optimiser, measure: see excitation.plan; poses, hold_time [s]:
    of static poses; time_budget [s]; margin: fraction kept from every limit; max_position, ...: limits beside the
    robot's own; start: pose at start and end [rad or m]; rate: points a second [Hz]; csv, rehearsal, figures: further
    files, the rehearsal at a fraction of the speed; noise: of the torque [N.m], for predicted deviations; overwrite:
    replace files that exist.
    """

    robot: RobotSource
    output: str
    method: PlanMethod = PlanMethod.FOURIER
    groups: tuple[str, ...] | None = None
    seed: int = 0
    rows: int | None = None
    duration: float = 10.0
    harmonics: int = PlanOptions.harmonics
    periods: int = 1
    criterion: str | None = None
    weights: tuple[float, ...] | None = None
    equilibrium: float = 0.06
    optimiser: str = "gradient"
    measure: str = "svd"
    poses: int = 20
    hold_time: float = 2.0
    time_budget: float | None = None
    margin: float = DEFAULT_MARGIN
    max_position: float | None = None
    max_velocity: float | None = None
    max_acceleration: float | None = None
    max_effort: float | None = None
    start: tuple[float, ...] | None = None
    surroundings: Surroundings = field(default_factory=Surroundings)
    rate: float = DEFAULT_RATE_HZ
    csv: str | None = None
    rehearsal: str | None = None
    rehearsal_speed: float = 0.2
    figures: str | None = None
    noise: float = 1.0
    overwrite: bool = False

    @property
    def caps(self) -> Caps:
        """Limits beside the robot's own."""
        limits = (self.max_position, self.max_velocity, self.max_acceleration, self.max_effort)
        return Caps(*(math.inf if value is None else value for value in limits))


@dataclass(frozen=True)
class PredictedRow:
    """Predicted standard deviation of a base parameter, and the same over its a priori value [%]."""

    name: str
    std: float | None
    relative_std: float | None


@dataclass(frozen=True)
class PlanOutcome:
    """The trajectory written and what it is worth; None where a method does not give a figure.

    cond, S, cond_normalised: condition number and equilibrium of W, and the first with columns of norm 1; use: largest
    fraction used of each kind of limit; clearance, exact_clearance: smallest distances of capsules, and of close links
    in their true shapes [m]; start: first pose [rad or m].
    """

    robot: str
    method: PlanMethod
    file: str
    duration: float
    rows: int
    use: Mapping[str, float]
    joints: tuple[str, ...]
    start: tuple[float, ...]
    seconds: float
    cond: float | None = None
    S: float | None = None
    cond_normalised: float | None = None
    n_base: int | None = None
    search_seconds: float | None = None
    clearance: float | None = None
    exact_clearance: float | None = None
    noise: float | None = None
    parameters: tuple[PredictedRow, ...] = ()
    pictures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan(request: PlanRequest, progress: Progress | None = None) -> PlanOutcome:
    """Plan the trajectory and write it."""
    began, report = time.perf_counter(), progress or ignore_progress
    _check(request)
    robot, shapes = robot_and_shapes(request.robot, request.surroundings, start=request.start)
    if request.method in (PlanMethod.STATIC, *SLOW_MOTIONS):
        trajectory, outcome = plan_slow_motion(request, robot, shapes)
    else:
        result = search_plan(request, robot, shapes, time.perf_counter() - began, report)
        trajectory, outcome = result.trajectory, describe_plan(request, robot, result)
    exact = true_clearance(robot, shapes, trajectory)
    sliding = [robot.joints[j - 1].name for j in robot.active if robot.joints[j - 1].sigma == PRISMATIC]
    trajectory = replace(trajectory, prismatic=tuple(sliding))
    overwrite = request.overwrite
    check_point_count(trajectory.duration, request.rate)
    save_trajectory(request.output, trajectory, request.rate, overwrite=overwrite)
    if request.csv is not None:
        save_trajectory(Path(request.csv).with_suffix(".csv"), trajectory, request.rate, overwrite=overwrite)
    if request.rehearsal is not None:
        slow = rehearsal(trajectory, request.rehearsal_speed)
        save_trajectory(request.rehearsal, slow, request.rate * request.rehearsal_speed, overwrite=overwrite)
    return replace(outcome, exact_clearance=exact, seconds=time.perf_counter() - began)


def robot_and_shapes(
    source: RobotSource, around: Surroundings, *, start: tuple[float, ...] | None = None, planning: bool = True
) -> tuple[Robot, Shapes | None]:
    """Return the robot and what must not collide; for `planning`, with the joint ranges that close links leave it."""
    robot = source.load()
    if planning and robot.floating:
        hint = "hang or hold the robot by its base, and leave the floating base out"
        raise InputError("nothing drives a floating base: no motion can be planned for it", hint, robot.name)
    file: Path | None = None
    chain = source.chain
    with contextlib.ExitStack() as stack:
        if source.path:
            file, chain = urdf_of(source.path, **chain)
        elif around.collisions and around.file is None:  # meshes named by package:// are found wherever the text lies
            file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "robot.urdf"
            file.write_text(source.urdf, encoding="utf-8")
        if around.file is not None:
            file = Path(around.file)
        if not around.collisions:
            file = None
        floor, box, standing, margin = around.floor, around.box, around.obstacles, around.margin
        if not planning:
            return known_shapes(robot, file, floor=floor, box=box, obstacles=standing, margin=margin, **chain)
        near = start if start is not None and len(start) == len(robot.active) else None
        return surroundings(robot, file, floor=floor, box=box, obstacles=standing, margin=margin, start=near, **chain)


def _check(request: PlanRequest) -> None:
    if request.seed < 0:
        raise InputError(f"the seed is {request.seed}", "give a whole number from 0")
    if not 0.0 < request.rate < math.inf:
        raise InputError(f"the rate is {request.rate} Hz", "give a positive rate [Hz]")
    for name, (largest, unit) in LARGEST.items():
        value = getattr(request, name)
        if value is not None and not value <= largest:
            raise InputError(Text(Option(name), f" is {value:g}{unit}"), f"give at most {largest:g}{unit}")
    check_point_count(request.duration * request.periods, request.rate)
    if request.time_budget is not None and not request.time_budget > 0:
        raise InputError(f"the time budget is {request.time_budget} s", "give a positive time [s]")
    outputs = [request.output, request.csv and Path(request.csv).with_suffix(".csv"), request.rehearsal]
    outputs += figure_files(request.figures) if request.figures else []
    inputs = [request.robot.path or None, request.robot.joint_limits, request.surroundings.file]
    check_outputs(outputs, inputs=inputs, overwrite=request.overwrite)


def check_point_count(duration: float, rate: float) -> None:
    """Refuse a trajectory of so many seconds and points a second that its file could not be read."""
    if duration * rate > MAX_POINTS:
        what = f"the trajectory would have {duration * rate:.3g} points"
        raise InputError(what, Text(f"at most {MAX_POINTS} can be written: shorten it, or lower the ", Option("rate")))


def search_plan(request: PlanRequest, robot: Robot, shapes: Shapes | None, spent: float, report: Progress) -> Plan:
    """Return the optimised plan, in what is left of the time budget after reading the robot."""
    search = validation_plan if request.method is PlanMethod.VALIDATION else planned
    return search(robot, plan_options(request, shapes, spent, report))


def plan_options(request: PlanRequest, shapes: Shapes | None, spent: float, report: Progress) -> PlanOptions:
    """Return the options of the search that a request asks for."""
    return PlanOptions(
        method="points" if request.method is PlanMethod.POINTS else "fourier",
        groups=request.groups,
        seed=request.seed,
        time_budget_s=request.time_budget,
        spent_s=spent,
        rows=request.rows,
        duration_s=request.duration,
        harmonics=request.harmonics,
        periods=request.periods,
        margin=request.margin,
        caps=request.caps,
        start=request.start,
        criterion=request.criterion,
        weights=request.weights,
        equilibrium_weight=request.equilibrium,
        optimiser=request.optimiser,
        measure=request.measure,
        shapes=shapes,
        rate_hz=request.rate,
        progress=report,
    )


def describe_plan(request: PlanRequest, robot: Robot, plan: Plan) -> PlanOutcome:
    """Return the figures of a plan, and draw the pictures asked for."""
    std, percent = predicted_std(robot, plan, request.noise)
    pictures = save_figures(request.figures, robot, plan, request.noise) if request.figures else []
    return replace(
        describe_trajectory(request, robot, plan.trajectory),
        rows=plan.rows,
        use=plan.use,
        cond=plan.cond,
        S=plan.S,
        cond_normalised=plan.cond_normalised,
        n_base=len(plan.base),
        search_seconds=plan.seconds,
        clearance=plan.clearance_m,
        noise=request.noise,
        parameters=tuple(
            PredictedRow(name, finite_or_none(s), finite_or_none(p))
            for name, s, p in zip(plan.base.names, std, percent, strict=True)
        ),
        pictures=tuple(map(str, pictures)),
        notes=(*robot.notes, *plan.notes),
    )


SLOW_MOTIONS = {PlanMethod.RAMPS: ramps, PlanMethod.FRICTION: friction_sweeps, PlanMethod.SERVO: servo_motion}
"""Motions of one joint after the other, by method."""


def plan_slow_motion(request: PlanRequest, robot: Robot, shapes: Shapes | None) -> tuple[Trajectory, PlanOutcome]:
    """Return a trajectory of static poses, ramps or friction sweeps, and its use of the limits."""
    refuse_loops(robot, "plans other than Fourier series")
    if request.method is PlanMethod.STATIC:
        trajectory = static_poses(
            robot,
            poses=request.poses,
            hold_s=request.hold_time,
            margin=request.margin,
            caps=request.caps,
            start=request.start,
            shapes=shapes,
            seed=request.seed,
        )
    else:
        trajectory = SLOW_MOTIONS[request.method](
            robot, margin=request.margin, caps=request.caps, start=request.start, shapes=shapes, seed=request.seed
        )
    problems = check_trajectory(robot, trajectory, margin=request.margin, caps=request.caps)
    if problems:
        raise InputError(str(problems[0]), "choose another start pose or wider limits", robot.name)
    bounds = bounds_of(robot, 0.0, request.caps)
    return trajectory, replace(
        describe_trajectory(request, robot, trajectory),
        use=use_of(robot, trajectory.curve, bounds, known_parameters(robot)),
        clearance=None if shapes is None else clearance(robot, shapes, trajectory.sample(CHECK_RATE_HZ).q)[0],
        notes=(*robot.notes, *bounds.notes, *gripper_notes(robot), *(shapes.notes if shapes else ())),
    )


def describe_trajectory(request: PlanRequest, robot: Robot, trajectory: Trajectory) -> PlanOutcome:
    """Return what a plan is, before its figures are known."""
    return PlanOutcome(
        robot=robot.name,
        method=request.method,
        file=request.output,
        duration=trajectory.duration,
        rows=len(trajectory.t) * len(trajectory.joint_names),
        use={},
        joints=tuple(trajectory.joint_names),
        start=tuple(float(x) for x in trajectory.start),
        seconds=0.0,
    )


def true_clearance(robot: Robot, shapes: Shapes | None, trajectory: Trajectory) -> float | None:
    """Return the smallest distance [m] of links too close for capsules, in their true shapes, if coal is there."""
    if shapes is None or not shapes.solids or not available():
        return None
    rate = min(EXACT_RATE_HZ, EXACT_POSES / trajectory.duration)
    return exact_clearance(robot, shapes.solids, trajectory.sample(rate).q, only=shapes.close)[0]


def finite_or_none(x: float) -> float | None:
    """Return x, or None for what JSON cannot say."""
    return float(x) if math.isfinite(x) else None
