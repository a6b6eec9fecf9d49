# SPDX-License-Identifier: Apache-2.0

"""The report: what it says, that hostile names stay text, and that a real browser draws, sorts and zooms it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import (
    TorqueData,
    TorqueError,
    load_torque_data,
    model_of,
    save_model,
    save_torque_data,
)
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.report.build import compare, csv_table, latex_table, write_comparison, write_report
from ros2_dynid.report.page import embedded
from ros2_dynid.report.page_data import BaseTableRow

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
]


def identified(scale=1.0, relative_std=0.05, name=None):
    """Return a model of the three-joint robot with values `scale` times the truth."""
    robot = load_robot("demo3")
    if name is not None:
        joints = (replace(robot.joints[0], name=name), *robot.joints[1:])
        robot = replace(robot, name=name, joints=joints)
    base = base_parameters(robot)
    value = scale * base.values(robot, standard_vector(robot))
    std = relative_std * np.maximum(np.abs(value), 1e-3)
    errors = {key: TorqueError(0.1, 0.02) for key in (*robot.active_names, "all")}
    obtained = {"cond": 30.0, "singular_values": [9.0, 3.0, 0.3], "command": f"dynid identify {name}", "method": "wls"}
    return model_of(robot, base, value, std, np.diag(std**2), fit=errors, validation=errors, obtained=obtained)


def folder_of(path, model, n=300):
    """Write a folder as identify does, with n rows of evidence."""
    path.mkdir()
    save_model(model, path / "model.yaml")
    rng = np.random.default_rng(0)
    q, dq, ddq = rng.normal(size=(3, n, 3))
    predicted = model.torque(q, dq, ddq)
    tau = predicted + rng.normal(size=predicted.shape)
    tau[5] = np.nan
    rows = TorqueData(np.arange(n) / 100, q, dq, ddq, tau, predicted, 0.8 * predicted, np.full_like(tau, np.nan))
    save_torque_data(path / "data.npz", {"fit": rows, "validation": rows})
    return path


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def rubbing():
    """Return a model whose second joint rubs more the more it carries."""
    model = identified()
    term = FrictionTerm(2, FrictionKind.LOAD, 0.3, std=0.02)
    return replace(model, robot=replace(model.robot, friction=(term,)))


def test_the_page_stands_alone_and_holds_what_was_identified(tmp_path):
    model = rubbing()
    text = write_report(folder_of(tmp_path / "a", model)).read_text()
    assert not re.search(r'(src|href)="(?!#)', text), "the page must not load anything"
    data = data_of(text)
    np.testing.assert_allclose([row["value"] for row in data["base"]], model.value)
    measured = data["torque"]["fit"]["joints"][0]["measured"]
    assert measured[5] is None
    assert len(measured) == 300
    rms = data["torque"]["validation"]["joints"][1]["rms"]
    assert 0.8 < rms < 1.2, "the rows carry unit noise"
    figures = list((tmp_path / "a" / "figures").iterdir())
    assert {path.suffix for path in figures} == {".png", ".pdf"}
    names = {path.stem for path in figures}
    assert {"friction_joint2", "friction_load_joint2", "residual_position_joint2"} <= names


def test_friction_is_drawn_by_speed_load_and_position(tmp_path):
    text = write_report(folder_of(tmp_path / "a", rubbing()), figures=False).read_text()
    plain, loaded, _ = data_of(text)["friction"]
    assert plain["light"] is None and plain["heavy"] is None
    light, middle, heavy = (np.array(loaded[key]["y"]) for key in ("light", "curve", "heavy"))
    x = np.array(loaded["curve"]["x"])
    assert np.all((np.sign(x) * (heavy - middle) > 0) & (np.sign(x) * (middle - light) > 0))
    assert np.all(np.array(loaded["band"], dtype=float) >= 2 * 0.02 * np.median(loaded["load"]) * 0.99)
    assert len(loaded["load"]) == len(loaded["position"]) == len(loaded["residual"]) == len(loaded["x"])
    residual = np.array(loaded["residual"], dtype=float)
    assert 0.8 < residual.std() < 1.2, "the rows carry unit noise"


def test_the_laws_that_were_tried_are_listed(tmp_path):
    tried = [{"name": "Fl2", "joint": "elbow", "term": "load", "gain": 0.31, "scatter": 0.04, "chosen": True}]
    model = replace(identified(), obtained={"friction_tried": tried})
    text = write_report(folder_of(tmp_path / "a", model), figures=False).read_text()
    assert "elbow: load" in text and "lowers the squared error by 31.0 ± 4.0 %, taken" in text


def test_hostile_names_stay_text(tmp_path):
    folder = folder_of(tmp_path / "a", identified(name=HOSTILE))
    text = write_report(folder, figures=False, trials={HOSTILE: [("ratio", "7"), (HOSTILE, HOSTILE)]}).read_text()
    assert "<td>ratio</td>" in text
    assert "<img" not in text
    assert data_of(text)["torque"]["fit"]["joints"][0]["name"] == HOSTILE


def test_embedded_data_cannot_end_its_script():
    value = {"a": "</script><!--\u2028"}
    assert "<" not in embedded(value)
    assert json.loads(embedded(value)) == value


def test_an_hour_of_data_stays_small(tmp_path):
    from ros2_dynid.identification.model_file import PICTURE_ROWS

    page = write_report(folder_of(tmp_path / "a", identified(), n=PICTURE_ROWS), figures=False)
    assert page.stat().st_size < 5e6


def test_only_real_changes_are_called_significant(tmp_path):
    before, after = identified(relative_std=0.01), identified(relative_std=0.01)
    changed = after.value.copy()
    k = int(np.argmax(np.abs(changed)))
    changed[k] *= 1.2
    after = replace(after, value=changed)
    found = compare({"before": before, "after": after})
    assert [change.name for change in found if change.significant[1]] == [before.names[k]]
    folders = [folder_of(tmp_path / "before", before), folder_of(tmp_path / "after", after)]
    result = write_comparison(folders, tmp_path / "page.html")
    assert result.changed == {"after": (before.names[k],)}
    assert data_of((tmp_path / "page.html").read_text())["models"] == ["before", "after"]


def test_noise_alone_rarely_is_a_change():
    """Of 200 pairs of equal robots, about 1 in 100 may be called changed; 8 would be a chance under 1 in 1000."""
    rng = np.random.default_rng(1)
    model = identified()
    alarms = 0
    for _ in range(200):
        pair = [replace(model, value=model.value + model.std * rng.normal(size=model.std.shape)) for _ in range(2)]
        alarms += any(change.significant[1] for change in compare(dict(zip("ab", pair, strict=True))))
    assert alarms < 8


def test_comparing_different_robots_is_refused():
    with pytest.raises(InputError, match="not those of the first"):
        compare({"a": identified(), "b": identified(name="another")})


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no model\.yaml"):
        write_report(tmp_path)


def test_damaged_evidence_is_refused(tmp_path):
    path = folder_of(tmp_path / "a", identified()) / "data.npz"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="damaged"):
        load_torque_data(path)


def test_tables_for_spreadsheet_and_paper():
    row = BaseTableRow("ZZR1", 1 / 3, 1e-7, "kg.m^2", "ZZ1 + 0.5*M_2", None, None, None)
    (read,) = csv.DictReader(io.StringIO(csv_table([row])))
    assert float(read["value"]) == row.value
    text = latex_table([row], r"50 % of \robot")
    assert r"$\mathit{ZZR}_{1}$ & $0.3333$ & $1\cdot 10^{-7}$ & --" in text
    assert r"50 \% of \textbackslash{}robot" in text


PROBE = """
<script>
const all = (selector) => [...document.querySelectorAll(selector)];
const out = {drawn: document.documentElement.dataset.drawn, charts: all("svg.chart path.series").length};
const cells = () => all("#parameters tbody tr td:first-child").map((td) => td.textContent);
const values = () => all("#parameters tbody tr td:nth-child(2)").map((td) => +td.textContent);
all("#parameters th button")[1].click();
out.sorted = values();
const search = document.querySelector("#parameters input");
search.value = "Fv1"; search.dispatchEvent(new Event("input"));
out.filtered = cells();
const chart = document.querySelector("svg.chart"), box = chart.getBoundingClientRect();
const label = () => [...chart.querySelectorAll("text")].map((t) => t.textContent).join(" ");
const before = label();
chart.setPointerCapture = () => {};
const event = (type, f) => new PointerEvent(type, {clientX: box.left + f * box.width, pointerId: 1});
const fire = (type, f) => chart.dispatchEvent(event(type, f));
fire("pointerdown", 0.4); fire("pointermove", 0.5); fire("pointerup", 0.5);
out.zoomed = label() !== before;
chart.dispatchEvent(new MouseEvent("dblclick"));
out.back = label() === before;
out.overflow = document.documentElement.scrollWidth - window.innerWidth;
parent.postMessage(JSON.stringify(out), "*");
</script>
"""
FRAME = """<!doctype html>
<iframe src="probe.html" style="width: {width}px; height: 900px; border: 0"></iframe>
<script>addEventListener("message", (event) => document.body.append("RESULT" + event.data + "END"));</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian: apt install chromium)")
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_sorts_filters_and_zooms(tmp_path, width):
    """The page stands in a frame of that width, since a window of Chromium is never narrower than 500 pixels."""
    page = write_report(folder_of(tmp_path / "a", identified(name=HOSTILE)), figures=False)
    probe = tmp_path / "probe.html"
    probe.write_text(page.read_text().replace("</body>", PROBE + "</body>"))
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(width=width))
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path}/profile", "--window-size=1400,1000", "--dump-dom"]
    run = subprocess.run([*command, frame.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in run.stderr, "the page must not log errors"
    out = json.loads(re.search(r"RESULT({.*})END", run.stdout)[1])
    assert out["drawn"] == "yes"
    assert out["charts"] >= 3 * 5
    assert out["sorted"] == sorted(out["sorted"])
    assert out["filtered"] == ["Fv1"]
    assert out["zoomed"]
    assert out["back"]
    assert out["overflow"] <= 0, "nothing may stick out sideways"
