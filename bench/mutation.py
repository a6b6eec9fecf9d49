# SPDX-License-Identifier: Apache-2.0

"""Put single bugs into the code, one at a time, and see whether the tests notice them.

    ./dynid python bench/mutation.py control excitation [--mutants 40] [--seed 0] [--only limits,collision]
    ./dynid python bench/mutation.py control --bugs FILE

A mutant is a copy of the package with one plausible bug: a sign flipped, a term or a check dropped, a bound turned
round, `and` for `or`, the wrong axis or index, a constant doubled. Which tests execute a line is measured once
(coverage) and kept until test or package change, so that a mutant is only run against the tests that can notice it,
the quickest first; a line that no test executes is a survivor without a run. Counted are the tests in the folder of the
package's name, and with --wide those of every other file that names the package too (test/nodes, test/docs and what
builds or installs something are left out: slow, or dependent on the machine's load). Printed are the survivors with
their places, as they are found, and the share noticed for each package. Each worker is one process that has imported
the libraries and forks for each mutant.

With --bugs the bugs are those of a YAML file instead, a list of {path, old, new}: a module (as in control/stop.py), a
text that occurs once in it, and what stands there instead.

C++ code is named by its folder or file, as in include or include/ros2_dynid/effort_law.hpp. Its mutants are changes of
the text that compile without a warning; each is tried by test/runtime, or by the tests given, which compile it. What
those need built, such as the controllers, --build builds in the copy, with {} for the copy's folder.

A survivor is a question, not yet a fault: some mutants change nothing that anybody could observe (a tolerance that
is never met, a faster way to the same answer). Look at each, and write the test that was missing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import coverage
import pytest
import yaml
from rich.console import Console
from rich.table import Table

import cpp_mutants

TOP = Path(__file__).resolve().parents[1]
PACKAGE = "ros2_dynid"
LIMIT_SECONDS = 30.0  # of CPU, and five times what its tests take: a mutant that never ends is noticed
COLLECT_SECONDS = 300.0  # of CPU: what collecting every test may take, with all that the files import
PATIENCE = 10.0
"""Real time over that limit: a busy machine is no bug, a test that waits for ever is one."""
LEFT_OUT = {"nodes", "docs", "bootstrap", "controllers", "runtime", "support"}
"""Folders of tests that are not counted, unless they are the package's own."""
KEPT = TOP / ".dynid" / "mutation"
"""Where measured coverage is kept."""
LIBRARIES = (
    "numpy",
    "scipy.optimize",
    "scipy.signal",
    "scipy.spatial",
    "scipy.stats",
    "scipy.sparse",
    "yaml",
    "hypothesis",
    "rich.console",
    "matplotlib.figure",
    "mujoco",
    "pinocchio",
    "clarabel",
    "trimesh",
    "rosbags.rosbag2",
)
"""What a worker imports before it forks, where it is there."""

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
    """A module with one bug: where it is, what it is, and the numbers of the node and of its kind of bug.

    A bug that was written by hand has the new text of its module instead.
    """

    path: str
    line: int
    statement: int
    bug: str
    node: int = -1
    kind: int = -1
    text: str = ""


def main() -> None:
    """Run random mutants of the packages named, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "packages", nargs="+", help=f"folders or modules of {PACKAGE}/, or folders and files of C++ code"
    )
    parser.add_argument("--mutants", type=int, default=40, help="how many for each package (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants (default: 0)")
    parser.add_argument("--only", default="", help="modules, separated by commas: mutants of these only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--wide", action="store_true", help="count the tests of other folders that name the package")
    parser.add_argument("--bugs", type=Path, help="YAML file of bugs written by hand, instead of random ones")
    parser.add_argument("--tests", default="", help="count these files and folders of tests instead")
    parser.add_argument("--build", default="", help="command that builds what the tests of C++ code need")
    if sys.argv[1:] == ["--worker"]:
        worker()
        return
    args = parser.parse_args()
    console = Console(width=160)
    table = Table("package", "mutants", "noticed", "share", "not executed")
    with tempfile.TemporaryDirectory() as scratch:
        copies = [checkout_copy(Path(scratch) / str(k)) for k in range(args.workers)]
        for package in args.packages:
            if cpp_mutants.is_cpp(package):
                table.add_row(package, *try_cpp(package, copies, args, console), "")
                continue
            files = test_files(copies[0], package, args.wide, args.tests)
            executed = executing_tests(files, copies[0], package)
            paths = modules(copies[0], package, args.only)
            if args.bugs:
                chosen = written_mutants(copies[0], paths, args.bugs)
            else:
                every = [mutant for path in paths for mutant in mutants(copies[0], path)]
                chosen = random.Random(args.seed).sample(every, min(args.mutants, len(every)))
            ended = run(chosen, executed, copies, console)
            noticed = sum(not how for how in ended)
            silent = sum(how == "not executed" for how in ended)
            table.add_row(package, str(len(ended)), str(noticed), f"{noticed / max(len(ended), 1):.0%}", str(silent))
    console.print(table)


def try_cpp(package: str, copies: list[Path], args: argparse.Namespace, console: Console) -> tuple[str, str, str]:
    """Try mutants of C++ code; return how many there were, how many were noticed, and their share."""
    paths = cpp_mutants.files_of(copies[0], package, args.only)
    if args.bugs:
        chosen = cpp_mutants.written_mutants(copies[0], paths, args.bugs)
    else:
        chosen = cpp_mutants.random_mutants(copies[0], paths, args.seed)
    tests = tuple(args.tests.split(",")) if args.tests else cpp_mutants.TESTS
    trial = cpp_mutants.Trial(copies, environment, tests, args.build)
    wanted = len(chosen) if args.bugs else args.mutants
    tried, noticed = trial.notice(chosen, wanted, lambda line: console.print(line, highlight=False, markup=False))
    return str(tried), str(noticed), f"{noticed / max(tried, 1):.0%}"


def modules(place: Path, package: str, only: str = "") -> list[Path]:
    """Return the modules of the package, or the one of that name, in a checkout, as paths from there."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    top = place / PACKAGE / package
    found = sorted(
        path.relative_to(place) for path in (top.rglob("*.py") if top.is_dir() else [top.with_suffix(".py")])
    )
    return [path for path in found if path.name != "__init__.py" and (not names or path.stem in names)]


def test_files(place: Path, package: str, wide: bool, given: str) -> list[str]:
    """Return the files of tests that are counted, as paths from the checkout."""
    tops = [place / name for name in given.split(",")] if given else [place / "test" / package]
    found = {file for top in tops for file in (top.rglob("test_*.py") if top.is_dir() else [top]) if file.exists()}
    if wide and not given:
        name = f"{PACKAGE}.{package}".replace("/", ".")
        rest = (file for file in (place / "test").rglob("test_*.py") if file.parent.name not in LEFT_OUT)
        found |= {file for file in rest if name in file.read_text(encoding="utf-8")}
    return sorted(file.relative_to(place).as_posix() for file in found)


# --- mutants


def mutants(place: Path, path: Path) -> list[Mutant]:
    """Return every mutant of a module."""
    found = []
    for k, (node, statement) in enumerate(_code(ast.parse((place / path).read_text(encoding="utf-8")), 0)):
        found += [Mutant(path.as_posix(), getattr(node, "lineno", statement), statement, bug, k, put)
                  for put, (bug, _) in enumerate(_bugs(node))]  # fmt: skip
    return found


def written_mutants(place: Path, paths: list[Path], file: Path) -> list[Mutant]:
    """Return the mutants of these modules that a file lists."""
    found = []
    for bug in yaml.safe_load(file.read_text(encoding="utf-8")):
        path = Path(PACKAGE) / bug["path"]
        if path not in paths:
            continue
        old, new = bug["old"].rstrip("\n"), bug["new"].rstrip("\n")
        source = (place / path).read_text(encoding="utf-8")
        if source.count(old) != 1:
            raise SystemExit(f"{path} contains {source.count(old)} times, not once: {old}")
        text = source.replace(old, new)
        ast.parse(text)
        line = source[: source.index(old)].count("\n") + 1
        statements = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
        around = max(node.lineno for node in statements if node.lineno <= line <= (node.end_lineno or line))
        found.append(Mutant(path.as_posix(), line, around, f"{old} -> {new}", text=text))
    return found


def mutated(source: bytes, mutant: Mutant) -> str:
    """Return the source of the module with the bug in it."""
    if mutant.text:
        return mutant.text
    tree = ast.parse(source)
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
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
                continue  # -1 and -2 mean the same
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
    axis = node.value if isinstance(node, ast.keyword) and node.arg == "axis" else None
    if isinstance(axis, ast.Constant) and isinstance(axis.value, int):
        yield f"{text}: wrong axis", change(value=ast.Constant(0 if axis.value == 1 else 1))
    if isinstance(node, ast.Attribute) and node.attr in {"lower", "upper"} and isinstance(node.ctx, ast.Load):
        yield f"{text}: the other limit", change(attr=EXCHANGED[node.attr])
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield f"constant {text}: {2 * value if value else 1}", change(value=2 * value if value else 1)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield f"{text}: statement dropped", become(ast.Pass())


# --- which tests execute which line


@dataclass(frozen=True)
class Executed:
    """The tests: seconds by node id, quickest first, and what executes each line of each module.

    What executes a line is a test, or a file of tests whose fixtures do so, or "" for an import.
    """

    seconds: dict[str, float]
    contexts: dict[str, dict[int, set[str]]]

    def tests_of(self, mutant: Mutant) -> list[list[str]]:
        """Return the tests that may notice the mutant, the quickest first; then others, in case something is cached.

        Whether a constant is used cannot be seen from its line: any test that executes the module may notice.
        """
        lines = self.contexts.get(mutant.path, {})
        contexts = lines.get(mutant.line) or lines.get(mutant.statement, set())
        if "" in contexts:
            contexts = set().union(*lines.values())
            if contexts == {""}:
                return [list(self.seconds)]
        near = [test for test in self.seconds if test in contexts or test.partition("::")[0] in contexts]
        files = {test.partition("::")[0] for test in near}
        return [near, [test for test in self.seconds if test.partition("::")[0] in files and test not in set(near)]]


def checkout_copy(folder: Path) -> Path:
    """Copy the checkout without its environment, and return the copy."""
    place = folder / "checkout"
    leave_out = shutil.ignore_patterns(".git", ".dynid", "__pycache__", ".*_cache")
    shutil.copytree(TOP, place, ignore=leave_out)
    shared = TOP.parent / "shared"
    if shared.exists():
        (folder / "shared").symlink_to(shared)
    return place


def environment(place: Path) -> dict[str, str]:
    """Return the environment in which Python imports the package of this copy."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [str(place), *(path for path in given if path != str(TOP))]  # not those below: generated messages stay
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}


CONTEXTS = """
import coverage, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    coverage.Coverage.current().switch_context(item.nodeid.partition("::")[0])

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    coverage.Coverage.current().switch_context(item.nodeid.partition("[")[0])

@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    coverage.Coverage.current().switch_context("")
"""


def executing_tests(files: list[str], place: Path, package: str) -> Executed:
    """Return what the tests execute, measured without a bug if not known yet. A test that fails is left out."""
    sources = b"".join((place / path).read_bytes() for path in modules(place, package))
    kept = {
        file: KEPT / (hashlib.sha256(sources + file.encode() + (place / file).read_bytes()).hexdigest()[:32] + ".json")
        for file in files
    }
    new = [file for file in files if not kept[file].exists()]
    if new:
        measured = measure(new, place, package)
        KEPT.mkdir(parents=True, exist_ok=True)
        for file in new:
            times = {test: s for test, s in measured.seconds.items() if test.startswith(file + "::")}
            lines = [
                (path, line, [c for c in contexts if c.partition("::")[0] in ("", file)])
                for path, by_line in measured.contexts.items()
                for line, contexts in by_line.items()
            ]
            kept[file].write_text(json.dumps([times, lines]))
    seconds: dict[str, float] = {}
    contexts: dict[str, dict[int, set[str]]] = {}
    for file in files:
        quick, lines = json.loads(kept[file].read_text())
        seconds |= quick
        for path, line, found in lines:
            contexts.setdefault(path, {}).setdefault(line, set()).update(found)
    return Executed(dict(sorted(seconds.items(), key=lambda pair: pair[1])), contexts)


def measure(files: list[str], place: Path, package: str) -> Executed:
    """Run the tests once without a bug."""
    data, config, times = (place.parent / name for name in ("coverage", "coveragerc", "times.xml"))
    (place.parent / "mutation_contexts.py").write_text(CONTEXTS)
    included = [str(place / path) for path in modules(place, package)]
    config.write_text(f"[run]\ndata_file = {data}\ninclude =\n" + "".join(f"    {path}\n" for path in included))
    data.unlink(missing_ok=True)
    line = ["coverage", "run", f"--rcfile={config}", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    line += ["-p", "mutation_contexts", f"--junitxml={times}", "-o", "junit_family=xunit1", "-n", "0"]
    env = environment(place)
    env["PYTHONPATH"] += os.pathsep + str(place.parent)
    subprocess.run([sys.executable, "-m", *line, *files], cwd=place, env=env, check=False, stdout=sys.stderr)
    seconds: dict[str, float] = {}
    failed = set()
    for case in ElementTree.parse(times).iter("testcase"):
        node = f"{case.attrib['file']}::{case.attrib['name'].partition('[')[0]}"
        seconds[node] = seconds.get(node, 0.0) + float(case.attrib["time"])
        if case.find("failure") is not None or case.find("error") is not None:
            failed.add(node)
    found = coverage.CoverageData(str(data))
    found.read()
    contexts = {
        Path(name).resolve().relative_to(place.resolve()).as_posix(): {
            line: set(by) for line, by in found.contexts_by_lineno(name).items()
        }
        for name in found.measured_files()
    }
    return Executed({test: time for test, time in seconds.items() if test not in failed}, contexts)


# --- runs


def run(chosen: list[Mutant], executed: Executed, copies: list[Path], console: Console) -> list[str]:
    """Return for each mutant how it survived, "" for one that was noticed."""
    free: Queue[tuple[Path, subprocess.Popen[str]]] = Queue()
    started = []
    for place in copies:
        line = [sys.executable, str(Path(__file__).resolve()), "--worker"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(line, cwd=place, env=environment(place), stdin=pipe, stdout=pipe, text=True)
        started.append(process)
        if not _answer(process, ["--collect-only", *executed.seconds], COLLECT_SECONDS):
            raise SystemExit("pytest does not find the tests by their names: nothing could be noticed")
        free.put((place, process))

    def one(mutant: Mutant) -> str:
        stages = executed.tests_of(mutant)
        if not stages[0]:
            return "not executed"
        place, process = free.get()
        file = place / mutant.path
        original = file.read_bytes()
        file.write_text(mutated(original, mutant), encoding="utf-8")
        try:
            for tests in filter(None, stages):
                limit = LIMIT_SECONDS + 5 * sum(executed.seconds[test] for test in tests)
                if not _answer(process, tests, limit):
                    return ""
            return "survived"
        finally:
            file.write_bytes(original)
            free.put((place, process))

    def told(pair: tuple[int, Mutant]) -> str:
        k, mutant = pair
        how = one(mutant)
        if how:
            line = f"{k + 1}/{len(chosen)} {mutant.path}:{mutant.line}: {mutant.bug} ({how})"
            console.print(line, highlight=False, markup=False)
        return how

    try:
        with ThreadPoolExecutor(len(copies)) as pool:
            return list(pool.map(told, enumerate(chosen)))
    finally:
        for process in started:
            process.communicate("\n")


def _answer(process: subprocess.Popen[str], tests: list[str], limit: float) -> str:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps([limit, tests]) + "\n")
    process.stdin.flush()
    code = int(process.stdout.readline())
    return "survived" if code == 0 else ""


def worker() -> None:
    """Read limits and tests from standard input, run each in a fork, and print what pytest returned."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        if not line.strip():
            return
        limit, tests = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
            os._exit(int(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests])))
        print(_ended(child, time.monotonic() + PATIENCE * limit), flush=True)


def _ended(child: int, until: float) -> int:
    """Return the exit code of the child, -1 for one that had to be ended."""
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


if __name__ == "__main__":
    main()
