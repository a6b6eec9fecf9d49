# SPDX-License-Identifier: Apache-2.0

"""What a model says that another format cannot: one line for each kind, so that nobody misses it silently."""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.forces import SYMBOLS
from ros2_dynid.model.parameters import IA, OFF, Fc, Fv, by_joint, split_name, standard_names
from ros2_dynid.model.robot import Array, Robot


def left_out(robot: Robot, chi: Array, form: str, *, rotors: bool) -> list[str]:
    """Return what `form` cannot say of the robot with standard parameters chi; rotors: whether it knows armature.

    Bodies, viscous and Coulomb friction of a joint are taken for granted, unless they are negative.
    """
    drives = by_joint(robot, chi)
    notes = []
    if not rotors and np.any(drives[:, IA]):
        notes.append(f"{form} has no rotor inertia: {_list_values(robot, chi, ('Ia',))} left out")
    if np.any(drives[:, OFF]):
        notes.append(f"{form} has no constant torque: {_list_values(robot, chi, ('off',))} left out")
    negative = [
        f"{kind}{j + 1}"
        for j in range(robot.n)
        for kind, column in (("Ia", IA), ("Fv", Fv), ("Fc", Fc))
        if drives[j, column] < 0 and (rotors or kind != "Ia")
    ]
    if negative:
        notes.append(f"{form} takes no negative drive parameter: {', '.join(negative)} written as 0")
    if robot.coupling:
        motors = ", ".join(robot.joints[c.motor - 1].name for c in robot.coupling)
        names = _list_values(robot, chi, ("Iam", "Fvm", "Fcm"))
        notes.append(f"{form} has no coupled motors: the coupling of {motors} left out{f' ({names})' if names else ''}")
    if robot.friction:
        terms = ", ".join(f"{term.name} {term.coefficient:.4g}" for term in robot.friction)
        notes.append(f"{form} has viscous and Coulomb friction only: {terms} left out")
    if robot.forces:
        names = _list_values(robot, chi, SYMBOLS)
        notes.append(f"{form} has no springs, cylinders or cables: {names or 'those of the robot'} left out")
    return notes


def _list_values(robot: Robot, chi: Array, kinds: tuple[str, ...]) -> str:
    pairs = zip(standard_names(robot), chi, strict=True)
    return ", ".join(f"{name} {value:.4g}" for name, value in pairs if split_name(name)[0] in kinds and value)
