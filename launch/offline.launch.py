# SPDX-License-Identifier: Apache-2.0

"""A recording in, a model and a report out, without a robot: ends when both are written, with 1 if one fails."""

import shlex

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, ExecuteProcess, OpaqueFunction, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackagePrefix

ARGUMENTS = {
    "robot": (None, "URDF, robot file or shipped robot"),
    "bag": (None, "recording: a rosbag2 folder, csv or npz file"),
    "method": ("wls", "estimator: ols, wls, irls, tls, iv, energy, sequential or recursive"),
    "output": ("dynid_model", "new folder for the model and the report"),
    "options": ("", "further options of dynid identify, such as options:='--overwrite --gains elbow=-1'"),
}


def steps(context):
    """Return the identification, then the report."""
    value = {name: LaunchConfiguration(name).perform(context) for name in ARGUMENTS}
    dynid = PathJoinSubstitution([FindPackagePrefix("ros2_dynid"), "lib", "ros2_dynid", "dynid"])
    wanted = ["--method", value["method"], "--cross-validate", "5", "-o", value["output"]]
    identify = ExecuteProcess(
        cmd=[dynid, "identify", value["robot"], value["bag"], *wanted, *shlex.split(value["options"])], output="screen"
    )
    report = ExecuteProcess(cmd=[dynid, "report", value["output"]], output="screen")
    end = EmitEvent(event=Shutdown(reason="done"))

    def go_on(what, then):
        def after(event, context):
            if event.returncode:  # raised here, an error is the exit code of the whole launch
                raise RuntimeError(f"{what} failed; the lines before say why")
            return [then]

        return after

    return [
        identify,
        RegisterEventHandler(OnProcessExit(target_action=identify, on_exit=go_on("dynid identify", report))),
        RegisterEventHandler(OnProcessExit(target_action=report, on_exit=go_on("dynid report", end))),
    ]


def generate_launch_description():
    """Return the arguments and the steps."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=steps)])
