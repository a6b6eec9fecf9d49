# SPDX-License-Identifier: Apache-2.0

"""Identify: recordings of a robot become base parameters with error bars, model.yaml and a report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.pipeline import identify as run_stages
from ros2_dynid.report.build import PREVIEW
from ros2_dynid.usecases.identify import IdentifyRequest, identify
from usecase_recordings import DEMO, ROBOT, samples_of

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


def test_identify_does_what_the_stages_do_and_keeps_the_preview(recorded, tmp_path):
    page, output = tmp_path / "seen.html", tmp_path / "out"
    page.write_text("a page")
    request = IdentifyRequest(
        DEMO, (recorded["empty"],), (recorded["one"],), OPTIONS, str(output), command="typed", preview=str(page)
    )
    told = identify(request)
    found = run_stages(ROBOT, request.recordings, options=OPTIONS, validate=request.validation).outcome
    assert (told.base, told.fit, told.validation, told.rows) == (found.base, found.fit, found.validation, found.rows)
    assert (output / PREVIEW).read_text() == "a page" and "typed" in (output / "report.html").read_text()
    with pytest.raises(InputError, match="exist"):
        identify(request)
    with pytest.raises(InputError, match="no such file"):
        identify(replace(request, output=str(tmp_path / "other"), preview=str(tmp_path / "none.html")))
    assert not (tmp_path / "other").exists(), "refused before anything is identified"
