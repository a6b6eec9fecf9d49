# SPDX-License-Identifier: Apache-2.0

"""Feedforward torque from an identified model: model file in, effort out."""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "model": ("", "model file that dynid identify or the identification node wrote; empty: wait for base_parameters"),
    "output": ("trajectory", "trajectory: effort in joint_trajectory; effort: torques streamed"),
    "driver": ("", "preset of the robot's driver (ur, franka, ...; config/drivers): what its efforts hold and it adds"),
    "robot_adds": (
        "",
        "what the robot itself adds to a commanded effort: nothing, gravity, arm-gravity, gravity+friction:SHARE; "
        "empty: as the model declares",
    ),
    "namespace": ("", "namespace of the node"),
    "reference": ("reference", "topic of the reference trajectory"),
    "joint_states": ("joint_states", "topic of the joint states"),
    "joint_trajectory": ("joint_trajectory", "topic of the joint trajectory controller"),
    "effort_commands": ("effort_commands", "topic of the forward command controller"),
    "panel": ("false", "serve the panel, a page for the browser; it needs the topic robot_description"),
    "use_sim_time": ("false", "take the time from /clock"),
}


def generate_launch_description():
    """Return the node, the guard and, if it is wanted, the panel."""
    value = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    topics = ("reference", "joint_states", "joint_trajectory", "effort_commands")
    node = Node(
        package="ros2_dynid",
        executable="feedforward",
        name="feedforward",
        namespace=value["namespace"],
        parameters=[
            PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", "feedforward.yaml"]),
            {
                "model": ParameterValue(value["model"], value_type=str),
                "output": ParameterValue(value["output"], value_type=str),
                "robot_driver": ParameterValue(value["driver"], value_type=str),
                "robot_adds": ParameterValue(["['", value["robot_adds"], "']"]),
                "use_sim_time": ParameterValue(value["use_sim_time"], value_type=bool),
            },
        ],
        remappings=[(topic, value[topic]) for topic in topics],
        additional_env={"DYNID_END_WITH_PARENT": "1"},
        output="screen",
    )
    guard = Node(
        package="ros2_dynid",
        executable="guard",
        name="guard",
        namespace=value["namespace"],
        parameters=[
            PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", "guard.yaml"]),
            {"use_sim_time": ParameterValue(value["use_sim_time"], value_type=bool)},
        ],
        remappings=[(topic, value[topic]) for topic in ("joint_states", "joint_trajectory", "effort_commands")],
        additional_env={"DYNID_END_WITH_PARENT": "1"},
        output="screen",
    )
    panel = Node(
        package="ros2_dynid",
        executable="panel",
        name="panel",
        namespace=value["namespace"],
        parameters=[
            PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", "panel.yaml"]),
            {"use_sim_time": ParameterValue(value["use_sim_time"], value_type=bool)},
        ],
        remappings=[(topic, value[topic]) for topic in ("joint_states", "joint_trajectory")],
        additional_env={"DYNID_END_WITH_PARENT": "1"},
        output="screen",
        condition=IfCondition(value["panel"]),
    )
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, node, guard, panel])
