# SPDX-License-Identifier: Apache-2.0

"""Kinds of friction terms, one file each: importing the package registers all of them."""

import importlib
import pkgutil

from ros2_dynid.model.friction.kind import FrictionKind, Shape, Symbols, register

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["FrictionKind", "Shape", "Symbols", "register"]
