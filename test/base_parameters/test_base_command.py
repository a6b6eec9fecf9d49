# SPDX-License-Identifier: Apache-2.0

"""dynid base, as a user calls it."""

from __future__ import annotations

import json

import pytest

from ros2_dynid.cli import main


def call(capsys, *arguments):
    code = main(["base", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def result_of(capsys, *arguments):
    code, out, err = call(capsys, *arguments, "--json")
    assert code == 0 and err == ""
    return json.loads(out)


def test_json_has_what_the_contract_names(capsys):
    result = result_of(capsys, "puma560", "--only", "inertial,rotor")
    assert result["n_standard"] == 66
    assert (len(result["eliminated"]), len(result["regrouped"]), len(result["base"])) == (11, 15, 40)
    first = result["base"][0]
    assert (first["name"], first["leader"]) == ("ZZR1", "ZZ1")
    assert first["terms"]["M4"] == 0.2904 and first["terms"]["ZZ1"] == 1.0
    assert first["value"] == pytest.approx(5.0186, abs=5e-5)
    assert first["expression"].startswith("ZZR1 = ZZ1 + YY2")
    leaders = {entry["leader"] for entry in result["base"]}
    for entry in result["base"]:
        assert set(entry["terms"]) & leaders == {entry["leader"]}
    assert result["cond"] > 1 and result["S"] > 1 and result["gap"] > 1e6
    assert result["warnings"] == []


@pytest.mark.parametrize("method", ["qr", "svd", "closed-form"])
@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_every_method_from_every_model(capsys, method, source):
    result = result_of(capsys, "stanford", "--method", method, "--from", source, "--only", "inertial")
    assert len(result["base"]) == 33


def test_accel_and_energy_leave_friction_out_and_refuse_it(capsys):
    result = result_of(capsys, "puma560", "--from", "energy")
    assert result["n_standard"] == 66 and "friction and offset left out" in result["warnings"][0]
    code, out, err = call(capsys, "puma560", "--from", "accel", "--only", "friction")
    assert code == 2 and out == "" and err.count("\n") == 1 and "--from torque" in err


def test_order_tilting_base_and_paper_set(capsys):
    rotors = result_of(capsys, "puma260", "--only", "inertial,rotor,friction", "--order", "rotor,6,5,4,3,2,1")
    assert len(rotors["base"]) == 52 and "IaR1" in {entry["name"] for entry in rotors["base"]}
    tilting = result_of(capsys, "puma560", "--only", "inertial", "--tilting-base", "--method", "closed-form")
    assert len(tilting["base"]) > 36
    paper = result_of(capsys, "stanford", "--only", "inertial", "--paper-set", "--scale", "never", "--seed", "3")
    assert len(paper["paper_set"]) == 33 and "value" in paper["paper_set"][0]


def test_people_get_tables(capsys):
    code, out, _ = call(capsys, "puma560", "--only", "inertial,rotor", "--paper-set", "--no-color")
    assert code == 0
    assert "66 standard parameters: 11 without effect, 15 regrouped, 40 base parameters" in out
    assert "gap at the rank" in out and "minimal linear combinations" in out
    code, out, _ = call(capsys, "puma560", "--latex")
    assert code == 0 and out.startswith("\\begin{align}") and "D_{3}^2" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seed", "-1"),
        ("--only", ","),
        ("--only", "inertia"),
        ("--order", "XX99"),
        ("--tolerance", "2"),
        ("--tolerance", "nan"),
    ],
)
def test_bad_options_end_with_code_2_and_one_line(capsys, arguments):
    code, out, err = call(capsys, "puma3", *arguments)
    assert code == 2 and out == "" and err.count("\n") == 1
