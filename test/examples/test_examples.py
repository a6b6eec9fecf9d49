# SPDX-License-Identifier: Apache-2.0

"""Every example runs as it is, in an empty folder, and finds what was put into its data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ros2_dynid.model.load import load_robot

EXAMPLES = Path(__file__).parents[2] / "examples"
HELPER = "simulated.py"
LONGEST = 40
"""Lines of an example that can be read at a glance."""
SECONDS = 100.0


def run(name: str, folder: Path) -> str:
    """Return what an example prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    paths = [str(EXAMPLES.parent), *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def number(pattern: str, text: str) -> float:
    """Return the number that the group of a pattern matches in the text."""
    match = re.search(pattern, text)
    assert match is not None, f"{pattern!r} is not in:\n{text}"
    return float(match[1])


def test_examples_are_short_and_use_the_public_interface_only() -> None:
    files = sorted(EXAMPLES.glob("*.py"))
    assert len([file for file in files if file.name != HELPER]) == 8
    for file in files:
        text = file.read_text()
        assert len(text.splitlines()) <= LONGEST, file.name
        assert not re.findall(r"ros2_dynid\.(?!srv)\w+ import|import ros2_dynid\.", text), file.name


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that an example has identified a bag in."""
    folder = tmp_path_factory.mktemp("identified")
    run("identify_bag.py", folder)
    return folder


def test_a_bag_gives_a_model_and_a_report(identified: Path) -> None:
    text = run("identify_bag.py", identified)  # a second run finds the bags and replaces the result
    assert number(r"Fc1 +([\d.]+) ", text) == pytest.approx(1.25 * load_robot("demo6").parameters["Fc1"], rel=0.01)
    assert number(r"validation bag: ([\d.]+) %", text) < 1.0
    assert (identified / "result/model.yaml").is_file() and (identified / "result/report.html").is_file()


def test_arrays_give_errors_of_every_joint(tmp_path: Path) -> None:
    text = run("identify_arrays.py", tmp_path)
    for joint in (*load_robot("demo6").active_names, "all"):
        assert number(rf"\n{joint} +([\d.]+) N.m", text) < 0.2  # the noise has 0.1 N.m


def test_base_parameters_have_the_torques_of_all(tmp_path: Path) -> None:
    text = run("base_parameters.py", tmp_path)
    assert "84 standard parameters, 58 base parameters" in text
    assert number(r"difference of torques: (\S+) N.m", text) < 1e-10


def test_a_plan_is_written_and_drawn(tmp_path: Path) -> None:
    text = run("plan_and_plot.py", tmp_path)
    assert number(r"condition number ([\d.]+)", text) < 10.0
    assert all(float(share) <= 100.0 for share in re.findall(r"([\d.]+) % of the limit", text))
    assert (tmp_path / "exciting.png").stat().st_size > 10_000


def test_a_payload_has_its_mass_either_way(tmp_path: Path) -> None:
    text = run("payload.py", tmp_path)
    assert number(r"^mass ([\d.]+)", text) == pytest.approx(1.5, abs=0.02)
    assert number(r"on the model: ([\d.]+)", text) == pytest.approx(1.5, abs=0.02)


def test_other_libraries_agree_with_the_exported_model(tmp_path: Path) -> None:
    pytest.importorskip("pinocchio")
    pytest.importorskip("mujoco")
    text = run("export_model.py", tmp_path)
    for library in ("Pinocchio", "MuJoCo"):
        assert number(rf"{library} differs by (\S+) N.m", text) < 1e-9


def test_feedforward_streams_torques(tmp_path: Path) -> None:
    lines = run("feedforward.py", tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == ["0.00", "0.25", "0.50", "0.75"]
    assert all(len(re.findall(r"-?\d+\.\d*", line)) == 7 for line in lines)  # the time and six torques


def test_a_node_reads_robot_and_model_of_the_identification_node(tmp_path: Path, identified: Path) -> None:
    pytest.importorskip("rclpy")
    pytest.importorskip("ros2_dynid.srv")
    from ros_graph import graph

    with graph(tmp_path, "demo6") as nodes:
        nodes.start("identification", model=identified / "result/model.yaml")
        nodes.ready("identification")
        text = run("call_services.py", tmp_path)
    assert all(f"\n{joint} " in f"\n{text}" for joint in load_robot("demo6").active_names)
    assert number(r"\nFc1 +([\d.]+) ", text) == pytest.approx(1.25 * load_robot("demo6").parameters["Fc1"], rel=0.01)
