# SPDX-License-Identifier: Apache-2.0

"""The skeleton of the machines that move a robot: a table of legal transitions, which is enforced while they run.

A table says for each kind of event and each state where it may lead. A machine that has gone elsewhere has a bug: it
must not go on as if nothing had happened, so its owner ends the motion.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)
Table = Mapping[type, Mapping[State, frozenset[State]]]


class IllegalTransitionError(RuntimeError):
    """A machine is in a state that its event does not lead to."""


def check_transition(table: Table[State], event: type, before: State, after: State) -> None:
    """Refuse to go on where an event has led from `before` to a state that the table does not have."""
    if after not in table[event].get(before, ()):
        raise IllegalTransitionError(f"{event.__name__} led from {before.name} to {after.name}")
