# SPDX-License-Identifier: Apache-2.0

"""The skeleton of the machines that move a robot: an event with its time, a table of legal transitions, an outcome.

A table says for each kind of event and each state where it may lead; an event that has no row in a state is refused
there. The table is enforced while the machine runs: one that has gone elsewhere has a bug and must not go on as if
nothing had happened, so its owner ends the motion.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ros2_dynid.errors import DynidError

State = TypeVar("State", bound=Enum)
Outcome = TypeVar("Outcome")
Table = Mapping[Any, Mapping[State, frozenset[State]]]


class Event(Protocol):
    """Something that happened at time `now` [s]."""

    @property
    def now(self) -> float:
        """When it happened [s]."""


class IllegalTransitionError(RuntimeError):
    """A machine is in a state that its event does not lead to."""


class StateMachine(Generic[State, Outcome]):
    """A state that events change along the table; one thread owns it."""

    table: ClassVar[Table[Any]]
    state: State

    def handle(self, event: Event) -> Outcome:
        """Take an event; one that is not legal now, or is refused for what it holds, has an outcome that says so."""
        before = self.state
        leads_to = self.table[type(event)].get(before)
        if leads_to is None:
            return self._refused(self._refusal(event))
        try:
            outcome = self._take(event)
        except DynidError as error:
            outcome = self._refused(str(error))
        if self.state not in leads_to:
            raise IllegalTransitionError(f"{type(event).__name__} led from {before.name} to {self.state.name}")
        return outcome

    def _take(self, event: Any) -> Outcome:
        """Do what the event asks for; DynidError refuses it."""
        raise NotImplementedError

    def _refused(self, why: str) -> Outcome:
        """Return the outcome of an event that is refused, for this reason."""
        raise NotImplementedError

    def _refusal(self, event: Any) -> str:
        """Return why this event is not legal in this state, in one line."""
        raise NotImplementedError
