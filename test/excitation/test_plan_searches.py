"""Searches of plans: what each stage is asked for, which answer is kept, and what a plan tells of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from excitation_robots import uneven
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import plan as planning
from ros2_dynid.excitation import plan_figures as figures
from ros2_dynid.excitation import point_trajectory as point_search
from ros2_dynid.excitation.fourier import FourierSeries, rest_basis
from ros2_dynid.excitation.fourier_trajectory import FourierProblem, TorqueModel
from ros2_dynid.excitation.limits import Caps, bounds_of, use_of
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import DEFAULT_BUDGET_S, PlanOptions
from ros2_dynid.excitation.points import EnergyModel, Substitution
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.parameters import standard_vector

ROBOT = uneven()
BOUNDS = bounds_of(ROBOT, 0.0)
MIDDLE = np.array([0.5, -1.25, 0.7])
CHI = standard_vector(ROBOT)
MOVE = through_points(np.array([0.0, 6.0]), np.array([MIDDLE, MIDDLE + np.array([0.5, 0.3, -0.2])]), np.zeros((2, 3)))


@pytest.fixture
def asked(monkeypatch):
    """Let a plan be made of a given curve and W, and keep what the search was asked for."""
    seen = []

    def put(curve=MOVE, W=None, structural=None):
        W = np.vstack((np.eye(3), 2.0 * np.eye(3), np.full((1, 3), 0.25))) if W is None else W

        def make(robot, options, base, penalty, start, clock):
            seen.append(SimpleNamespace(options=options, base=base, penalty=penalty, start=start, clock=clock))
            return curve, W, structural

        monkeypatch.setattr(planning, "_fourier_curve", make)
        monkeypatch.setattr(planning, "_points_curve", make)
        return seen

    return put


# --- a plan


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
def test_the_time_budget_of_a_search(asked, wish, budget):
    seen = asked()
    planning.plan(ROBOT, PlanOptions(**wish))
    assert seen[0].clock.budget_s == pytest.approx(budget)
    assert DEFAULT_BUDGET_S == {"points": 12.0, "cond": 8.0, "normalised": 45.0, "logdet": 8.0}  # as documented


def test_a_plan_says_what_its_motion_is_worth(asked):
    W = np.array([[3.0, 0.0], [0.0, -0.5], [1.0, 2.0]])
    mask = np.array([[True, False], [False, True], [True, True]])
    seen = asked(W=W, structural=mask)
    caps = Caps(velocity=0.9)
    found = planning.plan(ROBOT, PlanOptions(margin=0.1, caps=caps, rate_hz=20.0))
    assert found.trajectory.curve is MOVE and found.trajectory.rate_hz == 20.0
    assert found.trajectory.joint_names == ROBOT.active_names and found.method == found.trajectory.kind == "fourier"
    assert found.cond == pytest.approx(np.linalg.cond(W)) and pytest.approx(6.0) == found.S
    assert found.cond_normalised == pytest.approx(np.linalg.cond(W / np.sqrt([10.0, 4.25])))
    assert found.use == use_of(ROBOT, MOVE, bounds_of(ROBOT, 0.0, caps), CHI) and "effort" in found.use
    assert found.rows == 3 and found.W is W and found.clearance_m is None and found.duration == 6.0
    assert 0.0 <= found.seconds < 60.0
    np.testing.assert_array_equal(found.bounds.velocity, bounds_of(ROBOT, 0.1, caps).velocity)
    (ask,) = seen
    assert ask.penalty.tight == 0.99 and ask.penalty.bounds is found.bounds and ask.penalty.shapes is None
    np.testing.assert_array_equal(ask.penalty.chi, CHI)
    assert len(found.base) == len(base_parameters(ROBOT, source="torque")) == len(ask.base)
    assert not [note for note in found.notes if "not predicted" in str(note)]


def test_points_are_planned_on_energies_and_start_at_zero_where_they_can(asked):
    seen = asked()
    found = planning.plan(ROBOT, PlanOptions(method="points", groups=["inertial"], margin=0.0))
    assert len(found.base) == len(base_parameters(ROBOT, source="energy", groups=["inertial"]))
    assert found.method == found.trajectory.kind == "points"
    np.testing.assert_allclose(seen[0].start, [0.0, -1.25, 0.7])
    planning.plan(ROBOT, PlanOptions(groups=["inertial"], margin=0.0))
    np.testing.assert_allclose(seen[1].start, MIDDLE)


def test_torques_are_predicted_where_parameters_and_limits_are_known(asked):
    seen = asked()
    given = planning.plan(ROBOT, PlanOptions(chi=1.1 * CHI))
    np.testing.assert_array_equal(seen[0].penalty.chi, 1.1 * CHI)
    assert given.use["effort"] != planning.plan(ROBOT).use["effort"]
    bare = planning.plan(replace(ROBOT, parameters={}))
    assert seen[-1].penalty.chi is None
    assert [str(note) for note in bare.notes if "not predicted" in str(note)]
    strong = replace(ROBOT, joints=tuple(replace(j, limits=replace(j.limits, effort=np.inf)) for j in ROBOT.joints))
    free = planning.plan(strong)
    assert seen[-1].penalty.chi is None and not [note for note in free.notes if "not predicted" in str(note)]
    for known in range(3):  # the limit of one joint is enough to look at torques
        joints = [a if k == known else b for k, (a, b) in enumerate(zip(ROBOT.joints, strong.joints, strict=True))]
        planning.plan(replace(ROBOT, joints=tuple(joints)))
        np.testing.assert_array_equal(seen[-1].penalty.chi, CHI)


def test_a_plan_that_is_not_safe_or_shows_nothing_is_not_given(asked):
    asked(curve=through_points(np.array([0.0, 6.0]), np.array([MIDDLE, MIDDLE + 2.0]), np.zeros((2, 3))))
    with pytest.raises(InputError, match="no safe trajectory was found: "):
        planning.plan(ROBOT)
    for angle, shown in ((2.1e-7, True), (1.5e-7, False), (0.0, False)):  # cond = 2 / angle
        asked(W=np.array([[1.0, np.cos(angle)], [0.0, np.sin(angle)], [0.0, 0.0]]))
        if shown:
            assert planning.plan(ROBOT).cond_normalised == pytest.approx(2.0 / angle, rel=1e-3)
        else:
            with pytest.raises(InputError, match="does not excite the base parameters"):
                planning.plan(ROBOT)


def test_a_plan_with_shapes_says_how_close_it_comes(asked, monkeypatch):
    seen = asked()
    rates = []

    def clearance(robot, shapes, q):
        rates.append(len(q))
        return 0.3 - 0.1 * float(np.max(q[:, 0])), "hand and table"

    for module in (planning, __import__("ros2_dynid.excitation.pose", fromlist=["pose"])):
        monkeypatch.setattr(module, "clearance", clearance)
    shapes = SimpleNamespace(margin=0.05, notes=("a shape could not be read",))
    found = planning.plan(ROBOT, PlanOptions(shapes=shapes, margin=0.0))
    assert found.clearance_m == pytest.approx(0.2) and "a shape could not be read" in found.notes
    assert rates[-1] == 601 and rates[-2] == 602, "100 times a second"
    assert seen[0].penalty.shapes is shapes, "the search keeps away from them"


# --- what a search of series is asked for


# --- which series is kept


def small_problem(criterion="cond"):
    base = base_parameters(ROBOT, groups=["inertial"])
    model = TorqueModel(ROBOT, tuple(base.columns(ROBOT)), np.ones(3), criterion)
    return FourierProblem(model, Penalty(ROBOT, BOUNDS, tight=0.9), 5.0, 3, MIDDLE, np.array([0.3, 0.2, 0.1]))


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
