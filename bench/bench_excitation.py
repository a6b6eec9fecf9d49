# SPDX-License-Identifier: Apache-2.0

"""Exciting trajectories: the 3-dof robot of Gautier 1992, a UR5 against random ones, a UR10 against a plain SLSQP.

python bench/bench_excitation.py [points] [ur5] [ur10] [--seeds N] [--peer SECONDS]   (default: all, 5 seeds, no peer)

Times are of one core if OMP_NUM_THREADS=1. The peer of the UR10 is SciPy's SLSQP on Pinocchio's regressor with
differences for gradients; it needs `pin`. The URDFs are those of example-robot-data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.excitation.collision import clearance
from ros2_dynid.excitation.criteria import condition_by, normalised
from ros2_dynid.excitation.fourier_trajectory import FourierProblem, TorqueModel, linear_factor
from ros2_dynid.excitation.limits import Caps, bounds_of, peak_effort
from ros2_dynid.excitation.penalty import Penalty
from ros2_dynid.excitation.plan import Plan, PlanOptions, plan
from ros2_dynid.excitation.surroundings import surroundings
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Joint, Limits, Robot

TABLE_6 = {
    "ZZ1": 5.0186, "XX2": -2.05, "XY2": 0.7, "XZ2": -1.07, "YZ2": 0.65, "ZZ2": 6.55, "MX2": 4.3, "MY2": 0.6,
    "XX3": 0.7634, "XY3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZ3": 0.9646, "MX3": 0.528, "MY3": 1.14,
}  # fmt: skip


def three_dof(velocity: float) -> Robot:
    """Return the robot of Gautier 1992 with limits of +-pi rad, 10 rad/s^2 and 200 N.m."""
    limits = Limits(-np.pi, np.pi, velocity, 10.0, 200.0)
    joints = (
        Joint("j1", 0, limits=limits),
        Joint("j2", 1, alpha=-np.pi / 2, limits=limits),
        Joint("j3", 2, d=0.5, r=0.2, limits=limits),
    )
    return Robot("three", joints, parameters=TABLE_6)


def example(name: str) -> Path:
    """Return a URDF of example-robot-data."""
    import pinocchio

    return Path(pinocchio.__file__).parents[4] / "share/example-robot-data/robots" / name


def excess(found: Plan, robot: Robot, caps: Caps) -> float:
    """Return by how much the limits are exceeded on a grid far finer than the one optimised on (negative: kept)."""
    bounds = bounds_of(robot, 0.0, caps)
    s = found.trajectory.sample(max(2000.0, 5000.0 / found.duration))
    parts = [
        s.q - bounds.upper,
        bounds.lower - s.q,
        np.abs(s.dq) - bounds.velocity,
        np.abs(s.ddq) - bounds.acceleration,
    ]
    return float(max(part.max() for part in parts))


def points(seeds: int) -> None:
    """Gautier 1992: medians over seeds of cond and S after the interpolation."""
    for r, velocity, weight, wanted in (
        (30, 3.0, 0.0, "cond <= 5.5"),
        (30, 3.0, None, "cond <= 8, S <= 100"),
        (20, 2.0, None, "cond <= 25, S <= 150"),
        (15, 2.0, None, "cond <= 37, S <= 300"),
    ):
        robot = three_dof(velocity)
        options = {} if weight is None else {"equilibrium_weight": weight}
        found = [
            plan(robot, PlanOptions(method="points", rows=r, groups=["inertial"], seed=seed, **options))
            for seed in range(seeds)
        ]
        cond, S, seconds = (statistics.median(getattr(p, key) for p in found) for key in ("cond", "S", "seconds"))
        worst = max(excess(p, robot, Caps()) for p in found)
        print(f"r = {r}, {velocity} rad/s: cond {cond:.2f}, S {S:.4g}, {seconds:.1f} s, excess {worst:.1e} ({wanted})")


def random_best(robot: Robot, caps: Caps, count: int) -> float:
    """Return the smallest column-normalised condition number of random feasible series of 5 harmonics and 10 s."""
    base, bounds, chi = base_parameters(robot), bounds_of(robot, 0.05, caps), standard_vector(robot)
    model = TorqueModel(robot, tuple(base.columns(robot)), np.ones(len(robot.active)), "normalised")
    problem = FourierProblem(
        model, Penalty(robot, bounds), 10.0, 5, np.zeros(len(robot.active)), np.ones(len(robot.active))
    )
    rng = np.random.default_rng(0)
    best = np.inf
    for _ in range(count):
        y = rng.standard_normal(problem.shape).ravel()
        y *= linear_factor(problem, y)
        series = problem.series(y)
        if np.all(peak_effort(robot, series, chi) <= bounds.effort):
            W = model.W(*series.evaluate(np.linspace(0.0, 10.0, 500, endpoint=False)))
            best = min(best, condition_by(normalised(W)[0]))
    return best


def ur5(seeds: int) -> None:
    """UR5, friction and offsets included, against the best of 1000 random feasible trajectories."""
    path = example("ur_description/urdf/ur5_robot.urdf")
    robot, caps = load_robot(path), Caps()
    best = random_best(robot, caps, 1000)
    narrow, shapes = surroundings(robot, path)
    for kept in (None, shapes):
        found = [
            plan(narrow if kept else robot, PlanOptions(seed=seed, harmonics=5, shapes=kept)) for seed in range(seeds)
        ]
        ours, seconds = (statistics.median(getattr(p, key) for p in found) for key in ("cond_normalised", "seconds"))
        worst = max(excess(p, robot, caps) for p in found)
        close = "-" if kept is None else min(clearance(robot, kept, p.trajectory.sample(1000.0).q)[0] for p in found)
        print(
            f"UR5 {'with' if kept else 'without'} collisions: {ours:.2f}, best of 1000 random ones {best:.1f}, ratio "
            f"{best / ours:.1f}, {seconds:.1f} s, excess {worst:.1e}, clearance {close}"
        )


def ur10(seeds: int, peer_s: float) -> None:
    """UR10, 36 inertial base parameters, +-pi, the URDF's velocities, 10 rad/s^2."""
    path = example("ur_description/urdf/ur10_robot.urdf")
    robot, caps = load_robot(path), Caps(position=np.pi, acceleration=10.0)
    narrow, shapes = surroundings(robot, path)
    for kept, harmonics in ((None, 5), (None, 6), (shapes, 5), (shapes, 6)):
        found = [
            plan(
                narrow if kept else robot,
                PlanOptions(seed=seed, groups=["inertial"], caps=caps, shapes=kept, harmonics=harmonics),
            )
            for seed in range(seeds)
        ]
        cond, seconds = (statistics.median(getattr(p, key) for p in found) for key in ("cond", "seconds"))
        worst = max(excess(p, robot, caps) for p in found)
        kind = "with" if kept else "without"
        print(f"UR10 {kind} collisions, {harmonics} harmonics: cond {cond:.2f}, {seconds:.1f} s, excess {worst:.1e}")
    if peer_s > 0:
        print(f"UR10, SLSQP on Pinocchio: cond {slsqp(path, caps, peer_s):.2f} in {peer_s:.0f} s, moving at the ends")


def slsqp(path: Path, caps: Caps, budget_s: float) -> float:
    """Return what SciPy's SLSQP reaches with Pinocchio's regressor and differences, series free at the ends."""
    import pinocchio as pin

    model = pin.buildModelFromUrdf(str(path))
    data = model.createData()
    robot = load_robot(path)
    bounds = bounds_of(robot, 0.0, caps)
    L, N, T = 5, 60, 10.0
    t = T * np.arange(N) / N
    w = 2 * np.pi / T * np.arange(1, L + 1)
    cos, sin = np.cos(np.outer(t, w)), np.sin(np.outer(t, w))

    def motion(x: np.ndarray) -> list[np.ndarray]:
        A, B = x.reshape(2, L, 6)
        return [cos @ A + sin @ B, (cos * w) @ B - (sin * w) @ A, -(cos * w**2) @ A - (sin * w**2) @ B]

    def W(x: np.ndarray) -> np.ndarray:
        rows = [pin.computeJointTorqueRegressor(model, data, *(z[k] for z in motion(x))).copy() for k in range(N)]
        return np.vstack(rows)

    rng = np.random.default_rng(0)
    x = 0.1 * rng.standard_normal(2 * L * 6)
    kept: list[int] = []
    full = W(x)
    for k in range(full.shape[1]):  # columns that QR without pivoting keeps
        if np.linalg.matrix_rank(full[:, [*kept, k]], tol=1e-8) > len(kept):
            kept.append(k)
    start, best = time.perf_counter(), np.inf

    class OverError(Exception):
        pass

    def slack(z: np.ndarray) -> np.ndarray:
        q, dq, ddq = motion(z)
        parts = (bounds.upper - q, q - bounds.lower, bounds.velocity - np.abs(dq), bounds.acceleration - np.abs(ddq))
        return np.concatenate([part.min(axis=0) for part in parts])

    def cost(z: np.ndarray) -> float:
        nonlocal best
        if time.perf_counter() - start > budget_s:
            raise OverError
        value = float(np.linalg.cond(W(z)[:, kept]))
        if slack(z).min() > -1e-6:
            best = min(best, value)
        return value

    with suppress(OverError):
        minimize(cost, x, method="SLSQP", constraints={"type": "ineq", "fun": slack}, options={"maxiter": 10**4})
    return best


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=("points", "ur5", "ur10", []), default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer", type=float, default=0.0, metavar="SECONDS")
    args = parser.parse_args()
    what = args.what or ("points", "ur5", "ur10")
    if "points" in what:
        points(args.seeds)
    if "ur5" in what:
        ur5(args.seeds)
    if "ur10" in what:
        ur10(args.seeds, args.peer)


if __name__ == "__main__":
    main()
