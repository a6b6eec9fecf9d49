# SPDX-License-Identifier: Apache-2.0

"""Builds the generated C with the system's compiler, once for a robot and a processor, and loads it.

The library's name is a hash of all it depends on: the robot's geometry, the generator, compiler, flags, processor,
Python and NumPy. It is kept in a folder that only its owner can enter; a library is loaded only if it, its folder and
all folders above are safe from others. It is built aside, compared with NumPy on random motions, and renamed only if
the results agree: what is in the folder has passed, and two processes may build the same at once.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np

from ros2_dynid.errors import DynidError
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import NO_LOOPS, Array, Robot

_POINTER = ctypes.POINTER(ctypes.c_double)
MAX_CONSTANTS = 4096
"""More constants than any generated torque has."""


BLOCK = 32
"""Samples in a block: a power of two, small enough for the block's arrays to stay in the nearest cache."""


def _pointer(array: Array) -> object:
    return array.ctypes.data_as(_POINTER)


class PlainLibrary:
    """What the extension module offers, for one kind of library."""

    def __init__(self, library: ctypes.CDLL, kind: str, robot: Robot) -> None:
        """Wrap a library that was just loaded."""
        self._library, self._n = library, len(robot.active)
        self._positions = self._n if robot.loops is None else robot.n
        self._standard = len(standard_names(robot))
        self._rows = self._standard * (self._n if kind == "regressor" else 1)

    def Torque(self, chi: Array) -> PlainTorque:
        """Return the inverse dynamics for standard parameters chi; named as the extension's type."""
        return PlainTorque(self._library, _array(chi, (self._standard,)), self._n, self._positions)

    def close(self, q: Array, joints: Array) -> bool:
        """Move `joints`, closed positions of all joints, to those at q; return whether the loops close there."""
        if joints.dtype != np.float64 or not joints.flags.c_contiguous or joints.shape != (self._positions,):
            raise ValueError("joints is no array of doubles for all joints")
        return bool(self._library.close_loops(_pointer(_array(q, (self._n,))), _pointer(joints)))

    def ratios(self, joints: Array) -> Array:
        """Return dq/dq_active of all joints, shape (n, n_active), at closed positions."""
        G = np.empty((self._positions, self._n))
        self._library.loop_ratios(_pointer(_array(joints, (self._positions,))), _pointer(G))
        return G

    def fill(self, *arrays: Array) -> None:
        """Write the results of all samples into the last array, samples last."""
        *inputs, out = arrays
        N = len(inputs[0])
        input_arrays = [_array(x, (N, self._n)) for x in inputs]
        if out.dtype != np.float64 or not out.flags.c_contiguous or out.size != N * self._rows:
            raise ValueError("the array for the result has the wrong type or size")
        pointers = [_pointer(x) for x in input_arrays] + [None] * (3 - len(input_arrays))
        self._library.fill_batch(ctypes.c_size_t(N), *pointers, _pointer(out))


class PlainTorque:
    """Inverse dynamics of one robot with one set of parameters."""

    def __init__(self, library: ctypes.CDLL, chi: Array, n: int, positions: int) -> None:
        """Prepare the constants of chi; positions: how many columns q has, those of all joints with closed loops."""
        self._library, self._n, self._positions = library, n, positions
        self._constants = np.zeros(MAX_CONSTANTS)
        library.prepare(_pointer(chi), _pointer(self._constants))

    def torque(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of one sample, shape (n,)."""
        input_arrays = [_array(q, (self._positions,)), *(_array(x, (self._n,)) for x in (dq, ddq))]
        tau = np.empty(self._n)
        self._library.torque_one(*(_pointer(x) for x in input_arrays), _pointer(self._constants), _pointer(tau))
        return tau

    def torques(self, q: Array, dq: Array, ddq: Array) -> Array:
        """Return tau of many samples, shape (N, n)."""
        input_arrays = [_array(q, (len(q), self._positions)), *(_array(x, (len(q), self._n)) for x in (dq, ddq))]
        tau = np.empty((len(q), self._n))
        pointers = [_pointer(x) for x in input_arrays]
        self._library.torque_batch(ctypes.c_size_t(len(q)), *pointers, _pointer(self._constants), _pointer(tau))
        return tau


Library: TypeAlias = ModuleType | PlainLibrary
"""An extension module, or the same through ctypes where Python's headers are missing."""


def _array(x: Array, shape: tuple[int, ...]) -> Array:
    array = np.ascontiguousarray(x, dtype=float)
    if array.shape != shape:
        raise ValueError(f"an array has the wrong shape {array.shape}; give {shape}")
    return array


FLAGS = ("-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fPIC", "-shared")
NATIVE = "-march=native"
COMPILE_TIMEOUT = 300.0
"""Longest time a compiler may take [s]."""
_modules: dict[str, Library] = {}
_known: weakref.WeakKeyDictionary[Robot, dict[str, Library]] = weakref.WeakKeyDictionary()
"""Libraries of robots that are alive: finding the compiler and hashing takes longer than many a batch."""
_refusals: dict[str, str] = {}
"""Why libraries were refused, by their key: building them again would take seconds and change nothing."""
_lock = threading.Lock()


class BuildError(DynidError):
    """The library could not be built: no compiler, or it failed."""


class WrongResultError(BuildError):
    """A library that was built does not give the results of NumPy."""


def forget_libraries() -> None:
    """Load libraries anew from now on, as a process does that has just started."""
    with _lock:
        _modules.clear()
        _known.clear()


def library(robot: Robot, kind: str) -> Library:
    """Return the loaded library of a kind ("torque", "regressor" or "energy") for the robot; build it if need be.

    Raises BuildError if there is no compiler or it fails, WrongResultError if the results are not those of NumPy.
    """
    known_library = _known.get(robot, {}).get(kind)
    if known_library is not None:
        return known_library
    key = library_key(robot, kind)
    with _lock:
        if key not in _modules:
            folder = cache_folder()
            path = folder / f"{key}{library_suffix()}"
            if key in _refusals:
                raise WrongResultError(_refusals[key])
            if not is_private_file(path):
                try:
                    build_library(robot, kind, path)
                except WrongResultError as error:
                    _refusals[key] = str(error)
                    raise
            _modules[key] = load_library(path, kind, robot)
        _known.setdefault(robot, {})[kind] = _modules[key]
        return _modules[key]


def is_ready(robot: Robot, kind: str) -> bool:
    """Whether the library is there already, so that asking for it takes no time."""
    if kind in _known.get(robot, {}):
        return True
    try:
        key = library_key(robot, kind)
    except BuildError:
        return False
    return key in _modules or is_private_file(cache_folder() / f"{key}{library_suffix()}")


def library_key(robot: Robot, kind: str) -> str:
    """Return the hash that names the library: equal only if the same source would give the same machine code."""
    parts = [kind, _robot_text(robot), _generator_hash(), _compiler_text(), " ".join((*FLAGS, NATIVE)), _processor()]
    parts += [sys.version, np.__version__, str(has_headers())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _robot_text(robot: Robot) -> str:
    """Return the robot's geometry, bit by bit; names and parameters do not enter the libraries."""
    rows = [
        (j.parent, j.sigma, *(float(x).hex() for x in (j.gamma, j.b, j.alpha, j.d, j.theta, j.r))) for j in robot.joints
    ]
    more = [float(x).hex() for x in (*robot.gravity, *robot.base.ravel())]
    coupling = [(c.motor, sorted(c.weights.items()), c.independent_inertia) for c in robot.coupling]
    passive = [(p.joint, sorted(p.terms.items()), p.offset) for p in robot.passive]
    forces = [
        (f.powers, sorted(f.weights.items()), [(p.joint, p.point) for p in f.pivots], f.rest) for f in robot.forces
    ]
    loops = robot.loops or NO_LOOPS
    cuts = [[(p.joint, p.point) for p in pair] for pair in loops.pairs]
    return repr((rows, more, coupling, passive, cuts, loops.passive, sorted(loops.assembly.items()), *forces))


@functools.cache
def _generator_hash() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def compiler() -> list[str]:
    """Return the command of the system's C compiler: $CC, cc, gcc or clang."""
    from_environment = shlex.split(os.environ.get("CC", ""))
    for command in (from_environment, ["cc"], ["gcc"], ["clang"]):
        program = shutil.which(command[0]) if command else None
        if program:
            return [program, *command[1:]]
    raise BuildError("there is no C compiler; install one (gcc or clang) or set CC")


def _compiler_text() -> str:
    return _compiler_of(os.environ.get("CC"), os.environ.get("PATH"))


@functools.lru_cache(maxsize=8)
def _compiler_of(cc: str | None, path: str | None) -> str:
    """Return what tells compilers apart, for the environment that the compiler is looked for in."""
    command = compiler()
    file = Path(command[0]).resolve()
    status = file.stat()
    return f"{file} {status.st_size} {status.st_mtime_ns} {command[1:]}"


@functools.cache
def _processor() -> str:
    """Return what tells processors apart whose instruction sets differ."""
    text = platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "flags", "Features", "CPU part")):
                text += line
            if not line:
                break
    return text


@functools.cache
def has_headers() -> bool:
    """Whether the headers of Python and NumPy are there, for a plain extension module; else ctypes serves."""
    return all(
        Path(folder).is_file() for folder in (include_folder() / "Python.h", _numpy_include() / "numpy/arrayobject.h")
    )


def include_folder() -> Path:
    """Return the folder of Python's headers."""
    return Path(sysconfig.get_paths()["include"])


def _numpy_include() -> Path:
    return Path(np.get_include())


def library_suffix() -> str:
    """Return how a library's name ends: plain ones, without Python's headers, have an own one."""
    return str(sysconfig.get_config_var("EXT_SUFFIX") or ".so") if has_headers() else ".plain.so"


@functools.cache
def cache_folder() -> Path:
    """Return the folder of the libraries: $DYNID_CACHE or the user's cache, else a private temporary one.

    The temporary folder lives as long as the process.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.environ.get("DYNID_CACHE") or Path(base) / "ros2_dynid").expanduser().absolute()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = folder.resolve()
        if is_private_folder(folder) and os.access(folder, os.W_OK):
            return folder
    folder = Path(tempfile.mkdtemp(prefix="ros2_dynid-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def is_private_folder(folder: Path) -> bool:
    """Whether only we (or root) could have put something into the folder: ours, 0700, and safe folders above."""
    try:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return False
        for above in folder.parents:
            status = above.lstat()
            others_write = status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX
            if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()) or others_write:
                return False
    except OSError:
        return False
    return True


def is_private_file(path: Path) -> bool:
    """Whether the file is there, is ours and nobody else can write it, in a private folder."""
    try:
        status = path.lstat()
    except OSError:
        return False
    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return bool(ours) and is_private_folder(path.parent)


def build_library(robot: Robot, kind: str, path: Path) -> None:
    """Build the library of a robot at `path`, unless another process was faster."""
    with _only_builder(path):
        if is_private_file(path):  # another process was faster
            return
        from ros2_dynid.codegen.kernels import SOURCES  # only who builds generates code

        source = SOURCES[kind](robot)
        with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as name:
            work = Path(name)
            (work / "kernel.c").write_text(source)
            compile_shared(work / "kernel.c", work / "kernel.so")
            (work / "kernel.so").chmod(0o700)
            _refuse_if_wrong(load_library(work / "kernel.so", kind, robot), kind, robot)
            (work / "kernel.so").replace(path)


def _refuse_if_wrong(library: Library, kind: str, robot: Robot) -> None:
    """Raise WrongResultError if a library that was just built does not give the results of NumPy."""
    from ros2_dynid.codegen.comparison import TOLERANCE, library_error

    error = library_error(library, kind, robot)
    if not error <= TOLERANCE:
        what = f"the compiled {kind} of {robot.name!r} differs from that of NumPy by {error:.1e} of the largest value"
        raise WrongResultError(f"{what}; set DYNID_BACKEND=numpy and report the robot")


@contextlib.contextmanager
def _only_builder(path: Path) -> Iterator[None]:
    """Let one process build a library at a time; where files cannot be locked, both build and the last one stays."""
    import fcntl

    lock = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def compile_shared(source: Path, target: Path) -> None:
    """Compile one C file into a shared library, for this processor where the compiler knows it."""
    command = [*compiler(), *FLAGS]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    if has_headers():
        command += ["-DDYNID_PYTHON", f"-I{include_folder()}", f"-I{_numpy_include()}"]
    error = ""
    for native in ([NATIVE], []):
        try:
            result = subprocess.run(
                [*command, *native, "-o", str(target), str(source), "-lm"],
                capture_output=True,
                text=True,
                timeout=COMPILE_TIMEOUT,
                cwd=source.parent,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as failure:
            raise BuildError(f"the C compiler {command[0]} did not run ({failure}); check CC") from failure
        if result.returncode == 0:
            return
        error = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr[:200])
    raise BuildError(f"the C compiler {command[0]} failed ({error.strip()[:200]}); check CC")


def load_library(path: Path, kind: str, robot: Robot) -> Library:
    """Load the library at `path`, or refuse one that somebody else could have written."""
    if not is_private_file(path):
        raise BuildError(f"{path} could have been written by somebody else; remove it")
    if not has_headers():
        return PlainLibrary(ctypes.CDLL(str(path)), kind, robot)
    loader = importlib.machinery.ExtensionFileLoader("dynid_kernel", str(path))
    spec = importlib.util.spec_from_file_location("dynid_kernel", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
