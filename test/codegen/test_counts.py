# SPDX-License-Identifier: Apache-2.0

"""Operation counts against the papers': exact, so a change that costs an operation shows here.

Parameters are symbols: the counts must not depend on their values. A multiplication by a compiled-in constant counts;
sines, cosines and sign changes do not; constants formed off-line from parameters and geometry are constants.
"""

import numpy as np
import pytest

from ros2_dynid.codegen.program import ProgramOptions, chosen_parameters, program_of
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Robot

SIGNIFICANT = ["Ia1", "Ia2", "Ia3", "Ia4", "Ia5", "Ia6", "M6", "MZ6", "MZ4", "XX4", "YY4"]
"""Of the PUMA 260 (Izaguirre 1992, Table 2)."""

SIMPLIFIED = [f"{kind}{j}" for j in range(1, 7) for kind in ("XX", "YY", "ZZ", "M")]
SIMPLIFIED += ["MY2", "MZ3", "MY4", "MY5", "MZ6"]
"""Stanford arm with diagonal inertias, masses, and each centre of mass on one axis.

Lin 1995 gives 139 and 101 for simplified links that it does not define: fewer multiplications here, one addition more.
"""


def count(robot, only, function="torque", **options):
    parameters, values = chosen_parameters(robot, only)
    program = program_of(robot, parameters, values, ProgramOptions(**options), functions=(function,))
    found = program.functions[function].count
    return found.multiplications, found.additions


@pytest.mark.parametrize(
    ("robot", "only", "function", "load", "ours", "limit"),
    [
        ("stanford", ["inertial"], "torque", False, (203, 192), (222, 207)),
        ("stanford", SIMPLIFIED, "torque", False, (125, 102), (139, 102)),
        ("puma560", ["inertial", "rotor"], "torque", False, (230, 220), (257, 243)),
        ("puma260", SIGNIFICANT, "torque", False, (96, 77), (147, 102)),
        ("puma260", SIGNIFICANT, "inertia_gravity", False, (60, 53), (98, 70)),
        ("puma260", SIGNIFICANT, "velocity_torques", False, (83, 60), (140, 110)),
        ("puma260", SIGNIFICANT, "inertia_gravity", True, (129, 116), (190, 150)),
        ("puma260", SIGNIFICANT, "velocity_torques", True, (140, 111), (200, 170)),
    ],
)
def test_counts_of_the_papers_are_beaten(robot, only, function, load, ours, limit):
    found = count(load_robot(robot), only, function, load=load)
    assert found[0] <= limit[0] and found[1] <= limit[1]
    assert found <= ours, "more operations than documented"


def test_the_papers_count_their_base_parameters():
    assert len(chosen_parameters(load_robot("puma560"), ["inertial", "rotor"])[0]) == 40


def test_values_of_parameters_do_not_matter():
    full = load_robot("stanford")
    empty = Robot("stanford", full.joints, base=full.base)
    assert count(full, ["inertial"]) == count(empty, ["inertial"])


def general_robot(n):
    """Return a robot without any right angle or zero length, gravity in no axis: what the general formula counts."""
    rng = np.random.default_rng(5)
    joints = (Joint(f"j{i}", i - 1, 0, 0.0, 0.0, *rng.uniform(0.2, 1.2, 4)) for i in range(1, n + 1))
    return Robot("general", tuple(joints), gravity=np.array([1.0, 2.0, -9.0]))


@pytest.mark.parametrize("n", [3, 6, 7])
def test_the_general_formula_is_beaten(n):
    multiplications, additions = count(general_robot(n), ["inertial"])
    assert multiplications <= 89 * n - 82 and additions <= 77 * n - 71


def test_more_effort_never_finds_more_operations():
    robot = load_robot("puma560")
    few, many = (sum(count(robot, ["inertial", "rotor"], effort=effort)) for effort in (1, 120))
    assert many <= few
