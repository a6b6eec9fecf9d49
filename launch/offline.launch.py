"""Bag in, report out: identifies from a recording and ends.

ros2 launch ros2_dynid offline.launch.py robot:=robot.urdf bag:=recording output:=result
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, ExecuteProcess, RegisterEventHandler
from launch.event_handlers import OnProcessExit
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackagePrefix

ARGUMENTS = {
    "robot": (None, "URDF or robot file"),
    "bag": (None, "recording: rosbag2, ROS 1 bag, csv or npz"),
    "output": (None, "new folder for the model and the report"),
    "method": ("wls", "estimator"),
    "cross_validate": ("3", "number of blocks for cross-validation; 0: none"),
}


def generate_launch_description():
    """Describe the launch."""
    dynid = PathJoinSubstitution([FindPackagePrefix("ros2_dynid"), "lib", "ros2_dynid", "dynid"])
    values = {name: LaunchConfiguration(name) for name in ARGUMENTS}
    identify = ExecuteProcess(
        cmd=[
            dynid,
            "identify",
            values["robot"],
            values["bag"],
            "--method",
            values["method"],
            "--cross-validate",
            values["cross_validate"],
            "-o",
            values["output"],
        ],
        output="screen",
    )
    arguments = [
        DeclareLaunchArgument(name, description=text, **({} if default is None else {"default_value": default}))
        for name, (default, text) in ARGUMENTS.items()
    ]
    end = RegisterEventHandler(OnProcessExit(target_action=identify, on_exit=[EmitEvent(event=Shutdown())]))
    return LaunchDescription([*arguments, end, identify])
