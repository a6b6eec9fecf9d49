# SPDX-License-Identifier: Apache-2.0

"""The base parameters as tables for a spreadsheet (CSV) and for a paper (LaTeX)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from ros2_dynid.report.page_data import BaseTableRow


def csv_table(rows: Sequence[BaseTableRow]) -> str:
    """Return rows of base parameters as CSV with a header; numbers in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = ("name", "value", "std", "relative_std_percent", "unit", "a_priori", "essential", "expression", "served")
    writer.writerow(titles)
    for row in rows:
        values = (row.name, row.value, row.std, row.percent, row.unit, row.prior, row.essential, row.expression)
        writer.writerow(["" if value is None else value for value in (*values, row.served)])
    return text.getvalue()


def latex_table(rows: Sequence[BaseTableRow], caption: str) -> str:
    """Return rows of base parameters as a LaTeX table (booktabs) with values, standard deviations and expressions."""
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escape(caption)}}}",
        r"\begin{tabular}{lrrrl}",
        r"\toprule",
        r"parameter & value & std & rel. std [\%] & expression \\",
        r"\midrule",
    ]
    for row in rows:
        cells = (_symbol(row.name), _number(row.value), _number(row.std), _number(row.percent, 3))
        lines.append(" & ".join((*cells, _expression(row.expression))) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _symbol(name: str) -> str:
    """Return a parameter's name as mathematics: ZZR1 becomes $ZZR_{1}$."""
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    return rf"$\mathit{{{match[1]}}}_{{{match[2]}}}$" if match else _escape(name)


def _expression(text: str) -> str:
    return re.sub(r"([A-Za-z]+)(\d+)", lambda m: rf"$\mathit{{{m[1]}}}_{{{m[2]}}}$", _escape(text).replace("*", r"\,"))


def _number(value: float | None, digits: int = 4) -> str:
    if value is None:
        return "--"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    return rf"${mantissa}\cdot 10^{{{int(exponent)}}}$" if exponent else f"${text}$"


def _escape(text: str) -> str:
    """Return text that LaTeX prints as it is: names come from unchecked files."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
