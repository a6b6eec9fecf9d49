# SPDX-License-Identifier: Apache-2.0

"""Generated dynamics compared with Pinocchio, 6 joints, medians of interleaved repeats: python bench/bench_dynamics.py

torque_call: one torque from Python against pin.rnea; torque_batch: 10,000 torques against a Python loop over pin.rnea,
and torque_batch_parallel against pin.rneaInParallel on two threads; regressor_batch: 10,000 regressors against a Python
loop over pin.computeJointTorqueRegressor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from ros2_dynid.codegen.backend import fast_inverse_dynamics, fast_regressor, torque_function  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_names, standard_vector  # noqa: E402
from timing import interleaved  # noqa: E402

N = 10_000
CALLS = 2_000
URDF = ROOT / "config" / "robots" / "demo6.urdf"


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Return the ratios, peer's time over ours, and the times [s] of one sample."""
    import pinocchio as pin

    robot = load_robot(URDF)
    model = pin.buildModelFromUrdf(str(URDF))
    data = model.createData()
    pool = pin.ModelPool(model, 2)
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, N, robot.n))
    chi = np.array(
        [
            0.0 if name[:2] in ("Fv", "Fc") else x
            for name, x in zip(standard_names(robot), standard_vector(robot), strict=True)
        ]
    )
    ours = torque_function(robot, chi)
    tau = np.array([pin.rnea(model, data, *sample) for sample in zip(q, dq, ddq, strict=True)])
    error = np.abs(fast_inverse_dynamics(robot, chi, q, dq, ddq) - tau).max() / np.abs(tau).max()
    if not error < 1e-9:
        raise AssertionError(f"our torque differs from Pinocchio's by {error:.1e} relative; times mean nothing")
    columns = [np.asfortranarray(x.T) for x in (q, dq, ddq)]
    out = np.asfortranarray(tau.T)
    Y = fast_regressor(robot, q, dq, ddq)
    call, rnea, one = ours.torque, pin.rnea, (q[0].copy(), dq[0].copy(), ddq[0].copy())

    def calls() -> None:
        a, b, c = one
        for _ in range(CALLS):
            call(a, b, c)

    def peer_calls() -> None:
        a, b, c = one
        for _ in range(CALLS):
            rnea(model, data, a, b, c)

    def loop(function: Callable[..., object]) -> Callable[[], None]:
        def run() -> None:
            for a, b, c in zip(q, dq, ddq, strict=True):
                function(model, data, a, b, c)

        return run

    seconds = interleaved(
        {
            "torque_call": calls,
            "torque_call_peer": peer_calls,
            "torque_batch": lambda: ours.torques(q, dq, ddq),
            "torque_batch_peer": loop(pin.rnea),
            "torque_batch_parallel_peer": lambda: pin.rneaInParallel(2, pool, *columns, out),
            "regressor_batch": lambda: fast_regressor(robot, q, dq, ddq, out=Y),
            "regressor_batch_peer": loop(pin.computeJointTorqueRegressor),
        },
        repeats=21,
    )
    each = {name: time / (CALLS if "call" in name else N) for name, time in seconds.items()}
    ratios = {name: each[f"{name}_peer"] / each[name] for name in ("torque_call", "torque_batch", "regressor_batch")}
    ratios["torque_batch_parallel"] = each["torque_batch_parallel_peer"] / each["torque_batch"]
    return ratios, each


def main() -> None:
    """Print times and ratios."""
    ratios, seconds = measure()
    for name, time in seconds.items():
        print(f"{name:28} {time * 1e9:9.1f} ns")
    for name, ratio in ratios.items():
        print(f"{name:28} {ratio:9.1f} times faster than the peer")


if __name__ == "__main__":
    main()
