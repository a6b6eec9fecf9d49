# SPDX-License-Identifier: Apache-2.0

"""Jobs whose process is a few lines of a test, light and as odd as the test wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.jobs import UseCase

HEAD = """
import json, os, signal, subprocess, sys, time
pipe, parent = map(int, sys.argv[1:3])
def tell(message):
    os.write(pipe, (message if isinstance(message, str) else json.dumps(message)).encode() + b"\\n")
"""


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    number: int


@dataclass(frozen=True)
class Answer:
    """What is answered."""

    text: str


def _refuse(wish: Wish) -> None:
    if wish.number < 0:
        raise InputError(f"number is {wish.number}", "give a positive one")


ODD = UseCase("odd", Wish, Answer, lambda wish, progress=None: Answer(str(wish.number)), _refuse)


def light_job_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Return how to write the process that jobs start from now on: it speaks as ours does, by tell()."""
    (folder / "ros2_dynid").mkdir()
    (folder / "ros2_dynid/__init__.py").touch()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return lambda body: (folder / "ros2_dynid/job_process.py").write_text(HEAD + body)
