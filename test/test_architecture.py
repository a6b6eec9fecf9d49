# SPDX-License-Identifier: Apache-2.0

"""The architecture that a reader relies on: where ROS is, which way data flows, and a map that is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from architecture import BEGIN, LAYERS, PAGE, ROOT, layer_table, module_name, place, sources

ROS = ("rclpy", "launch", "launch_ros", "ament_index_python", "rcl_interfaces", "lifecycle_msgs", "diagnostic_msgs")
MESSAGES = ("_msgs", "_srvs", "_interfaces")


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


def test_the_walks_and_the_guide_name_modules_that_exist():
    text = PAGE.read_text().partition(BEGIN)[0]
    known = {module_name(path).removeprefix("ros2_dynid.") for path in sources()}
    walks = re.findall(r"^ +(?:->|<-)? *([a-z_.]+(?:, [a-z_.]+)*) {2,}", text, re.MULTILINE)
    walked = {name for line in walks for name in line.split(", ")}
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", text.partition("## Where to add")[2].partition("## ")[0]))
    assert len(walked) > 15 and len(named) > 15
    assert walked | {name for name in named if not name.endswith((".py", ".action"))} <= known


@pytest.mark.parametrize("path", sources(), ids=module_name)
def test_no_module_is_empty(path):
    assert path.read_text().strip(), "an empty module says nothing: give it a docstring or delete it"
