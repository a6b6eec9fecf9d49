# SPDX-License-Identifier: Apache-2.0

"""The search for few operations: over equal constants and over equal forms of the recursion, by counting.

Every candidate is built and counted, so a choice is kept only if it pays. The number of candidates is bounded and
nothing depends on the time or on chance: the same robot gives the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.functions import Builder
from ros2_dynid.codegen.graph import Count, Expr, Graph, factorise
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan
from ros2_dynid.codegen.representation import MAX_GROWTH, Slot, Space, eliminate_slot, represent
from ros2_dynid.model.forces import SYMBOLS
from ros2_dynid.model.robot import REVOLUTE, Array, Robot

_COST = {"Ia": 2, "M": 6, "E11": 8, "E22": 8, "E12": 10, "E13": 10, "E23": 10, "MX": 16, "MY": 16, "MZ": 17, "E33": 18}
_COST |= dict.fromkeys(SYMBOLS, 100)
"""What a slot costs, roughly, to start from; the counts decide."""
_POWER = {"M": 2, "MX": 1, "MY": 1, "MZ": 1}
"""Powers of the unit of length that a constant carries."""
EFFORT = 60
"""Candidates counted for a function; more find little more."""


@dataclass(frozen=True, eq=False)
class Generated:
    """A function ready to emit: its graph and outputs, and constants = rows @ parameters by name."""

    graph: Graph
    outputs: list[Expr]
    constants: tuple[str, ...]
    rows: Array
    plan: RecursionPlan

    @property
    def count(self) -> Count:
        """Operations at every call."""
        return self.graph.count(self.outputs)


def constants_of(
    robot: Robot, space: Space, X: Array, plan: RecursionPlan
) -> tuple[list[tuple[Slot, str, int]], list[Array]]:
    """Return (slot, constant's name, sign) for the slots that are not zero, and the rows of the distinct constants.

    First moments and masses are in the plan's unit of length. Slots that are equal up to the sign share a constant.
    """
    used: list[tuple[Slot, str, int]] = []
    rows: list[Array] = []
    names: dict[bytes, str] = {}
    support = np.flatnonzero(X.any(axis=1))
    power = np.array([_POWER.get(space.slots[k][0], 0) for k in support])
    rows_in_unit = X[support] * (plan.unit**power)[:, None]
    first = np.argmax(rows_in_unit != 0.0, axis=1)
    signs = np.sign(rows_in_unit[np.arange(len(support)), first]).astype(int)
    # equal up to rounding: twelve digits of the largest entry (+ 0.0 turns -0.0 into 0.0)
    digits = np.round(rows_in_unit * signs[:, None] / np.abs(rows_in_unit).max(initial=1e-300), 12) + 0.0
    for k, row, sign, key in zip(support, rows_in_unit, signs, digits, strict=True):
        slot = space.slots[k]
        name = names.get(key.tobytes())
        if name is None:
            name = names[key.tobytes()] = f"{slot[0]}_{slot[1]}"
            rows.append(sign * row)
        used.append((slot, name, int(sign)))
    return used, rows


def _build(
    builder: Builder, robot: Robot, space: Space, X: Array, plan: RecursionPlan, graph: Graph
) -> tuple[list[Expr], list[Array]]:
    used, rows = constants_of(robot, space, X, plan)
    slots = {}
    for slot, name, sign in used:
        constant = graph.parameter(name)
        slots[slot] = constant if sign > 0 else -constant
    return builder(graph, robot, slots, plan), rows


def starting_constants(space: Space, columns: Array) -> Array:
    """Return X, slots = X parameters, with the slots that usually cost least.

    columns: standard parameters for a unit of each parameter of the function, shape (n_standard, P).
    """
    # of equal slots the outermost: it has no links to carry the constants through
    cost = np.array([_COST.get(kind, 0.0) - 1e-3 * number for kind, number in space.slots])
    return represent(space, columns, cost)


def generate(builder: Builder, robot: Robot, space: Space, X: Array, effort: int = EFFORT) -> Generated:
    """Return the function of `builder` with as few operations as `effort` candidates find, from the constants X on."""
    plan = RecursionPlan()
    budget = effort
    graphs: dict[RecursionPlan, Graph] = {}  # the motion part of a plan is built once

    def cost(X: Array, plan: RecursionPlan) -> tuple[int, int]:
        nonlocal budget
        budget -= 1
        graph = graphs.setdefault(plan, Graph())
        outputs, _ = _build(builder, robot, space, X, plan, graph)
        count = graph.count(outputs)
        return count.total, count.multiplications

    best = cost(X, plan)
    improved = True
    while improved and budget > 0:
        improved = False
        for step in _steps(robot):
            candidate = _apply_step(plan, step)
            if candidate == plan or budget <= 0:
                continue
            now = cost(X, candidate)
            if now < best:
                best, plan, improved = now, candidate, True
        for v in space.null:
            for k in np.flatnonzero(v):
                other = _try_exchange(X, v, int(k))
                if other is None or budget <= 0:
                    continue
                now = cost(other, plan)
                if now < best:
                    best, X, improved = now, other, True
    graph = Graph()
    outputs, rows = _build(builder, robot, space, X, plan, graph)
    outputs = factorise(graph, outputs)
    used, _ = constants_of(robot, space, X, plan)
    names = tuple(dict.fromkeys(name for _, name, _ in used))
    return Generated(graph, outputs, names, np.array(rows).reshape(len(rows), X.shape[1]), plan)


def _steps(robot: Robot) -> Iterator[RecursionPlan]:
    """Yield what a plan can be changed by: another unit of length, or choices to turn on or off."""
    lengths = {abs(x) for joint in robot.joints for x in (joint.d, joint.r, joint.b)}
    lengths |= {1.0, float(np.linalg.norm(robot.gravity))}
    for unit in sorted(x for x in lengths if x > 1e-3):
        yield RecursionPlan(unit=unit)
    for j, joint in enumerate(robot.joints, start=1):
        if joint.parent and np.sin(joint.alpha) == 0.0 and joint.sigma == REVOLUTE:
            yield RecursionPlan(unit=0.0, combine=frozenset((what, j) for what in "wun"))
            for what in "wuanf":
                yield RecursionPlan(unit=0.0, combine=frozenset({(what, j)}))
        if joint.r or joint.b:
            for what in "an":
                yield RecursionPlan(unit=0.0, child=frozenset({(what, j)}))
        yield RecursionPlan(unit=0.0, squares=frozenset({j}))


def _apply_step(plan: RecursionPlan, step: RecursionPlan) -> RecursionPlan:
    """Return the plan after one step: its unit if it names one, its choices reversed."""
    return RecursionPlan(
        step.unit or plan.unit, plan.combine ^ step.combine, plan.child ^ step.child, plan.squares ^ step.squares
    )


def _try_exchange(X: Array, v: Array, k: int) -> Array | None:
    """Return X after an exchange by the null vector v; None if slot k is not in use or digits would go."""
    if not X[k].any():
        return None
    other = eliminate_slot(X, v, k)
    return other if np.abs(other).max() <= MAX_GROWTH * np.abs(X).max() else None
