# SPDX-License-Identifier: Apache-2.0

"""Arguments that several commands share: the robot, recordings, their preparation, the surroundings."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ros2_dynid.commands.shared.command import numbers
from ros2_dynid.errors import InputError, Option, Text, scalar_text
from ros2_dynid.identification.options import VelocitySource
from ros2_dynid.recording.samples import ANGLE_UNITS, EFFORT_UNITS, LENGTH_UNITS, TIME_UNITS, Units

if TYPE_CHECKING:
    from ros2_dynid.identification.options import PreparationOptions
    from ros2_dynid.model.robot import Robot
    from ros2_dynid.recording.samples import Reading
    from ros2_dynid.usecases.plan import Surroundings
    from ros2_dynid.usecases.robot_source import RobotSource


FLAGS = {"groups": "only", "source": "from"}
"""Fields of the requests whose flag has another name."""

T = TypeVar("T")


def as_flag(option: Option) -> str:
    """Return an option as it is typed."""
    flag = "--" + FLAGS.get(option.key, option.key).replace("_", "-")
    value = option.value
    if value is None or value is True:
        return flag
    if value is False:
        return f"no {flag}"
    if isinstance(value, Mapping):
        return f"{flag} {','.join(f'{name}={scalar_text(item)}' for name, item in value.items())}"
    if isinstance(value, str | float | int):
        return f"{flag} {scalar_text(value)}"
    return f"{_join_flag(flag, ','.join(scalar_text(item) for item in value))}"


def _join_flag(flag: str, value: str) -> str:
    """Return flag and value; a value that begins with a minus needs the equals sign."""
    return f"{flag}={value}" if value.startswith("-") else f"{flag} {value}"


def with_flags(outcome: T) -> T:
    """Return an outcome whose texts name options as they are typed here."""
    rendered: T = _render_value(outcome)  # type: ignore[assignment]
    return rendered


def _render_value(value: object) -> object:
    if isinstance(value, Text):
        return value.render(as_flag)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _render_value(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, Mapping):
        return {key: _render_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_render_value, value))
    return value


def add_robot_arguments(
    parser: argparse.ArgumentParser, *, positional: bool = True, required: bool = True, help_text: str | None = None
) -> None:
    """Add ROBOT (a positional, or --robot if not `positional`) and the options that select a sub-chain of a URDF.

    Not `required`: --robot may be left out; args.robot is None then.
    """
    text = help_text or "URDF, xacro, MJCF or robot file (YAML), or the name of a shipped robot such as puma560"
    if positional:
        parser.add_argument("robot", metavar="ROBOT", help=text)
    else:
        parser.add_argument("--robot", metavar="ROBOT", required=required, help=text)
    group = parser.add_argument_group("sub-chain of the robot")
    group.add_argument("--base-link", metavar="LINK", help="fixed link (default: the root of the URDF)")
    group.add_argument("--tip-link", metavar="LINK", help="keep only the joints between the base link and this link")
    group.add_argument(
        "--hold",
        metavar="JOINT=VALUE",
        action="append",
        default=[],
        help="fix a joint at a position [rad or m] and lump its link with the one before; repeatable",
    )
    group.add_argument(
        "--floating-base",
        action="store_true",
        help="the base link floats, as that of a robot on legs: six joints without drives lead from the world to it",
    )
    group.add_argument(
        "--gravity",
        metavar="X,Y,Z",
        type=numbers,
        help="gravity in the base link's frame [m/s^2], for an arm on a wall or a ceiling (default: the robot's)",
    )
    group.add_argument(
        "--joint-limits", metavar="FILE", help="MoveIt joint_limits.yaml: velocity and acceleration limits"
    )
    group.add_argument(
        "--robot-driver",
        metavar="NAME",
        default="",
        help="preset of the robot's driver (ur, franka, ...; config/drivers): what its efforts hold and what it adds",
    )


RECORDINGS = (".mcap", ".db3", ".bag", ".csv", ".npz", ".zstd", ".zst")
DESCRIPTIONS = (".urdf", ".xacro")
"""How the names of recordings and of descriptions of robots end."""


def looks_like_robot(path: str) -> bool:
    """Return whether a path is named as a robot description."""
    return path.lower().endswith((*DESCRIPTIONS, ".xml", ".yaml", ".yml")) and not Path(path).is_dir()


def sort_robot(args: argparse.Namespace) -> None:
    """Exchange the robot and the one recording that is named as a robot, if the robot is named as a recording."""
    robots = [path for path in args.recordings if looks_like_robot(path)]
    if len(robots) == 1 and (args.robot.lower().endswith(RECORDINGS) or Path(args.robot).is_dir()):
        args.recordings = [args.robot if path == robots[0] else path for path in args.recordings]
        args.robot = robots[0]


def parse_hold(items: list[str]) -> dict[str, float]:
    """Return {joint: position [rad or m]} from JOINT=VALUE texts; the last `=` separates."""
    positions: dict[str, float] = {}
    for item in (part for text in items for part in text.split(",")):
        name, separator, text = item.rpartition("=")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (separator and name and math.isfinite(value)):
            raise InputError(f"--hold {item!r} is not a joint and a number", "write --hold elbow=0.5 [rad or m]")
        if name in positions:
            raise InputError(f"--hold names joint {name!r} twice", "give one position per held joint")
        positions[name] = value
    return positions


def robot_source(args: argparse.Namespace) -> RobotSource:
    """Return where the robot comes from that the arguments of add_robot_arguments name."""
    from ros2_dynid.usecases.robot_source import RobotSource

    return RobotSource(
        args.robot,
        base_link=args.base_link,
        tip_link=args.tip_link,
        hold=parse_hold(args.hold),
        floating_base=args.floating_base,
        joint_limits=args.joint_limits,
        gravity=args.gravity,
        robot_driver=args.robot_driver,
    )


def robot_from_args(args: argparse.Namespace) -> Robot:
    """Read the robot that the arguments of add_robot_arguments name."""
    return robot_source(args).load()


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a recording."""
    group = parser.add_argument_group("reading the recording")
    group.add_argument(
        "--topic", metavar="TOPIC", help="topic of the joint states, several as A,B (default: by message type)"
    )
    group.add_argument(
        "--torque-topic", metavar="TOPIC", help="topic of link-side torques, if recorded in addition to motor efforts"
    )
    group.add_argument(
        "--base",
        metavar="TOPIC",
        help="pose or IMU of a floating base: topic of nav_msgs/Odometry, geometry_msgs/PoseStamped or "
        "sensor_msgs/Imu, or prefix of the columns PREFIX.position.x ... PREFIX.orientation.w (default: the only one "
        "there is)",
    )
    group.add_argument(
        "--contact",
        metavar="LINK[=TOPIC]",
        action="append",
        default=[],
        help="force on a link of a robot with a floating base, in the link's frame: topic of "
        "geometry_msgs/WrenchStamped, or prefix of the columns PREFIX.force.x ... PREFIX.torque.z; repeatable "
        "(default: columns LINK.force.x ...)",
    )
    group.add_argument("--start", metavar="S", type=float, help="ignore data before this time [s]")
    group.add_argument("--end", metavar="S", type=float, help="ignore data after this time [s]")
    group.add_argument(
        "--stamps",
        choices=("auto", "header", "bag"),
        default="auto",
        help="stamps of a bag to use (default: the header stamps)",
    )
    group.add_argument(
        "--rate",
        metavar="HZ",
        type=float,
        help="sampling rate [Hz], for recordings without valid times",
    )
    group.add_argument(
        "--columns",
        metavar="MAP",
        help="headers of a CSV or npz file: time=stamp,elbow.position=q3,...; {name}.effort=tau_{j} stands for all "
        "joints ({j} counts from 1, {i} from 0); or a YAML file; or, without a header, time,elbow.position,-,...",
    )
    group.add_argument(
        "--format",
        choices=("auto", "rtde", "franka"),
        default="auto",
        help="whose log a CSV file is: RTDE of Universal Robots, libfranka (default: by its header)",
    )
    group.add_argument("--episode", metavar="N", type=int, help="episode of a LeRobot data set (default: all)")
    group.add_argument(
        "--time-unit", choices=tuple(TIME_UNITS), default="s", help="time unit of a CSV or npz file (default: s)"
    )
    group.add_argument(
        "--angle-unit",
        choices=tuple(ANGLE_UNITS),
        default="rad",
        help="unit of revolute joints, also of velocities (default: rad)",
    )
    group.add_argument(
        "--length-unit",
        choices=tuple(LENGTH_UNITS),
        default="m",
        help="unit of prismatic joints, also of velocities (default: m)",
    )
    group.add_argument(
        "--effort-unit", choices=tuple(EFFORT_UNITS), default="N.m", help="unit of efforts (default: N.m)"
    )


def reading_of(args: argparse.Namespace) -> Reading:
    """Return how to read a recording, as the arguments of add_reading_arguments say."""
    from ros2_dynid.recording.samples import Reading, parse_contacts  # here, since NumPy would slow down `dynid --help`
    from ros2_dynid.recording.table.column_map import parse_columns

    units = Units(args.time_unit, args.angle_unit, args.length_unit, args.effort_unit)
    columns = parse_columns(args.columns) or None if args.columns else None
    reading = Reading(args.topic, columns, units, args.stamps, args.start, args.end, args.rate, args.torque_topic)
    contacts = parse_contacts(args.contact)
    return replace(reading, format=args.format, episode=args.episode, base=args.base, contacts=contacts)


def add_preparation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of preprocessing; the defaults come from the data."""
    group = parser.add_argument_group("preprocessing (default: proposed from the data)")
    group.add_argument("--position-cutoff", metavar="HZ", type=float, help="low-pass of the positions [Hz]")
    group.add_argument("--row-cutoff", metavar="HZ", type=float, help="low-pass of both torque and regressor [Hz]")
    group.add_argument("--row-rate", metavar="HZ", type=float, help="rows per joint after decimation [Hz]")
    group.add_argument(
        "--slow", metavar="FRACTION", type=float, default=0.02, help="drop rows below this fraction of the top speed"
    )
    group.add_argument(
        "--velocity",
        choices=[str(source) for source in VelocitySource],
        default="auto",
        help="velocities derived from positions, as measured, or auto: the better one of each joint",
    )
    group.add_argument(
        "--gains",
        metavar="JOINT=GAIN,...",
        action="append",
        default=[],
        help="drive gains: torque [N.m or N] per unit of the recorded effort",
    )
    group.add_argument("--delay", metavar="S", type=float, help="delay of the recorded effort [s] (default: estimated)")


def add_sensor_argument(parser: argparse.ArgumentParser) -> None:
    """Add --sensor."""
    parser.add_argument(
        "--sensor",
        metavar="SENSOR",
        default="auto",
        help="what efforts hold: motor (rotor inertia and friction too), link (torque sensor, neither), or link+Fc "
        "(some of Ia, Fv, Fc); with -gravity (motor-gravity) without gravity, which the robot compensates itself, with "
        "-friction:0.8 without that share of friction; for all joints, or JOINT=link,JOINT=motor. auto "
        "(default): as in the robot file, else motor, with a warning if the data disagree; found: chosen on held-out "
        "data",
    )


def preparation_of(args: argparse.Namespace) -> PreparationOptions:
    """Return PreparationOptions from the arguments."""
    from ros2_dynid.identification.options import PreparationOptions

    return PreparationOptions(
        position_cutoff=args.position_cutoff,
        row_cutoff=args.row_cutoff,
        row_rate=args.row_rate,
        slow=args.slow,
        velocity=VelocitySource(args.velocity),
        gains=parse_gains(args.gains),
        delay=args.delay,
    )


def parse_gains(items: list[str]) -> dict[str, float]:
    """Return {joint: gain} from JOINT=GAIN texts; the last `=` separates."""
    gains: dict[str, float] = {}
    for item in (part for text in items for part in text.split(",")):
        name, separator, text = item.rpartition("=")
        try:
            gains[name] = float(text)
        except ValueError:
            separator = ""
        if not (separator and name):
            raise InputError(f"--gains {item!r} is not a joint and a number", "write --gains elbow=12.5 [N.m per unit]")
    return gains


def add_surroundings_arguments(group: argparse._ArgumentGroup) -> None:
    """Add --floor, --box, --obstacles, --collision, --no-collision, --collision-margin and --package-path."""
    group.add_argument(
        "--package-path",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of ROS packages to look for meshes (package://) in, before those of AMENT_PREFIX_PATH; repeatable",
    )
    group.add_argument("--floor", metavar="Z", type=float, help="height of a floor in the base frame [m]")
    group.add_argument(
        "--box",
        metavar="LIST",
        type=numbers,
        help="workspace x,X,y,Y,z,Z: lowest and highest coordinates in the base frame [m]; inf for none",
    )
    group.add_argument(
        "--obstacles", metavar="FILE", help="YAML with boxes, cylinders, spheres, capsules and planes in the base frame"
    )
    group.add_argument(
        "--collision", metavar="FILE", help="URDF with collision shapes, or YAML with spheres and capsules"
    )
    group.add_argument("--no-collision", action="store_true", help="ignore the URDF's collision shapes")
    group.add_argument(
        "--collision-margin", metavar="M", type=float, default=0.02, help="smallest allowed distance [m] (default 0.02)"
    )


def surroundings_of(args: argparse.Namespace) -> Surroundings:
    """Return the surroundings that the arguments name."""
    from ros2_dynid.usecases.plan import Surroundings

    if args.box is not None and len(args.box) != 6:
        raise InputError(f"--box has {len(args.box)} numbers", "give six: x,X,y,Y,z,Z [m]")
    if args.package_path:
        places = [*args.package_path, os.environ.get("ROS_PACKAGE_PATH", "")]
        os.environ["ROS_PACKAGE_PATH"] = os.pathsep.join(filter(None, places))
    return Surroundings(
        collisions=args.collision is not None or not args.no_collision,
        file=args.collision,
        margin=args.collision_margin,
        floor=args.floor,
        box=args.box,
        obstacles=args.obstacles,
    )
