# SPDX-License-Identifier: Apache-2.0

"""Recordings that were spoiled are diagnosed with all joints named; following the advice leads to a clean diagnosis."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from recordings import DATA, simulated, simulated_truth, study, tx40
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation import effort_scale
from ros2_dynid.identification.validation.diagnosis import Mounting, diagnose, refuse
from ros2_dynid.identification.validation.effort_scale import (
    EffortEvidence,
    Factor,
    refuse_contradictions,
    relative_gains,
    scaled,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.recording.read import load_samples
from ros2_dynid.usecases.check import check_recording

nan = np.nan


def recording(name):
    if name == "demo6":
        return simulated_truth()[0], simulated()
    if name == "tx40":
        return tx40()
    if not (DATA / name).is_dir():
        pytest.skip("the recordings of real robots are not here")
    robot = load_robot(DATA / name / "robot.urdf")
    return robot, load_samples(DATA / name / "run.db3", robot)


def findings(robot, samples, friction="auto", **options):
    chosen = IdentifyOptions(preparation=PreparationOptions(**options), friction=friction)
    return diagnose(build_problem(robot, [samples], chosen, lambda *_: None), friction=friction).findings


ROBOTS = ["demo6", "tx40", "ur10", "panda30"]


@pytest.mark.parametrize("name", ROBOTS)
def test_good_recordings_are_not_suspected(name):
    assert findings(*recording(name)) == ()


@pytest.mark.parametrize("asked", ["auto", "viscous+coulomb", "stribeck"])
def test_friction_of_other_laws_is_no_wrong_unit(asked):
    """Friction of load and Stribeck that plain friction does not explain makes the joints seem to contradict.

    Whatever law was asked for: the efforts are the same.
    """
    plant, samples, *_ = study("study_friction").rubbing("demo6", "load+stribeck", 1, seconds=20.0)
    robot = replace(plant, friction=())
    assert findings(robot, samples, asked) == ()
    size = np.array([1.0, 1.0, 0.2, 1.0, 1.0, 1.0])
    (found,) = findings(robot, replace(samples, tau=samples.tau * size), asked)
    assert found.kind == "effort_unit" and "elbow" in found.joints


@pytest.mark.parametrize(
    ("name", "chosen"),
    [(name, slice(0, None, 2)) for name in ROBOTS]
    + [("demo6", slice(1, 2)), ("demo6", slice(None)), ("panda30", slice(None))],
)
def test_reversed_efforts_are_named_all_at_once_and_the_advice_works(name, chosen):
    robot, samples = recording(name)
    signs = np.ones(len(robot.active))
    signs[chosen] = -1.0
    spoiled = replace(samples, tau=samples.tau * signs)
    (found,) = findings(robot, spoiled)
    names = tuple(np.array(robot.active_names)[chosen])
    assert (found.kind, found.joints, found.certain) == ("effort_sign", names, True)
    (option,) = (part for part in found.hint.parts if not isinstance(part, str))
    assert option.key == "gains" and option.value == dict.fromkeys(names, -1.0)
    assert findings(robot, spoiled, gains=option.value) == ()
    result = check_recording(spoiled, robot)
    assert result.verdict == "red" and found.hint in {problem.do for problem in result.problems}
    with pytest.raises(InputError, match="wrong sign"):
        refuse([found], "run")


@pytest.mark.parametrize("name", ROBOTS)
def test_units_of_all_joints_are_named_and_the_advice_works(name):
    robot, samples = recording(name)
    (found,) = findings(robot, replace(samples, tau=1e3 * samples.tau))
    assert found.kind == "effort_unit" and found.hint == "set effort_unit: mN.m"
    ratios = np.array([100.0, 101.0, 85.0, 60.0, 50.0, 45.0, 40.0])[: len(robot.active)]
    spoiled = replace(samples, tau=samples.tau / ratios)
    (found,) = findings(robot, spoiled)
    assert found.kind == "effort_unit" and found.joints == robot.active_names
    (option,) = (part for part in found.hint.parts if not isinstance(part, str))
    given = np.array([option.value[joint] for joint in robot.active_names])
    assert np.all(np.abs(np.log(given / ratios)) < np.log(3.0))  # as far as a priori masses and other joints tell
    assert findings(robot, spoiled, gains=option.value) == ()


@pytest.mark.parametrize("name", ROBOTS)
def test_degrees_are_named(name):
    robot, samples = recording(name)
    spoiled = replace(samples, q=np.degrees(samples.q), dq=None)
    (found,) = findings(robot, spoiled)
    assert (found.kind, found.hint) == ("position_unit", "set angle_unit: deg")
    assert "deg" in " ".join(problem.do for problem in check_recording(spoiled, robot).problems)


@pytest.mark.parametrize(
    ("name", "gravity"),
    [(name, (0.0, 9.81, 0.0)) for name in ROBOTS] + [("demo6", (0.0, 0.0, 9.81)), ("demo6", (-6.94, 0.0, -6.94))],
)
def test_a_wrong_mounting_is_named_with_the_true_direction(name, gravity):
    robot, samples = recording(name)
    (found,) = findings(with_gravity(robot, gravity), samples)
    (option,) = (part for part in found.hint.parts if not isinstance(part, str))
    assert found.kind == "gravity" and option.key == "gravity"
    assert np.allclose(option.value, (0.0, 0.0, -9.81))


@pytest.mark.parametrize(
    ("evidence", "is_reversed", "wrong_unit"),
    [
        (EffortEvidence(), False, False),
        (EffortEvidence(friction_r=-0.6), True, False),
        (EffortEvidence(friction_r=-0.4), False, False),
        (EffortEvidence(inertia=-1.0), True, False),
        (EffortEvidence(friction_r=-0.51), True, False),
        (EffortEvidence(friction_r=-0.49), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.51), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.49), True, False),
        (EffortEvidence(friction_r=0.51, inertia=-1.0), False, False),
        (EffortEvidence(friction_r=0.49, inertia=-1.0), True, False),
        (EffortEvidence(gravity_r=0.81, gravity_scale=31.0), False, True),
        (EffortEvidence(gravity_r=0.79, gravity_scale=31.0), False, False),
        (EffortEvidence(gravity_r=0.9, gravity_scale=0.034), False, False),
        (EffortEvidence(friction_r=-0.6, gravity_r=0.6), False, False),  # gravity supports the sign
        (EffortEvidence(friction_r=-0.6, inertia=1.0), False, False),  # so does inertia
        (EffortEvidence(friction_r=0.6, inertia=-1.0), False, False),  # and friction
        (EffortEvidence(-0.9, -1.0, -0.6, -1.0), True, False),
        (EffortEvidence(gravity_r=-0.99, gravity_scale=-1.0), False, False),  # a priori values alone do not accuse
        (EffortEvidence(gravity_r=0.9, gravity_scale=29.0), False, False),
        (EffortEvidence(gravity_r=0.9, gravity_scale=31.0), False, True),
        (EffortEvidence(gravity_r=-0.9, gravity_scale=-31.0), False, True),
        (EffortEvidence(gravity_r=0.9, gravity_scale=0.032), False, True),
        (EffortEvidence(gravity_r=0.7, gravity_scale=1000.0), False, False),
    ],
)
def test_evidence_of_a_joint(evidence, is_reversed, wrong_unit):
    assert (evidence.reversed, evidence.wrong_unit) == (is_reversed, wrong_unit)


@pytest.mark.parametrize(
    ("factor", "wrong"),
    [
        (Factor(1.0, 0.01), False),
        (Factor(-1.0, 0.01), True),
        (Factor(-0.2, 0.01), False),
        (Factor(-1.0, 0.5), False),
        (Factor(1.9, 0.01), False),
        (Factor(2.1, 0.01), True),
        (Factor(0.51, 0.01), False),
        (Factor(0.49, 0.01), True),
        (Factor(3.0, 1.0), False),
        (Factor(1000.0, 10.0), True),
        (Factor(3.0, 0.4), True),
        (Factor(3.0, 0.4, freedom=5.0), False),
        (Factor(1.0, np.inf), False),
        # chance makes 4.26 standard deviations once in 100 000, and 3.09 once in 1000
        (Factor(4.0, 4.0 / 4.2), False),
        (Factor(0.3, 0.3 / 4.3), True),
        (Factor(0.3, 0.3 / 4.2), False),
        (Factor(3.0, 2.0 / 4.3), True),
        (Factor(3.0, 2.0 / 4.2), False),
        (Factor(-1.0, 1.0 / 3.12), True),
        (Factor(-1.0, 1.0 / 3.06), False),
        (Factor(-0.26, 0.01), True),
        (Factor(-0.24, 0.01), False),
    ],
)
def test_factor_of_a_joint(factor, wrong):
    assert factor.wrong == wrong


@pytest.mark.parametrize(
    ("error", "described", "angle", "brakes", "wrong", "certain"),
    [
        (0.1, 0.9, 90.0, True, True, True),
        (0.1, 0.9, 20.0, True, False, False),  # what wrong masses may do
        (0.4, 0.9, 90.0, True, True, False),  # poor masses
        (0.65, 1.0, 90.0, True, False, False),  # they explain nothing
        (0.1, 0.13, 90.0, True, False, False),  # the description is as good
        (0.1, 0.9, 178.0, True, True, True),  # on the ceiling
        (0.1, 0.9, 178.0, False, False, False),  # all efforts reversed
        (0.1, 0.9, 120.0, False, True, True),
        (0.1, 0.9, 24.0, True, False, False),
        (0.1, 0.9, 26.0, True, True, True),
        (0.1, 0.9, 154.0, False, True, True),
        (0.1, 0.9, 156.0, False, False, False),
        (0.1, 0.9, 156.0, True, True, True),
        (0.1, 0.141, 90.0, True, False, False),
        (0.1, 0.144, 90.0, True, True, True),
        (0.59, 0.95, 90.0, True, True, False),
        (0.61, 0.95, 90.0, True, False, False),
        (0.34, 0.9, 90.0, True, True, True),
        (0.36, 0.9, 90.0, True, True, False),
    ],
)
def test_mounting(error, described, angle, brakes, wrong, certain):
    found = Mounting((0.0, 9.81, 0.0), error, described, angle, brakes)
    assert (found.wrong, found.certain) == (wrong, certain)


def test_scaled_information_is_that_of_scaled_efforts_and_two_wrong_joints_are_found():
    robot, samples = simulated_truth()[0], simulated()
    gains = np.array([1.0, -1.0, 1.0, 5.0, 1.0, 1.0])
    good, spoiled = (
        build_problem(robot, [s], IdentifyOptions(friction="viscous+coulomb"), lambda *_: None)
        for s in (samples, replace(samples, tau=samples.tau * gains))
    )
    again = scaled(good.information, gains)
    for j in range(robot.n):
        a, b = again.triangle(j), spoiled.information.triangle(j)
        assert np.allclose(a.T @ a, b.T @ b, rtol=1e-6, atol=1e-6 * np.abs(b.T @ b).max())
    found, agree = relative_gains(robot, spoiled.base, spoiled.information)
    assert agree and np.allclose(found * gains, 1.0, rtol=0.15)


@pytest.mark.parametrize(
    ("spoiled", "wrong"),
    [
        ((8.0, 1.0, 1.0, 1.0), (0,)),
        ((1.0, 1.0, 0.1, 1.0), (2,)),
        ((1.0, 30.0, 1.0, 1.0, 6.0), (1, 4)),
        ((-5.0, 1, 1), (0,)),
        ((1.0, 1.0, 3.0, 0.03), (2, 3)),  # without any one of them the others do not agree: the farthest off first
    ],
)
def test_the_joint_that_is_wrong_is_blamed_not_those_that_it_makes_look_wrong(monkeypatch, spoiled, wrong):
    """Each joint is compared with the mean of the others: one wrong gain makes all factors wrong, not only its own."""
    spoiled = np.array(spoiled, dtype=float)

    def factors_of(gains, without=None):
        left, found = spoiled * gains, []
        for j in range(len(left)):
            others = [k for k in range(len(left)) if k not in (j, without)]
            mean = np.prod(np.sign(left[others])) * np.exp(np.mean(np.log(np.abs(left[others]))))
            found.append(Factor(1.0, np.inf) if j == without else Factor(float(left[j] / mean), 0.01))
        return found

    monkeypatch.setattr(effort_scale, "factors", factors_of)
    monkeypatch.setattr(effort_scale, "scaled", lambda information, gains: gains.copy())
    monkeypatch.setattr(effort_scale, "backward_friction", lambda *_: [])
    monkeypatch.setattr(effort_scale, "_backward_together", lambda *_: [])
    assert sum(factor.wrong for factor in factors_of(np.ones(len(spoiled)))) > len(wrong)
    found, agree = relative_gains(None, None, SimpleNamespace(n=len(spoiled)))
    assert agree and tuple(np.flatnonzero(found != 1.0)) == wrong
    assert np.all(np.abs(np.log(found * spoiled)) < np.log(2.0)), "as far as what is right itself tells"


def test_a_recording_that_contradicts_the_others_is_named():
    """Another load on one of three recordings; with the same load, or noise alone, nothing is said."""
    robot, samples = simulated_truth()[0], simulated()
    one = build_problem(robot, [samples], IdentifyOptions(friction="viscous+coulomb"), lambda *_: None).information
    few = one.take(range(0, len(one.blocks), 2))

    def together(*gains):
        parts = [scaled(few, np.full(robot.n, gain)).blocks for gain in gains]
        blocks = [replace(block, recording=k) for k, part in enumerate(parts) for block in part]
        information = replace(one, blocks=tuple(blocks))
        refuse_contradictions(information, wls(information).value, ["first.bag", "second.bag", "third.bag"])

    together(1.0, 1.0, 1.0)
    together(1.0, 1.03, 1.0)
    together(1.5)
    with pytest.raises(InputError, match=r"second\.bag.*torque error \d+ % together with the other recordings"):
        together(1.0, 1.6, 1.0)
