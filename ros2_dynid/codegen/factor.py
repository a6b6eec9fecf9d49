"""Fewer operations by algebra: x y + x z = x (y + z), and pairs of terms that several sums share added once.

Sums and products that are used once are opened into flat lists, rearranged, and built again. Nothing but the order of
operations changes, so results agree to rounding.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ros2_dynid.codegen.graph import ADD, MUL, Expr, Graph

Term = tuple[int, int]
"""(sign, node) of one term of a sum."""


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
    inner = {inside for node, terms in sums.items() for inside in _opened(graph, uses, node)}
    flat = {node: terms for node, terms in sums.items() if node not in inner}
    built: dict[int, Expr] = {}
    pairs = _shared_pairs(flat)

    def new(node: int) -> Expr:
        return built[node]

    for node in nodes:
        key = graph.keys[node]
        if node in inner:
            continue
        if node in flat:
            built[node] = _sum(graph, uses, flat[node], new, pairs)
        elif key[0] == MUL and not graph.constant[node]:
            built[node] = new(key[1]) * new(key[2])  # type: ignore[arg-type]
        else:
            built[node] = Expr(graph, node)
    return [built[expr.node] if expr.sign > 0 else -built[expr.node] for expr in outputs]


def _is_sum(graph: Graph, node: int) -> bool:
    return graph.keys[node][0] == ADD and not graph.constant[node]


def _opened(graph: Graph, uses: Counter[int], node: int) -> list[int]:
    """Return the sums used once inside the sum `node`, which open into it."""
    found, stack = [], [node]
    while stack:
        for operand in graph.operands(stack.pop()):
            if uses[operand] == 1 and _is_sum(graph, operand):
                found.append(operand)
                stack.append(operand)
    return found


def _terms(graph: Graph, uses: Counter[int], node: int) -> list[Term]:
    """Return the flat list of terms of a sum."""
    terms: list[Term] = []
    stack: list[Term] = [(1, node)]
    opened = {node, *_opened(graph, uses, node)}
    while stack:
        sign, at = stack.pop()
        if at in opened:
            _, a, s, b = graph.keys[at]
            stack.append((sign * s, b))  # type: ignore[arg-type,operator]
            stack.append((sign, a))  # type: ignore[arg-type]
        else:
            terms.append((sign, at))
    return terms


def _shared_pairs(sums: dict[int, list[Term]]) -> dict[tuple[int, int, int], int]:
    """Return how many sums hold each pair (node, node, relative sign) of terms, for pairs in two sums or more."""
    holders: Counter[tuple[int, int, int]] = Counter()
    for terms in sums.values():
        unique = sorted(set(terms), key=lambda t: t[1])
        for k, (s, a) in enumerate(unique):
            holders.update((a, b, s * r) for r, b in unique[k + 1 :])
    return {pair: n for pair, n in holders.items() if n > 1}


def _sum(graph, uses, terms, new, pairs) -> Expr:  # type: ignore[no-untyped-def]
    """Build one sum again: shared pairs first, then common factors, then the rest in order."""
    terms = list(terms)
    done: list[Expr] = []
    if pairs:
        # the pair held by most sums first; every sum makes the same choice, so the nodes are found again
        while True:
            options = [
                (pairs.get((min(a, b), max(a, b), s * r), 0), a, b)
                for k, (s, a) in enumerate(terms)
                for r, b in terms[k + 1 :]
                if a != b
            ]
            n, a, b = max(options, default=(0, 0, 0), key=lambda option: (option[0], -option[1], -option[2]))
            if n < 2:
                break
            pair = sorted((t for t in terms if t[1] in (a, b)), key=lambda t: t[1])
            if len(pair) != 2:
                break
            terms = [t for t in terms if t[1] not in (a, b)]
            (s, x), (r, y) = pair
            both = new(x) + new(y) if s == r else new(x) - new(y)
            done.append(both if s > 0 else -both)
    while True:
        factors: dict[int, list[tuple[Term, int]]] = defaultdict(list)
        for term in terms:
            key = graph.keys[term[1]]
            if key[0] == MUL and uses[term[1]] == 1 and not graph.constant[term[1]]:
                factors[key[1]].append((term, key[2]))
                if key[1] != key[2]:
                    factors[key[2]].append((term, key[1]))
        common = max(factors, default=None, key=lambda f: (len(factors[f]), -f))
        if common is None or len(factors[common]) < 2:
            break
        group = factors[common]
        taken = {term for term, _ in group}
        inside = graph.sum(new(other) if term[0] > 0 else -new(other) for term, other in group)
        done.append(new(common) * inside)
        terms = [t for t in terms if t not in taken]
    return graph.sum([*done, *(new(node) if sign > 0 else -new(node) for sign, node in terms)])
