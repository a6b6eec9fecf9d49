# SPDX-License-Identifier: Apache-2.0

"""Identification compared with FIGAROH, medians of interleaved repeats: python bench/bench_identify.py [memory]

Regressor, base parameters and weighted least squares of 10,000 samples of 6 joints with friction. FIGAROH makes the
regressor and the base parameters; its own weighted least squares needs a square matrix of all rows (29 GB here), so the
rows are weighted and solved with NumPy instead, which is in its favour. Both recover the true parameters, or the
benchmark refuses. With `memory`: the growth of each one's largest resident size, in a process of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from ros2_dynid.codegen.backend import fast_regressor  # noqa: E402
from ros2_dynid.dynamics.newton_euler import inverse_dynamics  # noqa: E402
from ros2_dynid.identification.estimators.estimator import identify_arrays  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_vector  # noqa: E402
from timing import interleaved  # noqa: E402

N = 10_000
URDF = ROOT / "config" / "robots" / "demo6.urdf"
NOISE = 0.05


def problem() -> tuple[Any, ...]:
    """Return robot, motion and torque with friction and noise, and the true standard parameters."""
    robot = load_robot(URDF)
    rng = np.random.default_rng(0)
    chi = standard_vector(robot)
    chi[10 : 14 * robot.n : 14] = 0.3
    chi[11 : 14 * robot.n : 14], chi[12 : 14 * robot.n : 14] = 2.0, 1.0
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, N, robot.n))
    tau = inverse_dynamics(robot, chi, q, dq, ddq)
    return robot, q, dq, ddq, tau + NOISE * rng.standard_normal(tau.shape), chi


def figaroh_function(q: np.ndarray, dq: np.ndarray, ddq: np.ndarray, tau: np.ndarray) -> Any:
    """Return the peer's way through the same work: torque predicted by its base parameters."""
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced, get_index_eliminate
    from figaroh.tools.robot import Robot

    robot = Robot(str(URDF), str(URDF.parent))
    settings = {"has_friction": True, "has_actuator_inertia": True, "has_joint_offset": True, "is_joint_torques": True}
    settings |= {"is_external_wrench": False, "force_torque": None, "act_idxv": list(range(robot.model.nv))}
    names = {f"p{k}": 0.0 for k in range(14 * robot.model.nv)}
    stacked = tau.T.reshape(-1)

    def run() -> np.ndarray:
        W = build_regressor_basic(robot, q, dq, ddq, settings)
        gone, left = get_index_eliminate(W, names, 1e-6)
        W = build_regressor_reduced(W, gone)
        W_b, *_ = QRDecomposer().double_decomposition(stacked, W, left)
        value = np.linalg.lstsq(W_b, stacked, rcond=None)[0]
        error = (stacked - W_b @ value).reshape(tau.shape[1], -1)
        weight = np.repeat(1.0 / error.std(axis=1), N)
        value = np.linalg.lstsq(W_b * weight[:, None], stacked * weight, rcond=None)[0]
        return W_b @ value

    return run


def measure(repeats: int = 5) -> tuple[dict[str, float], dict[str, float]]:
    """Return the ratio, peer's time over ours, and both times [s]."""
    robot, q, dq, ddq, tau, chi = problem()
    fast_regressor(robot, q, dq, ddq)  # built before the clock starts, as on every run but a robot's first
    base, found = identify_arrays(robot, q, dq, ddq, tau)
    z = np.abs(found.value - base.values(robot, chi)) / found.std
    if not np.mean(z < 3.0) > 0.95:
        raise AssertionError("our estimate misses the truth; times mean nothing")
    peer = figaroh_function(q, dq, ddq, tau)
    error = np.linalg.norm(peer() - tau.T.reshape(-1)) / np.sqrt(tau.size)
    if not error < 1.1 * NOISE:
        raise AssertionError(f"the peer's torque is off by {error:.3g} N.m; times mean nothing")
    seconds = interleaved(
        {"identify": lambda: identify_arrays(robot, q, dq, ddq, tau), "identify_figaroh": peer}, repeats
    )
    return {"identify": seconds["identify_figaroh"] / seconds["identify"]}, seconds


def memory(which: str) -> float:
    """Return the growth of this process's largest resident size [MB] by one identification."""
    robot, q, dq, ddq, tau, _ = problem()
    small = slice(0, 300)
    if which == "ours":
        fast_regressor(robot, q[:2000], dq[:2000], ddq[:2000])
        identify_arrays(robot, q[small], dq[small], ddq[small], tau[small])
        function = lambda: identify_arrays(robot, q, dq, ddq, tau)  # noqa: E731
    else:
        function = figaroh_function(q, dq, ddq, tau)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"] and len(sys.argv) == 3:
        print(f"{memory(sys.argv[2]):.1f}")
    elif sys.argv[1:] == ["memory"]:
        for name in ("ours", "figaroh"):
            done = subprocess.run(
                [sys.executable, __file__, "memory", name], capture_output=True, text=True, check=True
            )
            print(f"{name}: +{done.stdout.strip().splitlines()[-1]} MB")
    else:
        print(*measure())
