# SPDX-License-Identifier: Apache-2.0

"""What is generated for a robot: which parameters appear, which functions, and reference values to check them with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.program import (
    chosen_parameters,
    contact_torque,
    load_columns,
    tool_of,
)
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
from small_program import close, small_program

SMALL = Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=0.2)))


def test_loads_and_wrenches_at_a_tool():
    """Virtual work: the wrench's power is that of its torques; a load is a body fixed to the tool."""
    rng = np.random.default_rng(4)
    robot = random_robot(rng, 5, tree=False, prismatic=0.4)
    pose = np.eye(4)
    pose[:3, :3] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    pose[:3, :3] *= np.linalg.det(pose[:3, :3])
    pose[:3, 3] = rng.normal(size=3)
    robot = replace(robot, tools={"hand": (4, pose)})
    assert tool_of(robot, "hand")[:1] + tool_of(robot, "hand")[2:] == (4, "link hand")
    joint, unit, words = tool_of(robot, None)
    assert joint == 5 and np.array_equal(unit, np.eye(4)) and robot.joints[-1].name in words
    with pytest.raises(InputError, match="choose from hand"):
        tool_of(robot, "foot")
    q, wrench = rng.normal(size=5), rng.normal(size=6)
    assert any(j.sigma == PRISMATIC for j in robot.joints) and any(j.sigma != PRISMATIC for j in robot.joints)
    tau = contact_torque(robot, q, wrench, 4, pose)

    def tool(q):
        return frames(robot, q[None])[0, 3] @ pose

    T, h = tool(q), 1e-6
    force, moment = T[:3, :3] @ wrench[:3], T[:3, :3] @ wrench[3:]
    for k in range(5):
        step = h * np.eye(5)[k]
        change = (tool(q + step) - tool(q - step)) / (2 * h)
        spin = change[:3, :3] @ T[:3, :3].T
        turning = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
        assert tau[k] == pytest.approx(force @ change[:3, 3] + moment @ turning, abs=1e-7)
    columns = load_columns(robot, 4, pose)
    names = standard_names(robot)
    mass = dict(zip(names, columns[:, LINK.index("M")], strict=True))
    d = pose[:3, 3]
    J = d @ d * np.eye(3) - np.outer(d, d)
    wanted = {"M4": 1.0, "MX4": d[0], "MY4": d[1], "MZ4": d[2], "XX4": J[0, 0], "XY4": J[0, 1], "ZZ4": J[2, 2]}
    assert {name: mass[name] for name in wanted} == pytest.approx(wanted)
    assert not any(value for name, value in mass.items() if not name.endswith("4"))


def test_parameters_that_appear_are_those_asked_for():
    robot = load_robot("demo3")
    names, values = chosen_parameters(robot, ["ZZ2", "M3", "ZZ2"])
    chi = dict(zip(standard_names(robot), standard_vector(robot), strict=True))
    assert names == ("ZZ2", "M3") and values.tolist() == [chi["ZZ2"], chi["M3"]]
    kinds = {name.rstrip("0123456789") for name in chosen_parameters(robot, ["friction"])[0]}
    assert kinds == {"Fv", "Fc"}
    bare = replace(robot, parameters={k: v for k, v in robot.parameters.items() if not k.startswith(("F", "off"))})
    assert not any(name.startswith(("F", "off")) for name in chosen_parameters(bare, None)[0])
    assert any(name.startswith("Fv") for name in chosen_parameters(robot, None)[0])
    with pytest.raises(InputError, match="neither a group nor a parameter"):
        chosen_parameters(robot, ["inertial", "XX9"])


def test_reference_values_have_loads_wrenches_and_temperatures_that_matter():
    """Each is drawn for each sample, and the torque is that of the recursion with the load on its link."""
    pose = np.eye(4)
    pose[:3, 3] = (0.1, -0.2, 0.3)
    robot = replace(
        SMALL, tools={"hand": (1, pose)}, friction=(FrictionTerm(2, FrictionKind.TEMPERATURE, 0.1, reference=33.0),)
    )
    program = small_program(robot, load=True, wrench=True, tool="hand")
    for test in program.tests:
        assert all(np.abs(test[x]).min() > 1e-3 for x in ("load", "wrench", "temperature"))
        chi = program.values + load_columns(robot, 1, pose) @ test["load"]
        row = [test[x][None] for x in ("q", "dq", "ddq")]
        tau = inverse_dynamics(robot, chi, *row, test["temperature"][None])[0]
        assert close(test["tau"], tau - contact_torque(robot, test["q"], test["wrench"], 1, pose))
    assert len({test[x].tobytes() for test in program.tests for x in ("load", "wrench", "temperature")}) == 9
    assert program.tool == "link hand" and "about the origin and in the axes of link hand" in emit_c(program)["small.h"]
