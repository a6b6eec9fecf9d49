"""Tables in: CSV logs with a header, and npz files, as DESIGN describes them."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.notes import Note, damage
from ros2_dynid.recording.samples import FIELDS, SUFFIXES, Samples, missing_joint, shortened
from ros2_dynid.recording.units import Units

if TYPE_CHECKING:
    from ros2_dynid.model.robot import Array, Robot

TABLES = (".csv", ".txt", ".tsv", ".npz")
WALL_CLOCK = 1e7
"""A first time [s] beyond this is a date; t then counts from the first sample."""
_MAX_LINE = 4 << 20
_READ = 8 << 20
_MAX_COLUMNS = 20_000
_NPZ_RATIO, _NPZ_LEAST = 100, 256 << 20  # arrays larger than this many times their file, and than this, are refused


def iter_table(
    path: Path, robot: Robot | None, columns: Mapping[str, str] | None, units: Units, notes: list[Note]
) -> Iterator[Samples]:
    """Yield a CSV file in pieces, an npz file whole; all joints it names, or those of the robot if it names none.

    What there is to note is appended to `notes`.
    """
    names = None if robot is None else robot.active_names
    start: float | None = None
    npz = path.suffix.lower() == ".npz"
    for samples in _load_npz(path, names, columns or {}) if npz else _iter_csv(path, names, columns or {}, notes):
        if not len(samples):
            continue
        scaled = in_si(samples, robot, units)
        if start is None:
            first = float(scaled.t[0])
            start = first if np.isfinite(first) and WALL_CLOCK < abs(first) < 9e9 else 0.0
        yield replace(scaled, t=scaled.t - start, start_ns=round(start * 1e9)) if start else scaled
    if start is None:
        raise InputError("the table has no samples", "give at least one row of numbers", str(path))


def in_si(samples: Samples, robot: Robot | None, units: Units) -> Samples:
    """Return samples given in other units in SI; which joints are prismatic only the robot knows."""
    time, angle, length, effort = (
        table[getattr(units, name)]
        for name, table in zip(("time", "angle", "length", "effort"), Units.tables(), strict=True)
    )
    if (time, angle, length, effort) == (1.0, 1.0, 1.0, 1.0):
        return samples
    prismatic = {joint.name for joint in robot.joints if joint.sigma == 1} if robot else set()
    motion = np.array([length if name in prismatic else angle for name in samples.joint_names])
    scales = {"q": motion, "dq": motion, "ddq": motion, "tau": np.array(effort)}
    scaled = {field: values * scales[field] for field, values in samples.arrays().items()}
    return samples.with_arrays(samples.t * time, scaled)


# --- CSV ---------------------------------------------------------------------------------------------------------


def _iter_csv(
    path: Path, wanted: Sequence[str] | None, columns: Mapping[str, str], notes: list[Note]
) -> Iterator[Samples]:
    source = str(path)
    blocks = _lines(path)
    first_lines = next(blocks, [])
    header, delimiter, skipped = _header(first_lines, source)
    time, signals = _assigned(header, wanted, columns, source)
    names = tuple(dict.fromkeys(joint for _, joint in signals)) if wanted is None else tuple(wanted)
    missing = [name for name in names if ("q", name) not in signals]
    if missing:
        raise missing_joint(missing, list(dict.fromkeys(joint for _, joint in signals)), source)
    places = [(field, joint) for field in FIELDS for joint in names if (field, joint) in signals]
    use = [time, *(signals[place] for place in places)]
    decimal_comma = delimiter == ";" and any("," in line for line in first_lines[skipped : skipped + 5])
    number = skipped
    lines: list[str] | None = first_lines[skipped:]
    while lines is not None:
        following = next(blocks, None)
        if following is None and lines and len(_cells(lines[-1], delimiter)) < len(header):
            notes.append(damage("the last line is cut and was left out"))
            lines = lines[:-1]
        if decimal_comma:
            lines = [line.replace(",", ".") for line in lines]
        values = _numbers(lines, delimiter, use, header, number, source)
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
    return _samples(values[:, 0].copy(), names, arrays, source)


def _samples(t: Array, names: Sequence[str], arrays: Mapping[str, Array], source: str) -> Samples:
    dq, ddq, tau = (arrays.get(field) for field in FIELDS[1:])
    return Samples(t, tuple(names), arrays["q"], dq, ddq, tau, source)


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the lines of a file, some megabytes at a time, so that its size does not matter."""
    rest = b""
    with path.open("rb") as stream:
        while True:
            data = stream.read(_READ)
            block, newline, tail = (rest + data).rpartition(b"\n")
            if not data:
                block, tail = rest, b""
            elif not newline:
                block, tail = b"", rest + data
            if len(tail) > _MAX_LINE or any(len(line) > _MAX_LINE for line in block.splitlines()[:1]):
                raise InputError(f"a line is longer than {_MAX_LINE} bytes", "give a CSV text file", str(path))
            if b"\0" in block:
                raise InputError("this is not a text file", "save it as CSV in UTF-8", str(path))
            if block:
                yield block.decode("utf-8-sig", "replace").splitlines()
            rest = tail
            if not data:
                return


def _cells(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else line.rstrip("\r\n").split(delimiter)


def _header(lines: list[str], source: str) -> tuple[list[str], str, int]:
    """Return the column names, the delimiter and the number of lines before the first row of numbers."""
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
        if len(names) > _MAX_COLUMNS:
            raise InputError(f"the header names {len(names)} columns", f"give at most {_MAX_COLUMNS}", source)
        if text.startswith("#"):
            comment = names
        elif not all(map(_is_number, names)):
            return names, delimiter, number
        elif len(comment) == len(names):
            return comment, delimiter, number - 1
        else:
            break
    cure = "begin the file with a line such as: time,joint1.position,joint1.effort"
    raise InputError("the table has no header that names its columns", cure, source)


def _is_number(text: str) -> bool:
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def _assigned(
    header: list[str], wanted: Sequence[str] | None, columns: Mapping[str, str], source: str
) -> tuple[int, dict[tuple[str, str], int]]:
    """Return the column of time, and of each (field, joint)."""
    suffixes = {suffix: field for field, suffix in SUFFIXES.items()}
    mapped = expand_columns(columns, wanted)
    places: dict[str, int] = {}
    for column, name in enumerate(header):
        places.setdefault(name, column)
    for theirs in mapped.values():
        if theirs not in places:
            what = f"the column map names {theirs!r}, which is not in the header"
            raise InputError(what, f"the header has {shortened(header)}", source)
    taken = set(mapped.values())
    chosen = {name: column for name, column in places.items() if name not in taken}
    chosen |= {ours: places[theirs] for ours, theirs in mapped.items()}
    time = next((chosen[name] for name in ("time", "t", "Time") if name in chosen), None)
    if time is None:
        cure = Text("map it: ", Option("columns", {"time": "HEADER"}), f"; the header has {shortened(header)}")
        raise InputError("no column is called time", cure, source)
    signals: dict[tuple[str, str], int] = {}
    for name, column in chosen.items():
        joint, _, suffix = name.rpartition(".")
        if joint and suffix in suffixes:
            signals[suffixes[suffix], joint] = column
    if not signals:
        cure = Text(
            "call columns NAME.position or map them (", Option("columns"), f"); the header has {shortened(header)}"
        )
        raise InputError("no column is a joint's", cure, source)
    return time, signals


def _numbers(lines: list[str], delimiter: str, use: list[int], header: list[str], before: int, source: str) -> Array:
    """Return the columns `use` of some lines as numbers, shape (lines, columns); empty cells are NaN."""
    lines = [line for line in lines if line.strip()] if any(not line.strip() for line in lines) else lines
    if not lines:
        return np.zeros((0, len(use)))
    try:
        separator = None if delimiter == " " else delimiter
        values = np.loadtxt(lines, delimiter=separator, usecols=use, comments=None, ndmin=2, dtype=np.float64)
        if len(values) == len(lines):
            return values
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


def expand_columns(columns: Mapping[str, str], wanted: Sequence[str] | None) -> dict[str, str]:
    """Return a column map with {name}, {j} (from 1) and {i} (from 0) filled in for each joint of the robot."""
    expanded: dict[str, str] = {}
    for ours, theirs in columns.items():
        if not any(mark in ours + theirs for mark in ("{name}", "{j}", "{i}")):
            expanded[ours] = theirs
            continue
        if wanted is None:
            raise InputError(f"the column map {ours}={theirs} stands for all joints", "give the robot that has them")
        for i, name in enumerate(wanted):
            filled = [
                text.replace("{name}", name).replace("{j}", str(i + 1)).replace("{i}", str(i))
                for text in (ours, theirs)
            ]
            expanded[filled[0]] = filled[1]
    return expanded


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the column map of the command line: OURS=THEIRS,... or a YAML file with such a mapping.

    OURS is `time` or `NAME.position` and the like, THEIRS the header of the file; either may come first.
    """
    if not text:
        return {}
    pairs: list[tuple[str, str]] = []
    if "=" not in text and Path(text).is_file():
        import yaml

        try:
            content: Any = yaml.safe_load(Path(text).read_text("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise InputError("this is no column map", "write lines such as  time: stamp", text)
        pairs = [(str(ours), str(theirs)) for ours, theirs in content.items()]
    else:
        for item in text.split(","):
            ours, separator, theirs = item.partition("=")
            if not separator:
                raise InputError(f"{item!r} is no column map", "write time=stamp,joint1.position=q1")
            pairs.append((ours.strip(), theirs.strip()))
    return {b: a for a, b in pairs if not _is_ours(a) and _is_ours(b)} | {
        a: b for a, b in pairs if _is_ours(a) or not _is_ours(b)
    }


def _is_ours(name: str) -> bool:
    return name in ("time", "t", *FIELDS) or name.rpartition(".")[2] in SUFFIXES.values()


# --- npz ---------------------------------------------------------------------------------------------------------


def _load_npz(path: Path, wanted: Sequence[str] | None, columns: Mapping[str, str]) -> list[Samples]:
    """Read arrays t, q, dq, ddq, tau; other arrays are ignored; joint_names, if there, names the columns."""
    source = str(path)
    try:
        _check_npz(path)
        with np.load(path, allow_pickle=False) as archive:
            mapped = {ours: columns.get(ours, ours) for ours in ("t", "joint_names", *FIELDS)}
            if "t" not in columns:
                mapped["t"] = columns.get(
                    "time", "t" if "t" in archive.files or "time" not in archive.files else "time"
                )
            found = {ours: archive[theirs] for ours, theirs in mapped.items() if theirs in archive.files}
            there = list(archive.files)
    except InputError:
        raise
    except Exception as error:  # zipfile, zlib and numpy each have their own errors for a damaged file
        what = f"this is not an npz file or it is damaged ({type(error).__name__})"
        raise InputError(what, "save arrays with numpy.savez", source) from None
    for name in ("t", "q"):
        if name not in found:
            cure = f"give t (N,) and q (N, n); the file has {shortened(there)}"
            raise InputError(f"there is no array {mapped[name]!r}", cure, source)
    arrays = {name: _as_floats(array, name, source) for name, array in found.items() if name != "joint_names"}
    t = arrays.pop("t").reshape(-1)
    arrays = {name: array[:, None] if array.ndim == 1 else array for name, array in arrays.items()}
    n = arrays["q"].shape[1] if arrays["q"].ndim == 2 else 0
    names = found.get("joint_names")
    if names is not None and names.dtype.kind == "U" and names.shape == (n,):
        joints = tuple(str(name) for name in names)
    elif wanted is not None:
        if n != len(wanted):
            what = f"q has {n} columns, the robot {len(wanted)} active joints"
            raise InputError(what, "give one column a joint, in the robot's order", source)
        joints = tuple(wanted)
    else:
        joints = tuple(f"joint{j}" for j in range(1, n + 1))
    return [_samples(t, joints, arrays, source)]


def _check_npz(path: Path) -> None:
    """Refuse an archive whose arrays are far larger than the file could honestly hold."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        size = sum(info.file_size for info in infos)
    if size > max(_NPZ_RATIO * path.stat().st_size, _NPZ_LEAST):
        what = f"its arrays claim {size / 1e9:.3g} GB, the file has {path.stat().st_size / 1e6:.3g} MB"
        raise InputError(what, "save the arrays with numpy.savez", str(path))


def _as_floats(array: Any, name: str, source: str) -> Array:
    if array.dtype.kind not in "fiu" or array.ndim > 2:
        what = f"array {name!r} has type {array.dtype} and {array.ndim} dimensions"
        raise InputError(what, "give numbers of shape (N, n)", source)
    return np.ascontiguousarray(array, dtype=np.float64)
