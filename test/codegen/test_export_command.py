# SPDX-License-Identifier: Apache-2.0

"""dynid export and dynid bench from the command line."""

import json
import subprocess
import sys

import numpy as np
import pytest

from ros2_dynid.cli import main


def export(capsys, *arguments):
    code = main(["export", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out) if code == 0 else err


def test_c_folder_is_flat_and_counted(tmp_path, capsys):
    code, result = export(capsys, "puma560", "--to", "c", "-o", tmp_path / "out")
    assert code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "CMakeLists.txt",
        "main.c",
        "puma560.c",
        "puma560.h",
    ]
    assert result["multiplications"] == result["functions"]["torque"]["multiplications"] <= 257
    assert result["additions"] <= 243
    assert set(result["functions"]) == {"torque", "inertia_gravity", "velocity_torques", "synchronous"}
    assert len(result["parameters"]) == 40
    header = (tmp_path / "out" / "puma560.h").read_text()
    assert f"ZZ1 = {result['parameters']['ZZ1']!r}" in header


def test_numpy_module_checks_itself(tmp_path, capsys):
    code, _ = export(capsys, "stanford", "--to", "numpy", "-o", tmp_path, "--only", "inertial,friction", "--load")
    assert code == 0
    done = subprocess.run([sys.executable, tmp_path / "stanford.py"], capture_output=True, text=True)
    assert done.returncode == 0 and "largest relative error" in done.stdout, done.stderr


def test_an_identified_model_with_essential_parameters(tmp_path, capsys):
    from ros2_dynid.base_parameters.compute import base_parameters
    from ros2_dynid.identification.model_file import model_of, save_model
    from ros2_dynid.model.load import load_robot

    robot = load_robot("puma560")
    base = base_parameters(robot, groups=["inertial", "rotor"])
    value = np.linspace(1.0, 2.0, len(base))
    essential = (base.names[0], base.names[7])
    model = model_of(
        robot,
        base,
        value,
        value / 100,
        np.diag(value),
        essential=essential,
        obtained={"created": "2026-01-02T03:04:05+00:00", "method": "wls"},
    )
    save_model(model, tmp_path / "model.yaml")
    code, result = export(capsys, tmp_path / "model.yaml", "--to", "c", "-o", tmp_path / "out")
    assert code == 0
    assert list(result["parameters"]) == [base.leaders[0], base.leaders[7]]
    assert "2026-01-02" in (tmp_path / "out" / "puma560.h").read_text()
    for wrong, said in (
        (("--gravity", "0,0,9.81"), "identified with gravity"),
        (("--hold", "x=0.1"), "--hold is given"),
        (("--tip-link", "x"), "--tip-link is given"),
    ):
        code, error = export(capsys, tmp_path / "model.yaml", "--to", "runtime", "-o", tmp_path / "other", *wrong)
        assert code == 2 and said in error and error.count("\n") == 1 and not (tmp_path / "other").exists()
    same = ",".join(map(repr, model.robot.gravity.tolist()))
    assert (
        export(capsys, tmp_path / "model.yaml", "--to", "runtime", "-o", tmp_path / "same", f"--gravity={same}")[0] == 0
    )
    code, error = export(capsys, tmp_path / "model.yaml", "--to", "urdf", "-o", tmp_path / "out")
    assert code == 2 and "--urdf" in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["puma560", "--only", "XX9"], "XX9"),
        (["puma560", "--tool", "hand"], "no tool link 'hand'"),
        (["puma560", "--to", "urdf"], "only a URDF"),
        (["puma560", "--effort", "0"], "--effort"),
        (["puma560", "--to", "numpy", "--float"], "--to c"),
        (["nothing.urdf"], "nothing.urdf"),
    ],
)
def test_bad_input_is_one_line(arguments, said, tmp_path, capsys):
    code, error = export(capsys, *arguments, "-o", tmp_path / "out")
    assert code == 2 and said in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_bench_names_its_benchmarks(capsys):
    assert main(["bench", "--only", "nonsense"]) == 2
    assert "choose from" in capsys.readouterr().err
