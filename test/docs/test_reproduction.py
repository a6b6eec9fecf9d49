# SPDX-License-Identifier: Apache-2.0

"""The papers' tables beside ours: every script agrees with its paper, and every figure of its page is the script's.

Each script makes its whole page. Searches and simulations that take long are stored beside the page as the numbers
that they gave; the test takes these (`--stored`), computes everything else anew, and compares every word and figure of
the page. What differs from machine to machine (`~`: wall-clock times, rounding) is not compared. Of what is stored some
is found anew here.
"""

from __future__ import annotations

import importlib
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
    for image in re.findall(r"\]\((images/\S+?)\)", page):
        assert (FOLDER / image).is_file()
        assert (tmp_path / image).stat().st_size > 1000


def module(name):
    """Return a script as a module."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def stored(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def test_stored_optima_are_within_their_limits_and_a_short_search_comes_near():
    script = module("gautier_khalil_1992")
    for name, points in stored("gautier_khalil_1992").items():
        if name.startswith("optimum"):
            assert np.abs(points["q"]).max() <= script.POSITION * (1 + 1e-12)
            assert np.abs(points["dq"]).max() <= script.SPEED * (1 + 1e-12)
    kept = stored("gautier_khalil_1992")["optimum 20 0"]
    found = script.optimum(20, 0.0, starts=2, iterations=60)
    ours, theirs = (script.condition_by(script.model().W(x["q"], x["dq"])) for x in (found, kept))
    assert float(theirs) <= float(ours) * 1.05 and float(ours) < 3.0 * float(theirs)


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
