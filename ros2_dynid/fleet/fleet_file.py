# SPDX-License-Identifier: Apache-2.0

"""The fleet file: which robots there are, how each is described, and where its recordings are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ros2_dynid.codec import decode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.model.files import read_yaml
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Robot, with_gravity

ON_R_FACTORS = (Method.WLS, Method.OLS, Method.SEQUENTIAL, Method.RECURSIVE)
"""Estimators that need nothing of a recording but its R factors."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MOST_ROBOTS = 100_000
FIELDS = ("robot", "kind", "base_link", "tip_link", "hold", "gravity", "gains", "options", "recordings", "validate")


@dataclass(frozen=True)
class Entry:
    """A robot as the file has it: description, sub-chain, drive gains by joint, recordings by glob, path or URL.

    kind: robots of one kind are compared; without one, those whose geometry is the same are. options: fields of
    IdentifyOptions, as the action and the jobs write them.
    """

    id: str
    robot: str
    kind: str = ""
    base_link: str | None = None
    tip_link: str | None = None
    hold: Mapping[str, float] = field(default_factory=dict)
    gravity: tuple[float, ...] | None = None
    gains: Mapping[str, float] = field(default_factory=dict)
    options: IdentifyOptions = field(default_factory=IdentifyOptions)
    recordings: tuple[str, ...] = ()
    validate: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Member:
    """A robot of the fleet, loaded; folder: its recordings are all those below (the folder convention)."""

    id: str
    kind: str
    robot: Robot
    options: IdentifyOptions
    recordings: tuple[str, ...]
    validate: tuple[str, ...]
    folder: Path | None = None


def load_fleet(path: Path) -> list[Member]:
    """Return the robots of a fleet file, in its order; what it names is relative to it."""
    source, content = str(path), read_yaml(path)
    if not isinstance(content, Mapping):
        raise InputError("this is not a fleet file", "give a mapping with `robots` or `folders`", source)
    unknown = [str(key) for key in content if key not in ("defaults", "robots", "folders")]
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}", "choose from defaults, robots, folders", source)
    defaults = _mapping(content.get("defaults", {}), "defaults", source)
    for name in defaults:
        if name not in FIELDS:
            raise InputError(f"unknown field 'defaults.{name}'", f"choose from {', '.join(FIELDS)}", source)
    home = path.resolve().parent
    loaded: dict[tuple[object, ...], Robot] = {}
    members = [_member(entry, None, home, loaded, source) for entry in _entries(content, defaults, source)]
    members += [
        _member(entry, folder, home, loaded, source) for entry, folder in _folders(content, defaults, home, source)
    ]
    if not members:
        raise InputError("the fleet has no robot", "list them under `robots`, or name a folder under `folders`", source)
    ids: set[str] = set()
    for member in members:
        if member.id.lower() in ids:  # folders of both on a filesystem that does not tell upper from lower case
            raise InputError(f"the robot {member.id!r} occurs twice", "give every robot an id of its own", source)
        ids.add(member.id.lower())
    return members


def _mapping(data: object, name: str, source: str) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise InputError(f"{name} is {str(data)[:60]!r}", "give a mapping of fields", source)
    return {str(key): value for key, value in data.items()}


def _entries(content: Mapping[object, object], defaults: Mapping[str, object], source: str) -> list[Entry]:
    robots = content.get("robots", [])
    if not isinstance(robots, Sequence) or isinstance(robots, str) or len(robots) > MOST_ROBOTS:
        raise InputError("robots is not a list", "list them as `- {id: ..., robot: ..., recordings: [...]}`", source)
    return [
        _entry(_mapping(one, f"robots[{k}]", source), defaults, f"robots[{k}]", source) for k, one in enumerate(robots)
    ]


def _folders(
    content: Mapping[object, object], defaults: Mapping[str, object], home: Path, source: str
) -> list[tuple[Entry, Path]]:
    """Return a robot for each folder in the folders named: ROBOT/...bags."""
    folders = content.get("folders", [])
    entries = []
    for name in [folders] if isinstance(folders, str) else folders if isinstance(folders, Sequence) else [None]:
        if not isinstance(name, str):
            raise InputError("folders is not a list", "name folders that have one folder a robot", source)
        folder = home / name
        if not folder.is_dir():
            raise InputError("there is no such folder", "name one that has a folder for each robot", str(folder))
        for place in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            entries.append((_entry({"id": place.name}, defaults, f"folders: {place.name}", source), place))
    return entries


def _entry(own: Mapping[str, object], defaults: Mapping[str, object], where: str, source: str) -> Entry:
    merged = {**defaults, **own}
    for name in ("gains", "options"):
        if name in defaults and name in own:
            merged[name] = {**_mapping(defaults[name], name, source), **_mapping(own[name], name, source)}
    for name in ("recordings", "validate"):
        if isinstance(merged.get(name), str):
            merged[name] = [merged[name]]
    try:
        return decode(Entry, merged, where)
    except InputError as error:
        raise InputError(error.what, error.hint, source) from None


def _member(
    entry: Entry, folder: Path | None, home: Path, loaded: dict[tuple[object, ...], Robot], source: str
) -> Member:
    if not NAME.fullmatch(entry.id):
        what = f"the id {entry.id[:80]!r} is not a valid folder name"
        raise InputError(what, "use letters, digits, dots, dashes and underscores, at most 80", source)
    options = entry.options
    if options.method not in ON_R_FACTORS:
        what = f"{entry.id}: the method {options.method} needs all rows at once"
        raise InputError(what, f"choose from {', '.join(map(str, ON_R_FACTORS))}", source)
    if folder is None and not entry.recordings:
        raise InputError(f"{entry.id} has no recordings", "name them by path, glob or URL", source)
    gains = {**options.preparation.gains, **entry.gains}
    options = replace(options, preparation=replace(options.preparation, gains=gains))
    key = (entry.robot, entry.base_link, entry.tip_link, tuple(sorted(entry.hold.items())), entry.gravity)
    if key not in loaded:
        loaded[key] = _loaded(entry, home)
    robot = loaded[key]
    options.preparation.gains_of(robot)  # refuses gains of joints that there are not
    return Member(entry.id, entry.kind, robot, options, entry.recordings, entry.validate, folder)


def _loaded(entry: Entry, home: Path) -> Robot:
    path = home / entry.robot
    robot = load_robot(
        path if path.exists() else entry.robot,
        base_link=entry.base_link,
        tip_link=entry.tip_link,
        hold=dict(entry.hold),
    )
    return robot if entry.gravity is None else with_gravity(robot, entry.gravity)
