# SPDX-License-Identifier: Apache-2.0

"""How nodes are connected: topics and how they are sent, services and what they may wait for, threads, timers."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import JointState

from in_process import joint_state, ros, soon
from parameter_tables import NODES, PAGE, config_text, own_parameters, page_text
from ros2_dynid.nodes.common.fast import Stream
from ros2_dynid.nodes.common.parameters import COMMON, Settable
from ros2_dynid.nodes.common.qos import COMMANDS, JOINT_STATES
from ros2_dynid.processes import own_domain
from security_policy import CLASSES, FILE, made, read_policy, shipped, written

pytestmark = pytest.mark.in_process

LATCHED, RELIABLE, LOSSY = "latched", "reliable", "best effort"
PUBLISHED = {
    "excitation": {
        "/excitation/planned": (LATCHED, 1), "/excitation/obstacles": (LATCHED, 1), "/excitation_state": (LATCHED, 1),
        "/joint_trajectory": (RELIABLE, 10), "/commander": (RELIABLE, 10),
    },
    "guard": {
        "/stop": (LATCHED, 1), "/commander": (RELIABLE, 10), "/joint_trajectory": (RELIABLE, 10),
        "/effort_commands": (RELIABLE, 10),
    },
    "feedforward": {
        "/commander": (RELIABLE, 10),
        "/dynamic_coefficients": (RELIABLE, 10), "/effort_commands": (RELIABLE, 10),
        "/feedforward_effort": (RELIABLE, 10), "/joint_trajectory": (RELIABLE, 10),
        "/feedforward/contact": (LATCHED, 1), "/feedforward/predicted": (LOSSY, 100),
        "/feedforward/external_effort": (LOSSY, 100), "/feedforward/external_wrench": (LOSSY, 100),
    },
    "identification": {
        "/base_parameters": (LATCHED, 1), "/drift": (LATCHED, 1), "/online_parameters": (LATCHED, 1),
        "/identification/payload": (LATCHED, 1), "/identification/payload_std": (LATCHED, 1),
        "/identification/predicted": (LOSSY, 100), "/identification/predicted_lower": (LOSSY, 100),
        "/identification/predicted_upper": (LOSSY, 100),
    },
    "panel": {"/preview/joint_states": (RELIABLE, 10), "/stop": (LATCHED, 1)},
    "payload_bridge": {},
    "recorder": {"/recording": (LATCHED, 1)},
    "sim_robot": {
        "/clock": (RELIABLE, 10), "/joint_states": (RELIABLE, 100), "/joint_temperatures": (RELIABLE, 100),
        "/robot_description": (LATCHED, 1),
    },
    "wrist_sensor": {
        f"/wrist_sensor/{name}": (RELIABLE, 10)
        for name in ("external_effort", "external_wrench", "wrench", "wrench_std")
    },
}  # fmt: skip
DESCRIPTION, STATES = {"/robot_description": (LATCHED, 1)}, {"/joint_states": (LOSSY, 2000)}
COMMANDER = {"/commander": (RELIABLE, 10)}
STOP = {"/stop": (LATCHED, 1)} | COMMANDER
HEARD = {
    "excitation": DESCRIPTION | STATES | STOP,
    "feedforward": DESCRIPTION | STATES | STOP | {
        "/base_parameters": (LATCHED, 1), "/joint_temperatures": (LOSSY, 200), "/reference": (RELIABLE, 1000),
    },
    "guard": DESCRIPTION | STATES | COMMANDER | {"/joint_trajectory": (RELIABLE, 10)},
    "identification": DESCRIPTION | STATES | {"/recording": (LATCHED, 1)},
    "panel": DESCRIPTION | {
        "/stop": (LATCHED, 1),
        "/base_parameters": (LATCHED, 1), "/diagnostics": (RELIABLE, 10), "/drift": (LATCHED, 1),
        "/excitation/planned": (LATCHED, 1), "/excitation/obstacles": (LATCHED, 1), "/excitation_state": (LATCHED, 1),
        "/recording": (LATCHED, 1),
        "/feedforward/external_effort": (LOSSY, 1), "/feedforward/predicted": (LOSSY, 1),
        "/identification/predicted": (LOSSY, 1), "/joint_states": (LOSSY, 1), "/joint_trajectory": (RELIABLE, 10),
    },
    "payload_bridge": DESCRIPTION,
    "recorder": STATES | {"/excitation_state": (LATCHED, 1)},
    "sim_robot": DESCRIPTION | {"/effort_commands": (RELIABLE, 10), "/joint_trajectory": (RELIABLE, 10)},
    "wrist_sensor": DESCRIPTION | STATES | {"/wrench": (LOSSY, 2000)},
}  # fmt: skip
OPTIONAL = {
    "/diagnostics",
    "/parameter_events",
    "/dynamic_joint_states",
    "/panel/plan_path",
    "/controller_manager/activity",
    "/monitored_planning_scene",
}
"""Of every node, or where a package is installed."""
SERVICES = {
    "excitation": {"~/plan", "~/set_obstacles", "~/rehearse", "~/start", "~/pause", "~/resume", "~/jog", "~/stop"},
    "feedforward": {"~/stop", "~/fill_efforts", "~/set_payload"},
    "guard": {"~/stop", "~/release"},
    "identification": {"~/convert_urdf", "~/get_base_parameters", "~/identify_payload", "~/identify_recording"},
    "panel": set(),
    "payload_bridge": {"~/forward"},
    "recorder": {"~/start", "~/stop", "~/save_buffer"},
    "sim_robot": {"~/set_payload", "~/emergency_stop"},
    "wrist_sensor": {"~/set_tool", "~/zero"},
}
WAITING = {"~/plan", "~/jog", "~/set_obstacles", "~/identify_payload", "~/identify_recording", "~/forward"}
"""Services that wait for a job or for another node: others must be answered meanwhile."""
TIMERS = {"recorder": [0.25], "identification": [0.2], "feedforward": [1.0], "sim_robot": [1.0]}
"""Beside those of all nodes: diagnostics and priority, once a second."""


ROBOT_PARAMETERS = {"robot", "base_link", "tip_link", "robot_driver"}
SETTLED = {
    "excitation": {"action", "controller_manager", "planning_scene"},
    "feedforward": {"model", "robot_adds", "robot_measures"},
    "guard": {"action", "stale_seconds", "stop_deceleration", "stop_lead", "tracking_tolerance"},
    "identification": {"model"},
    "panel": {"allowed_hosts", "certificate", "host", "key", "port", "token_file"},
    "payload_bridge": {"bridges_file", "driver", "driver_service"},
    "recorder": {"buffer_seconds", "expected_rate"},
    "sim_robot": {
        "cold", "latency", "publish_clock", "rate", "resolution", "robot_adds", "seed", "spread", "start", "stiffness",
        "torque_noise", "warm", "warming_seconds",
    },
    "wrist_sensor": {"tool"},
}  # fmt: skip
"""Parameters that are read when the node is configured: to set one later would change nothing."""
BEGUN = {
    "excitation": {"control_period"},
    "identification": {"online", "online_cutoff", "online_memory", "online_rate", "payload", "predicted_rate"},
    "panel": {"rate"},
    "wrist_sensor": {"window"},
}
"""Parameters that are read when the node is activated."""


READ_ONLY = {
    "excitation": {"enabling_timeout", "enabling_topic", "folder"},
    "feedforward": {"enabling_timeout", "enabling_topic"},
    "guard": {"silence_seconds"},
    "identification": {"models_folder", "recordings_folder"},
    "recorder": {"folder"},
}
"""Parameters that confine what a node does: nobody changes them over the graph."""


@pytest.mark.parametrize("node", CLASSES)
def test_the_docstring_of_a_node_names_its_topics_and_services(node):
    text = importlib.import_module(f"ros2_dynid.nodes.{node}.node").__doc__
    topics = {name.replace(f"/{node}/", "~/").lstrip("/") for name in {**PUBLISHED[node], **HEARD[node]}}
    named = {name for name in topics | SERVICES[node] if re.search(rf"[\s(]/?{name}\b", text)}
    assert named == topics | SERVICES[node]


def kept(entities):
    """Return how topics are sent, by name."""
    found = {}
    for entity in entities:
        qos = entity.qos_profile
        lossy = qos.reliability is ReliabilityPolicy.BEST_EFFORT
        latched = qos.durability is DurabilityPolicy.TRANSIENT_LOCAL
        found.setdefault(entity.topic_name, (LOSSY if lossy else LATCHED if latched else RELIABLE, qos.depth))
    return found


@pytest.mark.parametrize("node", CLASSES)
def test_a_node_has_its_topics_services_and_timers(node, tmp_path):
    with made(node, tmp_path) as there:
        for entities, table in ((there.publishers, PUBLISHED[node]), (there.subscriptions, HEARD[node])):
            found = kept(entities)
            assert table.items() <= found.items()
            assert found.keys() - table.keys() <= OPTIONAL
        services = {service.srv_name: service.callback_group for service in there.services}
        assert {name for name in services if name.startswith("~/")} >= SERVICES[node]
        for name in SERVICES[node]:
            assert isinstance(services[name], ReentrantCallbackGroup) is (name in WAITING), name
        assert all(isinstance(client.callback_group, ReentrantCallbackGroup) for client in there.clients)
        periods = sorted(timer.timer_period_ns / 1e9 for timer in there.timers)
        assert periods == sorted([1.0, 1.0, *TIMERS.get(node, [])])
        if node == "excitation":
            assert services["~/start"] is services["~/rehearse"], "one after the other"
            assert services["~/resume"] is services["~/start"]
            assert len({services[f"~/{name}"] for name in ("start", "pause", "stop")}) == 3, "these wait for nobody"
            assert services["~/stop"] not in (services["~/start"], services["~/plan"], there.default_callback_group)


@pytest.mark.parametrize("node", CLASSES)
def test_the_shipped_policy_allows_each_node_what_it_has_and_no_more(node, tmp_path):
    """Also what is there only where a package is installed; test/support/security_policy.py writes it anew."""
    with made(node, tmp_path) as there:
        assert read_policy()[node] == shipped(there, node)


def test_the_shipped_policy_has_an_enclave_for_each_node_and_only_two_publish_the_stop():
    policy = read_policy()
    assert policy.keys() == CLASSES.keys()
    assert FILE.read_text(encoding="utf-8") == written(policy)
    publishers = {
        topic: {node for node, rights in policy.items() if topic in rights["topics", "publish", "topic"]}
        for topic in ("stop", "joint_trajectory", "effort_commands", "commander")
    }
    movers = {"excitation", "feedforward", "guard"}
    assert publishers == {
        "stop": {"guard", "panel"}, "joint_trajectory": movers, "commander": movers,
        "effort_commands": {"feedforward", "guard"},
    }  # fmt: skip


@pytest.mark.parametrize("node", CLASSES)
def test_parameters_are_those_of_the_shipped_file(node):
    file = Path(__file__).parents[2] / "config" / f"{node}.yaml"
    text = file.read_text(encoding="utf-8")
    assert text == config_text(node), "write it anew: ./dynid python test/support/parameter_tables.py"
    ours = (*COMMON, *own_parameters(node))
    assert {one.name: one.default for one in ours} == yaml.safe_load(text)["/**"]["ros__parameters"]
    assert not [one.name for one in ours if one.problem(one.default)]
    when = {kind: {parameter.name for parameter in ours if parameter.settable is kind} for kind in Settable}
    assert when[Settable.UNCONFIGURED] == ROBOT_PARAMETERS | SETTLED[node]
    assert when[Settable.INACTIVE] == BEGUN.get(node, set())
    read_only = {parameter.name for parameter in ours if parameter.read_only}
    assert read_only == {"autostart", *READ_ONLY.get(node, ())}


def test_the_page_of_parameters_is_that_of_the_nodes():
    assert set(NODES) == set(CLASSES)
    assert PAGE.read_text(encoding="utf-8") == page_text()


def test_a_stream_takes_every_message_in_order_until_it_is_closed():
    with ros():
        node, came = rclpy.create_node("streaming"), []
        stream = Stream(node, JointState, "joint_states", came.append, JOINT_STATES, rest=0.002)
        publisher = node.create_publisher(JointState, "joint_states", COMMANDS)
        soon(lambda: publisher.get_subscription_count() == 1, "the connection")
        sent = [joint_state(("a",), (k,), stamp=k) for k in range(5)]
        for data in sent:
            publisher.publish(data)
        soon(lambda: len(came) == 5, "the messages")
        assert came == sent
        stream.close()
        assert not list(node.subscriptions)
        node.destroy_node()


ENDING = """
import sys
import time
from rclpy.node import Node
from ros2_dynid.errors import InputError
from ros2_dynid.nodes.common.spin import run

class Ends(Node):
    def __init__(self):
        if sys.argv[1] == "refuses":
            raise InputError("no such driver", "choose one")
        super().__init__("ends")
        self.create_timer(0.01, self.tick)

    def tick(self):
        raise ValueError("oh")

    def close(self):
        print("closed", flush=True)

    def destroy_node(self):
        time.sleep(600.0 if sys.argv[1] == "hangs" else 0.0)
        super().destroy_node()

sys.exit(run(Ends))
"""


@pytest.mark.parametrize(
    ("how", "code", "out", "said"),
    [
        ("fails", 1, "closed\n", "ValueError: oh\n"),
        ("hangs", 1, "closed\n", "ValueError: oh\n"),
        ("refuses", 2, "", "no such driver; choose one\n"),
    ],
)
def test_a_node_that_fails_is_closed_and_says_so_by_its_exit_code(how, code, out, said):
    with own_domain() as environment:
        ended = subprocess.run(
            [sys.executable, "-c", ENDING, how],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (code, out)
    assert said in ended.stderr and "Traceback" not in ended.stderr
