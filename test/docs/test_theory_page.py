# SPDX-License-Identifier: Apache-2.0

"""The theory page names functions: they exist, and every package of the mathematics is on it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "theory.md"
PAPERS = ("Gautier 1991", "Gautier and Khalil 1992", "Gautier and Venture 2013", "Lin 1995", "Izaguirre et al. 1992")
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py):([A-Za-z_0-9]+)`")


def defined(path: Path) -> set[str]:
    """Return the functions and classes at the top level of a file."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}


def test_every_function_named_exists():
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 80
    files = {file: ROOT / "ros2_dynid" / file for file, _ in named}
    missing = [
        f"{file}:{name}" for file, name in named if not files[file].is_file() or name not in defined(files[file])
    ]
    assert not missing


def test_every_paper_and_every_package_of_the_mathematics_is_there():
    text = PAGE.read_text()
    assert all(re.search(rf"^## {paper}", text, re.MULTILINE) for paper in PAPERS)
    packages = {file.split("/")[0] for file, _ in NAMED.findall(text)}
    assert packages >= {"model", "dynamics", "base_parameters", "codegen", "excitation", "identification", "control"}


def test_nothing_looks_like_a_name_and_escapes_the_check():
    text = NAMED.sub("", PAGE.read_text())
    assert not re.findall(r"`[^`]*\.py[^`]*`", text)
