# SPDX-License-Identifier: Apache-2.0

"""Single bugs in C++ files, for mutation.py: found in the text, tried by the tests that compile it.

The text is that of clang-format, so that a space on both sides tells an operator from a pointer or a template.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import yaml

FOLDERS = ("include", "src")
"""Top folders of C++ code."""
TESTS = ("test/runtime",)
"""What is run where nothing else is asked for: it needs a compiler alone."""
STRICT = ("-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
"""Flags of the tests: what they do not compile is no mutant."""
LIMIT_SECONDS = 300.0  # of real time, compiling included: a mutant that never ends is noticed
SILENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*', re.DOTALL | re.MULTILINE)
"""Comments, texts and lines of the preprocessor: they decide nothing."""
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")
EXCHANGED = {
    " + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " < ": " > ", " > ": " < ", " <= ": " >= ", " >= ": " <= ",
    " == ": " != ", " != ": " == ", " && ": " || ", " || ": " && ", " += ": " -= ", " -= ": " += ", " *= ": " /= ",
    "std::min": "std::max", "std::max": "std::min", "std::fabs": "", "std::sin": "std::cos", "std::cos": "std::sin",
    "lower": "upper", "upper": "lower", "true": "false", "false": "true", "++": "--",
}  # fmt: skip
"""What may stand for what; a word counts as a whole one, an underscore after it may belong to it."""
CALL_OR_ASSIGNMENT = re.compile(
    r"^ +(?!return\b|using\b|throw\b|const\b|auto\b)[\w.:>\[\]()*-]+?(?:\(| [-+*/]?= )[^{}]*?;$"
)
CHECK = re.compile(r"\bif \((?=.)")


@dataclass(frozen=True)
class CppMutant:
    """A file with one bug: a text at a place, and what stands there instead."""

    path: str
    place: int
    old: str
    new: str
    line: int
    bug: str


def is_cpp(package: str) -> bool:
    """Return whether this is the name of a folder or file of C++ code."""
    return package.split("/")[0] in FOLDERS


def files_of(place: Path, package: str, only: str = "") -> list[Path]:
    """Return the C++ files of a folder, or the one of that name, as paths from the checkout."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    top = place / package
    found = sorted(top.rglob("*.[ch]pp")) if top.is_dir() else [top]
    return [path.relative_to(place) for path in found if not names or path.stem in names]


def mutants_of(text: str, path: str) -> Iterator[CppMutant]:
    """Yield every mutant of a file; some of them do not compile."""
    code = SILENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)

    def mutant(start: int, end: int, new: str, bug: str) -> CppMutant:
        line = code[:start].count("\n") + 1
        shown = " ".join(text.splitlines()[line - 1].split())[:80]
        return CppMutant(path, start, text[start:end], new, line, f"{shown}: {bug}")

    for old, new in EXCHANGED.items():
        border = (r"(?<![\w])", r"(?=_?\b)") if old[0].isalpha() else ("", "")
        for found in re.finditer(border[0] + re.escape(old) + border[1], code):
            yield mutant(found.start(), found.end(), new, f"{old.strip()} is {new.strip() or 'dropped'}")
    for found in NUMBER.finditer(code):
        whole = found.group().isdigit()
        twice = 2 * float(found.group()) or 1.0
        new = str(int(twice)) if whole else repr(twice)
        yield mutant(found.start(), found.end(), new, f"{found.group()} is {new}")
    for found in re.finditer(r"!(?=[\w(])", code):
        yield mutant(found.start(), found.end(), "", "negation dropped")
    for found in CHECK.finditer(code):
        end = _closed(code, found.end())
        yield mutant(found.end(), end, f"false && ({text[found.end() : end]})", "never true")
    start = 0
    for line in code.splitlines(keepends=True):
        if CALL_OR_ASSIGNMENT.match(line.rstrip("\n")):
            yield mutant(start, start + len(line.rstrip("\n")), ";", "statement dropped")
        start += len(line)


def _closed(code: str, start: int) -> int:
    """Return where the bracket that was opened just before `start` is closed."""
    depth = 1
    for k in range(start, len(code)):
        depth += {"(": 1, ")": -1}.get(code[k], 0)
        if depth == 0:
            return k
    return len(code)


def written_mutants(place: Path, paths: list[Path], file: Path) -> list[CppMutant]:
    """Return the mutants of these files that a YAML file lists as {path, old, new}."""
    found = []
    for bug in yaml.safe_load(file.read_text(encoding="utf-8")):
        if Path(bug["path"]) not in paths:
            continue
        text = (place / bug["path"]).read_text(encoding="utf-8")
        old, new = bug["old"].rstrip("\n"), bug["new"].rstrip("\n")
        if text.count(old) != 1:
            raise SystemExit(f"{bug['path']} contains {text.count(old)} times, not once: {old}")
        start = text.index(old)
        line = text[:start].count("\n") + 1
        found.append(CppMutant(bug["path"], start, old, new, line, f"{old} -> {new}"))
    return found


@dataclass(frozen=True)
class Trial:
    """How mutants are tried: copies of the checkout, the environment of one, tests, and a command that builds."""

    copies: list[Path]
    environment: Callable[[Path], dict[str, str]]
    tests: tuple[str, ...]
    build: str = ""

    def notice(self, chosen: list[CppMutant], wanted: int, tell: Callable[[str], None]) -> tuple[int, int]:
        """Try mutants until `wanted` compiled; return how many did, and how many the tests noticed."""
        free: Queue[Path] = Queue()
        for place in self.copies:
            if self._run(place, []) != "survived":
                raise SystemExit(f"{' '.join(self.tests)} fail without a bug: nothing could be noticed")
            free.put(place)

        def one(mutant: CppMutant) -> str:
            place = free.get()
            file = place / mutant.path
            text = file.read_text(encoding="utf-8")
            file.write_text(
                text[: mutant.place] + mutant.new + text[mutant.place + len(mutant.old) :], encoding="utf-8"
            )
            try:
                return self._run(place, [mutant.path])
            finally:
                file.write_text(text, encoding="utf-8")
                free.put(place)

        compiled = noticed = 0
        rest = list(chosen)
        with ThreadPoolExecutor(len(self.copies)) as pool:
            while rest and compiled < wanted:
                batch, rest = rest[: wanted - compiled], rest[wanted - compiled :]
                for mutant, how in zip(batch, pool.map(one, batch), strict=True):
                    compiled += how != "does not compile"
                    noticed += how == "noticed"
                    if how == "survived":
                        tell(f"{mutant.path}:{mutant.line}: {mutant.bug} ({how})")
        return compiled, noticed

    def _run(self, place: Path, changed: list[str]) -> str:
        """Return how the tests of a copy ended: survived, noticed, or that the changed file does not compile."""
        environment = self.environment(place)
        for path in (path for path in changed if path.startswith("include")):
            line = ["g++", *STRICT, f"-I{place / 'include'}", "-include", str(place / path), "-x", "c++", os.devnull]
            if _fails(line, place, environment):
                return "does not compile"
        if self.build and _fails(shlex.split(self.build.replace("{}", str(place))), place, environment):
            return "does not compile"
        files = _including(place, self.tests, changed[0]) if changed else list(self.tests)
        if not files:
            return "survived"
        line = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *files]
        return "noticed" if _fails(line, place, environment) else "survived"


def _including(place: Path, tests: tuple[str, ...], path: str) -> list[str]:
    """Return the files of tests that can notice a bug in this file: those that compile a file that includes it.

    Code that is no header is built before: every test may notice.
    """
    if not path.startswith("include"):
        return list(tests)
    found = []
    for test in sorted(file for top in tests for file in (place / top).rglob("test_*.py")):
        text = test.read_text(encoding="utf-8")
        for source in (one for one in test.parent.glob("*.cpp") if one.name in text):
            line = ["g++", "-std=c++17", "-MM", f"-I{place / 'include'}", str(source)]
            listed = subprocess.run(line, capture_output=True, text=True).stdout
            if path in listed:
                found.append(test.relative_to(place).as_posix())
    return sorted(set(found))


def _fails(line: list[str], place: Path, environment: dict[str, str]) -> bool:
    """Run a command; return whether it failed or never ended. What it started ends with it."""
    silence = subprocess.DEVNULL
    process = subprocess.Popen(line, cwd=place, env=environment, stdout=silence, stderr=silence, start_new_session=True)
    try:
        return process.wait(LIMIT_SECONDS) != 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def random_mutants(place: Path, paths: list[Path], seed: int) -> list[CppMutant]:
    """Return every mutant of these files in random order."""
    every = [m for path in paths for m in mutants_of((place / path).read_text(encoding="utf-8"), path.as_posix())]
    random.Random(seed).shuffle(every)
    return every
