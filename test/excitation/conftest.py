# SPDX-License-Identifier: Apache-2.0

"""What the tests of plans share."""

from __future__ import annotations

import pytest

from ros2_dynid.excitation import fourier_trajectory, point_trajectory
from ros2_dynid.excitation import plan as planning


@pytest.fixture
def few_steps(monkeypatch):
    """Make searches short, and return more time than they need [s]: what they find does not depend on the machine."""
    for method in (fourier_trajectory, point_trajectory):
        monkeypatch.setattr(method, "ITERATIONS", 10)
    monkeypatch.setattr(planning, "count_starts", lambda clock, method: 2)
    return 1000.0
