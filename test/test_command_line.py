# SPDX-License-Identifier: Apache-2.0

"""What holds for every command: errors as JSON, plain text without escape sequences, and tables in narrow terminals."""

from __future__ import annotations

import importlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text as RichText

from ros2_dynid import cli
from ros2_dynid.cli import main
from ros2_dynid.commands import identify, mdh
from ros2_dynid.commands.shared.arguments import with_flags
from ros2_dynid.commands.shared.terminal import Column, console_of, print_table
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Filter
from ros2_dynid.identification.result import BaseRow, Delay, IdentifyOutcome, TorqueError
from ros2_dynid.identification.validation.verdict import Level, Remark
from ros2_dynid.model.load import ROBOT_HINT
from ros2_dynid.recording.checks import RecordingProblem


@pytest.mark.parametrize(
    "arguments",
    [
        ["mdh", "there/is/no.urdf", "--json"],  # refused by the core
        ["base", "demo6", "--method", "magic", "--json"],  # refused by the parser
        ["mdh", "--json"],
        ["--json"],
    ],
)
def test_an_error_is_json_on_stdout_and_a_line_on_stderr(capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert json.loads(out) == {"error": err.strip()}
    assert err.count("\n") == 1


def test_without_json_an_error_is_on_stderr_only(capsys):
    assert main(["mdh", "there/is/no.urdf"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "gravity"),
    [("-9.81,0,0", (-9.81, 0, 0)), ("-.5,-1,2", (-0.5, -1, 2)), ("-inf,1,2", (-np.inf, 1, 2)), ("0,-2,0", (0, -2, 0))],
)
def test_a_list_that_begins_with_a_minus_is_a_value(text, gravity):
    assert cli.build_parser().parse_args(["mdh", "demo3", "--gravity", text]).gravity == gravity


def test_a_word_that_begins_with_a_minus_is_an_option(capsys):
    for word in ("-x", "-informal"):
        assert main(["mdh", "demo3", "--gravity", word]) == 2
        assert "expected one argument; see dynid mdh --help" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("identfy arm.urdf a", "dynid: argument COMMAND: 'identfy' is unknown; did you mean 'identify'?"),
        ("mdh demo3 --gravityy 1,2,3", "dynid mdh: unknown option --gravityy; did you mean '--gravity'?"),
        ("excite demo3 --outptu=x", "dynid excite: unknown option --outptu; did you mean '--output'?"),
        (
            "base demo3 --method closedform",
            "dynid base: argument --method: 'closedform' is unknown; did you mean 'clos",
        ),
        ("--vresion", "dynid: unknown option --vresion; did you mean '--version'?"),
        ("mdh demo3 --zzz", "dynid mdh: unknown option --zzz; see dynid mdh --help"),
    ],
)
def test_a_mistyped_name_gets_the_nearest_suggested(capsys, line, said):
    assert main(line.split()) == 2 and capsys.readouterr().err.startswith(said)


def test_an_option_may_be_abbreviated_and_what_follows_two_dashes_is_a_value(capsys):
    assert cli.build_parser().parse_args(["mdh", "demo3", "--grav=1,2,3"]).gravity == (1, 2, 3)
    assert cli.build_parser().parse_args(["mdh", "--", "--demo3"]).robot == "--demo3"


def flags_of(text: str) -> set[str]:
    return set(re.findall(r"^ {2}(?:-\w[^,\n]*, )?(--[\w-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("command", cli.command_names())
def test_help_shows_the_usual_options_and_help_all_every_one(capsys, command):
    short, full = [], []
    for texts, flag in ((short, "--help"), (full, "--help-all")):
        try:
            main([command, flag])
        except SystemExit as end:
            assert end.code == 0
            texts.append(capsys.readouterr().out)
    module = importlib.import_module(f"ros2_dynid.commands.{command}")
    if not hasattr(module, "USUAL_OPTIONS"):
        assert not full and len(flags_of(short[0])) <= 16, "a long list needs two levels"
        return
    usual, every = flags_of(short[0]), flags_of(full[0])
    assert usual < every and len(usual) <= 18
    assert short[0].endswith(f"{len(every - usual)} more options: dynid {command} --help-all\n")
    listed = {flag for flag in module.USUAL_OPTIONS if flag.startswith("--")}
    assert listed <= usual, "every usual option exists and is shown"
    usage = full[0].partition("\n\n")[0]
    short_too = set(re.findall(r"^ {2}-\w[^,\n]*, (--[\w-]+)", full[0], re.MULTILINE))
    assert every - short_too == set(re.findall(r"--[\w-]+", usage)) - short_too


def test_commands_stand_as_a_reader_meets_them_and_the_others_by_name():
    first = ["demo", "mdh", "base", "excite", "preview", "check", "convert", "identify", "payload", "gains"]
    names = cli.command_names()
    folder = Path(cli.__file__).parent / "commands"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert names == [*first, *sorted(files - set(first))] and "report" in names
    assert re.findall(r"^    (\w+)(?: |$)", cli.build_parser().format_help(), re.MULTILINE) == names


def test_a_warning_is_one_line_without_our_code(tmp_path):
    rows = [f"{k / 100},{k / 5000},0,0" for k in range(3000)]
    head = "time,waist.position,shoulder.position,elbow.position"
    (tmp_path / "motion.csv").write_text("\n".join([head, *rows]) + "\n")
    environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "DYNID_BACKEND": "auto"}
    environment.pop("CC", None)
    line = [sys.executable, "-m", "ros2_dynid.cli", "torque", "demo3", "motion.csv", "torque.csv", "--static"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"dynid: warning: the slower NumPy backend is used: there is no C compiler; .*\n", done.stderr)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_command_that_says_no_ends_with_its_own_code(monkeypatch, capsys, flags):
    @dataclass(frozen=True)
    class Outcome:
        exit_code: int

    done = []
    monkeypatch.setattr(mdh, "show", lambda outcome, console: print(f"code {outcome.exit_code}"))
    monkeypatch.setattr(mdh, "finish", lambda args: done.append(capsys.readouterr().out), raising=False)
    for code in (0, 1):
        monkeypatch.setattr(mdh, "run", lambda args, code=code: Outcome(code))
        assert main(["mdh", "demo3", *flags]) == code
        said = done.pop()  # all of it before what stays after the outcome
        assert json.loads(said) == {"exit_code": code} if flags else said == f"code {code}\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "dynid: interrupted\n"),
        (PermissionError(13, "Permission denied", "/a"), 2, "dynid mdh: /a: Permission denied; check the path, "),
        (OSError(28, "No space left on device"), 2, "dynid mdh: No space left on device; check the path, "),
    ],
)
def test_what_ends_a_command_early_is_one_line_and_a_code(monkeypatch, capsys, error, code, said):
    monkeypatch.setattr(mdh, "run", Mock(side_effect=error))
    assert main(["mdh", "demo3"]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(said) and err.count("\n") == 1


def test_texts_of_what_a_command_found_name_flags(monkeypatch, capsys):
    found = RecordingProblem("x", "red", "still", Text("hold it: ", Option("hold", {"j1": 0})))
    monkeypatch.setattr(mdh, "run", lambda args: found)
    monkeypatch.setattr(mdh, "show", lambda outcome, console: print(outcome.do))
    assert main(["mdh", "demo3"]) == 0 and capsys.readouterr().out == "hold it: --hold j1=0\n"
    assert main(["mdh", "demo3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["do"] == "hold it: --hold j1=0"
    monkeypatch.setattr(mdh, "run", Mock(side_effect=InputError("it moved", found.do, "a.csv")))
    assert main(["mdh", "demo3"]) == 2
    assert capsys.readouterr().err == "dynid mdh: a.csv: it moved; hold it: --hold j1=0\n"


def test_a_reader_that_goes_away_is_no_error_to_tell(monkeypatch, capsys):
    moved = []
    monkeypatch.setattr(os, "dup2", lambda *handles: moved.append(handles))
    for gone in ("write", "flush"):
        pipe = Mock(
            fileno=lambda: 77, isatty=lambda: False, encoding="utf-8", **{f"{gone}.side_effect": BrokenPipeError}
        )
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["mdh", "demo3", "--json"]) == 141, "as a shell calls what SIGPIPE ended"
        ((new, old),) = moved
        assert old == 77 and Path(f"/proc/self/fd/{new}").readlink() == Path(os.devnull)
        os.close(new)
        moved.clear()
    assert capsys.readouterr().err == ""


def on_a_terminal(*arguments: str) -> str:
    """Return what a command writes to a terminal."""
    master, slave = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    environment["TERM"] = "xterm-256color"
    command = [sys.executable, "-m", "ros2_dynid.cli", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, env=environment) as process:
        os.close(slave)
        chunks = []
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the terminal is gone with the process
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(master)
    assert process.returncode == 0
    return b"".join(chunks).decode()


def test_no_color_writes_no_escape_sequence_at_all():
    coloured, plain = on_a_terminal("base", "puma560"), on_a_terminal("base", "puma560", "--no-color")
    assert "\x1b[" in coloured
    assert "\x1b" not in plain and "base parameters" in plain


def console(width: int) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, highlight=False), out


COLUMNS = [Column("joint", wrap=True), *(Column(f"quantity\n[unit {k}]", right=True) for k in range(6))]
ROWS = [[f"joint_{j}", *(f"{j}.{k}23456" for k in range(6))] for j in range(3)]


@pytest.mark.parametrize("width", [200, 80, 60, 40, 20])
def test_no_cell_is_lost_however_narrow_the_terminal(width):
    screen, out = console(width)
    print_table(screen, COLUMNS, ROWS, title="a table")
    text = out.getvalue()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for row in ROWS:
        for cell in row:
            assert cell in text
    for k in range(6):
        assert f"[unit {k}]" in text


def test_names_are_not_taken_for_markup():
    screen, out = console(80)
    print_table(screen, [Column("joint"), Column("")], [["[bold]j1[/bold]", RichText("red", "red")]])
    assert "[bold]j1[/bold]" in out.getvalue()


def test_texts_of_an_outcome_name_flags():
    problem = RecordingProblem("coverage", "red", "still", Text("hold it: ", Option("hold", {"j1": 0})))
    assert with_flags({"problems": (problem,)})["problems"][0].do == "hold it: --hold j1=0"
    assert with_flags([problem])[0].what == "still"


def test_a_console_without_colours_writes_none(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    plain = console_of(no_color=True)
    with plain.capture() as captured:
        plain.print("bold", style="bold red")
    assert not re.search("\x1b", captured.get())


def test_identify_prints_levels_and_names_without_markup():
    filters = Filter(1000.0, 10.0, None, 100.0, 20.0, 0.02, 0.1)
    row = BaseRow("ZZR1", 1.0, None, None, 1.0, "kg.m^2", "ZZ1", "ZZR1 = ZZ1")
    remark = Remark(Level.PROBLEM, Text("check the sign: ", Option("gains", {"[j1]": -1})))
    error = TorqueError(0.1, 0.02)
    outcome = IdentifyOutcome(
        base=(row,),
        essential=(),
        standard={},
        consistent={},
        fit={"[bold]j1": error, "all": error},
        validation={},
        cond=None,
        rows=10,
        method=Method.WLS,
        filter=filters,
        delay=Delay(0.0, None),
        verdict=(remark,),
        notes=(),
        seconds=0.1,
    )
    screen, out = console(100)
    identify.show(with_flags(outcome), screen)
    text = out.getvalue()
    assert "problem check the sign: --gains [j1]=-1" in text
    assert "[bold]j1" in text


def test_the_largest_torque_counts_by_its_size_whatever_its_sign(capsys, tmp_path):
    rng = np.random.default_rng(0)
    q = np.array([0.3, -1.2, 0.2]) + 0.05 * rng.uniform(-1, 1, (20, 3))
    names = ("waist", "shoulder", "elbow")
    lines = [",".join(["time", *(f"{name}.position" for name in names)])]
    lines += [",".join(map(repr, map(float, (0.1 * k, *row)))) for k, row in enumerate(q)]
    (tmp_path / "way.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "torque.csv"
    assert main(["torque", "demo3", str(tmp_path / "way.csv"), str(out), "--static", "--json"]) == 0
    effort = json.loads(capsys.readouterr().out)["effort"]
    tau = np.loadtxt(out, delimiter=",", skiprows=1)[:, 1:]
    assert np.any(tau.max(axis=0) < 0) or np.any(-tau.min(axis=0) > tau.max(axis=0)), "some are negative"
    for j, name in enumerate(names):
        assert effort[name]["max"] == pytest.approx(np.abs(tau[:, j]).max())
        assert effort[name]["rms"] == pytest.approx(np.sqrt(np.mean(tau[:, j] ** 2)))


@pytest.mark.parametrize("command", ["identify", "check"])
def test_robot_and_recordings_may_come_in_either_order_where_the_names_tell(tmp_path, capsys, command):
    (tmp_path / "arm.urdf").write_text("<robot")
    (tmp_path / "bag").mkdir()
    (tmp_path / "run.csv").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    said = {
        "arm.urdf bag run.csv": "arm.urdf: not XML",
        "bag arm.urdf run.csv": "arm.urdf: not XML",
        "run.csv bag arm.urdf": "arm.urdf: not XML",
        "run.csv bag": f"neither a URDF nor a robot file; {ROBOT_HINT}",
        "bag run.csv": f"bag: a folder is no robot; {ROBOT_HINT}",
        "loop run.csv": "loop: this symbolic link leads to nothing; correct the link",
        "demo3 loop": "loop: this symbolic link leads to nothing; correct the link",
        "demo3 none": "none: there is no such file or folder; check the path",
    }
    for line, text in said.items():
        words = line.split()
        robot_last = command == "check" and line not in ("bag arm.urdf run.csv",)
        words = [*words[1:], words[0]] if robot_last else words
        paths = [word if word == "demo3" else str(tmp_path / word) for word in words]
        assert main([command, *paths]) == 2
        assert text in capsys.readouterr().err, line
