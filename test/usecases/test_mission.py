# SPDX-License-Identifier: Apache-2.0

"""The demo's mission as data: what its operator is asked to do, and what was found, as codec carries both."""

from __future__ import annotations

import numpy as np

from ros2_dynid.usecases.mission import MissionRequest, TrueLoad


def test_the_payload_of_the_demo_is_a_body():
    load = TrueLoad(2.0)
    I = np.array(load.inertia)
    moments = np.linalg.eigvalsh(I)
    assert np.array_equal(I, np.diag([0.004, 0.004, 0.003])) and moments[2] <= moments[0] + moments[1]
    assert load.com == (0.02, -0.01, 0.06)
    assert MissionRequest("demo6", 0, 10.0, load).rehearsal_speed == 0.5
