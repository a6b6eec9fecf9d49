# SPDX-License-Identifier: Apache-2.0

"""CSV logs with a header, some megabytes at a time: `time` and NAME.position, .velocity, .acceleration, .effort."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError, Note, Option, Text, damage
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.samples import FIELDS, TIME_UNITS, Samples, missing_joint, samples_of, shortened
from ros2_dynid.recording.table.column_map import assign_columns
from ros2_dynid.recording.table.presets import AUTO, choose_preset, preset_columns

MAX_LINE = 4 << 20
READ_BYTES = 8 << 20
MAX_COLUMNS = 20_000


def iter_csv(
    path: Path,
    joint_names: Sequence[str] | None,
    columns: Mapping[str, str],
    notes: list[Note],
    timeless: bool = False,
    log_format: str = AUTO,
) -> Iterator[Samples]:
    """Yield these joints (None: all that the header names) in pieces; append remarks to `notes`.

    timeless: without a column of time the times are 0. log_format: whose log it is (presets.py).
    """
    source = str(path)
    blocks = read_lines(path)
    first_lines = next(blocks, [])
    header, delimiter, skipped = read_header(first_lines, source, numbered=_are_numbers(columns.values()))
    preset = choose_preset(log_format, header, source)
    time_scale = 1.0
    if preset is not None:
        columns = preset_columns(preset, header, joint_names) | dict(columns)
        time_scale = TIME_UNITS[preset.time_unit]
    time, signals = assign_columns(header, joint_names, columns, source)
    if time is None and not timeless:
        hint = Text("map it: ", Option("columns", {"time": "HEADER"}), ", or give the rate [Hz]: ", Option("rate"))
        raise InputError(f"no column is called time; the header has {shortened(header)}", hint, source)
    names = tuple(dict.fromkeys(joint for _, joint in signals)) if joint_names is None else tuple(joint_names)
    missing = [name for name in names if ("q", name) not in signals]
    if missing:
        raise missing_joint(missing, list(dict.fromkeys(joint for _, joint in signals)), source)
    places = [(field, joint) for field in FIELDS for joint in names if (field, joint) in signals]
    use = [signals[places[0]] if time is None else time, *(signals[place] for place in places)]
    decimal_comma = delimiter == ";" and any("," in line for line in first_lines[skipped : skipped + 5])
    number = skipped
    first_row = next((line for line in first_lines[skipped:] if line.strip()), "")
    cells = min(len(header), len(_cells(first_row, delimiter))) if first_row else len(header)
    lines: list[str] | None = first_lines[skipped:]
    while lines is not None:
        following = next(blocks, None)
        if following is None and lines and len(_cells(lines[-1], delimiter)) < cells:
            notes.append(damage("the last line is cut and was left out"))
            lines = lines[:-1]
        if decimal_comma:
            lines = [line.replace(",", ".") for line in lines]
        values = read_numbers(lines, delimiter, use, header, number, source)
        values[:, 0] *= 0.0 if time is None else time_scale
        yield _of_columns(values, places, names, source)
        number += len(lines)
        lines = following


def _of_columns(values: Array, places: list[tuple[str, str]], names: tuple[str, ...], source: str) -> Samples:
    """Return the samples of a block of numbers: time, then the (field, joint) of each place."""
    arrays: dict[str, Array] = {}
    column_of = {name: k for k, name in enumerate(names)}
    for column, (field, joint) in enumerate(places, start=1):
        if field not in arrays:
            arrays[field] = np.full((len(values), len(names)), np.nan)
        arrays[field][:, column_of[joint]] = values[:, column]
    return samples_of(values[:, 0].copy(), names, arrays, source)


def read_lines(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a file, some megabytes at a time, so that its size does not matter."""
    rest = b""
    with path.open("rb") as stream:
        while True:
            data = stream.read(READ_BYTES)
            block, newline, tail = (rest + data).rpartition(b"\n")
            if not data:
                block, tail = rest, b""
            elif not newline:
                block, tail = b"", rest + data
            if len(tail) > MAX_LINE or any(len(line) > MAX_LINE for line in block.splitlines()[:1]):
                raise InputError(f"a line is longer than {MAX_LINE} bytes", "give a CSV text file", str(path))
            if b"\0" in block:
                raise InputError("this is not a text file", "save it as CSV in UTF-8", str(path))
            if block:
                yield block.decode("utf-8-sig", "replace").splitlines()
            rest = tail
            if not data:
                return


def _cells(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else line.rstrip("\r\n").split(delimiter)


def _are_numbers(columns: Collection[str]) -> bool:
    """Return whether a column map names all columns by number: #1 is the first."""
    return bool(columns) and all(name.startswith("#") and name[1:].isdecimal() for name in columns)


def read_header(lines: list[str], source: str, *, numbered: bool = False) -> tuple[list[str], str, int]:
    """Return the column names, the delimiter and the number of lines before the first row of numbers.

    numbered: the columns are called #1, #2, ..., and a table needs no header.
    """
    comment: list[str] = []
    for number, line in enumerate(lines[:1000], start=1):
        text = line.strip()
        if not text:
            continue
        delimiter = max((",", ";", "\t"), key=text.count)
        if not text.count(delimiter):
            delimiter = " "
        bare = text.lstrip("#").strip() if text.startswith("#") else text
        names = bare.split() if delimiter == " " else next(csv.reader([bare], delimiter=delimiter), [])
        names = [name.strip() for name in names]
        if len(names) > MAX_COLUMNS:
            raise InputError(f"the header names {len(names)} columns", f"give at most {MAX_COLUMNS}", source)
        if text.startswith("#"):
            comment = names
        elif numbered:
            header_lines = number - 1 if all(map(_is_number, names)) else number
            return [f"#{k}" for k in range(1, len(names) + 1)], delimiter, header_lines
        elif not all(map(_is_number, names)):
            return names, delimiter, number
        elif len(comment) == len(names):
            return comment, delimiter, number - 1
        else:
            break
    hint = Text(
        "begin the file with a line such as time,joint1.position,joint1.effort, or list its columns: ",
        Option("columns", ("time", "joint1.position", "-", "joint1.effort")),
    )
    raise InputError("the table has no header that names its columns", hint, source)


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def read_numbers(
    lines: list[str], delimiter: str, use: list[int], header: list[str], before: int, source: str
) -> Array:
    """Return the columns `use` of some lines as numbers, shape (lines, columns); empty cells are NaN."""
    lines = [line for line in lines if line.strip()] if any(not line.strip() for line in lines) else lines
    if not lines:
        return np.zeros((0, len(use)))
    try:
        separator = None if delimiter == " " else delimiter
        return np.loadtxt(lines, delimiter=separator, usecols=use, comments=None, ndmin=2, dtype=np.float64)
    except (ValueError, IndexError):
        pass  # some cell is empty, quoted or wrong: look at each
    values = np.full((len(lines), len(use)), np.nan)
    for row, line in enumerate(lines):
        cells = _cells(line, delimiter)
        for k, column in enumerate(use):
            if column >= len(cells):
                what = f"line {before + row + 1} has {len(cells)} columns, its header {len(header)}"
                raise InputError(what, "complete or remove it", source)
            text = cells[column].strip().strip('"')
            try:
                values[row, k] = float(text) if text else np.nan
            except ValueError:
                what = f"line {before + row + 1}, column {header[column]!r}: {text[:40]!r} is not a number"
                raise InputError(what, "correct it or leave the cell empty", source) from None
    return values
