# SPDX-License-Identifier: Apache-2.0

"""The page's text around its pictures, its numbers at any magnitude, and how its figures look."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.identification.model_file import TorqueData, TorqueError, model_of, save_model, save_torque_data
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector, unit_of
from ros2_dynid.model.robot import PRISMATIC
from ros2_dynid.report.build import folder_label, laws_tried, model_path, write_comparison, write_page, write_report
from ros2_dynid.report.figures import (
    write_figures,
)
from ros2_dynid.report.page import definitions, document, escape, listing, page
from ros2_dynid.report.page_data import (
    PageData,
    base_rows,
    consistency_rows,
    coverage,
    friction_pictures,
    round_values,
)

ROBOT = load_robot("demo3")


def identified(scale=1.0, relative_std=0.05, robot=ROBOT, **obtained):
    base = base_parameters(robot)
    value = scale * base.values(robot, standard_vector(robot))
    std = relative_std * np.maximum(np.abs(value), 1e-3)
    errors = {key: TorqueError(0.1, 0.02) for key in (*robot.active_names, "all")}
    return model_of(robot, base, value, std, np.diag(std**2), fit=errors, validation=errors, obtained=obtained)


def rows_of(model, n=50, side=1.0):
    q, dq, ddq = np.random.default_rng(0).normal(size=(3, n, 3))
    dq[3] = 9.0 * side
    predicted = model.torque(q, dq, ddq)
    nobody = np.full_like(q, np.nan)
    return TorqueData(np.arange(n) / 100, q, dq, ddq, predicted + 0.1, predicted, predicted, nobody)


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


# --- the page


def test_a_page_says_all_that_is_known_of_the_model(tmp_path):
    tried = [
        {"joint": "elbow", "term": "load", "gain": 0.31, "scatter": 0.04, "chosen": True},
        {"joint": "elbow", "term": "cubic", "gain": -0.02, "scatter": 0.1, "chosen": False},
        {"joint": "wrist", "term": "none", "gain": 0.0, "scatter": 0.1},
        {"joint": "wrist", "term": "stribeck", "gain": 0.2, "scatter": 0.3, "chosen": False},
        {"joint": "lost", "term": "x", "gain": "much", "scatter": 0.1},
        {"joint": "lost", "term": "y", "gain": 1.0},
        "lost",
    ]
    model = identified(
        cond=31, singular_values=[9.0, 3, "x"], command="dynid identify <x>", friction_tried=tried, method="wls",
        used=["a secret"],
    )  # fmt: skip
    assert laws_tried(model) == [
        ("elbow: load", "lowers the squared error by 31.0 ± 4.0 %, taken"),
        ("elbow: cubic", "raises the squared error by 2.0 ± 10.0 %, not taken"),
        ("wrist: none", "lowers the squared error by 0.0 ± 10.0 %, not taken"),
        ("wrist: stribeck", "lowers the squared error by 20.0 ± 30.0 %, not taken"),
    ]
    assert laws_tried(replace(model, obtained={"friction_tried": "no"})) == []
    errors = SimpleNamespace(fit={"all": TorqueError(1.0, 0.01)}, validation={})
    sets = {"fit": rows_of(model)}
    two = replace(model, sets={"base": errors, "essential": errors})
    trials = {"On the robot": [("rms", "0.1")], "Again": [("rms", "0.2")]}
    path = write_page(tmp_path, two, sets, figures=False, trials=trials)
    text = path.read_text()
    assert path == tmp_path / "report.html" and not (tmp_path / "figures").exists()
    assert re.findall(r'<h2 id="(s-[a-z0-9]+)">', text)[-5:] == ["s-trial0", "s-trial1", "s-sets", "s-laws", "s-how"]
    assert "<td>method</td><td class='text'>wls</td>" in text and "a secret" not in text
    for elsewhere in ("verdict", "singular_values", "friction_tried", "used"):
        assert f"<td>{elsewhere}</td>" not in text, "shown in its own way"
    assert "<pre>dynid identify &lt;x&gt;</pre>" in text and "preview.html" not in text
    data = data_of(text)
    assert data["cond"] == 31.0 and data["singular_values"] == [9.0, 3.0]
    assert [len(data[key]) for key in ("coverage", "friction", "torque")] == [3, 3, 1]
    assert (tmp_path / "tables" / "base_parameters.csv").read_text().count("\n") == 1 + len(model.names)
    assert f"Base parameters of {ROBOT.name}" in (tmp_path / "tables" / "base_parameters.tex").read_text()
    (tmp_path / "preview.html").write_text("x")
    one = replace(identified(cond="?", singular_values=3.0), sets={"base": errors})
    text = write_page(tmp_path, one, {}, figures=False).read_text()
    assert '<a href="preview.html">Watch the motion in 3D</a>' in text
    data = data_of(text)
    assert data["cond"] is None and data["singular_values"] == [] and data["coverage"] == data["friction"] == []
    for anchor in ("s-trial", "s-sets", "s-laws", "<pre>"):
        assert anchor not in text
    assert definitions("a<", [("b<", "c<")], "s-x").count("&lt;") == 3 and listing("a<", "b<").count("&lt;") == 2
    assert escape("\"'<&") == "&quot;&#x27;&lt;&amp;"


def test_pictures_are_of_the_data_fitted_to_and_torques_of_all(tmp_path):
    model = identified()
    sets = {"fit": rows_of(model), "validation": rows_of(model, 70)}
    sets["validation"].dq[3] = 20.0
    text = write_page(tmp_path, model, sets, figures=False).read_text()
    data = data_of(text)
    assert {row["speed"] for row in data["coverage"]} == {9.0}
    assert {len(one["x"]) for one in data["friction"]} == {50} and {
        one["curve"]["x"][-1] for one in data["friction"]
    } == {9.0}
    assert {name: len(one["t"]) for name, one in data["torque"].items()} == {"fit": 50, "validation": 70}
    held_out = write_page(tmp_path, model, {"validation": sets["validation"]}, figures=False).read_text()
    assert data_of(held_out)["coverage"] == data_of(held_out)["friction"] == []
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    assert f'content="{policy}"' in text, "it can neither load nor send anything"
    verdict = replace(model, obtained={"verdict": [{"level": "problem", "text": "<b>far off</b>"}]})
    hostile = replace(verdict, robot=replace(ROBOT, name="<i>arm</i>"), fit={"<u>x": TorqueError(1.0, 0.1)})
    text = write_page(tmp_path, hostile, {}, figures=False).read_text()
    assert '<li class="bad">&lt;b&gt;far off&lt;/b&gt;</li>' in text
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in text.split("<script")[0]


def test_links_and_a_further_script_are_in_the_page():
    data = PageData([], {}, None, [], [], [], [])
    text = page("t", [], [], data, "", [('a"b.html', "<3D>")])
    assert '<a href="a&quot;b.html">&lt;3D&gt;</a>' in text and '<a href="#s-how">' in text
    for key in ("torque", "parameters", "excitation", "friction", "consistency"):
        assert f'<a href="#s-{key}">' in text and f'<h2 id="s-{key}">' in text and f'<div id="{key}"></div>' in text
    assert document("t", [], [], "", "", {}, "further();").rstrip().endswith("further();</script>\n</body>\n</html>")


def test_a_folder_whose_files_were_changed_is_refused(tmp_path):
    model = identified()
    save_torque_data(tmp_path / "data.npz", {"fit": rows_of(model)})
    digest = hashlib.sha256((tmp_path / "data.npz").read_bytes()).hexdigest()
    save_model(replace(model, obtained={"files": {"data.npz": digest}}), tmp_path / "model.yaml")
    assert data_of(write_report(tmp_path, figures=False).read_text())["coverage"]
    save_torque_data(tmp_path / "data.npz", {"fit": rows_of(model, 51)})
    with pytest.raises(DynidError, match=r"data\.npz"):
        write_report(tmp_path, figures=False)
    (tmp_path / "empty").mkdir()
    assert model_path(tmp_path) == tmp_path / "model.yaml"
    with pytest.raises(InputError, match=r"there is no model\.yaml"):
        model_path(tmp_path / "empty")


def test_a_comparison_says_in_which_parameters_each_model_differs(tmp_path, monkeypatch):
    first = identified(relative_std=0.01)
    k = int(np.argmax(np.abs(first.value)))
    moved = first.value.copy()
    moved[k] *= 0.8
    wider = np.where(np.arange(len(first.std)) == k, 1.5, 1.0) * first.std
    models = {"x/same": first, "y/same": replace(first, value=moved, std=wider), "equal": first}
    folders = []
    for name, model in models.items():
        folders.append(tmp_path / name)
        folders[-1].mkdir(parents=True)
        save_model(model, folders[-1] / "model.yaml")
    labels = [folder_label(folder, folders) for folder in folders]
    assert labels == [str(folders[0]), str(folders[1]), "equal"], "as much of the path as tells them apart"
    monkeypatch.chdir(folders[0])
    assert [folder_label(one, [Path(), folders[1]]) for one in (Path(), folders[1])] == [".", str(folders[1])]
    assert folder_label(Path(), [Path(), folders[2]]) == "same"
    found = write_comparison(folders, tmp_path / "page.html")
    assert found.report == str(tmp_path / "page.html") and found.models == tuple(labels)
    assert found.changed == {labels[1]: (first.names[k],), "equal": ()}
    text = (tmp_path / "page.html").read_text()
    assert f'<li class="warn">{labels[1]} differs significantly from {labels[0]} in {first.names[k]}.</li>' in text
    assert f'<li class="good">equal does not differ significantly from {labels[0]}.</li>' in text
    assert "<h1>Comparison of 3 identifications</h1>" in text
    row = data_of(text)["comparison"][k]
    std = first.std[k]
    assert (row["name"], row["z0"], row["changed0"]) == (first.names[k], None, "no")
    assert [row[f"value{i}"] for i in range(3)] == pytest.approx([first.value[k], moved[k], first.value[k]])
    assert [row[f"std{i}"] for i in range(3)] == pytest.approx([std, 1.5 * std, std])
    assert row["z1"] == pytest.approx((moved[k] - first.value[k]) / (std * np.sqrt(1.0 + 1.5**2)))
    units = {one["name"]: one["unit"] for one in data_of(text)["comparison"]}
    assert units == {name: unit_of(ROBOT, leader) for name, leader in zip(first.names, first.leaders, strict=True)}
    assert len(set(units.values())) > 2
    assert (row["changed1"], row["changed2"], row["z2"]) == ("yes", "no", 0.0)


# --- numbers


@pytest.mark.parametrize("digits", [3, 5, 7])
def test_numbers_of_any_magnitude_have_so_many_digits(digits):
    rng = np.random.default_rng(0)
    values = rng.choice((-1.0, 1.0), 800) * rng.uniform(1.0, 10.0, 800) * 10.0 ** rng.integers(-14, 18, 800)
    with np.errstate(all="raise"):
        assert round_values(values, digits) == [float(f"{x:.{digits}g}") for x in values]
        assert round_values(np.array([0.0, -0.0, 1.0, -10.0, 0.001]), digits) == [0.0, 0.0, 1.0, -10.0, 0.001]
        assert round_values(np.array([np.nan, np.inf, 2.0]), digits) == [None, None, 2.0]
        far = np.array([1.5e-30, -2.5e-24, 3e21, 7.25e24])
        np.testing.assert_allclose(round_values(far, digits)[2:], far[2:], rtol=2 * 10.0**-digits)
        assert np.all(np.abs(np.array(round_values(far, digits)[:2]) - far[:2]) <= 0.5e-22)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_friction_curve_reaches_the_largest_speed_of_either_side(side):
    model = identified()
    rows = rows_of(model, side=side)
    for joint in friction_pictures(model, rows):
        x = np.array(joint.curve.x)
        assert x[0] == -9.0 and x[-1] == 9.0 and x[19] == -1e-9 and x[20] == 1e-9 and np.all(np.diff(x) > 0)
        assert len(joint.x) == 50, "few dots are all drawn"
    still = replace(rows, dq=np.zeros_like(rows.dq))
    assert friction_pictures(model, still)[0].curve.x[-1] == 1.0


def test_a_sliding_joint_has_its_own_units_and_several_terms_add_up():
    joints = (ROBOT.joints[0], replace(ROBOT.joints[1], sigma=PRISMATIC), ROBOT.joints[2])
    terms = (
        FrictionTerm(1, FrictionKind.CUBIC, 0.2, std=0.03),
        FrictionTerm(1, FrictionKind.LOAD_VISCOUS, 0.1, std=None),
        FrictionTerm(3, FrictionKind.CUBIC, 0.5, std=0.1),
    )
    robot = replace(ROBOT, joints=joints, friction=terms)
    model = identified(robot=robot)
    first, slide, third = friction_pictures(model, rows_of(model))
    assert (slide.unit, slide.speed_unit, slide.position_unit) == ("N", "m/s", "m")
    assert coverage(robot, rows_of(model))[1].unit == "m, s, N"
    drives = standard_vector(robot).reshape(3, 14)
    for joint, number, cubic in ((first, 0, 0.2), (third, 2, 0.5)):
        x = np.array(joint.curve.x)
        Fv, Fc, off = drives[number, 11:14]
        plain = Fv * x + Fc * np.sign(x) + off + cubic * x**3
        if number == 0:
            assert joint.heavy is not None and joint.light is not None
            plain = plain + 0.1 * np.median(joint.load) * x
        np.testing.assert_allclose(joint.curve.y, plain, rtol=0.02, atol=1e-3)
    assert slide.heavy is None and third.heavy is None and third.light is None
    place = {leader: k for k, leader in enumerate(model.leaders)}
    std = np.array([model.std[place[f"{kind}3"]] for kind in ("Fv", "Fc", "off")])
    x = np.array(third.curve.x)
    variance = (std[0] * x) ** 2 + std[1] ** 2 + std[2] ** 2 + (0.1 * x**3) ** 2
    np.testing.assert_allclose(third.band, 2.0 * np.sqrt(variance), rtol=1e-3)
    unknown = replace(model, std=np.where(np.arange(len(model.std)) == place["Fv3"], np.nan, model.std))
    band = friction_pictures(unknown, rows_of(model))[2].band
    np.testing.assert_allclose(band, 2.0 * np.sqrt(variance - (std[0] * x) ** 2), rtol=1e-3)


def test_a_body_on_the_edge_and_one_without_mass_cannot_be():
    point = {"M1": 2.0, "MX1": 0.0}
    robot = replace(ROBOT, parameters={})
    model = replace(identified(robot=ROBOT), robot=robot, standard=point, consistent=dict(ROBOT.parameters))
    rows = consistency_rows(model)
    assert [row.set for row in rows] == ["identified"] * 3 + ["identified, made consistent"] * 3
    assert [row.mass for row in rows[3:]] == [ROBOT.parameters[f"M{j}"] for j in (1, 2, 3)]
    assert [row.verdict for row in rows[:3]] == ["no"] * 3 and rows[0].mass == 2.0
    assert rows[0].smallest == 0.0 and rows[1].smallest is None and rows[0].pseudo == 0.0


def test_values_that_are_served_stand_beside_those_of_the_base():
    model = identified()
    served = base_rows(replace(model, serve="consistent", consistent={k: 1.1 * v for k, v in ROBOT.parameters.items()}))
    assert any(row.served is not None for row in served)


# --- figures


def test_a_page_without_any_figure_is_no_error(tmp_path):
    assert write_figures(tmp_path, PageData([], {}, None, [], [], [], [])) == []
