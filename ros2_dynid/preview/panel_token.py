# SPDX-License-Identifier: Apache-2.0

"""The panel's token: in a file that only its owner reads, or on the terminal; never in a log or on the graph."""

from __future__ import annotations

import os
import secrets
import signal
from pathlib import Path

from ros2_dynid.errors import InputError

LEAST_CHARACTERS = 8
"""Shortest token: with 5,000 tries a second, more than the panel answers, 36^8 take 18 years."""
MOST_BYTES = 200


def make_token() -> str:
    """Return a new token of 72 random bits."""
    return secrets.token_urlsafe(9)


def token_of_file(path: Path) -> str:
    """Return the token in a file that others cannot read; make the file with a new token if there is none."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _read_token(path)
    token = make_token()
    with os.fdopen(handle, "w") as file:
        file.write(f"{token}\n")
    return token


def _read_token(path: Path) -> str:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise InputError("others may read this file of the panel's token", f"chmod 600 {path}", str(path))
        data = file.read(MOST_BYTES)
    token = data.decode("ascii", "replace").strip()
    if len(token) < LEAST_CHARACTERS or not all("!" <= letter <= "~" for letter in token):
        what = f"the panel's token has less than {LEAST_CHARACTERS} characters, or others than ASCII letters and signs"
        raise InputError(what, "delete the file and a new one is made", str(path))
    return token


def show_on_terminal(line: str) -> bool:
    """Write a line to the terminal that this process was started from; return False if there is none, or it is stopped.

    Not to the standard output, which logs and journals keep.
    """
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # in the background it would stop the process
    try:
        data = f"{line}\n".encode()
        return os.write(terminal, data) == len(data)
    except OSError:
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(terminal)
