"""The rules of the house that a reader relies on: where ROS is, which way data flows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ros2_dynid"
ROOMS = (
    "model",
    "dynamics",
    "base_parameters",
    "codegen",
    "control",
    "sim",
    "excitation",
    "recording",
    "identification",
    "report",
)
"""The rooms along the pipeline: a file imports from its own room and from those before it."""
UPSTAIRS = ("pipeline", "usecases", "demo", "commands", "cli", "nodes")
"""The use cases and those who call them."""
ROS = ("rclpy", "launch", "launch_ros", "ament_index_python", "rcl_interfaces", "lifecycle_msgs", "diagnostic_msgs")
MESSAGES = ("_msgs", "_srvs", "_interfaces")


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> set[str]:
    """Return the full names of all modules imported anywhere in the file, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_only_the_nodes_import_ros():
    guilty = []
    for path in sources():
        if room(path) == "nodes":
            continue
        for name in imports(path):
            top = name.split(".")[0]
            generated = name.startswith(("ros2_dynid.msg", "ros2_dynid.srv", "ros2_dynid.action"))
            if top in ROS or top.endswith(MESSAGES) or generated:
                guilty.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not guilty


def test_data_flows_down_the_rooms_and_never_back():
    guilty = []
    for path in sources():
        if room(path) not in ROOMS:
            continue
        below = ROOMS[ROOMS.index(room(path)) + 1 :] + UPSTAIRS
        guilty += [
            f"{path.relative_to(ROOT)} imports {name}"
            for name in imports(path)
            if name.startswith("ros2_dynid.") and name.split(".")[1] in below
        ]
    assert not guilty


def test_every_folder_of_the_package_is_a_known_room():
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {*ROOMS, *UPSTAIRS}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_is_empty(path):
    assert path.read_text().strip(), "an empty module says nothing: give it a docstring or delete it"
