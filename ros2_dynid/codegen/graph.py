# SPDX-License-Identifier: Apache-2.0

"""Expressions as a shared graph: every sum and product exists once, signs are free, constants are known off-line.

An `Expr` is a sign and a node of a `Graph`. Nodes are made through `Expr`'s operators, which fold constants, drop
zeros and ones, and return the node that exists already if the same operation was asked for before (hash-consing,
with the sign normalised so that a - b and b - a are one node). A node is *constant* if it depends on numbers and
parameters only: it is computed off-line, once for a robot (and a load), and is not counted. Everything else is
computed at every call; `Graph.count` counts its multiplications and additions.

Fewer operations by algebra: x y + x z = x (y + z), and pairs of terms that several sums share added once. Sums and
products that are used once are opened into flat lists, rearranged, and built again. Nothing but the order of operations
changes, so results agree to rounding.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

NUM, PAR, VAR, SIN, COS, SIGN, ADD, MUL = "num", "par", "var", "sin", "cos", "sign", "add", "mul"
ABS, ROOT, GAUSS, INVERSE_ROOT, LOG = "abs", "root", "gauss", "inverse_root", "log"
EXP, INVERSE = "exp", "inverse"
UNARY = (SIN, COS, SIGN, ABS, ROOT, GAUSS, INVERSE_ROOT, LOG, EXP, INVERSE)
"""Functions of one node: |x|, sqrt(|x|), exp(-x^2), 1 / sqrt(|x|) and log(|x| + TINY) beside sine, cosine, sign,
exponential and 1 / x."""
TINY = 1e-30
"""Added to |x| before its logarithm: |x|^p = exp(p log |x|) is as good as 0 at 0 then, also in float."""
Key = tuple[object, ...]


@dataclass(frozen=True)
class Count:
    """Operations of a generated function; sines, cosines and sign changes are not counted."""

    multiplications: int
    additions: int

    @property
    def total(self) -> int:
        """Multiplications and additions together."""
        return self.multiplications + self.additions


class Expr:
    """A node with a sign. Use + - * and unary minus; equality and hash are those of the value, not of its algebra."""

    __slots__ = ("graph", "node", "sign")

    def __init__(self, graph: Graph, node: int, sign: int = 1) -> None:
        """Wrap `node` of `graph`, negated if `sign` is -1."""
        self.graph, self.node, self.sign = graph, node, sign

    def __neg__(self) -> Expr:
        """Return -self, which costs nothing."""
        return self if self.is_zero else Expr(self.graph, self.node, -self.sign)

    def __add__(self, other: Expr) -> Expr:
        """Return self + other."""
        return self.graph.add(self, other)

    def __sub__(self, other: Expr) -> Expr:
        """Return self - other."""
        return self.graph.add(self, -other)

    def __mul__(self, other: Expr) -> Expr:
        """Return self * other."""
        return self.graph.mul(self, other)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same node with the same sign."""
        return isinstance(other, Expr) and self.node == other.node and self.sign == other.sign

    def __hash__(self) -> int:
        """Hash by node and sign."""
        return hash((self.node, self.sign))

    @property
    def is_zero(self) -> bool:
        """Whether this is the number 0."""
        return self.node == self.graph.zero_node

    @property
    def number(self) -> float | None:
        """The number that this is; None if it depends on a parameter or a variable."""
        kind, *rest = self.graph.keys[self.node]
        return self.sign * rest[0] if kind == NUM else None  # type: ignore[operator]

    @property
    def is_constant(self) -> bool:
        """Whether this depends on numbers and parameters only."""
        return self.graph.constant[self.node]


class Graph:
    """The store of nodes: `keys[i]` is the operation of node i, its operands come before it."""

    def __init__(self) -> None:
        """Start with the number 0."""
        self.keys: list[Key] = []
        self.constant: list[bool] = []
        self._table: dict[Key, int] = {}
        self.memo: dict[object, object] = {}
        """For builders: parts of the graph that several functions of one robot share."""
        self.labels: dict[int, str] = {}
        """Readable names of nodes, for the emitters."""
        self.zero_node = -1
        self.zero_node = self._node((NUM, 0.0), True)
        self.zero = Expr(self, self.zero_node)
        self.one = self.number(1.0)

    def _node(self, key: Key, constant: bool) -> int:
        node = self._table.get(key)
        if node is None:
            node = len(self.keys)
            self._table[key] = node
            self.keys.append(key)
            self.constant.append(constant)
        return node

    def number(self, value: float) -> Expr:
        """Return the number `value`."""
        if not math.isfinite(value):
            raise ValueError("an expression cannot hold a number that is not finite")
        if value == 0.0:
            return self.zero
        return Expr(self, self._node((NUM, abs(value)), True), 1 if value > 0 else -1)

    def parameter(self, name: str) -> Expr:
        """Return the parameter `name`: a symbol whose value is known off-line."""
        return Expr(self, self._node((PAR, name), True))

    def variable(self, array: str, index: int) -> Expr:
        """Return element `index` of the input `array`, known only when the generated function is called."""
        return Expr(self, self._node((VAR, array, index), False))

    def sin(self, angle: Expr) -> Expr:
        """Return the sine of an angle."""
        if angle.number is not None:
            return self.number(math.sin(angle.number))
        return Expr(self, self._node((SIN, angle.node), False), angle.sign)

    def cos(self, angle: Expr) -> Expr:
        """Return the cosine of an angle."""
        if angle.number is not None:
            return self.number(math.cos(angle.number))
        return Expr(self, self._node((COS, angle.node), False))

    def sign(self, x: Expr) -> Expr:
        """Return -1, 0 or 1 with the sign of x."""
        if x.is_zero:
            return x
        return Expr(self, self._node((SIGN, x.node), False), x.sign)

    def even(self, function: str, x: Expr) -> Expr:
        """Return |x| (ABS), sqrt(|x|) (ROOT), exp(-x^2) (GAUSS), 1 / sqrt(|x|) (INVERSE_ROOT) or log(|x| + TINY)."""
        return Expr(self, self._node((function, x.node), False))

    def inverse(self, x: Expr) -> Expr:
        """Return 1 / x."""
        if x.number is not None:
            return self.number(1.0 / x.number)
        return Expr(self, self._node((INVERSE, x.node), False), x.sign)

    def power(self, x: Expr, exponent: float) -> Expr:
        """Return |x|^exponent."""
        log_power = self.number(exponent) * self.even(LOG, x)
        return Expr(self, self._node((EXP, log_power.node), False))

    def add(self, a: Expr, b: Expr) -> Expr:
        """Return a + b, folded if possible."""
        if a.is_zero:
            return b
        if b.is_zero:
            return a
        if a.node == b.node:
            # x + x: one addition for what is computed at every call, folded for constants
            if a.sign != b.sign:
                return self.zero
            if self.constant[a.node]:
                return self.number(2.0) * a
            return Expr(self, self._node((ADD, a.node, 1, a.node), False), a.sign)
        ka, kb = self.keys[a.node], self.keys[b.node]
        if ka[0] == NUM and kb[0] == NUM:
            return self.number(a.sign * ka[1] + b.sign * kb[1])  # type: ignore[operator]
        if a.node > b.node:
            a, b = b, a
        constant = self.constant[a.node] and self.constant[b.node]
        return Expr(self, self._node((ADD, a.node, a.sign * b.sign, b.node), constant), a.sign)

    def mul(self, a: Expr, b: Expr) -> Expr:
        """Return a * b, folded if possible; constants gather on the left of a chain of products."""
        if a.is_zero or b.is_zero:
            return self.zero
        sign = a.sign * b.sign
        if self.constant[b.node] and not self.constant[a.node]:
            a, b = b, a
        ka, kb = self.keys[a.node], self.keys[b.node]
        if ka == (NUM, 1.0):
            return Expr(self, b.node, sign)
        if kb == (NUM, 1.0):
            return Expr(self, a.node, sign)
        if ka[0] == NUM and kb[0] == NUM:
            return self.number(sign * ka[1] * kb[1])  # type: ignore[operator]
        if self.constant[a.node] and kb[0] == MUL and self.constant[kb[1]]:  # type: ignore[call-overload]
            # c1 (c2 x) = (c1 c2) x: one constant known off-line
            inner = Expr(self, kb[1]), Expr(self, kb[2])  # type: ignore[arg-type]
            product = (Expr(self, a.node) * inner[0]) * inner[1]
            return Expr(self, product.node, product.sign * sign)
        if self.constant[a.node] and kb[0] == ADD and kb[1] == kb[3]:  # c (x + x) = (2 c) x
            product = (Expr(self, a.node) * self.number(2.0)) * Expr(self, kb[1])  # type: ignore[arg-type]
            return Expr(self, product.node, product.sign * sign)
        constant = self.constant[a.node] and self.constant[b.node]
        first, second = (a.node, b.node)
        if self.constant[first] == self.constant[second] and first > second:
            first, second = second, first
        return Expr(self, self._node((MUL, first, second), constant), sign)

    def sum(self, terms: Iterable[Expr]) -> Expr:
        """Return the sum of the terms, added from left to right."""
        total = self.zero
        for term in terms:
            total = self.add(total, term)
        return total

    def label(self, expr: Expr, name: str) -> None:
        """Give a computed node a readable name, the first one given counts; a minus sign shows in it."""
        if self.keys[expr.node][0] in (ADD, MUL) and not self.constant[expr.node]:
            self.labels.setdefault(expr.node, name if expr.sign > 0 else f"minus_{name}")

    def operands(self, node: int) -> tuple[int, ...]:
        """Return the nodes that `node` is computed from."""
        key = self.keys[node]
        if key[0] == ADD:
            return key[1], key[3]  # type: ignore[return-value]
        if key[0] == MUL:
            return key[1], key[2]  # type: ignore[return-value]
        if key[0] in UNARY:
            return (key[1],)  # type: ignore[return-value]
        return ()

    def needed(self, outputs: Iterable[Expr], available: Container[int] = ()) -> list[int]:
        """Return all nodes the outputs depend on, operands first; not what `given` nodes depend on."""
        nodes: set[int] = set()
        stack = [expr.node for expr in outputs]
        while stack:
            node = stack.pop()
            if node not in nodes:
                nodes.add(node)
                if node not in available:
                    stack.extend(self.operands(node))
        return sorted(nodes)

    def count(self, outputs: Iterable[Expr]) -> Count:
        """Count multiplications and additions that the outputs need at every call."""
        multiplications = additions = 0
        keys, constant = self.keys, self.constant
        seen = {expr.node for expr in outputs if not constant[expr.node]}
        stack = list(seen)
        while stack:
            key = keys[stack.pop()]
            op = key[0]
            if op == MUL:
                multiplications += 1
                operands = key[1:]
            elif op == ADD:
                additions += 1
                operands = (key[1], key[3])
            elif op in UNARY:
                operands = key[1:]
            else:
                continue
            for node in operands:
                if node not in seen and not constant[node]:  # type: ignore[call-overload]
                    seen.add(node)  # type: ignore[arg-type]
                    stack.append(node)  # type: ignore[arg-type]
        return Count(multiplications, additions)


_EVALUATE: Mapping[str, Callable[[float], float]] = {
    SIN: math.sin,
    COS: math.cos,
    SIGN: lambda x: float((x > 0) - (x < 0)),
    ABS: abs,
    ROOT: lambda x: math.sqrt(abs(x)),
    GAUSS: lambda x: math.exp(-x * x),
    INVERSE_ROOT: lambda x: 1.0 / math.sqrt(abs(x)),
    LOG: lambda x: math.log(abs(x) + TINY),
    EXP: math.exp,
    INVERSE: lambda x: 1.0 / x,
}


def evaluate(
    graph: Graph,
    outputs: Iterable[Expr],
    variables: Mapping[str, Sequence[float]],
    parameters: Mapping[str, float],
) -> list[float]:
    """Return the values of the outputs: the meaning of the graph, used to check what was generated from it."""
    outputs = list(outputs)
    value: dict[int, float] = {}
    for node in graph.needed(outputs):
        key = graph.keys[node]
        op = key[0]
        if op == NUM:
            value[node] = key[1]  # type: ignore[assignment]
        elif op == PAR:
            value[node] = parameters[key[1]]  # type: ignore[index]
        elif op == VAR:
            value[node] = float(variables[key[1]][key[2]])  # type: ignore[index,call-overload]
        elif op == ADD:
            value[node] = value[key[1]] + key[2] * value[key[3]]  # type: ignore[index,operator]
        elif op == MUL:
            value[node] = value[key[1]] * value[key[2]]  # type: ignore[index]
        else:
            x = value[key[1]]  # type: ignore[index]
            value[node] = _EVALUATE[str(op)](x)
    return [expr.sign * value[expr.node] for expr in outputs]


SignedTerm = tuple[int, int]
"""(sign, node) of one term of a sum."""
Pairs = dict[tuple[int, int, int], int]
"""(node, node, relative sign) -> number of sums that hold both."""


def factorise(graph: Graph, outputs: Sequence[Expr]) -> list[Expr]:
    """Return equal outputs (in the same graph) that need no more operations, usually fewer."""
    best = list(outputs)
    while True:
        candidate = _once(graph, best)
        if graph.count(candidate).total >= graph.count(best).total:
            return best
        best = candidate


def _once(graph: Graph, outputs: Sequence[Expr]) -> list[Expr]:
    nodes = graph.needed(outputs)
    uses: Counter[int] = Counter(expr.node for expr in outputs)
    for node in nodes:
        uses.update(graph.operands(node))
    sums = {node: _terms(graph, uses, node) for node in nodes if _is_sum(graph, node)}
    inner = {inside for node, terms in sums.items() for inside in _sums_used_once(graph, uses, node)}
    flat = {node: terms for node, terms in sums.items() if node not in inner}
    expressions: dict[int, Expr] = {}
    pairs = _shared_pairs(flat)

    for node in nodes:
        key = graph.keys[node]
        if node in inner:
            continue
        if node in flat:
            expressions[node] = _sum(graph, uses, flat[node], expressions, pairs)
        elif key[0] == MUL and not graph.constant[node]:
            x, y = graph.operands(node)
            expressions[node] = expressions[x] * expressions[y]
        else:
            expressions[node] = Expr(graph, node)
    return [expressions[expr.node] if expr.sign > 0 else -expressions[expr.node] for expr in outputs]


def _is_sum(graph: Graph, node: int) -> bool:
    return graph.keys[node][0] == ADD and not graph.constant[node]


def _sums_used_once(graph: Graph, uses: Counter[int], node: int) -> list[int]:
    """Return the sums used once inside the sum `node`, which open into it."""
    inner_sums, stack = [], [node]
    while stack:
        for operand in graph.operands(stack.pop()):
            if uses[operand] == 1 and _is_sum(graph, operand):
                inner_sums.append(operand)
                stack.append(operand)
    return inner_sums


def _terms(graph: Graph, uses: Counter[int], node: int) -> list[SignedTerm]:
    """Return the flat list of terms of a sum."""
    terms: list[SignedTerm] = []
    stack: list[SignedTerm] = [(1, node)]
    opened_sums = {node, *_sums_used_once(graph, uses, node)}
    while stack:
        sign, at = stack.pop()
        if at in opened_sums:
            _, a, s, b = graph.keys[at]
            stack.append((sign * s, b))  # type: ignore[arg-type,operator]
            stack.append((sign, a))  # type: ignore[arg-type]
        else:
            terms.append((sign, at))
    return terms


def _shared_pairs(sums: dict[int, list[SignedTerm]]) -> Pairs:
    """Return how many sums hold each pair (node, node, relative sign) of terms, for pairs in two sums or more."""
    holders: Counter[tuple[int, int, int]] = Counter()
    for terms in sums.values():
        unique = sorted(set(terms), key=lambda t: t[1])
        for k, (s, a) in enumerate(unique):
            holders.update((a, b, s * r) for r, b in unique[k + 1 :])
    return {pair: n for pair, n in holders.items() if n > 1}


def _sum(graph: Graph, uses: Counter[int], terms: list[SignedTerm], expressions: dict[int, Expr], pairs: Pairs) -> Expr:
    """Build one sum again: shared pairs first, then common factors, then the rest in order."""
    summands, terms = _take_pairs(terms, expressions, pairs)
    while True:
        factors: dict[int, list[tuple[SignedTerm, int]]] = defaultdict(list)
        for term in terms:
            if graph.keys[term[1]][0] == MUL and uses[term[1]] == 1 and not graph.constant[term[1]]:
                x, y = graph.operands(term[1])
                factors[x].append((term, y))
                if x != y:
                    factors[y].append((term, x))
        common = max(factors, default=None, key=lambda f: (len(factors[f]), -f))
        if common is None or len(factors[common]) < 2:
            break
        group = factors[common]
        grouped = {term for term, _ in group}
        inside = graph.sum(expressions[other] if term[0] > 0 else -expressions[other] for term, other in group)
        summands.append(expressions[common] * inside)
        terms = [t for t in terms if t not in grouped]
    return graph.sum([*summands, *(expressions[node] if sign > 0 else -expressions[node] for sign, node in terms)])


def _take_pairs(
    terms: list[SignedTerm], expressions: dict[int, Expr], pairs: Pairs
) -> tuple[list[Expr], list[SignedTerm]]:
    """Return the pairs that other sums hold too, added, and the terms left; the pair held by most sums first.

    Every sum makes the same choice, so that the nodes are found again.
    """
    summands: list[Expr] = []
    while True:
        options = [
            (pairs.get((min(a, b), max(a, b), s * r), 0), a, b)
            for k, (s, a) in enumerate(terms)
            for r, b in terms[k + 1 :]
            if a != b
        ]
        n, a, b = max(options, default=(0, 0, 0), key=lambda option: (option[0], -option[1], -option[2]))
        pair = sorted((t for t in terms if t[1] in (a, b)), key=lambda t: t[1])
        if n < 2 or len(pair) != 2:
            return summands, terms
        terms = [t for t in terms if t[1] not in (a, b)]
        (s, x), (r, y) = pair
        both = expressions[x] + expressions[y] if s == r else expressions[x] - expressions[y]
        summands.append(both if s > 0 else -both)
