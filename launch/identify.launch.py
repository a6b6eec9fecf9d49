"""Everything to identify a real robot: excitation, recorder and identification beside its own controllers.

The robot comes from robot_description unless a file is given. Nothing moves before ~/plan and ~/start are called.

ros2 launch ros2_dynid identify.launch.py joint_trajectory:=/arm_controller/joint_trajectory tracking_tolerance:=0.1
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

ARGUMENTS = {
    "robot": ("", "URDF or robot file; empty: the topic robot_description"),
    "base_link": ("", "link of the URDF that stands still; empty: its root"),
    "tip_link": ("", "keep only the joints between base_link and this link; empty: all"),
    "joint_states": ("joint_states", "topic of the joint states"),
    "joint_trajectory": ("joint_trajectory", "topic of the joint trajectory controller"),
    "action": ("", "FollowJointTrajectory action to use instead of the topic"),
    "duration": ("10.0", "of the exciting trajectory [s]"),
    "approach_speed": ("0.1", "on the way to the start, as a share of the limits"),
    "rehearsal_speed": ("0.2", "speed of a rehearsal, as a share"),
    "tracking_tolerance": ("0.2", "the motion is stopped beyond this tracking error [rad or m]"),
    "stop_deceleration": ("5.0", "to stop joints without an acceleration limit with [rad/s2 or m/s2]"),
    "method": ("wls", "estimator"),
    "output": ("dynid_output", "folder for trajectories, recordings and models"),
    "namespace": ("", "of all nodes, for several robots in one graph"),
    "use_sim_time": ("false", "take the time from /clock"),
}


def generate_launch_description():
    """Describe the launch."""
    config = PathJoinSubstitution([FindPackageShare("ros2_dynid"), "config"])

    def text(name):
        return ParameterValue(LaunchConfiguration(name), value_type=str)

    def real(name):
        return ParameterValue(LaunchConfiguration(name), value_type=float)

    def folder(name):
        return PathJoinSubstitution([LaunchConfiguration("output"), name])

    common = {name: text(name) for name in ("robot", "base_link", "tip_link")}
    common["use_sim_time"] = ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool)
    speeds = ("duration", "approach_speed", "rehearsal_speed", "tracking_tolerance", "stop_deceleration")
    own = {
        "excitation": {
            "folder": folder("trajectories"),
            "action": text("action"),
            **{name: real(name) for name in speeds},
        },
        "recorder": {"folder": folder("recordings")},
        "identification": {
            "recordings_folder": folder("recordings"),
            "models_folder": folder("models"),
            "method": text("method"),
        },
    }
    nodes = [
        Node(
            package="ros2_dynid",
            executable=name,
            name=name,
            namespace=LaunchConfiguration("namespace"),
            parameters=[PathJoinSubstitution([config, f"{name}.yaml"]), common, parameters],
            remappings=[(topic, LaunchConfiguration(topic)) for topic in ("joint_states", "joint_trajectory")],
            output="screen",
        )
        for name, parameters in own.items()
    ]
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=description)
        for name, (default, description) in ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, *nodes])
