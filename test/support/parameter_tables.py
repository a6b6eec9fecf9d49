# SPDX-License-Identifier: Apache-2.0

"""What the nodes' tables of parameters say, as files: config/NODE.yaml with the defaults, and docs/parameters.md.

./dynid python test/support/parameter_tables.py     write them anew
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from ros2_dynid.nodes.common.parameters import COMMON, Described, Settable

ROOT = Path(__file__).parents[2]
NODES = (
    "excitation", "feedforward", "guard", "identification", "panel", "payload_bridge", "recorder", "sim_robot",
    "wrist_sensor",
)  # fmt: skip
PAGE = ROOT / "docs" / "parameters.md"
HEAD = """\
# Parameters of the nodes

Written by `test/support/parameter_tables.py` from the tables in `ros2_dynid/nodes/NODE/parameters.py`, as
`config/NODE.yaml` is; a test compares them. `ros2 param describe /NODE NAME` tells the same. A value out of its range,
or one that would have no effect in the node's state, is refused in one line.
"""
WHEN = {
    Settable.ALWAYS: "",
    Settable.INACTIVE: "inactive",
    Settable.UNCONFIGURED: "unconfigured",
}


def own_parameters(node: str) -> tuple[Described, ...]:
    """Return the parameters of a node beside those of all nodes."""
    return tuple(importlib.import_module(f"ros2_dynid.nodes.{node}.parameters").PARAMETERS)


def config_text(node: str) -> str:
    """Return config/NODE.yaml."""
    lines = [
        f"# Parameters of the node {node}, with their defaults. /**: matches the node in any namespace.",
        "/**:",
        "  ros__parameters:",
        *(f"    {one.name}: {json.dumps(one.default)}  # {_meaning(one)}" for one in (*COMMON, *own_parameters(node))),
    ]
    return "\n".join(lines) + "\n"


def page_text() -> str:
    """Return docs/parameters.md."""
    parts = [HEAD, "## All nodes\n", _table(COMMON)]
    for node in NODES:
        parts += [f"## {node}\n", _table(own_parameters(node))]
    return "\n".join(parts)


def _table(parameters: tuple[Described, ...]) -> str:
    rows = [
        "| parameter | default | meaning | may be set |",
        "| --- | --- | --- | --- |",
        *(f"| `{one.name}` | `{json.dumps(one.default)}` | {_meaning(one)} | {_when(one)} |" for one in parameters),
    ]
    return "\n".join(rows) + "\n"


def _meaning(one: Described) -> str:
    """Return what a parameter means, with its range."""
    return one.text if one.lower is None else f"{one.text} ({one.lower:g} to {one.upper:g})"


def _when(one: Described) -> str:
    return "at the start" if one.read_only else WHEN[one.settable]


def main() -> None:
    """Write all of them."""
    PAGE.write_text(page_text(), encoding="utf-8")
    for node in NODES:
        (ROOT / "config" / f"{node}.yaml").write_text(config_text(node), encoding="utf-8")


if __name__ == "__main__":
    main()
