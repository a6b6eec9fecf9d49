# SPDX-License-Identifier: Apache-2.0

"""Each fault that is put into a good recording is found, and a good one is left in peace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Joint, Limits, Robot
from ros2_dynid.recording.checks import check_samples
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.check import check_recording, check_recordings

TX40 = Path("/work/shared/data/tx40")
LIMITS = Limits(-3.0, 3.0, 10.0, 50.0, 300.0)
ARM = {
    "ZZ1": 1.5,
    "M2": 6.0,
    "MX2": 1.6,
    "ZZ2": 0.9,
    "XX2": 0.1,
    "M3": 3.0,
    "MX3": 0.5,
    "MY3": 0.1,
    "ZZ3": 0.2,
    "XX3": 0.1,
}
FRICTION = {f"{kind}{j}": value for j in (1, 2, 3) for kind, value in (("Fv", 2.0), ("Fc", 3.0))}


def arm(parameters):
    joints = (
        Joint("waist", 0, limits=LIMITS),
        Joint("shoulder", 1, alpha=np.pi / 2, limits=LIMITS),
        Joint("elbow", 2, d=0.4, limits=LIMITS),
    )
    return Robot("arm", joints, parameters=parameters)


ROBOT = arm({**ARM, **FRICTION})


def motion(seconds=20.0, rate=500.0, speed=1.0, seed=0):
    """Return t, q, dq, ddq of a sum of sines."""
    rng = np.random.default_rng(seed)
    t = np.arange(0, seconds, 1 / rate)
    q, dq, ddq = (np.zeros((len(t), 3)) for _ in range(3))
    for joint in range(3):
        for harmonic in range(1, 6):
            w = speed * 2 * np.pi * harmonic * 0.1
            a, phase = rng.uniform(0.2, 0.5), rng.uniform(0, 2 * np.pi)
            q[:, joint] += a * np.sin(w * t + phase)
            dq[:, joint] += a * w * np.cos(w * t + phase)
            ddq[:, joint] += -a * w * w * np.sin(w * t + phase)
    return t, q, dq, ddq


def good(robot=ROBOT, noise=0.3, **options):
    t, q, dq, ddq = motion(**options)
    tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    rng = np.random.default_rng(1)
    names = robot.active_names
    return Samples(
        t,
        names,
        q + rng.normal(0, 1e-5, q.shape),
        dq + rng.normal(0, 1e-3, q.shape),
        None,
        tau + rng.normal(0, noise, q.shape),
    )


def kinds(result, level=None):
    return {(p.kind, p.joint) for p in result.problems if level is None or p.level == level}


def changed(samples, field, column, function):
    array = getattr(samples, field).copy()
    array[:, column] = function(array[:, column])
    return replace(samples, **{field: array})


def test_a_good_recording_is_green():
    result = check_recording(good(), ROBOT)
    assert result.problems == () and result.verdict == "green"
    assert abs(result.rate - 500) < 1e-6 and result.gaps == ()
    assert [row.level for row in result.joints] == ["green"] * 3
    assert abs(result.joints[1].gravity_scale - 1) < 0.05


def test_every_problem_says_what_to_do():
    bad = replace(good().take(slice(None, None, 100)), dq=None, tau=None)
    result = check_samples(bad, ROBOT)
    assert result.verdict == "red"
    for problem in result.problems:
        assert problem.what and problem.do and problem.level in ("yellow", "red")


def test_gaps_jitter_repeats_and_steps_back():
    samples = good()
    keep = np.ones(len(samples), bool)
    keep[1000:1010] = keep[3000:3001] = False
    result = check_samples(samples.take(keep), ROBOT)
    assert kinds(result) == {("gap", None)}
    assert [gap.missing for gap in result.gaps] == [10, 1]
    assert result.gaps[0].start == pytest.approx(samples.t[999])
    t = samples.t.copy()
    t[500], t[700], t[701] = t[499], t[701], t[700]
    assert kinds(check_samples(replace(samples, t=t), ROBOT)) >= {("repeat", None), ("backward", None)}
    t = samples.t.copy()
    t[5000:] -= 9.0
    assert ("backward", None) in kinds(check_samples(replace(samples, t=t), ROBOT), "red")
    t = samples.t + np.random.default_rng(0).uniform(-0.4, 0.4, len(samples)) / 500
    assert ("jitter", None) in kinds(check_samples(replace(samples, t=t), ROBOT))


def test_missing_and_unknown_signals():
    samples = good()
    assert kinds(check_samples(replace(samples, tau=None), ROBOT), "red") == {("missing_effort", None)}
    assert kinds(check_samples(replace(samples, dq=None), ROBOT), "yellow") == {("missing_velocity", None)}
    nan = changed(samples, "tau", 1, lambda x: x * np.nan)
    assert kinds(check_samples(nan, ROBOT), "red") == {("missing_effort", "shoulder")}
    some = changed(samples, "q", 2, lambda x: np.where(np.arange(len(x)) % 50 == 0, np.nan, x))
    assert kinds(check_samples(some, ROBOT)) == {("nan", "elbow")}


def test_stuck_quantised_and_saturated_signals():
    samples = good()
    assert ("stuck", "elbow") in kinds(check_samples(changed(samples, "tau", 2, np.zeros_like), ROBOT), "red")
    assert ("stuck", "waist") in kinds(check_samples(changed(samples, "dq", 0, np.zeros_like), ROBOT))

    def freeze(x):
        x = x.copy()
        x[2000:2200] = x[2000]
        return x

    assert ("stuck", "waist") in kinds(check_samples(changed(samples, "q", 0, freeze), ROBOT))
    coarse = changed(samples, "q", 0, lambda x: np.round(x / 0.02) * 0.02)
    assert ("quantised", "waist") in kinds(check_samples(coarse, ROBOT))
    held = changed(samples, "q", 1, lambda x: np.repeat(x[::5], 5)[: len(x)])
    assert ("quantised", "shoulder") in kinds(check_samples(held, ROBOT))
    limit = float(np.quantile(np.abs(samples.tau[:, 1]), 0.97))
    clipped = changed(samples, "tau", 1, lambda x: np.clip(x, -limit, limit))
    assert ("saturation", "shoulder") in kinds(check_samples(clipped, ROBOT))


def test_motion_coverage_and_units_of_positions():
    samples = good()
    assert ("coverage", "elbow") in kinds(check_samples(changed(samples, "q", 2, lambda x: 1e-3 * x), ROBOT), "red")
    assert ("coverage", "elbow") in kinds(check_samples(changed(samples, "q", 2, lambda x: 0.03 * x), ROBOT), "yellow")
    degrees = replace(samples, q=np.degrees(samples.q))
    found = [p for p in check_samples(degrees, ROBOT).problems if p.kind == "position_unit"]
    assert len(found) == 3 and "angle_unit: deg" in found[0].do
    assert ("velocity_unit", "waist") in kinds(check_samples(changed(samples, "dq", 0, np.degrees), ROBOT))


def test_samples_that_a_driver_publishes_again_are_told():
    samples = good()
    rows = np.arange(len(samples))
    again = np.random.default_rng(0).random(len(rows)) < 0.15
    again[0] = False
    rows[again] -= 1
    fields = {field: array[rows] for field, array in samples.arrays().items()}
    (found,) = check_recording(samples.with_arrays(samples.t, fields), ROBOT).problems
    assert found.kind == "repeat" and found.what.startswith("13 %") and "publish each sample once" in found.do


@pytest.mark.parametrize("speed", [1.0, 3.0])
def test_a_clock_that_stalls_is_told_and_is_no_wrong_unit_of_velocity(speed):
    """Thirty stalls of 0.16 s, in which the robot goes on and the clock does not."""
    samples = good(speed=speed)
    lost = (np.arange(len(samples)) % 333) >= 253
    stalled = samples.take(~lost)
    stalled = replace(stalled, t=np.arange(len(stalled)) / 500.0)
    told = [(p.kind, p.level) for p in check_samples(stalled, ROBOT).problems]
    assert told == [("jump", "yellow")]
    (found,) = check_samples(stalled, ROBOT).problems
    count = int(found.what.split()[2])
    assert 25 <= count <= 30 and "in 2 ms" in found.what and "stamps: bag" in found.do
    assert kinds(check_samples(samples.take(~lost), ROBOT)) == {("gap", None)}, "with their stamps they are gaps"


def test_positions_at_rest_in_noise_or_in_jitter_do_not_jump():
    samples = good()
    rest = replace(samples, q=np.where((samples.t % 4.0 < 3.0)[:, None], samples.q[:1], samples.q))
    noise = replace(samples, q=np.random.default_rng(2).normal(size=samples.q.shape))
    jitter = replace(samples, t=samples.t + np.random.default_rng(0).uniform(-0.4, 0.4, len(samples)) / 500)
    slow = samples.take(slice(None, None, 20))
    for one, count in ((rest, 5), (noise, 0), (jitter, 0), (slow, 0)):
        jumps = [p.what for p in check_samples(one, ROBOT).problems if p.kind == "jump"]
        assert not jumps or int(jumps[0].split()[2]) <= 2 * count, "only where the rest begins and ends"


def test_several_recordings_are_checked_together():
    """One joint at a time: each alone is of no use, together they are, and another load is noticed."""
    samples = good()
    single = []
    for joint in range(3):
        only = np.arange(3) == joint
        t, q, dq, ddq = motion(seed=joint)
        tau = inverse_dynamics(ROBOT, standard_vector(ROBOT), q * only, dq * only, ddq * only)
        single.append(Samples(t, ROBOT.active_names, q * only, dq * only, None, tau, f"run{joint}"))
    assert [check_recording(one, ROBOT).verdict for one in single] == ["red"] * 3
    told = check_recordings(single, ROBOT)
    assert not [p for one in told.recordings for p in one.problems if p.kind == "coverage"]
    assert "unusable" not in {p.kind for p in told.problems}
    still = check_recordings(single[:2], ROBOT)
    assert {p.joint for one in still.recordings for p in one.problems if p.kind == "coverage"} == {"elbow"}
    assert still.verdict == "red"
    alike = check_recordings([samples, good(seed=3)], ROBOT)
    assert alike.verdict == "green" and alike.problems == () and len(alike.recordings) == 2
    heavy = good(arm({**ARM, **FRICTION, "M3": 12.0, "MX3": 3.0, "ZZ3": 2.0}), seed=4)
    other = check_recordings([samples, good(seed=3), replace(heavy, source="heavy")], ROBOT)
    assert [(p.kind, p.level) for p in other.problems] == [("contradiction", "red")]
    assert other.problems[0].what.startswith("heavy: ") and other.verdict == "red"


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_reversed_effort_is_found_in_every_joint(column):
    flipped = changed(good(), "tau", column, np.negative)
    assert kinds(check_recording(flipped, ROBOT)) == {("effort_sign", ROBOT.active_names[column])}


def test_a_wrong_unit_of_effort_is_found():
    for factor in (1e-3, 1e3):
        result = check_recording(replace(good(noise=0.0), tau=good(noise=0.0).tau * factor), ROBOT)
        assert ("effort_unit", None) in kinds(result, "red")


@pytest.mark.parametrize("seed", range(12))
def test_good_data_is_not_suspected_when_the_a_priori_parameters_are_zero_or_poor(seed):
    """Masses off by a factor of 3, centres of mass anywhere, also on the wrong side; slow and fast motion."""
    rng = np.random.default_rng(seed)
    samples = good(speed=float(rng.choice([0.5, 1.0, 3.0])), seed=seed, noise=0.5, rate=200.0)
    poor = {}
    for name, value in ARM.items():
        moment = name.startswith(("MX", "MY", "MZ"))
        poor[name] = value * rng.uniform(1 / 3, 3) * (rng.choice([-1, 1]) if moment else 1)
    for robot in (arm({}), arm(poor)):
        suspected = {kind for kind, _ in kinds(check_recording(samples, robot))}
        assert not suspected & {"effort_sign", "effort_unit"}


def test_one_frequency_where_inertia_looks_like_gravity_reversed():
    """tau of a fast single sine is nearly -q: no reason to doubt its sign, with and without friction."""
    t = np.arange(0, 20, 0.002)
    phase = np.array([0.0, 1.0, 2.0])
    w = 2 * np.pi * 1.5
    q, dq, ddq = (a * f(w * t[:, None] + phase) for a, f in ((0.5, np.sin), (0.5 * w, np.cos), (-0.5 * w * w, np.sin)))
    for robot in (ROBOT, arm(ARM)):
        tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
        samples = Samples(t, robot.active_names, q, dq, None, tau)
        assert not any(kind in ("effort_sign", "effort_unit") for kind, _ in kinds(check_recording(samples, robot)))


@pytest.mark.skipif(not TX40.exists(), reason="the TX-40 recording is not here")
def test_the_real_recording_is_judged_fairly():
    from ros2_dynid.model.load import load_robot

    robot = load_robot(str(TX40 / "tx40.urdf"))
    samples = load_samples(TX40 / "tx40_traj.npz", robot, in_order=False)
    result = check_recording(samples, robot)
    assert kinds(result) == {("missing_velocity", None)}
    assert abs(result.joints[1].gravity_scale - 1) < 0.1
    flipped = check_recording(replace(samples, tau=-samples.tau), robot)
    (found,) = [problem for problem in flipped.problems if problem.kind == "effort_sign"]
    assert "all efforts" in found.what and all(f"{name}: -1" in found.do for name in robot.active_names)


def test_samples_of_almost_nothing_do_not_break_the_checks():
    for count in (1, 2, 3, 10):
        samples = good().take(slice(count))
        assert check_samples(samples, ROBOT).verdict == "red"
    none = replace(good(), q=good().q * np.nan)
    assert ("missing_position", None) in kinds(check_samples(none, ROBOT), "red")
