# SPDX-License-Identifier: Apache-2.0

"""What a command prints, run in the process of the test."""

from __future__ import annotations

import json

from ros2_dynid.cli import main


def line_of(*words):
    """Return the arguments of a command, which may replace what it wrote before."""
    return [*map(str, words), *(["--overwrite"] if words[0] in ("torque", "export") else [])]


def result(capsys, *words):
    assert main([*line_of(*words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    """Return the one line of a refusal."""
    assert main(line_of(*words)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err
