"""Whole sessions of the machines, event by event: every state, command, due time, refusal and word is as it was.

What a session should be is judged where it is written down: test/support/feedforward_session.py and
excitation_session.py say how.
"""

from __future__ import annotations

import pytest

import excitation_session


@pytest.mark.parametrize("machine", [excitation_session])
def test_the_machine_does_what_it_did_in_every_session(machine):
    wanted = machine.FILE.read_text(encoding="utf-8").splitlines()
    for number, (told, line) in enumerate(zip(machine.sessions(), wanted, strict=True), start=1):
        assert told == line, f"line {number} of {machine.FILE.name}"
