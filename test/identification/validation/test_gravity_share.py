# SPDX-License-Identifier: Apache-2.0

"""Efforts that hold no gravity are noticed, and the advice helps; those that hold it are not remarked on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import DATA, simulated, simulated_truth
from ros2_dynid.commands.shared.arguments import as_flag
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.rows import row_count
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.validation.diagnosis import diagnose
from ros2_dynid.identification.validation.gravity_share import GRAVITY, find_gravity_share
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.pipeline import identify
from ros2_dynid.progress import ignore_progress
from ros2_dynid.recording.read import load_samples
from ros2_dynid.usecases.check import check_recording


def recording_with_share(share, seed=0, seconds=12.0):
    """Return a recording of the simulated arm whose efforts hold this share of gravity."""
    robot, chi = simulated_truth()
    samples = simulated(seed=seed, seed_motion=100 + seed, seconds=seconds)
    rest = np.zeros_like(samples.q)
    gravity = inverse_dynamics(*frictionless(robot, chi), samples.q, rest, rest)
    return robot, replace(samples, tau=samples.tau - (1.0 - share) * gravity)


def share_of(robot, samples):
    return find_gravity_share(build_problem(robot, [samples], IdentifyOptions(), ignore_progress))


@pytest.mark.parametrize("seed", range(3))
def test_the_share_is_found_with_its_error_bar_or_nothing_is_said(seed):
    for share in (0.0, 0.5):
        found = share_of(*recording_with_share(share, seed))
        assert found is not None and abs(found.share - share) < 4.0 * found.std + 0.01 and found.std < 0.1
        assert found.best < found.with_gravity
    assert share_of(*recording_with_share(1.0, seed)) is None


def test_of_a_long_recording_a_part_of_the_rows_tells_the_share():
    robot, samples = recording_with_share(0.0, seconds=36.0)
    problem = build_problem(robot, [samples], IdentifyOptions(), ignore_progress)
    rows = sum(map(row_count, problem.prepared))
    whole, few = (find_gravity_share(problem, replace(GRAVITY, chunks=n, rows=rows)) for n in (rows, 1))
    assert whole is not None and few is not None and few.share != whole.share
    assert abs(few.share - whole.share) < 4.0 * np.hypot(few.std, whole.std) + 0.01


def test_a_robot_without_gravity_is_not_asked():
    robot, samples = recording_with_share(0.0)
    assert share_of(with_gravity(robot, np.zeros(3)), samples) is None


def test_check_and_identify_name_efforts_without_gravity_and_the_advice_helps():
    robot, samples = recording_with_share(0.0)
    outcome = check_recording(samples, robot)
    (problem,) = (one for one in outcome.problems if one.kind == "gravity")
    assert "do not hold gravity" in str(problem.what) and problem.level == "yellow"
    before = identify(robot, [samples]).outcome
    assert any("do not hold gravity" in str(remark.text) for remark in before.verdict)
    said = "say so: --sensor motor-gravity, or with torque sensors at the links: --sensor link-gravity"
    assert problem.do.render(as_flag).endswith(said)
    after = identify(robot, [samples], options=IdentifyOptions(sensor="motor-gravity")).outcome
    assert after.validation["all"].relative < 0.5 * before.validation["all"].relative
    assert not any("gravity" in str(remark.text) for remark in after.verdict)


@pytest.mark.parametrize(("share", "named"), [(1.0, False), (0.5, True)])
def test_half_of_the_gravity_of_a_real_arm_is_missed(share, named):
    if not (DATA / "panda30").is_dir():
        pytest.skip("the recordings of real robots are not here")
    robot = load_robot(DATA / "panda30" / "robot.urdf")
    samples = load_samples(DATA / "panda30" / "run.db3", robot)
    missing = (1.0 - share) * gravity_torque(robot, standard_vector(robot), samples.q)
    problem = build_problem(robot, [replace(samples, tau=samples.tau - missing)], IdentifyOptions(), ignore_progress)
    assert [finding.kind for finding in diagnose(problem).findings] == (["gravity"] if named else [])


def test_a_priori_masses_confirm_what_the_data_alone_do_not_prove():
    robot, samples = recording_with_share(0.5)
    problem = build_problem(robot, [samples], IdentifyOptions(), ignore_progress)
    doubtful = replace(GRAVITY, gain=1e3, scatter=1e3)
    for by_masses, named in ((np.nan, False), (0.5, True), (0.9, False), (0.1, False)):
        assert (find_gravity_share(problem, doubtful, by_masses=by_masses) is not None) == named


def test_a_share_in_between_is_called_a_gain_or_a_payload():
    robot, samples = recording_with_share(0.5)
    (finding,) = diagnose(build_problem(robot, [samples], IdentifyOptions(), ignore_progress)).findings
    assert "a part of gravity (0.5" in str(finding.what) and not finding.certain
