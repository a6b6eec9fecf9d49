# SPDX-License-Identifier: Apache-2.0

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


@pytest.fixture
def asked(monkeypatch):
    """Let a plan be made of a given curve and W, and keep what the search was asked for."""
    seen = []

    def put(curve=MOVE, W=None, structural=None):
        W = np.vstack((np.eye(3), 2.0 * np.eye(3), np.full((1, 3), 0.25))) if W is None else W

        def make(robot, options, base, penalty, start, clock):
            seen.append(SimpleNamespace(options=options, base=base, penalty=penalty, start=start, clock=clock))
            return curve, W, structural

        monkeypatch.setattr(planning, "search_fourier_curve", make)
        monkeypatch.setattr(planning, "search_points_curve", make)
        return seen

    return put


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


def test_a_plan_tells_all_that_is_worth_knowing(asked, monkeypatch):
    asked()
    monkeypatch.setattr(planning, "gripper_notes", lambda robot: [f"a gripper of {robot.name}"])
    assert planning.plan(ROBOT).notes == (f"a gripper of {ROBOT.name}",)
    joints = [replace(j, limits=replace(j.limits, acceleration=np.inf)) for j in ROBOT.joints[:2]]
    robot = replace(ROBOT, joints=(*joints, ROBOT.joints[2]), parameters={})
    unknown, gripper, torques = planning.plan(robot).notes
    names = ", ".join(ROBOT.active_names[:2])
    assert str(unknown).startswith(f"no acceleration limit known for {names}: reaching full speed takes 0.5 s")
    assert gripper == f"a gripper of {ROBOT.name}" and str(torques).startswith("torques are not predicted")
    assert planning.plan(robot, PlanOptions(caps=Caps(acceleration=3.0))).notes == (gripper, torques)


# --- what a search of series is asked for


@pytest.mark.parametrize(
    ("T", "fixed", "weights"), [(60.0, False, None), (6.0, True, (1.0, 2.0, 3.0)), (3.0, False, None)]
)
def test_series_begin_as_wide_as_every_limit_of_every_joint_allows(monkeypatch, T, fixed, weights):
    seen = []

    def optimise(problem, rng, clock, safe, starts):
        seen.append((problem, rng, clock, safe, starts))
        return 0.05 * np.ones(problem.shape).ravel()

    monkeypatch.setattr(planning, "optimise_series", optimise)
    base = base_parameters(ROBOT, groups=["inertial"])
    penalty = Penalty(ROBOT, BOUNDS, tight=0.99)
    clock = TimeBudget(8.0)
    start = np.array([1.5, -1.25, 1.2])  # the last joint at its limit: half of its range instead
    wish = PlanOptions(
        groups=["inertial"], duration_s=T, harmonics=4, periods=3, seed=5, weights=weights,
        start=start.tolist() if fixed else None,
    )  # fmt: skip
    curve, W, mask = planning.search_fourier_curve(ROBOT, wish, base, penalty, start, clock)
    ((problem, rng, same, safe, starts),) = seen
    w = 2 * np.pi / T * 2.5
    reach = np.array([0.5, 0.75, 0.5])
    np.testing.assert_allclose(problem.scale, np.min([reach, BOUNDS.velocity / w, BOUNDS.acceleration / w**2], axis=0))
    assert (problem.period, problem.L, problem.fixed_start) == (T, 4, fixed) and same is clock and starts == 3
    np.testing.assert_array_equal(problem.middle, start)
    np.testing.assert_array_equal(problem.model.weights, np.ones(3) if weights is None else weights)
    assert problem.model.criterion == "cond" and problem.penalty is penalty
    assert rng.random() == np.random.default_rng(5).random()
    assert curve.periods == 3 and curve.period == T
    t = np.arange(500) * T / 500
    x = curve.evaluate(t)
    Y = regressor(ROBOT, *x)[:, :, list(base.columns(ROBOT))] * np.asarray(problem.model.weights)[:, None]
    np.testing.assert_allclose(W, Y.reshape(-1, Y.shape[2]), atol=1e-10)
    never = np.abs(Y).max(axis=0) <= 1e-12 * np.abs(Y).max()
    np.testing.assert_array_equal(mask, np.tile(~never, (500, 1)))
    assert never.any() and not never.all()
    assert safe(problem.series(np.zeros(problem.shape))) and not safe(problem.series(9.0 * np.ones(problem.shape)))


@pytest.mark.parametrize(("friction", "finer"), [((), 1), ((FrictionTerm(1, FrictionKind.CUBIC, 1.0),), 3)])
def test_samples_of_a_period(friction, finer):
    problem = small_problem()
    problem = replace(problem, model=replace(problem.model, terms=friction))
    y = np.random.default_rng(0).normal(size=problem.shape)
    for matrices, count in ((problem._coarse, 16 * 3 * finer), (problem._fine, 4 * 16 * 3 * finer)):
        found = problem._samples(y, matrices)
        t = 5.0 * np.arange(count) / count
        for mine, theirs in zip(found, problem.series(y).evaluate(t), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)
    assert (problem.series(y).periods, problem.series(y, 3).periods, problem.series(y, 3).duration) == (1, 3, 15.0)
    assert problem.model.size == len(problem.model.columns) + len(friction)
    W = problem.W(y)
    assert W.shape == (3 * 16 * 3 * finer, problem.model.size)
    if friction:
        dq = problem.series(y).evaluate(5.0 * np.arange(144) / 144)[1]
        np.testing.assert_allclose(W[0::3, -1], dq[:, 0] ** 3, atol=1e-12)
        assert not W[1::3, -1].any() and not W[2::3, -1].any()


def test_signs_are_soft_within_a_share_of_the_speed_limits(monkeypatch):
    seen = []
    real = fourier_search.regressor_with_gradient

    def watched(robot, q, dq, ddq, softness):
        seen.append(softness)
        return real(robot, q, dq, ddq, softness)

    monkeypatch.setattr(fourier_search, "regressor_with_gradient", watched)
    problem = small_problem()
    y = np.random.default_rng(0).normal(size=problem.shape).ravel()
    problem.cost(y, 4.0, 1.0)
    np.testing.assert_allclose(seen[0], 0.08 * BOUNDS.velocity)
    free = replace(problem.penalty, bounds=replace(BOUNDS, velocity=np.array([3.0, np.inf, 2.0])))
    replace(problem, penalty=free).cost(y, 4.0, 1.0)
    np.testing.assert_allclose(seen[1], [0.24, 0.08, 0.16])


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


def searched(monkeypatch, *, best=None, late=None, safe=lambda series: True, starts=2, candidates=5):
    """Run the search with descents that do not move, but for one; return what was asked and the answer."""
    problem = small_problem()
    calls = []
    clock = Clock(10.0, lambda text, share: calls.append(("report", text)))

    def descend(cost, y, clock, iterations, until):
        calls.append((until, iterations, cost(y)[0], y))
        if late is not None and len([c for c in calls if c[0] != "report"]) >= late:
            clock.now = 9.0
        if best is not None and len([c for c in calls if c[0] != "report"]) == best:
            return 1.05 * y
        return y

    monkeypatch.setattr(fourier_search, "descend", descend)
    found = optimise_series(problem, np.random.default_rng(1), clock, safe, starts, candidates)
    return problem, [call for call in calls if call[0] != "report"], found


def candidates_of(problem, count):
    rng = np.random.default_rng(1)
    every = []
    for _ in range(count):
        y = rng.standard_normal(problem.shape).ravel()
        every.append(y * fourier_search.linear_factor(problem, y))
    return sorted(every, key=lambda y: problem.model.value(problem.W(y)))


def test_the_best_random_series_are_improved_stage_by_stage(monkeypatch):
    problem, calls, found = searched(monkeypatch)
    order = candidates_of(problem, 5)
    np.testing.assert_allclose(found, order[0])
    stages = ((4.0, 0.1), (8.0, 1.0), (16.0, 10.0), (32.0, 100.0), (64.0, 1000.0))
    assert stages == fourier_search.STAGES
    assert [call[0] for call in calls[:2]] == pytest.approx([0.275, 0.45])
    assert [call[0] for call in calls[2:6]] == pytest.approx([0.575, 0.7, 0.825, 0.95])
    assert [call[0] for call in calls[6:]] == [0.95] * 4 and {call[1] for call in calls} == {80}
    for k in range(2):
        np.testing.assert_allclose(calls[k][3], order[k])
        assert calls[k][2] == pytest.approx(problem.cost(order[k], 4.0, 0.1)[0])
    ranked = sorted(order[:2], key=lambda y: problem.cost(y, 4.0, 1.0)[0])
    for rank in range(2):
        for k, (p, weight) in enumerate(stages[1:]):
            _, _, cost, y = calls[2 + 4 * rank + k]
            np.testing.assert_allclose(y, ranked[rank])
            assert cost == pytest.approx(problem.cost(y, p, weight)[0])


@pytest.mark.parametrize("late", [1, 3, 6])
def test_other_starts_are_left_when_time_is_short(monkeypatch, late):
    _, calls, _ = searched(monkeypatch, late=late)
    assert len(calls) == 6


def test_as_many_candidates_as_starts(monkeypatch):
    problem, calls, _ = searched(monkeypatch, starts=4, candidates=2)
    for call, y in zip(calls, candidates_of(problem, 4), strict=False):
        np.testing.assert_allclose(call[3], y)


def test_a_series_that_is_not_safe_is_not_the_first_answer(monkeypatch):
    problem = small_problem()
    order = candidates_of(problem, 5)

    def like(series, y):
        one, other = (np.column_stack((s.A, s.B)).ravel() for s in (series, problem.series(y)))
        return one @ other > (1 - 1e-9) * np.linalg.norm(one) * np.linalg.norm(other)

    _, _, found = searched(monkeypatch, safe=lambda series: not like(series, order[0]))
    np.testing.assert_allclose(found, order[1])
    with pytest.raises(InputError, match="no safe motion was found around the start pose"):
        searched(monkeypatch, safe=lambda series: False)


def test_a_better_series_takes_the_place_of_the_best(monkeypatch):
    problem = small_problem()
    order = candidates_of(problem, 5)
    moved = []

    def descend(cost, y, clock, iterations, until):
        if until == 0.95 and not moved:
            moved.append(1)
            return 0.5 * order[0] + 0.0 * y
        return y

    monkeypatch.setattr(fourier_search, "descend", descend)
    values = {}

    def value(self, W):
        return values.get(round(float(np.abs(W).sum()), 9), 7.0)

    values[round(float(np.abs(problem.W(0.5 * order[0])).sum()), 9)] = 5.0
    monkeypatch.setattr(TorqueModel, "value", value)
    found = optimise_series(problem, np.random.default_rng(1), Clock(10.0), lambda series: True, 2, 5)
    np.testing.assert_allclose(found, 0.5 * order[0])


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


@pytest.mark.parametrize("rows", [None, 20])
def test_points_have_the_limits_of_their_joints(monkeypatch, rows):
    seen = []

    def optimise(problem, rng, clock, starts):
        seen.append((problem, rng, starts))
        q, dq = np.random.default_rng(0).normal(size=(2, len(problem.substitution.fixed), 3))
        return MOVE, q, dq

    monkeypatch.setattr(planning, "optimise_trajectory", optimise)
    base, _ = energy_model()
    wish = PlanOptions(method="points", groups=["inertial"], rows=rows, seed=3, equilibrium_weight=0.2)
    curve, W, structural = planning.search_points_curve(
        ROBOT, wish, base, Penalty(ROBOT, BOUNDS), MIDDLE, TimeBudget(12.0)
    )
    ((problem, rng, starts),) = seen
    r = 2 * len(base) if rows is None else rows
    s = problem.substitution
    assert s.fixed.shape == (r + 1, 3) and not s.fixed.any() and s.free.all() and starts == 2
    for mine, theirs in ((s.lower, BOUNDS.lower), (s.upper, BOUNDS.upper), (s.velocity, BOUNDS.velocity)):
        np.testing.assert_array_equal(mine, theirs)
    assert (problem.model.lambda1, problem.model.lambda2) == (1.0, 0.2)
    np.testing.assert_array_equal([problem.start, problem.end], [MIDDLE, MIDDLE])
    assert rng.random() == np.random.default_rng(3).random()
    q, dq = np.random.default_rng(0).normal(size=(2, r + 1, 3))
    np.testing.assert_allclose(W, problem.model.W(q, dq))
    assert curve is MOVE and structural is None
    least = replace(wish, rows=len(base))
    assert len(
        planning.search_points_curve(ROBOT, least, base, Penalty(ROBOT, BOUNDS), MIDDLE, TimeBudget(9.0))[1]
    ) == len(base)
    with pytest.raises(InputError, match="rows for"):
        planning.search_points_curve(
            ROBOT, replace(wish, rows=len(base) - 1), base, Penalty(ROBOT, BOUNDS), MIDDLE, TimeBudget(9.0)
        )


def segment_problem(r=16):
    _, model = energy_model()
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, np.ones(3, dtype=bool), np.zeros((r + 1, 3)))
    return point_search.SegmentProblem(model, s, Penalty(ROBOT, BOUNDS, chi=CHI), MIDDLE, MIDDLE)


@pytest.mark.parametrize(
    ("answers", "tries", "chosen"),
    [
        ([("kept", 5.0)], 1, 0),
        ([("slowed", 5.0), ("kept", 4.0)], 2, 1),
        ([("slowed", 4.0), ("kept", 5.0)], 2, 0),
        ([("none", 1.0), ("slowed", 5.0), ("none", 1.0), ("slowed", 3.0), ("slowed", 4.0)], 5, 3),
        ([("none", 1.0)] * 5, 5, None),
    ],
)
def test_the_seeds_procedure_tightens_limits_until_points_can_be_joined(monkeypatch, answers, tries, chosen):
    problem = segment_problem()
    seen = []

    def optimise_points(model, substitution, rng, part, *, optimiser, measure):
        seen.append((substitution, part.budget_s, optimiser, measure))
        return np.full((17, 3), float(len(seen))), np.zeros((17, 3))

    def interpolate(full, q, dq):
        how, cost = answers[len(seen) - 1]
        return (None if how == "none" else len(seen) - 1), np.full((17, 3), cost), dq, how != "kept"

    monkeypatch.setattr(planning, "optimise_points", optimise_points)
    monkeypatch.setattr(planning, "interpolate_points", interpolate)
    monkeypatch.setattr(EnergyModel, "cost", lambda self, q, dq: float(q[0, 0]))
    wish = PlanOptions(method="points", optimiser="powell", measure="qr")
    run = lambda: planning.search_points_of_seed(problem, wish, np.random.default_rng(0), Clock(10.0))  # noqa: E731
    if chosen is None:
        with pytest.raises(InputError, match="cannot be joined within the limits"):
            run()
    else:
        curve, q, _ = run()
        assert curve == chosen and q[0, 0] == answers[chosen][1]
    assert len(seen) == tries
    for (s, budget, optimiser, measure), tight in zip(seen, (1.0, 0.9, 0.8, 0.65, 0.5), strict=False):
        half = 0.5 * tight * (BOUNDS.upper - BOUNDS.lower)
        np.testing.assert_allclose(s.lower, MIDDLE - half)
        np.testing.assert_allclose(s.upper, MIDDLE + half)
        np.testing.assert_allclose(s.velocity, tight * BOUNDS.velocity)
        assert s.free.tolist() == [False, True, True] and (budget, optimiser, measure) == (2.0, "powell", "qr")
        assert np.all(np.abs(s.fixed - MIDDLE) <= half) and np.ptp(s.fixed, axis=0).min() > 0.5 * half.min()


@pytest.mark.parametrize(("pace", "tries"), [(1.9, 5), (2.5, 4), (3.0, 2), (4.0, 1)])
def test_the_seeds_procedure_ends_where_another_try_would_not_end_in_time(monkeypatch, pace, tries):
    seen = []
    clock = Clock(10.0)

    def optimise_points(model, substitution, rng, part, **_):
        seen.append(1)
        clock.now = pace * len(seen)
        return np.zeros((17, 3)), np.zeros((17, 3))

    monkeypatch.setattr(planning, "optimise_points", optimise_points)
    monkeypatch.setattr(planning, "interpolate_points", lambda problem, q, dq: (MOVE, q, dq, True))
    monkeypatch.setattr(EnergyModel, "cost", lambda self, q, dq: 1.0)
    planning.search_points_of_seed(segment_problem(), PlanOptions(), np.random.default_rng(0), clock)
    assert len(seen) == tries


@pytest.mark.parametrize(
    ("answers", "attempts", "chosen"),
    [
        ([("kept", 5.0)], 1, 0),
        ([("slowed", 5.0), ("kept", 4.0)], 2, 1),
        ([("slowed", 4.0), ("kept", 5.0)], 2, 0),
        ([("none", 1.0), ("slowed", 5.0), ("slowed", 3.0), ("none", 1.0)], 4, 2),
        ([("none", 1.0)] * 4, 4, None),
    ],
)
def test_points_and_times_are_improved_stage_by_stage(monkeypatch, answers, attempts, chosen):
    full = segment_problem()
    calls, joined = [], []

    def descend(cost, x, clock, iterations, until):
        problem = cost.func.__self__ if hasattr(cost, "func") else None
        stage = None if problem is None else (problem.penalty.tight, problem.penalty.chi is None, cost.keywords)
        calls.append((iterations, until, stage, x.copy(), cost(x)[0]))
        return x

    def interpolated(problem, x):
        assert problem is full
        how, cost = answers[len(joined)]
        joined.append(x)
        return (None if how == "none" else len(joined) - 1), np.full((17, 3), cost), np.zeros((17, 3)), how != "kept"

    monkeypatch.setattr(point_search, "descend", descend)
    monkeypatch.setattr(point_search, "shortest_curve", interpolated)
    monkeypatch.setattr(EnergyModel, "cost", lambda self, q, dq: float(q[0, 0]))
    run = lambda: point_search.optimise_trajectory(full, np.random.default_rng(2), Clock(10.0), 3)  # noqa: E731
    if chosen is None:
        with pytest.raises(InputError, match="no trajectory through optimum points"):
            run()
    else:
        curve, q, _ = run()
        assert curve == chosen and q[0, 0] == answers[chosen][1]
    assert [call[:2] for call in calls[:3]] == [(60, pytest.approx(share)) for share in (0.1, 0.2, 0.3)]
    free = replace(full, penalty=replace(full.penalty, chi=None))
    for call in calls[:3]:
        assert call[4] == pytest.approx(free.cost(call[3], 4.0, 1.0)[0])
    first = min((call[3] for call in calls[:3]), key=lambda x: free.cost(x, 4.0, 1.0)[0])
    np.testing.assert_array_equal(joined[0], first)
    sharp = [(4.0, 1.0), (8.0, 9.0), (16.0, 81.0), (32.0, 729.0), (64.0, 6561.0)]
    assert [p for p, _ in sharp] == list(points.SHARPNESS)
    wanted = [(200, 0.3 + 0.1 * (k + 1), (0.99, True, {"p": p, "weight": w})) for k, (p, w) in enumerate(sharp)]
    for tight in (0.97, 0.94, 0.9)[: attempts - 1]:
        wanted += [(200, 0.95, (tight, False, {"p": p, "weight": w})) for p, w in sharp[-2:]]
    assert [call[:3] for call in calls[3:]] == [(a, pytest.approx(b), c) for a, b, c in wanted]
    assert len(joined) == attempts


def test_no_further_attempt_when_time_is_short(monkeypatch):
    full, clock, joined = segment_problem(), Clock(10.0), []

    def interpolated(problem, x):
        joined.append(x)
        return MOVE, np.ones((17, 3)), np.zeros((17, 3)), True

    monkeypatch.setattr(point_search, "descend", lambda cost, x, clock, iterations, until: x)
    monkeypatch.setattr(point_search, "shortest_curve", interpolated)
    monkeypatch.setattr(EnergyModel, "cost", lambda self, q, dq: 1.0)
    for now, attempts in ((8.4, 4), (8.6, 1)):
        joined.clear()
        clock.now = now
        point_search.optimise_trajectory(full, np.random.default_rng(2), clock, 1)
        assert len(joined) == attempts


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


def test_gradient_search_of_points_keeps_the_best_of_all(monkeypatch):
    _, model = energy_model(lambda2=0.0)
    s = Substitution(BOUNDS.lower, BOUNDS.upper, BOUNDS.velocity, np.ones(3, dtype=bool), np.zeros((17, 3)))
    calls = []

    def descend(cost, x, clock, iterations, until=1.0):
        calls.append((iterations, until, x, cost(x)[0]))
        return x

    monkeypatch.setattr(points, "descend", descend)
    q, dq = points.optimise_points(model, s, np.random.default_rng(4), Clock(10.0), starts=4, iterations=50)
    rng = np.random.default_rng(4)
    starts = [rng.standard_normal(s.size) for _ in range(4)]
    costs = [model.cost(*s.points(x)) for x in starts]
    best = starts[int(np.argmin(costs))]
    np.testing.assert_allclose((q, dq), s.points(best))
    assert [call[:2] for call in calls[:4]] == [(25, pytest.approx(k / 8)) for k in (1, 2, 3, 4)]
    assert [call[:2] for call in calls[4:]] == [(50, 1.0)] * 5
    for call, p in zip(calls[4:], points.SHARPNESS, strict=True):
        np.testing.assert_array_equal(call[2], best)
        assert call[3] == pytest.approx(model.log_cost(q, dq, p)[0])
    for call, x in zip(calls[:4], starts, strict=True):
        np.testing.assert_array_equal(call[2], x)
        assert call[3] == pytest.approx(model.log_cost(*s.points(x), 4.0)[0])
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
