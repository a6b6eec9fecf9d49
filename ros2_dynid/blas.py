# SPDX-License-Identifier: Apache-2.0

"""BLAS on one thread: our matrices are small, and threads that share them mostly wait for each other.

A process of ours says so before NumPy is loaded (`one_blas_thread`). Inside another's process, a notebook or a test,
functions that factor many small matrices ask the loaded libraries themselves, for as long as they run
(`small_matrices`). What the user set in the environment holds in both cases.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which a user chooses the number of threads."""
CALLS = (
    *(
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
        for prefix in ("", "scipy_")
        for suffix in ("", "64_", "_64")
    ),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
)
"""Functions that tell and set the number of threads, under the names that builds of OpenBLAS and MKL give them."""
LIBRARIES = ("blas", "mkl_rt")
"""Parts of the file names of libraries that may have them."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class _Library:
    """A loaded BLAS: how to ask for its number of threads, and how to set it."""

    get: Callable[[], int]
    set: Callable[[int], None]


def one_blas_thread() -> None:
    """Let BLAS use one thread in this process, unless the user says otherwise; to be called before NumPy is loaded."""
    if "numpy" not in sys.modules and not _is_set_by_user():
        os.environ |= dict.fromkeys(VARIABLES, "1")


def small_matrices(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the function, during which BLAS uses one thread; how many it had before holds again afterwards."""

    @functools.wraps(function)
    def run_limited(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with _thread_limit():
            return function(*args, **kwargs)

    return run_limited


_lock = threading.Lock()
_inside = 0
_before: list[tuple[_Library, int]] = []


@contextmanager
def _thread_limit() -> Iterator[None]:
    """Hold all loaded libraries at one thread; calls may nest and overlap, and the last to leave restores."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = [] if _is_set_by_user() else [(library, library.get()) for library in loaded_libraries()]
            for library, _ in _before:
                library.set(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, threads in _before:
                    library.set(threads)


def _is_set_by_user() -> bool:
    return any(name in os.environ for name in VARIABLES)


@functools.cache
def loaded_libraries() -> tuple[_Library, ...]:
    """Return the BLAS libraries of this process; none where the system does not tell what is loaded."""
    import numpy  # noqa: F401  (so that they are loaded)
    import scipy.linalg  # noqa: F401

    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return ()
    files = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    functions = []
    for file in sorted(files):
        name = Path(file).name.lower()
        if name.startswith("lib") and any(part in name for part in LIBRARIES):
            functions += thread_functions(file)
    return tuple(functions)


def thread_functions(file: str) -> list[_Library]:
    """Return a library's functions that get and set its threads, for each way of naming them."""
    try:
        library = ctypes.CDLL(file)
    except OSError:
        return []
    for get_name, set_name in CALLS:
        if hasattr(library, get_name) and hasattr(library, set_name):
            get, put = getattr(library, get_name), getattr(library, set_name)
            get.restype, put.restype, put.argtypes = ctypes.c_int, None, (ctypes.c_int,)
            return [_Library(get, put)]
    return []
