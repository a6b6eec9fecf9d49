# SPDX-License-Identifier: Apache-2.0

"""Recordings for tests of identification: simulated by MuJoCo, and the real TX-40 where it is at hand."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("DYNID_DATA", ROOT.parent / "shared" / "data"))
TX40 = Path(os.environ.get("DYNID_TX40", DATA / "tx40"))


def study(name: str = "study_error_bars") -> Any:
    """Return a module of bench/, which simulates."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@functools.cache
def simulated_truth() -> tuple[Robot, Any]:
    """Return the robot demo6 and true standard parameters that its a priori ones do not tell."""
    robot = load_robot("demo6")
    chi = true_parameters(robot, 1)
    chi[13 : 14 * robot.n : 14] = 0.3
    return robot, chi


@functools.cache
def clean_motion(seed: int = 100, load: tuple[float, ...] = (), seconds: float = 12.0) -> Any:
    """Return t, q, tau simulated by MuJoCo, with ten more parameters of a load on the last link if given."""
    pytest.importorskip("mujoco")
    robot, chi = simulated_truth()
    if load:
        chi = chi.copy()
        chi[14 * robot.n - 14 : 14 * robot.n - 4] += np.array(load)
    return study().simulate(robot, chi, seed, seconds)


def simulated(seed: int = 0, seed_motion: int = 100, **motion: Any) -> Samples:
    """Return a recording with rounded positions and noisy torques; seed: of the noise."""
    robot, _ = simulated_truth()
    return study().recorded(clean_motion(seed_motion, **motion), np.random.default_rng(seed), robot.active_names)


@functools.cache
def tx40() -> tuple[Robot, Samples]:
    """Return the TX-40 of the URDF, with the coupling of joints 5 and 6, and its recording; skip without it."""
    if not (TX40 / "tx40_traj.npz").is_file():
        pytest.skip("the TX-40 recording is not here (set DYNID_TX40)")
    from ros2_dynid.model.robot import Coupling

    bare = load_robot(TX40 / "tx40.urdf")
    robot = Robot(
        bare.name,
        bare.joints,
        bare.gravity,
        bare.base,
        bare.tools,
        (Coupling(6, {5: 1.0, 6: 1.0}),),
        parameters=bare.parameters,
    )
    with np.load(TX40 / "tx40_traj.npz") as data:
        samples = Samples(data["t"], robot.active_names, data["q"], tau=data["tau"], source="tx40")
    return robot, samples
