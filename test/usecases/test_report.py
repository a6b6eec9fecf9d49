# SPDX-License-Identifier: Apache-2.0

"""Report: the page of an identification, or the comparison of several."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.usecases.identify import IdentifyRequest, identify
from ros2_dynid.usecases.report import ReportRequest, report
from usecase_recordings import DEMO, samples_of

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


def test_reports_of_one_folder_and_of_several(identified, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(identified, copy)
    (copy / "report.html").unlink()
    assert report(ReportRequest((str(copy),), figures=False)).report == str(copy / "report.html")
    told = report(ReportRequest((str(identified), str(copy)), str(tmp_path / "mine.html")))
    assert told.report == str(tmp_path / "mine.html") and told.changed == {told.models[1]: ()}
    with pytest.raises(InputError, match="no folder to report on"):
        report(ReportRequest(()))
