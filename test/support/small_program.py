# SPDX-License-Identifier: Apache-2.0

"""A small generated program."""

from __future__ import annotations

import numpy as np

from ros2_dynid.codegen.program import (
    ProgramOptions,
    program_of,
)
from ros2_dynid.model.parameters import standard_names


def close(a, b, scale=1e-11):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and np.abs(a - b).max() <= scale * (1.0 + np.abs(b).max())


def small_program(robot, **options):
    chi = np.random.default_rng(3).uniform(0.5, 1.0, len(standard_names(robot)))
    return program_of(robot, standard_names(robot), chi, ProgramOptions(effort=1, **options))
