# SPDX-License-Identifier: Apache-2.0

"""Fewer operations by algebra: x y + x z = x (y + z), and pairs of terms that several sums share added once.

Sums and products that are used once are opened into flat lists, rearranged, and built again. Nothing but the order of
operations changes, so results agree to rounding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ros2_dynid.codegen.graph import ADD, MUL, Expr, Graph

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
    built: dict[int, Expr] = {}
    pairs = _shared_pairs(flat)

    for node in nodes:
        key = graph.keys[node]
        if node in inner:
            continue
        if node in flat:
            built[node] = _sum(graph, uses, flat[node], built, pairs)
        elif key[0] == MUL and not graph.constant[node]:
            x, y = graph.operands(node)
            built[node] = built[x] * built[y]
        else:
            built[node] = Expr(graph, node)
    return [built[expr.node] if expr.sign > 0 else -built[expr.node] for expr in outputs]


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


def _sum(graph: Graph, uses: Counter[int], terms: list[SignedTerm], built: dict[int, Expr], pairs: Pairs) -> Expr:
    """Build one sum again: shared pairs first, then common factors, then the rest in order."""
    summands, terms = _take_pairs(terms, built, pairs)
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
        inside = graph.sum(built[other] if term[0] > 0 else -built[other] for term, other in group)
        summands.append(built[common] * inside)
        terms = [t for t in terms if t not in grouped]
    return graph.sum([*summands, *(built[node] if sign > 0 else -built[node] for sign, node in terms)])


def _take_pairs(terms: list[SignedTerm], built: dict[int, Expr], pairs: Pairs) -> tuple[list[Expr], list[SignedTerm]]:
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
        both = built[x] + built[y] if s == r else built[x] - built[y]
        summands.append(both if s > 0 else -both)
