# SPDX-License-Identifier: Apache-2.0

"""MuJoCo's force and torque sensors at a link of a robot, with a tool beyond them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.sim.mjcf import body_tree, mjcf_numbers


def sensor_model(robot, link, mass, com, inertia):
    """Return MuJoCo's model of the robot: body and site are called tool and sensor, sensordata is force and torque."""
    import mujoco

    tree = body_tree(robot, standard_vector(robot), [f"link{j}" for j in range(robot.n)], robot.active_names)
    carrier, pose = robot.tools[link]
    body = ET.SubElement(
        tree.bodies[carrier],
        "body",
        name="tool",
        pos=mjcf_numbers(pose[:3, 3]),
        xyaxes=mjcf_numbers([*pose[:3, 0], *pose[:3, 1]]),
    )
    I = inertia
    full = mjcf_numbers((I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]))
    ET.SubElement(body, "inertial", pos=mjcf_numbers(com), mass=str(mass), fullinertia=full)
    ET.SubElement(body, "site", name="sensor")
    sensors = ET.SubElement(tree.root, "sensor")
    ET.SubElement(sensors, "force", site="sensor")
    ET.SubElement(sensors, "torque", site="sensor")
    return mujoco.MjModel.from_xml_string(tree.text)
