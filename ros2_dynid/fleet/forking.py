# SPDX-License-Identifier: Apache-2.0

"""Workers of this machine are forked from one process that has loaded their modules: quick to start, and once for all.

That process is started first, so that it loads while the command itself does. This module is light for the same reason.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver

from ros2_dynid.blas import VARIABLES

METHOD = "distributed.worker.multiprocessing-method"
LOADED = ("distributed.nanny", "ros2_dynid.fleet.reduce_robot", "ros2_dynid.fleet.map_recording")
"""What a worker needs for its tasks."""


def begin_to_start() -> None:
    """Start the process that workers are forked from, if Dask is there and has not been told to make them otherwise."""
    if "distributed" in sys.modules:  # which has chosen already
        return
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(LOADED))
    with _environment():
        forkserver.ensure_running()
    try:
        import dask
    except ImportError:
        return  # whoever needs it says so
    if dask.config.get(METHOD, None) is None:
        dask.config.set({METHOD: "forkserver"})


@contextmanager
def _environment() -> Iterator[None]:
    """Set the environment of that process: modules are found where this one finds them, and BLAS has one thread."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    if not any(name in before for name in VARIABLES):
        os.environ.update(dict.fromkeys(VARIABLES, "1"))
    try:
        yield
    finally:
        for name in ("PYTHONPATH", *VARIABLES):
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
