# SPDX-License-Identifier: Apache-2.0

"""The architecture that a reader relies on: where ROS is, which way data flows, and a map that is true."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from architecture import BEGIN, LAYERS, PACKAGE, PAGE, ROOT, layer_table, module_name, place, sources
from recordings import simulated, simulated_truth
from ros2_dynid import pipeline
from ros2_dynid.identification.options import IdentifyOptions

ROS = ("rclpy", "launch", "launch_ros", "ament_index_python", "rcl_interfaces", "lifecycle_msgs", "diagnostic_msgs")
MESSAGES = ("_msgs", "_srvs", "_interfaces")


@cache
def imports(path: Path) -> set[str]:
    """Return the full names of all modules imported anywhere in the file, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_only_the_nodes_import_ros():
    wrong = []
    for path in sources():
        if module_name(path).startswith("ros2_dynid.nodes"):
            continue
        for name in imports(path):
            top = name.split(".")[0]
            generated = name.startswith(("ros2_dynid.msg", "ros2_dynid.srv", "ros2_dynid.action"))
            if top in ROS or top.endswith(MESSAGES) or generated:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_data_flow_down_the_layers_and_never_back():
    wrong = []
    for path in sources():
        if module_name(path) == "ros2_dynid":  # passes on the names of ros2_dynid.api when they are asked for
            continue
        layer, inside = place(module_name(path))
        for name in imports(path):
            if not name.startswith("ros2_dynid.") or name.split(".")[1] in ("msg", "srv", "action"):
                continue
            other, within = place(name)
            if other > layer or (other == layer and inside >= 0 and within > inside):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


def test_every_module_has_a_layer():
    assert [module_name(path) for path in sources() if place(module_name(path))[0] < 0] == ["ros2_dynid"]


def test_the_page_has_the_layers_and_every_module():
    text = PAGE.read_text()
    assert layer_table() in text
    listed = re.findall(r"^- `([\w.]+)`: ", text.partition(BEGIN)[2], re.MULTILINE)
    names = [module_name(path).removeprefix("ros2_dynid.") for path in sources() if path.stem != "__main__"]
    names.remove("ros2_dynid")
    hint = "run: python test/support/architecture.py"
    assert sorted(listed) == sorted(names), hint
    assert len(LAYERS) == len(re.findall(r"^### ", text.partition(BEGIN)[2], re.MULTILINE)), hint


STAGES = re.compile(r"^\| `(identification\.[a-z_]+)` \| `(\w+)` \| (.*) \|$", re.MULTILINE)
"""A row of the walk: a stage, its function, and the modules that it calls first."""


def stage_rows():
    """Return the modules of each row of the walk, the stage first."""
    rows = STAGES.findall(PAGE.read_text())
    return [(stage, *re.findall(r"`([\w.]+)`", modules)) for stage, _, modules in rows]


def test_the_walks_and_the_guide_name_modules_that_exist():
    text = PAGE.read_text().partition(BEGIN)[0]
    known = {module_name(path).removeprefix("ros2_dynid.") for path in sources()}
    walks = re.findall(r"^ +(?:->|<-)? *([a-z_.]+(?:, [a-z_.]+)*) {2,}", text, re.MULTILINE)
    walked = {name for line in walks for name in line.split(", ")} | {name for row in stage_rows() for name in row}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", text.partition("## Where to add")[2].partition("## ")[0]))
    assert len(walked) > 15 and len(named) > 15
    assert walked | {name for name in named if not name.endswith((".py", ".action"))} <= known


def test_the_page_has_the_modules_of_identify_in_the_order_of_their_first_call(tmp_path):
    robot, recording, options = simulated_truth()[0], simulated(seconds=8.0), IdentifyOptions()
    files: dict[str, None] = {}

    def note_call(frame, event, _):
        if event == "call" and frame.f_code.co_flags & inspect.CO_NEWLOCALS:
            files[frame.f_code.co_filename] = None

    sys.setprofile(note_call)
    try:
        pipeline.identify(robot, [recording], options=options, output=tmp_path)
    finally:
        sys.setprofile(None)
    page = [name for row in stage_rows() for name in row]
    names = [module_name(Path(file)) for file in files if Path(file).is_relative_to(PACKAGE / "identification")]
    first_calls = [name.removeprefix("ros2_dynid.") for name in names]
    assert page == first_calls
    for stage, function, _ in STAGES.findall(PAGE.read_text()):
        assert callable(getattr(importlib.import_module(f"ros2_dynid.{stage}"), function))


@pytest.mark.parametrize(
    ("row", "example"),
    [
        ("an estimator", r"IRLS|\birls\b"),
        ("a kind of friction term", r"\bFcub\b|FrictionKind.CUBIC"),
        ("a parameter set", r"\bESSENTIAL\b"),
        ("a threshold of a decision", r"\bclass (?!Diagnosis|Jump)\w+Thresholds\b"),
        ("a bag format", r"rosbag1_file|Rosbag1File"),
        ("a table format", r"npz_file|iter_npz"),
        ("an option of identification", r"\bessential_std\b"),
        ("a use case", r"\bGainsRequest\b"),
        ("a remark of the verdict", r"\bremark_on_coverage\b"),
    ],
)
def test_the_guide_names_every_module_that_knows_an_example_of_its_kind(row, example):
    """What is said to be in one place is in no other: whoever adds the next one finds all of them on the page."""
    guide = PAGE.read_text().partition("## Where to add")[2].partition("## ")[0]
    (answer,) = re.findall(rf"^\| {row} \| (.*) \|$", guide, re.MULTILINE)
    named = re.findall(r"`([a-z_]+(?:\.[a-z_0-9]+)*)`", answer)
    knowing = {
        module_name(path).removeprefix("ros2_dynid.") for path in sources() if re.search(example, path.read_text())
    }
    assert knowing
    assert not [name for name in knowing if not any(name == one or name.startswith(f"{one}.") for one in named)]


def test_what_takes_long_to_import_is_imported_where_it_is_used():
    slow = ("scipy.signal", "scipy.stats", "scipy.optimize", "scipy.io", "scipy.interpolate", "matplotlib", "clarabel")
    code = f"import sys, ros2_dynid.api; print(*(name for name in {slow} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_no_module_is_empty():
    empty = [module_name(path) for path in sources() if not path.read_text().strip()]
    assert not empty, "an empty module says nothing: give it a docstring or delete it"
