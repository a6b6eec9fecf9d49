# SPDX-License-Identifier: Apache-2.0

"""What colcon and pip install, tried in the environment at hand and without its long parts."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from pathlib import Path

import pytest
import yaml

from ros2_dynid.version import __version__

ROOT = Path(__file__).parents[2]
SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
NODES = (
    "excitation",
    "recorder",
    "identification",
    "feedforward",
    "sim_robot",
    "panel",
    "payload_bridge",
    "guard",
    "wrist_sensor",
)


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


def test_the_changelog_is_one_that_release_tools_read() -> None:
    changelog = pytest.importorskip("catkin_pkg.changelog").get_changelog_from_path(str(ROOT), "ros2_dynid")
    versions = [version for version, _, _ in changelog.foreach_version()]
    assert versions and (versions[0] == __version__ or "\nForthcoming\n---" in changelog.rst)


def test_every_interface_is_listed_for_cmake() -> None:
    listed = set(re.findall(r"^\s+(\w+/\w+\.(?:msg|srv|action))$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    there = {f"{kind}/{file.name}" for kind in ("msg", "srv", "action") for file in (ROOT / kind).glob(f"*.{kind}")}
    assert listed == there


@pytest.fixture(scope="module")
def distribution(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist, and of the wheel built from it."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source)
    return folder


@pytest.fixture(scope="module")
def installed(distribution: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with all that is installed here but rclpy."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    borrowed = folder.parent / "borrowed"
    borrowed.mkdir()
    for item in Path(yaml.__file__).parents[1].iterdir():
        if not item.name.startswith(("rclpy", "ros2_dynid")) and item.suffix != ".pth":
            (borrowed / item.name).symlink_to(item)
    (folder / SITE / "borrowed.pth").write_text(f"{borrowed}\n")
    (wheel,) = distribution.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", folder / "bin/python", "install",
        "--no-deps", "--no-index", "--ignore-installed", wheel)  # fmt: skip
    return folder


def test_the_distribution_is_fit_for_an_index(distribution: Path) -> None:
    pytest.importorskip("twine")
    files = sorted(distribution.iterdir())
    assert [file.name.rpartition(".")[2] for file in files] == ["whl", "gz"]
    assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == 2


def test_the_wheel_has_every_file_that_the_code_reads(distribution: Path) -> None:
    (wheel,) = distribution.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    listed = subprocess.run(["git", "ls-files", "ros2_dynid"], cwd=ROOT, capture_output=True, text=True)
    inside = listed.stdout.split() if listed.returncode == 0 else []
    inside = inside or [str(file.relative_to(ROOT)) for file in (ROOT / "ros2_dynid").rglob("*.*")]
    missing = [name for name in inside if (ROOT / name).is_file() and "__pycache__" not in name and name not in names]
    assert missing == []
    folders = [ROOT / "config", ROOT / "launch"]
    shared = [
        str(file.relative_to(ROOT)) for folder in folders for file in folder.rglob("*.*") if file.suffix != ".pyc"
    ]
    data = f"ros2_dynid-{__version__}.data/data/share/ros2_dynid"
    assert [name for name in shared if f"{data}/{name}" not in names] == []
    assert "Apache-2.0" in metadata
    for extra in ("sim", "collision", "fleet", "ros", "bench", "docs", "test", "all"):
        assert f"Provides-Extra: {extra}\n" in metadata


def test_the_installed_command_runs(installed: Path) -> None:
    clean = {"PYTHONPATH": "", "LD_LIBRARY_PATH": "", "AMENT_PREFIX_PATH": ""}
    where = run(installed / "bin/python", "-c", "import ros2_dynid.cli as cli; print(cli.__file__)", **clean)
    assert Path(where.strip()).is_relative_to(installed)
    assert "identify" in run(installed / "bin/dynid", "--help", **clean)
    assert len(json.loads(run(installed / "bin/dynid", "mdh", "demo6", "--json", **clean))["joints"]) == 6


def test_the_demo_without_ros_says_what_to_do(installed: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": "", "LD_LIBRARY_PATH": "", "AMENT_PREFIX_PATH": ""}
    command = [installed / "bin/dynid", "demo", "-o", tmp_path / "new"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.match(r"dynid demo: .*ROS 2.*; .*\./dynid demo", done.stderr)
    assert not (tmp_path / "new").exists()


def test_cmake_installs_code_and_launchers(source: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("rclpy") is None:
        pytest.skip("needs ROS: run it with ./dynid test")
    prefix = os.environ.get("CMAKE_PREFIX_PATH") or sys.prefix
    options = (f"-DPython3_EXECUTABLE={sys.executable}", "-DBUILD_TESTING=OFF")
    told = run(
        "cmake", "-S", source, "-B", tmp_path / "build", *options, "-DDYNID_CONTROLLERS=OFF", CMAKE_PREFIX_PATH=prefix
    )
    assert "controllers are left out: DYNID_CONTROLLERS is OFF" in told
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


@pytest.mark.parametrize(
    ("wanted", "installed", "code", "says"),
    [
        ("OFF", True, 0, "controllers are left out: DYNID_CONTROLLERS is OFF"),
        ("", False, 0, "CMake Warning.*controllers are left out: controller_interface is not installed"),
        ("ON", False, 1, "CMake Error.*controller_interface is not installed: install ros2_control"),
        ("", True, 1, "CMake Error.*installed but cannot be used: .*the hardware is missing; repair ros2_control"),
    ],
)
def test_cmake_says_why_controllers_are_left_out(
    tmp_path: Path, wanted: str, installed: bool, code: int, says: str
) -> None:
    fake = tmp_path / "fake" / "controller_interfaceConfig.cmake"
    fake.parent.mkdir()
    fake.write_text("set(controller_interface_FOUND FALSE)\nset(controller_interface_NOT_FOUND_MESSAGE "
                    '"the hardware is missing")\n')  # fmt: skip
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(ros2_dynid NONE)"]
    if installed:
        lines.append(f'set(controller_interface_DIR "{fake.parent}")')
    (tmp_path / "CMakeLists.txt").write_text("\n".join([*lines, f'include("{ROOT}/cmake/controllers.cmake")\n']))
    command = [
        shutil.which("cmake") or "cmake",
        "-S",
        tmp_path,
        "-B",
        tmp_path / "build",
        f"-DDYNID_CONTROLLERS={wanted}",
    ]
    command.append("-DCMAKE_FIND_USE_CMAKE_ENVIRONMENT_PATH=OFF")
    env = {key: value for key, value in os.environ.items() if key not in ("PATH", "CMAKE_PREFIX_PATH")}
    done = subprocess.run(command, env={**env, "PATH": os.defpath}, capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert re.search(says, " ".join((done.stdout + done.stderr).split()))


def test_package_xml_and_cmake_want_the_same_packages() -> None:
    package = ElementTree.parse(ROOT / "package.xml")
    depends = {item.text: item.get("condition") for item in package.iter("depend")}
    cmake = (ROOT / "cmake/controllers.cmake").read_text()
    wanted = {"controller_interface", *re.findall(r"foreach\(package ([^)]*)\)", cmake)[0].split()} - {"sensor_msgs"}
    assert {name for name, condition in depends.items() if condition == "$DYNID_CONTROLLERS != OFF"} == wanted
    always = set(re.findall(r"^find_package\((\w+) REQUIRED\)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    tools = {item.text for item in package.iter("buildtool_depend")}
    assert always == (tools | {name for name, condition in depends.items() if condition is None}) - {"sensor_msgs"}


def test_generated_interfaces_join_the_code() -> None:
    pytest.importorskip("rclpy")
    from ros2_dynid.action import Identify
    from ros2_dynid.msg import BaseParameters, MdhJoint

    message = BaseParameters(joints=[MdhJoint(name="j1", sigma=MdhJoint.PRISMATIC)], covariance=[1.0])
    result = Identify.Result(parameters=message)
    assert result.parameters.joints[0].sigma == 1
    assert list(result.parameters.covariance) == [1.0]
