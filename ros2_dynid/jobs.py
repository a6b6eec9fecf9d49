"""Long computations in a process of their own, so that a node keeps answering and a cancelled one really ends.

`python -m ros2_dynid.jobs FD PARENT` reads one request as JSON from its input and writes lines of JSON to the pipe FD:
{"stage", "progress"} while it works, then {"result"} or {"error"}. Its standard output is its log: libraries may print
what they like. It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ros2_dynid.errors import DynidError, InputError, one_line
from ros2_dynid.processes import end_with_parent

if TYPE_CHECKING:
    from ros2_dynid.excitation.collision import Shapes
    from ros2_dynid.model.robot import Robot

Progress = Callable[[str, float], None]
LOOK_SECONDS = 0.2
"""How often a silent job is looked at [s]: one that was killed may leave its pipe open in a child."""
PATIENCE = 2.0
"""Time [s] that a job has to end by itself once its answer is there."""
SECONDS = (1.0, 600.0)
"""Shortest and longest plan that a request may ask for [s]."""


class JobError(DynidError):
    """A job failed or was cancelled; the text says why."""


class Job:
    """A request being worked on; `wait` from one thread, `cancel` from any."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        """Check the request, which names a field that cannot be, and start the process."""
        check_request(request)
        self.cancelled = False
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self._reader, writer = os.pipe()
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, writer)
            wanted = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            json.dump(request, wanted)  # a file: a pipe could make us wait for a process that does not read
            wanted.seek(0)
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "ros2_dynid.jobs", str(writer), str(os.getpid())],
                    stdin=wanted,
                    stdout=2,  # whatever is printed goes where our own messages go
                    env=environment,
                    start_new_session=True,
                    pass_fds=(writer,),
                )
            except OSError as error:
                os.close(self._reader)
                raise JobError(f"the computation could not be started: {error.strerror}; try again") from None

    def cancel(self) -> None:
        """End the process and what it has started, such as a compiler; `wait` raises."""
        self.cancelled = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, progress: Progress | None = None) -> Any:
        """Pass progress on until the end and return the result, or raise JobError."""
        outcome: Mapping[str, Any] = {}
        try:
            for message in self._messages():
                if "result" in message or "error" in message:
                    outcome = message
                    break
                if progress is not None and "progress" in message:
                    progress(str(message.get("stage", "")), float(message["progress"]))
        finally:
            code = self._end(at_once=not outcome)
        if "result" in outcome:
            return outcome["result"]
        if self.cancelled:
            raise JobError("cancelled; nothing was written")
        raise JobError(str(outcome["error"]) if outcome else _ending(code))

    def _messages(self) -> Iterator[Mapping[str, Any]]:
        """Yield what the process says until it ends, however it ends."""
        waiting, ready = b"", select.poll()
        ready.register(self._reader, select.POLLIN)
        while True:
            if not ready.poll(1e3 * LOOK_SECONDS):
                if self._process.poll() is not None:
                    return
                continue
            data = os.read(self._reader, 1 << 16)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):  # not one of ours
                    if isinstance(message := json.loads(line), dict):
                        yield message

    def _end(self, *, at_once: bool) -> int:
        """Return the process's code, with nothing left of it."""
        os.close(self._reader)
        try:
            return self._process.wait(0.1 if at_once else PATIENCE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()


def _ending(code: int) -> str:
    """Return in words how a process ended that gave no answer."""
    if code < 0:
        name = signal.Signals(-code).name
        return f"the computation was ended by {name}; if memory ran out, take shorter recordings, else see the log"
    return f"the computation ended with code {code} and no answer; see the log"


def check_request(request: Mapping[str, Any]) -> None:
    """Refuse a request with a value that no computation can work with, naming its field."""
    kind = request.get("kind")
    if kind not in KINDS:
        raise InputError(f"kind is {kind!r}", f"choose from {', '.join(KINDS)}")
    if kind == "plan":
        if request["seed"] < 0:
            raise InputError(f"seed is {request['seed']}", "give a whole number from 0 on")
        if not SECONDS[0] <= request["duration"] <= SECONDS[1]:  # false for NaN, too
            raise InputError(f"duration is {request['duration']:g} s", f"give {SECONDS[0]:g} to {SECONDS[1]:g} s")
    lists = {"identify": {"bags": "bags"}, "payload": {"empty": "empty_bags", "loaded": "loaded_bags"}}
    for key, field in lists.get(str(kind), {}).items():
        if not request[key]:
            raise InputError(f"{field} is empty", "name at least one recording")


def robot_request(path: str, urdf: str, base_link: str, tip_link: str) -> dict[str, str]:
    """Return how a job finds the robot again: by its file, or by the URDF's text."""
    return {"path": path, "urdf": urdf, "base_link": base_link, "tip_link": tip_link}


def requested_robot(request: Mapping[str, str]) -> Robot:
    """Return the robot of `robot_request`."""
    from ros2_dynid.model.load import load_robot, robot_from_urdf_string

    base_link, tip_link = request["base_link"] or None, request["tip_link"] or None
    if request["path"]:
        return load_robot(request["path"], base_link=base_link, tip_link=tip_link)
    return robot_from_urdf_string(request["urdf"], base_link=base_link, tip_link=tip_link)


def requested_surroundings(
    request: Mapping[str, str], around: Mapping[str, Any], *, planning: bool = True
) -> tuple[Robot, Shapes | None]:
    """Return what must not collide, and the robot, for `planning` with the joint ranges that close links leave it.

    around: collisions (whether the URDF's shapes count), margin [m], and box, x, X, y, Y, z, Z [m], None for none.
    """
    from ros2_dynid.excitation.surroundings import known_shapes, surroundings
    from ros2_dynid.model.load import urdf_of

    robot = requested_robot(request)
    chain: dict[str, Any] = {key: request[key] or None for key in ("base_link", "tip_link")}
    source = None
    with contextlib.ExitStack() as stack:
        if request["path"]:
            source, chain = urdf_of(request["path"], **chain)
        elif request["urdf"]:  # meshes named by package:// are found wherever the text lies
            source = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "robot.urdf"
            source.write_text(request["urdf"], encoding="utf-8")
        if not around["collisions"]:
            source = None
        find = surroundings if planning else known_shapes
        return find(robot, source, box=around["box"], margin=around["margin"], **chain)


def _identify(request: Mapping[str, Any], progress: Progress) -> Any:
    from ros2_dynid.identification.choices import Method
    from ros2_dynid.pipeline import IdentifyOptions, identify

    switches = {name: request.get(name, False) for name in ("essential", "standard", "consistent")}
    options = IdentifyOptions(
        method=Method(request["method"]), cross_validate=request.get("cross_validate", 0), **switches
    )
    identified = identify(
        requested_robot(request["robot"]),
        request["bags"],
        options=options,
        validate=request["validate"],
        output=request["output"],
        progress=progress,
    )
    return {"model": str(identified.path)}


def _plan(request: Mapping[str, Any], progress: Progress) -> Any:
    from ros2_dynid.excitation.plan import PlanOptions, plan
    from ros2_dynid.excitation.trajectory import save_trajectory

    robot, shapes = requested_surroundings(request["robot"], request["around"])
    options = PlanOptions(
        shapes=shapes,
        method=request["method"],
        seed=request["seed"],
        duration_s=request["duration"],
        time_budget_s=request["budget"],
        progress=progress,
    )
    planned = plan(robot, options)
    save_trajectory(Path(request["output"]), planned.trajectory)
    return {"cond": planned.cond, "notes": [*robot.notes, *planned.notes]}


def _payload(request: Mapping[str, Any], progress: Progress) -> Any:
    from ros2_dynid.pipeline import identify_payload

    found = identify_payload(requested_robot(request["robot"]), request["empty"], request["loaded"], progress=progress)
    return {
        "mass": found.mass,
        "com": found.com.tolist(),
        "inertia": found.inertia.tolist(),
        "mass_std": found.mass_std,
        "com_std": found.com_std.tolist(),
    }


KINDS: Mapping[str, Callable[[Mapping[str, Any], Progress], Any]] = {
    "identify": _identify,
    "plan": _plan,
    "payload": _payload,
}


def main() -> int:
    """Work on the request on standard input; arguments: the pipe for answers and the parent's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))  # with a compiler that may be running
    answers, parent = (int(text) for text in sys.argv[1:3])
    end_with_parent(parent)
    os.set_inheritable(answers, False)
    faulthandler.enable()

    def tell(message: Mapping[str, Any]) -> None:
        os.write(answers, json.dumps(message).encode() + b"\n")

    try:
        tell({"stage": "starting", "progress": 0.0})  # before the modules that the work needs are loaded
        tell(_outcome(tell))
    except BrokenPipeError:  # nobody waits any more
        return 1
    return 0


def _outcome(tell: Callable[[Mapping[str, Any]], None]) -> dict[str, Any]:
    """Return {"result"}, or {"error"} with one line, whatever happens; what we did not foresee is in the log."""
    try:
        request = json.load(sys.stdin)
        check_request(request)
        work = KINDS[request["kind"]]
        return {"result": work(request, lambda stage, done: tell({"stage": stage, "progress": float(done)}))}
    except BrokenPipeError:
        raise
    except (DynidError, OSError) as error:
        return {"error": one_line(str(error))}
    except MemoryError:
        return {"error": "there is not enough memory; take shorter recordings"}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {one_line(str(error))}; the log has the details"}


if __name__ == "__main__":
    sys.exit(main())
