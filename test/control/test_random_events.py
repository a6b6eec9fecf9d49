# SPDX-License-Identifier: Apache-2.0

"""Random events at random times: whatever happens, the invariants of the moving path hold."""

from __future__ import annotations

import pytest

from random_events import play
from ros2_dynid.model.load import load_robot


@pytest.mark.parametrize("seed", range(6))
def test_random_events_at_random_times_break_no_invariant(seed):
    seen = play(load_robot("demo3"), seed, seconds=20.0)
    assert seen.steps >= 4000 and seen.events > 20
