# SPDX-License-Identifier: Apache-2.0

"""Text of generated code: numbers that survive bit by bit, harmless names, expressions a human can read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ros2_dynid.codegen.graph import ADD, COS, MUL, NUM, PAR, SIN, UNARY, VAR, Expr, Graph

_WIDTH = 84
_SAFE = re.compile(r"[^A-Za-z0-9 _.,:;=+()\[\]%^-]")


def identifier(name: str) -> str:
    """Return `name` as an identifier of C and Python: letters, digits and single underscores, a letter first."""
    text = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return text if text and text[0].isalpha() else f"robot_{text}".rstrip("_")


def comment(text: str) -> str:
    """Return text that can end neither a comment nor a line nor a string: other characters become a question mark."""
    return _SAFE.sub("?", text)[:200]


def number(value: float, real: str = "double") -> str:
    """Return a literal that reads back as the same number, bit by bit (for float: as the nearest float)."""
    if real == "float":
        text = str(np.float32(value))
        return (text if any(c in text for c in ".en") else f"{text}.0") + "f"
    return repr(float(value))


@dataclass(frozen=True)
class Statement:
    """`name` = `text`, or an output if `name` is a target such as tau[0]."""

    name: str
    text: str


@dataclass(frozen=True)
class Code:
    """A function's body: the constants it uses (name, expression) and its statements in order."""

    constants: tuple[tuple[str, Expr], ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Statement, ...]
    arrays: frozenset[str]
    """Input arrays that are read."""


def code_of(
    graph: Graph,
    outputs: Sequence[tuple[str, Expr]],
    *,
    real: str = "double",
    functions: Mapping[str, str],
    index: str = "{array}[{index}]",
    available: Mapping[int, str] | None = None,
) -> Code:
    """Return the body that computes the outputs, given as (target, expression).

    functions: how to write the functions UNARY of {x}; index: how to write an element of an input array; given: nodes
    that are computed already, and where they are found.
    """
    available = available or {}
    nodes = graph.needed((expr for _, expr in outputs), available)
    writer = _Writer(graph, [expr for _, expr in outputs], nodes, real, functions, index, available)
    for node in nodes:
        writer.visit(node)
    finals = tuple(Statement(target, writer.signed(expr)) for target, expr in outputs)
    return Code(
        tuple((name, Expr(graph, node)) for node, name in writer.constants.items()),
        tuple(writer.statements),
        finals,
        frozenset(writer.arrays),
    )


class _Writer:
    """Turns nodes into text: each is inlined where it is used once and short, else it gets a name."""

    def __init__(
        self,
        graph: Graph,
        outputs: Sequence[Expr],
        nodes: Sequence[int],
        real: str,
        functions: Mapping[str, str],
        index: str,
        available: Mapping[int, str],
    ) -> None:
        self.graph, self.real, self.functions, self.index, self.available = graph, real, functions, index, available
        self.uses: Counter[int] = Counter(expr.node for expr in outputs)
        for node in nodes:
            if not graph.constant[node] and node not in available:
                self.uses.update(graph.operands(node))
        self.text: dict[int, tuple[str, int]] = {}  # text and how tightly it binds: 0 sum, 1 product, 2 name
        self.constants: dict[int, str] = {}
        self.statements: list[Statement] = []
        self.arrays: set[str] = set()
        self.taken: set[str] = set()
        self.numbered = 0

    def visit(self, node: int) -> None:
        key = self.graph.keys[node]
        op = key[0]
        if node in self.available:
            self.text[node] = self.available[node], 2
            return
        if self.graph.constant[node]:
            if op == NUM:
                self.text[node] = number(key[1], self.real), 2  # type: ignore[arg-type]
            elif self.uses[node]:
                name = self._name(str(key[1]) if op == PAR else None, "k")
                self.constants[node] = name
                self.text[node] = name, 2
            return
        if op == VAR:
            self.arrays.add(str(key[1]))
            self.text[node] = self.index.format(array=key[1], index=key[2]), 2
            return
        if op in UNARY:
            angle = self.text[key[1]][0]  # type: ignore[index]
            function = str(op)
            trigonometric = function in (SIN, COS)
            name = self._angle_label(function[0], key[1]) if trigonometric else f"{function}{self.numbered + 1}"
            self._define(node, self.functions[function].format(x=angle), "t", name)
            return
        if op == MUL:
            text = f"{self._part(key[1], 1)} * {self._part(key[2], 1)}"
            binds = 1
        else:
            assert op == ADD
            minus = key[2] == -1
            text = f"{self._part(key[1], 0)} {'-' if minus else '+'} {self._part(key[3], 1 if minus else 0)}"
            binds = 0
        label = self.graph.labels.get(node)
        if self.uses[node] == 1 and label is None and len(text) < _WIDTH:
            self.text[node] = text, binds
        else:
            self._define(node, text, "t", label)

    def _angle_label(self, letter: str, node: object) -> str:
        """Return s2 for sin(q[1]), c23 for cos(q[1] + q[2]), and so on."""
        nodes = self.graph.needed([Expr(self.graph, node)])  # type: ignore[arg-type]
        keys = [self.graph.keys[n] for n in nodes]
        return letter + "".join(str(index) for index in sorted(int(str(k[2])) + 1 for k in keys if k[0] == VAR))

    def _part(self, node: object, least: int) -> str:
        text, binds = self.text[node]  # type: ignore[index]
        return text if binds >= least else f"({text})"

    def _name(self, label: str | None, prefix: str) -> str:
        if label is None or label in self.taken:
            self.numbered += 1
            label = f"{prefix}{self.numbered}"
        self.taken.add(label)
        return label

    def _define(self, node: int, text: str, prefix: str, label: str | None = None) -> None:
        name = self._name(label, prefix)
        self.statements.append(Statement(name, text))
        self.text[node] = name, 2

    def signed(self, expr: Expr) -> str:
        text, binds = self.text[expr.node]
        if expr.sign > 0:
            return text
        return f"-{text}" if binds >= 1 else f"-({text})"
