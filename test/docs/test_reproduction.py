# SPDX-License-Identifier: Apache-2.0

"""The papers' tables beside ours: every script agrees with its paper, and every figure of its page is the script's.

Each script makes its whole page. Searches and simulations that take long are stored beside the page as the numbers
that they gave; the test takes these (`--stored`), computes everything else anew, and compares every word and figure of
the page. What differs from machine to machine (`~`: wall-clock times, rounding) is not compared. Of what is stored some
is found anew here.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pages import ROOT
from recordings import TX40

FOLDER = ROOT / "docs" / "reproduction"
SCRIPTS = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "paper_tables.py"})
NUMBER = re.compile(r"~?[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
ROUNDING = 1e-11
"""Smaller figures are rounding errors: they are compared as such, not by their digits."""


def same_number(a: str, b: str) -> bool:
    """Return whether two printed numbers are equal within one unit of the last digit printed."""
    if a.startswith("~") or b.startswith("~"):
        return a[0] == b[0]
    if a == b:
        return True
    x, y = float(a), float(b)
    if 0 < abs(x) < ROUNDING or 0 < abs(y) < ROUNDING:
        return abs(x) < ROUNDING and abs(y) < ROUNDING
    digits, _, exponent = a.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(x - y) <= 1.01 * unit


def differences(page: str, printed: str) -> list[str]:
    """Return the lines of the page whose words or figures are not those printed."""
    ours, theirs = page.rstrip().splitlines(), printed.rstrip().splitlines()
    wrong = [] if len(ours) == len(theirs) else [f"{len(ours)} lines on the page, {len(theirs)} printed"]
    for a, b in zip(ours, theirs, strict=False):
        numbers = list(zip(NUMBER.findall(a), NUMBER.findall(b), strict=False))
        if NUMBER.sub("#", a) != NUMBER.sub("#", b) or not all(same_number(x, y) for x, y in numbers):
            wrong.append(f"page: {a}\nscript: {b}")
    return wrong


def module(name):
    """Return a script as a module."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def stored(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def page_of(name, part, found):
    """Return what a part of a script says of results that are not its own."""
    script, tables = module(name), module("paper_tables")
    arguments = argparse.Namespace(write=False, stored=True, figures=None)
    paper = tables.Paper(str(FOLDER / f"{name}.py"), "", "", arguments)
    paper.figure = lambda *_: None  # figures are drawn elsewhere
    paper.searches = {key: {k: np.array(v) for k, v in value.items()} for key, value in found.items()}
    getattr(script, part)(paper)
    return "\n".join(paper.text)


def test_a_verdict_is_the_opposite_with_the_sides_exchanged():
    tables = module("paper_tables")
    opposite = {"better": "worse", "worse": "better"}
    known = [
        tables.exactly(3), tables.exactly(4), tables.printed("3.4"), tables.printed("3.50"), tables.estimated(3.3, 0.1),
        tables.about(10), tables.below(2.0), tables.exactly(np.inf), tables.scattered(np.linspace(1.0, 2.0, 50)), None,
        tables.exactly(3, tables.SIMULATION), tables.exactly(5, tables.SIMULATION), tables.exactly(4, tables.ROBOT),
    ]  # fmt: skip
    seen = set()
    for a, b in itertools.product(known, known):
        for better, other in (("LOWER", "HIGHER"), ("HIGHER", "LOWER"), ("NEITHER", "NEITHER")):
            one = tables.verdict(a, b, tables.Better[better])
            assert tables.verdict(b, a, tables.Better[better]) == opposite.get(one, one)
            assert tables.verdict(a, b, tables.Better[other]) == opposite.get(one, one)
            seen.add(one)
    assert seen == {"equal", "better", "worse", "differs", "not comparable"}


def test_figures_are_equal_as_far_as_they_are_known():
    tables = module("paper_tables")
    printed, exactly, verdict = tables.printed, tables.exactly, tables.verdict
    assert verdict(exactly(3.449), printed("3.4")) == "equal"
    assert verdict(exactly(3.451), printed("3.4")) == "worse"
    assert verdict(exactly(1.004e14), printed("1.0e14")) == "equal"
    assert verdict(exactly(0.05), tables.below(0.1)) == "equal"
    assert verdict(exactly(0.11), tables.below(0.1)) == "worse"
    assert verdict(tables.estimated(3.6, 0.1), exactly(3.45)) == "equal"
    assert verdict(tables.estimated(3.6, 0.05), exactly(3.45)) == "worse"
    for robot, simulation in ((1.0, 100.0), (100.0, 1.0)):
        sides = (exactly(simulation, tables.SIMULATION), exactly(robot, tables.ROBOT))
        assert verdict(*sides) == verdict(*sides[::-1]) == "not comparable"


def test_statements_of_a_paper_are_contradicted_by_opposite_cases():
    tables = module("paper_tables")
    assert tables.statement([True, True]) == "confirmed"
    assert tables.statement([True, False, True]) == "contradicted in 1 of 3 cases"
    assert tables.statement([False]) == "contradicted"
    assert tables.tendency([True] * 90 + [False] * 10).startswith("confirmed")
    assert tables.tendency([True] * 10 + [False] * 90).startswith("contradicted")
    assert tables.tendency([True] * 52 + [False] * 48).startswith("undecided")


WRITTEN_DOWN = re.compile(
    r"\b(equal|not comparable|confirmed|contradict\w*)\b|(^|: )(better|worse|differs)\b"
    r"|as the paper (says|reports|has it)|As in the paper",
)


def strings_of(source):
    """Return the strings of a script, without those that document it."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return [node.value for node in texts if id(node) not in documents]


def test_no_script_writes_a_verdict_down():
    assert all(WRITTEN_DOWN.search(text) for text in ("so: equal.", "As in the paper, x", "y: worse"))
    for path in SCRIPTS:
        written = [text for text in strings_of(path.read_text()) if WRITTEN_DOWN.search(text)]
        assert not written, f"{path.name}: let paper_tables.verdict or statement decide: {written}"


def test_opposite_motions_in_open_loop_are_told_as_such():
    kept = stored("izaguirre_1992")
    name, loops = "izaguirre_1992", kept["open loop"]
    as_stored = page_of(name, "following", kept)
    exchanged = {"fast": "slow", "slow": "fast"}
    turned = {key: loops[key.replace(speed, exchanged[speed])] for key in loops for speed in exchanged if speed in key}
    opposite = page_of(name, "following", {**kept, "open loop": {**turned, "load": loops["load"]}})
    smaller = "smaller errors at high speed than at low speed, in all the experiments"
    said = [re.search(rf"{smaller} \| (.*?) \|", text)[1] for text in (as_stored, opposite)]
    wrong, of = map(int, re.findall(r"\d+", said[0]))
    assert said[1] == f"contradicted in {of - wrong} of {of} cases"
    helped = {key: np.array(loops[key.replace("on-line", "nominal")]) for key in loops}
    helped |= {key: 0.1 * helped[key] for key in loops if "on-line" in key}
    better = page_of(name, "following", {**kept, "open loop": helped})
    single = "slow motion, single joints: errors considerably reduced by on-line gravity \\(Figure 8\\)"
    assert [re.search(rf"{single} \| (\w+)", text)[1] for text in (as_stored, better)] == ["contradicted", "confirmed"]


def test_there_is_a_page_and_a_script_for_each_paper():
    papers = ["gautier_1991", "gautier_khalil_1992", "gautier_venture_2013", "izaguirre_1992", "lin_1995"]
    assert [path.stem for path in SCRIPTS] == papers
    assert all(path.with_suffix(".md").is_file() for path in SCRIPTS)


def test_figures_are_compared_digit_by_digit():
    assert not differences("| 1.23 | 4e-17 | ~3 us |\n", "| 1.24 | 9e-16 | ~8 us |\n")
    assert differences("| 1.23 |\n", "| 1.26 |\n")
    assert differences("| 3e-05 |\n", "| 3e-17 |\n")
    assert differences("| better |\n", "| worse |\n")
    assert differences("a\n", "a\nb\n")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("script", [pytest.param(path, id=path.stem) for path in SCRIPTS])
def test_the_page_is_what_the_script_prints(script, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
    command = [sys.executable, str(script), "--stored", "--figures", str(tmp_path / "images")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    page = script.with_suffix(".md").read_text()
    assert f"docs/reproduction/{script.name}" in page, "the page shows how to run its script"
    wrong = differences(page, done.stdout)
    assert not wrong, f"run {script.name} --write:\n" + "\n".join(wrong[:10])
    assert not re.search(r"\bnan\b", done.stdout)
    assert "**no**" not in page
    assert " 0e+00 " not in page, "a difference that rounding made is no exact zero"
    assert re.search(r"^Made on \d{4}-\d\d-\d\d with ros2_dynid \d+\.\d+\.\d+", page, re.MULTILINE)
    for image in re.findall(r"\]\((images/\S+?)\)", page):
        assert (FOLDER / image).is_file()
        assert (tmp_path / image).stat().st_size > 1000


def test_stored_points_are_within_their_limits():
    script = module("gautier_khalil_1992")
    found = stored("gautier_khalil_1992")
    for name in ("front 15", "front 30", "optimum 20 0", "optimum 50 0", "shrunk"):
        assert np.abs(found[name]["q"]).max() <= script.POSITION * (1 + 1e-12)
        assert np.abs(found[name]["dq"]).max() <= script.SPEED * (1 + 1e-12)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rows", [15, 30])
def test_the_code_reaches_the_stored_cost_of_every_weight_on_S(rows):
    script = module("gautier_khalil_1992")
    kept = {key: np.array(value) for key, value in stored("gautier_khalil_1992")[f"front {rows}"].items()}
    limit, speed, rng = np.full(3, script.POSITION), np.full(3, script.SPEED), np.random.default_rng(0)
    for k, weight in enumerate(script.WEIGHTS):
        near = k - 1 if k else 1  # from the points of the weight beside it
        substitution = script.Substitution(-limit, limit, speed, script.FREE, kept["q"][near])
        model, clock = script.model(weight), script.TimeBudget(3600.0)
        points = kept["q"][near], kept["dq"][near]
        found = script.polish_points(model, substitution, *points, clock, rng=rng, iterations=60)
        cost, stored_cost = model.cost(*found), model.cost(kept["q"][k], kept["dq"][k])
        assert 0.85 * stored_cost < cost < 1.15 * stored_cost, f"weight {weight}: run the script without --stored"


@pytest.mark.timeout(600)
def test_the_code_reaches_the_stored_cost_of_20_rows_and_of_the_planned_trajectory():
    script, kept = module("gautier_khalil_1992"), stored("gautier_khalil_1992")
    points = [script.optimum(20, 0.0, starts=2, iterations=100), kept["optimum 20 0"]]
    ours, theirs = (script.condition_by(script.model().W(x["q"], x["dq"])) for x in points)
    assert theirs <= 1.05 * ours and ours < 2.0 * theirs
    again, before = script.planned(), kept["planned"]
    weighted = script.model(script.WEIGHT)
    ours, theirs = (weighted.cost(*(np.array(x[key])[1:-1] for key in ("q", "dq"))) for x in (again, before))
    assert 0.85 * theirs < ours < 1.15 * theirs
    assert again["knots"][-1] == pytest.approx(before["knots"][-1], rel=0.1)


def test_stored_motions_in_open_loop_and_rates_are_found_anew():
    script = module("izaguirre_1992")
    kept = stored("izaguirre_1992")
    path = script.motion((0,), "fast")
    values = np.mean(kept["fits"]["only"], axis=0)
    names = [ours for ours, _ in script.TABLE_2.values()]
    chi = script.standard_vector(script.puma(), dict(zip(names, values, strict=True)))
    run = script.open_loop(script.puma(), chi, path, (0,), False)
    error = np.degrees(run.q - run.nominal)[::10, [0]]
    np.testing.assert_allclose(error, kept["open loop"]["1, fast, nominal"], atol=2e-3)
    robot = script.puma()
    bare = np.where([n.startswith("F") for n in script.standard_names(robot)], 0.0, script.printed_parameters())
    assert script.split_error(robot, bare, 1.0, 0.020, 0.0) == pytest.approx(kept["rates"]["error"][0][2][0], rel=1e-6)


def test_what_is_stored_of_the_recording_is_found_anew():
    if not (TX40 / "tx40_traj.npz").is_file():
        pytest.skip("the TX-40 recording is not here")
    script = module("gautier_venture_2013")
    robot = script.load_robot("tx40")
    kept = stored("gautier_venture_2013")["recording"]
    samples = script.recorded(robot, TX40)
    options = replace(script.PAPERS, cross_validate=script.FOLDS)
    outcome = script.identify(robot, [samples], options=options).outcome
    np.testing.assert_allclose([row.value for row in outcome.base], kept["value"], rtol=1e-6, atol=1e-9)
    assert outcome.sets["base"].validation["all"].relative == pytest.approx(kept["error"][0], rel=1e-6)
