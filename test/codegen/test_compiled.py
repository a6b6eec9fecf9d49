# SPDX-License-Identifier: Apache-2.0

"""The compiled backend: same results as NumPy, built once, loaded only from where nobody else can write."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

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
from ros2_dynid.codegen.compiled import PlainLibrary, PlainTorque
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.forces import Pivot
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Joint, Robot
from runtime_robots import coupled_loop, with_forces

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


def test_ctypes_refuses_what_the_extension_refuses():
    calls = []
    names = ("prepare", "torque_one", "torque_batch", "fill_batch")
    library = SimpleNamespace(**{name: lambda *a, name=name: calls.append((name, a)) for name in names})
    for kind, rows in (("regressor", 56), ("energy", 28)):
        made = PlainLibrary(library, kind, SMALL)
        made.fill(*[np.zeros((3, 2))] * (3 if kind == "regressor" else 2), np.zeros(3 * rows))
        name, arguments = calls[-1]
        assert name == "fill_batch" and arguments[0].value == 3 and len(arguments) == 5
        assert (arguments[3] is None) == (kind == "energy")
        for out in (np.zeros(3 * rows + 1), np.zeros(3 * rows, np.float32), np.zeros(6 * rows)[::2]):
            with pytest.raises(ValueError, match="wrong type or size"):
                made.fill(np.zeros((3, 2)), np.zeros((3, 2)), out)
        with pytest.raises(ValueError, match="wrong shape"):
            made.fill(np.zeros((3, 2)), np.zeros((2, 2)), np.zeros(3 * rows))
        assert isinstance(made.Torque(np.zeros(28)), PlainTorque)
        with pytest.raises(ValueError, match="wrong shape"):
            made.Torque(np.zeros(27))
    one = made.Torque(np.zeros(28))
    assert one.torque(np.zeros(2), [0, 0], np.zeros(2)).shape == (2,) and one.torques(*np.zeros((3, 5, 2))).shape == (
        5,
        2,
    )
    assert calls[-1][1][0].value == 5 and len(calls[-1][1]) == 6 and len(calls[-2][1]) == 5
    for wrong in (np.zeros(3), np.zeros((1, 2))):
        with pytest.raises(ValueError, match="wrong shape"):
            one.torque(np.zeros(2), wrong, np.zeros(2))


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o710, False), (0o704, False), (0o750, False)])
def test_only_folders_that_are_ours_alone_are_private(tmp_path, mode, private):
    folder = tmp_path / "x"
    folder.mkdir()
    folder.chmod(mode)
    assert compiled.is_private_folder(folder) == private
    file = folder / "a.so"
    file.write_bytes(b"")
    for own, ours in ((0o700, True), (0o600, True), (0o755, True), (0o720, False), (0o702, False)):
        file.chmod(own)
        assert compiled.is_private_file(file) == (ours and private)
    assert not compiled.is_private_file(folder / "none") and not compiled.is_private_folder(file)
    assert not compiled.is_private_folder(folder / "none") and not compiled.is_private_file(folder)


def test_folders_of_other_people_are_not_private(tmp_path, monkeypatch):
    folder = tmp_path / "x"
    folder.mkdir(mode=0o700)
    file = folder / "a.so"
    file.write_bytes(b"")
    file.chmod(0o600)
    assert compiled.is_private_folder(folder) and compiled.is_private_file(file)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not compiled.is_private_folder(folder) and not compiled.is_private_file(file)
    monkeypatch.undo()
    true = Path.lstat

    def owned(path, user):
        status = true(path)
        return SimpleNamespace(st_mode=status.st_mode, st_uid=user if path == tmp_path else status.st_uid)

    for user, private in ((0, True), (os.geteuid(), True), (12345, False)):
        monkeypatch.setattr(Path, "lstat", lambda path, user=user: owned(path, user))
        assert compiled.is_private_folder(folder) == private, "the folder above is another's"
    monkeypatch.undo()
    tmp_path.chmod(0o720)
    assert not compiled.is_private_folder(folder)
    tmp_path.chmod(0o702)
    assert not compiled.is_private_folder(folder)
    tmp_path.chmod(0o702 | stat.S_ISVTX)
    assert compiled.is_private_folder(folder)
    tmp_path.chmod(0o755)
    assert compiled.is_private_folder(folder)


def test_the_compiler_is_the_one_named_or_the_first_there_is(monkeypatch):
    there = {"gcc": "/usr/bin/gcc", "clang": "/usr/bin/clang", "mycc": "/opt/mycc"}
    monkeypatch.setattr("ros2_dynid.codegen.compiled.shutil.which", there.get)
    monkeypatch.delenv("CC", raising=False)
    assert compiled.compiler() == ["/usr/bin/gcc"]
    monkeypatch.setenv("CC", "mycc -m64 '-D X'")
    assert compiled.compiler() == ["/opt/mycc", "-m64", "-D X"]
    monkeypatch.setenv("CC", "gone -m64")
    assert compiled.compiler() == ["/usr/bin/gcc"]
    there.clear()
    with pytest.raises(compiled.BuildError, match="no C compiler"):
        compiled.compiler()


def test_a_compiler_that_does_not_know_the_processor_is_asked_again(tmp_path, monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(command)
        assert options["timeout"] == 300.0 and options["cwd"] == tmp_path
        return SimpleNamespace(returncode=codes.pop(0), stderr="a warning\nx.c:1: error: no\nmore")

    monkeypatch.setattr("ros2_dynid.codegen.compiled.subprocess.run", run)
    monkeypatch.setattr(compiled, "compiler", lambda: ["cc"])
    codes = [0]
    compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    assert (
        len(asked) == 1
        and "-march=native" in asked[0]
        and asked[0][-4:-1] == ["-o", str(tmp_path / "a.so"), str(tmp_path / "a.c")]
    )
    codes = [1, 0]
    compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    assert len(asked) == 3 and "-march=native" not in asked[2]
    codes = [1, 1]
    with pytest.raises(compiled.BuildError, match=r"cc failed \(x\.c:1: error: no\)"):
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
    for headers in (True, False):
        monkeypatch.setattr(compiled, "has_headers", lambda headers=headers: headers)
        codes = [0]
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
        assert ("-DDYNID_PYTHON" in asked[-1]) == headers


def test_a_library_is_named_by_all_that_makes_it():
    """Whatever changes the machine code changes the name; what does not (names, parameters) leaves it."""
    base = coupled_loop(np.random.default_rng(3))
    forces = with_forces(load_robot("demo6"))
    robots = [base, forces, load_robot("demo6")]
    robots += [
        replace(base, gravity=-base.gravity),
        replace(base, coupling=base.coupling[:1]),
        replace(base, passive=()),
    ]
    moved = base.base.copy()
    moved[0, 3] += 1e-9
    robots += [replace(base, base=moved)]
    for field in ("gamma", "b", "alpha", "d", "theta", "r"):
        joint = replace(base.joints[2], **{field: getattr(base.joints[2], field) + 1e-12})
        robots.append(replace(base, joints=(*base.joints[:2], joint, *base.joints[3:])))
    robots.append(replace(forces, forces=(replace(forces.forces[0], rest=0.3), *forces.forces[1:])))
    robots.append(replace(forces, forces=(replace(forces.forces[0], powers=(1,)), *forces.forces[1:])))
    keys = {compiled.library_key(robot, "torque") for robot in robots}
    assert len(keys) == len(robots)
    renamed = replace(base, name="x", parameters={})
    assert compiled.library_key(renamed, "torque") == compiled.library_key(base, "torque")


def test_whatever_a_library_would_be_wrong_without_is_in_its_name():
    base, forces = coupled_loop(np.random.default_rng(3)), with_forces(load_robot("demo6"))
    one, two = base.coupling
    last = base.joints[-1]
    element = forces.forces[2]
    pivot = element.pivots[1]
    nearer = replace(pivot, point=(pivot.point[0], pivot.point[1] + 1e-9, pivot.point[2]))
    others = [
        replace(base, joints=(*base.joints[:-1], replace(last, sigma=1 - last.sigma))),
        replace(base, joints=(*base.joints[:-1], replace(last, parent=last.parent - 1))),
        replace(base, coupling=(replace(one, independent_inertia=not one.independent_inertia), two)),
        replace(base, coupling=(replace(one, weights={**one.weights, one.motor: 2.0}), two)),
        replace(base, passive=(replace(base.passive[0], offset=0.31), base.passive[1])),
        replace(base, passive=(replace(base.passive[0], terms={1: 1.0, 4: -0.71}), base.passive[1])),
        replace(forces, forces=(*forces.forces[:2], replace(element, pivots=(element.pivots[0], nearer)))),
        replace(
            forces, forces=(*forces.forces[:2], replace(element, pivots=(element.pivots[0], Pivot(3, pivot.point))))
        ),
        replace(forces, forces=(replace(forces.forces[0], weights={1: 1.0, 4: -0.6}), *forces.forces[1:])),
    ]
    robots = (base, forces, replace(forces, forces=forces.forces[:3]), *others)
    keys = [compiled.library_key(robot, "torque") for robot in robots]
    keys += [compiled.library_key(base, kind) for kind in ("regressor", "energy")]
    assert len(set(keys)) == len(keys)


def test_another_compiler_is_told_apart(tmp_path, monkeypatch):
    keys = []
    for name, text in (("one", "#!/bin/sh\n"), ("two", "#!/bin/sh\n#\n")):
        tool = tmp_path / name
        tool.write_text(text)
        tool.chmod(0o700)
        for options in ("", " -m64"):
            monkeypatch.setenv("CC", f"{tool}{options}")
            keys.append(compiled.library_key(SMALL, "torque"))
    assert len(set(keys)) == 4


def test_where_libraries_are_kept(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(compiled.atexit, "register", lambda *a, **k: made.append((a, k)))

    def folder(**environment):
        for name in ("DYNID_CACHE", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        return compiled.cache_folder.__wrapped__()

    assert folder(DYNID_CACHE=tmp_path / "a" / "b", XDG_CACHE_HOME=tmp_path / "x") == tmp_path / "a" / "b"
    assert folder(XDG_CACHE_HOME=tmp_path / "x") == tmp_path / "x" / "ros2_dynid"
    assert folder(HOME=tmp_path / "home") == tmp_path / "home" / ".cache" / "ros2_dynid" and not made
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        aside = folder(DYNID_CACHE=tmp_path / "a" / "b")
    assert aside.is_dir() and compiled.is_private_folder(aside) and aside != tmp_path / "a" / "b"
    ((remove, gone), options) = made.pop()
    remove(gone, **options)
    assert gone == aside and not aside.exists()


@pytest.mark.parametrize(
    "failure", [OSError("gone"), subprocess.TimeoutExpired("cc", 300.0)], ids=["no program", "too long"]
)
def test_a_compiler_that_does_not_run_is_told(tmp_path, monkeypatch, failure):
    def run(command, **options):
        assert options["stdin"] == subprocess.DEVNULL, "it must not wait for somebody to type"
        raise failure

    monkeypatch.setattr("ros2_dynid.codegen.compiled.subprocess.run", run)
    monkeypatch.setattr(compiled, "compiler", lambda: ["cc"])
    with pytest.raises(compiled.BuildError, match="the C compiler cc did not run"):
        compiled.compile_shared(tmp_path / "a.c", tmp_path / "a.so")
