# SPDX-License-Identifier: Apache-2.0

"""The expression graph: folding, sharing, signs, counting, and algebra that keeps values."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ros2_dynid.codegen.elastic_expressions import elastic_torques
from ros2_dynid.codegen.functions import joint_values, recursion_with_links, torque
from ros2_dynid.codegen.graph import ABS, GAUSS, INVERSE_ROOT, LOG, ROOT, Count, Graph, evaluate, factorise
from ros2_dynid.codegen.newton_euler_expressions import RecursionPlan
from ros2_dynid.codegen.operation_search import constants_of, starting_constants
from ros2_dynid.codegen.regressor_expressions import energy_row, regressor_columns
from ros2_dynid.codegen.representation import space_of
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.model.forces import Force, ForceKind, Pivot
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Joint, Robot
from runtime_robots import coupled_loop, with_forces
from small_program import close


def variables(graph, count=6):
    return [graph.variable("x", k) for k in range(count)]


def test_zeros_and_ones_cost_nothing():
    graph = Graph()
    x, y, *_ = variables(graph)
    assert (x * graph.zero).is_zero
    assert (x - x).is_zero
    assert graph.one * x == x
    assert x + graph.zero == x
    assert graph.count([x * graph.one + y * graph.zero]) == Count(0, 0)


def test_signs_are_free_and_shared():
    graph = Graph()
    x, y, *_ = variables(graph)
    assert (x - y).node == (y - x).node
    assert x - y == -(y - x)
    assert graph.sin(-x) == -graph.sin(x)
    assert graph.cos(-x) == graph.cos(x)
    assert graph.count([x - y, y - x, -(x * y), x * -y]) == Count(1, 1)


def test_constants_are_computed_off_line():
    graph = Graph()
    x, *_ = variables(graph)
    p, two = graph.parameter("p"), graph.number(2.0)
    assert graph.count([two * (p * x) + x]) == Count(1, 1)  # (2 p) is one constant
    assert graph.count([(p + two) * p]) == Count(0, 0)
    assert graph.count([x + x]) == Count(0, 1)
    assert graph.count([p * (x + x)]) == Count(1, 0)


def test_common_factors_and_pairs_are_taken_out():
    graph = Graph()
    a, b, c, d, e, _ = variables(graph)
    assert graph.count(factorise(graph, [a * b + a * c])) == Count(1, 1)
    assert graph.count(factorise(graph, [a + b + c, (a + d) + b, e - (a + b)])) == Count(0, 4)


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="finite"):
        Graph().number(math.nan)


@given(st.lists(st.tuples(st.sampled_from("+-*sc"), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=40))
@settings(max_examples=150, deadline=None)
def test_every_expression_keeps_its_value(steps):
    graph = Graph()
    values = np.linspace(-1.3, 1.7, 6)
    built = [(x, float(v)) for x, v in zip(variables(graph), values, strict=True)]
    built += [(graph.parameter("p"), 0.7), (graph.number(-2.5), -2.5)]
    for op, i, j in steps:
        (x, u), (y, v) = built[i % len(built)], built[j % len(built)]
        if op in "sc" and (x.is_constant or abs(u) > 1e3):
            continue
        new = {
            "+": lambda x=x, y=y, u=u, v=v: (x + y, u + v),
            "-": lambda x=x, y=y, u=u, v=v: (x - y, u - v),
            "*": lambda x=x, y=y, u=u, v=v: (x * y, u * v),
            "s": lambda x=x, u=u: (graph.sin(x), math.sin(u)),
            "c": lambda x=x, u=u: (graph.cos(x), math.cos(u)),
        }[op]()
        if abs(new[1]) < 1e6:
            built.append(new)
    outputs, expected = [e for e, _ in built], np.array([v for _, v in built])
    scale = 1.0 + np.abs(expected).max() ** 2
    for candidate in (outputs, factorise(graph, outputs)):
        found = evaluate(graph, candidate, {"x": values}, {"p": 0.7})
        assert np.abs(np.array(found) - expected).max() <= 1e-12 * scale
    assert graph.count(factorise(graph, outputs)).total <= graph.count(outputs).total


def test_only_what_is_computed_while_running_gets_a_name():
    graph = Graph()
    x, y, *_ = variables(graph)
    a, b = graph.parameter("a"), graph.parameter("b")
    for expr, name in ((x + y, "sum"), (x * y, "product"), (-(x * a), "scaled")):
        graph.label(expr, name)
    assert graph.labels == {(x + y).node: "sum", (x * y).node: "product", (x * a).node: "minus_scaled"}
    graph.label(y + x, "again")
    for expr in (x, graph.sin(x), a, a * b, a + b, graph.number(2.0)):
        graph.label(expr, "never")
    assert set(graph.labels.values()) == {"sum", "product", "minus_scaled"}, "the first one counts, constants have none"


@pytest.mark.parametrize("which", ["springs", "loop"])
@pytest.mark.parametrize("unit", [1.0, 0.37])
def test_springs_and_loops_are_those_of_numpy(which, unit):
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(np.random.default_rng(3))
    names = standard_names(robot)
    rng = np.random.default_rng(8)
    chi = rng.normal(size=len(names))
    q, dq, ddq = rng.uniform(-2, 2, (3, len(robot.active)))
    row = q[None], dq[None], ddq[None]
    variables = {"q": q, "dq": dq, "ddq": ddq}
    graph = Graph()
    columns = regressor_columns(graph, robot)
    Y = np.array(evaluate(graph, [e for column in columns for e in column], variables, {})).reshape(len(columns), -1).T
    assert close(Y, regressor(robot, *row)[0])
    h = evaluate(graph, energy_row(graph, robot), variables, {})
    assert close(h, energy_regressor(robot, q[None], dq[None])[0])
    plan = RecursionPlan(unit)
    space = space_of(robot)
    used, rows = constants_of(robot, space, starting_constants(space, np.eye(len(names))), plan)
    graph = Graph()
    slots = {slot: graph.parameter(name) if sign > 0 else -graph.parameter(name) for slot, name, sign in used}
    constants = dict(zip(dict.fromkeys(name for _, name, _ in used), np.array(rows) @ chi, strict=True))
    assert close(
        evaluate(graph, torque(graph, robot, slots, plan), variables, constants), inverse_dynamics(robot, chi, *row)[0]
    )


@pytest.mark.parametrize("unit", [1.0, 0.37])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other", "felt"), [(0, 3, {1, 2, 3}), (1, 3, {2, 3}), (4, 3, {2, 3, 4})], ids=["base", "branch", "branches"]
)
def test_a_cylinder_pulls_its_pivots_together_whichever_is_named_first(one, other, felt, turned, unit):
    """Its torques are the force times the slopes of the pivots' distance, on one branch of a tree or on two."""
    first, second = (other, one) if turned else (one, other)
    robot = Robot(
        "tree",
        (
            Joint("a", 0, alpha=0.3, d=0.2, r=0.1),
            Joint("b", 1, alpha=np.pi / 2, d=0.4, r=-0.2),
            Joint("c", 2, PRISMATIC, alpha=-0.7, d=0.1),
            Joint("d", 1, gamma=0.5, b=0.3, alpha=1.1, d=-0.2),
        ),
    )
    points = {0: (0.3, 0.1, 0.2), 1: (0.1, -0.2, 0.3), 3: (0.2, 0.4, -0.1), 4: (-0.3, 0.2, 0.5)}
    pivots = tuple(Pivot(joint, points[joint]) for joint in (first, second))
    robot = replace(robot, forces=(Force("strut", ForceKind.CYLINDER, (0, 1), {}, pivots, 0.25),))
    q = np.array([0.4, -0.9, 0.6, 1.3])

    def distance(q):
        poses = [robot.base, *frames(robot, q[None])[0]]
        a, b = (poses[joint] @ [*points[joint], 1.0] for joint in (first, second))
        return np.linalg.norm(a - b)

    graph = Graph()
    recursion, _ = recursion_with_links(graph, robot, RecursionPlan(unit), "q g")
    slots = {("Kf", 1): graph.number(3.0), ("Ks", 1): graph.number(2.0)}
    tau = elastic_torques(graph, robot, recursion.frames, joint_values(graph, robot, "q"), unit, slots)
    slopes = [(distance(q + 1e-6 * e) - distance(q - 1e-6 * e)) / 2e-6 for e in np.eye(4)]
    wanted = (3.0 + 2.0 * (distance(q) - 0.25)) * np.array(slopes)
    np.testing.assert_allclose(evaluate(graph, tau, {"q": q}, {}), wanted, atol=1e-8)
    assert set(np.flatnonzero(np.abs(wanted) > 1e-4) + 1) == felt, "nothing is felt above where the chains meet"


def test_functions_of_one_node():
    graph = Graph()
    x = graph.variable("x", 0)
    for value in (-1.7, 0.4, 3.0):
        asked = [graph.even(kind, -x) for kind in (ABS, ROOT, GAUSS, INVERSE_ROOT, LOG)]
        asked += [graph.sign(x), graph.sign(-x), graph.power(x, 1.7), graph.power(x, 0.5)]
        size = abs(value)
        wanted = [size, math.sqrt(size), math.exp(-value * value), 1 / math.sqrt(size), math.log(size)]
        wanted += [math.copysign(1, value), -math.copysign(1, value), size**1.7, size**0.5]
        assert evaluate(graph, asked, {"x": [value]}, {}) == pytest.approx(wanted, rel=1e-12)
    assert evaluate(graph, [graph.sign(x), graph.power(x, 1.7)], {"x": [0.0]}, {}) == pytest.approx(
        [0.0, 0.0], abs=1e-40
    )
    assert Count(3, 4).total == 7
