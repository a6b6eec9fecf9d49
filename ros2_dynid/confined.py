# SPDX-License-Identifier: Apache-2.0

"""Folders that network requests are confined to, since anyone on the network can call a service."""

from __future__ import annotations

from pathlib import Path

from ros2_dynid.errors import InputError


class Folder:
    """A folder; every requested path must lie in it, symbolic links resolved."""

    def __init__(self, path: str | Path) -> None:
        """Confine to `path`, made if it is missing."""
        self.path = Path(path).expanduser().resolve()
        self.path.mkdir(parents=True, exist_ok=True)

    def inside(self, name: str) -> Path:
        """Return the path `name` (relative to the folder, or absolute), or refuse one that leads out."""
        if not name or "\0" in name:
            raise InputError(f"{name!r} is not a path", "give a name in the node's folder")
        path = (self.path / name).resolve()
        if path == self.path or not path.is_relative_to(self.path):
            raise InputError(f"{name!r} is not inside the folder allowed", f"choose a path in {self.path}")
        return path

    def existing(self, name: str) -> Path:
        """Return the path of something that exists in the folder."""
        path = self.inside(name)
        if not path.exists():
            raise InputError(f"{name!r} does not exist", f"choose a path in {self.path}")
        return path

    def new(self, name: str, *, unique: bool = False) -> Path:
        """Return a path that does not exist yet; with `unique` a number is added to a name that is taken."""
        path = self.inside(name)
        if path.exists() and not unique:
            raise InputError(f"{path} exists already", "choose another name; nothing is overwritten")
        number = 2
        while path.exists():
            path = self.inside(f"{name}_{number}")
            number += 1
        return path
