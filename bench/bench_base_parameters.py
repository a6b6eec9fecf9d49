# SPDX-License-Identifier: Apache-2.0

"""Base parameters compared with the usual way, medians of interleaved repeats: python bench/bench_base_parameters.py

The peer is what scripts around Pinocchio do: a loop over pin.computeJointTorqueRegressor at random points, QR without
pivoting by SciPy, and beta from a second QR. It has inertial columns only, so ours are measured with the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import scipy.linalg

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "test" / "support")]

from oracle import pin_model, random_robot  # noqa: E402
from ros2_dynid.base_parameters import base_parameters  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.robot import Robot  # noqa: E402
from timing import interleaved  # noqa: E402

INERTIAL = ("inertial",)


def peer(robot: Robot, samples: int) -> int:
    """Return the number of base parameters as Pinocchio and SciPy find it."""
    import pinocchio as pin

    model = pin_model(robot)
    data = model.createData()
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-3.0, 3.0, (3, samples, robot.n))
    W = np.vstack(
        [pin.computeJointTorqueRegressor(model, data, *sample).copy() for sample in zip(q, dq, ddq, strict=True)]
    )
    W = W[:, np.abs(W).max(axis=0) > 1e-9]
    R = scipy.linalg.qr(W, mode="r")[0]
    diagonal = np.abs(np.diagonal(R))
    keep = diagonal > 1e-9 * diagonal.max()
    _, again = np.linalg.qr(np.hstack((W[:, keep], W[:, ~keep])))
    b = int(keep.sum())
    scipy.linalg.solve_triangular(again[:b, :b], again[:b, b:])
    return b


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Return the ratios, peer's time over ours, and the times [s]."""
    puma = load_robot("puma560")
    tree = random_robot(np.random.default_rng(30), 30, tree=True)
    seconds = {}
    for name, robot, repeats in (("6 joints", puma, 25), ("30-joint tree", tree, 7)):
        count = len(base_parameters(robot, groups=INERTIAL))
        found = peer(robot, 40)
        if found != count:
            print(f"{name}: the peer counts {found} base parameters, ours {count}")
        times = interleaved(
            {
                "peer": lambda robot=robot: peer(robot, 40),
                "qr": lambda robot=robot: base_parameters(robot, groups=INERTIAL),
                "svd": lambda robot=robot: base_parameters(robot, method="svd", groups=INERTIAL),
                "energy": lambda robot=robot: base_parameters(robot, source="energy", groups=INERTIAL),
                "closed form": lambda robot=robot: base_parameters(robot, method="closed-form", groups=INERTIAL),
                "qr, all groups": lambda robot=robot: base_parameters(robot),
                "closed form, all groups": lambda robot=robot: base_parameters(robot, method="closed-form"),
            },
            repeats,
        )
        seconds |= {f"{name}: {way}": t for way, t in times.items()}
    ratios = {
        f"{name}, {way}": seconds[f"{name}: peer"] / seconds[f"{name}: {way}"]
        for name in ("6 joints", "30-joint tree")
        for way in ("qr", "closed form")
    }
    return ratios, seconds


def main() -> None:
    """Print the times and the ratios."""
    ratios, seconds = measure()
    for name, t in seconds.items():
        print(f"{name:45s} {1e3 * t:9.2f} ms")
    for name, ratio in ratios.items():
        print(f"peer over ours, {name:29s} {ratio:9.2f}")


if __name__ == "__main__":
    main()
