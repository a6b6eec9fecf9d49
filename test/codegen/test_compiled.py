# SPDX-License-Identifier: Apache-2.0

"""The compiled backend: same results as NumPy, built once, loaded only from where nobody else can write."""

import contextlib
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oracle import random_robot
from ros2_dynid.codegen import backend, compiled
from ros2_dynid.codegen.backend import (
    NumpyTorque,
    fast_energy_regressor,
    fast_inverse_dynamics,
    fast_regressor,
    torque_function,
)
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Joint, Robot

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
ROOT = Path(__file__).parents[2]
SMALL = Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=0.2)))
"""Two joints: compiled in a moment."""


@contextlib.contextmanager
def cache_at(folder):
    """Keep libraries in this folder, with nothing loaded yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DYNID_CACHE", str(folder))
        patch.setenv("DYNID_BACKEND", "compiled")
        patch.setattr(backend, "_warned", False)
        start_anew()
        yield folder
    start_anew()


def start_anew():
    """Know no library, no folder and no headers yet, as a new process."""
    compiled.forget_libraries()
    compiled.cache_folder.cache_clear()
    compiled.has_headers.cache_clear()


@pytest.fixture
def cache(tmp_path):
    """A cache of its own, and nothing loaded."""
    with cache_at(tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A cache that several tests fill: what one has built, another one loads."""
    return tmp_path_factory.mktemp("libraries") / "cache"


@pytest.fixture
def warm(shared):
    with cache_at(shared):
        yield shared


def samples(robot, N, seed=0):
    return np.random.default_rng(seed).uniform(-3.0, 3.0, (3, N, len(robot.active)))


def same(a, b):
    assert a.shape == b.shape
    return np.abs(a - b).max() <= 1e-12 * np.abs(b).max()


@needs_compiler
@pytest.mark.parametrize("which", ["stanford", "hitachi_hpr", "tx40_iam6", "tree"])
def test_results_are_those_of_numpy(which, cache):
    robot = random_robot(np.random.default_rng(1), 5, tree=True) if which == "tree" else load_robot(which)
    if robot.coupling:  # gears that are no whole numbers
        robot = replace(robot, coupling=(replace(robot.coupling[0], weights={5: 1.5, 6: -0.7}),))
    chi = np.random.default_rng(2).normal(size=len(standard_names(robot)))
    one = torque_function(robot, chi)
    for N in (1, 33, 100):  # less than a block, an overlapping last block, several
        q, dq, ddq = samples(robot, N)
        tau = inverse_dynamics(robot, chi, q, dq, ddq)
        assert same(fast_inverse_dynamics(robot, chi, q, dq, ddq), tau)
        assert same(np.array([one.torque(*row) for row in zip(q, dq, ddq, strict=True)]), tau)
        if which in ("hitachi_hpr", "tree"):  # the larger library; one of a loop, one of a tree
            Y = fast_regressor(robot, q, dq, ddq)
            assert same(Y, regressor(robot, q, dq, ddq))
            assert Y.transpose().flags.c_contiguous
            assert fast_regressor(robot, q, dq, ddq, out=Y) is not None
            assert same(Y, regressor(robot, q, dq, ddq))
        if which in ("stanford", "tx40_iam6"):
            assert same(fast_energy_regressor(robot, q, dq), energy_regressor(robot, q, dq))


@needs_compiler
def test_sines_hold_for_all_angles(warm):
    robot = SMALL
    chi = np.random.default_rng(0).normal(size=len(standard_names(robot)))
    special = np.array([0.0, np.pi / 4, np.pi / 2, np.pi, -np.pi / 2, 1e-300, 1e5, 9e5, -2e6, 1e15, 3e8])
    q = np.column_stack((special, special[::-1]))
    dq, ddq = samples(robot, len(q))[:2]
    assert same(fast_inverse_dynamics(robot, chi, q, dq, ddq), inverse_dynamics(robot, chi, q, dq, ddq))


@needs_compiler
def test_a_single_call_takes_lists_and_refuses_wrong_shapes(warm):
    one = torque_function(SMALL, np.ones(len(standard_names(SMALL))))
    assert np.allclose(
        one.torque([1, 2], [3.0, 4.0], (5, 6)), one.torque(*map(np.array, ([1.0, 2], [3.0, 4], [5.0, 6])))
    )
    strided = np.arange(8.0).reshape(2, 4)[:, ::2]
    assert np.allclose(one.torque(strided[1], strided[1], strided[1]), one.torque(*[strided[1].copy()] * 3))
    for wrong in ([1.0], [[1.0, 2.0]], np.zeros((2, 2))):
        with pytest.raises(ValueError, match="shape"):
            one.torque(wrong, [1.0, 2.0], [1.0, 2.0])
    with pytest.raises((ValueError, TypeError)):
        one.torque("text", [1.0, 2.0], [1.0, 2.0])
    with pytest.raises(TypeError):
        one.torque([1.0, 2.0])


@needs_compiler
def test_what_numpy_refuses_is_refused(warm):
    chi = np.ones(len(standard_names(SMALL)))
    q, dq, ddq = samples(SMALL, 40)
    q[3, 1] = np.nan
    for call in (lambda: fast_inverse_dynamics(SMALL, chi, q, dq, ddq), lambda: fast_regressor(SMALL, q, dq, ddq)):
        with pytest.raises(InputError, match="'b' is not finite in sample 3"):
            call()
    with pytest.raises(InputError, match="shape"):
        fast_energy_regressor(SMALL, dq[:, :1], dq[:, :1])
    with pytest.raises(InputError, match="standard parameters"):
        torque_function(SMALL, chi[:-1])


@needs_compiler
def test_a_library_is_built_once(cache, monkeypatch):
    chi = np.ones(len(standard_names(SMALL)))
    torque_function(SMALL, chi)
    lock, library = sorted(cache.iterdir(), key=lambda path: path.suffix)
    assert (lock.suffix, library.suffix) == (".lock", ".so") and compiled.is_private_file(library)
    assert cache.stat().st_mode & 0o777 == 0o700
    compiled.forget_libraries()
    monkeypatch.setattr(compiled, "build_library", lambda *_: pytest.fail("built again"))
    torque_function(SMALL, chi)
    other = Robot("other", (SMALL.joints[0], Joint("b", 1, alpha=np.pi / 2, r=np.nextafter(0.2, 1.0))))
    assert compiled.library_key(other, "torque") != compiled.library_key(SMALL, "torque")
    renamed = Robot("x", (Joint("c", 0, d=0.1), Joint("d", 1, alpha=np.pi / 2, r=0.2)), parameters={"ZZ1": 3.0})
    assert compiled.library_key(renamed, "torque") == compiled.library_key(SMALL, "torque")


@needs_compiler
@pytest.mark.parametrize("kind", ["torque", "regressor"])
def test_a_library_that_is_loaded_again_does_not_take_the_place_of_another(cache, kind):
    three = Robot("three", (*SMALL.joints, Joint("c", 2, d=0.3)))
    for _ in range(2):
        compiled.forget_libraries()
        for robot in (three, SMALL):
            compiled.library(robot, kind)
    arrays, chi = samples(three, 40), np.ones(len(standard_names(three)))
    assert same(fast_inverse_dynamics(three, chi, *arrays), inverse_dynamics(three, chi, *arrays))
    assert same(fast_regressor(three, *arrays), regressor(three, *arrays))


@needs_compiler
def test_a_folder_that_others_can_write_is_not_used(cache):
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    torque_function(SMALL, np.ones(len(standard_names(SMALL))))
    assert not list(cache.iterdir())
    assert compiled.cache_folder() != cache


@needs_compiler
def test_a_library_that_others_could_have_written_is_not_loaded(cache):
    library = cache / f"{compiled.library_key(SMALL, 'torque')}{compiled.library_suffix()}"
    cache.mkdir(mode=0o700)
    library.write_bytes(b"not a library")
    library.chmod(0o666)
    assert not compiled.is_ready(SMALL, "torque")
    one = torque_function(SMALL, np.ones(len(standard_names(SMALL))))  # built anew over it
    assert np.isfinite(one.torque([0.0, 0.0], [0.0, 0.0], [1.0, 1.0])).all()
    assert library.stat().st_mode & 0o022 == 0


def test_symbolic_links_and_foreign_parents_are_refused(tmp_path):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(real)
    assert compiled.is_private_folder(real)
    assert not compiled.is_private_folder(link)
    open_folder = tmp_path / "open"
    inside = open_folder / "inside"
    inside.mkdir(mode=0o700, parents=True)
    open_folder.chmod(0o777)
    assert not compiled.is_private_folder(inside)
    open_folder.chmod(0o1777)  # as /tmp: others cannot rename what is ours
    assert compiled.is_private_folder(inside)


@needs_compiler
def test_a_home_without_write_access_is_no_obstacle(cache, monkeypatch):
    monkeypatch.setenv("DYNID_CACHE", "/proc/nowhere/at/all")
    one = torque_function(SMALL, np.ones(len(standard_names(SMALL))))
    assert np.isfinite(one.torque([0.0, 0.0], [0.0, 0.0], [1.0, 1.0])).all()
    assert compiled.is_private_folder(compiled.cache_folder())


def test_without_a_compiler_numpy_serves_with_one_warning(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("DYNID_BACKEND", "auto")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    chi = np.ones(len(standard_names(SMALL)))
    with pytest.warns(RuntimeWarning, match="no C compiler; install one"):
        one = torque_function(SMALL, chi)
    assert isinstance(one, NumpyTorque)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the second time there is no warning
        q, dq, ddq = samples(SMALL, backend.MIN_BUILD_SAMPLES)
        assert same(fast_inverse_dynamics(SMALL, chi, q, dq, ddq), inverse_dynamics(SMALL, chi, q, dq, ddq))
        assert same(one.torque(q[0], dq[0], ddq[0]), inverse_dynamics(SMALL, chi, q[:1], dq[:1], ddq[:1])[0])
        assert same(one.torques(q, dq, ddq), inverse_dynamics(SMALL, chi, q, dq, ddq))
    monkeypatch.setenv("DYNID_BACKEND", "compiled")
    with pytest.raises(compiled.BuildError, match="no C compiler"):
        torque_function(SMALL, chi)


def test_a_failing_compiler_is_named(cache, monkeypatch):
    monkeypatch.setenv("CC", "false")
    with pytest.raises(compiled.BuildError, match="false failed"):
        torque_function(SMALL, np.ones(len(standard_names(SMALL))))
    monkeypatch.setenv("DYNID_BACKEND", "fast")
    with pytest.raises(InputError, match="DYNID_BACKEND"):
        torque_function(SMALL, np.ones(len(standard_names(SMALL))))


@needs_compiler
def test_small_batches_do_not_wait_for_a_compiler(cache, monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "auto")
    fast_regressor(SMALL, *samples(SMALL, 10))
    assert not cache.exists() or not list(cache.glob("*.so"))


@needs_compiler
def test_without_headers_ctypes_serves(cache, monkeypatch):
    monkeypatch.setattr(compiled, "include_folder", lambda: Path("/nowhere"))
    chi = np.random.default_rng(0).normal(size=len(standard_names(SMALL)))
    q, dq, ddq = samples(SMALL, 100)
    tau = inverse_dynamics(SMALL, chi, q, dq, ddq)
    assert not compiled.has_headers()
    assert same(fast_inverse_dynamics(SMALL, chi, q, dq, ddq), tau)
    assert same(torque_function(SMALL, chi).torque(q[0], dq[0], ddq[0]), tau[0])
    assert same(fast_regressor(SMALL, q, dq, ddq), regressor(SMALL, q, dq, ddq))
    assert same(fast_energy_regressor(SMALL, q, dq), energy_regressor(SMALL, q, dq))


@needs_compiler
def test_processes_may_build_at_once(cache):
    code = (
        "import numpy as np\n"
        "from ros2_dynid.codegen.backend import torque_function\n"
        "from ros2_dynid.model.parameters import standard_names\n"
        "from ros2_dynid.model.robot import Joint, Robot\n"
        "robot = Robot('r', (Joint('a', 0, d=0.1), Joint('b', 1, alpha=1.0, r=0.25)))\n"
        "one = torque_function(robot, np.ones(len(standard_names(robot))))\n"
        "print(one.torque(np.ones(2), np.ones(2), np.ones(2)).tolist())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=120.0) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], ended
    assert len({out for out, _ in ended}) == 1
    assert len(list(cache.glob("*.so"))) == 1
    assert not list(cache.glob("build-*"))


@needs_compiler
def test_threads_that_ask_at_once_get_one_library(cache):
    robots = [Robot("small", SMALL.joints) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        libraries = list(pool.map(lambda robot: compiled.library(robot, "energy"), robots))
    assert len({id(library) for library in libraries}) == 1
    assert len(list(cache.glob("*.so"))) == 1
