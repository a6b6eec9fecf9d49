# SPDX-License-Identifier: Apache-2.0

"""A simulated robot with the whole suite around it: plan, start and identify by service calls (see docs/nodes.md)."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.substitutions import FindPackageShare

from ros2_dynid.model.load import load_robot


def check_robot(context):
    """Refuse a robot that cannot be read before any process starts."""
    load_robot(LaunchConfiguration("robot").perform(context))


def generate_launch_description():
    """Return the simulated robot, the four nodes and, if it is wanted, the panel."""
    arguments = [
        DeclareLaunchArgument("robot", default_value="demo6", description="URDF, robot file or shipped robot"),
        DeclareLaunchArgument("namespace", default_value="", description="namespace of all nodes"),
        DeclareLaunchArgument("seed", default_value="1", description="chooses the robot's true parameters"),
        DeclareLaunchArgument("folder", default_value="~/.ros/ros2_dynid", description="folder for what is written"),
        DeclareLaunchArgument("online", default_value="false", description="identify while the robot works"),
        DeclareLaunchArgument("panel", default_value="false", description="serve the panel, a page for the browser"),
    ]
    robot, folder = {"robot": LaunchConfiguration("robot")}, LaunchConfiguration("folder")
    recordings = PathJoinSubstitution([folder, "recordings"])
    own = {
        "sim_robot": {"seed": LaunchConfiguration("seed")},
        "excitation": {
            "folder": PathJoinSubstitution([folder, "trajectories"]),
            "start_delay": 1.0,  # the robot and those who watch it share one computer, which may be busy
            "stale_seconds": 1.0,
        },
        "recorder": {"folder": recordings},
        "identification": {
            "recordings_folder": recordings,
            "models_folder": PathJoinSubstitution([folder, "models"]),
            "online": LaunchConfiguration("online"),
        },
        "feedforward": {"priority": 0, "robot_adds": ["nothing"]},
        "guard": {"silence_seconds": 1.0},
        "panel": {},
    }
    nodes = [
        Node(
            package="ros2_dynid",
            executable=name,
            name=name,
            namespace=LaunchConfiguration("namespace"),
            parameters=[
                PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", f"{name}.yaml"]),
                robot,
                parameters,
            ],
            additional_env={"DYNID_END_WITH_PARENT": "1"},
            output="screen",
            condition=IfCondition(LaunchConfiguration("panel")) if name == "panel" else None,
        )
        for name, parameters in own.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=check_robot), *nodes])
