# SPDX-License-Identifier: Apache-2.0

"""Decisions on either side of their thresholds: evidence of efforts, agreement about a load, which estimator suits."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.joint_agreement import agreement
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.validation.effort_scale import refuse_contradictions

# --- do joints agree about a load?


@pytest.mark.parametrize(("spread", "asked"), [(0.3, True), (0.45, True), (0.55, False), (0.9, False)])
def test_a_joint_that_hardly_knows_the_mass_is_not_asked(spread, asked):
    """Four blocks with the same weight and a scatter made to measure: the jackknife of a mean has a closed form."""
    scatter = np.array([1.0, -1.0, 1.0, -1.0])
    size = spread * 3.0 / 2.0  # sum of (size scatter / 3)^2 over four blocks is spread^2
    blocks = tuple(
        Block((np.array([[1.0, 2.0 * (1.1 + size * s)]]),), np.array([1]), float(k), k + 1.0)
        for k, s in enumerate(scatter)
    )
    loaded = Information(blocks, (np.array([0]),), ColumnLayout(1))
    load_map, load = np.zeros((1, 10)), np.zeros(10)
    load_map[0, -1], load[-1] = 1.0, 2.0
    found = agreement(loaded, np.zeros(1), np.zeros((1, 1)), 0.0, load_map, load, np.zeros((10, 10)))
    np.testing.assert_allclose(found.scale, [1.1 if asked else np.nan])
    np.testing.assert_allclose(found.std, [spread if asked else np.nan])
    wider = agreement(loaded, np.zeros(1), np.array([[0.04]]), 0.0, load_map, load, np.zeros((10, 10)))
    if spread == 0.3:
        assert wider.std[0] == pytest.approx(np.hypot(0.3, 0.2 / 2.0)), "the robot's own doubt, over the mass"


# --- recordings that contradict each other


@pytest.mark.parametrize(("changes", "named"), [
    ((1.0, 1.0, 1.0), None),
    ((1.0, 1.0, 1.6), "c"),
    ((0.3, 1.0, 1.0), "a"),
    ((1.0, 1.08, 1.0), None),  # less than a tenth of the torque
])  # fmt: skip
def test_the_recording_that_contradicts_the_others_most_is_named(changes, named):
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.5])
    blocks = []
    for k in range(12):
        A = rng.normal(size=(20, 3))
        y = A @ truth * changes[k // 4] + 0.02 * rng.normal(size=20)
        blocks.append(Block((np.column_stack((A, y)),), np.array([20]), float(k), k + 1.0, k // 4))
    information = Information(tuple(blocks), (np.arange(3),), ColumnLayout(3))
    if named is None:
        refuse_contradictions(information, truth, "abc")
        return
    with pytest.raises(InputError, match=f"{named}: torque error .* together with the other recordings"):
        refuse_contradictions(information, truth, "abc")
    noisy = tuple(
        Block((block.R[0] + np.column_stack((np.zeros((20, 3)), rng.normal(size=20))),), block.rows, 0.0, 1.0,
              block.recording)
        for block in blocks
    )  # fmt: skip
    refuse_contradictions(Information(noisy, information.columns, information.layout), truth, "abc")
    refuse_contradictions(information.take(range(4, 8)), truth, "abc")


# --- where efforts are measured


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"method": "wls"}, "unknown method"),
        ({"method": Method.TLS}, None),
        *(({"cross_validate": k}, "cross_validate is") for k in (-1, 1)),
        *(({"cross_validate": k}, None) for k in (None, 0, 2, 7)),
        ({"torque_sensor": "motor"}, "at the motor"),
        ({"torque_sensor": "link+Fc"}, None),
        ({"prior": "sister.yml"}, None),
        ({"prior": "sister.yaml"}, None),
        ({"prior": "sister.txt"}, "prior is"),
        ({"prior": "urdf"}, None),
        *(({"prior": prior, "essential": True}, None) for prior in ("auto", "none")),
        *(({"prior": prior, "essential": True}, "with essential parameters") for prior in ("urdf", "a.yaml")),
        ({"distance": "euclidean"}, None),
        ({"distance": "far"}, "distance is"),
        *(({"essential_std": x}, "essential_std is") for x in (0.0, 1.0, -0.1, np.nan)),
        *(({"essential_std": x}, None) for x in (0.01, 0.99)),
        ({"sensor": "found"}, None),
        ({"sensor": "nose"}, "nose"),
        ({"friction": "glue"}, "glue"),
    ],
)
def test_choices_that_there_are_and_those_that_there_are_not(options, refused):
    if refused is None:
        assert all(getattr(IdentifyOptions(**options), key) == value for key, value in options.items())
    else:
        with pytest.raises(InputError, match=refused):
            IdentifyOptions(**options)


@pytest.mark.parametrize(
    ("options", "good"),
    [
        *(({name: x}, x == 0.5) for name in ("position_cutoff", "row_cutoff", "row_rate") for x in (0.5, 0.0, -1.0)),
        *(({name: np.inf}, False) for name in ("position_cutoff", "row_cutoff", "row_rate")),
        *(({"slow": x}, x in (0.0, 0.5)) for x in (0.0, 0.5, 1.0, -0.1, np.nan)),
        *(({"delay": x}, abs(x) == 0.1) for x in (0.1, -0.1, np.nan, np.inf)),
        ({"velocity": "measured"}, False),
    ],
)
def test_settings_of_a_preparation(options, good):
    if good:
        assert all(getattr(PreparationOptions(**options), key) == value for key, value in options.items())
    else:
        with pytest.raises(InputError):
            PreparationOptions(**options)


def test_cut_offs_of_other_recordings_are_taken_as_far_as_the_data_carry_them():
    plain = PreparationOptions()
    assert plain.with_filters(None, 3.0, 10.0) is plain.with_filters(5.0, None, 10.0) is plain
    for position, row, highest in ((20.0, 4.0, 30.0), (20.0, 4.0, 10.0), (20.0, 15.0, 10.0)):
        found = plain.with_filters(position, row, highest)
        assert (found.position_cutoff, found.row_cutoff) == (min(position, highest), min(row, highest))
    asked = PreparationOptions(position_cutoff=7.0).with_filters(20.0, 4.0, 30.0)
    assert (asked.position_cutoff, asked.row_cutoff) == (7.0, 4.0)
    asked = PreparationOptions(row_cutoff=7.0).with_filters(20.0, 4.0, 30.0)
    assert (asked.position_cutoff, asked.row_cutoff) == (20.0, 7.0)
