# SPDX-License-Identifier: Apache-2.0

"""Find joints that look like a gripper: a plan for the whole robot moves them too, which is seldom intended."""

from __future__ import annotations

from ros2_dynid.errors import Option, Text
from ros2_dynid.model.robot import Robot

MAX_GRIPPER_JOINTS = 4
"""Longest chain of joints that counts as a finger; an arm on a torso has more."""


def gripper_joints(robot: Robot) -> tuple[str, ...]:
    """Return the active joints of grippers and hands.

    A gripper is where a moving link carries several joints, followers included, and each of these branches is short.
    Branches that meet again, in a closed loop, are none.
    """
    if robot.loops is not None:
        return ()
    children: dict[int, list[int]] = {}
    for number, joint in enumerate(robot.joints, start=1):
        children.setdefault(joint.parent, []).append(number)

    def branch(number: int) -> list[int]:
        return [number, *(below for child in children.get(number, []) for below in branch(child))]

    def depth(number: int) -> int:
        return 1 + max((depth(child) for child in children.get(number, [])), default=0)

    joints: set[int] = set()
    for parent, branches in children.items():
        if parent and len(branches) > 1 and all(depth(child) <= MAX_GRIPPER_JOINTS for child in branches):
            joints.update(number for child in branches for number in branch(child))
    return tuple(robot.joints[j - 1].name for j in robot.active if j in joints)


def gripper_notes(robot: Robot) -> list[Text]:
    """Return a note that names the gripper's joints and the option that holds them."""
    names = gripper_joints(robot)
    if not names:
        return []
    limits = {joint.name: joint.limits for joint in robot.joints}
    still = {name: round(min(max(0.0, limits[name].lower), limits[name].upper), 4) + 0.0 for name in names}
    what = "joint of a gripper moves" if len(names) == 1 else "joints of a gripper move"
    return [Text(f"{len(names)} {what} with the arm: {', '.join(names)}; to hold them: ", Option("hold", still))]
