# SPDX-License-Identifier: Apache-2.0

"""Reading by a foreign program, in a process with limits of processor time, memory and real time.

Short files of xacro and MJCF are programs: they can take any time and memory, or wait for ever for a pipe that they
include.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE = 30.0
"""Longest real time [s]: one that waits takes no processor time. A busy computer may take several times its own."""


@dataclass(frozen=True)
class Limits:
    """Processor time [s] and memory [bytes] that a process may take."""

    seconds: int
    memory: int

    def set(self, hard_memory: int | None = None) -> None:
        """Limit this process; hard_memory: up to which it may raise the limit itself."""
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, hard_memory or self.memory))

    def __str__(self) -> str:
        """Return them in words."""
        return f"{self.seconds} s or {self.memory / 1e9:g} GB"


def output_of(arguments: Sequence[str], patience: float = PATIENCE, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments and text as its input, for `patience` [s] at most; return what became of it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            input=text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=patience,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(arguments), 124, "", "it takes too long, or waits for a file")


def words_of(run: subprocess.CompletedProcess[str], limits: Limits) -> str:
    """Return why a process failed: its last line, or its limits."""
    lines = run.stderr.strip().splitlines()
    if run.returncode < 0 or not lines or lines[-1] == "MemoryError":
        return f"it takes more than {limits}"
    return lines[-1][:200]
