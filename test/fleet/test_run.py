# SPDX-License-Identifier: Apache-2.0

"""Runs over small fleets of simulated arms: equal to identify, resumed, refused, with recordings of every bad kind."""

from __future__ import annotations

import errno
import io
import json
import os
import pickle
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from fleet_site import ROBOT, record, write_fleet
from recordings import study
from ros2_dynid import pipeline
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import DynidError, InputError, remark
from ros2_dynid.fleet.fleet_file import load_fleet
from ros2_dynid.fleet.map_recording import (
    STORED_KINDS,
    Failed,
    MappedRecording,
    Source,
    StoredRecording,
    map_recording,
)
from ros2_dynid.fleet.recordings import identity
from ros2_dynid.fleet.reduce_robot import (
    Reduced,
    RobotJob,
    reduce_robot,
    stored_robot,
)
from ros2_dynid.fleet.run import geometry_name, run_fleet
from ros2_dynid.fleet.store import Store, packed, unpacked
from ros2_dynid.fleet.trends import friction_of
from ros2_dynid.fleet.workers import workers
from ros2_dynid.identification import recordings as recordings_stage
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.recordings import prepare_recordings
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import Information, restrict
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.parameters import by_joint, standard_names
from ros2_dynid.model.robot import with_gravity
from ros2_dynid.output_files import locked_folder
from ros2_dynid.recording import remote_file
from ros2_dynid.recording.read import iter_samples, load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.truth import true_parameters


def test_models_are_those_of_identify(site):
    file, run = site
    folder = file.parent
    assert run.work.mapped == run.work.recordings == 4 and run.work.reduced == run.work.robots == 2
    (kind,) = run.fleet.kinds
    assert kind.name == f"demo3 {geometry_name(ROBOT)}" and kind.robots == ("cell1", "cell2")
    data = json.loads(run.result.read_text())
    assert run.result.read_text() == json.dumps(data, indent=1, sort_keys=True), "equal fleets give equal files"
    assert set(data) == {"robots", "outliers", "failed", "kinds"} and data["kinds"][0]["name"] == kind.name
    assert data["robots"]["cell1"]["recordings"] == 2 and data["robots"]["cell1"]["kind"] == kind.name
    assert not run.fleet.failed
    for robot in ("cell1", "cell2"):
        bags = sorted((folder / "bags" / robot).glob("*.mcap"))
        check = sorted((folder / "bags" / robot / "validate").glob("*.mcap"))
        ours = load_model(folder / "out" / run.fleet.robots[robot].model)
        for given in (bags, bags[::-1]):
            theirs = pipeline.identify(ROBOT, given, validate=check).model
            np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-9, atol=1e-9 * np.abs(theirs.value).max())
            np.testing.assert_allclose(ours.std, theirs.std, rtol=1e-9)
            assert ours.fit["all"].relative == pytest.approx(theirs.fit["all"].relative, rel=1e-9)
            if check:
                assert ours.validation["all"].relative == pytest.approx(theirs.validation["all"].relative, rel=1e-9)
        assert (folder / "out" / run.fleet.robots[robot].report).is_file()
        assert run.fleet.robots[robot].fit == ours.fit and run.fleet.robots[robot].validation == ours.validation


def test_late_efforts_and_asked_friction_take_the_same_choices(tmp_path):
    bags = [record(tmp_path / f"b/arm/n{k}.mcap", 5, k, late=0.03) for k in range(2)]
    options = IdentifyOptions(friction="viscous+coulomb+load", essential=True)
    file = write_fleet(
        tmp_path, "defaults: {robot: demo3, options: {friction: viscous+coulomb+load, essential: true}}\nfolders: b\n"
    )
    run = run_fleet(file, tmp_path / "out", count=0)
    theirs = pipeline.identify(ROBOT, bags, options=options)
    ours = load_model(tmp_path / "out" / run.fleet.robots["arm"].model)
    assert theirs.outcome.filter.delay > 0.01
    assert ours.essential == theirs.model.essential
    np.testing.assert_allclose(ours.value, theirs.model.value, rtol=1e-9, atol=1e-9 * np.abs(ours.value).max())
    terms = [(term.name, term.coefficient) for term in theirs.model.robot.friction]
    assert terms and [(t.name, pytest.approx(t.coefficient, rel=1e-9)) for t in ours.robot.friction] == terms


def test_efforts_of_motors_and_torques_at_the_links_are_fitted_together_as_identify_does(tmp_path, monkeypatch):
    chi = true_parameters(ROBOT, 1)
    links = chi.copy()
    by_joint(ROBOT, links)[:, 10:] = 0.0
    bags = []
    for number in range(2):
        rng = np.random.default_rng(number)
        t, q, dq, ddq = (one[::4] for one in study().fourier(rng, len(ROBOT.active), 12.0))
        tau, tau_l = (inverse_dynamics(ROBOT, x, q, dq, ddq) for x in (chi, links))
        tau, tau_l = (x + 0.02 * x.std(axis=0) * rng.standard_normal(x.shape) for x in (tau, tau_l))
        bags.append(tmp_path / f"b/arm/n{number}.csv")
        bags[-1].parent.mkdir(parents=True, exist_ok=True)
        tau_l[:, 1] = np.nan  # a joint without a sensor
        save_samples(Samples(t, ROBOT.active_names, q, tau=tau, tau_l=tau_l, start_ns=number + 1), bags[-1])
    file = write_fleet(tmp_path, "defaults: {robot: demo3, options: {friction: viscous+coulomb}}\nfolders: b\n")
    options = IdentifyOptions(friction="viscous+coulomb")
    for piece in (200_000, 500):  # whole, and in parts
        monkeypatch.setattr(recordings_stage, "PIECE_SAMPLES", piece)
        monkeypatch.setitem(iter_samples.__kwdefaults__, "chunk", min(piece, 250))
        theirs = pipeline.identify(ROBOT, bags, options=options)
        assert len(theirs.outcome.second) == 2
        run = run_fleet(file, tmp_path / f"out{piece}", count=0)
        folder = tmp_path / f"out{piece}" / "robots/arm"
        second = json.loads((folder / "summary.json").read_text())["second"]
        assert set(second) == set(theirs.outcome.second) and not run.fleet.failed
        ours = load_model(folder / "model.yaml")
        np.testing.assert_allclose(ours.value, theirs.model.value, rtol=1e-9, atol=1e-9 * np.abs(ours.value).max())
        np.testing.assert_allclose(ours.std, theirs.model.std, rtol=1e-9)


def test_a_second_run_computes_only_what_is_new(site, tmp_path):
    file, _ = site
    shutil.copytree(file.parent, tmp_path / "copy", copy_function=shutil.copy2)
    file = tmp_path / "copy/fleet.yaml"
    before = (tmp_path / "copy/out/fleet.json").read_bytes()
    again = run_fleet(file, tmp_path / "copy/out", count=0)
    assert (again.work.mapped, again.work.reduced) == (0, 0)
    assert again.work.after == again.work.seconds, "no recording was mapped: all of it is what comes after"
    assert (tmp_path / "copy/out/fleet.json").read_bytes() == before
    stored = sorted((tmp_path / "copy/out/prepared").rglob("*.fleet"))
    record(tmp_path / "copy/bags/cell2/night5.mcap", 2, 5)
    more = run_fleet(file, tmp_path / "copy/out", count=0)
    assert (more.work.mapped, more.work.reduced) == (1, 1)
    assert more.fleet.robots["cell2"].recordings == 3 and len(more.fleet.trends["cell2"][0].time) == 3
    # an outcome that is damaged, or would run code if it were unpickled, counts as missing
    stored[0].write_bytes(stored[0].read_bytes()[:1000])
    with stored[1].open("wb") as stream:
        pickle.dump({"tree": os.getcwd}, stream)
    (tmp_path / "copy/bags/cell2/night5.mcap").unlink()
    less = run_fleet(file, tmp_path / "copy/out", count=0)
    assert less.work.mapped == 2 and less.fleet.robots["cell2"].recordings == 2
    assert (tmp_path / "copy/out/fleet.json").read_bytes() == before


def test_recordings_that_cannot_be_used_are_listed_and_the_rest_goes_on(tmp_path):
    good = record(tmp_path / "b/arm/a.mcap", 3, 0)
    (tmp_path / "b/arm/empty.mcap").touch()
    (tmp_path / "b/arm/foreign.mcap").write_bytes(b"\x89PNG\r\n" + bytes(1000))
    (tmp_path / "b/arm/cut.db3").write_bytes(b"SQLite format 3\0" + bytes(50))
    (tmp_path / "b/arm/gone.mcap").symlink_to(tmp_path / "nowhere.mcap")
    (tmp_path / "b/arm/same.mcap").write_bytes(good.read_bytes())  # counts once
    (tmp_path / "b/arm/validate").mkdir()
    (tmp_path / "b/arm/validate/lost.mcap").symlink_to(tmp_path / "nowhere.mcap")
    (tmp_path / "b/idle").mkdir()
    file = write_fleet(tmp_path, "defaults: {robot: demo3, recordings: ['b/none/*.mcap']}\nfolders: b\n")
    run = run_fleet(file, tmp_path / "out", count=0)
    listed = {(one.robot, Path(one.recording).name) for one in run.fleet.failed}
    bad = ("empty.mcap", "foreign.mcap", "cut.db3", "gone.mcap", "lost.mcap", "*.mcap")
    assert listed == {*(("arm", name) for name in bad), ("idle", "idle"), ("idle", "*.mcap")}
    assert all("\n" not in one.reason and one.reason for one in run.fleet.failed)
    assert run.fleet.robots["arm"].model and run.fleet.robots["arm"].recordings == 1
    assert run.fleet.robots["idle"].verdict == "no data"


def test_what_a_run_tells_while_it_goes_on_and_at_its_end(tmp_path):
    for robot in ("b", "a"):
        for k in range(2):
            record(tmp_path / f"bags/{robot}/n{k}.mcap", 3, k)
            (tmp_path / f"bags/{robot}/z{k}.mcap").write_text(f"torn {robot} {k}")
        (tmp_path / f"bags/{robot}/gone.mcap").symlink_to(tmp_path / "nowhere")
    options = "options: {friction: viscous+coulomb}"
    text = f"defaults: {{robot: demo3, {options}, kind: arm}}\nfolders: bags\n"
    begun = tmp_path / "out/prepared/ab/.abc.fleet.0123"
    begun.parent.mkdir(parents=True)
    begun.touch()
    told, began, used = [], time.monotonic(), time.process_time()
    run = run_fleet(write_fleet(tmp_path, text), tmp_path / "out", count=0, progress=lambda *one: told.append(one))
    took, used = time.monotonic() - began, time.process_time() - used
    assert not begun.exists(), "left by a run that was killed"
    assert told[0] == ("finding recordings", 0.0) and told[-1] == ("done", 1.0)
    assert [one for one in told if one[0] in ("comparing robots", "writing")] == [
        ("comparing robots", 0.96), ("writing", 0.98),
    ]  # fmt: skip
    done = [one[1] for one in told]
    assert done == sorted(done) and ("hashing recordings", 0.05) in told
    working = [one for one in told if one[0].startswith(("reading", "identifying"))]
    assert working[-1] == ("identifying robots (2 of 2)", pytest.approx(0.95)) and len(working) == 6 + 2
    names = [(one.robot, Path(one.recording).name) for one in run.fleet.failed]
    assert names == [(robot, name) for robot in "ab" for name in ("gone.mcap", "z0.mcap", "z1.mcap")]
    assert [kind.name for kind in run.fleet.kinds] == ["arm"]
    work = run.work
    assert (work.recordings, work.mapped, work.robots, work.reduced) == (8, 6, 2, 2), "the same once"
    assert 0.9 * took - 0.1 < work.seconds <= took and 0.0 < work.after < work.seconds
    assert 0.0 < work.comparing < work.identifying < used and 0.0 < work.mapping < used
    assert 0.5 * used < work.mapping + work.identifying + work.comparing <= used


def test_a_recording_that_vanishes_after_it_was_found_is_listed(tmp_path):
    for k in range(2):
        record(tmp_path / f"b/arm/n{k}.mcap", 3, k)
    file = write_fleet(tmp_path, "defaults: {robot: demo3, options: {friction: viscous+coulomb}}\nfolders: b\n")

    def remove(stage: str, done: float) -> None:
        if stage.startswith("hashing"):
            (tmp_path / "b/arm/n1.mcap").unlink(missing_ok=True)

    run = run_fleet(file, tmp_path / "out", count=0, progress=remove)
    (one,) = run.fleet.failed
    assert (one.robot, Path(one.recording).name) == ("arm", "n1.mcap") and "no such file" in one.reason
    assert run.fleet.robots["arm"].recordings == 1 and run.work.mapped == 2
    assert 0.0 < run.work.after < run.work.seconds and run.work.identifying > run.work.comparing > 0.0


def test_two_runs_into_one_folder_are_refused(site, tmp_path):
    file, _ = site
    out = tmp_path / "out"
    out.mkdir()
    with locked_folder(out), pytest.raises(InputError, match="another run"):
        run_fleet(file, out, count=0)


def test_pages_that_are_not_of_a_fleet_stay(site, tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(InputError, match="this exists already"):
        run_fleet(site[0], tmp_path, count=0)
    assert (tmp_path / "index.html").read_text() == "mine"


def test_a_full_disk_is_one_line_and_nothing_is_left_behind(site, tmp_path, monkeypatch, capsys):
    class Full(io.FileIO):
        def write(self, data):
            super().write(data[:5])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode="r": Full(path, "x") if mode == "xb" else opened(path, mode))
    assert main(["fleet", str(site[0]), "-o", str(tmp_path / "out"), "--workers", "0", "--json"]) == 2
    captured = capsys.readouterr()
    assert "No space left" in json.loads(captured.out)["error"]
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path.name != "stamps.json"]


def test_without_dask_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(DynidError, match=r"pip install 'ros2_dynid\[fleet\]'"), workers(None, 1):
        pass


def source(place: Path | str, options: IdentifyOptions | None = None) -> Source:
    options = options or IdentifyOptions()
    return Source(str(place), identity(str(place)).content, ROBOT, options.preparation, options.reading)


def job_of(bags: list[Path], options: IdentifyOptions) -> RobotJob:
    sources = tuple(source(bag, options) for bag in bags)
    stored = tuple(packed(map_recording(one)) for one in sources)
    return RobotJob("arm", ROBOT, options, sources, stored, (), "robots/arm", "dynid fleet x")


def test_a_robot_with_what_each_recording_says_in_figures(tmp_path):
    bags = [record(tmp_path / f"n{k}.mcap", 7, k, seconds=12.0 - 2.0 * k) for k in range(3)]
    options = IdentifyOptions(friction="viscous+coulomb")
    job = job_of([bags[2], bags[0], bags[1]], options)
    found = reduce_robot(job)
    assert isinstance(found, Reduced) and not found.result.problem
    result = found.result
    assert [row.place for row in result.rows] == [str(bag) for bag in bags], "in order of time"
    base = base_parameters(ROBOT, method="closed-form")
    prepared = prepare_recordings(ROBOT, bags, options, lambda stage, done: None)
    every = wls(build_information(ROBOT, base, prepared))
    np.testing.assert_allclose(result.value, every.base, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.covariance, every.base_covariance, rtol=1e-6, atol=1e-12)
    assert result.identified.all() and result.names == tuple(base.names) and result.joints == tuple(ROBOT.active_names)
    chi = true_parameters(ROBOT, 1)
    chi = chi * (1.0 + 0.03 * np.random.default_rng(7).standard_normal(len(chi)))
    true = dict(zip(standard_names(ROBOT), chi, strict=True))
    top = np.median([p.top_speed for p in prepared], axis=0)
    for row, p, k in zip(result.rows, prepared, range(3), strict=True):
        own = build_information(ROBOT, base, [p])
        alone = wls(own)
        for error, value in ((row.together, every.value), (row.alone, alone.value)):
            left = [own.triangle(j)[:, -1] - own.triangle(j)[:, :-1] @ value[c] for j, c in enumerate(own.columns)]
            torque = [own.triangle(j)[:, -1] for j in range(own.n)]
            assert error == pytest.approx(np.linalg.norm(np.hstack(left)) / np.linalg.norm(np.hstack(torque)), rel=0.02)
        assert row.seconds == pytest.approx(p.t[-1] - p.t[0]) and row.time == pytest.approx(1.7e9 + 86400.0 * k)
        by_itself = friction_of(ROBOT, base, own, every, top)
        np.testing.assert_allclose(row.friction.torque, by_itself.torque, rtol=1e-6)
        np.testing.assert_allclose(row.friction.std, by_itself.std, rtol=1e-4)
        for j, number in enumerate(ROBOT.active):
            friction = true[f"Fc{number}"] + 0.5 * top[j] * true[f"Fv{number}"]
            assert abs(row.friction.torque[j] - friction) < 5.0 * row.friction.std[j] + 0.01 * friction
            assert 0.0 < row.friction.std[j] < 0.1 * friction
    levels = ["problem", "warning", "note", "good"]
    assert result.level == min((text.partition(":")[0] for text in result.verdict), key=levels.index) and result.fit
    assert set(found.files) >= {"model.yaml", "report.html", "summary.json", "data.npz"}
    model = yaml.safe_load(found.files["model.yaml"])
    assert model["obtained"]["created"] == "2023-11-16T22:13:20+00:00", "of the newest recording"
    assert model["obtained"]["command"] == "dynid fleet x"
    summary = json.loads(found.files["summary.json"])
    assert summary["model"] == "robots/arm/model.yaml" and summary["seconds"] == 0.0


def test_friction_of_a_recording_is_the_fit_to_what_the_other_parameters_leave_of_each_joints_torque(tmp_path):
    bags = [record(tmp_path / f"n{k}.mcap", 7, k, seconds=6.0 + k) for k in range(2)]
    base = base_parameters(ROBOT, method="closed-form")
    prepared = prepare_recordings(ROBOT, bags, IdentifyOptions(), lambda stage, done: None)
    information = build_information(ROBOT, base, prepared)
    found, top = wls(information), np.array([1.0, 2.0, 3.0])
    for own in information.recordings.values():
        point = friction_of(ROBOT, base, own, found, top)
        for j, number in enumerate(ROBOT.active):
            R, columns = own.triangle(j), own.columns[j].tolist()
            at = [columns.index(base.leaders.index(f"{kind}{number}")) for kind in ("Fv", "Fc", "off")]
            rest = np.delete(np.arange(len(columns)), at)
            left = R[:, -1] - R[:, rest] @ found.value[own.columns[j][rest]]
            Fv, Fc, _ = np.linalg.lstsq(R[:, at], left, rcond=None)[0]
            assert point.torque[j] == pytest.approx(0.5 * top[j] * Fv + Fc, rel=1e-9)
            free = [base.leaders.index(f"{kind}{joint}") for joint in ROBOT.active for kind in ("Fv", "Fc", "off")]
            C = wls(restrict(own, free, value=found.value)).covariance[3 * j : 3 * j + 2, 3 * j : 3 * j + 2]
            g = np.array([0.5 * top[j], 1.0])
            assert point.std[j] == pytest.approx(np.sqrt(g @ C @ g)) and point.std[j] > 0.0
    still = information.columns[2].tolist().index(base.leaders.index("Fv3"))
    blocks = [replace(one, R=(*one.R[:2], one.R[2] * (np.arange(one.R[2].shape[1]) != still))) for one in own.blocks]
    blind = friction_of(ROBOT, base, Information(tuple(blocks), information.columns, information.layout), found, top)
    assert np.isnan(blind.torque).tolist() == np.isnan(blind.std).tolist() == [False, False, True], "not excited"
    one = information.recordings[1].blocks[0]
    for rows, too_few in (([5, 0, 5], True), ([3, 3, 3], True), ([4, 3, 3], False)):  # nine friction parameters
        few = Information((replace(one, rows=np.array(rows)),), information.columns, information.layout)
        assert (friction_of(ROBOT, base, few, found, top) is None) == too_few


def test_recordings_of_one_time_are_in_the_order_of_their_content_and_the_result_is_written_where_told(tmp_path):
    bags = [record(tmp_path / f"n{k}.mcap", 7, 0, seconds=6.0 + k) for k in range(2)]
    job = job_of(bags, IdentifyOptions(friction="viscous+coulomb"))
    wanted = [one.place for one in sorted(job.sources, key=lambda one: one.content)]
    notes = tuple(remark(f"note {k}") for k in range(7))
    full = []
    for data in job.stored:
        mapped = unpacked(data, MappedRecording, STORED_KINDS)
        full.append(packed(replace(mapped, prepared=replace(mapped.prepared, notes=notes))))
    target = tmp_path / "out"
    models = []
    for order in (slice(None), slice(None, None, -1)):
        given = replace(job, sources=job.sources[order], stored=tuple(full)[order], key="k", target=target)
        found = reduce_robot(given)
        assert [row.place for row in found.result.rows] == wanted
        assert found.result.rows[0].notes == tuple(f"note {k}" for k in range(5)), "a few say enough"
        models.append((target / "model.yaml").read_bytes())
        stored = stored_robot(target)
        assert stored.key == found.stored.key == "k" and not found.files and set(stored.files) >= {"model.yaml"}
    assert models[0] == models[1], "whoever is done first"
    refused = reduce_robot(replace(given, options=IdentifyOptions(friction="knee=load"), key="j"))
    assert stored_robot(target).key == "j" and "knee" in refused.stored.result.problem
    assert not (target / "model.yaml").exists()


def test_rows_at_rest_count_for_the_plain_estimate_too(tmp_path):
    rng = np.random.default_rng(3)
    t, q, _, _ = (one[::4] for one in study().fourier(rng, 3, 10.0))
    grown = np.clip((t - 4.0) / 2.0, 0.0, 1.0)[:, None]  # it stands still for 4 s
    q = q[0] + (q - q[0]) * grown**3 * (10.0 - 15.0 * grown + 6.0 * grown**2)
    dq = np.gradient(q, t, axis=0)
    chi = true_parameters(ROBOT, 1)
    tau = inverse_dynamics(ROBOT, chi, q, dq, np.gradient(dq, t, axis=0))
    tau += 0.02 * tau.std(axis=0) * rng.standard_normal(tau.shape)
    save_samples(Samples(t, ROBOT.active_names, q, tau=tau, start_ns=1), tmp_path / "rest.mcap")
    options = IdentifyOptions(friction="viscous+coulomb")
    job = job_of([tmp_path / "rest.mcap"], options)
    found = reduce_robot(job).result
    prepared = prepare_recordings(ROBOT, [tmp_path / "rest.mcap"], options, lambda stage, done: None)
    every = wls(build_information(ROBOT, base_parameters(ROBOT, method="closed-form"), prepared))
    np.testing.assert_allclose(found.value, every.base, rtol=1e-9, atol=1e-12)


def test_recordings_at_urls_are_read_in_ranges_or_copied(tmp_path, monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    bag = record(tmp_path / "a.mcap", 4, 1)
    table = tmp_path / "a.csv"
    save_samples(load_samples(bag), table)
    system = fsspec.filesystem("memory")
    for file in (bag, table):
        system.pipe_file(f"/plant/{file.name}", file.read_bytes())
    for file in (bag, table):
        here, there = map_recording(source(file)), map_recording(source(f"memory://plant/{file.name}"))
        for name in ("t", "q", "dq", "ddq", "tau"):
            np.testing.assert_array_equal(getattr(here.prepared, name), getattr(there.prepared, name))
    file = write_fleet(tmp_path, "robots: [{id: arm, robot: demo3, recordings: ['memory://plant/*.mcap']}]\n")
    run = run_fleet(file, tmp_path / "out", count=0)
    assert run.fleet.robots["arm"].recordings == 1 and not run.fleet.failed
    # a connection that breaks is an error, not the end of a damaged bag, wherever it breaks
    whole = system.store["/plant/a.mcap"].getvalue()
    monkeypatch.setattr(remote_file, "RANGE", 4096)
    for first, last in ((len(whole) // 3, len(whole)), (len(whole) // 3, len(whole) // 2)):

        def fails(path, start=None, end=None, first=first, last=last, **more):
            if start < last and end > first:
                raise ConnectionError("reset by peer")
            return whole[start:end]

        monkeypatch.setattr(system, "cat_file", fails)
        found = map_recording(source("memory://plant/a.mcap"))
        assert isinstance(found, Failed) and "reset by peer" in found.what
    monkeypatch.undo()
    assert isinstance(map_recording(source("memory://plant/a.mcap")), MappedRecording)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("robots: [{id: ../up, robot: demo3, recordings: [a]}]", "not a valid folder name"),
        ("robots: [{id: a, robot: demo3, recordings: [a], colour: red}]", "unknown field"),
        ("robots: [{id: a, robot: demo3}]", "no recordings"),
        ("robots: [{id: a, robot: demo3, recordings: [a]}, {id: A, robot: demo3, recordings: [b]}]", "twice"),
        ("robots: [{id: a, robot: demo3, recordings: [a], options: {method: irls}}]", "all rows at once"),
        ("robots: [{id: a, robot: demo3, recordings: [a], gains: {knee: 2}}]", "knee"),
        ("[1, 2]", "not a fleet file"),
        ("{}", "no robot"),
    ],
)
def test_wrong_fleet_files_are_refused(tmp_path, text, line):
    with pytest.raises(InputError, match=line):
        load_fleet(write_fleet(tmp_path, text))


def test_robots_that_cannot_be_identified_say_why(tmp_path):
    bag = record(tmp_path / "n.mcap", 7, 0)
    job = job_of([bag], IdentifyOptions(friction="viscous+coulomb"))
    foreign = reduce_robot(replace(job, stored=(packed(1),)))
    assert isinstance(foreign, Failed) and "damaged" in foreign.what and foreign.source == str(bag)
    odd = reduce_robot(replace(job, options=IdentifyOptions(friction="knee=load")))
    assert isinstance(odd, Reduced) and "knee" in odd.result.problem and not odd.files
    assert odd.result.level == "bad" and not odd.result.identified.any() and odd.result.rows == ()
    turned = record(tmp_path / "turned.npz", 7, 1)
    samples = load_samples(turned, ROBOT)
    save_samples(replace(samples, tau=-samples.tau), tmp_path / "reversed.npz")
    refused = reduce_robot(job_of([tmp_path / "reversed.npz"], IdentifyOptions(friction="viscous+coulomb")))
    assert "wrong sign" in refused.result.problem and not refused.files
    assert refused.result.identified.any() and len(refused.result.rows) == 1, "its recordings are compared all the same"


def test_a_stored_recording_is_mapped_into_memory_and_the_same(site, tmp_path):
    bag = sorted((site[0].parent / "bags/cell1").glob("*.mcap"))[0]
    mapped = map_recording(source(bag))
    store = Store(tmp_path)
    store.save("ab", packed(mapped))
    back = unpacked(store.path("ab"), MappedRecording, STORED_KINDS)
    assert back.start_ns == mapped.start_ns and back.prepared.filter == mapped.prepared.filter
    assert back.prepared.segments == mapped.prepared.segments and back.prepared.notes == mapped.prepared.notes
    for name in ("t", "q", "dq", "ddq", "tau", "sign", "bridged", "kernel", "top_speed"):
        np.testing.assert_array_equal(getattr(back.prepared, name), getattr(mapped.prepared, name))
    assert not back.prepared.q.flags.owndata and not back.prepared.q.flags.writeable


def test_a_stored_recording_asked_for_in_another_way_is_prepared_anew(tmp_path):
    bag = record(tmp_path / "n.mcap", 7, 0)
    one = source(bag)
    stored = StoredRecording(one, map_recording(one))
    options, reading = one.options, one.reading
    assert stored.prepare(ROBOT, options, reading) is stored.mapped.prepared
    lower = stored.prepare(ROBOT, replace(options, row_cutoff=3.0), reading)
    assert lower.filter.row_cutoff == 3.0
    like = stored.prepare(ROBOT, options, reading, lower.filter)
    assert like.filter.row_cutoff == 3.0, "with the filters of other recordings"


def test_robots_of_one_geometry_are_of_one_kind():
    lighter = replace(ROBOT, parameters={"M1": 3.0}, name="other")
    assert geometry_name(ROBOT) == geometry_name(lighter) and len(geometry_name(ROBOT)) == 8
    longer = replace(ROBOT, joints=(replace(ROBOT.joints[0], r=0.7), *ROBOT.joints[1:]))
    tilted = with_gravity(ROBOT, (0.0, 0.0, 1.0))
    assert len({geometry_name(one) for one in (ROBOT, longer, tilted)}) == 3
