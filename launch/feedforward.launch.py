"""Feedforward from a model file: references in on `reference`, joint trajectories with effort out.

ros2 launch ros2_dynid feedforward.launch.py model:=result/model.yaml joint_trajectory:=/arm_controller/joint_trajectory
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "model": (None, "model file (model.yaml) of the robot"),
    "output": ("trajectory", "trajectory: effort in joint_trajectory; effort: torques streamed"),
    "reference": ("reference", "topic of the reference, trajectory_msgs/JointTrajectory"),
    "joint_states": ("joint_states", "topic of the joint states"),
    "joint_trajectory": ("joint_trajectory", "topic of the joint trajectory controller"),
    "effort_commands": ("effort_commands", "topic of a forward command controller, for output:=effort"),
    "namespace": ("", "of the node, for several robots in one graph"),
    "use_sim_time": ("false", "take the time from /clock"),
}
TOPICS = ("reference", "joint_states", "joint_trajectory", "effort_commands")


def generate_launch_description():
    """Describe the launch."""
    parameters = {
        "model": ParameterValue(LaunchConfiguration("model"), value_type=str),
        "output": ParameterValue(LaunchConfiguration("output"), value_type=str),
        "use_sim_time": ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool),
    }
    node = Node(
        package="ros2_dynid",
        executable="feedforward",
        name="feedforward",
        namespace=LaunchConfiguration("namespace"),
        parameters=[
            PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config", "feedforward.yaml"]),
            parameters,
        ],
        remappings=[(topic, LaunchConfiguration(topic)) for topic in TOPICS],
        output="screen",
    )
    arguments = [
        DeclareLaunchArgument(name, description=text, **({} if default is None else {"default_value": default}))
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, node])
