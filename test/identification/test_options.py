# SPDX-License-Identifier: Apache-2.0

"""Options of an identification: choices that there are, those that are refused, filters of other recordings."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions


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
        *(({"significant": x}, "significant is") for x in (0.0, 1.0, -0.1, np.nan)),
        ({"significant": 0.02}, None),
        ({"significant": 0.01, "essential": True}, "by two rules"),
        ({"significant": 0.01, "prior": "urdf"}, "with essential parameters"),
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
