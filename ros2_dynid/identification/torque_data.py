# SPDX-License-Identifier: Apache-2.0

"""Measured and predicted torques, thinned for pictures: data.npz beside model.yaml."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from ros2_dynid.atomic import replacing
from ros2_dynid.errors import InputError
from ros2_dynid.model.robot import Array


@dataclass(frozen=True, eq=False)
class TorqueData:
    """Rows of one data set: t (N,) [s]; q, dq, ddq, tau, predicted, prior, temperature (N, n).

    tau: measured torque, predicted: of the identified model, prior: of the a priori one, all through the same filter;
    NaN where a row was left out because the joint was too slow for its friction. temperature: of the drives [deg C],
    NaN where it is not known.
    """

    t: Array
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    predicted: Array
    prior: Array
    temperature: Array


def save_torque_data(path: Path, sets: Mapping[str, TorqueData]) -> None:
    """Write the data sets ("fit", "validation") as float32, atomically."""
    arrays = {f"{name}_{f.name}": getattr(e, f.name).astype(np.float32) for name, e in sets.items() for f in fields(e)}
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def load_torque_data(path: Path) -> dict[str, TorqueData]:
    """Return the data sets that save_torque_data wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            names = [key.removesuffix("_t") for key in stored.files if key.endswith("_t")]
            return {
                name: TorqueData(*(_stored(stored, f"{name}_{f.name}", f"{name}_q") for f in fields(TorqueData)))
                for name in names
            }
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError("the file is damaged or not ours", "identify again", str(path)) from error


def _stored(stored: Mapping[str, Array], name: str, like: str) -> Array:
    """Return an array of the file; older ones have no temperatures, which are not known then."""
    if name.endswith("_temperature") and name not in stored:
        return np.full(stored[like].shape, np.nan)
    return stored[name].astype(float)
