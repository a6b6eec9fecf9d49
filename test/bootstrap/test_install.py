"""What colcon and pip install, tried in the environment at hand and without its long parts."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from ros2_dynid.version import __version__

ROOT = Path(__file__).parents[2]
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
NODES = ("excitation", "recorder", "identification", "feedforward", "sim_robot")


def run(*command: str | Path, **variables: str) -> str:
    """Run a program outside the checkout and return its output."""
    env = {**os.environ, **variables}
    done = subprocess.run(
        [str(item) for item in command], env=env, cwd="/", capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, since builds leave files in the source folder."""
    copy = tmp_path_factory.mktemp("source") / "ros2_dynid"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "install", "log"))
    return copy


def test_there_is_one_version() -> None:
    package = ElementTree.parse(ROOT / "package.xml")
    assert package.findtext("version") == __version__


def test_every_interface_is_listed_for_cmake() -> None:
    listed = set(re.findall(r"^\s+(\w+/\w+\.(?:msg|srv|action))$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    there = {f"{kind}/{file.name}" for kind in ("msg", "srv", "action") for file in (ROOT / kind).glob(f"*.{kind}")}
    assert listed == there


def test_pip_installs_core_and_command(source: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    run(*pip, "--ignore-installed", "--prefix", tmp_path, source)
    found = tmp_path / SITE
    assert (found / "ros2_dynid/py.typed").exists()
    for file in (ROOT / "config").rglob("*.yaml"):
        assert (tmp_path / "share/ros2_dynid" / file.relative_to(ROOT)).exists()
    assert __version__ in run(tmp_path / "bin/dynid", "--version", PYTHONPATH=str(found))


def test_cmake_installs_code_and_launchers(source: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("rclpy") is None:
        pytest.skip("needs ROS: run it with ./dynid test")
    prefix = os.environ.get("CMAKE_PREFIX_PATH") or sys.prefix
    run("cmake", "-S", source, "-B", tmp_path / "build", f"-DPython3_EXECUTABLE={sys.executable}",
        CMAKE_PREFIX_PATH=prefix)  # fmt: skip
    run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "prefix", "--component", "code")
    site = next((tmp_path / "prefix/lib").glob("python*/*-packages"))
    assert (site / "ros2_dynid/cli.py").exists()
    assert (tmp_path / "prefix/share/ros2_dynid/config").is_dir()
    launchers = tmp_path / "prefix/lib/ros2_dynid"
    assert {file.name for file in launchers.iterdir()} == {*NODES, "dynid"}
    generated = os.environ["PYTHONPATH"]
    assert __version__ in run(launchers / "dynid", "--version", PYTHONPATH=f"{site}{os.pathsep}{generated}")
    for node in NODES:
        module = re.search(r"^from (\S+) import main$", (launchers / node).read_text(), re.MULTILINE)
        assert module is not None
        package = site / module.group(1).replace(".", "/")
        assert (package / "__main__.py").is_file()
        assert "\ndef main(" in (package / "node.py").read_text()


def test_generated_interfaces_join_the_code() -> None:
    pytest.importorskip("rclpy")
    from ros2_dynid.action import Identify
    from ros2_dynid.msg import BaseParameters, MdhJoint

    message = BaseParameters(joints=[MdhJoint(name="j1", sigma=MdhJoint.PRISMATIC)], covariance=[1.0])
    result = Identify.Result(parameters=message)
    assert result.parameters.joints[0].sigma == 1
    assert list(result.parameters.covariance) == [1.0]
