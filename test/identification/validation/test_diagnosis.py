# SPDX-License-Identifier: Apache-2.0

"""Recordings that were spoiled are diagnosed with all joints named; following the advice leads to a clean diagnosis.

Signs, units, mounting and degrees, of real and simulated recordings and of a small robot at random motion.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import DATA, simulated, simulated_truth, study, tx40
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, Option
from ros2_dynid.identification.friction_columns import AUTO, PLAIN
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem, build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.validation.diagnosis import diagnose, refuse_certain
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.recording.checks import RED
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import cut
from ros2_dynid.usecases.check import check_recording

ROBOTS = ["demo6", "tx40", "ur10", "panda30"]
ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = ROBOT.active_names


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


@pytest.mark.parametrize("name", ROBOTS)
def test_good_recordings_are_not_suspected(name):
    robot, samples = recording(name)
    assert findings(robot, samples) == ()
    kinds = {problem.kind for problem in check_recording(samples, robot).problems}
    assert not kinds & {"effort_sign", "effort_unit", "gravity", "position_unit"}


@pytest.mark.parametrize("seconds", [4.0, 6.0])
def test_too_few_data_accuse_nobody_for_certain(seconds):
    """The whole recording is good; its beginning predicts no wrist, whatever its sign."""
    robot, samples = recording("ur10")
    short = cut(samples, None, float(samples.t[0]) + seconds)
    assert findings(robot, short) == ()
    assert not any(problem.kind.startswith("effort") for problem in check_recording(short, robot).problems)


@pytest.mark.parametrize("factor", [1.0, 8.0, -1.0, 0.02])
def test_check_and_identify_judge_alike_whatever_law_is_asked_for(factor):
    """Efforts with load and Stribeck friction; also by the energy balance, which has no terms for it."""
    plant, samples, *_ = study("study_friction").rubbing("demo6", "load+stribeck", 1, seconds=20.0)
    robot = replace(plant, friction=())
    spoiled = replace(samples, tau=samples.tau * np.array([1.0, 1.0, factor, 1.0, 1.0, 1.0]))
    checked = {
        (problem.kind, problem.level == RED)
        for problem in check_recording(spoiled, robot).problems
        if problem.kind.startswith("effort")
    }
    assert (checked != set()) == (factor != 1.0)
    for friction, method in ((AUTO, Method.WLS), (PLAIN, Method.WLS), ("stribeck", Method.WLS), (AUTO, Method.ENERGY)):
        options = IdentifyOptions(friction=friction, method=method)
        problem = build_problem(robot, [spoiled], options, lambda *_: None)
        judged = {(finding.kind, finding.certain) for finding in diagnose(problem, friction).findings}
        assert judged == checked, (friction, method)


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
        refuse_certain([found], "run")


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


@pytest.mark.parametrize("name", ROBOTS)
def test_radians_that_were_taken_for_degrees_are_named_and_no_gain_is_proposed(name):
    robot, samples = recording(name)
    spoiled = replace(samples, q=np.radians(samples.q), dq=None)
    (found,) = findings(robot, spoiled)
    assert found.kind == "position_unit" and found.hint.endswith("angle_unit: rad")
    assert "these are radians" in " ".join(problem.what for problem in check_recording(spoiled, robot).problems)


def test_a_few_seconds_in_degrees_are_a_doubt():
    if not (DATA / "kr300").is_dir():
        pytest.skip("the recordings of real robots are not here")
    robot = load_robot(DATA / "kr300" / "robot.yaml")  # without limits, which would tell
    samples = load_samples(DATA / "kr300" / "a.npz", robot)
    spoiled = cut(replace(samples, q=np.degrees(samples.q), dq=None), None, float(samples.t[0]) + 3.0)
    (found,) = findings(robot, spoiled)
    assert found.kind == "position_unit" and not found.certain and option_of(found).value == "deg"


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


def test_all_that_is_certain_is_refused_in_one_line():
    found = [
        Finding("x", (), "first", "do this"),
        Finding("y", (), "second", "do that", certain=False),
        Finding("z", (), "third", "do this"),
        Finding("w", (), "fourth", "do more"),
    ]
    with pytest.raises(InputError) as refused:
        refuse_certain(found, "run")
    assert refused.value.what == "first; third; fourth" and refused.value.hint == "do this, and do more"
    refuse_certain(found[1:2], "run")


# --- a small robot at random motion


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
    assert diagnose(problem_of(friction=(4.0, 6.0))).findings == ()
    (finding,) = diagnose(problem_of(friction=(0.0, 0.0))).findings  # the robot's description has friction
    assert finding.kind == "friction" and not finding.certain


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
        (8.0, 1.0, 1.0),
        (1.0, 0.1, 1.0),
        (-5.0, 1.0, 1.0),
        (1.0, 30.0, 6.0),
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


@pytest.mark.parametrize(
    ("gains", "certain"),
    [
        ((8.0, 8.0, 8.0), False),
        ((0.1, 0.1, 0.1), False),
        ((25.0, 25.0, 25.0), False),
        ((36.0, 36.0, 36.0), True),
        ((8.0, 8.0, 80.0), True),  # the last joint contradicts the others
        ((1.0, 1.0, 8.0), True),
        ((50.0, 50.0, 1500.0), True),
    ],
)
def test_a_unit_is_certain_where_joints_contradict_or_masses_are_never_so_wrong(gains, certain):
    (finding,) = diagnose(problem_of(gains)).findings
    wrong = [name for name, gain in zip(NAMES, gains, strict=True) if gain != 1.0]
    assert finding.kind == "effort_unit" and list(finding.joints) == wrong and finding.certain == certain
    told = np.array([option_of(finding).value.get(name, 1.0) for name in NAMES])
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


def test_small_motion_in_radians_is_what_it_is():
    (found,) = diagnose(problem_of(angle=np.pi / 180.0)).findings
    assert found.kind == "position_unit" and found.certain and option_of(found).value == "rad"
    q, dq, ddq = np.random.default_rng(1).uniform(-0.1, 0.1, (3, 900, 3))
    prepared = (as_prepared(ROBOT, q, dq, ddq, inverse_dynamics(ROBOT, truth(), q, dq, ddq)),)
    information = build_information(ROBOT, BASE, prepared, delay=False)
    small = Problem(ROBOT, BASE, prepared, information, BASE.values(ROBOT, standard_vector(ROBOT)))
    assert diagnose(small).findings == ()


def test_joints_that_turn_far_in_radians_are_not_in_degrees():
    problem = problem_of()
    (p,) = problem.prepared
    turned = replace(p, q=p.q + np.array([8.0 * np.pi, 0.0, 0.0]))  # whole turns are the same motion
    assert diagnose(replace(problem, prepared=(turned,))).findings == ()


# --- mounting
