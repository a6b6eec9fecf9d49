# SPDX-License-Identifier: Apache-2.0

"""A stop of a robot that is watched: sent, sent again while it is not followed, until the robot is at rest."""

from __future__ import annotations

import numpy as np

from ros2_dynid.control.motion_gate import ApprovedStop, MotionGate
from ros2_dynid.control.motion_limits import MotionLimits, MotionSettings
from ros2_dynid.control.stop import Brake, braking, stop_with_margin
from ros2_dynid.control.supervisor import Supervisor
from ros2_dynid.errors import DynidError
from ros2_dynid.model.robot import Array

AGAIN = 0.1
"""Time [s] after which a stop that is not followed is sent again: it may have been lost on the way."""
ASTRAY = 0.05
"""Distance [rad or m] from a stop's motion, beside what the robot may have been off, that shows it is not followed."""
REACHED = 0.3
"""Time [s] after the end of a stop after which a robot that still moves gets another one."""
PATIENCE, STUBBORN = 2.0, 10.0
"""Time [s] after the end of a motion by which the robot must be seen at rest: without joint states there is no point in
waiting longer; a robot that is seen to move is stopped again and again for STUBBORN seconds. Then it is said."""


class StopInProgress:
    """The stop that was sent last: when [s], when [s] the first one was to end, and how far off the robot may be."""

    def __init__(self, gate: MotionGate) -> None:
        """Send stops through this gate."""
        self._gate = gate
        self._sent_at = self._rest_due = self._slack = 0.0

    def begin(
        self,
        watch: Supervisor,
        limits: MotionLimits,
        settings: MotionSettings,
        extent: tuple[Array, Array] | None,
        now: float,
    ) -> None:
        """Stop a robot; extent: the least and largest positions, shape (n,), of the motion that it is on, if any."""
        self._send(watch, limits, settings, extent, now)
        self._rest_due = watch.until  # the patience with a robot that does not rest begins when it should

    def send_again(self, watch: Supervisor, limits: MotionLimits, settings: MotionSettings, now: float) -> None:
        """Stop a robot that does not follow its stop."""
        self._send(watch, limits, settings, None, now)

    def rewind(self, shift: float) -> None:
        """Go on by a clock that was set back by `shift` [s]."""
        self._sent_at, self._rest_due = self._sent_at - shift, self._rest_due - shift

    def may_be_lost(self, now: float) -> bool:
        """Whether it was sent so long ago that another one may be sent."""
        return now > self._sent_at + AGAIN

    def ended(self, watch: Supervisor, now: float) -> str | None:
        """Return None while the robot is being stopped; then what is to be doubted, nothing ("") if it is at rest."""
        if not watch.known(now):
            silent = now > watch.until + PATIENCE
            return "joint states are missing: it is not known whether the robot is at rest" if silent else None
        late = watch.last.measured_at - watch.until
        if late >= 0 and watch.at_rest() and (late > PATIENCE or not watch.may_go_on()):
            return ""
        if watch.last.measured_at > self._rest_due + STUBBORN:
            return "the robot does not come to rest: use its emergency stop"
        return None

    def is_not_followed(self, watch: Supervisor, now: float) -> bool:
        """Whether the robot, which has had the stop by its own time, is off the stop's motion or moves beyond it."""
        if not watch.known(now) or not self.may_be_lost(watch.last.measured_at):
            return False
        if not watch.jumped and watch.confirmed and float(watch.error(now).max()) > self._slack:
            return True
        return watch.last.measured_at > watch.until + REACHED and watch.moves()

    def _send(
        self,
        watch: Supervisor,
        limits: MotionLimits,
        settings: MotionSettings,
        extent: tuple[Array, Array] | None,
        now: float,
    ) -> None:
        """Send a stop from what is measured, or from the reference if that is all there is."""
        start = watch.stop_start(now, moved=extent is not None)

        def brake_within(bounds: MotionLimits) -> Brake:
            return braking(
                bounds, start.q, start.dq, start.error, settings.lead, speed_error=start.speed_error,
                doubt=start.doubt, dense=start.dense,
            )  # fmt: skip

        inside_stop = None
        if start.follows and extent is not None:  # a robot that is not seen needs all the room there is
            inside_stop = stop_with_margin(limits, extent, brake_within)
        if inside_stop is not None:
            brake, stop = inside_stop
            self._sent_at = self._gate.send_stop(stop)
        else:
            brake = brake_within(limits)
            self._sent_at = self._send_to_the_limits(brake, limits)
        self._slack = float(np.max(start.error + start.doubt)) + ASTRAY
        watch.follow(brake.expected, self._sent_at, stop=True)

    def _send_to_the_limits(self, brake: Brake, limits: MotionLimits) -> float:
        """Send a stop that may use all the room to the limits; return when [s]."""
        try:
            return self._gate.send_stop(ApprovedStop(brake.points, brake.expected, limits))
        except DynidError as why:  # no stop keeps the limits from there
            return self._gate.force_stop(brake.points, limits, str(why))
