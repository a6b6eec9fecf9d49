# SPDX-License-Identifier: Apache-2.0

"""The script `dynid`: what it prepares, when it does so again, what it says when something is missing."""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script() -> ModuleType:
    """The script as a module; it has no suffix."""
    module = ModuleType("dynid_script")
    module.__file__ = str(ROOT / "dynid")
    exec(compile((ROOT / "dynid").read_text(), module.__file__, "exec"), vars(module))
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout, in a folder with a space in its name."""
    folder = tmp_path / "my checkout"
    for name, text in {
        "msg/A.msg": "float64 a\n",
        "srv/B.srv": "---\n",
        "action/C.action": "---\n---\n",
        "CMakeLists.txt": "project(x)\n",
        "package.xml": "<package/>\n",
        "ros2_dynid/code.py": "x = 1\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    return folder


def test_python_3_8_can_read_the_script() -> None:
    ast.parse((ROOT / "dynid").read_text(), feature_version=(3, 8))


def test_requirements_are_those_that_pip_sees(script: ModuleType) -> None:
    tomllib = pytest.importorskip("tomllib")
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    assert script.requirements(text, "dependencies") == project["dependencies"]
    for name, listed in project["optional-dependencies"].items():
        assert script.requirements(text, name) == listed


def test_a_missing_list_is_refused(script: ModuleType) -> None:
    with pytest.raises(script.SetupError, match="no list 'sim'"):
        script.requirements("dependencies = [\n]\n", "sim")


def test_the_hash_follows_the_interfaces_only(script: ModuleType, checkout: Path) -> None:
    def now() -> str:
        return str(script.interface_hash(checkout, "environment"))

    seen = [now()]
    (checkout / "ros2_dynid/code.py").write_text("x = 2\n")
    assert now() == seen[0]
    (checkout / "msg/A.msg").write_text("float64 b\n")
    seen.append(now())
    (checkout / "msg/A.msg").rename(checkout / "msg/D.msg")
    seen.append(now())
    (checkout / "action/E.action").write_text("---\n---\n")
    seen.append(now())
    (checkout / "package.xml").write_text("<package>\n")
    seen.append(now())
    seen.append(str(script.interface_hash(checkout, "another environment")))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("version", "machine", "ros", "message"),
    [
        ((3, 8), "x86_64", None, r"Python 3\.8 is too old, 3\.10 to 3\.14 are supported.*python3\.12 dynid"),
        ((3, 9), "x86_64", "humble", r"Python 3\.9 is too old"),
        ((3, 15), "x86_64", None, r"no ROS 2 wheels for Python 3\.15.*source a ROS 2 installation"),
        ((3, 12), "aarch64", None, r"no ROS 2 wheels for aarch64.*pip install \."),
    ],
)
def test_unsupported_interpreters(
    script: ModuleType, version: tuple[int, int], machine: str, ros: str | None, message: str
) -> None:
    with pytest.raises(script.SetupError, match=message):
        script.check_python(version, machine, ros)


@pytest.mark.parametrize(
    ("version", "machine", "ros"),
    [((3, 10), "x86_64", None), ((3, 14), "x86_64", None), ((3, 12), "aarch64", "jazzy"), ((3, 15), "x86_64", "next")],
)
def test_supported_interpreters(script: ModuleType, version: tuple[int, int], machine: str, ros: str | None) -> None:
    script.check_python(version, machine, ros)


def test_each_missing_tool_is_named_with_its_hint(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for tool, message in (
        ("g++", "no C\\+\\+ compiler.*apt install g"),
        ("cmake", "no cmake"),
        ("make", "neither make"),
    ):
        with pytest.raises(script.SetupError, match=message):
            script.check_tools(False, tmp_path)
        (tmp_path / tool).touch(mode=0o755)
    with pytest.raises(script.SetupError, match="apt install python3-dev"):
        script.check_tools(False, tmp_path)
    (tmp_path / "Python.h").touch()
    script.check_tools(False, tmp_path)
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(script.SetupError, match="apt install python3-venv"):
        script.check_tools(True, tmp_path)


def test_a_full_disk_is_noticed_before_it_is_full(script: ModuleType, tmp_path: Path) -> None:
    script.check_disk(tmp_path, 0)
    with pytest.raises(script.SetupError, match="free some space"):
        script.check_disk(tmp_path, 10**12)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("OSError: [Errno 28] No space left on device\n", "the disk is full"),
        ("WARNING: Retrying ... Failed to establish a new connection\nERROR: No matching distribution", "the network"),
        (
            "Collecting x\nERROR: Could not find a version of x\nERROR: No matching distribution",
            "find a version of x .*log",
        ),
    ],
)
def test_why_pip_failed(script: ModuleType, output: str, message: str) -> None:
    line = script.pip_problem(output, Path("log.txt"))
    assert re.search(message, line)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("x\nCMake Error at CMakeLists.txt:8 (y):\n  Not\n  found.\n\nmore\n", "built: Not found. "),
        ("[1/2] x.c\nx.c:3:1: error: expected ';'\nninja: stopped\n", "x.c:3:1: error: expected ';'"),
        ("cc1plus: No space left on device\n", "the disk is full"),
        ("?\n", "the build failed"),
    ],
)
def test_why_the_build_failed(script: ModuleType, output: str, message: str) -> None:
    line = script.build_problem(output, Path("log.txt"))
    assert message in line
    assert "\n" not in line


def test_wheels_get_this_interpreters_folders(script: ModuleType, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "numpy/_core/include/numpy").mkdir(parents=True)
    file = tmp_path / "venv/share/x_msgs/cmake/x_msgs__rosidl_generator_pyExport.cmake"
    file.parent.mkdir(parents=True)
    there = "/opt/python/cp311-cp311"
    file.write_text(f'"a;{there}/include/python3.11;{there}/lib/python3.11/site-packages/numpy/_core/include"')
    script.repair_wheels(tmp_path / "venv", site)
    assert "/opt/python" not in file.read_text()
    assert file.read_text().endswith(f'include;{site}/numpy/_core/include"') or f";{site}/numpy" in file.read_text()


# --- locks -----------------------------------------------------------------------------------------------------------


def test_the_locks_hold_what_pyproject_asks_for_and_no_address(script: ModuleType) -> None:
    requirement = pytest.importorskip("packaging.requirements").Requirement
    pyproject = (ROOT / "pyproject.toml").read_text()
    files = {stage: (ROOT / "locks" / f"{stage}.txt").read_text() for stage in script.STAGES}
    for stage, text in files.items():
        assert script.requirements_hash(pyproject) in text, "pyproject.toml was changed: run .ci/lock"
        assert "://" not in text
        entries = re.split(r"\n(?=\w)", (files["run"] + text).partition("\n")[2])
        locked = [requirement(entry.split(" \\")[0]) for entry in entries if "==" in entry]
        assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)
        for python in ("3.10", "3.11", "3.12", "3.13", "3.14"):
            here = {"python_version": python, "python_full_version": f"{python}.1", "platform_machine": "x86_64"}
            found = {
                re.sub("[-_.]+", "-", item.name).lower(): str(item.specifier)[2:]
                for item in locked
                if item.marker is None or item.marker.evaluate(here)
            }
            for name in (*script.STAGES["run"], "ros", *script.STAGES[stage]):
                for item in map(requirement, script.requirements(pyproject, name)):
                    if item.marker is None or item.marker.evaluate(here):
                        assert item.specifier.contains(found[re.sub("[-_.]+", "-", item.name).lower()]), (item, python)


def write_wheel(folder: Path, text: str) -> str:
    """Write a wheel of a package called tiny and return its hash."""
    folder.mkdir(exist_ok=True)
    about = "tiny-1.dist-info"
    with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", text)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return hashlib.sha256((folder / "tiny-1-py3-none-any.whl").read_bytes()).hexdigest()


def test_locked_packages_need_no_network_the_next_time_and_no_others_are_taken(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real pip: an index, none, and one with another file of the same name and version."""
    lists = "".join(f"{name} = [\n]\n" for names in script.STAGES.values() for name in names if name != "dependencies")
    digest = write_wheel(tmp_path / "index", "x = 1\n")
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)

    checkout = tmp_path / "checkout"
    (checkout / "locks").mkdir(parents=True)
    (checkout / ".dynid").mkdir()
    pyproject = f'dependencies = [\n    "tiny",\n]\nros = [\n]\n{lists}'
    (checkout / "pyproject.toml").write_text(pyproject)
    head = f"# {script.requirements_hash(pyproject)}\n"
    (checkout / "locks/run.txt").write_text(f"{head}tiny==1 \\\n    --hash=sha256:{digest}\n")
    workshop = script.Workshop(checkout, None)
    workshop.root.mkdir()

    def installed(cache: str, index: str) -> str:
        """Return the package's code after a set-up of the environment, which loses the package first."""
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
        monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / index))
        for item in workshop.site.glob("tiny*"):
            shutil.rmtree(item) if item.is_dir() else item.unlink()
        workshop.venv_stamp.write_text(json.dumps({"identity": workshop.identity}))
        with script.locked(checkout / ".dynid/lock") as lock:
            workshop.prepare_venv("run", lock)
        return str((workshop.site / "tiny.py").read_text())

    assert installed("cache", "index") == "x = 1\n"
    assert installed("cache", "nowhere") == "x = 1\n"
    (tmp_path / "cache/ros2_dynid/wheels/tiny-1-py3-none-any.whl").write_bytes(b"damaged")
    assert installed("cache", "index") == "x = 1\n"
    write_wheel(tmp_path / "index", "evil = 1\n")
    with pytest.raises(script.SetupError, match=r"another file than the one that locks/ names .*DYNID_LOCK=OFF"):
        installed("new", "index")


# --- stamps: what is found ready, what is done again -----------------------------------------------------------------


def pretend(script: ModuleType, monkeypatch: pytest.MonkeyPatch, interrupt_at: str = "") -> list[str]:
    """Let the programs that the script runs do nothing but leave a trace; interrupt one of them."""
    titles: list[str] = []

    def run_logged(title: str, command: list[str], env: dict[str, str], log: Path, lock: int) -> str:
        titles.append(title)
        if "venv" in command:
            python = Path(command[-1], "bin/python")
            python.parent.mkdir(parents=True)
            python.touch()
        if "--install" in command:
            Path(command[-1]).with_name("interfaces.new").mkdir()
        if interrupt_at and interrupt_at in title:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(script, "run_logged", run_logged)
    monkeypatch.setattr(script, "check_tools", lambda need_pip, include: None)
    monkeypatch.setattr(script, "check_disk", lambda folder, megabytes: None)
    return titles


def kinds(titles: list[str]) -> str:
    """Return the steps as letters: e(nvironment), p(ackages), b(uild)."""
    letters = {"making": "e", "installing P": "p", "installing R": "p", "building": "b"}
    return "".join(letter for title in titles for start, letter in letters.items() if title.startswith(start))


def test_everything_is_prepared_once(script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == "epb"
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == "epb"
    assert (checkout / ".dynid/COLCON_IGNORE").exists()


def test_tests_need_more_packages_but_no_new_environment(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    script.Workshop(checkout, None).prepare("test")
    assert kinds(titles) == "epbp"
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == "epbp"


def test_a_changed_message_is_built_again(script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    (checkout / "msg/A.msg").write_text("float64 b\n")
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == "epbb"


def test_benchmarks_bring_their_peers(script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = pretend(script, monkeypatch)
    workshop = script.Workshop(checkout, None)
    workshop.prepare("run")
    script.prepare_peers(workshop)
    assert kinds(titles) == "epbp"
    packages = json.loads(workshop.venv_stamp.read_text())["packages"]
    for peer in ("pin", "figaroh"):
        assert any(re.match(rf"{peer}\W", item) for item in packages)
    workshop.prepare("test")  # tests and peers stay beside each other
    script.prepare_peers(workshop)
    assert kinds(titles) == "epbpp"


@pytest.mark.parametrize(
    ("output", "again"),
    [
        ("Collecting figaroh\nERROR: No matching distribution", ""),  # nothing was changed
        ("Installing collected packages: figaroh\nOSError: [Errno 28] No space left on device", "ep"),
    ],
)
def test_an_environment_survives_packages_that_cannot_be_found(
    script: ModuleType,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    output: str,
    again: str,
) -> None:
    titles = pretend(script, monkeypatch)
    workshop = script.Workshop(checkout, None)
    workshop.prepare("run")
    succeeds = script.run_logged

    def fails(title: str, command: list[str], *rest: Any) -> str:
        if any(item.startswith("figaroh") for item in command):
            raise subprocess.CalledProcessError(1, command, output=output)
        return str(succeeds(title, command, *rest))

    monkeypatch.setattr(script, "run_logged", fails)
    titles.clear()
    script.prepare_peers(workshop)
    assert kinds(titles) == again
    assert workshop.venv_ready("run")
    assert "benchmarks without the peers" in capsys.readouterr().err


@pytest.mark.parametrize("link", [".dynid", ".dynid/NAME", ".dynid/NAME/venv", ".dynid/NAME/interfaces"])
def test_nothing_outside_the_checkout_is_touched(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, link: str
) -> None:
    titles = pretend(script, monkeypatch)
    workshop = script.Workshop(checkout, None)
    precious = tmp_path / "elsewhere" / workshop.root.name / "venv" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("mine")
    before = sorted(tmp_path.joinpath("elsewhere").rglob("*"))
    place = checkout / link.replace("NAME", workshop.root.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    with pytest.raises(script.SetupError, match="symbolic link"):
        workshop.prepare("run")
    assert titles == []
    assert sorted(tmp_path.joinpath("elsewhere").rglob("*")) == before
    assert precious.read_text() == "mine"


def test_a_link_to_the_checkout_itself_is_fine(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/dynid").write_bytes((ROOT / "dynid").read_bytes())
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    loader = importlib.machinery.SourceFileLoader("dynid_linked", str(tmp_path / "link/dynid"))
    spec = importlib.util.spec_from_loader("dynid_linked", loader)
    assert spec is not None
    linked = importlib.util.module_from_spec(spec)
    loader.exec_module(linked)
    linked.Workshop(linked.CHECKOUT, None).check_inside()


def test_a_new_dependency_is_installed(script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    file = checkout / "pyproject.toml"
    file.write_text(file.read_text().replace('"numpy>', '"new-one>=1",\n    "numpy>'))
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == "epbp"


@pytest.mark.parametrize(
    ("interrupt_at", "again"),
    [("making", "epb"), ("installing R", "epb"), ("building", "b"), ("compiling", "b")],
)
def test_an_interrupted_start_goes_on(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch, interrupt_at: str, again: str
) -> None:
    pretend(script, monkeypatch, interrupt_at)
    with pytest.raises(KeyboardInterrupt):
        script.Workshop(checkout, None).prepare("run")
    half = checkout / ".dynid" / script.Workshop(checkout, None).root.name / "venv/half"
    if interrupt_at == "installing R":
        half.touch()
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles) == again
    assert not half.exists()  # pip would trust a package that is there by half


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": 3}'])
def test_a_damaged_stamp_is_none(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    titles = pretend(script, monkeypatch)
    workshop = script.Workshop(checkout, None)
    workshop.prepare("run")
    workshop.venv_stamp.write_text(content)
    script.Workshop(checkout, None).prepare("run")
    assert kinds(titles).startswith("epbep")


def test_a_moved_checkout_is_prepared_again(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = pretend(script, monkeypatch)
    script.Workshop(checkout, None).prepare("run")
    moved = checkout.rename(checkout.with_name("elsewhere"))
    script.Workshop(moved, None).prepare("run")
    assert kinds(titles) == "epbepb"


def test_a_colon_in_the_path_is_refused(script: ModuleType, checkout: Path) -> None:
    with pytest.raises(script.SetupError, match="rename the folder"):
        script.Workshop(checkout.rename(checkout.with_name("a:b")), None).prepare("run")


# --- a sourced ROS ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sourced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installation of ROS as far as the shell shows it; return its folder of Python modules."""
    site = tmp_path / "ros/site-packages"
    (site / "rclpy").mkdir(parents=True)
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "ros"))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(sys, "path", [str(site)])
    return site


def test_a_sourced_ros_is_used(
    script: ModuleType, checkout: Path, sourced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sourced / "rclpy" / ("_rclpy_pybind11" + importlib.machinery.EXTENSION_SUFFIXES[0])).touch()
    assert script.sourced_ros() == "jazzy"
    workshop = script.Workshop(checkout, "jazzy")
    assert not any(item.startswith("ros-") for item in workshop.needed("test"))
    env = workshop.environment()
    assert env["PYTHONPATH"].split(os.pathsep)[0] == str(checkout)
    assert env["PYTHONPATH"].endswith(str(sourced))
    assert env["AMENT_PREFIX_PATH"].endswith(os.environ["AMENT_PREFIX_PATH"])


def test_a_ros_for_another_python_is_refused(script: ModuleType, checkout: Path, sourced: Path) -> None:
    (sourced / "rclpy/_rclpy_pybind11.cpython-39-x86_64-linux-gnu.so").touch()
    with pytest.raises(script.SetupError, match=r"not for Python .*/usr/bin/python3 dynid"):
        script.Workshop(checkout, "jazzy")


def test_without_ros_nothing_of_the_users_packages_mixes_in(
    script: ModuleType, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    monkeypatch.setenv("AMENT_PREFIX_PATH", "/somewhere/else")
    env = script.Workshop(checkout, None).environment()
    assert "/somewhere/else" not in env["PYTHONPATH"] + env["AMENT_PREFIX_PATH"]
    assert env["_ROS_WHEELS_BOOTSTRAP_COMPLETE"] == "1"


# --- with real processes ---------------------------------------------------------------------------------------------


DRIVER = """
import importlib.machinery, importlib.util, os, sys
from pathlib import Path
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("dynid_script", sys.argv[1])
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("dynid_script", loader))
loader.exec_module(script)
folder = Path(sys.argv[2])
class Workshop:
    def __init__(self, checkout, ros): pass
    def prepare(self, stage):
        with script.locked(folder / "lock") as lock:
            script.run_logged("sleeping", ["sh", "-c", sys.argv[3]], dict(os.environ), folder / "log", lock)
        raise script.SetupError("slept")
script.Workshop = Workshop
script.check_python = lambda *arguments: None
sys.exit(script.main(["demo", "--json"]))
"""


def start(folder: Path, command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(ROOT / "dynid"), str(folder), command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in the background of a script
    )


def wait_for(condition: Any, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Is the process there, and not only waiting to be buried?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_children(tmp_path: Path, signum: signal.Signals) -> None:
    pids = tmp_path / "pids"
    child = start(tmp_path, f"sleep 60 & echo $$ $! > '{pids}'; wait")
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    child.send_signal(signum)
    output, errors = child.communicate(timeout=5)
    assert child.returncode == 130
    assert output == ""
    assert "interrupted" in errors
    assert "Traceback" not in errors
    wait_for(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), 2.0)


def test_a_second_start_waits_for_the_first(tmp_path: Path) -> None:
    first = start(tmp_path, f"touch '{tmp_path}/one'; while [ ! -e '{tmp_path}/go' ]; do sleep 0.02; done")
    wait_for((tmp_path / "one").exists)
    second = start(tmp_path, f"[ -e '{tmp_path}/go' ] && touch '{tmp_path}/two'")
    assert second.stderr is not None
    assert "waiting for another dynid" in second.stderr.readline()
    (tmp_path / "go").touch()
    for child in (first, second):
        _, errors = child.communicate(timeout=10)
        assert child.returncode == 2
        assert "dynid: slept" in errors
    assert (tmp_path / "two").exists()


FAKE = """#!/bin/sh
echo "begin $2 $3" >> trace
[ "$2 $3" = "pytest test/nodes" ] && echo "marked $*" >> trace
if [ "$2" = mypy ]; then while ! grep -q "end pytest" trace; do sleep 0.02; done; echo "types do not fit"; fi
echo "end $2 $3" >> trace
case "$2 $3" in $FAILS) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("fails", "named"),
    [
        ("none", ""),
        ("mypy*", "mypy"),
        ("ruff*check", "ruff check"),
        ("pytest*test/nodes", "pytest test/nodes"),
    ],
)
def test_lint_types_and_tests_all_run_whatever_fails(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    fails: str,
    named: str,
) -> None:
    python = tmp_path / "python"
    python.write_text(FAKE)
    python.chmod(0o755)
    environment = {**os.environ, "FAILS": fails}
    workshop = SimpleNamespace(environment=lambda: dict(environment), root=tmp_path, python=python, checkout=tmp_path)
    assert script.run_tests(workshop, []) == (1 if named else 0)
    trace = (tmp_path / "trace").read_text().splitlines()
    assert {line for line in trace if line.startswith("end ruff")} == {"end ruff check", "end ruff format"}
    assert trace.index("end mypy ") > trace.index("end pytest -q"), "it runs beside the tests"
    assert trace.index("begin pytest test/nodes") > trace.index("end mypy "), "nodes have the machine to themselves"
    marked = [line for line in trace if line.startswith("marked")]
    assert len(marked) == 3 and marked[0].endswith("-n 3 --dist worksteal -m not alone and not in_process")
    assert marked[1].endswith("-n 3 --dist worksteal -m in_process")
    assert marked[2].endswith("test/nodes -q -m alone"), "one at a time"
    told = capfd.readouterr().err
    assert "types do not fit" in told and (f"FAILED: {named}" in told) == bool(named) == ("FAILED" in told)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkout with tests, committed on the branch main."""
    for name, text in {
        "ros2_dynid/model/urdf.py": "x = 1\n",
        "ros2_dynid/version.py": "x = 1\n",
        "test/model/test_reader.py": "from ros2_dynid.model.urdf import x\n",
        "test/model/test_other.py": "pass\n",
        "test/report/test_page.py": "from ros2_dynid.model.urdf import x\n",
        "test/nodes/test_node.py": "from ros2_dynid.model.urdf import x\n",
        "test/runtime/test_cpp.py": "import robots\n",
        "test/support/robots.py": "x = 1\n",
        "test/test_architecture.py": "pass\n",
        "include/ros2_dynid/a.hpp": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, timeout=30)


def test_a_quick_verdict_is_on_what_differs_from_main(script: ModuleType, repository: Path) -> None:
    (repository / "ros2_dynid/version.py").write_text("x = 2\n")
    assert script.changed_files(repository) == ["ros2_dynid/version.py"]
    git(repository, "commit", "-qam", "second")
    assert script.changed_files(repository) == ["ros2_dynid/version.py"], "on main: its last commit"
    git(repository, "checkout", "-qb", "work")
    (repository / "ros2_dynid/model/urdf.py").write_text("x = 2\n")
    git(repository, "commit", "-qam", "third")
    (repository / "new.py").write_text("")
    assert script.changed_files(repository) == ["new.py", "ros2_dynid/model/urdf.py"]
    (repository / "not_a_repository").mkdir()
    with pytest.raises(script.SetupError, match="--quick needs the git history"):
        script.changed_files(Path("/"))


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        (
            ["ros2_dynid/model/urdf.py"],
            ["model/test_reader.py", "test_architecture.py", "report/test_page.py", "model/test_other.py"],
        ),
        (["test/report/test_page.py"], ["report/test_page.py", "test_architecture.py"]),
        (["test/support/robots.py"], ["test_architecture.py", "runtime/test_cpp.py"]),
        (["include/ros2_dynid/a.hpp"], ["test_architecture.py", "runtime/test_cpp.py"]),
        (["ros2_dynid/nodes/panel/node.py"], ["test_architecture.py", "nodes/test_node.py"]),
        ([], ["test_architecture.py"]),
    ],
)
def test_the_tests_of_a_change_come_the_likeliest_first(
    script: ModuleType, repository: Path, changed: list[str], chosen: list[str]
) -> None:
    assert script.tests_of(repository, changed) == [f"test/{name}" for name in chosen]


def test_a_failed_program_is_shown_to_the_caller(script: ModuleType, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock, pytest.raises(subprocess.CalledProcessError) as caught:
        script.run_logged("x", ["sh", "-c", "echo why; exit 3"], dict(os.environ), tmp_path / "log", lock.fileno())
    assert caught.value.output == "why\n"
    assert "why" in (tmp_path / "log").read_text()


def test_a_second_start_takes_less_than_a_second(script: ModuleType) -> None:
    stamps = list((ROOT / ".dynid").glob(f"*-python{sys.version_info[0]}.{sys.version_info[1]}/interfaces.json"))
    if not any(json.loads(stamp.read_text()) for stamp in stamps):
        pytest.skip("this checkout was not prepared by ./dynid")
    base = getattr(sys, "_base_executable", sys.executable)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([base, str(ROOT / "dynid"), "--help"], capture_output=True, text=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.returncode == 0, run.stderr
    assert "usage" in run.stdout.lower()
    # The processor's time, since the clock on the wall also counts what else the machine is doing.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
