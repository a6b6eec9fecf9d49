# SPDX-License-Identifier: Apache-2.0

"""The skeleton of both machines: an event leads where the table says, is refused, or shows a bug."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, NamedTuple

import pytest

from ros2_dynid.control import excitation_events, feedforward_events
from ros2_dynid.control.transitions import IllegalTransitionError, StateMachine
from ros2_dynid.errors import InputError


class Light(Enum):
    """States of a lamp."""

    OFF = "off"
    ON = "on"
    BROKEN = "broken"


class Switch(NamedTuple):
    """Go to this state."""

    now: float
    to: Light


class Lamp(StateMachine[Light, str]):
    """A machine that goes wherever it is told to."""

    table: ClassVar = {
        Switch: {
            Light.OFF: frozenset((Light.ON, Light.OFF)),
            Light.ON: frozenset((Light.OFF,)),
        }
    }

    def __init__(self, state):
        self.state = state

    def _take(self, event):
        if event.now < 0:
            raise InputError("too early", "wait")
        self.state = event.to
        return "done"

    def _refused(self, why):
        return f"refused: {why}"

    def _refusal(self, event):
        return f"it is {self.state.value}"


def test_an_event_leads_where_the_table_says_and_is_refused_where_it_has_no_row():
    lamp = Lamp(Light.OFF)
    assert lamp.handle(Switch(1.0, Light.ON)) == "done" and lamp.state is Light.ON
    assert Lamp(Light.BROKEN).handle(Switch(1.0, Light.ON)) == "refused: it is broken"
    early = Lamp(Light.OFF)
    assert early.handle(Switch(-1.0, Light.ON)) == "refused: too early; wait" and early.state is Light.OFF


def test_a_transition_that_is_not_in_the_table_is_an_error():
    with pytest.raises(IllegalTransitionError, match="Switch led from ON to BROKEN"):
        Lamp(Light.ON).handle(Switch(1.0, Light.BROKEN))


@pytest.mark.parametrize("table", [excitation_events.TRANSITIONS, feedforward_events.TRANSITIONS])
def test_every_state_of_the_machines_has_a_way_out_and_is_reached(table):
    states = {state for row in table.values() for state in row}
    for state in states:
        ways = [(before, leads) for row in table.values() for before, leads in row.items()]
        assert any(before is state and leads - {state} for before, leads in ways)
        assert any(before is not state and state in leads for before, leads in ways)
