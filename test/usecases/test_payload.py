# SPDX-License-Identifier: Apache-2.0

"""Payload: recordings without and with a load give its mass, centre of mass and inertia."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.from_recordings import identify_payload_on_model, identify_payloads
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.usecases.identify import IdentifyRequest, identify
from ros2_dynid.usecases.payload import JointMass, PayloadRequest, has_names, payload, payloads
from ros2_dynid.usecases.robot_source import RobotSource
from usecase_recordings import DEMO, NAMES, ROBOT, assert_same_load, samples_of

OPTIONS = IdentifyOptions(friction="viscous+coulomb", preparation=PreparationOptions(row_cutoff=6.0))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Return files of recordings: one empty, two with the load, one with another load."""
    folder = tmp_path_factory.mktemp("recorded")
    files = {}
    for name, load, seed in (("empty", 0.0, 0), ("one", 2.0, 1), ("two", 2.0, 2), ("heavy", 5.0, 3)):
        samples = samples_of(load, seed)
        files[name] = str(folder / f"{name}.npz")
        np.savez(files[name], t=samples.t, q=samples.q, tau=samples.tau)
    return files


@pytest.fixture(scope="module")
def identified(recorded, tmp_path_factory):
    """Return the folder of a model."""
    folder = tmp_path_factory.mktemp("identified") / "out"
    identify(IdentifyRequest(DEMO, (recorded["empty"],), options=OPTIONS, output=str(folder)))
    return folder


def test_a_payload_with_all_its_figures(recorded):
    request = PayloadRequest(DEMO, (recorded["empty"],), (recorded["one"], recorded["two"]), None, OPTIONS, free=True)
    seen = []
    told = payload(request, lambda stage, share: seen.append(share))
    loaded = {"": request.loaded}
    load = identify_payloads(ROBOT, request.empty, loaded, link=None, free=True, options=OPTIONS)[""]
    assert_same_load(told, load)
    assert told.mass == pytest.approx(2.0, abs=0.05) and seen and told.contradicting == load.contradicting
    figures = zip(NAMES, load.joint_mass, load.joint_mass_std, strict=True)
    assert told.joint_mass == {name: JointMass(m, s) for name, m, s in figures if np.isfinite(m)}
    body = payload(replace(request, free=False))
    assert body != told, "ten free parameters are not those of a body"
    with pytest.raises(InputError, match="nose"):
        payload(replace(request, link="nose"))


def test_recordings_that_are_swapped_are_refused(recorded):
    request = PayloadRequest(DEMO, (recorded["one"],), (recorded["empty"],), None, OPTIONS)
    with pytest.raises(InputError, match=r"negative mass, -2 \+- .* swap the recordings"):
        payload(request)
    less = payload(replace(request, free=True))
    assert less.mass == pytest.approx(-2.0, abs=0.05), "if the robot does carry less"


def test_loads_by_name(recorded, tmp_path):
    assert has_names(("box=a.mcap",)) and not has_names(("a.mcap",)) and not has_names(())
    odd = tmp_path / "x=y.mcap"
    odd.touch()
    assert not has_names((str(odd),)), "a file that is called so"
    names = (f"box={recorded['one']}", f"can={recorded['heavy']}", f"box={recorded['two']}")
    request = PayloadRequest(DEMO, (recorded["empty"],), names, options=OPTIONS)
    told = payloads(request)
    assert list(told.loads) == ["box", "can"]
    loaded = {"box": (recorded["one"], recorded["two"]), "can": (recorded["heavy"],)}
    for name, load in identify_payloads(ROBOT, request.empty, loaded, options=OPTIONS).items():
        assert_same_load(told.loads[name], load)
    for wrong in ("=a", "box=", "a"):
        with pytest.raises(InputError, match="names no load"):
            payloads(PayloadRequest(DEMO, ("e",), ("can=b", wrong)))
    with pytest.raises(InputError, match="several loads are named"):
        payload(PayloadRequest(DEMO, ("e",), ("box=a",)))


def test_a_model_stands_for_the_recordings_without_the_load(recorded, identified):
    model = str(identified / "model.yaml")
    told = payload(PayloadRequest(RobotSource(model), (), (recorded["heavy"],), options=OPTIONS))
    assert_same_load(told, identify_payload_on_model(load_model(model), (recorded["heavy"],), options=OPTIONS))
    assert told.mass == pytest.approx(5.0, abs=0.1) and set(told.joint_mass) <= set(NAMES)
    with pytest.raises(InputError, match="a model and recordings without the load are given"):
        payload(PayloadRequest(RobotSource(model), (recorded["empty"],), (recorded["one"],)))
    with pytest.raises(InputError, match="no recording without the load"):
        payload(PayloadRequest(DEMO, (), (recorded["one"],)))
