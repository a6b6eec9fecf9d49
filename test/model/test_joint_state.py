# SPDX-License-Identifier: Apache-2.0

"""A joint state as an immutable value with its joint names."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.model.joint_state import DISORDER, State


def test_a_state_cannot_be_written_to():
    state = State(("a",), *(np.array([float(k)]) for k in range(3)))
    assert state.stamp == 0 and (state.q[0], state.dq[0], state.tau[0]) == (0.0, 1.0, 2.0)
    for values in (state.q, state.dq, state.tau):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 5.0
    assert DISORDER == 0.1, "[s]: recorders and controllers take older stamps than this for a clock that was set"
