# SPDX-License-Identifier: Apache-2.0

"""Close loops in generated code: bounded in time, from closed positions to near ones, and no result where in doubt.

From the closed positions of an earlier call the joints go to those asked for in steps; after each, Newton's method
moves the passive joints. A step that does not close, comes near a singular pose or moves a passive joint far is halved,
so the linkage stays on its branch of assembly. After `MAX_POSES` poses there is no result.
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.codegen.dyads import find_dyads
from ros2_dynid.codegen.graph import Graph
from ros2_dynid.codegen.loop_expressions import JOINTS, MIN_PIVOT, Closure, closure, loop_motion_expressions
from ros2_dynid.codegen.text import Statement, code_of, number
from ros2_dynid.dynamics.kinematics import linear_constraint, motion_of
from ros2_dynid.dynamics.loops import CLOSED, loop_size
from ros2_dynid.model.robot import PRISMATIC, Array, Loops, Robot

STEP = 0.1
"""Way of an active joint from one pose to the next [rad; in lengths of the loop for prismatic ones]."""
MAX_MOVE = 0.2
"""Way of a passive joint from one pose to the next: another branch is farther, unless the pose is nearly singular."""
TRIANGLE_STEP, MAX_TURN = 0.5, 2.0
"""The same of loops in closed form: less than half a turn, so that angles are counted through full turns."""
MAX_POSES = 256
"""Poses tried in one call: two turns, or one call of bounded time at the next sample, which needs one."""
CORRECTIONS = 6
"""Of Newton's method at each pose: from 0.1 rad three or four are enough."""
_C_STYLE = {"sin": "sin({x})", "cos": "cos({x})", "inverse": "(1.0 / ({x}))"}
_NUMPY_STYLE = {"sin": "np.sin({x})", "cos": "np.cos({x})", "inverse": "(1.0 / ({x}))"}


def loops_of(robot: Robot) -> Loops:
    """Return the loops of a robot that has some."""
    assert robot.loops is not None
    return robot.loops


def assembled(robot: Robot) -> Array:
    """Return closed positions of all joints, shape (n,), at the pose of assembly."""
    start = [[loops_of(robot).assembly.get(j, 0.0) for j in robot.active]]
    return np.asarray(motion_of(robot, start).q[:, 0])


def _units(robot: Robot) -> list[float]:
    """Return what each joint's way is measured in: 1 rad, or a length of the loop [m]."""
    return [loop_size(robot) if joint.sigma == PRISMATIC else 1.0 for joint in robot.joints]


def _goals(robot: Robot, element: str) -> list[tuple[int, str]]:
    """Return for each joint that no loop determines its index and its position in terms of the active ones."""
    G, offset = linear_constraint(robot)
    goals = []
    for j in range(robot.n):
        if j + 1 in loops_of(robot).passive:
            continue
        terms = [f"{number(float(c))} * {element.format(k=k)}" for k, c in enumerate(G[j]) if c]
        if j + 1 in robot.active:
            terms = [element.format(k=robot.active.index(j + 1))]
        goals.append((j, " + ".join([*terms, *([number(float(offset[j]))] if offset[j] else [])]) or "0.0"))
    return goals


def _step_statements(robot: Robot, style: dict[str, str], outputs: str) -> tuple[list[Statement], Closure]:
    """Return the statements of Newton's step, outputs written as `outputs` with {array} and {k}."""
    graph = Graph()
    result = closure(graph, robot)
    arrays = {"step": result.step, "gap": result.gap, "pivot": result.pivots}
    targets = [(outputs.format(array=a, k=k), expr) for a, values in arrays.items() for k, expr in enumerate(values)]
    code = code_of(graph, targets, functions=style)
    assert not code.constants
    return [*code.statements, *code.outputs], result


def ratios_in_c(robot: Robot, name: str, qualifier: str) -> list[str]:
    """Return the C function `name(const double *joints, double *G)`: dq/dq_active, row by row, at closed positions."""
    graph = Graph()
    G = [x for row in loop_motion_expressions(graph, robot).G for x in row]
    code = code_of(graph, [(f"G[{k}]", x) for k, x in enumerate(G)], functions=_C_STYLE)
    return [
        f"{qualifier}void {name}(const double *{JOINTS}, double *G)",
        "{",
        *(f"    const double {s.name} = {s.text};" for s in code.statements),
        *(f"    {s.name} = {s.text};" for s in code.outputs),
        "}",
        "",
    ]


def _triangles_in_c(robot: Robot, name: str) -> list[str]:
    """Return the C function that puts the passive joints where triangles close; nothing if there are other loops."""
    graph = Graph()
    dyads = find_dyads(graph, robot, assembled(robot))
    lines = []
    size = number(loop_size(robot))
    for dyad in dyads:
        targets = [
            (f"{array}[{k}]", x)
            for array, v in (("a", dyad.a), ("b", dyad.second), ("d", dyad.D))
            for k, x in enumerate(v)
        ]
        code = code_of(graph, targets, functions=_C_STYLE)
        first, second = (j - 1 for j in dyad.joints)
        one, two = (number(turn) for turn in dyad.turns)
        lines += [
            "    {",
            "        double a[2], b[2], d[2], u[2], root, turn;",
            *(f"        const double {s.name} = {s.text};" for s in code.statements),
            *(f"        {s.name} = {s.text};" for s in code.outputs),
        ]
        if dyad.slides:
            # |a| = |D + s z|, or |D| = |a + s z| where the slide turns with the first joint
            fixed, turned = ("a", "d") if dyad.serial else ("d", "a")
            angle = "u[0] * d[1] - u[1] * d[0], u[0] * d[0] + u[1] * d[1]"
            if not dyad.serial:
                angle = "a[0] * u[1] - a[1] * u[0], a[0] * u[0] + a[1] * u[1]"
            lines += [
                f"        turn = {fixed}[0] * b[0] + {fixed}[1] * b[1];",
                f"        root = turn * turn - ({fixed}[0] * {fixed}[0] + {fixed}[1] * {fixed}[1]);",
                f"        root += {turned}[0] * {turned}[0] + {turned}[1] * {turned}[1];",
                "        if (!(root > 0.0))",
                "            return 0;",
                f"        root = {number(dyad.branch)} * sqrt(root) - turn;",
                f"        u[0] = {fixed}[0] + root * b[0];",
                f"        u[1] = {fixed}[1] + root * b[1];",
                f"        {JOINTS}[{second}] = {size} * root;",
                f"        turn = atan2({angle});",
            ]
        else:
            less = " - turn" if dyad.serial else ""
            other = f"{two} * (atan2(b[0] * root - b[1] * u[0], b[0] * u[0] + b[1] * root){less})"
            lines += [
                "        {",
                "            const double dd = d[0] * d[0] + d[1] * d[1], aa = a[0] * a[0] + a[1] * a[1];",
                "            const double p = 0.5 * (dd + aa - (b[0] * b[0] + b[1] * b[1]));",
                "            root = dd * aa - p * p;",
                "            if (!(root > 0.0))",
                "                return 0;",
                f"            root = {number(dyad.branch)} * sqrt(root);",
                "            u[0] = (p * d[0] - root * d[1]) / dd;",
                "            u[1] = (p * d[1] + root * d[0]) / dd;",
                "        }",
                "        turn = atan2(a[0] * u[1] - a[1] * u[0], a[0] * u[0] + a[1] * u[1]);",
                "        u[0] = d[0] - u[0];",
                "        root = d[1] - u[1];",
                f"        {JOINTS}[{second}] = {name}_near({JOINTS}[{second}], {other});",
            ]
        lines += [f"        {JOINTS}[{first}] = {name}_near({JOINTS}[{first}], {one} * turn);", "    }"]
    if not dyads:
        return []
    return [
        "/* The angle, less any number of turns, that is nearest to the one before. */",
        f"static double {name}_near(double before, double angle)",
        "{",
        "    const double turn = 6.283185307179586;",
        "    return angle + turn * floor((before - angle) / turn + 0.5);",
        "}",
        "",
        "/* Put the passive joints where the triangles of the loops close, on the branch of assembly; or return 0. */",
        f"static int {name}_triangles(double *{JOINTS})",
        "{",
        *lines,
        "    return 1;",
        "}",
        "",
    ]


def close_in_c(robot: Robot, name: str, qualifier: str) -> list[str]:
    """Return the C function `int name(const double *q, double *joints)` and the static ones that it calls.

    Loops that are triangles are solved in closed form, and one step of Newton's method checks them.
    """
    triangles = _triangles_in_c(robot, name)
    statements, result = _step_statements(robot, _C_STYLE, "{array}[{k}]")
    passive = [j - 1 for j in loops_of(robot).passive]
    P, R = len(passive), len(result.gap)
    body = [
        f"    {s.name} = {s.text};" if "[" in s.name else f"    const double {s.name} = {s.text};" for s in statements
    ]
    return [
        "/* What Newton's method takes off the passive joints, the gaps of the loops, and how regular the pose is. */",
        f"static void {name}_step(const double *{JOINTS}, double *step, double *gap, double *pivot)",
        "{",
        *body,
        "}",
        "",
        "/* Move the passive joints until the loops close; return whether they do, in a pose that is not singular. */",
        f"static int {name}_pose(double *{JOINTS})",
        "{",
        f"    static const int passive[{P}] = {{{', '.join(map(str, passive))}}};",
        f"    double step[{P}], gap[{R}], pivot[{P}];",
        "    int i, k, closed;",
        f"    for (k = 0; k <= {CORRECTIONS}; ++k) {{",
        "        double least, most;",
        f"        {name}_step({JOINTS}, step, gap, pivot);",
        "        least = most = pivot[0];",
        f"        for (i = 1; i < {P}; ++i) {{",
        "            least = pivot[i] < least ? pivot[i] : least;",
        "            most = pivot[i] > most ? pivot[i] : most;",
        "        }",
        f"        closed = least > {MIN_PIVOT!r} * most;",
        "        if (!closed)",
        "            return 0;",
        f"        for (i = 0; i < {R}; ++i)",
        f"            closed = closed && fabs(gap[i]) <= {CLOSED!r};",
        f"        for (i = 0; i < {P}; ++i) {{",
        f"            {JOINTS}[passive[i]] -= step[i];",
        f"            closed = closed && fabs(step[i]) <= {MAX_MOVE!r};",
        "        }",
        "        if (closed)",
        "            return 1;",
        "    }",
        "    return 0;",
        "}",
        "",
        *triangles,
        *_follow_in_c(robot, name, qualifier, triangles=bool(triangles)),
    ]


def _follow_in_c(robot: Robot, name: str, qualifier: str, *, triangles: bool) -> list[str]:
    """Return the function that follows loops from the positions of the call before."""
    step, max_move = (TRIANGLE_STEP, MAX_TURN) if triangles else (STEP, MAX_MOVE)
    close_pose = f"{name}_triangles(next) && {name}_pose(next)" if triangles else f"{name}_pose(next)"
    n, goals, units = robot.n, _goals(robot, "q[{k}]"), ", ".join(number(x) for x in _units(robot))
    passive = [j - 1 for j in loops_of(robot).passive]
    return [
        f"{qualifier}int {name}(const double *q, double *{JOINTS})",
        "{",
        f"    static const double unit[{n}] = {{{units}}};",
        f"    double goal[{n}], now[{n}], next[{n}], way = 0.0, part = 0.0, step, longest;",
        "    int j, k, good;",
        f"    for (j = 0; j < {n}; ++j)",
        f"        goal[j] = now[j] = {JOINTS}[j];",
        *(f"    goal[{j}] = {text};" for j, text in goals),
        f"    for (j = 0; j < {n}; ++j) {{",
        f"        const double length = fabs(goal[j] - {JOINTS}[j]) / unit[j];",
        f"        if (!(length <= {MAX_POSES * STEP!r}))",
        "            return 0; /* too far, or not a number */",
        "        way = length > way ? length : way;",
        "    }",
        f"    step = longest = way > {step!r} ? {step!r} / way : 1.0;",
        f"    for (k = 0; k < {MAX_POSES}; ++k) {{",
        "        const double at = part + step < 1.0 ? part + step : 1.0;",
        f"        for (j = 0; j < {n}; ++j)",
        "            next[j] = now[j];",
        *(
            f"        next[{j}] = at < 1.0 ? {JOINTS}[{j}] + at * (goal[{j}] - {JOINTS}[{j}]) : goal[{j}];"
            for j, _ in goals
        ),
        f"        good = {close_pose};",
        *(f"        good = good && fabs(next[{j}] - now[{j}]) <= {max_move!r} * unit[{j}];" for j in passive),
        "        if (!good) {",
        "            step *= 0.5;",
        "            continue;",
        "        }",
        f"        for (j = 0; j < {n}; ++j)",
        "            now[j] = next[j];",
        "        part = at;",
        "        step = 2.0 * step < longest ? 2.0 * step : longest;",
        "        if (part >= 1.0) {",
        f"            for (j = 0; j < {n}; ++j)",
        f"                {JOINTS}[j] = now[j];",
        "            return 1;",
        "        }",
        "    }",
        "    return 0;",
        "}",
        "",
    ]


def close_in_numpy(robot: Robot) -> list[str]:
    """Return the Python functions of a NumPy module that close the loops: `close(q, joints)` and what it calls."""
    statements, result = _step_statements(robot, _NUMPY_STYLE, "{array}_{k}")
    passive = [j - 1 for j in loops_of(robot).passive]
    arrays = {"step": len(result.step), "gap": len(result.gap), "pivot": len(result.pivots)}
    returned = ", ".join(f"np.array([{', '.join(f'{a}_{k}' for k in range(n))}])" for a, n in arrays.items())
    goals = _goals(robot, "q[{k}]")
    return [
        f"ASSEMBLY = {[float(x) for x in assembled(robot)]}",
        f"UNITS = np.array({_units(robot)})",
        f"PASSIVE = {passive}",
        f"OTHERS = {[j for j, _ in goals]}",
        "",
        "",
        f"def close(q, {JOINTS}=ASSEMBLY):",
        '    """Return closed positions of all joints, shape (N, ' + str(robot.n) + "), for q of shape (N, "
        f"{len(robot.active)}).",
        "",
        "    NaN in samples that the linkage does not reach, or only through a nearly singular pose. Each is reached",
        f"    from the one before, the first from `{JOINTS}`: closed positions of an earlier call.",
        '    """',
        f"    rows, now = [], np.array({JOINTS}, dtype=float)",
        "    for row in np.asarray(q, dtype=float):",
        "        closed = _follow(row, now)",
        "        if closed is None:",
        "            closed = _follow(row, np.array(ASSEMBLY))",
        "        now = now if closed is None else closed",
        "        rows.append(np.full(len(now), np.nan) if closed is None else closed)",
        "    return np.array(rows).reshape(len(rows), len(now))",
        "",
        "",
        f"def _follow(q, {JOINTS}):",
        f"    goal = {JOINTS}.copy()",
        *(f"    goal[{j}] = {text}" for j, text in goals),
        f"    way = np.max(np.abs(goal - {JOINTS}) / UNITS)",
        f"    if not way <= {MAX_POSES * STEP!r}:",
        "        return None  # too far, or not a number",
        f"    step = longest = {STEP!r} / way if way > {STEP!r} else 1.0",
        f"    part, now = 0.0, {JOINTS}",
        f"    for _ in range({MAX_POSES}):",
        "        at = min(part + step, 1.0)",
        "        pose = now.copy()",
        f"        pose[OTHERS] = ({JOINTS} + at * (goal - {JOINTS}) if at < 1.0 else goal)[OTHERS]",
        f"        if _close_pose(pose) and np.all(np.abs(pose - now)[PASSIVE] <= {MAX_MOVE!r} * UNITS[PASSIVE]):",
        "            part, now, step = at, pose, min(2.0 * step, longest)",
        "            if part >= 1.0:",
        "                return now",
        "        else:",
        "            step *= 0.5",
        "    return None",
        "",
        "",
        f"def _close_pose({JOINTS}):",
        f"    for _ in range({CORRECTIONS + 1}):",
        '        with np.errstate(all="ignore"):',
        f"            step, gap, pivots = _newton({JOINTS})",
        f"        if not pivots.min() > {MIN_PIVOT!r} * pivots.max():",
        "            return False",
        f"        {JOINTS}[PASSIVE] -= step",
        f"        if np.all(np.abs(gap) <= {CLOSED!r}) and np.all(np.abs(step) <= {MAX_MOVE!r}):",
        "            return True",
        "    return False",
        "",
        "",
        f"def _newton({JOINTS}):",
        *(f"    {s.name} = {s.text}" for s in statements),
        f"    return {returned}",
        "",
    ]
