# SPDX-License-Identifier: Apache-2.0

"""One owner of a robot at a time: a lease that the nodes which command it keep between them, without a server.

Each says on one topic what it does: it claims joints, waits, holds them, and says so again and again until it releases
them. Whoever is heard to hold is asked first; of two who claim at once the one with the smaller number goes on. If two
hold all the same, because the network was divided or a process stood, both stop. A holder that falls silent is gone:
its joints are free once the robot is seen at rest, since the controller may still follow what it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ros2_dynid.errors import InputError


class Role(IntEnum):
    """What a node does with the joints; the numbers are those of Commander.msg."""

    RELEASED = 0
    CLAIMS = 1
    HOLDS = 2
    WATCHES = 3


@dataclass(frozen=True)
class Claim:
    """What a node says: `instance` tells nodes of the same name apart; joints: those it commands.

    effort, holding_effort: of one that streams torques, in the order of effort_commands [N.m or N]: those sent last,
    and those against gravity where the robot is.
    """

    role: Role
    node: str
    instance: int
    joints: tuple[str, ...] = ()
    effort: tuple[float, ...] = ()
    holding_effort: tuple[float, ...] = ()

    @property
    def commands(self) -> bool:
        """Whether the node commands joints, or is about to."""
        return self.role in (Role.CLAIMS, Role.HOLDS)

    def shares(self, joints: Sequence[str]) -> bool:
        """Whether a joint is among those of the claim."""
        return not set(self.joints).isdisjoint(joints)


@dataclass(frozen=True)
class LeaseTimes:
    """Times [s] of the lease.

    beat: between two words of a holder; often enough that several are lost before it counts as silent. claim: from a
    claim to its grant, three beats, in which a rival is heard. silence: after which a holder is gone; a busy computer
    pauses a process for a tenth of a second now and then. discovery: a node that has just begun to listen may not have
    found the others yet.
    """

    beat: float = 0.02
    claim: float = 0.06
    silence: float = 0.3
    discovery: float = 0.5


DEFAULT_TIMES = LeaseTimes()


class Lease:
    """The lease as one node sees it: what it does itself (`role`, `joints`), and what it has heard of others."""

    def __init__(self, node: str, instance: int, now: float, times: LeaseTimes = DEFAULT_TIMES) -> None:
        """Begin to listen at `now` [s], and command nothing."""
        self.node, self.instance, self.times = node, instance, times
        self.role, self.joints = Role.RELEASED, ()  # type: tuple[Role, tuple[str, ...]]
        self._others: dict[int, tuple[Claim, float]] = {}
        self._guards: set[int] = set()
        self._listens_since, self._granted_at = now, 0.0
        self._refused = ""

    def take(self, claim: Claim, now: float) -> None:
        """Take what another node says, heard at `now` [s]; a claim of ours that must yield is withdrawn."""
        if claim.instance == self.instance:
            return
        self._others[claim.instance] = (claim, now)
        if claim.role is Role.WATCHES:
            self._guards.add(claim.instance)
        elif claim.role is Role.RELEASED:
            self._guards.discard(claim.instance)
        before_us = claim.role is Role.HOLDS or (claim.role is Role.CLAIMS and claim.instance < self.instance)
        if self.role is Role.CLAIMS and before_us and claim.shares(self.joints):
            self.role, self._refused = Role.RELEASED, claim.node

    def rival(self, joints: Sequence[str], now: float) -> str:
        """Return the name of another node that commands one of the joints, or nothing ("")."""
        return next((claim.node for claim, _ in self._heard(now) if claim.commands and claim.shares(joints)), "")

    def silent(self, joints: Sequence[str], now: float) -> list[Claim]:
        """Return what those said last who held one of the joints and are gone."""
        return [c for c, at in self._others.values() if c.shares(joints) and self._is_gone(c, at, now)]

    def watched(self, now: float) -> bool:
        """Whether a guard is there."""
        return any(claim.role is Role.WATCHES for claim, _ in self._heard(now))

    @property
    def was_watched(self) -> bool:
        """Whether a guard was there when it was last heard of, however long ago: it says RELEASED when it ends."""
        return bool(self._guards)

    def claim(self, joints: Sequence[str], now: float, *, at_rest: bool) -> None:
        """Claim joints, or refuse in one line that names who commands them; `granted` says when they are ours."""
        if self.role is not Role.RELEASED and set(joints) <= set(self.joints):
            return
        if rival := self.rival(joints, now):
            raise InputError(f"{rival} commands the robot", "stop it, deactivate it, or wait for its end")
        for gone in self.silent(joints, now):
            if not at_rest:
                raise InputError(
                    f"{gone.node} commanded the robot and is silent; the robot is not seen at rest", "wait for it"
                )
            del self._others[gone.instance]
        self.role, self.joints, self._refused = Role.CLAIMS, tuple(joints), ""
        self._granted_at = max(now + self.times.claim, self._listens_since + self.times.discovery)

    def granted(self, now: float) -> bool:
        """Return whether the joints are ours; refuse if another node was quicker."""
        if self._refused:
            rival, self._refused = self._refused, ""
            raise InputError(f"{rival} has just taken command of the robot", "stop it, or wait for its end")
        if self.role is Role.CLAIMS and now >= self._granted_at:
            self.role = Role.HOLDS
        return self.role is Role.HOLDS

    def seize(self, joints: Sequence[str]) -> None:
        """Hold joints at once: for a guard, in the place of one that is gone."""
        self.role, self.joints = Role.HOLDS, tuple(joints)

    def release(self) -> None:
        """Command nothing any more."""
        self.role, self._refused = Role.RELEASED, ""

    def conflict(self, now: float) -> str:
        """Return who else holds joints that we hold, or nothing ("")."""
        if self.role is not Role.HOLDS:
            return ""
        return next((c.node for c, _ in self._heard(now) if c.role is Role.HOLDS and c.shares(self.joints)), "")

    def holders(self, now: float) -> list[Claim]:
        """Return what those say who hold joints and are not silent."""
        return [claim for claim, _ in self._heard(now) if claim.role is Role.HOLDS]

    def take_gone(self, now: float) -> list[Claim]:
        """Return what those said last who held joints and are gone, and forget them: for a guard."""
        gone = [claim for claim, at in self._others.values() if self._is_gone(claim, at, now)]
        for claim in gone:
            del self._others[claim.instance]
        return gone

    def word(self) -> Claim:
        """Return what to say of ourselves."""
        return Claim(self.role, self.node, self.instance, self.joints)

    def _is_gone(self, claim: Claim, at: float, now: float) -> bool:
        return claim.role is Role.HOLDS and now - at > self.times.silence

    def _heard(self, now: float) -> list[tuple[Claim, float]]:
        """Return what others have said who are not silent."""
        return [(claim, at) for claim, at in self._others.values() if now - at <= self.times.silence]
