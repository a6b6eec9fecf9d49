# SPDX-License-Identifier: Apache-2.0

"""Load any robot description: URDF, xacro, MJCF, robot file, identified model, or the name of a shipped one."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from ros2_dynid.errors import InputError, MissingPackageError, Option, Text, suggest
from ros2_dynid.model.files import MAX_YAML, as_mapping, parse_yaml, read_bytes
from ros2_dynid.model.from_mjcf import robot_from_mjcf
from ros2_dynid.model.from_urdf import ChainOptions, robot_from_urdf_string
from ros2_dynid.model.joint_limits import with_joint_limits
from ros2_dynid.model.reader_process import Limits, output_of, words_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.robot_file import MODEL_FORMAT, robot_from_dict, robot_from_model
from ros2_dynid.model.urdf import MAX_BYTES, root_tag

__all__ = ["load_robot", "robot_from_urdf_string", "shipped_models", "shipped_robots", "urdf_of"]

YAML_SUFFIXES, XML_SUFFIXES = (".yaml", ".yml"), (".urdf", ".xml")
MJCF_ROOT = "mujoco"
"""First element of an MJCF file."""
ROBOT_HINT = "give a .urdf, .xacro, .xml or .yaml file; to identify, the robot comes first, then the recordings"


def load_robot(
    path: str | Path,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
    joint_limits: str | Path | None = None,
) -> Robot:
    """Return the robot of a URDF, a xacro file, an MJCF, a robot file, or of a shipped robot's name such as "puma560".

    Of an identified model (model.yaml, or a shipped one such as "ur10_identified") it has the identified parameters.
    `base_link`, `tip_link` and `hold` {joint: position [rad or m]} select a sub-chain of a URDF or MJCF, with the
    joints left out held and their links lumped; `floating_base` lets the base link float. `joint_limits` is a MoveIt
    joint_limits.yaml.
    """
    file = find_robot_file(path)
    if file.is_dir():
        raise InputError("a folder is no robot", ROBOT_HINT, str(path))
    chain = ChainOptions(base_link=base_link, tip_link=tip_link, hold=dict(hold or {}), floating_base=floating_base)
    suffix = file.suffix.lower()
    if suffix in YAML_SUFFIXES:
        robot = _robot_file(file, chain)
    elif suffix == ".xacro":
        robot = robot_from_urdf_string(_run_xacro(file), source=str(path), **chain)
    else:
        robot = _xml_file(file, str(path), chain)
    return robot if joint_limits is None else with_joint_limits(robot, joint_limits)


def _xml_file(file: Path, source: str, chain: ChainOptions) -> Robot:
    """Return the robot of a URDF or an MJCF file."""
    data = read_bytes(file, MAX_BYTES)
    start = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if file.suffix.lower() not in XML_SUFFIXES and not start.startswith((b"<", b"\xff\xfe", b"\xfe\xff")):
        raise InputError("neither a URDF nor a robot file", ROBOT_HINT, source)
    if root_tag(data) == MJCF_ROOT:
        return robot_from_mjcf(file, source=source, **chain)
    return robot_from_urdf_string(data, source=source, **chain)


def _robot_file(file: Path, chain: ChainOptions) -> Robot:
    data = as_mapping(parse_yaml(read_bytes(file, MAX_YAML), str(file)), "the robot file", str(file))
    if data.get("format") == MODEL_FORMAT and not any(chain.values()):
        return robot_from_model(data, str(file))
    if data.get("urdf") is None and any(chain.values()):
        raise InputError(
            "the robot is given by a table",
            Text(
                "choose sub-chains (",
                Option("base_link"),
                ", ",
                Option("tip_link"),
                ", ",
                Option("hold"),
                ") and floating bases of a URDF",
            ),
            str(file),
        )

    def read_urdf(path: str, options: ChainOptions) -> Robot:
        urdf = file.parent / path
        if urdf.suffix.lower() in YAML_SUFFIXES:
            raise InputError(f"urdf: {path}", "name a URDF or xacro file, not another robot file", str(file))
        return load_robot(
            urdf,
            base_link=chain["base_link"] or options["base_link"],
            tip_link=chain["tip_link"] or options["tip_link"],
            hold={**options["hold"], **chain["hold"]},
            floating_base=chain["floating_base"] or options["floating_base"],
        )

    robot = robot_from_dict(data, str(file), read_urdf=read_urdf, snap=True, name=file.stem)
    limits = data.get("joint_limits")
    return robot if limits is None else with_joint_limits(robot, file.parent / str(limits))


def find_robot_file(path: str | Path) -> Path:
    """Return the file, or the shipped robot or model of that bare name."""
    file = Path(path)
    text = str(path)
    if not text.strip() or "\0" in text:
        raise InputError(f"{text!r} is not a robot", "give a URDF, a robot file or a shipped robot's name")
    if file.exists() or file.suffix or len(file.parts) > 1:
        return file
    shipped = shipped_robots() | shipped_models()
    if text not in shipped:
        raise InputError(
            f"there is no file {text!r} and no shipped robot of that name",
            f"give a URDF or robot file, or a shipped robot: {suggest(text, sorted(shipped))}",
        )
    return shipped[text]


def urdf_of(
    path: str | Path,
    *,
    base_link: str | None = None,
    tip_link: str | None = None,
    hold: Mapping[str, float] | None = None,
    floating_base: bool = False,
) -> tuple[Path | None, ChainOptions]:
    """Return the URDF that a robot comes from, None for another kind of file, and the sub-chain it is read with.

    A robot file that names a URDF may name base_link, tip_link, hold and floating_base too.
    """
    file = find_robot_file(path)
    chain = ChainOptions(base_link=base_link, tip_link=tip_link, hold=dict(hold or {}), floating_base=floating_base)
    if file.suffix.lower() in YAML_SUFFIXES:
        data = parse_yaml(read_bytes(file, MAX_YAML), str(file))
        if not isinstance(data, Mapping) or not data.get("urdf"):
            return None, chain
        file = file.parent / str(data["urdf"])
        chain = ChainOptions(
            base_link=chain["base_link"] or data.get("base_link"),
            tip_link=chain["tip_link"] or data.get("tip_link"),
            hold={**(data.get("hold") or {}), **chain["hold"]},
            floating_base=chain["floating_base"] or bool(data.get("floating_base")),
        )
    is_urdf = file.suffix.lower() in XML_SUFFIXES and root_tag(read_bytes(file, MAX_BYTES)) != MJCF_ROOT
    return (file if is_urdf else None), chain


def shipped_robots() -> dict[str, Path]:
    """Return the robots that come with the package, by name: from a checkout, or from the share folder installed."""
    folder = _config_folder()
    if folder is None:
        return {}
    files = {file.stem: file for file in sorted(folder.glob("*.urdf"))}
    return files | {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def shipped_models() -> dict[str, Path]:
    """Return the identified models that come with the package, by name: config/models/README.md lists them."""
    folder = _config_folder()
    files = [] if folder is None else sorted((folder.parent / "models").glob("*.yaml"))
    return {file.stem: file for file in files}


def shipped_file(name: str) -> Path:
    """Return a file of the folder config that comes with the package."""
    folder = _config_folder()
    if folder is None or not (folder.parent / name).is_file():
        raise InputError(f"the package's file config/{name} is not installed", "give a file of your own")
    return folder.parent / name


def _config_folder() -> Path | None:
    for parent in Path(__file__).resolve().parents:
        if (parent / "package.xml").is_file() and (parent / "config" / "robots").is_dir():
            return parent / "config" / "robots"
        share = parent / "share" / "ros2_dynid" / "config" / "robots"
        if share.is_dir():
            return share
    return None


XACRO_LIMITS = Limits(seconds=5, memory=400_000_000)
"""Its files are programs, and 100 bytes of one could take any time and memory."""
_XACRO = f"""
import sys
from ros2_dynid.model.reader_process import Limits
{XACRO_LIMITS!r}.set()
import xacro
try:
    sys.stdout.write(xacro.process_file(sys.argv[1]).toxml())
except BaseException as error:
    sys.exit(" ".join(str(error).split())[:200] or type(error).__name__)
"""


def _run_xacro(file: Path) -> str:
    """Return the URDF that xacro makes of a file, in a process with limits."""
    read_bytes(file, MAX_BYTES)
    if importlib.util.find_spec("xacro") is None:
        raise MissingPackageError("xacro", f"{file}: a xacro file")
    run = output_of(["-c", _XACRO, str(file)])
    if run.returncode == 0:
        return run.stdout
    raise InputError(f"xacro refuses it: {words_of(run, XACRO_LIMITS)}", "correct it, or give the URDF", str(file))
