# SPDX-License-Identifier: Apache-2.0

"""Identified models that come with the package: found by name, with error bars and their sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ros2_dynid as dynid
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import find_robot_file, shipped_models, shipped_robots
from ros2_dynid.recording.read import load_samples

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
README = (ROOT / "config/models/README.md").read_text()
TORQUE = sorted(set(shipped_models()) - {"so101_identified"})


def test_every_model_is_described_and_no_name_is_given_twice():
    assert len(shipped_models()) == 5
    for name, file in shipped_models().items():
        assert f"| `{name}` |" in README
        text = file.read_text()
        assert text.startswith("# ") and "Recording: " in text.splitlines()[1]
        assert "/tmp" not in text and "/home" not in text
    assert not set(shipped_models()) & set(shipped_robots())


@pytest.mark.parametrize("name", TORQUE)
def test_a_robot_by_the_name_of_a_model_has_its_torques(name):
    model, robot = dynid.load_model(name), dynid.load_robot(name)
    assert np.isfinite(model.std).sum() > 0.8 * len(model.std)
    held_out = model.validation["all"].relative
    assert f"{100 * held_out:.1f} %" in next(line for line in README.splitlines() if f"`{name}`" in line)
    q, dq, ddq = np.random.default_rng(1).uniform(-1.0, 1.0, (3, 20, len(robot.active)))
    assert robot.active_names == model.robot.active_names
    np.testing.assert_allclose(dynid.compute_torque(robot, q, dq, ddq), model.torque(q, dq, ddq), rtol=1e-9, atol=1e-9)


def test_the_servo_model_rolls_out():
    model, robot = dynid.load_model("so101_identified"), dynid.load_robot("so101_identified")
    assert model.servo is not None and robot.active_names == model.robot.active_names


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_the_ur10_explains_its_recording():
    model = dynid.load_model("ur10_identified")
    samples = load_samples(DATA / "ur10" / "run.db3", model.robot)
    # without accelerations, which were not recorded
    error = samples.tau - model.torque(samples.q, samples.dq, np.zeros_like(samples.q))
    assert np.linalg.norm(error) < 0.15 * np.linalg.norm(samples.tau)


def test_an_identified_file_is_a_robot_too_and_a_damaged_one_is_refused(tmp_path):
    text = find_robot_file("kr300_identified").read_text()
    (tmp_path / "model.yaml").write_text(text)
    assert dynid.load_robot(tmp_path / "model.yaml").parameters == dynid.load_robot("kr300_identified").parameters
    for damaged in (text.replace("robot:", "rabbit:", 1), text.replace("consistent: {XX1", "consistent: {XX9", 1)):
        (tmp_path / "model.yaml").write_text(damaged)
        with pytest.raises(InputError, match=r"model\.yaml"):
            dynid.load_robot(tmp_path / "model.yaml")
    with pytest.raises(InputError, match="no shipped robot of that name"):
        dynid.load_robot("ur11_identified")
