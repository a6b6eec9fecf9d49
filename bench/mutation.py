"""Put single bugs into the code, one at a time, and see whether the tests of that package notice them.

    ./dynid python bench/mutation.py control excitation [--mutants 40] [--seed 0] [--only limits,collision]

A mutant is a copy of the package with one plausible bug: a sign flipped, a term or a check dropped, a bound turned
round, `and` for `or`, the wrong axis or index, a constant doubled. Which tests execute a line is measured once
(coverage), so that a mutant is only run against the tests that can notice it; a line that no test executes is a
survivor without a run. Printed are the share noticed for each package, and the survivors with their places.

A survivor is a question, not yet a fault: some mutants change nothing that anybody could observe (a tolerance that
is never met, a faster way to the same answer). Look at each, and write the test that was missing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import coverage
from rich.console import Console
from rich.progress import track
from rich.table import Table

TOP = Path(__file__).resolve().parents[1]
PACKAGE = "ros2_dynid"
LIMIT_SECONDS = 300  # a mutant that never ends is noticed
FEW = 40  # more tests than these are run as the whole folder

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
EXCHANGED = {
    "min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil", "lower": "upper",
    "first": "last", "sin": "cos", "cumsum": "asarray", "zeros": "ones",
}  # fmt: skip
EXCHANGED |= {there: here for here, there in EXCHANGED.items() if here != "cumsum"}
DROPPED = {"abs", "clip", "maximum", "minimum", "diff", "sqrt", "radians", "deg2rad", "copy"}


@dataclass(frozen=True)
class Mutant:
    """A module with one bug: where it is, what it is, and the numbers of the node and of its kind of bug."""

    path: str
    line: int
    statement: int
    bug: str
    node: int
    kind: int


def main() -> None:
    """Run random mutants of the packages named, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", help=f"folders of {PACKAGE}/ with tests in the folder of that name")
    parser.add_argument("--mutants", type=int, default=40, help="how many for each package (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants (default: 0)")
    parser.add_argument("--only", default="", help="modules, separated by commas: mutants of these only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    args = parser.parse_args()
    console = Console()
    table = Table("package", "mutants", "noticed", "share", "not executed")
    survivors: list[tuple[Mutant, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for package in args.packages:
            executed = executing_tests(package, Path(scratch))
            every = [m for path in modules(package, args.only) for m in mutants(path)]
            chosen = random.Random(args.seed).sample(every, min(args.mutants, len(every)))
            ended = run(chosen, package, executed, args.workers, Path(scratch), console)
            survivors += [(mutant, how) for mutant, how in ended if how]
            noticed = sum(not how for _, how in ended)
            silent = sum(how == "not executed" for _, how in ended)
            table.add_row(package, str(len(ended)), str(noticed), f"{noticed / max(len(ended), 1):.0%}", str(silent))
    for mutant, how in survivors:
        console.print(f"{mutant.path}:{mutant.line}: {mutant.bug} ({how})", highlight=False, markup=False)
    console.print(table)


def modules(package: str, only: str) -> list[Path]:
    """Return the modules of the package, as paths from the checkout."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    found = sorted(path.relative_to(TOP) for path in (TOP / PACKAGE / package).rglob("*.py"))
    return [path for path in found if path.name != "__init__.py" and (not names or path.stem in names)]


# --- mutants


def mutants(path: Path) -> list[Mutant]:
    """Return every mutant of a module."""
    found = []
    for k, (node, statement) in enumerate(_code(ast.parse((TOP / path).read_text(encoding="utf-8")), 0)):
        found += [Mutant(path.as_posix(), getattr(node, "lineno", statement), statement, bug, k, put)
                  for put, (bug, _) in enumerate(_bugs(node))]  # fmt: skip
    return found


def mutated(mutant: Mutant) -> str:
    """Return the source of the module with the bug in it."""
    tree = ast.parse((TOP / mutant.path).read_text(encoding="utf-8"))
    node, _ = list(_code(tree, 0))[mutant.node]
    list(_bugs(node))[mutant.kind][1]()
    return ast.unparse(tree)


def _code(node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, int]]:
    """Yield the nodes below that are executed and that decide something, each with the line of its statement.

    What only tells something (docstrings, messages, assertions) is left out.
    """
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.expr | ast.stmt | ast.keyword | ast.comprehension | ast.arguments):
                continue
            if isinstance(child, ast.Assert | ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            line = child.lineno if isinstance(child, ast.stmt) else statement
            yield child, line
            yield from _code(child, line)


def _bugs(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the bugs that this node can have: words, and a function that puts the bug in."""
    text = ast.unparse(node).partition("\n")[0][:60]

    def change(**fields: object) -> Callable[[], None]:
        return lambda: node.__dict__.update(fields)

    def become(other: ast.AST) -> Callable[[], None]:
        def put() -> None:
            node.__class__ = other.__class__  # type: ignore[assignment]
            node.__dict__.update(other.__dict__)

        return put

    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and not isinstance(node.left, ast.Constant | ast.Tuple):
        yield f"{text}: operator turned round", change(op=SWAPPED[type(node.op)]())
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield f"{text}: last term dropped", change(op=ast.Add(), right=ast.Constant(0))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield f"{text}: sign dropped", change(op=ast.UAdd())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield f"{text}: comparison turned round", change(ops=[SWAPPED[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BoolOp):
        yield f"{text}: and for or", change(op=SWAPPED[type(node.op)]())
        yield f"{text}: last condition dropped", change(values=node.values[:-1] + node.values[:1])
    if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue | ast.Break):
        yield f"if {ast.unparse(node.test)[:60]}: check dropped", change(test=ast.Constant(False))
    if isinstance(node, ast.IfExp):
        yield f"{text}: other branch", change(body=node.orelse, orelse=node.body)
    if isinstance(node, ast.AugAssign) and type(node.op) in SWAPPED:
        yield f"{text}: operator turned round", change(op=SWAPPED[type(node.op)]())
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in EXCHANGED and isinstance(node.func, ast.Attribute):
            yield f"{text}: {EXCHANGED[name]}", change(func=ast.Attribute(node.func.value, EXCHANGED[name], ast.Load()))
        elif name in EXCHANGED and name in {"min", "max", "any", "all"}:
            yield f"{text}: {EXCHANGED[name]}", change(func=ast.Name(EXCHANGED[name], ast.Load()))
        if name in DROPPED and len(node.args) >= 1:
            yield f"{text}: {name} dropped", change(func=ast.Name("__import__('numpy').asarray"), args=node.args[:1])
    if isinstance(node, ast.keyword) and node.arg == "axis" and isinstance(node.value, ast.Constant):
        yield f"{text}: wrong axis", change(value=ast.Constant(1 - node.value.value if node.value.value != -1 else 0))
    if isinstance(node, ast.Attribute) and node.attr in {"lower", "upper"} and isinstance(node.ctx, ast.Load):
        yield f"{text}: the other limit", change(attr=EXCHANGED[node.attr])
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and not isinstance(node.value, bool):
        value = node.value
        yield f"constant {text}: {2 * value if value else 1}", change(value=2 * value if value else 1)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{text}: statement dropped", become(ast.Pass())


# --- which tests execute which line


def executing_tests(package: str, scratch: Path) -> dict[str, dict[int, list[str]]]:
    """Return the tests that execute each line of each module, by file and name; "" stands for outside of a test."""
    data = scratch / f"coverage-{package}"
    config = scratch / "coveragerc"
    config.write_text(f"[run]\ndata_file = {data}\nsource = {PACKAGE}\ndynamic_context = test_function\n")
    line = ["coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    subprocess.run([sys.executable, "-m", *line, f"test/{package}"], cwd=TOP, check=True)
    found = coverage.CoverageData(str(data))
    found.read()
    return {
        Path(name).resolve().relative_to(TOP).as_posix(): found.contexts_by_lineno(name)
        for name in found.measured_files()
    }


def _tests_of(mutant: Mutant, package: str, executed: dict[str, dict[int, list[str]]]) -> list[str]:
    lines = executed.get(mutant.path, {})
    contexts = lines.get(mutant.line) or lines.get(mutant.statement, [])
    tests = [tuple(context.rsplit(".", 2)[-2:]) for context in contexts if context]
    if "" in contexts or len(tests) > FEW:  # executed by an import or a fixture: any test may notice
        return [f"test/{package}"]
    return [f"test/{package}/{module}.py::{name}" for module, name in tests]


# --- runs


def run(
    chosen: list[Mutant],
    package: str,
    executed: dict[str, dict[int, list[str]]],
    workers: int,
    scratch: Path,
    console: Console,
) -> list[tuple[Mutant, str]]:
    """Return each mutant with how it survived, "" for one that was noticed."""
    copies: Queue[Path] = Queue()
    for k in range(workers):
        place = scratch / f"{package}-{k}" / "checkout"
        leave_out = shutil.ignore_patterns(".git", ".dynid", "__pycache__", ".*_cache")
        shutil.copytree(TOP, place, ignore=leave_out)
        shared = TOP.parent / "shared"
        if shared.exists():
            (place.parent / "shared").symlink_to(shared)
        copies.put(place)

    def one(mutant: Mutant) -> tuple[Mutant, str]:
        place = copies.get()
        try:
            return mutant, _survived(mutant, _tests_of(mutant, package, executed), place)
        finally:
            copies.put(place)

    with ThreadPoolExecutor(workers) as pool:
        return list(track(pool.map(one, chosen), package, len(chosen), console=console))


def _survived(mutant: Mutant, tests: list[str], place: Path) -> str:
    if not tests:
        return "not executed"
    file = place / mutant.path
    original = file.read_bytes()
    paths = os.environ.get("PYTHONPATH", "").replace(str(TOP), str(place))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    line = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    file.write_text(mutated(mutant), encoding="utf-8")
    try:
        ended = subprocess.run(
            line,
            cwd=place,
            env=environment,
            timeout=LIMIT_SECONDS,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return ""
    finally:
        file.write_bytes(original)
    return "survived" if ended.returncode == 0 else ""


if __name__ == "__main__":
    main()
