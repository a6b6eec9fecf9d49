# SPDX-License-Identifier: Apache-2.0

"""Errors of a recording that is mapped, in one line."""

from __future__ import annotations

from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.fleet.map_recording import Failed, failed, reason


def test_errors_become_one_line():
    assert failed(InputError("what", "do this", "a.mcap"), "b") == Failed("what", "do this", "a.mcap")
    assert failed(MemoryError(), "b") == Failed(
        "there is not enough memory for it", "give the workers more memory", "b"
    )
    denied = failed(PermissionError(13, "Permission denied"), "b")
    assert denied.what == "it cannot be read (Permission denied)" and denied.source == "b"
    assert failed(OSError("odd"), "b").what == "it cannot be read (odd)"
    assert failed(DynidError("this; is wrong; mend it"), "b") == Failed("this; is wrong", "mend it", "b")
    assert failed(DynidError("wrong"), "b") == Failed("wrong", "wrong", "b")
    assert reason(Failed("what", "hint", "a")) == "what; hint"
