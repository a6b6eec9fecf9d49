# SPDX-License-Identifier: Apache-2.0

"""Joint states as robots really send them, made of a good robot's: permuted, with a stranger, without torque, ..."""

from __future__ import annotations

import random
from typing import Any

from sensor_msgs.msg import JointState

from ros2_dynid.nodes.common.fast import Stream, unpacked
from ros2_dynid.nodes.common.qos import JOINT_STATES


class Oddity:
    """Passes joint_states on as odd_states, in changing order with one joint more; what else is odd can be switched.

    offset: added to the stamps [s]; nan_effort: the first joint's effort is NaN; silent: nothing is passed on.
    efforts: the good ones by stamp, in the robot's order.
    """

    def __init__(self, node: Any) -> None:
        self.offset, self.nan_effort, self.silent, self.count = 0, False, False, 0
        self.efforts: dict[tuple[int, int], list[float]] = {}
        self._random = random.Random(1)
        self._order: list[int] = []
        self._out = node.create_publisher(JointState, "odd_states", 1000)
        self._stream = Stream(node, JointState, "joint_states", self._on_state, JOINT_STATES)

    def close(self) -> None:
        self._stream.close()

    def _on_state(self, data: bytes) -> None:
        if self.silent:
            return
        good = unpacked(data, JointState)
        if self.count % 100 == 0:
            self._order = self._random.sample(range(len(good.name) + 1), len(good.name) + 1)
        self.count += 1
        odd = JointState(header=good.header)
        odd.header.stamp.sec += self.offset
        self.efforts[odd.header.stamp.sec, odd.header.stamp.nanosec] = list(good.effort)
        if self.nan_effort:
            good.effort[0] = float("nan")
        odd.name = [[*good.name, "gripper"][k] for k in self._order]
        odd.position, odd.velocity, odd.effort = (
            [[*values, 7.0][k] for k in self._order] for values in (good.position, good.velocity, good.effort)
        )
        self._out.publish(odd)
