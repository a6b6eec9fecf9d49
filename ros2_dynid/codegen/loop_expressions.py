# SPDX-License-Identifier: Apache-2.0

"""Closed loops as expressions of the closed positions of all joints, the input `joints` (dynamics/loops.py).

Phi_p x = b is solved by the normal equations, Phi_p^T Phi_p = L D L^T: no branches, whatever the linkage. That loses
twice the digits that QR does, so poses whose pivots D differ more than `MIN_PIVOT` are refused when loops are closed.
Every loop is written in the frame where its two chains meet, in lengths of the loop: a planar linkage stays planar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ros2_dynid.codegen.graph import Expr, Graph
from ros2_dynid.codegen.newton_euler_expressions import Frame, Vector, expression_frames
from ros2_dynid.dynamics.elastic import paths
from ros2_dynid.dynamics.kinematics import linear_constraint
from ros2_dynid.dynamics.loops import loop_size
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

JOINTS = "joints"
"""The input with closed positions of all joints, passive ones included."""
MIN_PIVOT = 1e-6
"""Smallest pivot of L D L^T over the largest: the passive joints move at most some 1000 times as fast as the active
ones, and the normal equations keep ten digits."""
Matrix = list[Vector]


@dataclass(frozen=True, eq=False)
class LoopMotion:
    """G, n rows of n_active; bias, n: dq = G dq_a and ddq = G ddq_a + bias, bias = dG/dt dq_a."""

    G: Matrix
    bias: Vector


@dataclass(frozen=True, eq=False)
class _Cuts:
    """phi and, by joint, the columns of Phi, in lengths of the loop; prismatic joints too.

    axes: those of each pair in which its points can part at all.
    """

    phi: Vector
    axes: list[list[int]]
    Phi: dict[int, Vector]
    frames: list[Frame]
    size: float


@dataclass(frozen=True, eq=False)
class Closure:
    """Outputs of Newton's step: what to take off the passive joints, the gaps in lengths of the loop, and D."""

    step: Vector
    gap: Vector
    pivots: Vector


def closure(graph: Graph, robot: Robot) -> Closure:
    """Return Newton's step at the positions `joints`, which need not be closed."""
    cuts = _cuts(graph, robot)
    solver = _Solver(graph, _passive_columns(robot, cuts))
    step = solver.solve(cuts.phi)
    return Closure(_in_joint_units(graph, robot, cuts, step), cuts.phi, solver.pivots)


def loop_motion_expressions(graph: Graph, robot: Robot) -> LoopMotion:
    """Return G and the bias at the closed positions `joints`; the bias takes the speeds `dq` of the active joints."""
    key = (id(robot), "loops")
    if key not in graph.memo:
        graph.memo[key] = _loop_motion(graph, robot)
    return graph.memo[key]  # type: ignore[return-value]


def _loop_motion(graph: Graph, robot: Robot) -> LoopMotion:
    assert robot.loops is not None
    cuts = _cuts(graph, robot)
    solver = _Solver(graph, _passive_columns(robot, cuts))
    linear, _ = linear_constraint(robot)
    G = [[graph.number(float(x)) for x in row] for row in linear]
    for k in range(linear.shape[1]):
        moved = _times_columns(graph, robot, cuts, linear[:, k])
        column = _in_joint_units(graph, robot, cuts, solver.solve([-x for x in moved]))
        for j, x in zip(robot.loops.passive, column, strict=True):
            G[j - 1][k] = x
    active = [graph.variable("dq", k) for k in range(linear.shape[1])]
    dq = [graph.sum(a * b for a, b in zip(row, active, strict=True)) for row in G]
    turning = solver.solve([-x for x in _gap_accelerations(graph, robot, cuts, dq)])
    bias = [graph.zero] * robot.n
    for j, x in zip(robot.loops.passive, _in_joint_units(graph, robot, cuts, turning), strict=True):
        bias[j - 1] = x
    return LoopMotion(G, bias)


def _cuts(graph: Graph, robot: Robot) -> _Cuts:
    """Return gaps and Jacobian of the cuts, without the equations that hold whatever the joints do."""
    assert robot.loops is not None
    size, frames = loop_size(robot), scaled_frames(graph, robot)
    phi: Vector = []
    axes = []
    Phi: dict[int, Vector] = {j: [] for j in range(1, robot.n + 1)}
    for pair in robot.loops.pairs:
        gap, columns = [graph.zero] * 3, {j: [graph.zero] * 3 for j in Phi}
        for sign, pivot, path in _ends(frames, pair):
            end, own = _chain(graph, frames, point_of(graph, pivot, size), path)
            gap = [a + _signed(sign, b) for a, b in zip(gap, end, strict=True)]
            for j, column in own.items():
                columns[j] = [a + _signed(sign, b) for a, b in zip(columns[j], column, strict=True)]
        axes.append([k for k in range(3) if any(not column[k].is_zero for column in columns.values())])
        phi += [gap[k] for k in axes[-1]]
        for j, column in columns.items():
            Phi[j] += [column[k] for k in axes[-1]]
    return _Cuts(phi, axes, Phi, frames, size)


def scaled_frames(graph: Graph, robot: Robot, still: Sequence[int] = ()) -> list[Frame]:
    """Return the frames at the positions `joints` in lengths of the loop; joints `still` (numbers) at zero."""
    size = loop_size(robot)
    scale = graph.number(1.0 / size)
    q = [graph.zero if j + 1 in still else graph.variable(JOINTS, j) for j in range(robot.n)]
    q = [scale * x if joint.sigma == PRISMATIC else x for x, joint in zip(q, robot.joints, strict=True)]
    return expression_frames(graph, robot, q, size)


def chain_end(graph: Graph, frames: Sequence[Frame], point: Vector, path: Sequence[int]) -> Vector:
    """Return a pivot in the axes where the path ends."""
    return _chain(graph, frames, point, path)[0]


def _ends(frames: Sequence[Frame], pair: tuple[Pivot, Pivot]) -> list[tuple[int, Pivot, list[int]]]:
    """Return sign, pivot and path of the two ends of a cut: joints from the pivot to where the chains meet."""
    own, other = paths(lambda j: frames[j - 1].parent, *pair)
    return [(-1, pair[0], own), (1, pair[1], other)]


def point_of(graph: Graph, pivot: Pivot, size: float) -> Vector:
    """Return a pivot's point in its own frame."""
    return [graph.number(x / size) for x in pivot.point]


def _signed(sign: int, x: Expr) -> Expr:
    return x if sign > 0 else -x


def to_end(frames: Sequence[Frame], v: Vector, path: Sequence[int]) -> Vector:
    """Return a vector of the first link of `path` in the axes where the path ends."""
    for j in path:
        v = frames[j - 1].fixed_out(frames[j - 1].about.out(v))
    return v


def _chain(
    graph: Graph, frames: Sequence[Frame], point: Vector, path: Sequence[int]
) -> tuple[Vector, dict[int, Vector]]:
    """Return a pivot, and its derivative by each joint of its path, in the axes where the path ends."""
    columns = {}
    p = list(point)
    for i, j in enumerate(path):
        frame = frames[j - 1]
        local = [-p[1], p[0], graph.zero] if frame.revolute else [graph.zero, graph.zero, graph.one]
        columns[j] = to_end(frames, local, path[i:])
        turned = frame.about.out(p)
        p = frame.fixed_out([a + b for a, b in zip(turned, frame.offset, strict=True)])
    return p, columns


def _gap_accelerations(graph: Graph, robot: Robot, cuts: _Cuts, dq: Vector) -> Vector:
    """Return dPhi/dt dq, equation by equation: accelerations of the gaps for joints that do not accelerate."""
    assert robot.loops is not None
    scale = graph.number(1.0 / cuts.size)
    dq = [scale * x if joint.sigma == PRISMATIC else x for x, joint in zip(dq, robot.joints, strict=True)]
    accelerations: Vector = []
    for pair, axes in zip(robot.loops.pairs, cuts.axes, strict=True):
        gap = [graph.zero] * 3
        for sign, pivot, path in _ends(cuts.frames, pair):
            a = _acceleration(graph, cuts.frames, point_of(graph, pivot, cuts.size), path, dq)
            gap = [x + _signed(sign, y) for x, y in zip(gap, to_end(cuts.frames, a, path), strict=True)]
        accelerations += [gap[k] for k in axes]
    return accelerations


def _acceleration(graph: Graph, frames: Sequence[Frame], point: Vector, path: Sequence[int], dq: Vector) -> Vector:
    """Return the acceleration of a pivot in its link's axes, for joints at constant speeds from where the path ends."""
    w = dw = a = [graph.zero] * 3
    for j in reversed(path):
        frame, speed = frames[j - 1], dq[j - 1]
        origin = frame.fixed_out(list(frame.offset))
        a = [x + y for x, y in zip(a, _carried(w, dw, origin), strict=True)]
        w, dw, a = (frame.about.into(frame.fixed_into(x)) for x in (w, dw, a))
        across = [w[1] * speed, -w[0] * speed, graph.zero]
        if frame.revolute:
            dw = [x + y for x, y in zip(dw, across, strict=True)]
            w = [w[0], w[1], w[2] + speed]
        else:
            a = [x + (y + y) for x, y in zip(a, across, strict=True)]
    return [x + y for x, y in zip(a, _carried(w, dw, point), strict=True)]


def _carried(w: Vector, dw: Vector, r: Vector) -> Vector:
    """Return dw x r + w x (w x r)."""
    return [x + y for x, y in zip(_cross(dw, r), _cross(w, _cross(w, r)), strict=True)]


def _cross(a: Vector, b: Vector) -> Vector:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _passive_columns(robot: Robot, cuts: _Cuts) -> Matrix:
    assert robot.loops is not None
    return [cuts.Phi[j] for j in robot.loops.passive]


def _times_columns(graph: Graph, robot: Robot, cuts: _Cuts, moves: Array) -> Vector:
    """Return Phi moves for constant moves of the joints that no loop determines, shape (n,) [rad, m]."""
    total = [graph.zero] * len(cuts.phi)
    for j, move in enumerate(moves, start=1):
        length = 1.0 / cuts.size if robot.joints[j - 1].sigma == PRISMATIC else 1.0
        factor = graph.number(float(move) * length)
        total = [x + factor * y for x, y in zip(total, cuts.Phi[j], strict=True)]
    return total


def _in_joint_units(graph: Graph, robot: Robot, cuts: _Cuts, x: Vector) -> Vector:
    """Return values of the loops' passive joints [rad, m] from those in lengths of the loop."""
    assert robot.loops is not None
    size = graph.number(cuts.size)
    prismatic = [robot.joints[j - 1].sigma == PRISMATIC for j in robot.loops.passive]
    return [size * value if slides else value for value, slides in zip(x, prismatic, strict=True)]


class _Solver:
    """Least squares with the columns of Phi_p."""

    def __init__(self, graph: Graph, columns: Matrix) -> None:
        """Factorise Phi_p^T Phi_p = L D L^T."""
        self._graph, self._columns = graph, columns
        n = len(columns)
        self._L: Matrix = [[graph.zero] * n for _ in range(n)]
        self.pivots: Vector = []
        self._inverse: Vector = []
        for i in range(n):
            for k in range(i + 1):
                rest = _dot(graph, columns[i], columns[k])
                for m in range(k):
                    rest = rest - self._L[i][m] * (self._L[k][m] * self.pivots[m])
                if k < i:
                    self._L[i][k] = rest * self._inverse[k]
                else:
                    self.pivots.append(rest)
                    self._inverse.append(graph.inverse(rest))

    def solve(self, b: Vector) -> Vector:
        """Return x with Phi_p x = b."""
        n = len(self._columns)
        x = [_dot(self._graph, column, b) for column in self._columns]
        for i in range(n):
            for k in range(i):
                x[i] = x[i] - self._L[i][k] * x[k]
        x = [value * inverse for value, inverse in zip(x, self._inverse, strict=True)]
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                x[i] = x[i] - self._L[k][i] * x[k]
        return x


def _dot(graph: Graph, a: Vector, b: Vector) -> Expr:
    return graph.sum(x * y for x, y in zip(a, b, strict=True))
