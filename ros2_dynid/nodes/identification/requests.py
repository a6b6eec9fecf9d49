# SPDX-License-Identifier: Apache-2.0

"""From the messages of the identification node to the use cases' requests; an error names the field.

What a message does not give is left to the defaults of the request, which the command line shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from ros2_dynid.action import Identify
from ros2_dynid.codec import Plain, decode, encode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions, parse_feet
from ros2_dynid.msg import IdentifyOptions as OptionsMessage
from ros2_dynid.nodes.common.optional import given_fields, optional
from ros2_dynid.recording.samples import Reading, Units, parse_contacts
from ros2_dynid.recording.table.column_map import parse_columns
from ros2_dynid.srv import ConvertUrdf, IdentifyPayload, IdentifyRecording
from ros2_dynid.usecases.identify import IdentifyRequest
from ros2_dynid.usecases.payload import PayloadRequest
from ros2_dynid.usecases.robot_source import RobotSource

FLAGS = ("essential", "standard", "consistent")


def identify_request(
    request: Identify.Goal | IdentifyRecording.Request,
    robot: RobotSource,
    recordings: Sequence[str],
    validation: Sequence[str],
    method: str,
    sensor: str,
) -> IdentifyRequest:
    """Return what a goal or a service request asks for.

    recordings, validation: paths of its bags; method, sensor: those of a request that names none.
    """
    plain = {"method": method, **_plain_options(request.options, sensor)}
    plain |= given_fields(request, ("method", "cross_validate"))
    plain |= {flag: getattr(request, flag) for flag in FLAGS}
    return IdentifyRequest(robot, tuple(recordings), tuple(validation), decode(IdentifyOptions, plain))


def payload_request(
    request: IdentifyPayload.Request, robot: RobotSource, empty: Sequence[str], loaded: Sequence[str], sensor: str
) -> PayloadRequest:
    """Return the request for a payload; empty, loaded: paths of its bags; sensor: that of a request that names none."""
    options = decode(IdentifyOptions, _plain_options(request.options, sensor))
    return PayloadRequest(robot, tuple(empty), tuple(loaded), optional(request.link), options, request.free)


def robot_to_convert(request: ConvertUrdf.Request, description: str) -> RobotSource:
    """Return the robot of a request; description: text of the URDF of a request that gives none."""
    if len(request.hold_joints) != len(request.hold_positions):
        raise InputError("hold_joints and hold_positions differ in number", "give one position for each joint")
    text = optional(request.urdf) or description
    if not text:
        raise InputError("there is no URDF", "give one in the request, or publish robot_description")
    hold = dict(zip(request.hold_joints, request.hold_positions, strict=True))
    return RobotSource(urdf=text, base_link=optional(request.base_link), tip_link=optional(request.tip_link), hold=hold)


def _plain_options(message: OptionsMessage, sensor: str) -> dict[str, Plain]:
    """Return the options that were given, by their names in the use case."""
    units = {unit: f"{unit}_unit" for unit in _names(Units)}
    given_units = given_fields(message, units.values())
    reading = given_fields(message, _names(Reading) - {"topic", "columns", "units", "contacts"})
    reading |= {"units": {unit: given_units[field] for unit, field in units.items() if field in given_units}}
    if message.topics:
        reading["topic"] = list(message.topics)
    if message.columns:
        reading["columns"] = _columns(message.columns)
    reading["contacts"] = encode(parse_contacts(message.contacts))
    preparation = given_fields(message, _names(PreparationOptions) - {"gains"}) | {"gains": _gains(message)}
    names = ("friction", "prior", "sensor", "torque_sensor", "controller", "distance", "essential_std", "significant")
    model = given_fields(message, names)
    return {
        "sensor": sensor,
        **model,
        "standing": encode(parse_feet(message.standing)),
        "checks": not message.no_checks,
        "reading": reading,
        "preparation": preparation,
    }


def _names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def _gains(message: OptionsMessage) -> dict[str, Plain]:
    if len(message.gain_joints) != len(message.gains):
        raise InputError("options.gain_joints and options.gains differ in number", "give one gain for each joint")
    return dict(zip(message.gain_joints, message.gains, strict=True))


def _columns(items: list[str]) -> dict[str, Plain]:
    for item in items:
        if "=" not in item or "," in item:
            raise InputError(f"options.columns holds {item!r}", "write elbow.position=q3")
    return dict(parse_columns(",".join(items)))
