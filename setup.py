"""Files outside the Python package, in the places where a ROS installation has them; the rest is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

SHARE = "share/ros2_dynid"

config = [
    (f"{SHARE}/{folder}", [str(file) for file in folder.iterdir() if file.is_file()])
    for folder in [Path("config"), *Path("config").glob("**/")]
]

setup(
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/ros2_dynid"]),
        (SHARE, ["package.xml"]),
        *config,
    ],
)
