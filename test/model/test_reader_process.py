# SPDX-License-Identifier: Apache-2.0

"""Reading in a process of its own: what takes too much memory or time, or waits for ever, ends with its reason."""

from __future__ import annotations

import os
import time

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.reader_process import Limits, output_of, words_of

LIMITS = Limits(seconds=1, memory=100_000_000)
LIMITED = f"from ros2_dynid.model.reader_process import Limits; {LIMITS!r}.set(); "


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("bytearray(10**9)", "it takes more than 1 s or 0.1 GB"),
        ("while True: pass", "it takes more than 1 s or 0.1 GB"),
        ("import os; os.abort()", "it takes more than 1 s or 0.1 GB"),
        ("raise SystemExit('the reason')", "the reason"),
    ],
)
def test_what_takes_too_much_is_ended_with_its_reason(program, words):
    code = LIMITED + ("\n" if program.startswith("while") else "") + program
    run = output_of(["-c", code])
    assert run.returncode and words_of(run, LIMITS) == words


def test_what_waits_for_a_pipe_or_for_the_terminal_is_ended(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    begin = time.monotonic()
    run = output_of(["-c", f"open({str(tmp_path / 'pipe')!r})"], patience=1.0)
    assert words_of(run, LIMITS) == "it takes too long, or waits for a file" and time.monotonic() - begin < 20.0
    assert output_of(["-c", "print(repr(input()))"]).stderr.strip().endswith("EOFError: EOF when reading a line")


def test_a_model_of_more_bodies_than_any_robot_has_is_refused(tmp_path):
    body = '<replicate count="110"><replicate count="110"><body/></replicate></replicate>'
    file = tmp_path / "many.xml"
    file.write_text(f"<mujoco><worldbody><body><joint/><geom size='.1'/>{body}</body></worldbody></mujoco>")
    with pytest.raises(InputError, match="more than 10000 bodies"):
        load_robot(file)
