# SPDX-License-Identifier: Apache-2.0

"""Node panel: the suite in a browser. It calls services and actions of the other nodes and shows what they publish.

Calls plan, set_obstacles, rehearse, start, pause, resume, jog and stop of the excitation, the services of the recorder,
identify and the lifecycle of the identification and set_payload of the feedforward (clients.py). Subscribes to
robot_description, joint_states, joint_trajectory, excitation_state, excitation/planned, excitation/obstacles,
recording, base_parameters, drift, feedforward/predicted, feedforward/external_effort, identification/predicted, stop
and /diagnostics (listening.py).
Publishes stop, and preview/joint_states and ~/plan_path for RViz. It has no services. It decides nothing about the
robot: who may command and which buttons are enabled is preview.panel_rules, every node checks each request itself, and
anyone may stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from ros2_dynid.codec import Plain
from ros2_dynid.control.reference import Reference
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import DynidError, InputError, MissingPackageError
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.msg import ExcitationState
from ros2_dynid.nodes.common.answers import reason
from ros2_dynid.nodes.common.background import THREADS
from ros2_dynid.nodes.common.fast import Ticker
from ros2_dynid.nodes.common.lifecycle_node import OK, WARN, ManagedNode, NodeStatus
from ros2_dynid.nodes.common.messages import inertia_message
from ros2_dynid.nodes.common.spin import run
from ros2_dynid.nodes.common.stop_topic import StopListener
from ros2_dynid.nodes.panel.clients import LONG, Services
from ros2_dynid.nodes.panel.listening import Listening
from ros2_dynid.nodes.panel.parameters import PARAMETERS
from ros2_dynid.nodes.panel.publishers import Rviz
from ros2_dynid.preview.packing import floats, packed_appearance
from ros2_dynid.preview.page import as_json
from ros2_dynid.preview.panel_rules import PASSED, PanelAccess, Situation, check_rehearsed, refusals
from ros2_dynid.preview.panel_token import make_token, show_on_terminal, token_of_file
from ros2_dynid.preview.scene import Appearance, sampled_path, warning_of
from ros2_dynid.report.build import verdict_of
from ros2_dynid.usecases.plan import Surroundings
from ros2_dynid.usecases.preview import robot_appearance

if TYPE_CHECKING:
    from ros2_dynid.preview.panel_server import PanelServer

MOVING = frozenset(
    (
        ExcitationState.APPROACH,
        ExcitationState.SETTLE,
        ExcitationState.REHEARSING,
        ExcitationState.EXCITING,
        ExcitationState.SLOWING,
        ExcitationState.PAUSED,
        ExcitationState.JOGGING,
        ExcitationState.BRAKING,
    )
)
"""States in which the excitation moves the robot, or is about to."""
PAUSABLE = MOVING - {
    ExcitationState.SLOWING,
    ExcitationState.PAUSED,
    ExcitationState.JOGGING,
    ExcitationState.BRAKING,
}
"""States of a motion that can be paused."""
QUIET = frozenset(("jog", "let_go"))
"""Actions that come many times a second: what they answer is not told unless it is a refusal."""
STOPPED = frozenset((ExcitationState.BRAKING, ExcitationState.ABORTED))
"""States of a motion that did not reach its end."""


LINES = 12
"""Lines of what happened that the page keeps."""
LARGEST_NUMBER = 1e15
"""Numbers of a request are smaller: seeds, seconds, kilograms."""


class Panel(ManagedNode):
    """Serves the page; the browser that commands has its requests carried out one by one."""

    def __init__(self) -> None:
        """Declare parameters and start."""
        super().__init__("panel", PARAMETERS)
        self._lock = threading.Lock()
        self._look: Appearance | None = None
        self._robot_text, self._plan_text = "", ""
        self._robot_number = self._plan_number = 0
        self._plan: Reference | None = None
        self._busy: set[str] = set()
        self._progress: tuple[str, float] = ("", 0.0)
        self._verdict: list[Plain] = []
        self._lines: list[Plain] = []
        self._last_state = ExcitationState()
        self._commander = ""
        self._ghost_time = 0.0
        self._server: PanelServer | None = None
        self._listening: Listening | None = None
        self._ticker: Ticker | None = None
        self._stop_switch = StopListener(self, lambda _: None, "", 0.0)
        self.autostart()

    # --- lifecycle

    def configure(self) -> None:
        """Make the clients and open the server."""
        try:
            from ros2_dynid.preview.panel_server import Address, PanelCallbacks, PanelServer
        except ModuleNotFoundError:
            raise MissingPackageError("aiohttp", "the panel") from None
        self._others, self._rviz = Services(self), Rviz(self)
        file = self.value("token_file")
        self.access = PanelAccess(token_of_file(Path(file).expanduser()) if file else make_token())
        host, port = self.value("host"), self.value("port")
        names = [name.strip() for name in self.value("allowed_hosts") if name.strip()]
        address = Address(host, port, names, self.value("certificate"), self.value("key"))
        callbacks = PanelCallbacks(
            lambda: self._robot_text,
            lambda: self._plan_text,
            self.act,
            self._gone,
            self.get_logger().warning,
            self._obstacles_text,
        )
        try:
            self._server = PanelServer(address, self.access, callbacks)
        except OSError as error:
            raise InputError(
                f"the panel cannot listen at {host}:{port} ({error.strerror})", "choose another port"
            ) from None
        self._tell_address(self._server.url, file)
        if not host.startswith("127.") and host != "localhost" and not address.certificate:
            self.get_logger().warning(
                "the panel can be reached from other computers, and its token is not encrypted; "
                "give certificate and key, or use an SSH tunnel"
            )

    def _tell_address(self, url: str, file: str) -> None:
        """Say where the panel is; the token goes to the terminal alone, which neither log nor graph keep."""
        shown = show_on_terminal(f"panel: {url}#token={quote(self.access.token)}")
        where = f"in {file}" if file else "on the terminal" if shown else "nowhere: without a terminal, set token_file"
        self.get_logger().info(f"panel: {url} (its token is {where})")

    def on_robot(self, robot: Robot) -> None:
        """Read what the robot looks like, in a thread of its own: meshes take their time."""
        threading.Thread(target=self._see, args=(robot,), name="appearance", daemon=True).start()

    def _see(self, robot: Robot) -> None:
        try:
            obstacles = str(Path(self.value("obstacles")).expanduser()) if self.value("obstacles") else None
            _, look = robot_appearance(self.robot_source(), Surroundings(obstacles=obstacles))
        except (DynidError, OSError) as error:
            self._say("bad", str(error))
            return
        notes = [*look.notes, *(() if look.shapes is None else look.shapes.notes)]
        known = {"notes": list(look.notes), "warning": warning_of(look.shapes is not None, notes)}
        text = as_json({"number": self._robot_number + 1, **packed_appearance(look), **known})
        with self._lock:
            self._look, self._robot_text = look, text
            self._robot_number += 1
        if self._plan is not None and self._plan.joint_names == robot.active_names:
            self._on_plan(self._plan)

    def activate(self) -> None:
        """Listen, and send states to the browsers."""
        period = 1.0 / self.value("rate")
        self._listening = Listening(self, period, self._on_plan)
        self._ticker = Ticker(period, self._tick)

    def deactivate(self) -> None:
        """Send no more."""
        if self._ticker is not None:
            self._ticker.close()
            self._ticker = None
        if self._listening is not None:
            self._listening.close()

    def close(self) -> None:
        """Close the page; the process ends. A motion goes on: the excitation node watches it."""
        super().close()
        if self._server is not None:
            self._server.close()

    def on_cleanup(self, state: object) -> object:  # type: ignore[override]
        """Close the server with what configure() made."""
        if self._server is not None:
            self._server.close()
            self._server = None
        return super().on_cleanup(state)  # type: ignore[arg-type]

    def status(self) -> NodeStatus:
        """Tell the address and how many look on."""
        server = self._server
        if server is None:
            return WARN, "closed", {}
        return OK, f"port {server.port}", {"browsers": server.watched, "commanded": bool(self.access.commander)}

    # --- what is shown

    def _on_plan(self, plan: Reference) -> None:
        look, robot = self._look, self.robot
        self._plan = plan
        if look is None or robot is None or plan.joint_names != robot.active_names:
            return
        q, path = sampled_path(look, lambda t: plan.sampled(t)[0], plan.duration, lambda q: frames(robot, q))
        with self._lock:
            self._plan_number += 1
            self._plan_text = as_json(
                {
                    "number": self._plan_number,
                    "duration": plan.duration,
                    "count": len(q),
                    "q": floats(q),
                    "path": floats(path),
                }
            )
        self._rviz.path(path, self.base_link or "base_link")

    def _obstacles_text(self) -> str:
        """Return the obstacles that the excitation told of, "" before it has."""
        topics = self._listening
        if topics is None or topics.obstacles is None:
            return ""
        return as_json({"number": topics.obstacles_number, "entries": [one.plain() for one in topics.obstacles]})

    def situation(self) -> Situation:
        """Return what the rules of the panel need."""
        topics = self._listening
        excitation = ExcitationState() if topics is None else topics.excitation
        return Situation(
            self._others.nodes(),
            excitation.state in MOVING,
            self._plan_number,
            excitation.rehearsal,
            "plan" in self._busy,
            topics is not None and topics.recording,
            "" if topics is None else topics.recorded,
            "identify" in self._busy,
            "load_model" in self._busy,
            self._stop_switch.reason is not None,
            excitation.state in PAUSABLE,
            excitation.state == ExcitationState.PAUSED,
            excitation.state == ExcitationState.JOGGING,
        )

    def _tick(self) -> None:
        topics, server = self._listening, self._server
        if topics is None or server is None:
            return
        self._follow(topics.excitation)
        self._watch_commander()
        if self._plan is not None:
            self._ghost_time = (self._ghost_time + 1.0 / self.value("rate")) % (self._plan.duration + 1.0)
            self._rviz.pose(self._plan.joint_names, self._plan.at(self._ghost_time)[0])
        if not server.watched:
            return
        now = self.situation()
        reference = topics.reference() if now.moving else None
        q = topics.measured.states.q if topics.measured.fresh else None
        with self._lock:
            lines, verdict, progress = list(self._lines), list(self._verdict), self._progress
        server.publish(
            {
                "t": 1e-9 * self.now_ns(),
                "robot": self._robot_number,
                "plan": self._plan_number,
                "obstacles": topics.obstacles_number,
                "rehearsal": now.rehearsal,
                "q": _numbers(q),
                "effort": _numbers(topics.measured.states.tau if topics.measured.fresh else None),
                "predicted": _numbers(topics.predicted()),
                "external": _numbers(topics.external.states.tau if topics.external.fresh else None),
                "ghost": _numbers(reference),
                "error": _numbers(None if q is None or reference is None else q - reference),
                "excitation": topics.excitation.text,
                "stopped": topics.excitation.state in STOPPED,
                "moving": now.moving,
                "recording": now.recording,
                "recorded": now.recorded,
                "progress": {"stage": progress[0], "share": progress[1]} if now.identifying else None,
                "planning": now.planning,
                "model": topics.model,
                "drift": topics.drift,
                "verdict": verdict,
                "refused": dict(refusals(now)),
                "commander": self.access.commander,
                "stop_on_disconnect": bool(self.value("stop_on_disconnect")),
                "diagnostics": topics.diagnostics(),
                "lines": lines,
            }
        )

    def _follow(self, now: ExcitationState) -> None:
        """Tell what the excitation says anew."""
        before, self._last_state = self._last_state, now
        if now is before or before.state == ExcitationState.UNKNOWN:
            return
        if now.text != before.text:
            self._say("bad" if now.state in STOPPED else "good", f"excitation: {now.text}")
        if now.rehearsal and now.rehearsal != before.rehearsal:
            self._say("good" if now.rehearsal.startswith(PASSED) else "bad", f"rehearsal {now.rehearsal}")

    def _say(self, level: str, text: str) -> None:
        with self._lock:
            self._lines = [*self._lines, {"level": level, "text": text}][-LINES:]

    # --- what is asked for

    def act(self, action: str, request: Mapping[str, object]) -> str:
        """Carry out an action of a browser that may command; return a line, or raise one."""
        actions: dict[str, Callable[[Mapping[str, object]], str]] = {
            "plan": self._do_plan,
            "set_obstacles": self._do_obstacles,
            "rehearse": lambda _: str(self._others.call("excitation/rehearse").message),
            "start": self._do_start,
            "pause": lambda _: str(self._others.call("excitation/pause").message),
            "resume": lambda _: str(self._others.call("excitation/resume").message),
            "jog": self._do_jog,
            "let_go": lambda _: str(self._others.call("excitation/jog", joint="", direction=0).message),
            "stop": lambda _: self._others.stop(),
            "release": lambda _: self._others.release(),
            "record": lambda _: f"recording {self._others.call('recorder/start').path}",
            "end_recording": self._do_end_recording,
            "identify": self._do_identify,
            "cancel": lambda _: self._do_cancel(),
            "load_model": self._do_load,
            "payload": self._do_payload,
        }
        if action not in actions:
            raise InputError(f"there is no action {action[:40]!r}", "reload the page")
        if refusal := refusals(self.situation())[action]:
            raise DynidError(refusal)
        try:
            line = actions[action](request) or f"{action}: done"
        except Exception as error:
            line = reason(error, self.get_logger())
            self._say("bad", f"{action}: {line}")
            raise DynidError(line) from None
        if action not in QUIET:
            self._say("good", f"{action}: {line}")
        return line

    def _do_plan(self, request: Mapping[str, object]) -> str:
        seed, duration = _number(request, "seed", 0.0), _number(request, "duration", 0.0)
        with self._working("plan"):
            plan = self._others.call("excitation/plan", LONG, seed=int(seed), duration=[duration] if duration else [])
        return f"{plan.duration:.3g} s, condition number {plan.cond:.3g}, {plan.message}"

    def _do_start(self, request: Mapping[str, object]) -> str:
        check_rehearsed(self.situation(), request.get("anyway") is True)
        return str(self._others.call("excitation/start").message)

    def _do_obstacles(self, request: Mapping[str, object]) -> str:
        text = request.get("text")
        if not isinstance(text, str):
            raise InputError("no obstacles are given", "reload the page")
        return str(self._others.call("excitation/set_obstacles", obstacles=text).message)

    def _do_jog(self, request: Mapping[str, object]) -> str:
        joint, direction = request.get("joint"), _number(request, "direction", 0.0)
        if not isinstance(joint, str) or direction not in (-1.0, 1.0):
            raise InputError("a jog needs a joint, and a direction of 1 or -1", "reload the page")
        return str(self._others.call("excitation/jog", joint=joint[:200], direction=int(direction)).message)

    def _do_end_recording(self, _: Mapping[str, object]) -> str:
        summary = self._others.call("recorder/stop")
        problems = f"; {'; '.join(summary.problems)}" if summary.problems else ""
        return f"{summary.samples} joint states in {summary.duration:.3g} s at {summary.rate:.4g} Hz{problems}"

    def _do_identify(self, _: Mapping[str, object]) -> str:
        with self._working("identify"):
            self._progress = ("starting", 0.0)
            result = self._others.identify(lambda stage, share: setattr(self, "_progress", (stage, share)))
        try:
            remarks = verdict_of(load_model(result.model_path))
        except (DynidError, OSError):  # it lies on another computer
            remarks = []
        with self._lock:
            self._verdict = [{"level": level, "text": text} for level, text in remarks]
        return str(result.model_path)

    def _do_cancel(self) -> str:
        self._others.cancel()
        return "the identification ends"

    def _do_load(self, request: Mapping[str, object]) -> str:
        path = request.get("path")
        if not isinstance(path, str) or not path.strip():
            raise InputError("no model file is given", "name the model.yaml that an identification wrote")
        with self._working("load_model"):
            self._others.load_model(str(Path(path.strip()).expanduser()))
        return path

    def _do_payload(self, request: Mapping[str, object]) -> str:
        mass = _number(request, "mass", 0.0)
        com = [_number(request, axis, 0.0) for axis in "xyz"]
        self._others.call("feedforward/set_payload", payload=inertia_message(mass, com, [[0.0] * 3] * 3))
        return f"{mass:g} kg"

    def _working(self, what: str) -> _Working:
        return _Working(self._busy, what)

    def _watch_commander(self) -> None:
        """Say who has taken over, and let go of a browser that gives no sign of life."""
        silent = self.access.silent()
        if silent and self.access.leave(silent):
            self._gone(silent)
        commander = self.access.commander
        if commander and self._commander and commander != self._commander:
            self._say("warn", "another browser has taken over")
        self._commander = commander or self._commander

    def _gone(self, client: str) -> None:
        """Say that the browser that commanded is gone, and stop the motion if that is wanted."""
        self._say("warn", "the browser that commanded is gone")
        if self.value("stop_on_disconnect") and self.situation().moving:
            self.get_logger().warning("the browser that commanded is gone: stopping")
            threading.Thread(target=self._stop_alone, name="stop", daemon=True).start()

    def _stop_alone(self) -> None:
        try:
            self._say("warn", f"stopped, since nobody commands any more: {self._others.stop()}")
        except DynidError as error:
            self.get_logger().error(str(error))


class _Working:
    """Marks an action as under way; a second one is refused."""

    def __init__(self, busy: set[str], what: str) -> None:
        self._busy, self._what = busy, what

    def __enter__(self) -> None:
        if self._what in self._busy:
            raise InputError("this is under way already", "wait for its end")
        self._busy.add(self._what)

    def __exit__(self, *_: object) -> None:
        self._busy.discard(self._what)


def _number(request: Mapping[str, object], name: str, default: float) -> float:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST_NUMBER:
        raise InputError(f"{name} is not a number", "give one")
    return float(value)


def _numbers(values: Array | None) -> list[float | None] | None:
    if values is None:
        return None
    return [float(x) if np.isfinite(x) else None for x in np.round(values, 6)]


def main() -> int:
    """Run the node."""
    return run(Panel, THREADS + 4)
