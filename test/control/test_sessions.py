# SPDX-License-Identifier: Apache-2.0

"""A whole session of the excitation's machine, event by event: every state, command, refusal and word is as it was.

What a session should be is judged where it is written down: test/support/excitation_session.py says how.
"""

from __future__ import annotations

import excitation_session


def test_the_machine_does_what_it_did_in_every_session():
    wanted = excitation_session.FILE.read_text(encoding="utf-8").splitlines()
    for number, (told, line) in enumerate(zip(excitation_session.sessions(), wanted, strict=True), start=1):
        assert told == line, f"line {number} of {excitation_session.FILE.name}"
