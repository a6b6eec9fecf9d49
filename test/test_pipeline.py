# SPDX-License-Identifier: Apache-2.0

"""The pipeline as a whole: what it refuses, and that every parameter set of the model is the one that was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
from ros2_dynid.recording.samples import Samples
from ros2_dynid.usecases.robot_source import RobotSource, load_robot_or_model

FILES = ("model.yaml", "data.npz", "summary.json", "report.html")


SOME = Samples(np.zeros(1), ("a",), np.zeros((1, 1)))


@pytest.fixture(scope="module")
def robot():
    return load_robot("demo6")


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_a_result_replaces_a_recording_or_what_is_to_stay(tmp_path, robot, name):
    (tmp_path / name).write_text("a recording")
    for given in ({"recordings": [tmp_path / name]}, {"recordings": ["a"], "validate": [str(tmp_path / name)]}):
        with pytest.raises(InputError, match="this is an input of the command"):
            pipeline.identify(robot, **given, output=tmp_path, overwrite=True)
    with pytest.raises(InputError, match="this exists already"):
        pipeline.identify(robot, ["a"], output=tmp_path)
    with pipeline.reserved_output(tmp_path, ["a", SOME], overwrite=True) as target:
        assert target == tmp_path / "model.yaml"
    assert (tmp_path / name).read_text() == "a recording"


def test_a_result_may_go_nowhere_but_it_needs_a_recording(tmp_path, robot):
    with pipeline.reserved_output(None, [SOME], overwrite=False) as target:
        assert target is None
    with pytest.raises(InputError, match="there is no recording"):
        pipeline.identify(robot, [], output=tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_robot_has_the_gravity_and_the_chain_asked_for(robot):
    same, chi = load_robot_or_model(RobotSource("demo6"))
    assert np.array_equal(chi, standard_vector(robot)) and np.array_equal(same.gravity, robot.gravity)
    turned, chi = load_robot_or_model(RobotSource("demo6", gravity=(9.81, 0.0, 0.0)))
    assert not np.array_equal(turned.gravity, robot.gravity) and np.array_equal(chi, standard_vector(turned))
    urdf, hold = Path(__file__).parents[1] / "config/robots/demo6.urdf", {robot.active_names[-1]: 0.5}
    held, chi = load_robot_or_model(RobotSource(str(urdf), hold=hold))
    expected = load_robot(urdf, hold=hold)
    assert held.active_names == robot.active_names[:-1] and np.array_equal(chi, standard_vector(expected))


OPTIONS = IdentifyOptions(
    essential=True, standard=True, consistent=True, friction="viscous+coulomb", prior="none", checks=False
)


@pytest.fixture(scope="module")
def demo():
    return load_robot("demo3")


@pytest.fixture(scope="module")
def halves(demo, tmp_path_factory):
    """Return the two halves of a noisy recording."""
    folder = tmp_path_factory.mktemp("recorded")
    samples = load_samples(folder / recorded_motion(folder, demo), demo)
    noise = 1.5 * np.random.default_rng(0).standard_normal(samples.tau.shape)
    samples = replace(samples, tau=samples.tau + noise)
    return samples.take(samples.t < 4.0), samples.take(samples.t >= 4.0)


def test_a_model_gives_the_parameters_asked_for_and_keeps_its_gravity(demo, halves, tmp_path):
    pipeline.identify(demo, halves[:1], options=replace(OPTIONS, cross_validate=0), output=tmp_path)
    model = load_model(tmp_path)
    chi = {
        "served": model.chi, "base": model.chi_of(model.value), "standard": standard_vector(demo, model.standard),
        "consistent": standard_vector(demo, model.consistent),
    }  # fmt: skip
    for use, expected in chi.items():
        found, values = load_robot_or_model(RobotSource(str(tmp_path), gravity=tuple(demo.gravity)), use)
        np.testing.assert_array_equal(values, expected)
        assert found.active_names == demo.active_names
    for k in range(3):
        with pytest.raises(InputError, match=r"identified with gravity \[.*\]; base parameters hold for one mounting"):
            load_robot_or_model(RobotSource(str(tmp_path), gravity=tuple(demo.gravity + 0.1 * np.eye(3)[k])))
