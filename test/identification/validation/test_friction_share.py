# SPDX-License-Identifier: Apache-2.0

"""Efforts that hold a share of the described friction are named where the joints agree, and the advice is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import five_waves
from ros2_dynid.commands.shared.arguments import as_flag
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.validation.friction_share import find_friction_share
from ros2_dynid.model.efforts import declared_sensors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.progress import ignore_progress
from ros2_dynid.usecases.check import check_recording

ROBOT = load_robot("demo3")


def recording_with_friction(share, seed=0):
    """Return samples of the arm, whose efforts hold this share of the friction that is described, one or by joint."""
    chi = standard_vector(ROBOT)
    by_joint(ROBOT, chi)[:, 11:13] *= np.reshape(share, (-1, 1))
    return five_waves(ROBOT, chi, seed=seed, noise=5e-3)


def described(factors):
    """Return the arm with other guesses of its friction, by joint."""
    values = {f"{part}{j}": factor * ROBOT.parameters[f"{part}{j}"] for part in ("Fv", "Fc") for j, factor in factors}
    return replace(ROBOT, parameters={**ROBOT.parameters, **values})


def share_of(robot, samples):
    return find_friction_share(build_problem(robot, [samples], IdentifyOptions(), ignore_progress))


def findings(robot, samples):
    return [one for one in check_recording(samples, robot).problems if one.kind == "friction"]


@pytest.mark.parametrize("seed", range(3))
def test_the_share_is_found_with_its_error_bar_or_nothing_is_said(seed):
    for share in (0.0, 0.3, 2.0):
        found = share_of(ROBOT, recording_with_friction(share, seed))
        assert found is not None and abs(found.share - share) < 4.0 * found.std + 0.02 and found.std < 0.1
        assert found.needless == (share == 0.0)
    assert share_of(ROBOT, recording_with_friction(1.0, seed)) is None


def test_what_the_sensor_of_a_joint_is_declared_to_miss_is_its_own():
    sensors = ",".join(f"{name}=motor" for name in ROBOT.active_names[1:])
    robot = declared_sensors(ROBOT, f"{ROBOT.active_names[0]}=motor-friction:0.7,{sensors}")
    found = share_of(robot, recording_with_friction((0.5 * 0.3, 0.5, 0.5)))
    assert found is not None and abs(found.share - 0.5) < 4.0 * found.std + 0.02


def test_a_description_whose_joints_disagree_or_say_nothing_is_not_believed():
    samples = recording_with_friction(1.0)
    assert share_of(described([(1, 5.0), (2, 0.2), (3, 2.0)]), samples) is None
    assert share_of(described([(1, 0.0), (2, 0.2), (3, 0.2)]), samples) is None
    assert share_of(described([(1, 0.1), (2, 0.1), (3, 0.1)]), samples) is None, "numbers for a simulator"


def test_the_advice_is_to_declare_it_and_then_nothing_is_said_and_the_model_is_as_good():
    samples = recording_with_friction(0.0)
    (problem,) = findings(ROBOT, samples)
    assert "hold no friction" in str(problem.what) and problem.do.render(as_flag).endswith("--sensor link+Ia")
    before = identify(ROBOT, [samples]).outcome
    assert any("hold no friction" in str(remark.text) for remark in before.verdict)
    after = identify(ROBOT, [samples], options=IdentifyOptions(sensor="link+Ia")).outcome
    assert after.validation["all"].relative < 1.005 * before.validation["all"].relative
    samples = recording_with_friction(0.3)
    (problem,) = findings(ROBOT, samples)
    option = problem.do.render(as_flag).rpartition(" ")[2]
    assert 0.65 < float(option.removeprefix("motor-friction:")) < 0.75
    assert not findings(declared_sensors(ROBOT, option), samples)
    (problem,) = findings(ROBOT, recording_with_friction(2.0))
    assert "2.0" in problem.what and "drive gains" in str(problem.do) and "--" not in problem.do
