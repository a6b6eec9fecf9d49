"""The simulated robot with all nodes: plan, start, record and identify it by service calls.

ros2 launch ros2_dynid demo.launch.py [robot:=URDF] [seed:=1] [output:=FOLDER] [namespace:=arm1]
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "robot": ("demo6", "URDF, robot file or shipped robot"),
    "seed": ("1", "chooses the true parameters and the noise"),
    "output": ("dynid_output", "folder for trajectories, recordings and models"),
    "namespace": ("", "of all nodes, for several robots in one graph"),
}


def generate_launch_description():
    """Describe the launch."""
    config = PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config"])
    robot, output = LaunchConfiguration("robot"), LaunchConfiguration("output")
    own = {
        "sim_robot": {"seed": ParameterValue(LaunchConfiguration("seed"), value_type=int)},
        "excitation": {"folder": PathJoinSubstitution([output, "trajectories"])},
        "recorder": {"folder": PathJoinSubstitution([output, "recordings"])},
        "identification": {
            "recordings_folder": PathJoinSubstitution([output, "recordings"]),
            "models_folder": PathJoinSubstitution([output, "models"]),
        },
        "feedforward": {},
    }
    nodes = [
        Node(
            package="ros2_dynid",
            executable=name,
            name=name,
            namespace=LaunchConfiguration("namespace"),
            parameters=[
                PathJoinSubstitution([config, f"{name}.yaml"]),
                {"robot": ParameterValue(robot, value_type=str)},
                parameters,
            ],
            output="screen",
        )
        for name, parameters in own.items()
    ]
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, *nodes])
