# SPDX-License-Identifier: Apache-2.0

"""Signs, units, mounting and degrees of a small robot at random motion: named as they were spoiled, with the option."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import Option
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation.diagnosis import diagnose
from ros2_dynid.identification.validation.effort_scale import effort_evidence, sampled_motion
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = ROBOT.active_names


def truth(friction=(4.0, 6.0)):
    """Return the a priori parameters with friction Fv, Fc at all joints."""
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = np.array(friction) / j
    return chi


def problem_of(gains=(1.0, 1.0, 1.0), robot=ROBOT, angle=1.0, friction=(4.0, 6.0), count=900, noise=0.02):
    """Return recordings whose efforts are times `gains` and whose positions are times `angle`."""
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, count, 3)) * np.array([1.0, 0.7, 1.3])
    tau = inverse_dynamics(robot, truth(friction), q, dq, ddq)
    tau = (tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)) * np.array(gains)
    prepared = (as_prepared(ROBOT, angle * q, angle * dq, angle * ddq, tau),)
    information = build_information(ROBOT, BASE, prepared, delay=False)
    return Problem(ROBOT, BASE, prepared, information, BASE.values(ROBOT, standard_vector(ROBOT)))


def option_of(finding):
    (option,) = (part for part in finding.hint.parts if isinstance(part, Option))
    return option


def test_good_efforts_are_not_suspected():
    for friction in ((4.0, 6.0), (0.0, 0.0)):
        assert diagnose(problem_of(friction=friction)).findings == ()


@pytest.mark.parametrize(
    "gains",
    [
        (-1.0, 1.0, 1.0),
        (1.0, -1.0, 1.0),
        (1.0, 1.0, -1.0),
        (-1.0, 1.0, -1.0),
        (-1.0, -1.0, -1.0),
        (1.0, 1.0, 40.0),
        (1.0, 1.0, -40.0),
        (1.0, 8.0, 80.0),
        (50.0, 50.0, 50.0),
        (-50.0, -50.0, -50.0),
        (1000.0, 1000.0, 1000.0),
        (0.01, 0.01, 0.01),
        (8.0, 8.0, 8.0),
    ],
)
def test_signs_and_units_are_named_with_the_gains_that_put_them_right(gains):
    findings = {finding.kind: finding for finding in diagnose(problem_of(gains)).findings}
    turned = tuple(name for name, gain in zip(NAMES, gains, strict=True) if gain < 0.0)
    sized = tuple(name for name, gain in zip(NAMES, gains, strict=True) if abs(gain) not in (1.0,))
    assert set(findings) == ({"effort_sign"} if turned else set()) | ({"effort_unit"} if sized else set())
    if turned:
        assert findings["effort_sign"].joints == turned and findings["effort_sign"].certain
        words = "all efforts have" if len(turned) == 3 else f"the effort of {', '.join(turned)} has"
        assert findings["effort_sign"].what == f"{words} the wrong sign"
    if sized:
        assert findings["effort_unit"].joints == sized
    for finding in findings.values():
        option = option_of(finding)
        if gains == (1000.0, 1000.0, 1000.0):
            assert (option.key, option.value) == ("effort_unit", "mN.m")
            continue
        assert option.key == "gains" and set(option.value) == set(turned) | set(sized)
        for name, gain in zip(NAMES, gains, strict=True):
            assert option.value.get(name, 1.0) * gain == pytest.approx(1.0, rel=0.15)
            if name in option.value and abs(gain) == 1.0:
                assert option.value[name] == -1.0, "a sign alone"
        told = np.array([option.value.get(name, 1.0) for name in NAMES])
        assert diagnose(problem_of(told * np.array(gains))).findings == (), "the advice works"


@pytest.mark.parametrize(("gains", "certain"), [((8.0, 8.0, 80.0), False), ((50.0, 50.0, 1500.0), True)])
def test_a_unit_of_joints_that_agree_is_certain_where_masses_are_never_so_wrong(gains, certain):
    """The last joint has another unit than the others, which all are off by one factor."""
    (finding,) = diagnose(problem_of(gains)).findings
    assert finding.kind == "effort_unit" and finding.joints == NAMES and finding.certain == certain
    told = np.array([option_of(finding).value[name] for name in NAMES])
    np.testing.assert_allclose(told * gains, 1.0, rtol=0.15)


def test_few_samples_without_friction_show_by_the_masses_that_all_are_reversed():
    few = problem_of((-1.0, -1.0, -1.0), friction=(0.0, 0.0), count=150)
    assert all(np.isnan(evidence.inertia) for evidence in diagnose(few).evidence)
    (finding,) = diagnose(few).findings
    assert finding.kind == "effort_sign" and finding.joints == NAMES


def test_masses_that_are_off_by_less_than_units_are_believed():
    assert diagnose(problem_of((4.5, 4.5, 4.5))).findings == () == diagnose(problem_of((0.25, 0.25, 0.25))).findings


@pytest.mark.parametrize("friction", [(4.0, 6.0), (0.0, 0.0)])
def test_without_friction_the_masses_tell_that_all_efforts_are_reversed(friction):
    (finding,) = diagnose(problem_of((-1.0, -1.0, -1.0), friction=friction)).findings
    assert finding.kind == "effort_sign" and finding.joints == NAMES


@pytest.mark.parametrize(
    ("direction", "named"), [((0.0, 0.0, 9.81), True), ((9.81, 0.0, 0.0), True), ((0.0, 0.0, -9.81), False)]
)
def test_another_mounting_is_named_before_what_it_spoils(direction, named):
    findings = diagnose(problem_of(robot=with_gravity(ROBOT, direction))).findings
    if not named:
        assert findings == ()
        return
    (finding,) = findings
    assert finding.kind == "gravity" and finding.certain
    option = option_of(finding)
    assert option.key == "gravity" and option.value == pytest.approx(direction, abs=0.02)
    angle = np.degrees(np.arccos(-direction[2] / 9.81))
    assert f"points {angle:.0f} degrees away" in finding.what


@pytest.mark.parametrize(("angle", "named"), [(180.0 / np.pi, True), (1.0, False)])
def test_positions_in_degrees_are_named_alone(angle, named):
    findings = diagnose(problem_of(angle=angle)).findings
    assert [finding.kind for finding in findings] == (["position_unit"] if named else [])
    if named:
        assert findings[0].joints == NAMES
        assert (option_of(findings[0]).key, option_of(findings[0]).value) == ("angle_unit", "deg")


def test_joints_that_turn_far_in_radians_are_not_in_degrees():
    problem = problem_of()
    (p,) = problem.prepared
    turned = replace(p, q=p.q + np.array([8.0 * np.pi, 0.0, 0.0]))  # whole turns are the same motion
    assert diagnose(replace(problem, prepared=(turned,))).findings == ()


@pytest.mark.parametrize(("share", "told"), [(0.05, False), (0.3, True)])
def test_friction_is_evidence_where_it_makes_a_part_of_the_effort(share, told):
    """A tenth of the effort: less says nothing of its sign."""
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 900, 3)) * np.array([1.0, 0.7, 1.3])
    tau = inverse_dynamics(ROBOT, truth((0.0, 0.0)), q, dq, ddq)
    size = np.linalg.norm(tau - tau.mean(axis=0), axis=0) / np.linalg.norm(np.sign(dq), axis=0)
    for sign in (1.0, -1.0):
        motion = sampled_motion([as_prepared(ROBOT, q, dq, ddq, tau + sign * share * size * np.sign(dq))])
        for evidence in effort_evidence(ROBOT, motion):
            assert np.isfinite(evidence.friction_r) == told
            assert not told or (np.sign(evidence.friction_r) == sign and abs(evidence.friction_r) > 0.9)
