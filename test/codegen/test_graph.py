# SPDX-License-Identifier: Apache-2.0

"""The expression graph: folding, sharing, signs, counting, and algebra that keeps values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ros2_dynid.codegen.graph import Count, Graph, evaluate, factorise


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
