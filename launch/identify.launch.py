# SPDX-License-Identifier: Apache-2.0

"""Everything to identify a robot's dynamics on its hardware: excitation, recorder, identification, feedforward
and the guard, which brakes the robot when the node that commands it is gone.

The robot comes from the topic robot_description, or from the argument robot. Joint states and the joint trajectory
controller's topic are remapped by arguments.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

from ros2_dynid.model.load import load_robot

ARGUMENTS = {
    "robot": ("", "URDF or robot file; empty: the topic robot_description"),
    "base_link": ("", "link that stands still; empty: the root of the URDF"),
    "tip_link": ("", "keep only the joints up to this link; empty: all"),
    "namespace": ("", "namespace of all nodes"),
    "joint_states": ("joint_states", "topic of the joint states"),
    "joint_trajectory": ("joint_trajectory", "topic of the joint trajectory controller"),
    "robot_description": ("robot_description", "topic of the robot's description"),
    "effort_commands": ("effort_commands", "topic of the forward command controller, for streamed torques"),
    "driver": ("", "preset of the robot's driver (ur, franka, ...; config/drivers): what its efforts hold and it adds"),
    "robot_adds": (
        "",
        "what the robot itself adds to a commanded effort: nothing, gravity, arm-gravity, gravity+friction:SHARE; "
        "empty: as its robot file declares",
    ),
    "action": ("", "FollowJointTrajectory action to use instead of the topic"),
    "folder": ("~/.ros/ros2_dynid", "folder for recordings, plans and models"),
    "duration": ("10.0", "length of the exciting trajectory [s]"),
    "require_rehearsal": ("true", "start no plan whose rehearsal was not passed"),
    "rehearsal_speed": ("0.2", "speed of a rehearsal, as a share"),
    "tracking_tolerance": ("0.2", "largest tracking error before the robot is stopped [rad or m]"),
    "online": ("false", "identify while the robot works"),
    "panel": ("false", "serve the panel, a page for the browser; its address is on the terminal"),
    "use_sim_time": ("false", "take the time from /clock"),
}


def check_robot(context):
    """Refuse a robot that cannot be read before any process starts."""
    robot, base, tip = (LaunchConfiguration(name).perform(context) for name in ("robot", "base_link", "tip_link"))
    if robot:
        load_robot(robot, base_link=base or None, tip_link=tip or None)


def generate_launch_description():
    """Return the five nodes with their arguments and, if it is wanted, the panel."""
    value = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    recordings = PathJoinSubstitution([value["folder"], "recordings"])

    def number(name):
        return ParameterValue(value[name], value_type=float)

    def switch(name):
        return ParameterValue(value[name], value_type=bool)

    def text(name):
        return ParameterValue(value[name], value_type=str)

    shared = {name: text(name) for name in ("robot", "base_link", "tip_link")}
    shared["robot_driver"] = text("driver")
    shared["use_sim_time"] = switch("use_sim_time")
    own = {
        "excitation": {
            "folder": PathJoinSubstitution([value["folder"], "trajectories"]),
            "action": text("action"),
            "duration": number("duration"),
            "require_rehearsal": switch("require_rehearsal"),
            "rehearsal_speed": number("rehearsal_speed"),
            "tracking_tolerance": number("tracking_tolerance"),
        },
        "recorder": {"folder": recordings},
        "identification": {
            "recordings_folder": recordings,
            "models_folder": PathJoinSubstitution([value["folder"], "models"]),
            "online": switch("online"),
        },
        "feedforward": {"robot_adds": ParameterValue(["['", value["robot_adds"], "']"])},
        "guard": {"action": text("action")},
        "panel": {},
    }
    topics = ("joint_states", "joint_trajectory", "robot_description", "effort_commands")
    nodes = [
        Node(
            package="ros2_dynid",
            executable=name,
            name=name,
            namespace=value["namespace"],
            parameters=[
                PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", f"{name}.yaml"]),
                shared,
                parameters,
            ],
            remappings=[(topic, value[topic]) for topic in topics],
            additional_env={"DYNID_END_WITH_PARENT": "1"},
            output="screen",
            condition=IfCondition(value["panel"]) if name == "panel" else None,
        )
        for name, parameters in own.items()
    ]
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=check_robot), *nodes])
