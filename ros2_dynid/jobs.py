"""Long computations in a process of their own, so that a node keeps answering and a cancelled one really ends.

`python -m ros2_dynid.jobs` reads one request as JSON from its input and writes lines of JSON: {"stage", "progress"}
while it works, then {"result"} or {"error"}. It ends when its parent does.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ros2_dynid.errors import DynidError

if TYPE_CHECKING:
    from ros2_dynid.excitation.collision import Shapes
    from ros2_dynid.model.robot import Robot

PR_SET_PDEATHSIG = 1
Progress = Callable[[str, float], None]


class JobError(DynidError):
    """A job failed or was cancelled; the text says why."""


class Job:
    """A request being worked on; `wait` from one thread, `cancel` from any."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        """Start the process."""
        self.cancelled = False
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ros2_dynid.jobs", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request))
            self._process.stdin.close()

    def cancel(self) -> None:
        """End the process and what it has started, such as a compiler; `wait` raises."""
        self.cancelled = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self, progress: Progress | None = None) -> Any:
        """Pass progress on until the end and return the result, or raise JobError."""
        assert self._process.stdout is not None
        outcome: dict[str, Any] = {}
        with self._process.stdout as lines:
            for line in lines:
                message = json.loads(line)
                if "progress" in message and progress is not None:
                    progress(message["stage"], message["progress"])
                outcome = message
        code = self._process.wait()
        if self.cancelled:
            raise JobError("cancelled; nothing was written")
        if "result" in outcome:
            return outcome["result"]
        raise JobError(outcome.get("error", f"the computation ended with code {code}; see its messages above"))


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
    from ros2_dynid.pipeline import IdentifyOptions, identify

    switches = {name: request.get(name, False) for name in ("essential", "standard", "consistent")}
    options = IdentifyOptions(method=request["method"], cross_validate=request.get("cross_validate", 0), **switches)
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
    from ros2_dynid.excitation.plan import plan
    from ros2_dynid.excitation.trajectory import save_trajectory

    robot, shapes = requested_surroundings(request["robot"], request["around"])
    planned = plan(
        robot,
        shapes=shapes,
        method=request["method"],
        seed=request["seed"],
        duration_s=request["duration"],
        time_budget_s=request["budget"],
        progress=lambda fraction, text: progress(text, fraction),
    )
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
    """Work on the request on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))  # with a compiler that may be running
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if len(sys.argv) > 1 and os.getppid() != int(sys.argv[1]):  # the parent died before we asked
        return 1
    request = json.load(sys.stdin)

    def tell(message: Mapping[str, Any]) -> None:
        print(json.dumps(message), flush=True)

    tell({"stage": "starting", "progress": 0.0})  # before the modules that the work needs are loaded
    try:
        result = KINDS[request["kind"]](request, lambda stage, done: tell({"stage": stage, "progress": float(done)}))
    except (DynidError, OSError) as error:
        tell({"error": str(error)})
        return 1
    tell({"result": result})
    return 0


if __name__ == "__main__":
    sys.exit(main())
