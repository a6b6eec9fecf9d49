# SPDX-License-Identifier: Apache-2.0

"""The libraries behind ctypes, for a Python without its headers: the same functions, with a slower call."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import TypeAlias

import numpy as np

from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Array, Robot

_POINTER = ctypes.POINTER(ctypes.c_double)
MAX_CONSTANTS = 4096
"""More constants than any generated torque has."""


def _pointer(array: Array) -> object:
    return array.ctypes.data_as(_POINTER)


class PlainLibrary:
    """What the extension module offers, for one kind of library."""

    def __init__(self, library: ctypes.CDLL, kind: str, robot: Robot) -> None:
        """Wrap a library that was just loaded."""
        self._library, self._n = library, len(robot.active)
        self._standard = len(standard_names(robot))
        self._rows = self._standard * (self._n if kind == "regressor" else 1)

    def Torque(self, chi: Array) -> PlainTorque:
        """Return the inverse dynamics for standard parameters chi; named as the extension's type."""
        return PlainTorque(self._library, _array(chi, (self._standard,)), self._n)

    def fill(self, *arrays: Array) -> None:
        """Write the results of all samples into the last array, samples last."""
        *inputs, out = arrays
        N = len(inputs[0])
        given = [_array(x, (N, self._n)) for x in inputs]
        if out.dtype != np.float64 or not out.flags.c_contiguous or out.size != N * self._rows:
            raise ValueError("the array for the result has the wrong type or size")
        pointers = [_pointer(x) for x in given] + [None] * (3 - len(given))
        self._library.fill_batch(ctypes.c_size_t(N), *pointers, _pointer(out))


class PlainTorque:
    """Inverse dynamics of one robot with one set of parameters."""

    def __init__(self, library: ctypes.CDLL, chi: Array, n: int) -> None:
        """Prepare the constants of chi."""
        self._library, self._n = library, n
        self._constants = np.zeros(MAX_CONSTANTS)
        library.prepare(_pointer(chi), _pointer(self._constants))

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n,)."""
        given = [_array(x, (self._n,)) for x in (q, dq, ddq)]
        tau = np.empty(self._n)
        self._library.torque_one(*(_pointer(x) for x in given), _pointer(self._constants), _pointer(tau))
        return tau

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n)."""
        given = [_array(x, (len(q), self._n)) for x in (q, dq, ddq)]
        tau = np.empty((len(q), self._n))
        pointers = [_pointer(x) for x in given]
        self._library.torque_batch(ctypes.c_size_t(len(q)), *pointers, _pointer(self._constants), _pointer(tau))
        return tau


Library: TypeAlias = ModuleType | PlainLibrary
"""An extension module, or the same through ctypes where Python's headers are missing."""


def _array(x: Array, shape: tuple[int, ...]) -> Array:
    array = np.ascontiguousarray(x, dtype=float)
    if array.shape != shape:
        raise ValueError(f"an array has the wrong shape {array.shape}; give {shape}")
    return array
