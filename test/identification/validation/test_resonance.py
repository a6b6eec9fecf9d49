# SPDX-License-Identifier: Apache-2.0

"""Resonances of elastic drives, from recordings with one encoder of two masses that SciPy integrates."""

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.pipeline import identify
from two_masses import INERTIA, recording

PENDULUM = Robot("pendulum", (Joint("j", 0, alpha=np.pi / 2),))


def remarks(seed, k):
    samples, _ = recording(seed, k)
    found = identify(PENDULUM, [replace(samples, q=samples.q_m, q_m=None)])
    return [remark.text for remark in found.outcome.verdict if "resonance" in remark.text]


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_an_elastic_drive_is_named_with_the_frequency_of_its_link_on_the_spring(seed):
    (text,) = remarks(seed, 1000.0)
    assert "what the model leaves" in text and "times its surroundings" in text
    frequency = float(text.partition("j at ")[2].partition(" Hz")[0])
    assert frequency == pytest.approx(np.sqrt(1000.0 / INERTIA) / (2.0 * np.pi), rel=0.15)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_stiff_drive_is_not_called_elastic(seed):
    assert remarks(seed, 4e5) == []
