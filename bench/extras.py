# SPDX-License-Identifier: Apache-2.0

"""The distribution in empty environments: sdist and wheel, the wheel alone, and each extra alone.

    python bench/extras.py [EXTRA ...] [--data FOLDER]

Each environment has only what pip installs for it, no compiler and no ROS; what it must do is in USES. Nothing is
written outside a temporary folder. FOLDER holds robot.urdf and run.db3, to be identified without a compiler.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
USES = {
    "": "import ros2_dynid",
    "bags": "import rosbags, ros2_dynid.recording.bag.definitions as d; d.describe('geometry_msgs/msg/WrenchStamped')",
    "data": "import h5py, pyarrow.parquet",
    "sim": "import mujoco, ros2_dynid as dynid; robot = dynid.load_robot('demo6')",
    "collision": "import coal",
    "fleet": "import distributed, fsspec, ros2_dynid.fleet",
    "preview": "import collada, ros2_dynid.preview",
    "panel": "import ros2_dynid.preview.panel_server",
    "nodes": "import rclpy, mujoco, rosbags, ros2_dynid.preview.panel_server",
    "all": "import aiohttp, mujoco, coal, distributed, collada, rosbags, h5py, pyarrow",
}
"""Python that must run in an environment with only this extra."""


def run(*command: str | Path, cwd: Path) -> None:
    """Run a command without the variables, the compilers and the ROS of this machine."""
    environment = {"PATH": str(Path(command[0]).parent), "HOME": str(cwd), "LANG": "C.UTF-8"}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Build, install and use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=list(USES), metavar="EXTRA", help='"" is the wheel alone')
    parser.add_argument("--data", type=Path, help="folder with robot.urdf and run.db3")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "build", "-o", folder, CHECKOUT], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *folder.glob("ros2_dynid-*")], check=True)
        wheel = next(folder.glob("*.whl"))
        for extra in args.extras:
            place = folder / (extra or "alone")
            venv.create(place, with_pip=True)
            python = place / "bin" / "python"
            run(python, "-m", "pip", "install", "-q", f"{wheel}[{extra}]" if extra else wheel, cwd=folder)
            run(python, "-c", USES[extra], cwd=folder)
            dynid = place / "bin" / "dynid"
            run(dynid, "base", "demo6", cwd=folder)
            if args.data is not None:
                result = folder / f"result_{extra}"
                run(dynid, "identify", args.data / "robot.urdf", args.data / "run.db3", "-o", result, cwd=folder)
                run(dynid, "report", result, cwd=folder)
                run(dynid, "export", result / "model.yaml", "--to", "numpy", "-o", result / "numpy", cwd=folder)
            print(f"{extra or 'wheel alone'}: installed and used", flush=True)


if __name__ == "__main__":
    main()
