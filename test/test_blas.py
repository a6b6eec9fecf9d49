# SPDX-License-Identifier: Apache-2.0

"""BLAS uses one thread while ours run, whatever it had before, and has its threads back afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from ros2_dynid import blas
from ros2_dynid.blas import VARIABLES, loaded_libraries, small_matrices


@pytest.fixture
def threads(monkeypatch):
    """Return what tells the numbers of threads of the loaded libraries, which are two at first."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    if not loaded_libraries():
        pytest.skip("NumPy here uses a BLAS without threads of its own")
    before = [library.get() for library in loaded_libraries()]
    for library in loaded_libraries():
        library.set(2)
    yield lambda: {library.get() for library in loaded_libraries()}
    for library, count in zip(loaded_libraries(), before, strict=True):
        library.set(count)


def test_one_thread_inside_and_as_many_as_before_outside(threads):
    if threads() != {2}:
        pytest.skip("this BLAS has one thread only")
    inner = small_matrices(threads)
    outer = small_matrices(lambda: (inner(), threads()))
    assert inner() == {1} and threads() == {2}
    assert outer() == ({1}, {1}) and threads() == {2}

    @small_matrices
    def fails():
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert threads() == {2}


def test_the_last_of_overlapping_calls_restores(threads):
    started, go_on = threading.Event(), threading.Event()

    @small_matrices
    def long():
        started.set()
        go_on.wait(10.0)
        seen.append(threads())

    seen, outside = [], threads()
    other = threading.Thread(target=long)
    other.start()
    started.wait(10.0)
    small_matrices(lambda: None)()
    go_on.set()
    other.join(30.0)
    assert seen == [{1}] and threads() == outside


def test_what_the_user_chose_holds(threads, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    outside = threads()
    assert small_matrices(threads)() == outside


def test_the_libraries_of_numpy_and_scipy_are_found():
    """Asked in a new process that was told one thread: every library that is found says so."""
    code = "import ros2_dynid.blas as b; print([library.get() for library in b.loaded_libraries()])"
    env = os.environ | dict.fromkeys(VARIABLES, "1")
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert set(done.stdout.strip("[]\n").replace(" ", "").split(",")) <= {"1", ""}


def test_a_process_of_ours_has_one_thread_unless_the_user_chose_or_numpy_is_loaded(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(blas, "sys", SimpleNamespace(modules={"numpy": None}))
    blas.one_blas_thread()
    assert not any(name in os.environ for name in VARIABLES), "too late"
    monkeypatch.setattr(blas, "sys", SimpleNamespace(modules={}))
    for chosen in VARIABLES:
        monkeypatch.setenv(chosen, "3")
        blas.one_blas_thread()
        assert {name: os.environ.get(name) for name in VARIABLES} == {**dict.fromkeys(VARIABLES), chosen: "3"}
        monkeypatch.delenv(chosen)
    monkeypatch.setattr(os, "environ", {"HOME": "/home/me"})
    blas.one_blas_thread()
    assert os.environ == {"HOME": "/home/me", **dict.fromkeys(VARIABLES, "1")}


def test_the_variables_are_those_that_the_libraries_read():
    assert set(VARIABLES) == {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"}


@pytest.mark.parametrize(
    ("get", "put"),
    [
        ("openblas_get_num_threads", "openblas_set_num_threads"),
        ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
        ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
        ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
        ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ],
)
def test_each_build_is_asked_by_the_names_that_it_has(monkeypatch, get, put):
    told = []
    library = SimpleNamespace(**{get: lambda: 7, put: lambda count: told.append(count)})
    monkeypatch.setattr(blas.ctypes, "CDLL", {"libblas.so": library}.__getitem__)
    (found,) = blas.thread_functions("libblas.so")
    found.set(3)
    assert found.get() == 7 and told == [3]
    delattr(library, put)
    assert blas.thread_functions("libblas.so") == [], "it cannot be set"


def test_a_library_that_does_not_load_has_no_threads(monkeypatch):
    def fails(file: str) -> None:
        raise OSError(file)

    monkeypatch.setattr(blas.ctypes, "CDLL", fails)
    assert blas.thread_functions("libblas.so") == []
