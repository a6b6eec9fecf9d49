# SPDX-License-Identifier: Apache-2.0

"""Every source file names its licence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KINDS = ("*.py", "*.cpp", "*.hpp", "dynid")


def test_every_source_file_names_its_licence():
    listed = subprocess.run(["git", "ls-files", *KINDS], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    without = [
        str(file.relative_to(ROOT))
        for file in files
        if file.stat().st_size and "SPDX-License-Identifier: Apache-2.0" not in "".join(file.open().readlines()[:2])
    ]
    assert files and not without
