# SPDX-License-Identifier: Apache-2.0

"""Searches of plans: what each stage is asked for, which answer is kept, and what a plan tells of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, uneven
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import fourier_trajectory as fourier_search
from ros2_dynid.excitation import plan as planning
from ros2_dynid.excitation import plan_figures as figures
from ros2_dynid.excitation import point_trajectory as point_search
from ros2_dynid.excitation import points
from ros2_dynid.excitation.descent import TimeBudget
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis
from ros2_dynid.excitation.fourier_trajectory import FourierProblem, TorqueModel, optimise_series
from ros2_dynid.excitation.limits import Caps, bounds_of, use_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import DEFAULT_BUDGET_S, PlanOptions
from ros2_dynid.excitation.points import EnergyModel, Substitution
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.parameters import standard_vector

ROBOT = uneven()
BOUNDS = bounds_of(ROBOT, 0.0)
MIDDLE = np.array([0.5, -1.25, 0.7])
CHI = standard_vector(ROBOT)
MOVE = through_points(np.array([0.0, 6.0]), np.array([MIDDLE, MIDDLE + np.array([0.5, 0.3, -0.2])]), np.zeros((2, 3)))


# --- a plan


def test_what_is_planned_where_nobody_says_otherwise():
    wish = PlanOptions()
    assert (wish.method, wish.duration_s, wish.harmonics, wish.periods) == ("fourier", 10.0, 6, 1)
    assert (wish.margin, wish.equilibrium_weight, wish.rate_hz, wish.seed) == (0.05, 0.06, 50.0, 0)
    assert (wish.optimiser, wish.measure, wish.spent_s, wish.time_budget_s) == ("gradient", "svd", 0.0, None)
    assert planning.START_S == {"fourier": 2.5, "points": 6.0}
    assert (
        planning.count_starts(TimeBudget(12.0), "points") == 2
        and planning.count_starts(TimeBudget(18.5), "points") == 3
    )
    assert planning.count_starts(TimeBudget(45.0), "fourier") == 16
    assert Trajectory(ROBOT.active_names, MOVE).rate_hz == 50.0


@pytest.mark.parametrize(
    ("wish", "budget"),
    [
        ({"method": "points", "groups": ["inertial"]}, DEFAULT_BUDGET_S["points"]),
        ({"groups": ["inertial"]}, DEFAULT_BUDGET_S["cond"]),
        ({}, DEFAULT_BUDGET_S["normalised"]),
        ({"criterion": "logdet"}, DEFAULT_BUDGET_S["logdet"]),
        ({"time_budget_s": 3.0}, 3.0),
        ({"time_budget_s": 3.0, "spent_s": 1.0}, 2.0),
        ({"time_budget_s": 3.0, "spent_s": 2.9}, 0.3),
        ({"time_budget_s": 3.0, "spent_s": 9.0}, 0.3),
    ],
)
def test_the_time_budget_of_a_search(wish, budget):
    assert planning.start_clock(PlanOptions(**wish)).budget_s == pytest.approx(budget)
    assert DEFAULT_BUDGET_S == {"points": 12.0, "cond": 8.0, "normalised": 45.0, "logdet": 8.0}  # as documented


SHORT = FEW_STEPS | {"starts": 1, "iterations": 2, "duration_s": 4.0, "harmonics": 3, "groups": ["inertial"]}


def test_a_plan_says_what_its_motion_is_worth():
    caps = Caps(velocity=0.9)
    found = planning.plan(ROBOT, PlanOptions(margin=0.1, caps=caps, rate_hz=20.0, **SHORT))
    W = found.W
    assert found.trajectory.rate_hz == 20.0 and found.rows == len(W) and found.clearance_m is None
    assert found.trajectory.joint_names == ROBOT.active_names and found.method == found.trajectory.kind == "fourier"
    assert found.cond == pytest.approx(np.linalg.cond(W))
    assert found.cond_normalised == pytest.approx(np.linalg.cond(W / np.linalg.norm(W, axis=0)))
    assert found.use == use_of(ROBOT, found.trajectory.curve, bounds_of(ROBOT, 0.0, caps), CHI)
    np.testing.assert_array_equal(found.bounds.velocity, bounds_of(ROBOT, 0.1, caps).velocity)
    assert len(found.base) == len(base_parameters(ROBOT, source="torque", groups=["inertial"])) == W.shape[1]
    assert found.notes == () and found.seconds > 0.0


def test_points_are_planned_on_energies_and_start_at_zero_where_they_can():
    found = planning.plan(ROBOT, PlanOptions(method="points", margin=0.0, rows=20, **SHORT))
    base = base_parameters(ROBOT, source="energy", groups=["inertial"])
    assert len(found.base) == len(base) and found.W.shape == (20, len(base))
    assert found.method == found.trajectory.kind == "points"
    np.testing.assert_allclose(found.trajectory.start, [0.0, -1.25, 0.7])
    with pytest.raises(InputError, match="rows for"):
        planning.plan(ROBOT, PlanOptions(method="points", rows=len(base) - 1, **SHORT))


def test_torques_are_predicted_where_parameters_are_known():
    known, given = (planning.plan(ROBOT, PlanOptions(chi=chi, **SHORT)) for chi in (None, 1.1 * CHI))
    assert given.use["effort"] == pytest.approx(1.1 * known.use["effort"])
    heavier = planning.plan(ROBOT, PlanOptions(chi=1.3 / known.use["effort"] * CHI, **SHORT))
    assert 0.0 < heavier.use["effort"] <= 0.95 + 1e-9, "the same motion would pass the limits of the efforts"
    joints = [replace(j, limits=replace(j.limits, acceleration=np.inf)) for j in ROBOT.joints[:2]]
    bare = replace(ROBOT, joints=(*joints, ROBOT.joints[2]), parameters={})
    unknown, torques = planning.plan(bare, PlanOptions(**SHORT)).notes
    names = ", ".join(ROBOT.active_names[:2])
    assert str(unknown).startswith(f"no acceleration limit known for {names}: reaching full speed takes 0.5 s")
    assert str(torques).startswith("torques are not predicted")
    assert planning.plan(bare, PlanOptions(caps=Caps(acceleration=3.0), **SHORT)).notes == (torques,)


# --- a series


@pytest.mark.parametrize(("friction", "finer"), [((), 1), ((FrictionTerm(1, FrictionKind.CUBIC, 1.0),), 3)])
def test_samples_of_a_period(friction, finer):
    problem = small_problem()
    problem = replace(problem, model=replace(problem.model, terms=friction))
    y = np.random.default_rng(0).normal(size=problem.shape)
    assert (problem.series(y).periods, problem.series(y, 3).periods, problem.series(y, 3).duration) == (1, 3, 15.0)
    assert problem.model.size == len(problem.model.columns) + len(friction)
    W = problem.W(y)
    assert W.shape == (3 * 16 * 3 * finer, problem.model.size)
    if friction:
        dq = problem.series(y).evaluate(5.0 * np.arange(144) / 144)[1]
        np.testing.assert_allclose(W[0::3, -1], dq[:, 0] ** 3, atol=1e-12)
        assert not W[1::3, -1].any() and not W[2::3, -1].any()


# --- which series is kept


def small_problem(criterion="cond"):
    base = base_parameters(ROBOT, groups=["inertial"])
    model = TorqueModel(ROBOT, tuple(base.columns(ROBOT)), np.ones(3), criterion)
    return FourierProblem(model, Penalty(ROBOT, BOUNDS, tight=0.9), 5.0, 3, MIDDLE, np.array([0.3, 0.2, 0.1]))


class Clock(TimeBudget):
    """A clock that is moved by hand."""

    now = 0.0

    @property
    def spent(self):
        return self.now


def candidates_of(problem, count):
    rng = np.random.default_rng(1)
    every = []
    for _ in range(count):
        y = rng.standard_normal(problem.shape).ravel()
        every.append(y * fourier_search.linear_factor(problem, y))
    return sorted(every, key=lambda y: problem.model.value(problem.W(y)))


def late_clock():
    """Return a clock whose time is over: a search then ends with the best of its random starts."""
    clock = Clock(10.0)
    clock.now = 11.0
    return clock


def test_the_best_random_series_is_the_answer_if_there_is_no_time():
    problem = small_problem()
    found = optimise_series(problem, np.random.default_rng(1), late_clock(), lambda series: True, 2, 5)
    np.testing.assert_allclose(found, candidates_of(problem, 5)[0])
    found = optimise_series(problem, np.random.default_rng(1), late_clock(), lambda series: True, 4, 2)
    np.testing.assert_allclose(found, candidates_of(problem, 4)[0]), "as many candidates as starts"


def test_a_series_that_is_not_safe_is_not_the_answer():
    problem = small_problem()
    order = candidates_of(problem, 5)

    def like(series, y):
        one, other = (np.column_stack((s.A, s.B)).ravel() for s in (series, problem.series(y)))
        return one @ other > (1 - 1e-9) * np.linalg.norm(one) * np.linalg.norm(other)

    def search(safe):
        return optimise_series(problem, np.random.default_rng(1), late_clock(), safe, 2, 5)

    np.testing.assert_allclose(search(lambda series: not like(series, order[0])), order[1])
    with pytest.raises(InputError, match="no safe motion was found around the start pose"):
        search(lambda series: False)


def test_a_search_with_time_improves_on_its_start():
    problem = small_problem()
    late, early = (
        optimise_series(problem, np.random.default_rng(1), clock, lambda series: True, 2, 5, iterations=15)
        for clock in (late_clock(), Clock(10.0))
    )
    assert problem.model.value(problem.W(early)) < 0.8 * problem.model.value(problem.W(late))
    assert problem.penalty.limits(*problem.series(early).evaluate(np.linspace(0.0, 5.0, 500)))[0] < 0.2


@pytest.mark.parametrize("criterion", ["cond", "normalised", "logdet"])
def test_the_value_of_a_criterion(criterion):
    W = np.array([[3.0, 0.1], [0.2, -0.5], [1.0, 2.0]])
    wanted = {
        "cond": np.linalg.cond(W),
        "normalised": np.linalg.cond(W / np.linalg.norm(W, axis=0)),
        "logdet": -0.25 * np.linalg.slogdet(W.T @ W)[1],
    }
    model = replace(small_problem().model, criterion=criterion)
    assert model.value(W) == pytest.approx(wanted[criterion])
    smooth = model.smooth(W, 500.0)[0]
    assert smooth == pytest.approx(wanted[criterion] if criterion == "logdet" else np.log(wanted[criterion]), abs=0.01)


# --- what a search of points is asked for


def energy_model(**weights):
    base = base_parameters(ROBOT, source="energy", groups=["inertial"])
    return base, EnergyModel(ROBOT, tuple(base.columns(ROBOT)), **weights)


def segment_problem(r=16):
    _, model = energy_model()
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, np.ones(3, dtype=bool), np.zeros((r + 1, 3)))
    return point_search.SegmentProblem(model, s, Penalty(ROBOT, BOUNDS, chi=CHI), MIDDLE, MIDDLE)


def test_a_longer_search_of_points_and_times_finds_a_better_trajectory():
    full = segment_problem()
    costs = []
    for clock in (late_clock(), Clock(10.0)):
        curve, q, dq = point_search.optimise_trajectory(full, np.random.default_rng(2), clock, 2, iterations=10)
        costs.append(full.model.cost(q, dq))
        assert not planning.problems_of(ROBOT, curve, full.penalty, None), "within every limit, torques too"
    assert costs[1] < costs[0]


def test_times_between_points_have_their_ends():
    problem = segment_problem()
    x = np.zeros(problem.substitution.size + 18)
    for value, seconds in ((0.0, 1.05), (1.0, 0.05 + np.e), (9.0, 0.05 + np.exp(5.0)), (-9.0, 0.05 + np.exp(-5.0))):
        x[-18:] = value
        np.testing.assert_allclose(problem.states(x)[2], seconds)
    assert point_search.TIME_WEIGHT == 1e-3
    x[-18:] = 0.0
    longer = x.copy()
    longer[-18:] = 1.0
    free = replace(problem, penalty=replace(problem.penalty, chi=None))
    rise = free.cost(longer, 4.0, 0.0)[0] - free.cost(x, 4.0, 0.0)[0]
    assert rise == pytest.approx(1e-3 * 18 * (np.e - 1.0), rel=1e-6), "a longer motion costs a little"


def test_variables_and_points_of_joints_with_limits_of_their_own():
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, np.array([False, True, True]), np.full((4, 3), 0.7))
    x = np.zeros((4, 5))
    q, dq = s.points(x.ravel())
    np.testing.assert_allclose(q, np.tile([0.7, -2.0, 0.2], (4, 1)))
    assert not dq.any()
    q, dq = s.points((x + np.pi / 2).ravel())
    np.testing.assert_allclose(q, np.tile([0.7, -0.5, 1.2], (4, 1)))
    np.testing.assert_allclose(dq, np.tile(BOUNDS.velocity, (4, 1)))
    q, dq = s.points((x - np.pi / 4).ravel())
    np.testing.assert_allclose(q, np.tile([0.7, -1.25, 0.7], (4, 1)))
    np.testing.assert_allclose(dq, np.tile(-BOUNDS.velocity * np.sqrt(0.5), (4, 1)))
    beyond = s.points(s.variables(q + np.array([0.0, 9.0, -9.0]), 9.0 * dq))
    np.testing.assert_allclose(beyond, [np.tile([0.7, -0.5, 0.2], (4, 1)), np.tile(-BOUNDS.velocity, (4, 1))])
    rng = np.random.default_rng(0)
    x, D, gq, gdq = rng.normal(size=20), rng.normal(size=20), *rng.normal(size=(2, 4, 3))
    ahead, behind = (s.points(x + side * 1e-6 * D) for side in (1, -1))
    slope = sum(np.sum(g * (a - b)) / 2e-6 for g, a, b in zip((gq, gdq), ahead, behind, strict=True))
    assert s.back(x, gq, gdq) @ D == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("lambdas", [(1.0, 0.06), (2.0, 0.0), (0.5, 3.0)])
def test_the_cost_of_points_is_both_its_parts(lambdas):
    _, model = energy_model(lambda1=lambdas[0], lambda2=lambdas[1])
    q, dq, D, E = np.random.default_rng(3).normal(size=(4, 21, 3))
    W = np.diff(model.W(q, dq).cumsum(axis=0), axis=0, prepend=0.0)
    S = np.abs(W).max() / np.abs(W).min()
    assert model.cost(q, dq) == pytest.approx(lambdas[0] * np.linalg.cond(W) + lambdas[1] * S)
    sigma = np.linalg.svd(W, compute_uv=False)
    assert model.cost(q, dq, "frobenius") == pytest.approx(
        lambdas[0] * np.sqrt(np.sum(sigma**4) * np.sum(sigma**-4)) + lambdas[1] * S
    )
    value, gq, gdq = model.log_cost(q, dq, 400.0)
    assert value == pytest.approx(np.log(model.cost(q, dq)), abs=0.1)
    value, gq, gdq = model.log_cost(q, dq, 6.0)
    ahead, behind = (model.log_cost(q + side * 1e-6 * D, dq + side * 1e-6 * E, 6.0)[0] for side in (1, -1))
    assert np.sum(gq * D) + np.sum(gdq * E) == pytest.approx((ahead - behind) / 2e-6, rel=1e-4)


def test_points_are_the_best_of_their_starts_and_better_with_time():
    _, model = energy_model(lambda2=0.0)
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, np.ones(3, dtype=bool), np.zeros((17, 3)))
    rng = np.random.default_rng(4)
    starts = [s.points(rng.standard_normal(s.size)) for _ in range(4)]
    late = points.optimise_points(model, s, np.random.default_rng(4), late_clock(), starts=4)
    np.testing.assert_allclose(late, min(starts, key=lambda point: model.cost(*point)))
    early = points.optimise_points(model, s, np.random.default_rng(4), Clock(10.0), starts=4, iterations=30)
    assert model.cost(*early) < 0.5 * model.cost(*late)
    for wish in ({"optimiser": "magic"}, {"measure": "size"}):
        with pytest.raises(InputError, match="unknown"):
            points.optimise_points(model, s, rng, Clock(10.0), **wish)


# --- pictures


def planned():
    c = (rest_basis(3) @ np.random.default_rng(0).normal(size=(5, 3))).T
    curve = FourierSeries(4.0, 0.1 * c[:, 0] + MIDDLE, 0.1 * c[:, 1:4], 0.1 * c[:, 4:])
    base = base_parameters(ROBOT)
    columns = list(base.columns(ROBOT))
    W = regressor(ROBOT, *curve.evaluate(np.linspace(0, 4.0, 50)))[:, :, columns].reshape(-1, len(columns))
    return SimpleNamespace(trajectory=Trajectory(ROBOT.active_names, curve), base=base, W=W, bounds=BOUNDS,
                           duration=4.0, cond=3.0)  # fmt: skip


def test_predicted_deviations_are_those_of_least_squares():
    plan = planned()
    values = plan.base.values(ROBOT, CHI)
    wanted = 0.3 * np.sqrt(np.diag(np.linalg.inv(plan.W.T @ plan.W)))
    std, percent = figures.predicted_std(ROBOT, plan, 0.3)
    np.testing.assert_allclose(std, wanted, rtol=1e-6)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(percent, 100.0 * wanted / np.abs(values), rtol=1e-6)
    np.testing.assert_allclose(figures.predicted_std(ROBOT, plan, 0.3, -2.0 * CHI)[1], percent / 2.0)
    for noise in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="torque noise"):
            figures.predicted_std(ROBOT, plan, noise)


def test_a_picture_of_a_motion_has_each_joint_against_its_own_limits():
    plan = planned()
    turned = plan.trajectory.ordered(ROBOT.active_names[::-1])
    for move, index in ((plan.trajectory, [0, 1, 2]), (turned, [2, 1, 0])):
        plan.trajectory = move
        axes = figures.motion_figure(plan).axes
        s = move.sample(250.0)
        half = 0.5 * (BOUNDS.upper - BOUNDS.lower)
        wanted = (
            (s.q - MIDDLE[index]) / half[index],
            s.dq / BOUNDS.velocity[index],
            s.ddq / BOUNDS.acceleration[index],
        )
        for axis, values in zip(axes, wanted, strict=True):
            lines = axis.get_lines()
            assert [line.get_label() for line in lines[:3]] == list(move.joint_names)
            for k, line in enumerate(lines[:3]):
                np.testing.assert_allclose(line.get_xdata(), s.t)
                np.testing.assert_allclose(line.get_ydata(), values[:, k], atol=1e-12)
            assert [line.get_ydata()[0] for line in lines[3:]] == [-1.0, 1.0]
            assert axis.get_ylim() == (-1.15, 1.15)
        assert len({line.get_color() for line in axes[0].get_lines()[:3]}) == 3
    plan.duration = 100.0
    assert len(figures.motion_figure(plan).axes[0].get_lines()[0].get_xdata()) == 201, "50 times a second at least"


def test_a_picture_of_singular_values_has_both_scalings():
    plan = planned()
    plan.W = np.column_stack((plan.W, np.zeros(len(plan.W))))
    (axis,) = figures.plan_singular_figure(plan).axes
    norms = np.linalg.norm(plan.W, axis=0)
    for line, W in zip(axis.get_lines(), (plan.W, plan.W / np.where(norms > 0, norms, 1.0)), strict=True):
        sigma = np.linalg.svd(W, compute_uv=False)
        np.testing.assert_allclose(line.get_ydata(), sigma / sigma[0], atol=1e-12)
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(sigma) + 1))


@pytest.mark.parametrize("known", [True, False])
def test_a_picture_of_parameters_has_the_worst_last(known):
    plan = planned()
    robot = ROBOT if known else replace(ROBOT, parameters={})
    (axis,) = figures.parameter_figure(robot, plan, 0.5).axes
    std, percent = figures.predicted_std(robot, plan, 0.5)
    values = np.where(np.isfinite(percent), percent, np.nan) if known else std
    names = [text.get_text() for text in axis.get_yticklabels()]
    widths = np.array([bar.get_width() for bar in axis.patches])
    shown = dict(zip(names, widths, strict=True))
    for name, value in zip(plan.base.names, values, strict=True):
        np.testing.assert_allclose(shown[name], value)
    finite = widths[np.isfinite(widths)]
    assert np.all(np.diff(finite) >= 0) and np.all(np.isfinite(widths[-len(finite) :]))
    red = {name for name, bar in zip(names, axis.patches, strict=True) if bar.get_facecolor()[0] > 0.5}
    assert red == {name for name, value in zip(plan.base.names, values, strict=True) if known and value > 10.0}
    assert ("a priori" in axis.get_xlabel()) == known and axis.get_xscale() == "log"
