# SPDX-License-Identifier: Apache-2.0

"""The launch files where launch and launch_ros are installed and this package is in the ament index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("launch_ros")
index = pytest.importorskip("ament_index_python.packages")

ROOT = Path(__file__).parents[2]
LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
included = IncludeLaunchDescription(sys.argv[1], launch_arguments=[text.split(":=") for text in sys.argv[2:]])
service = LaunchService(noninteractive=True)
service.include_launch_description(LaunchDescription([included]))
sys.exit(service.run())
"""


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("offline.launch.py", ("robot:=nonesuch", "bag:=nothing"), "dynid identify failed; the lines before say why"),
        ("demo.launch.py", ("robot:=nonesuch",), "there is no file 'nonesuch'"),
        ("identify.launch.py", ("robot:=nonesuch",), "there is no file 'nonesuch'"),
    ],
)
def test_what_cannot_work_ends_the_launch_with_one_line_and_without_nodes(name, arguments, line, tmp_path):
    if not (Path(index.get_package_prefix("ros2_dynid")) / "lib" / "ros2_dynid" / "dynid").is_file():
        pytest.skip("the programs of ros2_dynid are not installed: colcon build")
    run = subprocess.run(
        [sys.executable, "-c", LAUNCH, ROOT / "launch" / name, *arguments],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, env={**os.environ, "ROS_LOG_DIR": str(tmp_path)},
    )  # fmt: skip
    said = run.stdout + run.stderr
    assert run.returncode == 1 and line in said and "Traceback" not in said
    assert said.count("process started") == (name == "offline.launch.py"), "no node was started"
