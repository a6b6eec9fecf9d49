# SPDX-License-Identifier: Apache-2.0

"""Layouts for PlotJuggler and Foxglove: measured against predicted torque, one plot per joint, for any robot.

    ./dynid python docs/examples/plot_layouts.py demo6 layouts

Those in config/ are of the shipped arm demo6. Topics: joint_states (measured), feedforward/predicted and, while it
identifies online, identification/predicted, all sensor_msgs/JointState in N.m (N for sliding joints) with the same
joints in the same order and the same stamps; --namespace puts a robot's name before them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ros2_dynid.model.load import load_robot

COLORS = {"joint_states": "#5b8ff9", "feedforward/predicted": "#d9480f", "identification/predicted": "#2b8a3e"}
LABELS = {
    "joint_states": "measured",
    "feedforward/predicted": "predicted by feedforward",
    "identification/predicted": "predicted by identification",
}


def plotjuggler(names: tuple[str, ...], prefix: str) -> str:
    """Return the XML: curves are called TOPIC/JOINT/effort, whatever the order in the message."""
    root = Element("root")
    window = SubElement(root, "tabbed_widget", parent="main_window", name="Main Window")
    tab = SubElement(window, "Tab", tab_name="torque", containers="1")
    share = ";".join([f"{1 / len(names):.6f}"] * len(names))
    splitter = SubElement(
        SubElement(tab, "Container"), "DockSplitter", orientation="-", count=str(len(names)), sizes=share
    )
    for name in names:
        area = SubElement(splitter, "DockArea", name=f"{name} [N.m]")
        plot = SubElement(area, "plot", style="Lines", mode="TimeSeries", flip_x="false", flip_y="false")
        SubElement(plot, "range", left="0", right="10", bottom="-1", top="1")
        SubElement(plot, "limitY")
        for topic, color in COLORS.items():
            SubElement(plot, "curve", name=f"{prefix}/{topic}/{name}/effort", color=color)
    SubElement(window, "currentTabIndex", index="0")
    SubElement(root, "use_relative_time_offset", enabled="1")
    indent(root, " ")
    return f"<?xml version='1.0' encoding='UTF-8'?>\n{tostring(root, encoding='unicode')}\n"


def foxglove(names: tuple[str, ...], prefix: str) -> str:
    """Return the JSON: message paths by index, in the robot's joint order."""
    panels = {}
    for k, name in enumerate(names):
        panels[f"Plot!torque{k + 1}"] = {
            "title": f"{name} [N.m]",
            "paths": [
                {
                    "value": f"{prefix}/{topic}.effort[{k}]",
                    "label": LABELS[topic],
                    "color": color,
                    "enabled": True,
                    "timestampMethod": "headerStamp",
                }
                for topic, color in COLORS.items()
            ],
            "showXAxisLabels": True,
            "showYAxisLabels": True,
            "showLegend": True,
            "legendDisplay": "floating",
            "isSynced": True,
            "xAxisVal": "timestamp",
            "followingViewWidth": 20,
        }
    layout = {
        "configById": panels,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1},
        "layout": stacked(list(panels)),
    }
    return json.dumps(layout, indent=2) + "\n"


def stacked(panels: list[str]) -> object:
    """Return the panels one above the other, all of one height."""
    if len(panels) == 1:
        return panels[0]
    share = 100.0 / len(panels)
    return {
        "direction": "column",
        "first": panels[0],
        "second": stacked(panels[1:]),
        "splitPercentage": round(share, 3),
    }


def main() -> None:
    """Write both layouts."""
    parser = argparse.ArgumentParser(description="Write layouts of measured against predicted torque.")
    parser.add_argument("robot", metavar="ROBOT", help="URDF, robot file, or the name of a shipped robot")
    parser.add_argument("folder", metavar="DIR", type=Path, help="folder for the two files")
    parser.add_argument("--namespace", default="", help="namespace of the robot's topics")
    args = parser.parse_args()
    names = load_robot(args.robot).active_names
    prefix = f"/{args.namespace.strip('/')}" if args.namespace else ""
    args.folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("plotjuggler_layout.xml", plotjuggler(names, prefix)),
        ("foxglove_layout.json", foxglove(names, prefix)),
    ):
        (args.folder / name).write_text(text)
        print(args.folder / name)


if __name__ == "__main__":
    main()
