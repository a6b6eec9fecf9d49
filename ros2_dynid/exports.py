# SPDX-License-Identifier: Apache-2.0

"""Public names of a package, imported when they are first asked for, so that the help page does not wait for NumPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def lazy_exports(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return __getattr__ for a package; `homes` maps each public name to the module of the package that has it."""

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)

    return get
