# SPDX-License-Identifier: Apache-2.0

"""What a command prints, run in the process of the test."""

from __future__ import annotations

import json

from ros2_dynid.cli import main


def result(capsys, *words):
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    """Return the one line of a refusal."""
    assert main(list(map(str, words))) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err
