# SPDX-License-Identifier: Apache-2.0

"""The whole use case: the real TX-40, bad recordings, cancelling, and the commands."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from recordings import TX40, simulated, simulated_truth, tx40
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model, load_torque_data
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.validation.diagnosis import diagnose, refuse_certain
from ros2_dynid.identification.validation.effort_sign_and_unit import estimate_joint_factors
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.samples import cut


@pytest.fixture(scope="module")
def tx40_result(tmp_path_factory):
    robot, samples = tx40()
    folder = tmp_path_factory.mktemp("tx40")
    law = "viscous+coulomb"  # as the paper has it
    options = IdentifyOptions(cross_validate=3, essential=True, standard=True, consistent=True, friction=law)
    return identify(robot, [samples], options=options, output=folder), folder


def test_tx40_plain_fit_beats_the_baseline():
    robot, samples = tx40()
    result = identify(robot, [samples], options=IdentifyOptions(cross_validate=3)).summary
    assert result["fit"]["all"]["relative"] < 0.050
    assert result["validation"]["all"]["relative"] < 0.064
    assert result["rows"] > 1000


def test_tx40_fitted_on_five_seconds_tested_on_the_rest():
    robot, samples = tx40()
    first, rest = samples.take(samples.t < 5.0), samples.take(samples.t >= 5.0)
    assert identify(robot, [first], validate=[rest]).summary["validation"]["all"]["relative"] < 0.074


def test_tx40_parameters_agree_with_another_toolbox():
    robot, samples = tx40()
    plain = IdentifyOptions(friction="viscous+coulomb")  # as that toolbox has it
    ours = {row["leader"]: row for row in identify(robot, [samples], options=plain).summary["base"]}
    kinds = {"Ixx": "XX", "Ixy": "XY", "Ixz": "XZ", "Iyy": "YY", "Iyz": "YZ", "Izz": "ZZ", "fsm": "Fcm", "fvm": "Fvm"}
    kinds |= {"mx": "MX", "my": "MY", "mz": "MZ", "fv": "Fv", "fs": "Fc", "off": "off", "Ia": "Ia", "Iam": "Ia"}
    compared = 0
    with (TX40 / "tx40_figaroh_base_params.csv").open() as file:
        for expression, _, _, value, percent in csv.reader(file):
            if float(percent) >= 5.0:
                continue
            first = expression.split()[0]
            name = kinds[first[:-1]] + first[-1]
            std = np.hypot(float(percent) / 100 * abs(float(value)), ours[name]["std"])
            assert abs(ours[name]["value"] - float(value)) < 3 * std, name
            compared += 1
    assert compared >= 15


def test_tx40_links_are_consistent_as_in_table_three(tx40_result):
    result, _ = tx40_result
    counts = result.summary["consistency"]
    assert counts["essential"]["0"] == 6 and counts["imposed"]["0"] == 6 and counts["imposed"]["full"] == 6
    assert counts["base"]["0"] <= counts["essential"]["0"] and counts["base"]["-0.04"] == 6
    assert counts["smallest_joint_inertia_imposed"] > 0
    assert counts["fit"]["all"]["relative"] < 0.05
    assert 20 <= len(result.summary["essential"]) <= 40


def test_output_folder_has_what_later_steps_read(tx40_result):
    result, folder = tx40_result
    model = load_model(folder)
    assert np.array_equal(model.value, result.model.value)
    assert load_torque_data(folder / "data.npz")["fit"].tau.shape[1] == 6
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["rows"] == result.summary["rows"]
    robot, samples = tx40()
    with pytest.raises(InputError, match="overwrite"):
        identify(robot, [samples], output=folder)


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ([1, 1, -1, 1, 1, 1], "joint_3 has the wrong sign.*gains: {joint_3: -1}$"),
        ([1, 1, 1, 1, 1, -1], "joint_6 has the wrong sign.*gains: {joint_6: -1}$"),
        ([1, 100, 1, 1, 1, 1], "times as large: joint_2 1.*gains: {joint_2: 0.0"),
        ([-1, 1, -1, 1, -1, 1], "gains: {joint_1: -1, joint_3: -1, joint_5: -1}$"),
        (
            [-1, -1, -1, -1, -1, -1],
            "all efforts.*gains: {joint_1: -1, joint_2: -1, joint_3: -1, joint_4: -1, joint_5: -1, joint_6: -1}$",
        ),
        ([1000, 1000, 1000, 1000, 1000, 1000], "not in N.m.*effort_unit: mN.m$"),
    ],
)
def test_efforts_of_wrong_sign_or_unit_name_the_joint(factors, message, tmp_path):
    robot, samples = tx40()
    with pytest.raises(InputError, match=message):
        identify(robot, [replace(samples, tau=samples.tau * np.array(factors, dtype=float))], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("begin", "seconds"), [(3.5, 2.0), (7.25, 1.5), (5.5, 1.5), (2.0, 1.5)])
def test_a_short_stretch_of_good_data_is_not_accused(begin, seconds):
    """Here the other joints do not tell about this one, or there are hardly more rows than parameters."""
    robot, samples = tx40()
    problem = build_problem(robot, [cut(samples, begin, begin + seconds)], IdentifyOptions(), lambda *_: None)
    assert not any(factor.is_wrong() for factor in estimate_joint_factors(problem.information))
    assert diagnose(problem).findings == ()


def test_a_short_stretch_of_reversed_effort_is_accused():
    robot, samples = tx40()
    short = cut(samples, 3.5, 6.0)
    short = replace(short, tau=short.tau * np.array([1.0, 1, -1, 1, 1, 1]))
    problem = build_problem(robot, [short], IdentifyOptions(), lambda *_: None)
    with pytest.raises(InputError, match=r"joint_3 has the wrong sign"):
        refuse_certain(diagnose(problem).findings, "tx40")


def test_recordings_of_different_robots_are_told_apart():
    robot, _ = simulated_truth()
    load = (0.06, 0.0, 0.0, 0.06, 0.0, 0.02, 0.0, 0.0, 0.3, 3.0)
    first, second = simulated(), simulated(seed=5, seed_motion=104, load=load)
    with pytest.raises(InputError, match="apart"):
        identify(robot, [first, replace(second, source="other robot")])
    assert identify(robot, [first, simulated(seed=6, seed_motion=105)]).summary["fit"]["all"]["relative"] < 0.01


def test_a_run_that_the_caller_stops_writes_nothing(tmp_path):
    robot, _ = simulated_truth()
    seen = []

    def stop_at_the_fourth(stage, fraction):
        seen.append(fraction)
        if len(seen) > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identify(robot, [simulated()], output=tmp_path / "out", progress=stop_at_the_fourth)
    assert not (tmp_path / "out").exists()
    assert all(0 <= fraction <= 1 for fraction in seen)


@pytest.fixture(scope="module")
def npz(tmp_path_factory):
    samples = simulated(seconds=8.0)
    path = tmp_path_factory.mktemp("npz") / "run.npz"
    np.savez(path, t=samples.t, q=samples.q, tau=samples.tau)
    return path


def test_commands_identify_and_torque(npz, tmp_path, capsys):
    out = tmp_path / "model"
    assert main(["identify", "demo6", str(npz), "-o", str(out), "--cross-validate", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"base", "essential", "standard", "consistent", "fit", "validation", "cond", "rows", "seconds"} <= set(
        result
    )
    assert {"name", "value", "std", "relative_std"} <= set(result["base"][0])
    assert set(result["fit"]["all"]) == {"rms", "relative"}
    robot, _ = simulated_truth()
    names = robot.active_names
    rows = np.random.default_rng(0).uniform(-1, 1, (3, 4, 6))
    header = ["time", *(f"{n}.{kind}" for kind in ("position", "velocity", "acceleration") for n in names)]
    lines = [",".join(header)]
    lines += [",".join(str(x) for x in (0.1 * k, *rows[0, k], *rows[1, k], *rows[2, k])) for k in range(4)]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    assert main(["torque", str(out), str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--json"]) == 0
    with (tmp_path / "out.csv").open() as file:
        table = list(csv.reader(file))
    assert table[0] == ["time", *(f"{n}.effort" for n in names)]
    expected = load_model(out).torque(*rows)
    assert np.allclose(np.array(table[1:], dtype=float)[:, 1:], expected, atol=1e-9)
    capsys.readouterr()
    assert main(["identify", "demo6", str(npz), "-o", str(out)]) == 2
    assert "--overwrite" in capsys.readouterr().err


def test_torque_wants_what_it_needs(tmp_path, capsys):
    robot, _ = simulated_truth()
    header = ",".join(["time", *(f"{n}.position" for n in robot.active_names)])
    (tmp_path / "in.csv").write_text(header + "\n" + ",".join(["0"] * 7) + "\n")
    args = ["torque", "demo6", str(tmp_path / "in.csv"), str(tmp_path / "out.csv")]
    assert main(args) == 2
    assert "--static" in capsys.readouterr().err
    assert main([*args, "--static", "--no-friction"]) == 0
