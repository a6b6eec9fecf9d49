# SPDX-License-Identifier: Apache-2.0

"""Decode messages that carry joint signals into rows: stamps, names and arrays.

JointState is decoded by layout (message_layout.py). The rosbags library decodes the rest one by one: a JointState whose
layout keeps changing or whose type the bag defines differently, and the messages of ros2_control.

JointState messages decoded by layout: many messages of one layout become arrays in one NumPy operation.
Where a message's names and array sizes are known, the stamp and the three arrays stand at fixed offsets. The first
message of a shape is parsed field by field, every size checked against the message's end; others of the same length
are taken by the same offsets only if all bytes that fix the layout (names, sizes, encapsulation) are equal to it.

ROS 1 messages have no encapsulation but a sequence number (u32) before the stamp, so the stamp is at offset 4 in both.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.errors import MissingPackageError
from ros2_dynid.recording.bag.cdr import CdrReader
from ros2_dynid.recording.bag.storage import (
    ZSTD_MAGIC,
    Bytes,
    Channel,
    DamagedDataError,
    Ints,
    MessageBlock,
    block_of,
    decompress,
    distinct,
)

if TYPE_CHECKING:
    from rosbags.typesys.store import Typestore


STAMP = 4
MAX_JOINTS = 10_000


@dataclass(frozen=True)
class MessageLayout:
    """Where the fields of a JointState are; `fixed` are the stretches of bytes that must agree: (offset, bytes)."""

    length: int
    byte_order: str
    signed_seconds: bool
    names: tuple[str, ...]
    arrays: tuple[tuple[int, int], ...]
    """(offset, count) of position, velocity and effort"""
    fixed: tuple[tuple[int, Bytes], ...]
    spans: tuple[tuple[int, Bytes], ...]
    """The same with the padding between them: fewer and longer, for a first and quick look."""


@dataclass(frozen=True)
class MessageRows:
    """K messages of one length as rows of a buffer: row k begins at offset + k * stride."""

    buffer: Bytes
    offset: int
    stride: int
    count: int
    length: int

    def column(self, offset: int, width: int, dtype: str) -> NDArray[np.generic]:
        """Return `width` numbers at an offset of every message, shape (K, width), without copying."""
        size = np.dtype(dtype).itemsize
        if offset + width * size > self.length:
            raise DamagedDataError("a field lies beyond the end of its message")
        return np.ndarray(
            (self.count, width), dtype, buffer=self.buffer, offset=self.offset + offset, strides=(self.stride, size)
        )


def rows_of(block: MessageBlock, rows: NDArray[np.intp]) -> MessageRows:
    """Return messages of one length as MessageRows: in place where they are evenly spaced, gathered where not."""
    return even_rows(block.data, block.start[rows], int(block.length[rows[0]]))


def even_rows(data: Bytes, start: Ints, length: int) -> MessageRows:
    """Return `length` bytes from each start on as MessageRows."""
    steps = np.diff(start)
    stride = int(steps[0]) if len(steps) else length
    if stride >= length and (steps == stride).all():
        return MessageRows(data, int(start[0]), stride, len(start), length)
    gathered = data[start[:, None] + np.arange(length)]
    return MessageRows(gathered, 0, length, len(start), length)


def agrees(layout: MessageLayout, rows: MessageRows) -> NDArray[np.bool_]:
    """Return for each message whether it has this layout."""
    if all(_all_equal(rows, offset, expected) for offset, expected in layout.spans):
        return np.ones(rows.count, bool)
    same = np.ones(rows.count, bool)  # some differ, perhaps only in what happens to be in their padding
    for offset, expected in layout.fixed:
        same &= (rows.column(offset, len(expected), "u1") == expected).all(axis=1)
    return same


def _all_equal(rows: MessageRows, offset: int, expected: Bytes) -> bool:
    """Return whether all messages have the bytes expected at an offset; eight bytes are compared at a time."""
    words = len(expected) // 8
    whole, rest = expected[: 8 * words], expected[8 * words :]
    if words and not (rows.column(offset, words, "u8") == whole.view("u8")).all():
        return False
    return not len(rest) or bool((rows.column(offset + 8 * words, len(rest), "u1") == rest).all())


def stamps(layout: MessageLayout, rows: MessageRows) -> Ints:
    """Return the header stamps [ns]."""
    seconds = rows.column(STAMP, 1, layout.byte_order + ("i4" if layout.signed_seconds else "u4"))[:, 0]
    nanoseconds = rows.column(STAMP + 4, 1, layout.byte_order + "u4")[:, 0]
    result: Ints = seconds.astype(np.int64) * 10**9 + nanoseconds.astype(np.int64)
    return result


def array(layout: MessageLayout, rows: MessageRows, field: int) -> NDArray[np.generic] | None:
    """Return position (0), velocity (1) or effort (2), shape (K, n), or None unless there is one value per joint."""
    offset, count = layout.arrays[field]
    if count != len(layout.names) or count == 0:
        return None
    return rows.column(offset, count, layout.byte_order + "f8")


def parse(message: bytes, encoding: str) -> MessageLayout:
    """Read one message field by field and return its layout [DamagedDataError if it is not a whole JointState]."""
    reader = CdrReader(message, encoding)
    reader.position = STAMP + 8
    if len(message) < reader.position:
        raise DamagedDataError("the message is too short")
    fixed: list[tuple[int, int]] = [(0, 2)] if reader.cdr else []
    frame = reader.count(1)
    fixed.append((reader.position - 4, reader.position))
    reader.skip(frame)
    count = reader.count(4)
    if count > MAX_JOINTS:
        raise DamagedDataError(f"the message claims {count} joints")
    fixed.append((reader.position - 4, reader.position))
    names: list[str] = []
    for _ in range(count):
        reader.align(4)
        begin = reader.position
        names.append(reader.string())
        fixed.append((begin, reader.position))
    arrays: list[tuple[int, int]] = []
    for _ in range(3):
        reader.align(4)
        fixed.append((reader.position, reader.position + 4))
        arrays.append(reader.doubles())
    data = np.frombuffer(message, np.uint8)
    return MessageLayout(
        len(message),
        reader.byte_order,
        reader.cdr,
        tuple(names),
        tuple(arrays),
        tuple((begin, data[begin:end].copy()) for begin, end in _merge_stretches(fixed, 0)),
        tuple((begin, data[begin:end].copy()) for begin, end in _merge_stretches(fixed, 3)),
    )


def _merge_stretches(stretches: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return the stretches, with those put together that are no more than `gap` bytes apart."""
    merged: list[tuple[int, int]] = []
    for begin, end in stretches:
        if merged and begin - merged[-1][1] <= gap:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


Message: TypeAlias = Any
"""A message as the rosbags library decodes it: a class that it makes at run time."""
JOINT_STATE = "sensor_msgs/msg/JointState"
DYNAMIC_STATE = "control_msgs/msg/DynamicJointState"
CONTROLLER_STATE = "control_msgs/msg/JointTrajectoryControllerState"
TYPES = (JOINT_STATE, DYNAMIC_STATE, CONTROLLER_STATE)
"""Message types that carry joint signals, the preferred one first."""
MAX_MESSAGE = 16 << 20
_LAYOUTS_A_BLOCK = 8
_CACHED_LAYOUTS = 256
_JOINT_STATE_FIELDS = (
    ("Header", "header"),
    ("string[]", "name"),
    ("float64[]", "position"),
    ("float64[]", "velocity"),
    ("float64[]", "effort"),
)


@dataclass(frozen=True)
class Decoded:
    """K messages with the same joints: rows of the block they came from, stamps [ns] and the arrays there are."""

    rows: NDArray[np.intp]
    header: Ints
    names: tuple[str, ...]
    arrays: Mapping[str, NDArray[np.generic]]
    """By field of Samples (q, dq, ddq, tau, q_r, temperature, tau_f), each of shape (K, len(names))."""


class Decoder:
    """Decodes the messages of one channel; `failed` counts those that could not be."""

    def __init__(self, channel: Channel) -> None:
        """Prepare for a channel of one of TYPES."""
        self.channel = channel
        self.failed = 0
        self.reason = ""
        self._layouts: dict[int, list[MessageLayout]] = {}
        self.by_layout = channel.type == JOINT_STATE and _is_plain_joint_state(channel)
        self._single: Callable[[bytes], Message] | None = None

    def decode(self, block: MessageBlock) -> Iterator[Decoded]:
        """Yield the messages of a block of this channel; `rows` gives their order."""
        block, rows = self._unpacked(block)
        if not self.by_layout:
            yield from self._one_by_one(block, rows)
            return
        for length in distinct(block.length[rows]):
            remaining = rows[block.length[rows] == length]
            for _ in range(_LAYOUTS_A_BLOCK):
                if not remaining.size:
                    break
                matrix = rows_of(block, remaining)
                layout, same = self._match(block, remaining, matrix)
                if layout is None:
                    remaining = remaining[1:]
                    continue
                if not same.all():
                    matrix = rows_of(block, remaining[same])
                names, arrays = layout.names, {}
                for index, field in enumerate(("q", "dq", "tau")):
                    values = array(layout, matrix, index)
                    if values is not None:
                        arrays[field] = values
                yield Decoded(remaining[same], stamps(layout, matrix), names, arrays)
                remaining = remaining[~same]
            yield from self._one_by_one(block, remaining)

    def _match(
        self, block: MessageBlock, rows: NDArray[np.intp], matrix: MessageRows
    ) -> tuple[MessageLayout | None, NDArray[np.bool_]]:
        """Return a layout that the first of the messages has, and which of them have it."""
        layouts = self._layouts.setdefault(matrix.length, [])
        for layout in layouts:
            same = agrees(layout, matrix)
            if same[0]:
                return layout, same
        try:
            layout = parse(block.payload(int(rows[0])), self.channel.encoding)
        except DamagedDataError as error:
            self._fail(str(error))
            return None, np.zeros(len(rows), bool)
        if len(self._layouts) > _CACHED_LAYOUTS:
            self._layouts = {matrix.length: (layouts := [])}
        layouts.insert(0, layout)
        del layouts[_LAYOUTS_A_BLOCK:]
        return layout, agrees(layout, matrix)

    def _unpacked(self, block: MessageBlock) -> tuple[MessageBlock, NDArray[np.intp]]:
        """Return the block with zstd compressed messages unpacked (rosbag2's compression by message)."""
        rows = np.arange(len(block))
        fits = (block.length >= 4) & (block.length <= MAX_MESSAGE)
        if not fits.all():
            self._fail("a message has an impossible size", int(np.count_nonzero(~fits)))
            rows = rows[fits]
        if not rows.size or block.payload(int(rows[0]))[:4] != ZSTD_MAGIC:
            return block, rows
        magic = np.frombuffer(ZSTD_MAGIC, np.uint8)
        packed = (block.data[block.start[rows][:, None] + np.arange(4)] == magic).all(axis=1)
        payloads, decoded_rows = [], []
        size = 0
        for row in rows[packed]:
            try:
                payloads.append(decompress("zstd", block.payload(int(row)), min(MAX_MESSAGE, (16 << 20) - size)))
            except DamagedDataError as error:
                self._fail(str(error))
                continue
            size += len(payloads[-1])
            decoded_rows.append(row)
        if not payloads:
            return block, rows[~packed]
        new = block_of(payloads, [0] * len(decoded_rows), [0] * len(decoded_rows))
        data = np.concatenate((block.data, new.data))
        start, length = block.start.copy(), block.length.copy()
        start[decoded_rows], length[decoded_rows] = new.start + len(block.data), new.length
        unpacked = MessageBlock(data, block.channel, block.stamp, start, length)
        return unpacked, np.sort(np.concatenate((rows[~packed], np.array(decoded_rows, np.intp))))

    def _one_by_one(self, block: MessageBlock, rows: NDArray[np.intp]) -> Iterator[Decoded]:
        if rows.size and self._single is None:
            self._single = _library_decoder(self.channel)
        for row in rows:
            assert self._single is not None
            try:
                message = self._single(block.payload(int(row)))
                header, names, arrays = READERS[self.channel.type](message)
            except Exception as error:  # the library raises what its reading meets; any of it means a bad message
                self._fail(f"{type(error).__name__}: {error}")
                continue
            whole = {field: values[None, :] for field, values in arrays.items() if len(values) == len(names) > 0}
            yield Decoded(np.array([row]), np.array([header], np.int64), names, whole)

    def _fail(self, reason: str, count: int = 1) -> None:
        self.failed += count
        self.reason = self.reason or reason


def can_decode(channel: Channel) -> bool:
    """Return whether a channel carries joint signals in a form that can be read."""
    if channel.type not in TYPES or channel.encoding not in ("cdr", "ros1"):
        return False
    return channel.type == JOINT_STATE or bool(channel.definition)


def _is_plain_joint_state(channel: Channel) -> bool:
    """Return whether the bag's definition of JointState is the standard one, or missing."""
    if not channel.definition or "msg" not in channel.definition_format:
        return True
    fields = []
    for line in channel.definition.split("====", 1)[0].splitlines():
        words = line.split("#", 1)[0].split()
        if len(words) >= 2:
            fields.append((words[0].rsplit("/", 1)[-1], words[1]))
    return tuple(fields) == _JOINT_STATE_FIELDS


MAX_VALUES = 10_000
"""Values of a message beside those of its lists, with all types that it holds: the largest here has some hundred."""
MAX_LIBRARY_BYTES = 1 << 18
"""Largest message [bytes] that the library reads value by value; states of 100 joints have some 10 kB."""
MAX_BRACKETS = 8
"""Brackets within brackets in an IDL: annotations and bounds have one or two."""


@cache
def _library_store(definition: str, form: str, kind: str, encoding: str) -> Typestore:
    """Return the library's type store with the types that the bag describes."""
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    base_store = get_typestore(Stores.ROS1_NOETIC if encoding == "ros1" else Stores.LATEST)
    if not definition:
        return base_store
    if "idl" in form:
        _refuse_costly_idl(definition)
    definitions = get_types_from_idl(definition) if "idl" in form else get_types_from_msg(definition, kind)
    store = get_typestore(Stores.EMPTY)  # a store takes no other description of a type that it knows
    types = {key: value for key, value in definitions.items() if key == kind or key not in base_store.types}
    types = {**base_store.fielddefs, **types}
    _refuse_lists_of_nothing(types)
    _count_values(types, kind, ())
    store.register(types)
    return store


def _refuse_costly_idl(definition: str) -> None:
    """Raise ValueError for an IDL whose parsing may take any time or memory: shifts, brackets within brackets."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', " ", definition, flags=re.DOTALL)
    depth = np.cumsum([(character == "(") - (character == ")") for character in text])
    if "<<" in text or (len(depth) and np.max(depth) > MAX_BRACKETS):
        raise ValueError("the IDL has expressions that no message needs")


def _refuse_lists_of_nothing(types: Mapping[str, Any]) -> None:
    """Raise ValueError for arrays of types without fields: elements without bytes, so a few bytes announce billions."""
    empty: set[str] = set()
    while True:
        more = {name for name, (_, fields) in types.items() if all(kind in _held(empty) for _, kind in fields)} - empty
        if not more:
            break
        empty |= more
    for name, (_, fields) in types.items():
        if any(isinstance(kind[1], tuple) and kind[1][0] in _held(empty) for _, kind in fields):
            raise ValueError(f"{name} has an array of elements without fields")


def _count_values(types: Mapping[str, Any], kind: str, within: tuple[str, ...]) -> int:
    """Return how many values a type has, arrays of fixed size with all; raise ValueError beyond MAX_VALUES."""
    from rosbags.interfaces import Nodetype

    if kind in within:
        raise ValueError(f"{kind} holds itself")
    count = 0
    for _, (form, detail) in types[kind][1] if kind in types else ():
        element, number = detail if form in (Nodetype.ARRAY, Nodetype.SEQUENCE) else ((form, detail), 1)
        inside = _count_values(types, element[1], (*within, kind)) if element[0] == Nodetype.NAME else 1
        count += max(inside, 1) * (number if form == Nodetype.ARRAY else 1)
        if count > MAX_VALUES:
            raise ValueError(f"{kind} has more than {MAX_VALUES} values")
    return count


def _held(names: set[str]) -> set[tuple[Any, str]]:
    """Return the types of fields that hold one of these."""
    from rosbags.interfaces import Nodetype

    return {(Nodetype.NAME, name) for name in names}


def _library_decoder(channel: Channel) -> Callable[[bytes], Message]:
    if importlib.util.find_spec("rosbags") is None:
        raise MissingPackageError("rosbags", f"reading {channel.type} as {channel.topic} has it")
    definition = channel.definition if len(channel.definition) <= 1 << 20 else ""
    try:
        store = _library_store(definition, channel.definition_format, channel.type, channel.encoding)
    except Exception as error:  # a definition that the library cannot parse
        reason = f"the bag's description of {channel.type} cannot be read ({type(error).__name__})"

        def refuse(_: bytes) -> Message:
            raise DamagedDataError(reason)

        return refuse
    read = store.deserialize_ros1 if channel.encoding == "ros1" else store.deserialize_cdr

    def decode(payload: bytes) -> Message:
        if len(payload) > MAX_LIBRARY_BYTES:
            raise DamagedDataError(f"a message of {len(payload)} bytes is no state of joints")
        return read(payload, channel.type)

    return decode


Signals = tuple[int, tuple[str, ...], dict[str, NDArray[np.float64]]]


def _stamp(message: Message) -> int:
    stamp = message.header.stamp
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def _joint_state(message: Message) -> Signals:
    arrays = {"q": message.position, "dq": message.velocity, "tau": message.effort}
    return _stamp(message), tuple(message.name), arrays


def _dynamic_state(message: Message) -> Signals:
    """DynamicJointState: for each joint a list of interfaces with a value each."""
    interfaces = {
        "position": "q",
        "velocity": "dq",
        "acceleration": "ddq",
        "effort": "tau",
        "torque": "tau",
        "temperature": "temperature",
    }
    names = tuple(message.joint_names)
    arrays: dict[str, NDArray[np.float64]] = {}
    for column, state in enumerate(message.interface_values[: len(names)]):
        for interface, value in zip(state.interface_names, state.values, strict=False):
            field = interfaces.get(interface)
            if field is not None:
                arrays.setdefault(field, np.full(len(names), np.nan))[column] = value
    return _stamp(message), names, arrays


def _controller_state(message: Message) -> Signals:
    """JointTrajectoryControllerState: the measured point, called `feedback` today and `actual` before.

    The commanded positions are those of `reference`, `desired` before; the effort there is what the trajectory adds.

    Controllers seldom measure effort; where they command it, that is the effort there is.
    """
    point = message.feedback if hasattr(message, "feedback") else message.actual
    arrays = {"q": point.positions, "dq": point.velocities, "ddq": point.accelerations, "tau": point.effort}
    output = getattr(message, "output", None)
    if len(arrays["tau"]) == 0 and output is not None:
        arrays["tau"] = output.effort
    commanded = message.reference if hasattr(message, "reference") else message.desired
    arrays["q_r"], arrays["tau_f"] = commanded.positions, commanded.effort
    return _stamp(message), tuple(message.joint_names), arrays


READERS: dict[str, Callable[[Message], Signals]] = {
    JOINT_STATE: _joint_state,
    DYNAMIC_STATE: _dynamic_state,
    CONTROLLER_STATE: _controller_state,
}
