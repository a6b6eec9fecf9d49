# SPDX-License-Identifier: Apache-2.0

"""Collision objects of a robot: its own links, a floor, the walls of a box, obstacles; for the command and the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.excitation.collision import DEFAULT_MARGIN_M, Shapes, make_shapes, planes_of
from ros2_dynid.excitation.exact import available, narrowed
from ros2_dynid.excitation.obstacles import read_obstacles
from ros2_dynid.excitation.shapes import capsules_of, file_capsules, missing_note, urdf_solids
from ros2_dynid.model.robot import Robot


def surroundings(
    robot: Robot,
    source: str | Path | None,
    *,
    floor: float | None = None,
    box: Sequence[float] | None = None,
    obstacles: str | Path | None = None,
    margin: float = DEFAULT_MARGIN_M,
    start: Sequence[float] | None = None,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[Robot, Shapes | None]:
    """Return the collision shapes, None if there are none, and the robot to plan for.

    As known_shapes. If coal is installed, links too close together for capsules are checked in their true shapes: the
    returned robot has the joint ranges, around `start` if given, in which they do not touch.
    """
    robot, shapes = known_shapes(
        robot,
        source,
        floor=floor,
        box=box,
        obstacles=obstacles,
        margin=margin,
        base_link=base_link,
        tip_link=tip_link,
        hold=hold,
        floating_base=floating_base,
    )
    if shapes is None or not shapes.close:
        return robot, shapes
    if not shapes.solids or not available():
        pairs = ", ".join(f"{one} and {two}" for one, two in shapes.close[:6])
        hint = "; to check their true shapes, install coal: pip install coal" if shapes.solids else ""
        note = f"not checked for collision, since their capsules nearly always overlap: {pairs}{hint}"
        return robot, replace(shapes, notes=(*shapes.notes, note))
    robot, more = narrowed(robot, shapes.solids, shapes.close, start=start)
    return robot, replace(shapes, notes=(*shapes.notes, *more))


def known_shapes(
    robot: Robot,
    source: str | Path | None,
    *,
    floor: float | None = None,
    box: Sequence[float] | None = None,
    obstacles: str | Path | None = None,
    margin: float = DEFAULT_MARGIN_M,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[Robot, Shapes | None]:
    """Return the collision shapes, None if there are none, and the robot with notes on unreadable shapes.

    source: the URDF whose collision shapes count, or a YAML file with spheres and capsules. floor: its height [m]; box:
    x, X, y, Y, z, Z [m], both in the base frame. obstacles: a file of them. base_link, tip_link, hold, floating_base:
    the sub-chain that the robot was read with.
    """
    planes, standing = planes_of(floor, box), () if obstacles is None else read_obstacles(obstacles)
    if source is None:
        if planes or standing:
            raise InputError(
                "a floor, a box or an obstacle needs collision shapes", Text("give ", Option("collision", "FILE"))
            )
        return robot, None
    by_hand = Path(source).suffix.lower() in (".yaml", ".yml")
    solids, missing = (
        ([], ())
        if by_hand
        else urdf_solids(robot, source, base_link=base_link, tip_link=tip_link, hold=hold, floating_base=floating_base)
    )
    capsules, notes = file_capsules(robot, source) if by_hand else capsules_of(solids), missing_note(missing)
    if not capsules:
        if planes or standing or by_hand:
            raise InputError(
                "no collision shape was found",
                Text("give ", Option("collision", "FILE"), " with spheres or capsules"),
                str(source),
            )
        if notes:
            warning = "no collision shape could be read: self-collision is not checked"
            robot = replace(robot, notes=(*robot.notes, warning, *notes))
        return robot, None
    shapes = make_shapes(robot, capsules, planes=planes, obstacles=standing, margin=margin, notes=notes)
    near = {link for pair in shapes.close for link in pair}
    return robot, replace(shapes, solids=tuple(solid for solid in solids if solid.link in near))
