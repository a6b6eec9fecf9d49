# SPDX-License-Identifier: Apache-2.0

"""Held-out errors on published recordings, beside those of FIGAROH's least squares: docs/comparison.md.

    python bench/beside_figaroh.py --data ../shared/data

The split, the band and the rows are those of bench/real_robots.py. FIGAROH (PyPI, 1.0) gets the same positions, which
are low-passed and differentiated; regressor and torque pass the same low-pass at 4 Hz and are decimated, and its base
parameters with Fv, Fc, Ia and offset are fitted by weighted least squares. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import signal

from real_robots import BAND, LAWS, Set, held_out_errors, sets
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.robot import Array
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import Samples

NAMES = ("ur10", "panda30")
"""Sets that have a URDF and no coupled motors."""


def motion_of(samples: Samples) -> tuple[float, Array, Array, Array, Array]:
    """Return rate [Hz], q, dq, ddq and tau (N, n) on an even grid, as held_out_errors prepares them."""
    rate = 1.0 / float(np.mean(np.diff(samples.t)))
    t = samples.t[0] + np.arange(len(samples)) / rate
    assert samples.tau is not None
    q, tau = (np.column_stack([np.interp(t, samples.t, x) for x in array.T]) for array in (samples.q, samples.tau))
    q = signal.sosfiltfilt(signal.butter(4, min(5.0 * BAND, 0.3 * rate), fs=rate, output="sos"), q, axis=0)
    dq = np.gradient(q, 1.0 / rate, axis=0)
    return rate, q, dq, np.gradient(dq, 1.0 / rate, axis=0), tau


def figaroh_error(one: Set, urdf: Path) -> tuple[float, float]:
    """Return FIGAROH's held-out error and the time of its fit [s]."""
    from figaroh.tools.qrdecomposition import QRDecomposer
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced, get_index_eliminate
    from figaroh.tools.robot import Robot

    robot = Robot(str(urdf), str(urdf.parent))
    n = robot.model.nv
    settings = {"has_friction": True, "has_actuator_inertia": True, "has_joint_offset": True, "is_joint_torques": True}
    settings |= {"is_external_wrench": False, "force_torque": None, "act_idxv": list(range(n))}
    names = {f"p{k}": 0.0 for k in range(14 * n)}

    def rows(samples: Samples, decimated: bool) -> tuple[Array, Array, Array]:
        """Return the low-passed regressor (n N, columns), torques (n N,) and dq (N, n); one joint after the other."""
        rate, q, dq, ddq, tau = motion_of(samples)
        W = build_regressor_basic(robot, q, dq, ddq, settings).reshape(n, len(q), -1)
        band = signal.butter(4, BAND, fs=rate, output="sos")
        W, Y = (signal.sosfiltfilt(band, x, axis=1) for x in (W, tau.T))
        step = max(1, int(rate / (4.0 * BAND))) if decimated else 1
        return W[:, ::step].reshape(-1, W.shape[2]), Y[:, ::step].reshape(-1), dq[::step]

    begin = time.perf_counter()
    W, Y = (np.concatenate(parts) for parts in zip(*(rows(part, True)[:2] for part in one.fitted), strict=True))
    gone, left = get_index_eliminate(W, names, 1e-6)
    reduced = build_regressor_reduced(W, gone)
    W_b, *_ = QRDecomposer().double_decomposition(Y, reduced, left)
    value = np.linalg.lstsq(W_b, Y, rcond=None)[0]
    weight = np.repeat(1.0 / (Y - W_b @ value).reshape(n, -1).std(axis=1), len(Y) // n)
    value = np.linalg.lstsq(W_b * weight[:, None], Y * weight, rcond=None)[0]
    seconds = time.perf_counter() - begin
    columns = [int(np.argmin(np.abs(reduced - column[:, None]).max(axis=0))) for column in W_b.T]
    W, Y, dq = rows(one.held_out, False)
    predicted = (build_regressor_reduced(W, gone)[:, columns] @ value).reshape(n, -1).T
    measured = Y.reshape(n, -1).T
    rate = 1.0 / float(np.mean(np.diff(one.held_out.t)))
    slow = (np.abs(dq) <= 0.02 * np.max(np.abs(dq), axis=0)).astype(float)
    width, edge = max(1, round(rate / BAND)), int(0.5 * rate) + 1
    counted = np.column_stack([np.convolve(x, np.ones(width) / width, mode="same") for x in slow.T]) < 0.2
    counted[:edge] = counted[-edge:] = False
    return float(np.linalg.norm((measured - predicted) * counted) / np.linalg.norm(measured * counted)), seconds


def without_shapes(urdf: Path, folder: Path) -> Path:
    """Return a copy of a URDF without its meshes, which are not there and which FIGAROH insists on."""
    text = re.sub(r"<(visual|collision)\b.*?</\1>", "", urdf.read_text(), flags=re.DOTALL)
    (folder / "robot.urdf").write_text(text)
    return folder / "robot.urdf"


def main() -> None:
    """Print a row for each set."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    args = parser.parse_args()
    print("| robot | FIGAROH | ours, Fv and Fc alone | ours, by default |\n| --- | --- | --- | --- |")
    for one in sets(args.data):
        if one.name not in NAMES:
            continue
        with tempfile.TemporaryDirectory() as place:
            error, seconds = figaroh_error(one, without_shapes(args.data / one.name / "robot.urdf", Path(place)))
        cells = [f"{100 * error:.1f} %, {seconds:.1f} s"]
        for law in reversed(LAWS):
            with tempfile.TemporaryDirectory() as place:
                begin = time.perf_counter()
                identify(one.robot, one.fitted, options=IdentifyOptions(friction=law), output=Path(place) / "model")
                seconds = time.perf_counter() - begin
                held_out = held_out_errors(Path(place) / "model", one.robot, one.held_out)
            cells.append(f"{100 * held_out.all:.1f} %, {seconds:.1f} s")
        print(f"| {one.about} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
