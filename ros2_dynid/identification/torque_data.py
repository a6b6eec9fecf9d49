"""What the model was identified from and tested on, thinned for pictures: data.npz beside model.yaml."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.atomic import replacing
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array, Robot

if TYPE_CHECKING:
    from ros2_dynid.identification.preparation.prepared import Prepared

LIMIT = 4000
"""Rows kept of a data set: a picture shows no more, and a report of an hour stays small."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows of one data set: t (N,) [s]; q, dq, ddq, tau, predicted, prior (N, n).

    tau: measured torque, predicted: of the identified model, prior: of the a priori one, all through the same filter;
    NaN where a row was left out because the joint was too slow for its friction.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    predicted: Array
    prior: Array


def evidence(
    robot: Robot, prepared: Sequence[Prepared], columns: Sequence[int], value: Array, prior: Array, limit: int = LIMIT
) -> Evidence:
    """Return at most `limit` rows of the recordings, one after the other in time, with the torques of both models.

    value, prior: base parameters of the regressor's `columns`, and last the effort's delay [s], shape (b + 1,).
    """
    from ros2_dynid.identification.preparation.rows import (  # the page needs none
        row_chunks,
        row_count,
        rows_of_a_chunk,
        windows,
    )

    stride = max(1, -(-sum(row_count(p) for p in prepared) // limit))
    parts: list[tuple[Array, ...]] = []
    begin, seen = 0.0, 0
    for recording in prepared:
        shift = begin - (float(recording.t[0]) if len(prepared) > 1 else 0.0)
        chunks = row_chunks(robot, recording, columns, delay=True)
        for window, rows in zip(windows(recording, rows_of_a_chunk(recording)), chunks, strict=True):
            kept = np.arange((-seen) % stride, len(window.at), stride)
            seen += len(window.at)
            at = window.at[kept]
            measured = np.where(rows.keep, rows.tau, np.nan).T[kept]
            models = [np.einsum("b,bjt->tj", base, rows.W)[kept] for base in (value, prior)]
            motion = (recording.q[at], recording.dq[at], recording.ddq[at])
            parts.append((rows.t[kept] + shift, *motion, measured, *models))
        begin = shift + float(recording.t[-1])
    if not parts:
        raise InputError("the recordings have no row", "record longer")
    return Evidence(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def save_evidence(path: Path, sets: Mapping[str, Evidence]) -> None:
    """Write the data sets ("fit", "validation") as float32, atomically."""
    arrays = {f"{name}_{f.name}": getattr(e, f.name).astype(np.float32) for name, e in sets.items() for f in fields(e)}
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def load_evidence(path: Path) -> dict[str, Evidence]:
    """Return the data sets that save_evidence wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            names = [key.removesuffix("_t") for key in stored.files if key.endswith("_t")]
            return {
                name: Evidence(*(stored[f"{name}_{f.name}"].astype(float) for f in fields(Evidence))) for name in names
            }
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("the file is damaged or not ours", "identify again", str(path)) from error
