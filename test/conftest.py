# SPDX-License-Identifier: Apache-2.0

"""What is not run: test files whose packages are not installed, and tests for which a quick verdict has no time.

`colcon test` runs with what rosdep installs (DYNID_LEAVE_OUT is set), `./dynid test --quick` for a minute.
`./dynid test` runs everything.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import re
import time
from functools import cache
from pathlib import Path

import pytest

BEGIN = time.monotonic()
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of ./dynid test --quick."""
    parser.addoption("--seconds", type=float, help="skip tests that would start later than this [s]")


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what modules and tests hold: it would look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that there is no time for."""
    seconds = item.config.getoption("--seconds")
    if seconds is not None and time.monotonic() - BEGIN > seconds:
        pytest.skip("no time left: ./dynid test runs it")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave a test file out if its imports would fail."""
    if not re.fullmatch(r"test_\w+\.py", collection_path.name) or not os.environ.get("DYNID_LEAVE_OUT"):
        return None
    missing = missing_package(collection_path)
    if missing:
        left_out[collection_path.name] = missing
    return True if missing else None


def pytest_terminal_summary(terminalreporter: object) -> None:
    """Name what was left out."""
    for name, package in left_out.items():
        terminalreporter.write_line(f"LEFT OUT {name}: {package} is not installed")  # type: ignore[attr-defined]
