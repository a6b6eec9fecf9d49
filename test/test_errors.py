# SPDX-License-Identifier: Apache-2.0

"""Errors and remarks: one line each, with options that every caller renders in its own style."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest
import yaml

from ros2_dynid.commands.shared.arguments import as_flag
from ros2_dynid.errors import (
    DynidError,
    InputError,
    MissingPackageError,
    NoteKind,
    Option,
    RankError,
    Text,
    as_field,
    damage,
    remark,
    repaired,
    scalar_text,
)

PACKAGE = Path(__file__).parents[1] / "ros2_dynid"
SPEAKS_THE_COMMAND_LINE = {"commands", "cli.py", "nodes", "demo.py", "jobs.py", "processes.py"}
STARTS_A_BROWSER = "preview/chromium.py"
"""The command line itself, and what starts processes. Nothing else names a flag."""


@pytest.mark.parametrize(
    ("option", "flag", "field"),
    [
        (Option("gains", {"elbow": -1}), "--gains elbow=-1", "gains: {elbow: -1}"),
        (Option("gains", {"a": 0.5, "b": 2.0}), "--gains a=0.5,b=2", "gains: {a: 0.5, b: 2}"),
        (Option("overwrite", True), "--overwrite", "overwrite: true"),
        (Option("position_cutoff", 12.34567), "--position-cutoff 12.35", "position_cutoff: 12.35"),
        (Option("groups", ("inertial", "rotor")), "--only inertial,rotor", "groups: [inertial, rotor]"),
        (Option("source", "torque"), "--from torque", "source: torque"),
        (Option("topic"), "--topic", "topic"),
    ],
)
def test_each_caller_writes_an_option_in_its_own_way(option, flag, field):
    assert as_flag(option) == flag
    assert as_field(option) == field
    if option.value is not None and not isinstance(option.value, float):
        value = list(option.value) if isinstance(option.value, tuple) else option.value
        assert yaml.safe_load(field) == {option.key: value}  # what a node says can be pasted into its parameters


def test_an_error_renders_what_and_hint():
    error = InputError("efforts point the wrong way", Text("invert: ", Option("gains", {"elbow": -1})), "a.mcap")
    assert (error.source, error.what) == ("a.mcap", "efforts point the wrong way")
    assert str(error) == "a.mcap: efforts point the wrong way; invert: gains: {elbow: -1}"
    assert error.render(as_flag) == "a.mcap: efforts point the wrong way; invert: --gains elbow=-1"
    again = InputError(error.what, error.hint, "b.yaml")  # a reader adds its own source
    assert again.render(as_flag) == "b.yaml: efforts point the wrong way; invert: --gains elbow=-1"
    rank = RankError("W", Text("use ", Option("method", "wls")), rank=3, expected=4, tolerance=1e-9)
    assert rank.render(as_flag).endswith("; use --method wls")


def test_every_error_carries_its_data():
    rank = RankError("W", "excite more", rank=3, expected=4, tolerance=2e-9)
    assert str(rank) == "W (rank 3 of 4 at tolerance 2.0e-09); excite more"
    assert (rank.rank, rank.expected, rank.tolerance) == (3, 4, 2e-9)
    missing = MissingPackageError("mujoco", "the simulated robot")
    assert missing.package == "mujoco"
    assert str(missing) == "the simulated robot needs the Python package mujoco; install it: pip install mujoco"
    plain = InputError("what", "hint")
    assert (plain.what, plain.hint, plain.source, str(plain)) == ("what", "hint", None, "what; hint")
    assert all(isinstance(error, DynidError) for error in (rank, missing, plain))
    assert str(DynidError("two\nlines")) == "two lines" and str(DynidError()) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (0.5, "0.5"), (12.34567, "12.35"), (1e-9, "1e-09"), (3, "3"), ("rad", "rad")],
)
def test_a_value_is_written_as_a_person_writes_it(value, text):
    assert scalar_text(value) == text
    assert as_field(Option("key", value)) == f"key: {text}"
    assert as_field(Option("key", {"a": value})) == f"key: {{a: {text}}}"
    assert as_field(Option("key", [value, 1])) == f"key: [{text}, 1]"


def test_a_name_from_a_file_cannot_break_the_line():
    text = Text("hold it: ", Option("hold", {"evil\n\x1b[31mjoint": 0}), "\r")
    for line in (str(text), text.render(as_flag), text.render(as_field)):
        assert line.isprintable()


def test_texts_join_and_survive_a_process_border():
    text = Text(Text("a ", Option("topic")), " b")
    assert text == "a topic b"
    assert pickle.loads(pickle.dumps(text)).render(as_flag) == "a --topic b"


def test_no_text_of_the_core_names_a_flag():
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0]
        if part in SPEAKS_THE_COMMAND_LINE or path == PACKAGE / STARTS_A_BROWSER:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and re.search(r"(?<!-)--[a-z]", node.value)
            ):
                named.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value[:60]!r}")
    assert not named


def test_a_note_is_of_the_kind_that_programs_match_on():
    """What is damaged makes a recording doubtful, what was repaired or is remarked does not."""
    for make, kind in ((damage, "damage"), (repaired, "repaired"), (remark, "remark")):
        note = make("3 samples")
        assert (note.kind, note.kind.value, note.text, str(note)) == (NoteKind(kind), kind, "3 samples", "3 samples")
