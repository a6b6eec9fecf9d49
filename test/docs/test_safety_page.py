# SPDX-License-Identifier: Apache-2.0

"""What docs/safety.md says is shown by a test is shown by a test that exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(test/[\w/]+\.py)(?:::(\w+))?`")

CLAIM = re.compile(r"\| ([A-Z]+-\d+) \|")


@functools.cache
def functions_of(file: Path) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_test_that_is_named_exists():
    page = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")
    named = NAMED.findall(page)
    assert len(named) > 15
    missing = [f"{file}::{name}" for file, name in named if name and name not in functions_of(ROOT / file)]
    assert not missing
    claims = [line for line in page.splitlines() if CLAIM.match(line)]
    identifiers = [CLAIM.match(line)[1] for line in claims]
    assert len(set(identifiers)) == len(identifiers) > 40
    assert all(NAMED.search(line) for line in claims), "a claim without a test"
    tables = re.findall(r"^\| claim \|.*\n\| ---.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert sum(table.count("\n") for table in tables) == len(claims), "a row without an identifier"
