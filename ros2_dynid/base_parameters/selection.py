# SPDX-License-Identifier: Apache-2.0

"""Which standard parameters take part, and in which order they may lead."""

from __future__ import annotations

from collections.abc import Sequence

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.parameters import GROUPS, KINDS, group_of, select_groups, split_name
from ros2_dynid.model.robot import Robot

DISSIPATIVE = ("friction", "offset")
"""Groups that only the torque model has: at rest and in the energy they do not show."""


def chosen_names(robot: Robot, source: str, groups: Sequence[str] | None) -> tuple[tuple[str, ...], str | None]:
    """Return the standard parameters that take part, and a note if the model itself left some out."""
    if source == "torque":
        return select_groups(robot, groups), None
    if groups is None:
        elastic = ("force",) if robot.forces else ()
        note = f"friction and offset left out: not in the {source} model"
        return select_groups(robot, ("inertial", "rotor", *elastic)), note
    wrong = [group for group in groups if group in DISSIPATIVE]
    if wrong:
        raise InputError(
            f"{' and '.join(wrong)} cannot be found from the {source} model",
            Text("use ", Option("source", "torque"), ", or ", Option("groups", ("inertial", "rotor"))),
        )
    return select_groups(robot, groups), None


def preference(names: Sequence[str], order: Sequence[str] | None) -> list[int]:
    """Return the columns in order of preference: those that `order` names, then the rest as they come.

    An item is a parameter (ZZ1), a kind (Ia: of all joints), a group (rotor) or a joint's number (6: all that it has).
    Earlier columns lead before later ones.
    """
    if order is None:
        return list(range(len(names)))
    place = {name: k for k, name in enumerate(names)}
    preferred: dict[int, None] = {}
    for item in order:
        matches = [place[name] for name in _match_parameters(item, names) if name in place]
        if not matches:
            raise InputError(
                Text(Option("order"), f" names {item!r}, which matches no parameter that takes part"),
                "use a name (ZZ1), a kind (Ia), a group (rotor) or a joint's number (6)",
            )
        preferred.update(dict.fromkeys(matches))
    return [*preferred, *(k for k in range(len(names)) if k not in preferred)]


def _match_parameters(item: str, names: Sequence[str]) -> list[str]:
    """Return the parameters that an item of the order stands for."""
    item = item.strip()
    if item in names:
        return [item]
    if item in GROUPS:
        return [name for name in names if group_of(name) == item]
    if item in KINDS:
        return [name for name in names if split_name(name)[0] == item]
    if item.isascii() and item.isdigit():
        return [name for name in names if split_name(name)[1] == int(item) and group_of(name) != "force"]
    return []
