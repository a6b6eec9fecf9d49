# SPDX-License-Identifier: Apache-2.0

"""A whole identification, of little data: every figure of the outcome is that of the set and of the rows it is of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import recorded_motion
from ros2_dynid import pipeline
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.read import load_samples
from ros2_dynid.usecases.robot_source import RobotSource, load_robot_or_model

OPTIONS = IdentifyOptions(
    essential=True, standard=True, consistent=True, friction="viscous+coulomb", prior="none", checks=False
)


@pytest.fixture(scope="module")
def robot():
    return load_robot("demo3")


@pytest.fixture(scope="module")
def halves(robot, tmp_path_factory):
    """Return the two halves of a noisy recording."""
    folder = tmp_path_factory.mktemp("recorded")
    samples = load_samples(folder / recorded_motion(folder, robot), robot)
    noise = 1.5 * np.random.default_rng(0).standard_normal(samples.tau.shape)
    samples = replace(samples, tau=samples.tau + noise)
    return samples.take(samples.t < 4.0), samples.take(samples.t >= 4.0)


def test_a_model_gives_the_parameters_asked_for_and_keeps_its_gravity(robot, halves, tmp_path):
    pipeline.identify(robot, halves[:1], options=replace(OPTIONS, cross_validate=0), output=tmp_path)
    model = load_model(tmp_path)
    chi = {
        "served": model.chi, "base": model.chi_of(model.value), "standard": standard_vector(robot, model.standard),
        "consistent": standard_vector(robot, model.consistent),
    }  # fmt: skip
    for use, expected in chi.items():
        found, values = load_robot_or_model(RobotSource(str(tmp_path), gravity=tuple(robot.gravity)), use)
        np.testing.assert_array_equal(values, expected)
        assert found.active_names == robot.active_names
    for k in range(3):
        with pytest.raises(InputError, match=r"identified with gravity \[.*\]; base parameters hold for one mounting"):
            load_robot_or_model(RobotSource(str(tmp_path), gravity=tuple(robot.gravity + 0.1 * np.eye(3)[k])))
