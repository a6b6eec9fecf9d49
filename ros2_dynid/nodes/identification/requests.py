"""From the messages of the identification node to the use cases' requests; a field that cannot be is named."""

from __future__ import annotations

from ros2_dynid.action import Identify
from ros2_dynid.codec import Plain, decode
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.msg import IdentifyOptions as OptionsMessage
from ros2_dynid.recording.table.column_map import parse_columns
from ros2_dynid.srv import IdentifyRecording


def identify_options(request: Identify.Goal | IdentifyRecording.Request, method: str, sensor: str) -> IdentifyOptions:
    """Return the options of a request; method, sensor: those of a request that names none."""
    plain = plain_options(request.options)
    plain |= {
        "method": request.method or method,
        "sensor": request.options.sensor or sensor,
        "cross_validate": request.cross_validate,
        "essential": request.essential,
        "standard": request.standard,
        "consistent": request.consistent,
    }
    return decode(IdentifyOptions, plain)


def payload_options(message: OptionsMessage, sensor: str) -> IdentifyOptions:
    """Return the options of a request for a payload; sensor: the one of a request that names none."""
    return decode(IdentifyOptions, plain_options(message) | {"sensor": message.sensor or sensor})


def plain_options(message: OptionsMessage) -> dict[str, Plain]:
    """Return the fields that were given, as the codec takes them; empty and 0 mean the default."""
    units = {name: getattr(message, f"{name}_unit") for name in ("time", "angle", "length", "effort")}
    reading: dict[str, Plain] = {
        "topic": list(message.topics),
        "columns": _columns(message.columns),
        "units": _given(units),
        "stamps": message.stamps,
        "start": message.start,
        "end": message.end,
    }
    names = ("position_cutoff", "row_cutoff", "row_rate", "slow", "velocity")
    preparation: dict[str, Plain] = {name: getattr(message, name) for name in names}
    preparation = _given(preparation | {"gains": _gains(message)})
    if message.known_delay:
        preparation["delay"] = message.delay
    choices = ("friction", "prior", "controller", "sensor", "torque_sensor")
    model: dict[str, Plain] = _given({name: getattr(message, name) for name in choices})
    return {**model, "checks": not message.skip_checks, "reading": _given(reading), "preparation": preparation}


def _given(fields: dict[str, Plain]) -> dict[str, Plain]:
    return {name: value for name, value in fields.items() if value}


def _gains(message: OptionsMessage) -> dict[str, Plain]:
    if len(message.gain_joints) != len(message.gains):
        raise InputError("options.gain_joints and options.gains differ in number", "give one gain for each joint")
    return dict(zip(message.gain_joints, message.gains, strict=True))


def _columns(items: list[str]) -> dict[str, Plain]:
    for item in items:
        if "=" not in item or "," in item:
            raise InputError(f"options.columns holds {item!r}", "write elbow.position=q3")
    return dict(parse_columns(",".join(items)))
