"""What a robot must not touch while it moves: itself, a floor, the walls of a box; for the command and the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import DEFAULT_MARGIN_M, Shapes, make_shapes, planes_of
from ros2_dynid.excitation.exact import available, narrowed
from ros2_dynid.excitation.shapes import file_capsules, urdf_capsules
from ros2_dynid.model.robot import Robot


def surroundings(
    robot: Robot,
    source: str | Path | None,
    *,
    floor: float | None = None,
    box: Sequence[float] | None = None,
    margin: float = DEFAULT_MARGIN_M,
    start: Sequence[float] | None = None,
    **chain: Any,
) -> tuple[Robot, Shapes | None]:
    """Return what must not collide, None if nothing is known, and the robot to plan for.

    source: the URDF whose collision shapes count, or a YAML file with spheres and capsules. floor: its height [m]; box:
    x, X, y, Y, z, Z [m], both in the base frame. Links that the joints hold too close for capsules are looked at in
    their true shapes, if coal is installed: the robot returned has the joint ranges in which they do not touch. chain:
    base_link, tip_link and hold of the sub-chain that the robot was read with.
    """
    planes = planes_of(floor, box)
    if source is None:
        if planes:
            raise InputError("a floor or a box needs shapes that stay inside", "give --collision FILE")
        return robot, None
    by_hand = Path(source).suffix.lower() in (".yaml", ".yml")
    capsules, notes = (file_capsules(robot, source), ()) if by_hand else urdf_capsules(robot, source, **chain)
    if not capsules:
        if planes or by_hand:
            raise InputError(
                "no collision shape was found", "give --collision FILE with spheres or capsules", str(source)
            )
        if notes:
            warning = "no collision shape could be read: nothing keeps the links apart"
            robot = replace(robot, notes=(*robot.notes, warning, *notes))
        return robot, None
    shapes = make_shapes(robot, capsules, planes=planes, margin=margin, notes=notes)
    if not shapes.close:
        return robot, shapes
    if by_hand or not available():
        listed = ", ".join(f"{one} and {two}" for one, two in shapes.close[:6])
        cure = "" if by_hand else " (the Python package coal would look at their true shapes)"
        note = f"not kept apart, since their capsules nearly always touch: {listed}{cure}"
        return robot, replace(shapes, notes=(*shapes.notes, note))
    robot, more = narrowed(robot, source, shapes.close, start=start, **chain)
    return robot, replace(shapes, notes=(*shapes.notes, *more))
