# SPDX-License-Identifier: Apache-2.0

"""ros2_control's own controller_manager with its mock hardware and a joint_trajectory_controller, where installed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from std_msgs.msg import String

from ros2_dynid.model.robot import Robot
from ros2_dynid.nodes.common.qos import LATCHED

CONTROLLER = "arm_controller"
BROADCASTER = "joint_state_broadcaster"


def need_ros2_control() -> Path:
    """Return the program of controller_manager, or skip the test."""
    index = pytest.importorskip("ament_index_python.packages")
    for package in ("controller_manager", "controller_manager_msgs", "control_msgs", "joint_trajectory_controller"):
        try:
            index.get_package_prefix(package)
        except LookupError:
            pytest.skip(f"ros2_control is not installed: there is no {package}")
    return Path(index.get_package_prefix("controller_manager"), "lib/controller_manager/ros2_control_node")


def description(robot: Robot, q: Any, *, effort: bool) -> str:
    """Return a URDF with the robot's joints, at q, in hardware that follows positions at once."""
    links, joints = ['<link name="base"/>'], []
    for k, (joint, at) in enumerate(zip(robot.joints, q, strict=True)):
        own, parent = joint.limits, "base" if k == 0 else f"link{k - 1}"
        links.append(
            f'<link name="link{k}"/><joint name="{joint.name}" type="revolute"><parent link="{parent}"/>'
            f'<child link="link{k}"/><axis xyz="0 0 1"/><limit lower="{own.lower}" upper="{own.upper}"'
            f' velocity="{own.velocity}" effort="{own.effort}"/></joint>'
        )
        joints.append(
            f'<joint name="{joint.name}"><command_interface name="position"/><state_interface name="position">'
            f'<param name="initial_value">{at}</param></state_interface><state_interface name="velocity"/>'
            + ('<state_interface name="effort"/>' if effort else "")
            + "</joint>"
        )
    hardware = (
        "<hardware><plugin>mock_components/GenericSystem</plugin>"
        '<param name="calculate_dynamics">true</param></hardware>'
    )
    control = f'<ros2_control name="mock" type="system">{hardware}{"".join(joints)}</ros2_control>'
    return f'<robot name="mock">{"".join(links)}{control}</robot>'


class RealControl:
    """A controller manager in a process of its own, with a broadcaster and an inactive joint_trajectory_controller."""

    def __init__(self, made: Any, q: Any, *, rate: int = 200, effort: bool = False, **controller: Any) -> None:
        from controller_manager_msgs.srv import ConfigureController, LoadController, SwitchController

        self._made, self._switching = made, SwitchController
        program = need_ros2_control()
        names = list(made.robot.active_names)
        own = {"joints": names, "command_interfaces": ["position"], "state_interfaces": ["position", "velocity"]}
        types = {
            BROADCASTER: {"type": "joint_state_broadcaster/JointStateBroadcaster"},
            CONTROLLER: {"type": "joint_trajectory_controller/JointTrajectoryController"},
        }
        file = made.folder / "controllers.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "controller_manager": {"ros__parameters": {"update_rate": rate, **types}},
                    CONTROLLER: {"ros__parameters": own | controller},
                }
            )
        )
        self._log = (made.folder / "control.log").open("w")
        command = [str(program), "--ros-args", "--params-file", str(file), "-r", "__node:=controller_manager"]
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        try:
            self._description = made.client.create_publisher(String, "robot_description", LATCHED)
            self._description.publish(String(data=description(made.robot, q, effort=effort)))
            for name in (BROADCASTER, CONTROLLER):
                assert self._ask(LoadController, "load_controller", name=name).ok, name
                assert self._ask(ConfigureController, "configure_controller", name=name).ok, name
            self.switch(on=[BROADCASTER])
        except BaseException:
            self.close()
            raise

    def _ask(self, kind: Any, service: str, **fields: Any) -> Any:
        return self._made.client.call(kind, f"/controller_manager/{service}", **fields)

    def switch(self, on: Any = (), off: Any = ()) -> None:
        """Activate and deactivate controllers."""
        answer = self._ask(
            self._switching, "switch_controller", activate_controllers=list(on), deactivate_controllers=list(off),
            strictness=2, activate_asap=True,
        )  # fmt: skip
        assert answer.ok, answer

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        try:
            self.process.wait(5.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()
