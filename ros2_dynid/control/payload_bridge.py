# SPDX-License-Identifier: Apache-2.0

"""A payload on its way to a robot's driver: whether it may be sent, in whose frame, and into which fields.

What a driver's service looks like is configuration (config/drivers, the key payload), not code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ros2_dynid.control.held_load import Load, checked_load
from ros2_dynid.errors import InputError, suggest
from ros2_dynid.model.driver_presets import load_preset, preset_names
from ros2_dynid.model.files import as_mapping, as_number, check_keys, parse_yaml, read_bytes
from ros2_dynid.model.robot import Array, Robot

MAX_BYTES = 1_000_000
KEYS = ("type", "service", "link", "fields", "success", "message", "limits", "ask")
FIGURES = (
    "mass",
    "com",
    "com.x",
    "com.y",
    "com.z",
    "inertia",
    *(f"inertia.{a}{b}" for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")),
    "link",
)
"""What a field of a driver's service may hold."""

Figure = float | tuple[float, ...] | str


@dataclass(frozen=True)
class Asked:
    """How a driver is asked back: type and name of its service, response fields with the figure that each holds."""

    type: str
    service: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Driver:
    """A driver's service: see docs/robots.md. limits: mass [kg] and distance of the centre [m].

    fields: request field -> figure; others: maps for requests of other releases of the driver.
    """

    name: str
    type: str
    service: str
    link: str
    fields: Mapping[str, str]
    success: str
    message: str
    largest_mass: float
    largest_distance: float
    ask: Asked | None = None
    others: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class Bars:
    """Error bars that a payload must have to be sent: share of the mass, and the centre's standard deviation [m]."""

    mass_share: float = 0.05
    com: float = 0.01


@dataclass(frozen=True, eq=False)
class DriverLoad:
    """A payload in a driver's frame: mass [kg], com (3,) [m], inertia about it (3, 3) [kg.m^2], the frame's link."""

    mass: float
    com: Array
    inertia: Array
    link: str

    def figure(self, name: str) -> Figure:
        """Return one of FIGURES."""
        if name == "link":
            return self.link
        if name == "mass":
            return self.mass
        kind, _, axes = name.partition(".")
        values = self.com if kind == "com" else self.inertia
        if not axes:
            return tuple(float(x) for x in values.ravel())
        return float(values[tuple("xyz".index(axis) for axis in axes)])


def read_drivers(path: Path) -> dict[str, Driver]:
    """Return the drivers of a file by name, or refuse it."""
    source = str(path)
    root = as_mapping(parse_yaml(read_bytes(path, MAX_BYTES), source), "the file", source)
    check_keys(root, ("bridges",), "the file", source)
    drivers = as_mapping(root.get("bridges"), "bridges", source)
    return {
        str(name): _driver(str(name), as_mapping(entry, str(name), source), source) for name, entry in drivers.items()
    }


def shipped_drivers() -> dict[str, Driver]:
    """Return the drivers that come with the package and take a payload, by name."""
    presets = {name: load_preset(name) for name in preset_names()}
    return {
        name: _driver(name, preset.payload, f"config/drivers/{name}.yaml")
        for name, preset in presets.items()
        if preset.payload is not None
    }


def chosen_driver(drivers: Mapping[str, Driver], name: str, source: str) -> Driver:
    """Return a driver by name."""
    if name not in drivers:
        raise InputError(f"there is no driver {name!r}", suggest(name, drivers), source)
    return drivers[name]


def checked_for(driver: Driver, robot: Robot, load: Load, mass_std: float, com_std: Array, bars: Bars) -> DriverLoad:
    """Return the load in the driver's frame, or refuse it: no body, beyond the limits, or not known well enough.

    load: in its joint's frame; mass_std [kg] and com_std (3,) [m]: standard deviations, which must be given.
    """
    load = checked_load(load)
    link, pose = _frame(driver, robot, load.joint)
    R, p = pose[:3, :3], pose[:3, 3]
    com = R.T @ (load.com - p) if load.mass else np.zeros(3)
    body = DriverLoad(load.mass, com, R.T @ load.inertia @ R, link)
    if body.mass > driver.largest_mass:
        raise InputError(
            f"the payload of {body.mass:.3g} kg is beyond the limit of {driver.largest_mass:g} kg for {driver.name!r}",
            "check it, or raise the limit in the file of bridges",
        )
    if np.linalg.norm(com) > driver.largest_distance:
        raise InputError(
            f"its centre is {np.linalg.norm(com):.3g} m from {link!r}, the limit is {driver.largest_distance:g} m",
            "check frame and payload, or raise the limit in the file of bridges",
        )
    if not load.mass:
        return body
    _check_bars(load.mass, mass_std, com_std, bars)
    return body


def filled(driver: Driver, load: DriverLoad) -> dict[str, Figure]:
    """Return the value of every request field that the driver's entry names."""
    return {field: load.figure(figure) for field, figure in driver.fields.items()}


def differing(sent: DriverLoad, answers: Mapping[str, Figure], tolerance: float = 1e-3) -> list[str]:
    """Return the figures that a driver, asked back, tells otherwise: by more than `tolerance` of their size."""
    wrong = []
    for name, told in answers.items():
        expected = sent.figure(name)
        if isinstance(expected, str) or isinstance(told, str):
            same = expected == told
        else:
            a, b = np.atleast_1d(expected), np.atleast_1d(told)
            same = a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance * max(np.abs(a).max(), 1e-3)))
        if not same:
            wrong.append(name)
    return wrong


def _check_bars(mass: float, mass_std: float, com_std: Array, bars: Bars) -> None:
    if not (np.isfinite(mass_std) and mass_std > 0 and np.all(np.isfinite(com_std)) and np.all(com_std > 0)):
        raise InputError(
            "the payload comes without error bars", "give mass_std and com_std, as dynid payload finds them"
        )
    if mass_std > bars.mass_share * mass:
        raise InputError(
            f"the mass is known to {mass_std / mass:.0%} only, {bars.mass_share:.0%} is asked for",
            "record longer and faster motions, or raise largest_mass_std",
        )
    if com_std.max() > bars.com:
        raise InputError(
            f"the centre is known to {1e3 * com_std.max():.1f} mm only, {1e3 * bars.com:.1f} mm is asked for",
            "record longer and faster motions, or raise largest_com_std",
        )


def _frame(driver: Driver, robot: Robot, joint: int) -> tuple[str, Array]:
    """Return the driver's link and its pose (4, 4) in the frame of the joint that carries the load."""
    carried = {name: pose for name, (number, pose) in robot.tools.items() if number == joint}
    if not driver.link:
        name = next(iter(carried), "")
        return name, carried.get(name, np.eye(4))
    if driver.link not in carried:
        raise InputError(
            f"the robot has no link {driver.link!r} behind joint {robot.joints[joint - 1].name!r}",
            f"set driver_link to one of {', '.join(carried) or 'none'}",
            robot.name,
        )
    return driver.link, carried[driver.link]


def _driver(name: str, entry: Mapping[object, object], source: str) -> Driver:
    check_keys(entry, KEYS, name, source)
    limits = as_mapping(entry.get("limits"), f"{name}: limits", source)
    check_keys(limits, ("mass", "com"), f"{name}: limits", source)
    ask = None
    if entry.get("ask") is not None:
        question = as_mapping(entry["ask"], f"{name}: ask", source)
        check_keys(question, ("type", "service", "fields"), f"{name}: ask", source)
        ask = Asked(
            _text(question, "type", name, source),
            _text(question, "service", name, source),
            _fields(question, name, source),
        )
    entries = entry.get("fields")
    fields, *others = [
        _fields({"fields": one}, name, source) for one in (entries if isinstance(entries, list) else [entries])
    ]
    return Driver(
        name,
        _text(entry, "type", name, source),
        _text(entry, "service", name, source),
        str(entry.get("link") or ""),
        fields,
        str(entry.get("success") or ""),
        str(entry.get("message") or ""),
        as_number(limits.get("mass"), f"{name}: limits: mass", source),
        as_number(limits.get("com"), f"{name}: limits: com", source),
        ask,
        tuple(others),
    )


def _text(entry: Mapping[object, object], key: str, name: str, source: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: {key} is {value!r}", "give a name", source)
    return value


def _fields(entry: Mapping[object, object], name: str, source: str) -> dict[str, str]:
    fields = as_mapping(entry.get("fields"), f"{name}: fields", source)
    for figure in fields.values():
        if figure not in FIGURES:
            raise InputError(f"{name}: fields: {figure!r} is no figure of a payload", suggest(figure, FIGURES), source)
    if not fields:
        raise InputError(f"{name}: fields is empty", "map the driver's fields", source)
    return {str(field): str(figure) for field, figure in fields.items()}
