"""The papers' tables beside ours: every script agrees with its paper, and its page shows what the script prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from pages import ROOT

FOLDER = ROOT / "docs" / "reproduction"
SCRIPTS = sorted(FOLDER.glob("seed_*.py"))
BEGIN, END = "<!-- begin: printed by the script -->", "<!-- end -->"


def first_cells(text: str) -> list[str]:
    """Return the first cell of every table row: what the tables are about, without the figures."""
    return [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("|")]


def test_there_is_a_page_and_a_script_for_each_seed():
    assert [path.stem for path in SCRIPTS] == [f"seed_{k:03}" for k in range(5)]
    assert all(path.with_suffix(".md").is_file() for path in SCRIPTS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", [pytest.param(path, id=path.stem) for path in SCRIPTS])
def test_the_tables_agree(script, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    page = script.with_suffix(".md").read_text()
    assert f"docs/reproduction/{script.name}" in page, "the page shows how to run its script"
    if BEGIN in page:
        printed = page.partition(BEGIN)[2].partition(END)[0]
        assert first_cells(printed) == first_cells(done.stdout), f"run {script.name} --write"
        assert "**no**" not in printed
    assert not re.search(r"\bnan\b", done.stdout)
