# SPDX-License-Identifier: Apache-2.0

"""The NumPy regressor of 10,000 samples against a Python loop over Pinocchio's, for a 6-joint arm.

python bench/bench_numpy_regressor.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "test" / "support")]

from oracle import pin_model  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.dynamics.regressor import regressor  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_names  # noqa: E402
from timing import interleaved  # noqa: E402

N = 10_000


def main() -> None:
    """Print the times and the ratios."""
    import pinocchio as pin

    robot = load_robot("puma560")
    model = pin_model(robot)
    data = model.createData()
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, N, robot.n))
    chi = rng.normal(size=len(standard_names(robot)))

    def loop(function):
        for sample in zip(q, dq, ddq, strict=True):
            function(model, data, *sample)

    seconds = interleaved(
        {
            "regressor, Pinocchio in a Python loop": lambda: loop(pin.computeJointTorqueRegressor),
            "regressor, NumPy batch": lambda: regressor(robot, q, dq, ddq),
            "torque, Pinocchio in a Python loop": lambda: loop(pin.rnea),
            "torque, NumPy batch": lambda: inverse_dynamics(robot, chi, q, dq, ddq),
        }
    )
    for name, time in seconds.items():
        print(f"{name:40} {time * 1e3:8.1f} ms for {N} samples")
    times = list(seconds.values())
    print(f"ratios (Pinocchio's time over ours): regressor {times[0] / times[1]:.2f}, torque {times[2] / times[3]:.2f}")


if __name__ == "__main__":
    main()
