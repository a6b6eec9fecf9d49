# SPDX-License-Identifier: Apache-2.0

"""A process whose output nobody takes goes on; one whose output is taken loses nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import time

import pytest

PROGRAM = """
import ctypes, os, sys, threading, time
from ros2_dynid.output import unblock_output
pass_on_the_rest = unblock_output()
libc, beats = ctypes.PyDLL(None), []  # PyDLL keeps Python's lock while it writes, as rclpy's loggers do
threading.Thread(target=lambda: [(beats.append(1), time.sleep(0.001)) for _ in range(10**9)], daemon=True).start()
line = b"x" * 99 + b"\\n"
for k in range(int(sys.argv[1])):
    libc.write(2, line, len(line))
    print("y" * 99)
time.sleep(0.05)
pass_on_the_rest(1.0)
os._exit(0 if len(beats) > 10 else 3)
"""


def run(count, **streams):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(count)], **streams)


def test_a_pipe_that_nobody_reads_does_not_stop_the_process():
    reader, writer = os.pipe()
    process = run(20_000, stdout=writer, stderr=writer)
    try:
        assert process.wait(20.0) == 0
    finally:
        process.kill()
        os.close(reader)
        os.close(writer)


def test_a_terminal_that_is_stopped_does_not_stop_the_process():
    master, slave = pty.openpty()
    termios.tcflow(slave, termios.TCOOFF)  # Ctrl-S
    process = run(2_000, stdout=slave, stderr=slave)
    try:
        assert process.wait(20.0) == 0
    finally:
        process.kill()
        os.close(slave)
        os.close(master)


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_output_that_is_read_arrives_whole(delay):
    process = run(100, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(delay)
    out, err = process.communicate(timeout=20.0)
    assert process.returncode == 0
    assert out == (b"y" * 99 + b"\n") * 100 and err == (b"x" * 99 + b"\n") * 100


def test_a_collector_that_ends_does_not_end_the_process():
    reader, writer = os.pipe()
    process = run(3_000, stdout=writer, stderr=writer)
    os.close(writer)
    os.close(reader)
    assert process.wait(20.0) == 0
