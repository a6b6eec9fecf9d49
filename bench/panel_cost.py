# SPDX-License-Identifier: Apache-2.0

"""What an open panel costs the other nodes: recorder at 1 kHz and latency of the feedforward, with and without it.

    ./dynid python bench/panel_cost.py [--seconds 10] [--rounds 5] [--chromium] [--stop] [--json]

Runs with and without the panel take turns, each with new processes. A client takes the panel's states as a browser
does and gives its signs of life; --chromium opens the real page instead, which on this machine also draws in software.
Printed are joint states that the recorder lost, and percentiles of the feedforward's latency
(bench/feedforward_latency.py) while joint states come at 200 Hz, as medians over the rounds and as ratios. --stop
measures instead the time from a stop that is sent to its action at the server, with one and with all browser tabs open.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from feedforward_latency import SMOOTHING, Bench, torques
from recorder_load import (
    JOINTS,
    busy,
    caller,
    compare,
    environment_with_bench,
    listen,
    start_recorder,
    start_sender,
)
from ros2_dynid.base_parameters.compute import base_parameters
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.identification.model_file import load_model, model_of, save_model
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.processes import Processes, own_domain

STATES_HZ = 200.0
TOKEN = "token-of-the-bench"


def seven(folder: Path) -> Path:
    """Write a robot file with the joints that the recorder's bench sends."""
    lines = ["name: seven", "joints:"]
    for k, name in enumerate(JOINTS):
        alpha = 1.5707963 * (-1) ** k if k else 0.0
        lines.append(f"  - {{name: {name}, parent: {k}, type: revolute, alpha: {alpha}, d: 0.1, theta: 0, r: 0.1}}")
    file = folder / "seven.yaml"
    file.write_text("\n".join(lines))
    return file


def send_states(names: list[str], seconds: float) -> None:
    """Send joint states at rest."""
    import rclpy
    from sensor_msgs.msg import JointState

    rclpy.init()
    node = rclpy.create_node("states")
    publisher = node.create_publisher(JointState, "joint_states", 10)
    zero = [0.0] * len(names)
    begin = time.perf_counter()
    for k in range(round(seconds * STATES_HZ)):
        while (wait := begin + k / STATES_HZ - time.perf_counter()) > 0:
            time.sleep(wait)
        message = JointState(name=names, position=zero, velocity=zero, effort=zero)
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
    os._exit(0)


@contextlib.contextmanager
def panel(processes: Processes, folder: Path, robot: str, chromium: bool) -> Iterator[Any]:
    """Run the node with a browser before it that commands; yield its process."""
    file = folder / "token"
    file.touch(0o600)
    file.write_text(TOKEN)
    options = ["-p", f"robot:={robot}", "-p", "port:=0", "-p", f"token_file:={file}"]
    node = processes.start("panel", ["ros2_dynid.nodes.panel", "--ros-args", *options])
    while not (found := re.search(r"http://127.0.0.1:(\d+)/", (folder / "panel.log").read_text())):
        processes.check()
        time.sleep(0.1)
    if chromium:
        from playwright.sync_api import sync_playwright

        from ros2_dynid.preview.chromium import find_chromium, sandbox

        with sync_playwright() as playwright:
            flags = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", *sandbox()]
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags)
            browser.new_page().goto(f"{found[0]}#token={TOKEN}")
            time.sleep(2.0)
            yield node
            browser.close()
        return
    states = threading.Event()
    threading.Thread(target=take_states, args=(int(found[1]), states), daemon=True).start()
    if not states.wait(30.0):
        raise RuntimeError("the panel sends no states")
    yield node


def take_states(port: int, came: threading.Event, token: str = "") -> None:
    """Take the stream of states, as one of those with the token if it is given, and give signs of life."""
    stream, other = (http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(2))
    stream.request("GET", "/events?client=bench", headers={"X-Dynid-Token": token} if token else {})
    answer, last = stream.getresponse(), 0.0
    with contextlib.suppress(OSError, http.client.HTTPException):
        while line := answer.readline():
            if not line.startswith(b"data: "):
                continue
            came.set()
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                body = json.dumps({"action": "alive"})
                other.request("POST", "/do", body, {"X-Dynid-Token": TOKEN, "X-Dynid-Client": "bench"})
                other.getresponse().read()


def recorder(seconds: float, with_panel: bool, chromium: bool) -> dict[str, float]:
    """Return what the recorder lost of joint states at 1 kHz."""
    from ros2_dynid.srv import StartRecording, StopRecording

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = stack.enter_context(own_domain())
        os.environ.update(environment)
        processes = stack.enter_context(Processes(folder, environment_with_bench(environment)))
        start_recorder(processes, folder)
        sender = start_sender(processes, 1000.0, seconds, False, folder / "sent.npy")
        client = caller()
        watched = stack.enter_context(panel(processes, folder, str(seven(folder)), chromium)) if with_panel else None
        client.call(StartRecording, "recorder/start", path=["load"])
        client.wait(lambda: client.count_subscribers("joint_states") > with_panel, 20.0, "the recorder's subscription")
        time.sleep(1.0)
        used, since = busy(watched.pid) if watched else 0.0, time.monotonic()
        sender.stdin.write("go\n")
        sender.stdin.flush()
        listen(sender, "done")
        cpu = (busy(watched.pid) - used) / (time.monotonic() - since) if watched else 0.0
        time.sleep(1.0)
        stopped = client.call(StopRecording, "recorder/stop")
        found = compare(np.load(folder / "sent.npy"), stopped.path)
        return {"sent": found["sent"], "missing": found["missing"], "panel_cpu_percent": 100 * cpu}


def latency(seconds: float, with_panel: bool, chromium: bool) -> dict[str, float]:
    """Return percentiles of the feedforward's latency [ms]."""
    robot = load_robot("demo6")
    base = base_parameters(robot)
    value = base.values(robot, standard_vector(robot))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = stack.enter_context(own_domain())
        os.environ.update(environment)
        path = folder / "model.yaml"
        save_model(model_of(robot, base, value, np.ones(len(base)), np.eye(len(base))), path)
        model = FeedforwardModel(robot, load_model(path).chi)
        expected = torques(model)
        processes = stack.enter_context(Processes(folder, environment_with_bench(environment)))
        options = ["-p", f"model:={path}", "-p", "output:=effort", "-p", f"smoothing:={SMOOTHING}"]
        processes.start("feedforward", ["ros2_dynid.nodes.feedforward", "--ros-args", *options])
        if with_panel:
            stack.enter_context(panel(processes, folder, "demo6", chromium))
        names = ",".join(robot.active_names)
        processes.start("states", ["panel_cost", "--send", names, "--seconds", str(seconds + 60)])
        found = Bench(robot.active_names, expected).paced(seconds, [])
        return {key: float(found[key]) for key in ("median_ms", "p99_ms", "worst_ms")}


def stop_latency(tabs: int, count: int = 200) -> dict[str, float]:
    """Return percentiles of the time [ms] from sending a stop to its action, without nodes, states at 20 Hz to tabs."""
    from ros2_dynid.preview.panel_rules import PanelAccess
    from ros2_dynid.preview.panel_server import Address, PanelCallbacks, PanelServer

    def act(action: str, request: object) -> str:
        begun.append(time.perf_counter())
        return action

    begun: list[float] = []
    server = PanelServer(Address("127.0.0.1"), PanelAccess(TOKEN), PanelCallbacks(str, str, act, lambda _: None))
    came = [threading.Event() for _ in range(tabs)]
    for event in came:
        threading.Thread(target=take_states, args=(server.port, event, TOKEN), daemon=True).start()
    state = {name: [0.123456] * len(JOINTS) for name in ("q", "effort", "predicted", "external", "ghost", "error")}
    waits = []
    for _ in range(count):
        server.publish(state)
        time.sleep(0.05)
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        line.connect()
        sent = time.perf_counter()
        line.request("POST", "/do", json.dumps({"action": "stop"}), {"X-Dynid-Token": ""})
        line.getresponse().read()
        waits.append(1000.0 * (begun[-1] - sent))
        line.close()
    if not all(event.is_set() for event in came):
        raise RuntimeError("a tab got no states")
    server.close()
    median, p99, worst = np.percentile(waits, [50, 99, 100])
    return {f"stop_{tabs}_tabs_median_ms": median, f"stop_{tabs}_tabs_p99_ms": p99, f"stop_{tabs}_tabs_worst_ms": worst}


def one(what: str, args: argparse.Namespace, with_panel: bool) -> dict[str, float]:
    """Measure once in a process of its own."""
    command = [sys.executable, __file__, "--once", what, "--seconds", str(args.seconds)]
    command += ["--panel"] * with_panel + ["--chromium"] * args.chromium
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(args: argparse.Namespace) -> dict[str, float]:
    """Let runs with and without the panel take turns."""
    result: dict[str, float] = {}
    for what in ("recorder", "latency"):
        rows: dict[bool, list[dict[str, float]]] = {False: [], True: []}
        for _ in range(args.rounds if what == "latency" else 1):
            for with_panel in (False, True):
                rows[with_panel].append(one(what, args, with_panel))
        for key in rows[True][0]:
            without, with_ = (statistics.median(row[key] for row in rows[k]) for k in (False, True))
            result |= {f"{key}_without": without, f"{key}_with": with_}
            if what == "latency":
                result[f"{key}_ratio"] = with_ / without
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=5, help="runs of the latency with and without the panel")
    parser.add_argument("--chromium", action="store_true", help="open the page in Chromium on this machine")
    parser.add_argument("--stop", action="store_true", help="measure the latency of a stop at the server")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--once", choices=("recorder", "latency"), help=argparse.SUPPRESS)
    parser.add_argument("--panel", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--send", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        send_states(args.send.split(","), args.seconds)
    if args.once:
        figures = (recorder if args.once == "recorder" else latency)(args.seconds, args.panel, args.chromium)
        print(json.dumps(figures))
    else:
        figures = stop_latency(1) | stop_latency(16) if args.stop else main(args)
        print(json.dumps(figures) if args.json else "\n".join(f"{k:26s} {v:.5g}" for k, v in figures.items()))
    sys.stdout.flush()
    os._exit(0)
