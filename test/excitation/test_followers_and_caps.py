# SPDX-License-Identifier: Apache-2.0

"""Motions of a robot with a joint that follows others, and under caps: each joint is held to its own limits.

Numbers of active joints and their places differ where a passive one comes between them, and so do the limits here.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from excitation_robots import FEW_STEPS, with_follower
from ros2_dynid.dynamics.newton_euler import gravity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import static
from ros2_dynid.excitation.collision import Shapes, clearance, planes_of
from ros2_dynid.excitation.limits import Caps, bounds_of, check_trajectory, known_parameters, peak_effort
from ros2_dynid.excitation.plan import PlanOptions, plan, validation_plan
from ros2_dynid.excitation.pose import rest_pose
from ros2_dynid.model.robot import Limits

ROBOT = with_follower()
INDEX = [0, 2, 3]
OWN = [ROBOT.joints[k].limits for k in INDEX]
LOWER, UPPER, VELOCITY, ACCELERATION = (
    np.array([getattr(x, kind) for x in OWN]) for kind in ("lower", "upper", "velocity", "acceleration")
)
MIDDLE = 0.5 * (LOWER + UPPER)
CAPS = Caps(position=1.6, velocity=0.8, acceleration=3.0, effort=350.0)
CHI = known_parameters(ROBOT)


def excess(robot, trajectory, margin=0.0, caps=None):
    """Return by how much a densely sampled motion leaves the limits of any joint, followers included, at most."""
    caps = caps or Caps()
    s = trajectory.at(np.linspace(0.0, trajectory.duration, 20001))
    a, b, c = range(3)
    every = [
        np.stack((x[:, a], shift - 0.1 * x[:, a] + 0.2 * x[:, b], x[:, b], x[:, c]), axis=1)
        for x, shift in ((s.q, 0.3), (s.dq, 0.0), (s.ddq, 0.0))
    ]
    worst = 0.0
    for k, joint in enumerate(robot.joints):
        own = joint.limits
        lower, upper = max(own.lower, -caps.position), min(own.upper, caps.position)
        room = 0.5 * margin * (upper - lower)
        worst = max(worst, lower + room - every[0][:, k].min(), every[0][:, k].max() - upper + room)
        for x, limit in ((every[1], min(own.velocity, caps.velocity)),
                         (every[2], min(own.acceleration, caps.acceleration))):  # fmt: skip
            worst = max(worst, np.abs(x[:, k]).max() - (1 - margin) * limit)
    return worst


def floor_at(height, margin=0.02):
    """Return a ball at the tip and a floor below it."""
    at = np.array([[0.3, 0.0, 0.0]])
    return Shapes(np.array([4]), at, at, np.array([0.05]), ("tip",), np.zeros((0, 2), int),
                  np.array([[*n, d] for n, d in planes_of(height)]), np.array([0]), margin)  # fmt: skip


# --- one pose


def test_it_rests_within_the_limits_of_its_own_joints():
    bounds = bounds_of(ROBOT, 0.0)
    np.testing.assert_allclose(rest_pose(ROBOT, bounds), MIDDLE)
    np.testing.assert_allclose(rest_pose(ROBOT, bounds, zero_first=True), [0.0, -1.25, 0.7])
    for k, name in enumerate(("turn", "lift", "tilt")):
        for side, edge in ((-1e-6, LOWER), (1e-6, UPPER)):
            pose = MIDDLE.copy()
            pose[k] = edge[k]
            np.testing.assert_array_equal(rest_pose(ROBOT, bounds, start=pose), pose)
            pose[k] += side
            with pytest.raises(InputError, match=f"joint '{name}'"):
                rest_pose(ROBOT, bounds, start=pose)


def test_a_floor_that_the_middle_does_not_clear_moves_the_rest_pose():
    """Of random poses the one taken clears the floor by half of the margin more, and lies inside the limits."""
    bounds = bounds_of(ROBOT, 0.0)
    at = clearance(ROBOT, floor_at(0.0), MIDDLE[None])[0]
    np.testing.assert_allclose(rest_pose(ROBOT, bounds, shapes=floor_at(at - 0.4)), MIDDLE)
    shapes = floor_at(at - 0.01)
    found = rest_pose(ROBOT, bounds, shapes=shapes, seed=4)
    assert clearance(ROBOT, shapes, found[None])[0] >= 1.5 * shapes.margin
    lower, upper = 0.7 * LOWER + 0.3 * MIDDLE, 0.7 * UPPER + 0.3 * MIDDLE
    assert np.all((found >= lower) & (found <= upper)) and not np.allclose(found, MIDDLE)
    with pytest.raises(InputError, match="tip and plane 1"):
        rest_pose(ROBOT, bounds, shapes=shapes, start=MIDDLE)
    with pytest.raises(InputError, match="no pose was found"):
        rest_pose(ROBOT, bounds, shapes=floor_at(3.0))


def test_motors_that_cannot_hold_it_move_the_rest_pose_or_refuse_it():
    tau = np.abs(gravity_torque(ROBOT, CHI, MIDDLE[None])[0])
    k = int(np.argmax(tau))
    bounds = bounds_of(ROBOT, 0.0)
    effort = bounds.effort.copy()
    effort[k] = 1.4 * tau[k]  # held, but not by half as much again
    found = rest_pose(ROBOT, replace(bounds, effort=effort), chi=CHI, seed=1)
    there = np.abs(gravity_torque(ROBOT, CHI, found[None])[0])
    assert not np.allclose(found, MIDDLE) and np.all(1.5 * there <= effort)
    np.testing.assert_allclose(rest_pose(ROBOT, replace(bounds, effort=effort)), MIDDLE)
    with pytest.raises(InputError, match=r"needs .* to stand"):
        rest_pose(ROBOT, replace(bounds, effort=0.9 * tau), chi=CHI, start=MIDDLE)


# --- slow motions


@pytest.mark.parametrize("speed", [0.3, 1.0])
@pytest.mark.parametrize("caps", [None, CAPS])
def test_an_approach_is_as_quick_as_the_limits_and_caps_of_its_joints_allow(speed, caps):
    a, b = np.array([-0.9, -1.5, 0.3]), np.array([1.4, -0.6, 1.1])
    move = static.approach(ROBOT, a, b, speed=speed, caps=caps)
    cap = caps or Caps()
    v, w = np.minimum(VELOCITY, cap.velocity), np.minimum(ACCELERATION, cap.acceleration)
    s = move.at(np.linspace(0.0, move.duration, 4001))
    used = max(np.max(np.abs(s.dq) / v), np.max(np.abs(s.ddq) / w)) / speed
    assert used == pytest.approx(1.0, abs=1e-4) and used <= 1.0
    np.testing.assert_allclose(s.q[[0, -1]], [a, b])
    assert move.joint_names == ("turn", "lift", "tilt") and move.kind == "approach"
    if caps:
        with pytest.raises(InputError, match="'turn' begins or ends outside"):
            static.approach(ROBOT, a, [1.7, -0.6, 1.1], caps=caps)
    with pytest.raises(InputError, match="'tilt' begins or ends outside"):
        static.approach(ROBOT, [0.0, -1.0, 0.25], [0.0, -1.0, 0.5], margin=0.15)


@pytest.mark.parametrize(("margin", "caps"), [(0.0, None), (0.1, CAPS)])
def test_ramps_use_each_joints_range_speed_and_acceleration(margin, caps):
    found = static.ramps(ROBOT, speeds=(0.05, 0.4), reach=0.6, margin=margin, caps=caps, start=MIDDLE)
    assert excess(ROBOT, found, margin, caps) < 1e-9 and check_trajectory(ROBOT, found, margin=margin, caps=caps) == []
    bounds = bounds_of(ROBOT, margin, caps)
    s = found.at(np.linspace(0.0, found.duration, 20001))
    for k, j in enumerate(INDEX):
        low, high = max(bounds.lower[j], MIDDLE[k] - 0.6), min(bounds.upper[j], MIDDLE[k] + 0.6)
        np.testing.assert_allclose(found.curve.extrema()[0][:, k], (low, high), atol=1e-9)
        steady = (np.abs(s.ddq[:, k]) < 1e-9) & (np.abs(s.dq[:, k]) > 1e-6)
        top = np.sqrt((high - low) * 0.5 * bounds.acceleration[j] / 3.0)
        wanted = sorted(min(x * bounds.velocity[j], top) for x in (0.05, 0.4))
        np.testing.assert_allclose(np.unique(np.round(np.abs(s.dq[steady, k]), 6)), wanted, atol=1e-6)
        for sign in (-1.0, 1.0):
            assert np.any(sign * s.dq[steady, k] > 0.9 * wanted[-1])


def test_held_poses_lie_within_the_limits_of_their_joints_and_clear_the_floor():
    shapes = floor_at(-0.1)
    tour = static.static_poses(
        ROBOT, poses=4, hold_s=0.5, seed=1, margin=0.1, caps=CAPS, shapes=shapes, speed=0.5, candidates=60
    )
    assert check_trajectory(ROBOT, tour, margin=0.1, caps=CAPS) == [] and excess(ROBOT, tour, 0.1, CAPS) < 1e-9
    bounds = bounds_of(ROBOT, 0.1, CAPS)
    q = tour.at(tour.curve.knots).q
    assert len(np.unique(np.round(q, 9), axis=0)) == 5
    assert np.all(q >= bounds.lower[INDEX] - 1e-12) and np.all(q <= bounds.upper[INDEX] + 1e-12)
    way = tour.at(np.linspace(0.0, tour.duration, 4001)).q
    assert clearance(ROBOT, shapes, way)[0] > shapes.margin - 2e-3  # on the way, at 60 places
    assert clearance(ROBOT, shapes, q)[0] >= shapes.margin
    held = [tour.at(tour.curve.knots[k : k + 2]).q for k in range(1, len(tour.curve.knots) - 1, 2)]
    for pair in held:
        np.testing.assert_allclose(pair[0], pair[1])
    free = static.static_poses(ROBOT, poses=4, hold_s=0.5, seed=1, margin=0.1, caps=CAPS, candidates=60)
    below = free.at(free.curve.knots).q
    assert clearance(ROBOT, shapes, below)[0] < shapes.margin, "without a floor it goes there"


def test_sweeps_of_joints_behind_a_follower():
    """Each joint at the fractions of its own speed, both ways; loads differ; nothing comes near the floor."""
    shapes = floor_at(-0.15)
    found = sweeps.friction_sweeps(
        ROBOT,
        speeds=(0.05, 0.3),
        loads=2,
        reach=0.3,
        margin=0.1,
        caps=CAPS,
        shapes=shapes,
        start=[0.5, -1.0, 0.8],
        candidates=14,
    )
    assert check_trajectory(ROBOT, found, margin=0.1, caps=CAPS) == [] and excess(ROBOT, found, 0.1, CAPS) < 1e-9
    bounds = bounds_of(ROBOT, 0.1, CAPS)
    s = found.at(np.linspace(0.0, found.duration, 8001))
    np.testing.assert_allclose(s.q[[0, -1]], [[0.5, -1.0, 0.8]] * 2)
    assert clearance(ROBOT, shapes, s.q)[0] > shapes.margin - 2e-3
    load = np.abs(gravity_torque(ROBOT, CHI, s.q))
    for k, j in enumerate(INDEX):
        alone = np.abs(np.delete(s.dq, k, axis=1)).max(axis=1) < 1e-9
        steady = alone & (np.abs(s.ddq[:, k]) < 1e-9) & (np.abs(s.dq[:, k]) > 1e-6)
        fast = np.abs(s.dq[steady, k])
        assert fast.min() == pytest.approx(0.05 * bounds.velocity[j], rel=1e-6)
        assert 0.2 * bounds.velocity[j] < fast.max() <= 0.3 * bounds.velocity[j] + 1e-9
        assert {-1.0, 1.0} == set(np.sign(s.dq[steady, k]))
        poses = np.unique(np.round(np.delete(s.q[steady], k, axis=1), 6), axis=0)
        assert len(poses) == 2
        sizes = [load[steady, k][np.all(np.round(np.delete(s.q[steady], k, axis=1), 6) == pose, axis=1)].mean()
                 for pose in poses]  # fmt: skip
        assert max(sizes) > 1.1 * min(sizes)


@pytest.mark.parametrize("kind", ["cap", "margin"])
def test_sweeps_are_pushed_more_softly_where_an_effort_limit_would_be_met(kind):
    light = replace(ROBOT, gravity=np.zeros(3))
    wish = {"speeds": (0.3,), "loads": 1, "reach": 0.3, "start": MIDDLE, "candidates": 2}
    margin = 0.1 if kind == "margin" else 0.0
    free = sweeps.friction_sweeps(light, margin=margin, **wish)
    peak = peak_effort(light, free.curve, CHI)
    between = 0.93 * float(peak.max())
    if kind == "cap":
        found = sweeps.friction_sweeps(light, margin=0.0, caps=Caps(effort=between), **wish)
    else:
        strong = replace(
            light, joints=tuple(replace(j, limits=replace(j.limits, effort=between / 0.9)) for j in light.joints)
        )
        found = sweeps.friction_sweeps(strong, margin=0.1, **wish)
    assert peak_effort(light, found.curve, CHI).max() <= between < peak.max()
    slower = np.abs(found.curve.extrema()[2]).max(axis=0) / np.abs(free.curve.extrema()[2]).max(axis=0)
    assert np.any(slower < 0.95)
    with pytest.raises(InputError, match="torque of joint"):
        sweeps.friction_sweeps(light, margin=0.0, caps=Caps(effort=0.3), **wish)


# --- plans


TIGHT = replace(
    ROBOT,
    joints=(
        ROBOT.joints[0],
        replace(ROBOT.joints[1], limits=Limits(-0.15, 0.12, 0.25, 0.8)),  # the follower's limits are met first
        *ROBOT.joints[2:],
    ),
)


def test_a_series_keeps_the_limits_of_followers_and_caps():
    caps = Caps(position=1.6, velocity=0.8, acceleration=2.5)
    wish = PlanOptions(**FEW_STEPS, duration_s=6.0, harmonics=4, caps=caps, margin=0.1, groups=["inertial"])
    found = plan(TIGHT, wish)
    assert excess(TIGHT, found.trajectory, 0.1, caps) < 1e-9
    own = bounds_of(TIGHT, 0.0, caps)
    used = found.use
    assert max(used["position"], used["velocity"], used["acceleration"]) > 0.8
    s = found.trajectory.at(np.linspace(0.0, found.duration, 20001))
    assert used["velocity"] == pytest.approx(
        max(np.max(np.abs(s.dq) / own.velocity[INDEX]),
            np.max(np.abs(-0.1 * s.dq[:, 0] + 0.2 * s.dq[:, 1])) / own.velocity[1]), rel=1e-5
    )  # fmt: skip
    assert found.W.shape == (3 * 500, len(found.base)) and found.rows == 1500
    np.testing.assert_allclose(s.dq[[0, -1]], 0.0, atol=1e-9)
    np.testing.assert_allclose(s.ddq[[0, -1]], 0.0, atol=1e-8)


def test_points_keep_the_limits_of_followers_and_caps():
    caps = Caps(velocity=0.9, acceleration=3.0)
    wish = PlanOptions(method="points", **FEW_STEPS, rows=24, caps=caps, groups=["inertial"],
                       start=[0.4, -1.0, 0.6])  # fmt: skip
    found = plan(TIGHT, wish)
    assert excess(TIGHT, found.trajectory, 0.05, caps) < 1e-9
    assert found.rows == 24 == len(found.W)
    ends = found.trajectory.at(np.array([0.0, found.duration]))
    np.testing.assert_allclose(ends.q, [[0.4, -1.0, 0.6]] * 2, atol=1e-12)
    np.testing.assert_allclose(ends.dq, 0.0, atol=1e-12)
    assert found.use["velocity"] == pytest.approx(0.95, abs=0.01), "some joint is as fast as it may be"


def test_a_plan_clears_the_floor_and_says_by_how_much():
    at = clearance(ROBOT, floor_at(0.0), MIDDLE[None])[0]
    shapes = floor_at(at - 0.01)  # the middle of the limits is too low to rest there
    wish = PlanOptions(**FEW_STEPS, duration_s=6.0, harmonics=3, groups=["inertial"], shapes=shapes, margin=0.0)
    found = plan(TIGHT, wish)
    s = found.trajectory.at(np.linspace(0.0, found.duration, 601))
    assert found.clearance_m == pytest.approx(clearance(TIGHT, shapes, s.q)[0], abs=1e-6)
    assert found.clearance_m >= shapes.margin


def test_a_validation_has_other_frequencies_and_keeps_what_was_asked_for():
    wish = PlanOptions(method="points", **FEW_STEPS, duration_s=4.0, harmonics=3, groups=["inertial"],
                       caps=Caps(velocity=0.9), rate_hz=20.0, start=[0.4, -1.0, 0.6])  # fmt: skip
    found = validation_plan(TIGHT, wish)
    assert found.trajectory.kind == "validation" and found.method == "fourier"
    assert found.duration == pytest.approx(1.3 * 4.0) and found.trajectory.curve.A.shape == (3, 4)
    assert excess(TIGHT, found.trajectory, 0.05, Caps(velocity=0.9)) < 1e-9
    assert found.trajectory.rate_hz == 20.0
    np.testing.assert_allclose(found.trajectory.start, [0.4, -1.0, 0.6])


def test_held_poses_are_those_that_the_motors_can_hold():
    wish = {"poses": 5, "hold_s": 0.5, "seed": 2, "margin": 0.0, "candidates": 60}
    free = static.static_poses(ROBOT, **wish)
    peak = np.abs(gravity_torque(ROBOT, CHI, free.at(free.curve.knots).q)).max()
    effort = 0.8 * float(peak)
    tour = static.static_poses(ROBOT, caps=Caps(effort=effort), **wish)
    q = tour.at(tour.curve.knots).q
    assert len(np.unique(np.round(q, 9), axis=0)) == 6
    held = np.abs(gravity_torque(ROBOT, CHI, q))
    assert np.all(held <= effort) and held.max() > 0.5 * effort
