# SPDX-License-Identifier: Apache-2.0

"""Fourier plans: gradient, limits on a fine grid, torques, start poses, weights, budgets; better than random ones."""

from __future__ import annotations

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, example_urdf, three_dof
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.criteria import condition_by, normalised
from ros2_dynid.excitation.fourier_trajectory import CRITERIA, FourierProblem, TorqueModel, linear_factor
from ros2_dynid.excitation.limits import Caps, bounds_of, check_trajectory
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import PlanOptions, plan
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Joint, Limits, Robot


def problem(criterion: str = "cond", effort: float = 200.0) -> FourierProblem:
    robot = three_dof(effort=effort)
    base = base_parameters(robot)
    model = TorqueModel(robot, tuple(base.columns(robot)), np.array([1.0, 2.0, 0.5]), criterion)
    penalty = Penalty(robot, bounds_of(robot, 0.05), chi=standard_vector(robot))
    return FourierProblem(model, penalty, 10.0, 5, np.array([0.1, -0.2, 0.3]), np.ones(3))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gradient_against_differences(criterion):
    pb = problem(criterion, effort=20.0)
    rng = np.random.default_rng(0)
    y, D = rng.normal(size=(2, pb.shape[0] * pb.shape[1]))
    h = 1e-6
    ahead, behind = (pb.cost(y + side * h * D, 8.0, 0.2)[0] for side in (1, -1))
    assert pb.cost(y, 8.0, 0.2)[1] @ D == pytest.approx((ahead - behind) / (2 * h), rel=2e-5)


def test_linear_factor_touches_a_limit():
    pb = problem()
    y = 3.0 * np.random.default_rng(1).normal(size=pb.shape).ravel()
    y = y * linear_factor(pb, y)
    q, dq, ddq = pb.series(y).extrema()
    b = pb.penalty.bounds
    use = max(np.max(q[1] / b.upper), np.max(q[0] / b.lower), np.max(np.abs(dq) / b.velocity[0]))
    use = max(use, np.max(np.abs(ddq) / b.acceleration[0]))
    assert use == pytest.approx(1.0, abs=1e-9) and use <= 1.0


@pytest.mark.parametrize("start", [None, [0.5, -1.0, 0.2]])
def test_limits_hold_on_a_grid_ten_times_finer(start):
    robot = three_dof()
    found = plan(robot, PlanOptions(seed=2, **FEW_STEPS, start=start))
    assert check_trajectory(robot, found.trajectory, margin=0.05) == []
    s = found.trajectory.sample(10 * 4 * 16 * 5 / 10.0)
    b = bounds_of(robot, 0.05)
    for values, limit in ((s.q, b.upper), (s.dq, b.velocity), (s.ddq, b.acceleration)):
        assert np.max(np.abs(values) - limit) <= 1e-9
    np.testing.assert_allclose((s.dq[[0, -1]], s.ddq[[0, -1]]), 0.0, atol=1e-10)
    if start is not None:
        np.testing.assert_allclose(s.q[[0, -1]], [start, start], atol=1e-10)


def test_better_than_random_series():
    robot = three_dof()
    found = plan(robot, PlanOptions(seed=0, **(FEW_STEPS | {"iterations": 10}), margin=0.0))
    pb = problem("normalised")
    rng = np.random.default_rng(0)
    randoms = []
    for _ in range(100):
        y = rng.normal(size=pb.shape).ravel()
        randoms.append(condition_by(normalised(pb.W(y * linear_factor(pb, y)))[0]))
    assert found.cond_normalised < min(randoms)


def test_six_joints_with_friction_and_every_limit():
    robot = load_robot(example_urdf("ur_description/urdf/ur5_robot.urdf"))
    caps = Caps(position=np.pi, acceleration=8.0)
    found = plan(robot, PlanOptions(seed=1, **FEW_STEPS, caps=caps))
    assert len(found.base) == 58
    assert check_trajectory(robot, found.trajectory, margin=0.05, caps=caps) == []
    assert max(found.use.values()) <= 0.95 + 1e-9
    assert found.cond_normalised < 20.0  # random feasible ones: about 60; the full search: about 5


def test_torque_limits_bend_the_trajectory():
    robot = three_dof(effort=80.0)
    found = plan(robot, PlanOptions(**FEW_STEPS, groups=["inertial"]))
    assert found.use["effort"] <= 0.95 + 1e-9 and check_trajectory(robot, found.trajectory, margin=0.05) == []


def test_same_seed_same_trajectory_and_other_seed_another():
    robot = Robot("one", (Joint("a", 0, alpha=1.0, limits=Limits(-2, 2, 2, 9)),))
    one, two, other = (plan(robot, PlanOptions(seed=seed, **FEW_STEPS, harmonics=3)) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.trajectory.q, two.trajectory.q)
    assert np.abs(one.trajectory.q - other.trajectory.q).max() > 0.1


def test_a_tiny_budget_still_gives_a_safe_trajectory():
    robot = three_dof()
    for method in ("fourier", "points"):
        found = plan(robot, PlanOptions(method=method, time_budget_s=0.05, groups=["inertial"]))
        assert check_trajectory(robot, found.trajectory, margin=0.05) == [] and np.isfinite(found.cond)


@pytest.mark.parametrize(
    "wish",
    [
        {"harmonics": 2},
        {"duration_s": -1.0},
        {"time_budget_s": 0.0},
        {"weights": [1.0, 0.0, 1.0]},
        {"criterion": "best"},
        {"method": "magic"},
        {"start": [0.0, 0.0]},
        {"margin": 2.0},
        {"groups": ["colour"]},
    ],
    ids=str,
)
def test_refusals(wish):
    with pytest.raises(InputError) as error:
        plan(three_dof(), PlanOptions(**wish))
    assert "\n" not in str(error.value)
