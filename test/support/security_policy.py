# SPDX-License-Identifier: Apache-2.0

"""The policy of SROS 2 that is shipped, and the one that the nodes really need: what each publishes, hears and calls.

`python test/support/security_policy.py` asks the nodes themselves and writes config/security/ros2_dynid.policy.xml.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rclpy.action.client import ActionClient
from rclpy.action.server import ActionServer

from in_process import node_of

FILE = Path(__file__).parents[2] / "config" / "security" / "ros2_dynid.policy.xml"
CLASSES = {
    "excitation": "Excitation", "feedforward": "FeedforwardNode", "guard": "GuardNode",
    "identification": "Identification", "panel": "Panel",
    "payload_bridge": "PayloadBridge", "recorder": "Recorder", "sim_robot": "SimRobot",
    "wrist_sensor": "WristSensor",
}  # fmt: skip
BRIDGES = (
    "bridges:\n  arm: {type: ros2_dynid/srv/SetPayload, service: driver/set_payload, link: tool,"
    " fields: {payload.m: mass}, success: success, message: message, limits: {mass: 5.0, com: 0.5}}\n"
)
TOOL = json.dumps(
    {"frame": "flange", "mass": 1.0, "com": [0.0] * 3, "inertia": [[0.0] * 3] * 3, "bias": [0.0] * 6, "sign": 1}
    | {"std": {"mass": 0.0, "com": [0.0] * 3, "inertia": [[0.0] * 3] * 3}, "sensor_std": {"bias": [0.0] * 6}}
    | {"residual": [0.0] * 6}
)
Rights = dict[tuple[str, str, str], set[str]]
"""Names by element and what is allowed: ("topics", "publish", "topic") and so on."""
KINDS = (
    ("topics", "publish", "topic"),
    ("topics", "subscribe", "topic"),
    ("services", "reply", "service"),
    ("services", "request", "service"),
    ("actions", "execute", "action"),
    ("actions", "call", "action"),
)
INSTALLED: dict[str, Rights] = {
    "excitation": {
        KINDS[1]: {"controller_manager/activity", "monitored_planning_scene"},
        KINDS[3]: {"controller_manager/list_controllers", "joint_trajectory_controller/get_parameters"},
    },
    "feedforward": {KINDS[1]: {"dynamic_joint_states"}},
    "panel": {KINDS[0]: {"~/plan_path"}},
}
"""What nodes have where control_msgs, controller_manager_msgs, moveit_msgs or visualization_msgs is installed."""
ACTIONS = {("identification", "execute"): ["~/identify"], ("panel", "call"): ["identification/identify"]}
SITE: dict[str, Rights] = {"payload_bridge": {KINDS[3]: {"driver/set_payload"}}}
"""What the configuration of the tests names: every site has its own."""
TIME = {KINDS[1]: {"/clock"}}
"""What every node has with use_sim_time."""
LIFECYCLE = ("change_state", "get_state", "get_available_states", "get_available_transitions", "get_transition_graph")
OF_RCL = {
    KINDS[0]: {"/rosout", "~/transition_event"},
    KINDS[2]: {*(f"~/{name}" for name in LIFECYCLE), "~/get_type_description"},
}
"""What rcl makes for every managed node, beside what rclpy knows of."""
HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!-- SPDX-License-Identifier: Apache-2.0
What each node may do, for `ros2 security generate_artifacts -k KEYSTORE -p ros2_dynid.policy.xml`: nothing else.
Written by test/support/security_policy.py from what the nodes have. In a namespace change ns; after a remapping
change the topic. Add what your configuration names: the topic of an enabling switch, the action of a controller, the
service of a driver that takes payloads. docs/safety.md says how to use it.
-->
"""


def made(node: str, folder: Path) -> AbstractContextManager[Any]:
    """Return a node of this kind that is active and knows no robot."""
    (folder / "bridges.yaml").write_text(BRIDGES)
    (folder / "tool.json").write_text(TOOL)
    options: dict[str, dict[str, object]] = {
        "excitation": {"folder": folder},
        "feedforward": {"priority": 0},
        "identification": {"recordings_folder": folder, "models_folder": folder, "online": "true", "payload": "true"},
        "panel": {"port": 0},
        "payload_bridge": {"driver": "arm", "bridges_file": folder / "bridges.yaml"},
        "recorder": {"folder": folder},
        "sim_robot": {"publish_clock": "true"},
        "wrist_sensor": {"tool": folder / "tool.json"},
    }
    module = importlib.import_module(f"ros2_dynid.nodes.{node}.node")
    return node_of(getattr(module, CLASSES[node]), robot='""', **options.get(node, {}))


def used(there: Any, node: str) -> Rights:
    """Return what a node has made, and what rcl makes for each; the graph would tell the same, some time later."""
    names = {
        KINDS[0]: [publisher.topic_name for publisher in there.publishers],
        KINDS[1]: [subscription.topic_name for subscription in there.subscriptions],
        KINDS[2]: [service.service_name for service in there.services],
        KINDS[3]: [client.service_name for client in there.clients],
    }
    for kind, made_of in ((KINDS[4], ActionServer), (KINDS[5], ActionClient)):  # which do not tell their names
        names[kind] = ACTIONS.get((node, kind[1]), [])
        assert sum(isinstance(each, made_of) for each in there.waitables) == len(names[kind])
    return joined({kind: {_short(name, node) for name in found} for kind, found in names.items()}, OF_RCL)


def shipped(there: Any, node: str) -> Rights:
    """Return what the policy of this node is to allow."""
    wanted = joined(used(there, node), INSTALLED.get(node, {}), TIME)
    return {kind: names - SITE.get(node, {}).get(kind, set()) for kind, names in wanted.items()}


def joined(*parts: Rights) -> Rights:
    """Return the rights of all."""
    return {kind: set().union(*(part.get(kind, set()) for part in parts)) for kind in KINDS}


def read_policy(file: Path = FILE) -> dict[str, Rights]:
    """Return what the policy allows, by node; each has an enclave of its own."""
    found: dict[str, Rights] = {}
    for enclave in ElementTree.parse(file).getroot().iter("enclave"):
        (profile,) = enclave.iter("profile")
        node = profile.attrib["node"]
        assert enclave.attrib["path"] == f"/ros2_dynid/{node}" and profile.attrib["ns"] == "/"
        found[node] = {kind: set() for kind in KINDS}
        for group in profile:
            ((verb, allowed),) = group.attrib.items()
            assert allowed == "ALLOW"
            found[node][group.tag, verb, group[0].tag] |= {name.text or "" for name in group}
    return found


def written(rights: dict[str, Rights]) -> str:
    """Return the policy as a file has it."""
    root = ElementTree.Element("policy", version="0.2.0")
    enclaves = ElementTree.SubElement(root, "enclaves")
    for node, mine in rights.items():
        profiles = ElementTree.SubElement(
            ElementTree.SubElement(enclaves, "enclave", path=f"/ros2_dynid/{node}"), "profiles"
        )
        profile = ElementTree.SubElement(profiles, "profile", ns="/", node=node)
        for group, verb, one in KINDS:
            if names := mine[group, verb, one]:
                there = ElementTree.SubElement(profile, group, {verb: "ALLOW"})
                for name in sorted(names):
                    ElementTree.SubElement(there, one).text = name
    ElementTree.indent(root)
    return HEAD + ElementTree.tostring(root, encoding="unicode") + "\n"


def _short(name: str, node: str) -> str:
    """Return a name as it is in the node's own words: ~/stop, joint_states; shared ones as they are."""
    if name in ("/rosout", "/parameter_events", "/diagnostics", "/clock"):
        return name
    return "~/" + name.removeprefix(f"/{node}/") if name.startswith(f"/{node}/") else name.removeprefix("/")


def main() -> None:
    """Ask every node, and write the file."""
    rights: dict[str, Rights] = {}
    with tempfile.TemporaryDirectory() as folder:
        for node in CLASSES:
            with made(node, Path(folder)) as there:
                rights[node] = shipped(there, node)
    FILE.write_text(written(rights), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
