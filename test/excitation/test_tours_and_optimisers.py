"""Tours of poses on ways that are not all clear, optimisers by what they are handed, and files of pictures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

from ros2_dynid.errors import InputError
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import plan_figures, points, static
from ros2_dynid.excitation.descent import TimeBudget, descend
from ros2_dynid.excitation.limits import Caps, bounds_of
from ros2_dynid.excitation.quintic import through_points
from ros2_dynid.excitation.trajectory import Trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Limits

LIMITS = (Limits(-1.0, 2.0, 3.0, 5.0, 500.0), Limits(-2.0, -0.5, 1.0, 7.0, 400.0), Limits(0.2, 1.2, 2.0, 4.0, 300.0))
ROBOT = load_robot("demo3")
ROBOT = replace(ROBOT, joints=tuple(replace(j, limits=x) for j, x in zip(ROBOT.joints, LIMITS, strict=True)))
MIDDLE = np.array([0.5, -1.25, 0.7])


# --- tours


def tour(monkeypatch, clear, poses=4, **more):
    """Return the poses held, of a tour on which a way from a to b is clear where clear(a, b)."""
    monkeypatch.setattr(static, "CANDIDATES", 40)
    monkeypatch.setattr(static, "way_is_clear", lambda robot, shapes, a, b: clear(a, b))
    found = static.static_poses(ROBOT, poses=poses, hold_s=0.5, seed=2, start=MIDDLE, **more)
    return found, found.at(found.curve.knots).q[1:-2:2]


def test_a_tour_goes_where_the_ways_are_clear(monkeypatch):
    _, free = tour(monkeypatch, lambda a, b: True)
    assert len(free) == 4 and free[:, 0].min() < 0.5
    _, held = tour(monkeypatch, lambda a, b: min(a[0], b[0]) >= 0.5)
    assert len(held) == 4 and held[:, 0].min() >= 0.5
    seen = []
    tour(monkeypatch, lambda a, b: seen.append((a, b)) or True)
    np.testing.assert_array_equal(seen[0][0], MIDDLE)
    np.testing.assert_array_equal(seen[-1][1], MIDDLE)
    for k in range(1, 4):
        np.testing.assert_array_equal(seen[k][0], seen[k - 1][1])


def test_a_tour_ends_where_no_way_leads_on_and_the_way_back_is_clear(monkeypatch):
    def back(a, b):  # home is only reached from poses near to it
        return not np.array_equal(b, MIDDLE) or a[0] < 0.5

    _, free = tour(monkeypatch, lambda a, b: True)
    _, held = tour(monkeypatch, back)
    last = np.flatnonzero(free[:, 0] < 0.5)[-1]
    np.testing.assert_allclose(held, free[: last + 1])
    for never in (lambda a, b: False, lambda a, b: not np.array_equal(b, MIDDLE)):
        with pytest.raises(InputError, match="no safe pose can be reached"):
            tour(monkeypatch, never)
    only = []

    def once(a, b):
        if np.array_equal(b, MIDDLE):
            return True
        if np.array_equal(a, MIDDLE) and not only:
            only.append(b)
        return bool(only) and np.array_equal(b, only[0]) and np.array_equal(a, MIDDLE)

    _, held = tour(monkeypatch, once)
    assert len(held) == 1, "nowhere to go from there"


def test_a_tour_keeps_speed_margin_and_caps(monkeypatch):
    found, held = tour(monkeypatch, lambda a, b: True, speed=0.6, margin=0.1, caps=Caps(velocity=0.5))
    bounds = bounds_of(ROBOT, 0.1, Caps(velocity=0.5))
    assert np.all(held >= bounds.lower) and np.all(held <= bounds.upper)
    top = np.abs(found.curve.extrema()[1]).max(axis=0)
    assert np.max(top / bounds.velocity) == pytest.approx(0.6, rel=1e-6)


def test_sweeps_begin_at_poses_that_are_safe_and_reached(monkeypatch):
    seen = {}

    def poses(robot, bounds, shapes, chi, pool, k, loads, reach):
        seen[k] = (np.array(pool), loads, reach)
        return [(pool[0], pool[0][k] - 0.1, pool[0][k] + 0.1)]

    monkeypatch.setattr(sweeps, "_poses", poses)
    monkeypatch.setattr(sweeps, "fault_of", lambda robot, bounds, shapes, chi, pose: "no" if pose[2] > 1.0 else "")
    monkeypatch.setattr(sweeps, "way_is_clear", lambda robot, shapes, a, b: b[0] < 1.0)
    sweeps.friction_sweeps(ROBOT, loads=2, reach=0.4, margin=0.0, start=MIDDLE, seed=6)
    bounds = bounds_of(ROBOT, 0.0)
    every = np.vstack((MIDDLE, np.random.default_rng(6).uniform(bounds.lower, bounds.upper, (120, 3))))
    wanted = every[(every[:, 2] <= 1.0) & (every[:, 0] < 1.0)]
    assert sorted(seen) == [0, 1, 2]
    for pool, loads, reach in seen.values():
        np.testing.assert_array_equal(pool, wanted)
        assert (loads, reach) == (2, 0.4)


def test_usual_sweeps_and_ramps():
    assert sweeps.SPEEDS == (0.02, 0.06, 0.2, 0.5) and sweeps.LOADS == 3 and sweeps.MAX_SWEEP_S == 4.0
    found = static.ramps(ROBOT, start=MIDDLE, margin=0.0).sample(200.0)
    for k, limits in enumerate(LIMITS):
        steady = (np.abs(found.ddq[:, k]) < 1e-9) & (np.abs(found.dq[:, k]) > 1e-9)
        slowest = np.abs(found.dq[steady, k]).min()
        assert slowest == pytest.approx(0.05 * limits.velocity, rel=1e-6)
        assert np.abs(found.q[:, k] - MIDDLE[k]).max() <= 1.0 + 1e-9


# --- optimisers


class Bowl:
    """A model whose cost is the distance to 0.3, and infinite on one side."""

    def cost(self, q, dq, measure="svd"):
        assert measure == "qr"
        return np.inf if q[0, 0] < -0.9 else float(np.sum((q - 0.3) ** 2) + np.sum(dq**2))


@pytest.mark.parametrize(
    ("optimiser", "method", "options"),
    [("nelder-mead", "Nelder-Mead", {"maxiter": 10**6, "adaptive": True}), ("quasi-newton", "BFGS", {"maxiter": 10**6}),
     ("powell", "Powell", {"maxiter": 10**6})],
)  # fmt: skip
def test_the_seeds_optimisers_are_scipys(monkeypatch, optimiser, method, options):
    s = points.Substitution(-np.ones(1), np.ones(1), np.ones(1), np.ones(1, dtype=bool), np.zeros((2, 1)))
    told = []
    clock = TimeBudget(1e9, lambda text, share: told.append(text))
    handed = []

    def minimize(cost, x, **given):
        handed.append((x, given))
        for q, dq in ((0.0, 0.5), (0.2, 0.0), (0.9, 0.9)):
            z = s.variables(np.full((2, 1), q), np.full((2, 1), dq))
            assert cost(z) == pytest.approx(2 * ((q - 0.3) ** 2 + dq**2))
        assert cost(s.variables(np.full((2, 1), -1.0), np.zeros((2, 1)))) == 1e30

    monkeypatch.setattr(scipy.optimize, "minimize", minimize)
    q, dq = points.optimise_points(Bowl(), s, np.random.default_rng(3), clock, optimiser=optimiser, measure="qr")
    np.testing.assert_allclose((q, dq), (np.full((2, 1), 0.2), np.zeros((2, 1))), atol=1e-12)
    ((x, given),) = handed
    np.testing.assert_array_equal(x, np.random.default_rng(3).standard_normal(4))
    assert given == {"method": method, "options": options} and len(told) == 2
    over = TimeBudget(1.0, start=clock.start - 10.0)
    q, _ = points.optimise_points(Bowl(), s, np.random.default_rng(3), over, optimiser=optimiser, measure="qr")
    np.testing.assert_allclose(q, s.points(x)[0], err_msg="no time: the start")


def test_a_descent_is_lbfgs_with_exact_gradients(monkeypatch):
    handed = []

    def minimize(cost, x, **given):
        handed.append((x, given))
        assert cost(np.array([2.0])) == (5.0, [4.0])
        value, gradient = cost(np.array([9.0]))
        assert value == 1e30 and not gradient.any()
        value, gradient = cost(np.array([8.0]))
        assert value == 1e30 and not gradient.any()
        assert cost(np.array([1.0]))[0] == 2.0
        assert cost(np.array([3.0]))[0] == 10.0

    def cost(x):
        if x[0] == 9.0:
            return np.inf, 2 * x
        return float(x[0] ** 2 + 1.0), np.array([np.nan]) if x[0] == 8.0 else 2 * x

    monkeypatch.setattr(scipy.optimize, "minimize", minimize)
    found = descend(cost, np.array([5.0]), TimeBudget(1e9), 33)
    assert found.tolist() == [1.0]
    ((x, given),) = handed
    assert x.tolist() == [5.0] and given["jac"] is True and given["method"] == "L-BFGS-B"
    assert given["options"] == {"maxiter": 33, "maxcor": 30, "maxfun": 10**6}


@pytest.mark.parametrize(("spent", "until", "over"), [(4.0, 0.5, False), (6.0, 0.5, True), (9.0, 1.0, False)])
def test_a_descent_ends_at_its_share_of_the_time(spent, until, over):
    seen = []

    class Clock(TimeBudget):
        @property
        def spent(self):
            return spent

    descend(lambda x: seen.append(1) or (float(x @ x), 2 * x), np.ones(2), Clock(10.0), 5, until)
    assert (not seen) == over


# --- files


@pytest.mark.parametrize(("name", "suffix"), [("f", ".png"), ("f.svg", ".svg"), ("a.b.png", ".png")])
def test_pictures_are_named_by_what_they_show(tmp_path, monkeypatch, name, suffix):
    drawn = []
    figure = SimpleNamespace(savefig=lambda path, dpi: drawn.append((path, dpi)))
    monkeypatch.setattr(plan_figures, "motion_figure", lambda plan: figure)
    monkeypatch.setattr(plan_figures, "plan_singular_figure", lambda plan: figure)
    monkeypatch.setattr(plan_figures, "parameter_figure", lambda robot, plan, noise: figure)
    found = plan_figures.save_figures(tmp_path / name, ROBOT, None)
    stem = name.removesuffix(suffix)
    assert [p.name for p in found] == [f"{stem}_{x}{suffix}" for x in ("motion", "singular_values", "parameters")]
    assert [path for path, _ in drawn] == found and all(path.parent == tmp_path for path in found)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize(("speed", "kept"), [(5e-10, False), (-5e-10, False), (1.5e-9, True), (-1.5e-9, True)])
def test_ends_are_at_rest_but_for_rounding(end, speed, kept):
    dq = np.zeros((2, 1))
    dq[end] = speed
    move = Trajectory(("a",), through_points(np.array([0.0, 1.0]), np.array([[0.0], [1.0]]), dq))
    found = move.sample(10.0).dq[[0, -1], 0]
    assert (found[end] != 0.0) == kept and found[1 - end] == 0.0
