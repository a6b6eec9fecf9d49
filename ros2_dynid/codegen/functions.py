# SPDX-License-Identifier: Apache-2.0

"""The functions that are generated for a robot, as expressions of q, dq, ddq and the slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.composite import composite_coefficients
from ros2_dynid.codegen.elastic_expressions import elastic_torques
from ros2_dynid.codegen.graph import ABS, GAUSS, ROOT, Expr, Graph
from ros2_dynid.codegen.loop_expressions import JOINTS, closure, loop_motion_expressions
from ros2_dynid.codegen.newton_euler_expressions import (
    LINK_SLOTS,
    Link,
    RecursionInputs,
    RecursionPlan,
    Vector,
    expression_frames,
    joint_forces,
    motions,
)
from ros2_dynid.codegen.representation import Slot
from ros2_dynid.dynamics.friction import active_terms
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

Slots = Mapping[Slot, Expr]
Builder = Callable[[Graph, Robot, Slots, RecursionPlan], list[Expr]]
"""Makes the outputs of a function from the slots that are not zero, in the order the generated code returns them."""


def torque(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return tau(q, dq, ddq) of the active joints, friction and rotors included, n_active outputs."""
    recursion, links = recursion_with_links(graph, robot, plan, "q dq ddq g")
    tau = joint_forces(recursion, links, _by_link(robot, slots))
    return _complete(graph, robot, slots, plan, tau)


def _complete(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan, tau: list[Expr]) -> list[Expr]:
    """Return the torque of the active joints from the links' torques: drives, friction and its further terms."""
    parts = "q dq ddq g"
    total = to_active(graph, robot, _drives(graph, robot, slots, plan, tau, parts))
    if not robot.friction:
        return total
    rigid, _ = _split(slots)
    gear_torque = to_active(graph, robot, _drives(graph, robot, rigid, plan, tau, parts))
    return _with_terms(graph, robot, total, gear_torque)


def _split(slots: Slots) -> tuple[Slots, Slots]:
    """Return the slots of links and rotors, and those of friction and offsets."""
    friction_kinds = ("Fv", "Fc", "off", "Fvm", "Fcm")
    rigid = {slot: value for slot, value in slots.items() if slot[0] not in friction_kinds}
    return rigid, {slot: value for slot, value in slots.items() if slot[0] in friction_kinds}


def _with_terms(graph: Graph, robot: Robot, tau: list[Expr], gear_torque: Sequence[Expr]) -> list[Expr]:
    """Return torques of the active joints with the robot's friction terms, for gears that carry `carried`."""
    total = list(tau)
    for k, term in active_terms(robot, robot.friction):
        total[k] = total[k] + graph.number(term.coefficient) * term.kind.column(
            GraphSymbols(graph, term, k, gear_torque[k])
        )
    return total


def friction(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return friction and offsets F(dq, carried), terms included, for gears that carry `carried` = M ddq + C + Q."""
    _, friction_slots = _split(slots)
    plain = to_active(graph, robot, _drives(graph, robot, friction_slots, plan, [graph.zero] * robot.n, "q dq"))
    return _with_terms(graph, robot, plain, [graph.variable("carried", k) for k in range(len(plain))])


@dataclass(frozen=True, eq=False)
class GraphSymbols:
    """The motion of the active joint at place k as expressions (model/friction_kinds.py); carried: by its gear."""

    graph: Graph
    term: FrictionTerm
    k: int
    gear_torque: Expr

    @property
    def v(self) -> Expr:
        """Its speed, held at the fastest one that the term was identified from: clip(v) = (|v + c| - |v - c|) / 2."""
        v, fastest = self.graph.variable("dq", self.k), self.term.recorded_speed
        if fastest == 0.0 or self.term.kind.thermal:
            return v
        c = self.graph.number(fastest)
        return self.graph.number(0.5) * (self.graph.even(ABS, v + c) - self.graph.even(ABS, v - c))

    @property
    def sign(self) -> Expr:
        """The sign of its speed."""
        return self.graph.sign(self.graph.variable("dq", self.k))

    @property
    def load(self) -> Expr:
        """The size of the torque that its gear carries."""
        return self.graph.even(ABS, self.gear_torque)

    @property
    def warmth(self) -> Expr:
        """Its drive's temperature above the term's reference."""
        return self.graph.variable("temperature", self.k) - self.graph.number(self.term.reference)

    @property
    def shape(self) -> float:
        """The term's own."""
        return self.term.shape

    def absolute(self, x: Expr) -> Expr:
        """Return |x|."""
        return self.graph.even(ABS, x)

    def root(self, x: Expr) -> Expr:
        """Return sqrt(|x|)."""
        return self.graph.even(ROOT, x)

    def gauss(self, x: Expr, width: float) -> Expr:
        """Return exp(-(x / width)^2)."""
        return self.graph.even(GAUSS, self.graph.number(1.0 / width) * x)

    def power(self, x: Expr, exponent: float) -> Expr:
        """Return |x|^exponent."""
        return self.graph.power(x, exponent)


def torque_with_wrench(joint: int, tool: Array) -> Builder:
    """Return the builder of tau(q, dq, ddq, wrench) for a tool with pose `tool` (4, 4) in the frame of `joint`.

    wrench: force [N] and moment [N.m] that the environment exerts on the tool, about its origin and in its axes.
    """

    def build(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
        recursion, links = recursion_with_links(graph, robot, plan, "q dq ddq g")
        R = [[graph.number(_snap_to_integer(x)) for x in row] for row in tool[:3, :3]]
        p = [graph.number(float(x)) for x in tool[:3, 3]]
        wrench = [graph.variable("wrench", k) for k in range(6)]
        f = [graph.sum(a * b for a, b in zip(row, wrench[:3], strict=True)) for row in R]
        n = [graph.sum(a * b for a, b in zip(row, wrench[3:], strict=True)) for row in R]
        n = [
            n[0] + p[1] * f[2] - p[2] * f[1],
            n[1] + p[2] * f[0] - p[0] * f[2],
            n[2] + p[0] * f[1] - p[1] * f[0],
        ]
        unit = graph.number(plan.unit)  # the recursion's forces are N times its unit of length
        tau = joint_forces(recursion, links, _by_link(robot, slots), (joint, [unit * x for x in f], n))
        return _complete(graph, robot, slots, plan, tau)

    return build


def _snap_to_integer(x: float) -> float:
    return float(round(x)) if abs(x - round(x)) < 1e-15 else float(x)


def velocity_torques(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return C(q, dq), with friction and offsets if they are among the slots: all but acceleration and gravity.

    Friction with further terms depends on the accelerations as well, and has a function of its own.
    """
    slots = _split(slots)[0] if robot.friction else slots
    recursion, links = recursion_with_links(graph, robot, plan, "q dq")
    tau = joint_forces(recursion, links, _by_link(robot, slots))
    return to_active(graph, robot, _drives(graph, robot, slots, plan, tau, "q dq"))


def inertia_gravity(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return the inertia matrix M(q), n_active x n_active row by row, then the gravity torques Q(q)."""
    recursion = _recursion(graph, robot, plan, "q g")
    M, Q = composite_coefficients(recursion, _by_link(robot, slots))
    n = robot.n
    for j, joint in enumerate(robot.joints):
        if joint.sigma == PRISMATIC:  # generalised force and motion of joint j are in the plan's unit of length
            scale = graph.number(1.0 / plan.unit)
            Q[j] = scale * Q[j]
            for i in range(n):
                M[i][j] = scale * M[i][j]
                M[j][i] = M[i][j] if i != j else scale * M[j][j]
    if robot.forces:
        elastic = elastic_torques(graph, robot, recursion.frames, joint_values(graph, robot, "q"), plan.unit, slots)
        Q = [a + b for a, b in zip(Q, elastic, strict=True)]
    for j in range(n):
        M[j][j] = M[j][j] + slots.get(("Ia", j + 1), graph.zero)
    for coupling in robot.coupling:
        inertia = slots.get(("Iam" if coupling.independent_inertia else "Ia", coupling.motor), graph.zero)
        for j, cj in coupling.weights.items():
            for k, ck in coupling.weights.items():
                if j != k:
                    M[j - 1][k - 1] = M[j - 1][k - 1] + graph.number(cj * ck) * inertia
    if robot.passive_joints:
        columns = [*zip(*(to_active(graph, robot, row) for row in M), strict=True)]  # M G, by columns
        rows = [to_active(graph, robot, list(column)) for column in columns]
        M = [list(row) for row in zip(*rows, strict=True)]
        Q = to_active(graph, robot, Q)
    return [entry for row in M for entry in row] + Q


def synchronous(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return tau = M ddq + h with M and h from the background: n multiplications and n additions a joint."""
    n = len(robot.active)
    tau = []
    for i in range(n):
        total = graph.variable("h", i)
        for k in range(n):
            total = total + graph.variable("M", n * i + k) * graph.variable("ddq", k)
        tau.append(total)
    return tau


def _by_link(robot: Robot, slots: Slots) -> list[Mapping[str, Expr]]:
    return [
        {kind: slots[kind, j] for kind in LINK_SLOTS if (kind, j) in slots and not slots[kind, j].is_zero}
        for j in range(1, robot.n + 1)
    ]


def recursion_with_links(
    graph: Graph, robot: Robot, plan: RecursionPlan, parts: str
) -> tuple[RecursionInputs, list[Link]]:
    """Return the recursion and the motion of its links, made once for a graph: they do not depend on the slots."""
    key = (id(robot), plan, parts)
    if key not in graph.memo:
        recursion = _recursion(graph, robot, plan, parts)
        graph.memo[key] = recursion, motions(recursion)
    return graph.memo[key]  # type: ignore[return-value]


def _recursion(graph: Graph, robot: Robot, plan: RecursionPlan, parts: str) -> RecursionInputs:
    """Return the recursion with the motion in `parts` ("q", "dq", "ddq", "g" for gravity); the rest is zero."""
    have = parts.split()
    still = [graph.zero] * robot.n
    q, dq = (joint_values(graph, robot, name) if name in have else list(still) for name in ("q", "dq"))
    ddq = _accelerations(graph, robot, have)
    scale = graph.number(1.0 / plan.unit)
    for j, joint in enumerate(robot.joints):
        if joint.sigma == PRISMATIC:
            q[j], dq[j], ddq[j] = scale * q[j], scale * dq[j], scale * ddq[j]
    gravity = np.zeros(3)
    if "g" in have:
        gravity = -robot.base[:3, :3].T @ robot.gravity / plan.unit
        gravity[np.abs(gravity) < 1e-15 * np.abs(gravity).max()] = 0.0
    angles = [(q[j], joint.theta, joint.gamma) for j, joint in enumerate(robot.joints)]
    return RecursionInputs(
        graph,
        expression_frames(graph, robot, q, plan.unit),
        angles,
        dq,
        ddq,
        [graph.number(float(g)) for g in gravity],
        plan,
    )


def _accelerations(graph: Graph, robot: Robot, have: Sequence[str]) -> Vector:
    """Return the accelerations of all joints for the motion in `have`."""
    array = "ddq" if "ddq" in have else "bias" if "dq" in have else None
    return [graph.zero] * robot.n if array is None else joint_values(graph, robot, array)


def joint_values(graph: Graph, robot: Robot, array: str) -> Vector:
    """Return positions ("q"), velocities ("dq") or accelerations ("ddq") of all joints from those of the active ones.

    "bias": dG/dt dq, a part of the accelerations. With closed loops the positions are an input of their own.
    """
    n_active = len(robot.active)
    if robot.loops is not None and array == "q":
        return [graph.variable(JOINTS, j) for j in range(robot.n)]
    if array == "bias":
        return [graph.zero] * robot.n if robot.loops is None else list(loop_motion_expressions(graph, robot).bias)
    active = [graph.variable(array, k) for k in range(n_active)]
    if not robot.passive_joints:
        return active
    joints = [_product(graph, row, active) for row in _jacobian(graph, robot)]
    offset = joint_values(graph, robot, "bias") if array == "ddq" else [graph.zero] * robot.n
    if array == "q":
        offset = [graph.number(float(b)) for b in constraint(robot)[1]]
    return [x + b for x, b in zip(joints, offset, strict=True)]


def _jacobian(graph: Graph, robot: Robot) -> list[Vector]:
    """Return G with dq = G dq_a, n rows of n_active."""
    if robot.loops is not None:
        return loop_motion_expressions(graph, robot).G
    return [[graph.number(float(c)) for c in row] for row in constraint(robot)[0]]


def _product(graph: Graph, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    return graph.sum(x * y for x, y in zip(a, b, strict=True))


def to_active(graph: Graph, robot: Robot, tau: list[Expr]) -> list[Expr]:
    """Return G^T tau of the active joints."""
    if not robot.passive_joints:
        return tau
    return [_product(graph, column, tau) for column in zip(*_jacobian(graph, robot), strict=True)]


def loop_closure(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan) -> list[Expr]:
    """Return Newton's step of the loops' passive joints at `joints`, the gaps, and the pivots of its equations."""
    outputs = closure(graph, robot)
    return [*outputs.step, *outputs.gap, *outputs.pivots]


def _drives(graph: Graph, robot: Robot, slots: Slots, plan: RecursionPlan, tau: list[Expr], parts: str) -> list[Expr]:
    """Return tau, forces in N again, with rotors, couplings, friction and offset added."""
    zero = graph.zero
    have = parts.split()
    dq = joint_values(graph, robot, "dq")
    ddq = _accelerations(graph, robot, have)
    result = []
    for j, joint in enumerate(robot.joints):
        total = graph.number(1.0 / plan.unit) * tau[j] if joint.sigma == PRISMATIC else tau[j]
        Ia, Fv, Fc, off = (slots.get((kind, j + 1), zero) for kind in ("Ia", "Fv", "Fc", "off"))
        total = total + Ia * ddq[j] + Fv * dq[j] + off
        if not Fc.is_zero:
            total = total + Fc * graph.sign(dq[j])
        result.append(total)
    for coupling in robot.coupling:
        k = coupling.motor
        inertia = slots.get(("Iam" if coupling.independent_inertia else "Ia", k), zero)
        Fvm, Fcm = slots.get(("Fvm", k), zero), slots.get(("Fcm", k), zero)
        speed = graph.sum(graph.number(c) * dq[j - 1] for j, c in coupling.weights.items())
        for j, c in coupling.weights.items():
            others = {m: w for m, w in coupling.weights.items() if m != j}
            weight = graph.number(c)
            acceleration = graph.sum(graph.number(w) * ddq[m - 1] for m, w in others.items())
            velocity = graph.sum(graph.number(w) * dq[m - 1] for m, w in others.items())
            total = result[j - 1] + (weight * inertia) * acceleration + (weight * Fvm) * velocity
            if not Fcm.is_zero:
                total = total + (weight * Fcm) * graph.sign(speed)
            result[j - 1] = total
    if robot.forces and "g" in have:
        frames = recursion_with_links(graph, robot, plan, parts)[0].frames
        elastic = elastic_torques(graph, robot, frames, joint_values(graph, robot, "q"), plan.unit, slots)
        result = [a + b for a, b in zip(result, elastic, strict=True)]
    return result
