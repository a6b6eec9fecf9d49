# SPDX-License-Identifier: Apache-2.0

"""What people read is what was found: every figure with its unit, beside the name it belongs to."""

from __future__ import annotations

import io
import json
import math
import re
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from ros2_dynid.cli import main
from ros2_dynid.commands import (
    check,
    convert,
    excite,
    fleet,
    gains,
    identify,
    payload,
    preview,
    replay,
    report,
    tool,
    torque,
)
from ros2_dynid.commands.convert import ConvertOutcome
from ros2_dynid.commands.replay import ReplayOutcome
from ros2_dynid.commands.shared.terminal import Column, print_notes, print_table
from ros2_dynid.commands.torque import EffortSize, TorqueOutcome
from ros2_dynid.fleet.summary import FailedRecording, RobotSummary
from ros2_dynid.identification.candidates import Consistency
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import Filter
from ros2_dynid.identification.result import (
    BaseRow,
    Delay,
    FrictionRow,
    IdentifyOutcome,
    SecondSensor,
    SensorRow,
    SetErrors,
    TorqueError,
)
from ros2_dynid.identification.validation.verdict import Level, Remark
from ros2_dynid.recording.checks import JointCheck, RecordingCheck, RecordingProblem
from ros2_dynid.usecases.check import RecordingsCheck
from ros2_dynid.usecases.fleet import FleetOutcome
from ros2_dynid.usecases.gains import GainsOutcome
from ros2_dynid.usecases.payload import HalfWidths, JointMass, PayloadOutcome, PayloadsOutcome
from ros2_dynid.usecases.plan import PlanMethod, PlanOutcome, PredictedRow
from ros2_dynid.usecases.preview import PreviewOutcome
from ros2_dynid.usecases.report import ReportOutcome
from ros2_dynid.usecases.tool import SensorError, ToolOutcome


def printed(command, outcome, width=200, **options):
    """Return the lines that a command prints of an outcome, without the frames of tables, cells one blank apart."""
    out = io.StringIO()
    command.show(outcome, Console(file=out, width=width, highlight=False), **options)
    lines = (" ".join(re.sub("[\u2500-\u257f]", " ", line).split()) for line in out.getvalue().splitlines())
    return [line for line in lines if line]


# --- recordings


def checked(**changes):
    known = JointCheck("elbow", -1.25, 2.5, 0.625, 3.25, 10.5, 20.25, level="red")
    unknown = JointCheck("wrist", None, None, None, None, None, None)
    fields = {"source": "run.mcap", "verdict": "red", "samples": 1200, "duration": 12.5, "rate": 96.25}
    fields |= {"jitter": 0.00125, "gaps": (), "gap_count": 3, "missing_samples": 0, "joints": (known, unknown)}
    fields |= {"problems": (RecordingProblem("stuck", "red", "stands still", "move it", "elbow"),), "notes": ("n1",)}
    return RecordingCheck(**fields | changes)


def test_check():
    lines = printed(check, checked())
    assert lines[:2] == ["red run.mcap", "1200 samples in 12.5 s at 96.25 Hz, jitter 1.25 ms, 3 gaps"]
    assert "elbow red -1.25 .. 2.5 62 % 3.25 10.5 20.2" in lines
    assert "wrist green - .. - - - -" in lines
    assert lines[-3:] == ["red elbow: stands still", "move it", "note: n1"]
    still = JointCheck("knee", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert "knee green 0 .. 0 0 % 0 0 0" in printed(check, checked(joints=(still,))), "nothing is not unknown"


def test_check_of_several_recordings():
    together = (RecordingProblem("effort_sign", "red", "reversed", "set --gains elbow=-1"),)
    lines = printed(check, RecordingsCheck("red", (checked(), checked(source="other.mcap")), together))
    assert [line for line in lines if "mcap" in line] == ["red run.mcap", "red other.mcap"]
    assert lines[-3:] == ["red all together", "red reversed", "set --gains elbow=-1"]


def test_check_names_forty_problems_and_counts_the_rest():
    many = tuple(RecordingProblem("gap", "yellow", f"gap {k:02d}", "look") for k in range(41))
    lines = printed(check, checked(problems=many, notes=()))
    assert sum(line.startswith("yellow gap") for line in lines) == 40
    assert lines[-1] == "... and 1 more problems, see --json"
    assert not any("more problems" in line for line in printed(check, checked(problems=many[:40], notes=())))
    assert "more" not in printed(check, checked(problems=many[:40], notes=()))[-1]


def test_a_strict_check_fails_on_red_only():
    for strict, verdict, code in ((True, "red", 1), (True, "yellow", 0), (False, "red", 0)):
        assert check.exit_code(Namespace(strict=strict), checked(verdict=verdict)) == code


def test_convert():
    outcome = ConvertOutcome("out.csv", 50, 1.5, 3.25, ("a", "b"), ("q", "tau"), ("cut",))
    expected = ["out.csv: 50 samples of 2 joints, 1.5 to 3.25 s (q, tau)", "note: cut"]
    assert printed(convert, outcome) == expected


# --- loads


INERTIA = ((0.1, 0.2, 0.3), (0.2, 0.4, 0.5), (0.3, 0.5, 0.6))
WIDTHS = HalfWidths(0.25, (0.01, 0.02, 0.03), tuple(tuple(value / 100 for value in row) for row in INERTIA))
WIDE = HalfWidths(9.0, (9.0, 9.0, 9.0), ((9.0,) * 3,) * 3)
BODY = [
    "mass 2.5000 +- 0.2500 kg",
    "com x -0.10000 +- 0.01000 m",
    "com y 0.20000 +- 0.02000 m",
    "com z 0.30000 +- 0.03000 m",
    "Ixx 0.100000 +- 0.001000 kg.m^2",
    "Ixy 0.200000 +- 0.002000 kg.m^2",
    "Ixz 0.300000 +- 0.003000 kg.m^2",
    "Iyy 0.400000 +- 0.004000 kg.m^2",
    "Iyz 0.500000 +- 0.005000 kg.m^2",
    "Izz 0.600000 +- 0.006000 kg.m^2",
]


def load(significant=True, **more):
    return PayloadOutcome(2.5, (-0.1, 0.2, 0.3), INERTIA, WIDTHS, WIDE, "flange", significant, **more)


def test_payload():
    assert printed(payload, load()) == ["payload in the frame of flange, +- one standard deviation", *BODY]
    assert printed(payload, load(False))[-1] == "the payload's mass does not differ significantly from zero"
    masses = {"elbow": JointMass(2.0, 0.125), "wrist": JointMass(3.0, 0.25)}
    lines = printed(payload, load(joint_mass=masses, contradicting=("wrist",)))
    assert lines[-1] == (
        "joints disagree on the mass (wrist), and the error bars allow for it: "
        "elbow 2.000 +- 0.125, wrist 3.000 +- 0.250 kg"
    )
    lines = printed(payload, PayloadsOutcome({"[b]one": load(), "two": load(False)}))
    assert lines[0] == "[b]one" and lines[12] == "two" and len(lines) == 25


def test_gains():
    outcome = GainsOutcome({"a": 12.3456789, "b": None, "c": -2.0}, {"a": 0.126, "b": None, "c": None}, {}, 2.5)
    assert printed(gains, outcome)[1:] == [
        "a: 12.346 +- 0.13 (--gains a=12.3457)",
        "b: not identified; use a heavier payload, further from the joint",
        "c: -2 (--gains c=-2)",
    ]


def test_tool():
    bias = (1.0, 2.0, 3.0, 0.4, 0.5, 0.6)
    drift = tuple((-1) ** k * value / 60 for k, value in enumerate(bias))
    sensor = SensorError(tuple(value / 10 for value in bias), (9.0,) * 6)
    outcome = ToolOutcome(
        2.5, (-0.1, 0.2, 0.3), INERTIA, WIDTHS, WIDE, "flange", False,
        bias, drift, sensor, (0.0,) * 6, 0.0, 1, 10, ("n",),
    )  # fmt: skip
    assert printed(tool, outcome) == [
        "tool beyond the sensor, in the frame of flange, +- one standard deviation",
        *BODY,
        "bias of the sensor, and its drift in a minute",
        "fx 1.0000 +- 0.1000 N, +1.0000",
        "fy 2.0000 +- 0.2000 N, -2.0000",
        "fz 3.0000 +- 0.3000 N, +3.0000",
        "tx 0.4000 +- 0.0400 N.m, -0.4000",
        "ty 0.5000 +- 0.0500 N.m, +0.5000",
        "tz 0.6000 +- 0.0600 N.m, -0.6000",
        "n",
        "the tool's mass does not differ significantly from zero",
    ]


# --- identification


FILTER = Filter(1000.0, 10.0, None, 500.0, 100.0, 0.02, 0.1)


def identified(**changes):
    rows = (
        BaseRow("ZZR1", 1.25, 0.125, 0.1, 1.0, "kg.m^2", "ZZ1", "ZZR1 = ZZ1"),
        BaseRow("Fc2", -3.0, None, None, 1.0, "N.m", "Fc2", "Fc2"),
    )
    fields = {"base": rows, "essential": (), "standard": {}, "consistent": {}, "validation": {}, "cond": None}
    fields |= {"fit": {"elbow": TorqueError(0.5, 0.025), "all": TorqueError(0.75, 0.0375)}, "rows": 120}
    fields |= {"method": Method.WLS, "filter": FILTER, "delay": Delay(0.0, None), "verdict": (), "notes": ()}
    return IdentifyOutcome(**fields | {"seconds": 1.5} | changes)


def test_identify_prints_the_verdict_then_errors_then_files():
    remarks = (Remark(Level.PROBLEM, "bad"), Remark(Level.WARNING, "look"), Remark(Level.GOOD, "fine"))
    lines = printed(identify, identified(verdict=remarks, report="r.html", model="m.yaml", units={"elbow": "N.m"}))
    assert lines == [
        "problem bad",
        "warning look",
        "good fine",
        "torque errors",
        "joint rms relative",
        "elbow 0.5 N.m 2.50 %",
        "all 0.75 3.75 %",
        "2 parameters with error bars: -v lists them, --explain says what their names mean, or open the report",
        "120 rows, computed in 1.50 s",
        "report: r.html",
        "model: m.yaml",
    ]


def test_identify_lists_the_parameters_when_asked():
    lines = printed(identify, identified(), verbose=True)
    assert "ZZR1 1.25 0.125 10.0 % kg.m^2" in lines and "Fc2 -3 not identified N.m" in lines
    assert (
        "filters: positions 10 Hz, torque and regressor as recorded, 100 rows per second, "
        "rows below 2 % of the top speed dropped"
    ) in lines
    small = replace(identified().base[0], value=1e-6, relative_std=460.0)
    assert "ZZR1 1e-06 0.125 over 100 % kg.m^2" in printed(identify, identified(base=(small,)), verbose=True)


def test_identify_explains_names():
    lines = printed(identify, identified(), explain=True)
    what = "moment of inertia of link 1 about axis z, at the origin of frame 1"
    assert f"ZZR1 {what}; with R: and what other parameters add to the same torque ZZR1 = ZZ1" in lines
    assert "Fc2 Coulomb friction of joint 2 Fc2" in lines


def test_identify_with_everything():
    error, other = TorqueError(0.5, 0.025), TorqueError(1.5, 0.125)
    outcome = identified(
        validation={"elbow": other, "all": other},
        units={"elbow": "N", "all": "N"},
        folds=4,
        cond=123.4,
        friction=(
            FrictionRow("Fs2", "elbow", "stribeck", 1.5, 0.25, "N.m"),
            FrictionRow("Fl1", "a", "load", 0.1, None, "1"),
        ),
        sets={"base": SetErrors({"all": error}, {}), "consistent": SetErrors({"all": other}, {"all": error})},
        band_coverage={"elbow": 0.5, "all": 0.955},
        consistency=Consistency(
            a_priori=dict.fromkeys(identify.TOLERANCES, 3),
            imposed=dict(zip(identify.TOLERANCES, range(5), strict=True)),
        ),
        essential=("ZZR1",),
        sensors={"a": SensorRow("motor"), "elbow": SensorRow("link+Fc")},
        second={"elbow": SecondSensor("link", other, 0.25, None, {"Ia": 0.5, "Fv": 1.5}, {"Ia": 0.01, "Fv": 0.02})},
        notes=("n1",),
    )
    lines = printed(identify, outcome, verbose=True)
    for line in (
        "elbow 0.5 N 2.50 % 1.5 N 12.50 %",
        "Fs2 stribeck 1.5 0.25 N.m",
        "Fl1 load 0.1 1",
        "base 2.50 %",
        "consistent 12.50 % 2.50 % yes",
        "95.5 % of the validation rows lie in the 95 % band of the predicted torque",
        "a priori 3 3 3 3 3",
        "imposed 0 1 2 3 4",
        "1 essential parameters: ZZR1",
        "efforts come from torque sensors (elbow link+Fc); the model predicts the torques at these sensors",
        "elbow link 1.5 12.50 % 0.25 Ia 0.5 +- 0.01, Fv 1.5 +- 0.02",
        "note: n1",
        "120 rows, condition number 123, computed in 1.50 s",
    ):
        assert line in lines
    assert "joint rms relative (left out in turn) (left out in turn)" in lines
    short = printed(identify, outcome)
    assert "note: n1" in short and not any("stribeck" in line or "filters" in line for line in short)


def test_sensors_that_are_alike_are_named_once():
    alike = identified(sensors={"a": SensorRow("link"), "b": SensorRow("link")})
    assert any("torque sensors (link);" in line for line in printed(identify, alike, verbose=True))
    mixed = identified(sensors={"a": SensorRow("link"), "b": SensorRow("link+Fc")})
    assert any("torque sensors (a link, b link+Fc);" in line for line in printed(identify, mixed, verbose=True))
    lacking = identified(sensors={"a": SensorRow("motor-gravity"), "b": SensorRow("motor-gravity")})
    lines = printed(identify, lacking, verbose=True)
    assert "efforts lack a part of the motors' torque (motor-gravity), and so does the model" in lines
    assert not any("torque sensors" in line for line in lines)
    motor = identified(sensors={"a": SensorRow("motor")})
    assert not any("torque sensors" in line for line in printed(identify, motor, verbose=True))


# --- motions


def test_excite():
    rows = [PredictedRow("A", 1.0, 30.0), PredictedRow("B", 1.0, 31.0), PredictedRow("C", 1.0, 1000.0)]
    rows += [PredictedRow("D", None, None), PredictedRow("E", 1.0, 999.0)]
    outcome = PlanOutcome(
        "arm", PlanMethod.POINTS, "plan.yaml", 12.5, 90, {"velocity": 0.755}, ("a",), (0.0,), 3.25, cond=45.5,
        S=math.inf, clearance=0.0625, noise=0.5, parameters=tuple(rows), pictures=("p.png",), notes=("n1",),
    )  # fmt: skip
    lines = printed(excite, outcome, width=400)
    for line in (
        "arm: points trajectory", "condition number of W 45.5", "rows of W 90", "duration 12.5 s", "found in 3.25 s",
        "smallest distance between capsules 0.0625 m", "velocity limit used 75.5 %", "written: plan.yaml",
        "written: p.png", "note: n1",
    ):  # fmt: skip
        assert line in lines
    assert not any("equilibrium" in line or "close links" in line for line in lines), "infinite, and not known"
    assert any(
        line.startswith("3 of 5 base parameters will have a standard deviation above 30 %")
        and line.endswith("the noise is 0.5 N.m (--noise), the worst: C over 1000 %, E 999 %, B 31 %")
        for line in lines
    )
    assert not any("is large" in line for line in lines)
    (line,) = (line for line in printed(excite, replace(outcome, cond_normalised=109.2), width=400) if "large" in line)
    assert line.startswith("the condition number 109 (columns of norm 1) is large, below 30 is good: search longer")
    many = tuple(PredictedRow(f"P{k}", 1.0, 100.0 + k) for k in range(10))
    (line,) = (line for line in printed(excite, replace(outcome, parameters=many), width=400) if "worst" in line)
    assert line.startswith("10 of 10 base") and line.partition("the worst: ")[2] == ", ".join(
        f"P{k} {100 + k} %" for k in range(9, 1, -1)
    ), "eight of them"


def test_preview():
    shown = PreviewOutcome(
        "arm", "points", 12.5, {"effort": 0.5}, 0.0625, 3.5, ("hand", "base"), "p.html", None, ("n1",)
    )
    assert printed(preview, shown) == [
        "arm: points trajectory", "value", "duration 12.5 s", "smallest distance between capsules 0.0625 m at 3.5 s",
        "between hand and base", "effort limit used 50.0 %", "written: p.html", "note: n1",
    ]  # fmt: skip
    assert not any("distance" in line for line in printed(preview, PreviewOutcome("a", "k", 1.0, {}, None, None, None)))


# --- fleets and reports


def test_fleet_names_first_what_needs_attention():
    def one(verdict, validation=None):
        return RobotSummary("arm", verdict, f"why {verdict}", "", "", 3, 9.0, validation=validation or {})

    robots = {
        "a": one("good", {"all": TorqueError(1.0, 0.0325)}),
        "b": one("note"),
        "c": one("warning"),
        "d": one("failed"),
    }
    failed = tuple(FailedRecording("c", f"run{k:02d}", "empty") for k in range(41))
    outcome = FleetOutcome(robots, (), failed, (), "index.html", "fleet.json", 12, 5, 2)
    lines = printed(fleet, outcome)
    order = [line.split()[0] for line in lines if "why" in line and line[1] == " "]
    assert order == ["c", "d", "a", "b"]
    assert "a good 3 3.25 % why good" in lines and "c warning 3 why warning" in lines
    assert sum(line.startswith("not used: c: run") for line in lines) == 40
    assert "... and 1 more recordings that could not be used" in lines
    assert lines[-2:] == ["12 recordings, 5 newly read; 2 robots newly identified", "report: index.html"]
    many = FleetOutcome({f"r{k:03d}": one("good") for k in range(43)}, (), (), (), "i", "f", 1, 1, 1)
    lines = printed(fleet, many)
    assert "... and 3 more robots on the page" in lines and sum(line.startswith("r0") for line in lines) == 40
    assert "43 robots" in lines
    just = FleetOutcome({f"r{k:03d}": one("good") for k in range(40)}, (), failed[:40], (), "i", "f", 1, 1, 1)
    lines = printed(fleet, just)
    assert sum(line.startswith(("r0", "not used")) for line in lines) == 80 and not any("..." in line for line in lines)


def test_report():
    outcome = ReportOutcome("page.html", ("one", "two", "three"), {"two": ("ZZR1", "Fc2"), "three": ()})
    assert printed(report, outcome) == [
        "two against one: ZZR1, Fc2", "three against one: no significant change", "report: page.html",
    ]  # fmt: skip


# --- torques


def test_replay():
    first, *notes = printed(replay, ReplayOutcome(7, 1.25, listeners=False, interrupted=True))
    assert first == "7 joint states published in 1.25 s"
    assert notes == ["note: there was no subscriber at the start", "note: interrupted before the end"]
    assert printed(replay, ReplayOutcome(7, 1.25, listeners=True, interrupted=False)) == [first]


def test_torque_prints_sizes_and_the_temperature_it_took():
    outcome = TorqueOutcome(20, "t.csv", {"a": EffortSize(1.5, 2.5)}, {"a": 25.0}, {"a": 3})
    assert printed(torque, outcome) == [
        "20 rows written to t.csv",
        "the temperature of a is not known in every row: its friction is that at 25 deg C there",
        "a is faster than in the recordings in 3 rows: its friction is extrapolated there",
        "a: rms 1.5, largest 2.5 [N.m or N]",
    ]


NAMES = ("waist", "shoulder", "elbow")


def table(path, columns, rows):
    lines = [",".join(columns), *(",".join(map(repr, map(float, row))) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_torques_of_a_table_are_those_of_its_rows(tmp_path, capsys):
    from ros2_dynid.dynamics.newton_euler import inverse_dynamics
    from ros2_dynid.model.load import load_robot
    from ros2_dynid.model.parameters import standard_vector

    rng = np.random.default_rng(0)
    q, dq, ddq = rng.uniform(-1, 1, (3, 8, 3))
    kinds = ("position", "velocity", "acceleration")
    order = rng.permutation(9)
    columns = [f"{name}.{kind}" for kind in kinds for name in NAMES]
    motion = np.hstack((q, dq, ddq))
    t = 0.5 * np.arange(8)
    path = table(tmp_path / "m.csv", ["time", *(columns[k] for k in order)], np.column_stack((t, motion[:, order])))
    robot = load_robot("demo3")
    chi = standard_vector(robot)
    for flags, expected in (
        ([], inverse_dynamics(robot, chi, q, dq, ddq)),
        (["--no-friction"], inverse_dynamics(robot, standard_vector(robot, _without_friction(robot)), q, dq, ddq)),
    ):
        assert main(["torque", "demo3", path, str(tmp_path / "t.csv"), "--overwrite", "--json", *flags]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == 8
        header, *rows = (tmp_path / "t.csv").read_text().splitlines()
        assert header == "time,waist.effort,shoulder.effort,elbow.effort"
        found = np.array([[float(cell) for cell in row.split(",")] for row in rows])
        np.testing.assert_allclose(found, np.column_stack((t, expected)), rtol=1e-9, atol=1e-9)


def _without_friction(robot):
    return {name: value for name, value in robot.parameters.items() if not name.startswith(("Fv", "Fc", "off"))}


@pytest.mark.parametrize(
    ("columns", "row", "flags", "said"),
    [
        ([f"{n}.position" for n in NAMES], [0, 0, 0], [], "the table has no velocity"),
        ([f"{n}.position" for n in NAMES], [0, math.nan, 0], ["--static"], "shoulder.position is missing or not finite in row 2"),  # noqa: E501
        ([f"{n}.position" for n in NAMES], [0, 0, math.inf], ["--static"], "elbow.position is missing or not finite in row 2"),  # noqa: E501
        ([f"{n}.position" for n in NAMES], [0, 0, 0], ["--static", "--std"], "a priori parameters have no error bars"),
    ],
)  # fmt: skip
def test_torques_that_cannot_be_told(tmp_path, capsys, columns, row, flags, said):
    path = table(tmp_path / "m.csv", ["time", *columns], [[0.0, 0.0, 0.0, 0.0], [0.5, *row]])
    assert main(["torque", "demo3", path, str(tmp_path / "t.csv"), *flags]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "t.csv").exists()


def test_a_table_of_torques_is_a_csv_file(tmp_path, capsys):
    path = table(tmp_path / "m.csv", ["time", *(f"{n}.position" for n in NAMES)], [[0.0, 0.0, 0.0, 0.0]])
    assert main(["torque", "demo3", path, str(tmp_path / "t.NPZ"), "--static"]) == 2
    assert "name a csv file" in capsys.readouterr().err


# --- tables


def test_titles_captions_and_notes():
    out = io.StringIO()
    screen = Console(file=out, width=60, highlight=False)
    print_table(screen, [Column("a"), Column("b", right=True)], [("x", "1"), ("yy", "22")], title="[t]", caption="[c]")
    print_notes(screen, ["[n]"])
    lines = out.getvalue().splitlines()
    assert lines[0] == "[t]" and lines[-2:] == ["[c]", "note: [n]"]
    assert [line.split("│")[1:3] for line in lines if line.startswith("│")] == [[" x  ", "  1 "], [" yy ", " 22 "]]
