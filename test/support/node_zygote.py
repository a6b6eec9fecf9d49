# SPDX-License-Identifier: Apache-2.0

"""A process that has imported what nodes need and forks for each of them: they start at once.

The node is a child of the process that asked, as one is that was started there: it is forked twice, and whoever asked
adopts the orphan.

python -m node_zygote SOCKET   serves on that file descriptor until the other end closes
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ros2_dynid.processes import Processes, end_with_parent
from zygote import exit_code

PR_SET_CHILD_SUBREAPER = 36
NODES = ("excitation", "feedforward", "guard", "identification", "panel", "payload_bridge", "recorder", "sim_robot")


class Adopted:
    """A forked node, with what subprocess.Popen has of it."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired("node", timeout or 0.0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedNodes(Processes):
    """Processes that are forked where they are nodes."""

    def start(
        self, name: str, arguments: Sequence[str], *, talk: bool = False, output: int | None = None
    ) -> subprocess.Popen[str]:
        """Start a node; what it says goes to a log file, or to the file descriptor `output`."""
        with (self._logs / f"{name}.log").open("a", encoding="utf-8") as log:
            node = _zygote().fork(arguments, self._environment, log.fileno() if output is None else output)
        self._running[name] = node  # type: ignore[assignment]
        return node  # type: ignore[return-value]


class Zygote:
    """The process, seen from the one that asks it."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        path = [str(Path(__file__).resolve().parent), environment.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "node_zygote", str(there.fileno())],
            pass_fds=[there.fileno()],
            env={**environment, "PYTHONPATH": os.pathsep.join(path)},
            stdin=subprocess.DEVNULL,
            preexec_fn=functools.partial(end_with_parent, os.getpid()),
        )
        there.close()

    def fork(self, arguments: Sequence[str], environment: Mapping[str, str], log: int) -> Adopted:
        """Start `python -m` with the arguments; what it says goes to the file `log`."""
        asked = {"arguments": list(arguments), "environment": dict(environment), "parent": os.getpid()}
        prctl = ctypes.CDLL(None).prctl
        with self._asking:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._here, [json.dumps(asked).encode()], [log])
                return Adopted(int(self._here.recv(16)))
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, 0)  # other orphans are none of ours


@functools.cache
def _zygote() -> Zygote:
    return Zygote()


def serve(here: socket.socket) -> None:
    """Fork for every node that is asked for, and tell its number."""
    for node in NODES:
        importlib.import_module(f"ros2_dynid.nodes.{node}.node")
    while True:
        message, files, _, _ = socket.recv_fds(here, 1 << 20, 1)
        if not message:
            return
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child == 0:
                here.close()
                run(json.loads(message), files[0])
            os.write(writer, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)  # from here on the node is a child of whoever asked
        here.send(os.read(reader, 16))
        for file in (reader, writer, *files):
            os.close(file)


def run(asked: dict[str, list[str] | dict[str, str] | int], log: int) -> None:
    """Be the node that was asked for, and end with it."""
    os.setsid()
    while os.getppid() != asked["parent"]:
        time.sleep(0.001)
    end_with_parent(asked["parent"])
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    module, *arguments = asked["arguments"]
    sys.argv = [module, *arguments]

    def node() -> int:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0

    os._exit(exit_code(node))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
