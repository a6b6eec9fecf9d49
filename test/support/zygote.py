# SPDX-License-Identifier: Apache-2.0

"""A process that has imported what commands need and forks for each of them: they start at once.

python zygote.py SOCKET   serves until its standard input ends
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable

IMPORTED = (
    "ros2_dynid.pipeline",
    "ros2_dynid.commands.identify",
    "ros2_dynid.usecases.plan",
    "ros2_dynid.codegen.emit_c",
    "ros2_dynid.report.build",
    "matplotlib.figure",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.sparse",
)
CLIENT = """import json, os, socket, sys
there = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
there.connect({address!r})
asked = {{"cwd": os.getcwd(), "words": sys.argv[1:], "environment": dict(os.environ)}}
socket.send_fds(there, [json.dumps(asked).encode()], [0, 1, 2])
sys.exit(int(there.recv(16) or b"70"))
"""
"""A program (python -ES) that runs its words as a command there: with its own folder, environment and streams."""


def serve(address: str) -> None:
    """Fork for every command that comes."""
    for name in IMPORTED:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as here:
        here.bind(address)
        here.listen()
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([here, sys.stdin], [], [])[0]):
            assert here in ready
            connection, _ = here.accept()
            if os.fork() == 0:
                here.close()
                run(connection)
            connection.close()


def run(connection: socket.socket) -> None:
    """Run a command in this process and end it."""

    def command() -> int:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        asked = json.loads(message)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        from ros2_dynid.cli import main

        return main(asked["words"])

    code = exit_code(command)
    connection.sendall(str(code).encode())
    os._exit(code)


def exit_code(program: Callable[[], int]) -> int:
    """Return what a program would end with, once it has ended and all that it said is out."""
    code = 1
    try:
        code = program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[1])
