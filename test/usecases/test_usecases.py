# SPDX-License-Identifier: Apache-2.0

"""The use cases by their requests: the same data in, the fields of the JSON out."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from recordings import simulated
from ros2_dynid.codec import decode, encode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.recording.samples import Reading, Units
from ros2_dynid.usecases.check import CheckRequest, check
from ros2_dynid.usecases.gains import GainsRequest, gains
from ros2_dynid.usecases.identify import IdentifyOutcome, IdentifyRequest, identify
from ros2_dynid.usecases.payload import PayloadRequest, payload
from ros2_dynid.usecases.plan import PlanMethod, PlanRequest, plan
from ros2_dynid.usecases.report import ReportRequest, report
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = RobotSource("demo6")
LOAD = (0.02, 0.0, 0.0, 0.02, 0.0, 0.01, 0.0, 0.0, 0.15, 2.0)


def stored(path, **options):
    samples = simulated(seconds=8.0, **options)
    np.savez(path, t=samples.t, q=samples.q, tau=samples.tau)
    return str(path)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    return stored(folder / "empty.npz"), stored(folder / "loaded.npz", seed=3, load=LOAD)


@pytest.fixture(scope="module")
def identified(recordings, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    other = stored(folder.parent / "other.npz", seed=9)
    request = IdentifyRequest(ROBOT, recordings[:1], (other,), output=str(folder))
    return identify(request), folder


def test_identify_gives_its_outcome_and_writes_the_same(identified):
    outcome, folder = identified
    assert outcome.fit["all"].relative < 0.02 and outcome.validation["all"].relative < 0.02
    assert outcome.model == str(folder / "model.yaml") and outcome.report == str(folder / "report.html")
    again = decode(IdentifyOutcome, json.loads(json.dumps(encode(outcome))))
    assert again == outcome
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["base"] == encode(outcome.base) and summary["fit"] == encode(outcome.fit)


def test_what_a_request_asks_for_reaches_the_reader(recordings):
    reading = Reading(units=Units(effort="mN.m"), start=1.0, end=7.0)
    with pytest.raises(InputError, match="no sample lies"):
        identify(IdentifyRequest(ROBOT, recordings[:1], options=IdentifyOptions(reading=Reading(start=90.0))))
    filters = PreparationOptions(position_cutoff=40.0, row_cutoff=8.0)
    whole = identify(IdentifyRequest(ROBOT, recordings[:1], options=IdentifyOptions(preparation=filters)))
    other = IdentifyOptions(preparation=filters, reading=reading, checks=False)
    found = identify(IdentifyRequest(ROBOT, recordings[:1], options=other))
    assert found.rows < whole.rows
    assert found.fit["all"].rms < 0.01 * whole.fit["all"].rms


def test_payload_and_gains(recordings):
    empty, loaded = recordings[:1], recordings[1:]
    found = payload(PayloadRequest(ROBOT, empty, loaded))
    assert abs(found.mass - 2.0) < 4 * found.std.mass + 0.02 and found.significant
    assert found.interval95.mass > found.std.mass > 0
    drives = gains(GainsRequest(ROBOT, empty, loaded, 2.0))
    known = [gain for gain in drives.gains.values() if gain is not None]
    assert len(known) >= 3 and np.allclose(known, 1.0, atol=0.1)
    assert encode(drives)["mass"] == 2.0


def test_check_and_report(recordings, identified, tmp_path):
    _, folder = identified
    outcome = check(CheckRequest(ROBOT, recordings[:1]))
    assert outcome.rate == pytest.approx(1000.0, rel=0.01) and len(outcome.joints) == 6
    assert any(problem.kind == "missing_velocity" for problem in outcome.problems)
    assert report(ReportRequest((str(folder),), figures=False)).report == str(folder / "report.html")
    with pytest.raises(InputError, match="comparison"):
        report(ReportRequest((str(folder),), output="page.html"))
    copy = shutil.copytree(folder, tmp_path / "copy")
    page = report(ReportRequest((str(folder), str(copy)), output=str(tmp_path / "both.html")))
    assert (tmp_path / "both.html").exists() and len(page.models) == 2 and page.changed["copy"] == ()


def test_plan_writes_a_trajectory(tmp_path):
    seen = []
    request = PlanRequest(
        ROBOT, str(tmp_path / "plan.yaml"), duration=6.0, time_budget=1.5, csv=str(tmp_path / "p.csv")
    )
    outcome = plan(request, lambda stage, fraction: seen.append((stage, fraction)))
    assert (tmp_path / "plan.yaml").exists() and (tmp_path / "p.csv").exists()
    assert outcome.cond is not None and outcome.cond > 1.0 and outcome.n_base == len(outcome.parameters)
    assert set(outcome.use) == {"position", "velocity", "acceleration", "effort"}
    assert seen and all(isinstance(stage, str) and 0.0 <= fraction <= 1.0 for stage, fraction in seen)
    ramps = plan(PlanRequest(ROBOT, str(tmp_path / "ramps.yaml"), PlanMethod.RAMPS))
    assert ramps.cond is None and ramps.rows > 0
    with pytest.raises(InputError, match="folder"):
        plan(PlanRequest(ROBOT, str(tmp_path / "no" / "plan.yaml")))
