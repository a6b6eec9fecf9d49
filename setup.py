# SPDX-License-Identifier: Apache-2.0

"""`pip install`: launch and config files and the ament index marker (resource/), where ROS looks for them.

The rest is in pyproject.toml. In a ROS workspace CMakeLists.txt installs all: it generates the interfaces too.
"""

from pathlib import Path

from setuptools import setup

SHARE = "share/ros2_dynid"

folders = [
    Path("launch"),
    Path("config"),
    *sorted(path for path in Path("config").glob("**/") if path != Path("config")),
]

setup(
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/ros2_dynid"]),
        (SHARE, ["package.xml"]),
        *((f"{SHARE}/{folder}", [str(file) for file in folder.iterdir() if file.is_file()]) for folder in folders),
    ],
)
