# SPDX-License-Identifier: Apache-2.0

"""What is generated for a robot: which parameters appear, which functions, and reference values to check them with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.codegen.comparison import TOLERANCE, program_error
from ros2_dynid.codegen.emit_c import Program
from ros2_dynid.codegen.functions import (
    Builder,
    friction,
    inertia_gravity,
    synchronous,
    torque,
    torque_with_wrench,
    velocity_torques,
)
from ros2_dynid.codegen.graph import Graph
from ros2_dynid.codegen.loop_expressions import JOINTS
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan
from ros2_dynid.codegen.operation_search import EFFORT, Generated, generate, starting_constants
from ros2_dynid.codegen.representation import Space, space_of
from ros2_dynid.codegen.text import identifier
from ros2_dynid.dynamics.friction import frictionless, terms_torque
from ros2_dynid.dynamics.kinematics import frames, linear_constraint, motion_of, random_positions, velocity_ratios
from ros2_dynid.dynamics.loops import close_loops
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.parameters import GROUPS, LINK, group_of, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

REFERENCE_SAMPLES = 3
"""Reference samples in the program that checks itself."""
NEAR_ASSEMBLY = 0.5
"""Distance of their positions from the pose in which loops are assembled [rad, m], at most."""


@dataclass(frozen=True)
class ProgramOptions:
    """How to generate: parameters at run time, a load, a wrench (both at the tool), and the type of numbers."""

    runtime: bool = False
    load: bool = False
    wrench: bool = False
    real: str = "double"
    tool: str | None = None
    effort: int = EFFORT


FUNCTIONS = ("torque", "inertia_gravity", "velocity_torques", "synchronous")
FRICTION = "friction"
"""Of robots with friction terms only."""


def chosen_parameters(robot: Robot, only: Sequence[str] | None) -> tuple[tuple[str, ...], Array]:
    """Return the names and values of the parameters to appear, for a robot with its a priori parameters.

    only: groups (then the base parameters among these), or names of standard parameters (then just these, such as the
    significant ones of Izaguirre 1992; all others are zero). Default: inertial and rotor, and friction and offset if
    the robot has any.
    """
    chi = standard_vector(robot)
    if only is not None and not set(only) <= set(GROUPS):
        names = standard_names(robot)
        unknown = [name for name in only if name not in names]
        if unknown:
            hint = f"give groups ({', '.join(GROUPS)}) or standard parameters such as ZZ1"
            raise InputError(
                Text(Option("groups", unknown[0]), " is neither a group nor a parameter"), hint, robot.name
            )
        selected = tuple(dict.fromkeys(only))
        return selected, np.array([chi[names.index(name)] for name in selected])
    if only is None:
        groups_present = {group_of(name) for name, value in robot.parameters.items() if value != 0.0}
        only = ["inertial", "rotor", *(group for group in ("friction", "offset", "force") if group in groups_present)]
    base = base_parameters(robot, groups=list(only))
    return base.leaders, base.values(robot, chi)


def program_of(
    robot: Robot,
    parameters: Sequence[str],
    values: Array,
    options: ProgramOptions | None = None,
    *,
    about: Sequence[str] = (),
    name: str | None = None,
    functions: Sequence[str] = FUNCTIONS,
) -> Program:
    """Return the generated functions in the parameters named (standard parameters; all others are zero).

    With friction terms, velocity_torques has no friction, which may grow with the torque, accelerations included: it is
    a function of its own, of dq and of the torque M ddq + C + Q that the gears carry.
    """
    options = options or ProgramOptions()
    if robot.loops is not None and options.real == "float":
        raise InputError("single precision does not close loops", Text("leave ", Option("float"), " out"), robot.name)
    if robot.friction and "velocity_torques" in functions:
        functions = [*functions, FRICTION]
    joint, pose, tool = tool_of(robot, options.tool)
    columns = unit_columns(robot, parameters)
    if options.load:
        columns = np.hstack((columns, load_columns(robot, joint, pose)))
    builders: dict[str, Builder] = {
        "torque": torque_with_wrench(joint, pose) if options.wrench else torque,
        "inertia_gravity": inertia_gravity,
        "velocity_torques": velocity_torques,
        "synchronous": synchronous,
        FRICTION: friction,
    }
    space = space_of(robot)
    X = starting_constants(space, columns)
    generated = {name: _generate(name, builders[name], robot, space, X, options.effort) for name in functions}
    program = Program(
        robot,
        name or identifier(robot.name),
        generated,
        tuple(parameters),
        np.asarray(values, dtype=float),
        runtime=options.runtime,
        load=options.load,
        wrench=options.wrench,
        tool=tool,
        real=options.real,
        about=tuple(about),
    )
    _refuse_if_wrong(program, joint, pose, columns)
    return replace(program, tests=reference_samples(program, joint, pose, columns))


def _refuse_if_wrong(program: Program, joint: int, pose: Array, columns: Array) -> None:
    """Refuse functions that do not give the results of NumPy, whatever the values of the parameters are."""
    values = np.random.default_rng(0).normal(size=len(program.values))
    random = replace(program, values=values)
    error = program_error(replace(random, tests=reference_samples(random, joint, pose, columns, count=1)))
    if not error <= TOLERANCE:
        what = f"the generated code differs from the NumPy recursions by {error:.1e} of the largest value"
        raise InputError(what, "use `dynid torque`, and report the robot", program.robot.name)


def _generate(name: str, builder: Builder, robot: Robot, space: Space, X: Array, effort: int) -> Generated:
    if name == "synchronous":  # a product of matrix and vector: nothing to search for
        graph = Graph()
        return Generated(
            graph, builder(graph, robot, {}, RecursionPlan()), (), np.zeros((0, X.shape[1])), RecursionPlan()
        )
    return generate(builder, robot, space, X, effort)


def unit_columns(robot: Robot, parameters: Sequence[str]) -> Array:
    """Return the standard parameters for a unit of each of `parameters`, shape (n_standard, P)."""
    names = standard_names(robot)
    columns = np.zeros((len(names), len(parameters)))
    for k, name in enumerate(parameters):
        if name not in names:
            raise InputError(f"{name!r} is not a parameter of the robot", "use names such as ZZ1", robot.name)
        columns[names.index(name), k] = 1.0
    return columns


def tool_of(robot: Robot, name: str | None) -> tuple[int, Array, str]:
    """Return joint, pose in its frame (4, 4) and description of the tool named, else of the last joint's frame."""
    if name is None:
        return robot.n, np.eye(4), f"the frame of joint {robot.joints[-1].name}"
    if name not in robot.tools:
        hint = f"choose from {', '.join(sorted(robot.tools))}"
        if not robot.tools:
            hint = Text("leave ", Option("tool"), " out for the last joint's frame")
        raise InputError(f"the robot has no tool link {name!r}", hint, robot.name)
    joint, pose = robot.tools[name]
    return joint, pose, f"link {name}"


def load_columns(robot: Robot, joint: int, pose: Array) -> Array:
    """Return the standard parameters for a unit of each of the load's ten parameters at the tool, (n_standard, 10)."""
    names = standard_names(robot)
    columns = np.zeros((len(names), len(LINK)))
    for k, kind in enumerate(LINK):
        unit = dict.fromkeys(LINK, 0.0) | {kind: 1.0}
        XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = (unit[x] for x in LINK)
        body = Inertia(M, np.array([MX, MY, MZ]), np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]]))
        for own, value in body.moved(pose).standard().items():
            columns[names.index(f"{own}{joint}"), k] = value
    return columns


def reference_samples(
    program: Program, joint: int, pose: Array, columns: Array, count: int = REFERENCE_SAMPLES
) -> tuple[dict[str, Array], ...]:
    """Return random samples with the torques that the NumPy recursions give, to check generated code with."""
    robot = program.robot
    rng = np.random.default_rng(0)
    tests = []
    positions = reference_positions(robot, rng, count)
    for q in positions:
        dq, ddq = (rng.uniform(-2.0, 2.0, len(robot.active)) for _ in range(2))
        load = rng.uniform(0.0, 1.0, len(LINK)) if program.load else np.zeros(0)
        wrench = rng.uniform(-10.0, 10.0, 6) if program.wrench else np.zeros(6)
        temperature = rng.uniform(10.0, 70.0, len(robot.active)) if program.thermal else np.zeros(len(robot.active))
        if program.real == "float":  # the reference is for what the generated code is given
            inputs = (q, dq, ddq, load, wrench, temperature)
            q, dq, ddq, load, wrench, temperature = (x.astype(np.float32).astype(float) for x in inputs)
        chi = columns @ np.concatenate((program.values, load))
        row = q[None], dq[None], ddq[None]
        still = np.zeros_like(row[0])
        contact = contact_torque(robot, q, wrench, joint, pose)
        rigid = frictionless(robot, chi)
        gear_torque = inverse_dynamics(*rigid, *row)[0] - contact  # by the gears: links, rotors and the wrench
        plain = replace(robot, friction=())
        friction = inverse_dynamics(plain, chi, *row)[0] - inverse_dynamics(*rigid, *row)[0]
        friction = friction + terms_torque(robot, dq, np.sign(dq), gear_torque, temperature)
        steady = inverse_dynamics(*(rigid if robot.friction else (robot, chi)), q[None], dq[None], still)[0]
        test = {
            JOINTS: motion_of(robot, q[None]).q[:, 0],
            "q": q,
            "dq": dq,
            "ddq": ddq,
            "tau": gear_torque + friction,
            "carried": gear_torque,
            "F": friction,
            "M": inertia_matrix(robot, chi, q[None])[0],
            "Q": gravity_torque(robot, chi, q[None])[0],
            "C": steady - gravity_torque(robot, chi, q[None])[0],
            "wrench": wrench,
            "load": load,
            "temperature": temperature,
        }
        tests.append(test)
    return tuple(tests)


def reference_positions(robot: Robot, rng: np.random.Generator, count: int, span: float = 2.0) -> Array:
    """Return random positions of the active joints, shape (count, n_active); with closed loops near the assembly."""
    if robot.loops is None:
        return rng.uniform(-span, span, (count, len(robot.active)))
    q = random_positions(robot, rng, 8 * count, NEAR_ASSEMBLY)
    middle = np.array([robot.loops.assembly.get(j, 0.0) for j in robot.active])
    q = q[np.argsort(np.abs(q - middle).max(axis=1))]
    G, offset = linear_constraint(robot)
    alone = [row for row in q if np.isfinite(close_loops(robot, (G @ row + offset)[:, None])).all()]
    return np.array(alone[:count])


def contact_torque(robot: Robot, q: Array, wrench: Array, joint: int, pose: Array) -> Array:
    """Return J^T w [N.m, N], shape (n_active,), of the wrench on the tool with pose (4, 4) in the frame of `joint`."""
    T = frames(robot, q[None])[0]
    tool = T[joint - 1] @ pose
    force, moment = tool[:3, :3] @ wrench[:3], tool[:3, :3] @ wrench[3:]
    tau = np.zeros(robot.n)
    i = joint
    while i:
        axis, origin = T[i - 1, :3, 2], T[i - 1, :3, 3]
        if robot.joints[i - 1].sigma == PRISMATIC:
            tau[i - 1] = axis @ force
        else:
            tau[i - 1] = axis @ (moment + np.cross(tool[:3, 3] - origin, force))
        i = robot.joints[i - 1].parent
    return np.asarray(velocity_ratios(robot, q[None])[0].T @ tau)
