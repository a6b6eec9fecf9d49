# SPDX-License-Identifier: Apache-2.0

"""Robots with some 30 joints whose base floats, beside Pinocchio's free-flyer: python bench/bench_legged.py

For each URDF of example-robot-data: seconds to load it, to find its base parameters in closed form and to compile its
regressor; time and memory of 1,000 regressors from NumPy and from compiled code, and of a Python loop over
pin.computeJointTorqueRegressor, medians of interleaved repeats.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from ros2_dynid.base_parameters import base_parameters  # noqa: E402
from ros2_dynid.codegen.backend import fast_regressor  # noqa: E402
from ros2_dynid.dynamics.regressor import regressor  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from timing import interleaved  # noqa: E402

N = 1_000
ROBOTS = ("go2.urdf", "g1_29dof_rev_1_0.urdf", "talos_reduced.urdf")


def measure(urdf: Path) -> dict[str, float]:
    """Return seconds, and what they are for."""
    import pinocchio as pin

    began = time.perf_counter()
    robot = load_robot(urdf, floating_base=True)
    figures = {"joints": float(len(robot.drive_names)), "load": time.perf_counter() - began}
    began = time.perf_counter()
    figures["base parameters"] = float(len(base_parameters(robot, method="closed-form", groups=("inertial",))))
    figures["closed form"] = time.perf_counter() - began
    model = pin.buildModelFromUrdf(str(urdf), pin.JointModelFreeFlyer())
    data = model.createData()
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, N, robot.n))
    theirs = [pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)) for _ in range(N)]
    v, a = rng.normal(size=(2, N, model.nv))
    os.environ["DYNID_BACKEND"] = "compiled"  # by itself only from 2,000 samples on
    began = time.perf_counter()
    Y = fast_regressor(robot, q, dq, ddq)
    figures["compile"] = time.perf_counter() - began
    figures["megabytes"] = Y.nbytes / 1e6
    expected = regressor(robot, q, dq, ddq)
    if not np.abs(Y - expected).max() < 1e-9 * np.abs(expected).max():
        raise AssertionError("the compiled regressor differs from NumPy's; times mean nothing")

    def peer() -> None:
        for sample in zip(theirs, v, a, strict=True):
            pin.computeJointTorqueRegressor(model, data, *sample)

    seconds = interleaved(
        {
            "NumPy": lambda: regressor(robot, q, dq, ddq),
            "compiled": lambda: fast_regressor(robot, q, dq, ddq, out=Y),
            "Pinocchio": peer,
        },
        repeats=7,
    )
    return figures | {f"{name}, each": value / N for name, value in seconds.items()}


def main() -> None:
    """Print the figures of each robot."""
    import pinocchio

    folder = Path(pinocchio.__file__).parents[4] / "share" / "example-robot-data" / "robots"
    for name in ROBOTS:
        (urdf,) = folder.rglob(name)
        print(name)
        for what, value in measure(urdf).items():
            is_count = what in ("joints", "base parameters", "megabytes")
            print(f"  {what:20} {value:9.1f}" if is_count else f"  {what:20} {value * 1e6:9.1f} us")


if __name__ == "__main__":
    main()
