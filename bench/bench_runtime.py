# SPDX-License-Identifier: Apache-2.0

"""The C++ runtime beside Pinocchio's rnea and our generated C in one program: python bench/bench_runtime.py

Pinocchio's headers and libraries are those of the pin wheel; its headers need Eigen (libeigen3-dev).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from ros2_dynid.codegen.emit_c import emit_c  # noqa: E402
from ros2_dynid.codegen.program import chosen_parameters, program_of  # noqa: E402
from ros2_dynid.codegen.runtime_export import runtime_bytes  # noqa: E402
from ros2_dynid.dynamics.friction import frictionless  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import standard_vector  # noqa: E402

URDF = ROOT / "config" / "robots" / "demo6.urdf"


EIGEN = Path("/usr/include/eigen3")


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Return Pinocchio's time over ours, and the times of one inverse dynamics [s]."""
    with tempfile.TemporaryDirectory() as folder:
        times = _nanoseconds(Path(folder))
    ratios = {f"{name}_inverse_dynamics": times["pinocchio"] / times[name] for name in ("runtime", "generated")}
    return ratios, {f"inverse dynamics in C++, {name}": 1e-9 * time for name, time in times.items()}


def _nanoseconds(folder: Path) -> dict[str, float]:
    """Build the program in `folder`, run it, and return nanoseconds of one inverse dynamics by name."""
    import cmeel  # type: ignore[import-untyped]  # its folder is where pin has its C++ side

    if shutil.which("g++") is None or not EIGEN.is_dir():
        raise ImportError("Pinocchio's C++ side needs g++ and Eigen, libeigen3-dev")
    prefix = Path(cmeel.__file__).parents[1] / "cmeel.prefix"
    robot = load_robot(URDF)
    (folder / "arm.dynid").write_bytes(runtime_bytes(*frictionless(robot, standard_vector(robot))))
    program = program_of(robot, *chosen_parameters(robot, ["inertial", "rotor"]), name="arm", functions=("torque",))
    for name, text in emit_c(program).items():
        (folder / name).write_text(text)
    library = prefix / "lib"
    subprocess.run(["gcc", "-O3", "-c", "arm.c", "-o", "arm.o"], cwd=folder, check=True)
    command = [
        "g++",
        "-std=c++17",
        "-O3",
        "-DNDEBUG",
        f"-I{ROOT / 'include'}",
        f"-I{folder}",
        f"-I{prefix / 'include'}",
    ]
    command += ["-DBOOST_MPL_LIMIT_LIST_SIZE=30", "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30"]
    command += ["-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS", "-DPINOCCHIO_ENABLE_TEMPLATE_INSTANTIATION"]
    command += [f"-I{EIGEN}", str(ROOT / "bench" / "runtime.cpp"), "arm.o", f"-L{library}"]
    command += ["-lpinocchio_default", "-lpinocchio_parsers", f"-Wl,-rpath,{library}", "-o", "runtime"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./runtime", "arm.dynid", str(URDF)], check=True, capture_output=True, text=True, cwd=folder)
    error, ours, peer, code_time, _ = map(float, done.stdout.split())
    if not error < 1e-9:
        raise AssertionError(f"the torques differ by {error:.1e} relative; times mean nothing")
    return {"runtime": ours, "pinocchio": peer, "generated": code_time}


def main() -> None:
    """Print times and ratios."""
    ratios, seconds = measure()
    for name, time in seconds.items():
        print(f"{name:40} {1e9 * time:8.1f} ns")
    for name, ratio in ratios.items():
        print(f"{name:40} {ratio:8.2f} times Pinocchio's speed")


if __name__ == "__main__":
    main()
