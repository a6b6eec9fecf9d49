# SPDX-License-Identifier: Apache-2.0

"""The shipped layouts are those of the shipped arm, and show topics that the nodes really publish."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

from pages import ROOT
from ros2_dynid.model.load import load_robot

CONFIG = ROOT / "config"
TOPICS = ("joint_states", "feedforward/predicted", "identification/predicted")
NAMES = load_robot("demo6").active_names


def test_the_shipped_layouts_are_what_the_script_writes(tmp_path):
    script = ROOT / "docs/examples/plot_layouts.py"
    subprocess.run([sys.executable, script, "demo6", tmp_path], check=True, capture_output=True, cwd=ROOT)
    for name in ("plotjuggler_layout.xml", "foxglove_layout.json"):
        assert (tmp_path / name).read_text() == (CONFIG / name).read_text()


def test_every_joint_has_a_plot_of_measured_and_predicted_torque():
    curves = {curve.get("name") for curve in ElementTree.parse(CONFIG / "plotjuggler_layout.xml").iter("curve")}
    assert curves == {f"/{topic}/{name}/effort" for topic in TOPICS for name in NAMES}
    layout = json.loads((CONFIG / "foxglove_layout.json").read_text())
    paths = {path["value"] for panel in layout["configById"].values() for path in panel["paths"]}
    assert paths == {f"/{topic}.effort[{k}]" for topic in TOPICS for k in range(6)}
    assert set(re.findall(r"Plot!torque\d", json.dumps(layout["layout"]))) == set(layout["configById"])


def test_the_topics_are_those_of_the_nodes():
    text = "".join(path.read_text() for path in (ROOT / "ros2_dynid/nodes").rglob("*.py"))
    assert re.search(r'create_publisher\(JointState, "~/predicted"', text)
    for owner in ("feedforward/node.py", "identification/online_mode.py"):
        assert "Predicted(" in (ROOT / "ros2_dynid/nodes" / owner).read_text()
    assert '"joint_states"' in text
