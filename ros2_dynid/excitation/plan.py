# SPDX-License-Identifier: Apache-2.0

"""Plan an exciting trajectory for a robot, by optimum points or by Fourier series, and check it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ros2_dynid.base_parameters import BaseParameters, base_parameters
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import Shapes, clearance
from ros2_dynid.excitation.criteria import condition_by, normalised, structural_equilibrium
from ros2_dynid.excitation.descent import TimeBudget, silent
from ros2_dynid.excitation.fourier import FourierSeries
from ros2_dynid.excitation.fourier_trajectory import (
    CRITERIA,
    SERIES_ITERATIONS,
    FourierProblem,
    TorqueModel,
    optimise_series,
)
from ros2_dynid.excitation.gripper import gripper_notes
from ros2_dynid.excitation.law_columns import exciting_terms
from ros2_dynid.excitation.limits import (
    DEFAULT_MARGIN,
    Bounds,
    Caps,
    bounds_of,
    known_parameters,
    limit_problems,
    peak_effort,
    use_of,
)
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.point_trajectory import (
    POINT_ITERATIONS,
    SegmentProblem,
    interpolate_points,
    optimise_trajectory,
)
from ros2_dynid.excitation.points import EnergyModel, Substitution, optimise_points, positions_that_matter
from ros2_dynid.excitation.pose import rest_pose
from ros2_dynid.excitation.quintic import PiecewiseQuintic
from ros2_dynid.excitation.trajectory import DEFAULT_RATE_HZ, Curve, Trajectory
from ros2_dynid.model.robot import Array, Robot, refuse_loops
from ros2_dynid.progress import Progress

_METHODS = ("fourier", "points")
DEFAULT_BUDGET_S = {"points": 12.0, "cond": 8.0, "normalised": 45.0, "logdet": 8.0}
"""Time budget [s] of points and of a Fourier series by its criterion; with friction there are far more local minima."""
START_S = {"fourier": 2.5, "points": 6.0}
"""Time budget of one random start [s]."""
UNEXCITED_CONDITION = 1e7
"""Condition number (columns of norm 1) above which a parameter is not excited: 0.1 % noise would be 1e4 times its
value.
"""
CHECK_RATE_HZ = 100.0
"""Rate at which collisions are checked along a trajectory [Hz]."""


@dataclass(frozen=True, eq=False)
class PlanOptions:
    """What to plan, and how.

    method: "fourier" or "points"; groups: of inertial, rotor, friction, offset (all that the model shows if None).
    rows: r of the points (default: twice the base parameters); duration_s, harmonics, periods: of the Fourier series.
    time_budget_s: default DEFAULT_BUDGET_S; spent_s: the part already spent, on reading files. starts: random starts
    (default: as many as the time allows); iterations: of each descent. margin: fraction kept from every limit; caps:
    limits beside the robot's own; start: pose at the start and the end. criterion: "cond", "normalised" or "logdet" of
    the torque regressor (default: cond if only inertial parameters are sought, else normalised, since units then
    differ); weights: factor on the rows of each active joint. equilibrium_weight: lambda2 of the points' cost, beside
    lambda1 = 1; optimiser: "gradient", which chooses points and segment times together, or one of Gautier 1992
    ("nelder-mead", "quasi-newton", "powell"), which finds the points alone, with the condition number by `measure`
    ("svd", "qr", "frobenius"). chi: standard parameters to predict torques with (default: the robot's); shapes: what
    must not collide.
    """

    method: str = "fourier"
    groups: Sequence[str] | None = None
    seed: int = 0
    time_budget_s: float | None = None
    spent_s: float = 0.0
    starts: int | None = None
    iterations: int | None = None
    rows: int | None = None
    duration_s: float = 10.0
    harmonics: int = 6
    periods: int = 1
    margin: float = DEFAULT_MARGIN
    caps: Caps = field(default_factory=Caps)
    start: Sequence[float] | None = None
    criterion: str | None = None
    weights: Sequence[float] | None = None
    equilibrium_weight: float = 0.06
    optimiser: str = "gradient"
    measure: str = "svd"
    chi: Array | None = None
    shapes: Shapes | None = None
    rate_hz: float = DEFAULT_RATE_HZ
    progress: Progress = silent


@dataclass(frozen=True, eq=False)
class Plan:
    """A trajectory and its quality.

    cond: condition number of W (of the r energy differences, or of the torque regressor over one period); S: its
    equilibrium; cond_normalised: with columns of norm 1; use: largest fraction used of each kind of limit, the margin
    taken off; base: the base parameters it excites; W: the matrix itself; clearance_m: smallest distance.
    """

    trajectory: Trajectory
    method: str
    cond: float
    S: float
    cond_normalised: float
    use: dict[str, float]
    seconds: float
    rows: int
    base: BaseParameters
    W: Array
    bounds: Bounds
    clearance_m: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def duration(self) -> float:
        """Length of the trajectory [s]."""
        return self.trajectory.duration


def plan(robot: Robot, options: PlanOptions | None = None) -> Plan:
    """Return an exciting trajectory that keeps every limit, within the time budget.

    The same seed gives the same trajectory, unless the time budget ends the search.
    """
    options = options or PlanOptions()
    check_options(options, robot)
    if options.method != "fourier":
        refuse_loops(robot, "plans other than Fourier series")
    source = "energy" if options.method == "points" else "torque"
    base = base_parameters(robot, source=source, groups=options.groups, seed=options.seed)
    if not len(base):
        raise InputError(
            "no base parameter is left to identify", Text("choose other groups: ", Option("groups")), robot.name
        )
    clock = start_clock(options)
    bounds = bounds_of(robot, options.margin, options.caps)
    chi = known_parameters(robot, options.chi)
    notes = [*bounds.notes, *gripper_notes(robot), *(options.shapes.notes if options.shapes else ())]
    if chi is None:
        notes.append("torques are not predicted, since no a priori parameters are known")
    if chi is not None and not np.any(np.isfinite(bounds.effort)):
        chi = None
    start = rest_pose(
        robot,
        bounds,
        start=options.start,
        shapes=options.shapes,
        chi=chi,
        zero_first=options.method == "points",
        seed=options.seed,
    )
    penalty = Penalty(robot, bounds, tight=0.99, chi=chi, shapes=options.shapes)
    make = search_points_curve if options.method == "points" else search_fourier_curve
    curve, W, structural = make(robot, options, base, penalty, start, clock)
    trajectory = Trajectory(robot.active_names, curve, options.method, options.rate_hz)
    problems = problems_of(robot, curve, penalty, options.shapes)
    if problems:
        raise InputError(f"no safe trajectory was found: {problems[0]}", "give more time or wider limits", robot.name)
    cond_normalised = condition_by(normalised(W)[0])
    if not cond_normalised < UNEXCITED_CONDITION:
        raise InputError(
            f"the best motion found does not excite the base parameters (condition number {cond_normalised:.1e})",
            Text(
                "give wider limits, more time (",
                Option("time_budget"),
                ") or a longer motion (",
                Option("duration"),
                ")",
            ),
            robot.name,
        )
    clear = None if options.shapes is None else clearance(robot, options.shapes, trajectory.sample(CHECK_RATE_HZ).q)[0]
    return Plan(
        trajectory,
        options.method,
        condition_by(W),
        structural_equilibrium(W, structural),
        cond_normalised,
        use_of(robot, curve, bounds_of(robot, 0.0, options.caps), known_parameters(robot, options.chi)),
        clock.spent,
        len(W),
        base,
        W,
        bounds,
        clear,
        tuple(notes),
    )


def start_clock(options: PlanOptions) -> TimeBudget:
    """Return the clock of a search: what is left of its time, a tenth of it at least."""
    kind = "points" if options.method == "points" else criterion_of(options)
    budget = options.time_budget_s or DEFAULT_BUDGET_S[kind]
    return TimeBudget(max(budget - options.spent_s, 0.1 * budget), options.progress)


def criterion_of(options: PlanOptions) -> str:
    """Return the criterion of a Fourier series."""
    if options.criterion is not None:
        return options.criterion
    return "cond" if options.groups is not None and set(options.groups) == {"inertial"} else "normalised"


def count_starts(clock: TimeBudget, method: str) -> int:
    """Return the number of random starts for a time budget."""
    return min(max(2, int(clock.budget_s / START_S[method])), 16)


def check_options(options: PlanOptions, robot: Robot) -> None:
    """Refuse options that no plan can meet."""
    if options.method not in _METHODS:
        raise InputError(f"unknown method {options.method!r}", f"choose from {', '.join(_METHODS)}")
    if options.criterion is not None and options.criterion not in CRITERIA:
        raise InputError(f"unknown criterion {options.criterion!r}", f"choose from {', '.join(CRITERIA)}")
    budget = options.time_budget_s
    if budget is not None and not (np.isfinite(budget) and budget > 0):
        raise InputError(f"time budget of {budget} s", "give a positive time [s]")
    if not (np.isfinite(options.duration_s) and options.duration_s > 0):
        raise InputError(f"duration of {options.duration_s} s", "give a positive time [s]")
    if not 3 <= options.harmonics <= 40:
        raise InputError(f"{options.harmonics} harmonics", "use 3 to 40: fewer cannot start and end at rest")
    if not 1 <= options.periods <= 1000:
        raise InputError(f"{options.periods} periods", "repeat the period 1 to 1000 times")
    if options.weights is not None:
        weights = np.asarray(options.weights, dtype=float)
        if weights.shape != (len(robot.active),) or not np.all(np.isfinite(weights)) or not np.all(weights > 0):
            raise InputError("weights must be positive, one for each active joint", f"give {len(robot.active)}")


def problems_of(robot: Robot, curve: Curve, penalty: Penalty, shapes: Shapes | None) -> list[str]:
    """Return what is wrong with a curve: limits on exact extrema, torques at 500 Hz, distances at 100 Hz."""
    problems = [problem.text for problem in limit_problems(robot, curve, penalty.bounds)]
    if penalty.chi is not None:
        peak = peak_effort(robot, curve, penalty.chi)
        for k in np.flatnonzero(peak > penalty.bounds.effort):
            problems.append(f"torque of joint {robot.active_names[k]!r} reaches {peak[k]:.4g}")
    if shapes is not None:
        t = np.linspace(0.0, curve.duration, int(CHECK_RATE_HZ * curve.duration) + 2)
        distance, what = clearance(robot, shapes, curve.evaluate(t)[0])
        if distance < shapes.margin:
            problems.append(f"{what} come within {distance:.4g} m")
    return problems


def search_points_curve(
    robot: Robot, options: PlanOptions, base: BaseParameters, penalty: Penalty, start: Array, clock: TimeBudget
) -> tuple[Curve, Array, None]:
    """Return the curve through optimum points and W of its rows."""
    b = len(base)
    r = 2 * b if options.rows is None else options.rows
    if r < b:
        raise InputError(f"{r} rows for {b} base parameters", f"use at least {b} rows, better {2 * b}")
    model = EnergyModel(robot, tuple(base.columns(robot)), lambda2=options.equilibrium_weight)
    index = [j - 1 for j in robot.active]
    bounds = penalty.bounds
    n = len(index)
    substitution = Substitution(
        bounds.lower[index],
        bounds.upper[index],
        bounds.velocity[index],
        np.ones(n, dtype=bool),
        np.zeros((r + 1, n)),
    )
    problem = SegmentProblem(model, substitution, penalty, start, start)
    rng = np.random.default_rng(options.seed)
    if options.optimiser == "gradient":
        starts = options.starts or count_starts(clock, "points")
        curve, q, dq = optimise_trajectory(problem, rng, clock, starts, options.iterations or POINT_ITERATIONS)
    else:
        curve, q, dq = search_points_of_seed(problem, options, rng, clock)
    return curve, model.W(q, dq), None


def search_points_of_seed(
    problem: SegmentProblem, options: PlanOptions, rng: np.random.Generator, clock: TimeBudget
) -> tuple[PiecewiseQuintic, Array, Array]:
    """Return curve and points as Gautier 1992 finds them: points alone, interpolation, tighter limits if it fails."""
    model, full = problem.model, problem.substitution
    free = positions_that_matter(model)
    tries = (1.0, 0.9, 0.8, 0.65, 0.5)
    best = None
    for k, tight in enumerate(tries):
        middle, half = 0.5 * (full.upper + full.lower), 0.5 * tight * (full.upper - full.lower)
        fixed = rng.uniform(middle - half, middle + half, full.fixed.shape)  # q1 has no effect on W: at random
        tightened = Substitution(middle - half, middle + half, tight * full.velocity, free, fixed)
        part = TimeBudget(clock.budget_s / len(tries), clock.progress)
        q, dq = optimise_points(model, tightened, rng, part, optimiser=options.optimiser, measure=options.measure)
        curve, q, dq, slowed = interpolate_points(problem, q, dq)
        if curve is not None and (best is None or model.cost(q, dq) < best[0]):
            best = (model.cost(q, dq), curve, q, dq)
        clock.report(f"limits times {tight:g}: {'slowed down' if slowed else 'kept'}")
        if (curve is not None and not slowed) or clock.over((k + 2) / len(tries)):
            break
    if best is None:
        raise InputError(
            "the optimum points cannot be joined within the limits", Text("use ", Option("optimiser", "gradient"))
        )
    return best[1:]


def search_fourier_curve(
    robot: Robot, options: PlanOptions, base: BaseParameters, penalty: Penalty, start: Array, clock: TimeBudget
) -> tuple[Curve, Array, Array]:
    """Return the Fourier series, W over one period, and which elements of W are not zero by structure."""
    index = [j - 1 for j in robot.active]
    bounds = penalty.bounds
    lower, upper = bounds.lower[index], bounds.upper[index]
    weights = np.ones(len(index)) if options.weights is None else np.asarray(options.weights, dtype=float)
    terms = exciting_terms(robot, options.groups)
    model = TorqueModel(robot, tuple(base.columns(robot)), weights, criterion_of(options), terms)
    middle = start
    w = 2.0 * np.pi / options.duration_s * 0.5 * (1 + options.harmonics)
    reach = np.minimum(upper - middle, middle - lower)
    reach = np.where(reach > 0, reach, 0.5 * (upper - lower))
    scale = np.minimum(np.minimum(reach, bounds.velocity[index] / w), bounds.acceleration[index] / w**2)
    problem = FourierProblem(
        model, penalty, options.duration_s, options.harmonics, middle, scale, options.start is not None
    )

    def safe(series: FourierSeries) -> bool:
        return not problems_of(robot, series, penalty, options.shapes)

    rng = np.random.default_rng(options.seed)
    starts = options.starts or count_starts(clock, "fourier")
    y = optimise_series(problem, rng, clock, safe, starts, iterations=options.iterations or SERIES_ITERATIONS)
    series = problem.series(y, options.periods)
    return series, *torque_matrix(robot, model, series)


def torque_matrix(robot: Robot, model: TorqueModel, series: FourierSeries) -> tuple[Array, Array]:
    """Return W of one period, 500 samples, and the mask of its elements that are not zero by structure."""
    t = np.linspace(0.0, series.period, 500, endpoint=False)
    W = model.W(*series.evaluate(t))
    size = np.abs(W.reshape(len(t), -1)).max(axis=0)
    mask = np.broadcast_to(size > 1e-12 * size.max(), (len(t), len(size))).reshape(W.shape)
    return W, mask


def validation_plan(robot: Robot, options: PlanOptions | None = None) -> Plan:
    """Return a trajectory for validation: as safe, but with other frequencies and another seed than plan().

    It reveals a model that only fits the motion it was identified on.
    """
    options = options or PlanOptions()
    other = replace(options, method="fourier", seed=options.seed + 7919, harmonics=options.harmonics + 1)
    validation = plan(robot, replace(other, duration_s=options.duration_s * 1.3, criterion="logdet"))
    return replace(validation, trajectory=replace(validation.trajectory, kind="validation"))
