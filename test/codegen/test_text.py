# SPDX-License-Identifier: Apache-2.0

"""Text of generated code: numbers that survive bit by bit, harmless names, expressions a human can read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ros2_dynid.codegen.graph import Graph, evaluate
from ros2_dynid.codegen.text import code_of, comment, identifier, number


def test_texts_of_generated_code():
    assert [identifier(x) for x in ("My Robot-2", "2x", "", "__", "Ä9")] == [
        "my_robot_2",
        "robot_2x",
        "robot",
        "robot",
        "robot_9",
    ]
    assert comment("a*/\n\"b' c") == "a????b? c" and len(comment("x" * 300)) == 200
    for value in (0.1, 1.0, -2.5e-7, 1e22, 3.0e8):
        assert float(number(value)) == value
        text = number(value, "float")
        assert text.endswith("f") and np.float32(text[:-1]) == np.float32(value) and set(text[:-1]) & set(".e")
    graph = Graph()
    x, y, z = (graph.variable("q", k) for k in range(3))
    p = graph.parameter("p")
    outputs = [("a", x - (y - z)), ("b", -(x + y)), ("c", (x + y) * z), ("d", -(p * x)), ("e", graph.sin(x + y))]
    code = code_of(graph, outputs, functions={"sin": "sin({x})"})
    values = {"q": [0.3, -1.1, 2.2], "p": 0.7, "sin": math.sin}
    for statement in code.statements:
        values[statement.name] = eval(statement.text, {}, values)  # of our own making
    found = [eval(statement.text, {}, values) for statement in code.outputs]
    assert found == pytest.approx(evaluate(graph, [e for _, e in outputs], {"q": values["q"]}, {"p": 0.7}), rel=1e-14)
    assert code.arrays == {"q"} and [name for name, _ in code.constants] == ["p"]
    assert "s12" in [statement.name for statement in code.statements]
    long = graph.sum(graph.variable("quantity", k) for k in range(40))
    assert max(len(s.text) for s in code_of(graph, [("a", long)], functions={}).statements) < 84 + 30
