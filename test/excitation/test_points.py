# SPDX-License-Identifier: Apache-2.0

"""Optimum points of Gautier 1992: the substitution, the smaller variable set, the optimisers, whole trajectories."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, three_dof
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.criteria import condition_by, structural_equilibrium
from ros2_dynid.excitation.descent import TimeBudget
from ros2_dynid.excitation.limits import bounds_of, check_trajectory
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.excitation.point_trajectory import SegmentProblem, draw_variables
from ros2_dynid.excitation.points import EnergyModel, Substitution, optimise_points, positions_that_matter
from ros2_dynid.model.robot import Joint, Robot


def model(robot: Robot, **weights: float) -> EnergyModel:
    base = base_parameters(robot, source="energy", groups=["inertial"])
    return EnergyModel(robot, tuple(base.columns(robot)), **weights)


def substitution(r: int, free: tuple[bool, ...] = (False, True, True), velocity: float = 3.0) -> Substitution:
    pi, v = np.full(3, np.pi), np.full(3, velocity)
    return Substitution(-pi, pi, v, np.array(free), np.zeros((r + 1, 3)))


def test_substitution_stays_inside_and_comes_back():
    s = substitution(9)
    assert s.size == 10 * 5  # (r + 1)(2 n - 1), eq. 23b
    x = 10.0 * np.random.default_rng(0).normal(size=s.size)
    q, dq = s.points(x)
    assert np.all(np.abs(q) <= np.pi) and np.all(np.abs(dq) <= 3.0) and np.all(q[:, 0] == 0.0)
    again = s.points(s.variables(q, dq))
    np.testing.assert_allclose(again, (q, dq), atol=1e-9)


def test_first_position_of_a_vertical_axis_does_not_matter():
    assert positions_that_matter(model(three_dof())).tolist() == [False, True, True]
    tilted = three_dof()
    tilted = Robot("tilted", tilted.joints, gravity=np.array([3.0, 0.0, -9.0]))
    assert positions_that_matter(model(tilted)).all()
    hardly = Robot("hardly tilted", tilted.joints, gravity=np.array([1e-5, 0.0, -9.81]))
    assert positions_that_matter(model(hardly)).all()


def test_every_point_is_used_twice():
    m = model(three_dof())
    rng = np.random.default_rng(1)
    q, dq = rng.normal(size=(2, 21, 3))
    W = m.W(q, dq)
    assert W.shape == (20, 15)
    np.testing.assert_allclose(W[:5].sum(axis=0), m.W(q[[0, 5]], dq[[0, 5]])[0], atol=1e-12)


def test_gradient_of_points_and_times_together():
    robot = three_dof(effort=40.0)
    bounds = bounds_of(robot, 0.05)
    problem = SegmentProblem(
        model(robot),
        substitution(16, (True, True, True)),
        Penalty(robot, bounds, chi=np.concatenate([np.random.default_rng(0).normal(size=14) for _ in range(3)])),
        np.zeros(3),
        np.zeros(3),
    )
    rng = np.random.default_rng(2)
    x = draw_variables(problem, rng)
    x[-18:] -= 1.0  # short times: every limit is passed somewhere
    D = rng.normal(size=x.shape)
    slope = problem.cost(x, 8.0, 0.3)[1] @ D
    h = 1e-6
    assert slope == pytest.approx(
        (problem.cost(x + h * D, 8.0, 0.3)[0] - problem.cost(x - h * D, 8.0, 0.3)[0]) / (2 * h), rel=1e-4
    )


@pytest.mark.parametrize("optimiser", ["gradient", "nelder-mead", "quasi-newton", "powell"])
def test_optimisers_improve_and_keep_time(optimiser):
    m = model(three_dof(), lambda2=0.0)
    rng = np.random.default_rng(3)
    s = substitution(20)
    first = condition_by(m.W(*s.points(np.random.default_rng(3).standard_normal(s.size))))
    looks = []

    class Looks(TimeBudget):
        """A budget of looks at the clock, for machines of any speed."""

        @property
        def spent(self):
            looks.append(None)
            return float(len(looks))

    q, dq = optimise_points(m, s, rng, Looks(400.0), optimiser=optimiser, measure="frobenius")
    assert condition_by(m.W(q, dq)) < first
    assert 400 <= len(looks) < 420, "it ends when the time is over"


def test_exact_gradients_beat_the_seeds_table():
    # Table 2: random sequences 954 on average, optimum 11, for r = 30
    m = model(three_dof(), lambda2=0.0)
    q, dq = optimise_points(m, substitution(30), np.random.default_rng(0), TimeBudget(60.0), starts=1, iterations=60)
    assert condition_by(m.W(q, dq)) < 5.5


@pytest.mark.parametrize("rows", [15, 30])
def test_trajectory_through_points_is_safe(rows):
    robot = three_dof(2.0)
    found = plan(robot, PlanOptions(method="points", rows=rows, groups=["inertial"], seed=1, **FEW_STEPS))
    assert found.rows == rows and found.W.shape == (rows, 15)
    assert (
        found.cond == pytest.approx(condition_by(found.W)) and pytest.approx(structural_equilibrium(found.W)) == found.S
    )
    assert check_trajectory(robot, found.trajectory, margin=0.05) == []
    fine = found.trajectory.sample(2000.0)
    bounds = bounds_of(robot, 0.05)
    for values, limit in ((fine.q, bounds.upper), (fine.dq, bounds.velocity), (fine.ddq, bounds.acceleration)):
        assert np.max(np.abs(values) - limit) <= 1e-9
    # the rows are those of the trajectory: its knots but for the rest at both ends are the points
    state = found.trajectory.at(found.trajectory.curve.knots)
    base = found.base.columns(robot)
    np.testing.assert_allclose(EnergyModel(robot, tuple(base)).W(state.q[1:-1], state.dq[1:-1]), found.W, atol=1e-8)
    np.testing.assert_allclose((state.dq[[0, -1]], state.ddq[[0, -1]]), 0.0, atol=1e-9)


def test_procedure_of_the_seed_is_safe_too():
    robot = three_dof(2.0)
    found = plan(
        robot,
        PlanOptions(
            method="points", rows=16, groups=["inertial"], optimiser="powell", measure="frobenius", time_budget_s=2.0
        ),
    )
    assert check_trajectory(robot, found.trajectory, margin=0.05) == [] and np.isfinite(found.cond)


def test_torque_limits_are_kept():
    robot = three_dof(3.0, effort=75.0)
    found = plan(robot, PlanOptions(method="points", rows=20, groups=["inertial"], **FEW_STEPS))
    assert found.use["effort"] <= 0.95 + 1e-9 and check_trajectory(robot, found.trajectory, margin=0.05) == []


def test_refusals():
    robot = three_dof()
    with pytest.raises(InputError, match="rows"):
        plan(robot, PlanOptions(method="points", rows=10, groups=["inertial"]))
    with pytest.raises(InputError, match="friction"):
        plan(robot, PlanOptions(method="points", groups=["friction"]))
    with pytest.raises(InputError, match="stand"):
        plan(three_dof(effort=5.0), PlanOptions(method="points", start=[0, 0, 0]))
    with pytest.raises(InputError, match="outside"):
        plan(robot, PlanOptions(method="points", start=[0, 3.2, 0]))
    with pytest.raises(InputError):
        plan(Robot("free", (Joint("a", 0),)), PlanOptions(method="points"))
