"""Test files whose packages are not installed are left out, and named: `colcon test` runs with what rosdep installs."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

SUPPORT = Path(__file__).parent / "support"
left_out: dict[str, str] = {}


@cache
def missing_package(file: Path) -> str:
    """Return the first package that a file imports at its top and that is not installed, or ""."""
    for name in re.findall(r"^(?:import|from) (\w+)", file.read_text(), re.MULTILINE):
        ours = SUPPORT / f"{name}.py"
        missing = missing_package(ours) if ours.is_file() else "" if importlib.util.find_spec(name) else name
        if missing:
            return missing
    return ""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a test file out if its imports would fail."""
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    missing = missing_package(collection_path)
    if missing:
        left_out[collection_path.name] = missing
    return True if missing else None


def pytest_terminal_summary(terminalreporter: object) -> None:
    """Name what was left out."""
    for name, package in left_out.items():
        terminalreporter.write_line(f"LEFT OUT {name}: {package} is not installed")  # type: ignore[attr-defined]
