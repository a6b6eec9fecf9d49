# SPDX-License-Identifier: Apache-2.0

"""A machine that goes where its table has no way does not go on."""

from __future__ import annotations

import pytest

from ros2_dynid.control import excitation_machine, feedforward_machine
from ros2_dynid.control.excitation_machine import ExcitationTick, Phase, Stop
from ros2_dynid.control.feedforward_events import DeactivateFeedforward, FeedforwardState, StopFeedforward
from ros2_dynid.control.transitions import IllegalTransitionError, check_transition


@pytest.mark.parametrize(
    ("table", "event", "before", "after"),
    [
        (excitation_machine.LEGAL, Stop, Phase.RUNNING, Phase.RUNNING),  # a stop that does not stop
        (excitation_machine.LEGAL, ExcitationTick, Phase.BRAKING, Phase.RUNNING),
        (feedforward_machine.TRANSITIONS, StopFeedforward, FeedforwardState.STREAMING, FeedforwardState.STREAMING),
        (feedforward_machine.TRANSITIONS, DeactivateFeedforward, FeedforwardState.FOLLOWING, FeedforwardState.STOPPED),
    ],
)
def test_a_transition_that_is_not_in_the_table_is_an_error(table, event, before, after):
    with pytest.raises(IllegalTransitionError, match=f"{event.__name__} led from {before.name} to {after.name}"):
        check_transition(table, event, before, after)


def test_every_event_has_a_row_and_every_state_a_way_out():
    for table, states in ((excitation_machine.LEGAL, Phase), (feedforward_machine.TRANSITIONS, FeedforwardState)):
        for state in states:
            assert any(after - {state} for row in table.values() if (after := row.get(state, frozenset())))
    assert set(feedforward_machine.TRANSITIONS) == set(feedforward_machine.LEGAL)
