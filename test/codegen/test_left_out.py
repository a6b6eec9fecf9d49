# SPDX-License-Identifier: Apache-2.0

"""What a model says that another format cannot: one line for each kind, so that nobody misses it silently."""

from __future__ import annotations

import numpy as np

from ros2_dynid.codegen.left_out import left_out
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from runtime_robots import with_forces


def test_what_a_format_cannot_say_is_listed_and_no_more():
    robot = load_robot("demo3")
    clean = standard_vector(robot).reshape(3, 14).copy()
    clean[:, 10] = (0.1, 0.0, 0.3)
    clean[:, 11:13] = 0.5
    clean[:, 13] = 0.0
    assert left_out(robot, clean.ravel(), "X", rotors=True) == []
    assert left_out(robot, clean.ravel(), "X", rotors=False) == ["X has no rotor inertia: Ia1 0.1, Ia3 0.3 left out"]
    clean[1, 13], clean[2, 13] = -0.25, 2.0
    assert left_out(robot, clean.ravel(), "X", rotors=True) == ["X has no constant torque: off2 -0.25, off3 2 left out"]
    clean[:, 13] = 0.0
    clean[0, 10], clean[1, 11], clean[2, 12] = -0.1, -0.2, -0.3
    negative = "X takes no negative drive parameter: {} written as 0"
    assert left_out(robot, clean.ravel(), "X", rotors=True) == [negative.format("Ia1, Fv2, Fc3")]
    assert left_out(robot, clean.ravel(), "X", rotors=False)[1:] == [negative.format("Fv2, Fc3")]
    springs = with_forces(load_robot("demo6"))
    chi = np.zeros(len(standard_names(springs)))
    assert left_out(springs, chi, "X", rotors=True)[-1].endswith("cables: those of the robot left out")
    chi[-1] = 7.0
    assert left_out(springs, chi, "X", rotors=True)[-1].endswith(f"cables: {standard_names(springs)[-1]} 7 left out")
    coupled = load_robot("tx40")
    note = left_out(coupled, np.zeros(len(standard_names(coupled))), "X", rotors=True)[-1]
    assert note == f"X has no coupled motors: the coupling of {coupled.joints[5].name} left out"
