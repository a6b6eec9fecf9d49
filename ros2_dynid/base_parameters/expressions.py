# SPDX-License-Identifier: Apache-2.0

"""Base parameters as people write them: ZZR1 = ZZ1 + YY2 + 0.29 M3 + Ia1, as text and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.symbols import Polynomial
from ros2_dynid.model.parameters import KINDS, split_name

PolynomialCoefficients = Mapping[tuple[int, int], Polynomial]


def expression(
    base: BaseParameters, k: int, symbolic: PolynomialCoefficients | None = None, *, latex: bool = False
) -> str:
    """Return base parameter number k (from 0) as an equation; coefficients in `symbolic` as symbols, others as numbers.

    Parameters of a kind with equal coefficients share it: 0.2904 (M4 + M5 + M6).
    """
    name = _latex_name(base.names[k]) if latex else base.names[k]
    return f"{name} = {combination(base.terms(k), _of_row(base, k, symbolic or {}), latex=latex)}"


def combination(
    terms: Mapping[str, float], symbolic: Mapping[str, Polynomial] | None = None, *, latex: bool = False
) -> str:
    """Return a sum of parameters with coefficients, the first one first, the others by kind, size and joint."""
    symbolic = symbolic or {}
    if not terms:
        return "0"
    first, *rest = terms
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name in [first, *sorted(rest, key=lambda name: _place(name, terms[name]))]:
        sign, factor = _factor(terms[name], symbolic.get(name), latex)
        key = (sign, factor, split_name(name)[0] if factor else name)
        groups.setdefault(key, []).append(name)
    text = ""
    for (sign, factor, _), names in groups.items():
        texts = [_latex_name(name) if latex else name for name in names]
        sum_text = texts[0] if len(texts) == 1 else f"({' + '.join(texts)})"
        term = f"{factor} {sum_text}" if factor else sum_text
        text += (f" {sign} " if text else "-" if sign == "-" else "") + term
    return text


def _of_row(base: BaseParameters, k: int, symbolic: PolynomialCoefficients) -> dict[str, Polynomial]:
    return {base.standard_names[column]: poly for (row, column), poly in symbolic.items() if row == k}


def _place(name: str, coefficient: float) -> tuple[int, float, int]:
    """Return where a term stands: by kind, larger coefficients first, then by joint."""
    kind, number = split_name(name)
    return KINDS.index(kind), -float(f"{abs(coefficient):.9g}"), number


def _factor(coefficient: float, polynomial: Polynomial | None, latex: bool) -> tuple[str, str]:
    """Return sign and factor of a term; the factor is empty for 1."""
    if polynomial is not None:
        return _polynomial(polynomial, latex)
    sign = "-" if coefficient < 0.0 else "+"
    size = f"{abs(coefficient):.9g}"
    if size == "1":
        return sign, ""
    if latex and "e" in size:
        mantissa, exponent = size.split("e")
        size = rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
    return sign, size


def _polynomial(polynomial: Polynomial, latex: bool) -> tuple[str, str]:
    """Return sign and text of a polynomial, in brackets if it has several terms.

    Higher degrees and positive terms come first: (R4^2 - D4^2).
    """
    monomials = sorted(polynomial.terms.items(), key=lambda item: (-len(item[0]), item[1] < 0.0, item[0]))
    parts = [_monomial(monomial, coefficient, latex) for monomial, coefficient in monomials]
    if len(parts) == 1:
        return parts[0]
    flip = all(sign == "-" for sign, _ in parts)
    signs = ["+" if flip else sign for sign, _ in parts]
    text = ("-" if signs[0] == "-" else "") + parts[0][1]
    for sign, (_, part) in zip(signs[1:], parts[1:], strict=True):
        text += f" {sign} {part}"
    return ("-" if flip else "+"), f"({text})"


def _monomial(monomial: tuple[str, ...], coefficient: float, latex: bool) -> tuple[str, str]:
    """Return sign and text of a monomial with its coefficient: ("+", "2 R3"), ("-", "D3^2")."""
    sign = "-" if coefficient < 0.0 else "+"
    size = f"{abs(coefficient):.9g}"
    factors = [] if size == "1" and monomial else [size]
    for symbol in dict.fromkeys(monomial):
        power = monomial.count(symbol)
        symbol_text = _latex_name(symbol) if latex else symbol
        factors.append(f"{symbol_text}^{power}" if power > 1 else symbol_text)
    return sign, " ".join(factors)


def _latex_name(name: str) -> str:
    """Return a name with its number as an index, several letters in one italic word: M_{4}, \\mathit{ZZR}_{1}."""
    letters = name.rstrip("0123456789")
    number = name[len(letters) :]
    if not letters:
        return name
    letters = letters.replace("_", r"\_")
    body = letters if len(letters) == 1 else rf"\mathit{{{letters}}}"
    return f"{body}_{{{number}}}" if number else body


def align(equations: Iterable[str]) -> str:
    """Return LaTeX equations as an align environment, aligned at the equals signs."""
    lines = [equation.replace(" = ", " &= ", 1) for equation in equations]
    return "\\begin{align}\n" + " \\\\\n".join(lines) + "\n\\end{align}\n"
