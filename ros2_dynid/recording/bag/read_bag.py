# SPDX-License-Identifier: Apache-2.0

"""A bag becomes samples: its joint states are decoded, merged over topics and yielded in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np

from ros2_dynid.errors import InputError, Note, NoteKind, Option, Text, damage, remark, repaired
from ros2_dynid.model.files import check_structure
from ros2_dynid.model.robot import Array
from ros2_dynid.recording.bag.decode import JOINT_STATE, TYPES, Decoded, Decoder, can_decode
from ros2_dynid.recording.bag.merge import Merger, SampleWindow
from ros2_dynid.recording.bag.storage import Channel, MessageBlock, Storage, distinct
from ros2_dynid.recording.remote_file import RemoteFile
from ros2_dynid.recording.samples import Reading, Samples, missing_joint, samples_of, shortened

METADATA = "metadata.yaml"
_MAX_METADATA = 4 << 20
_KINDS = {
    "mcap": ("mcap_file", "McapFile"),
    "db3": ("sqlite_file", "SqliteFile"),
    "bag": ("rosbag1_file", "Rosbag1File"),
}
"""Storage formats by ending: module of this package and class, imported when such a file is opened."""


@dataclass(frozen=True)
class Bag:
    """An opened bag: its files in order, and warnings."""

    path: Path
    files: tuple[Storage, ...]
    warnings: tuple[str, ...] = ()
    announced: int | None = None
    """Number of messages of all topics that metadata.yaml names."""

    @property
    def channels(self) -> list[Channel]:
        """Return the channels of all files."""
        return [channel for file in self.files for channel in file.channels]

    def blocks(self, topics: Sequence[str]) -> Iterator[tuple[MessageBlock, list[Channel]]]:
        """Yield blocks with the messages of the topics named, and the channels in each, file by file."""
        for file in self.files:
            channel_ids = {
                channel.id: channel for channel in file.channels if channel.topic in topics and can_decode(channel)
            }
            if channel_ids:
                for block in file.blocks(channel_ids.keys()):
                    yield block, [channel_ids[key] for key in distinct(block.channel)]

    def file_warnings(self) -> list[str]:
        """Return the warnings of the bag and its files so far."""
        several = len(self.files) > 1
        texts = list(self.warnings)
        for number, file in enumerate(self.files, start=1):
            texts += [f"file {number}: {text}" if several else text for text in file.warnings]
        return texts


def is_bag(path: Path) -> bool:
    """Return whether a path is named as a bag: a folder, or a file of one of the kinds known."""
    return path.is_dir() or _kind(path) in _KINDS


def _open_file(file: Path | RemoteFile) -> Storage:
    """Return one file of a bag, opened by its storage format."""
    module, name = _KINDS["mcap" if isinstance(file, RemoteFile) else _kind(file)]
    storage: Callable[[Path | RemoteFile], Storage] = getattr(import_module(f"{__package__}.{module}"), name)
    return storage(file)


def _kind(path: Path) -> str:
    name = path.name.lower()
    for packed in (".zstd", ".zst"):
        name = name.removesuffix(packed)
    return name.rpartition(".")[2]


def open_bag(path: Path | RemoteFile) -> Bag:
    """Open a bag folder, or a single .mcap, .db3 or ROS 1 .bag file, packed with zstd or not; remote: .mcap only."""
    if isinstance(path, RemoteFile):
        return Bag(Path(path.name), (_open_file(path),))
    warnings: list[str] = []
    announced = None
    if path.is_dir():
        names, announced = _list_files(path, warnings)
        paths = [path / name for name in names]
    else:
        paths = [path]
    files: list[Storage] = []
    for file in paths:
        try:
            files.append(_open_file(file))
        except InputError as error:
            if len(paths) == 1:
                raise
            warnings.append(f"a file of the bag was left out: {error}")
    if not files:
        raise InputError("no file of this bag can be read", "; ".join(warnings) or "record it again", str(path))
    return Bag(path, tuple(files), tuple(warnings), announced)


def _list_files(folder: Path, warnings: list[str]) -> tuple[list[str], int | None]:
    """Return the files of a bag folder in order, by its metadata.yaml or, without a usable one, by their numbers."""
    present = sorted((file.name for file in folder.iterdir() if file.is_file()), key=_numbers)
    bag_files = [name for name in present if _kind(folder / name) in _KINDS]
    if not bag_files:
        what = "this folder holds no .mcap, .db3 or .bag file"
        raise InputError(what, "give a rosbag2 folder, or the file itself", str(folder))
    metadata = _metadata(folder, warnings)
    paths = metadata.get("relative_file_paths") if metadata else None
    if not isinstance(paths, list) or not all(isinstance(name, str) for name in paths) or not paths:
        kinds = {_kind(folder / name) for name in bag_files}
        storage_kind = next(kind for kind in _KINDS if kind in kinds)
        return [name for name in bag_files if _kind(folder / name) == storage_kind], None
    names: list[str] = []
    for name in (Path(text).name for text in paths[:10_000]):  # older bags list folder/file
        # A recorder that was killed had not yet packed its last file.
        match = next((n for n in (name, name + ".zstd", name.removesuffix(".zstd")) if n in bag_files), None)
        if match is None:
            warnings.append(f"metadata.yaml names the file {name!r}, which is not there")
        elif match not in names:
            names.append(match)
    count = metadata.get("message_count") if metadata else None
    return names or bag_files, count if isinstance(count, int) and count > 0 else None


def _metadata(folder: Path, warnings: list[str]) -> Mapping[object, object]:
    import yaml

    path = folder / METADATA
    if not path.is_file():
        warnings.append("the bag has no metadata.yaml: its files were taken in the order of their numbers")
        return {}
    try:
        with path.open("rb") as stream:
            text = stream.read(_MAX_METADATA)
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        check_structure(text)
        content = yaml.load(text, Loader=loader)
        information = content["rosbag2_bagfile_information"]
        if isinstance(information, dict):
            return information
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError):
        pass
    warnings.append("metadata.yaml is damaged: the bag's files were taken in the order of their numbers")
    return {}


def _numbers(name: str) -> list[tuple[int, str]]:
    """Sort key that takes digits in a name as numbers: bag_2 before bag_10."""
    return [
        (int(part[:18]), "") if part[0] in "0123456789" else (-1, part) for part in re.split(r"([0-9]+)", name) if part
    ]


_PEEKED_BLOCKS = 200
_PEEKED_MESSAGES = 50


def choose_topics(bag: Bag, joint_names: Sequence[str] | None, topic: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the topics to read: those named, or found by type and by the joints they carry."""
    source = str(bag.path)
    if topic:
        topic_names = tuple(topic.split(",")) if isinstance(topic, str) else tuple(topic)
        return tuple(_find_topic(bag, name.strip(), source) for name in topic_names)
    readable = [channel for channel in bag.channels if can_decode(channel) and channel.count != 0]
    for kind in TYPES:
        topics = tuple(dict.fromkeys(channel.topic for channel in readable if channel.type == kind))
        if topics:
            return topics if len(topics) == 1 else _by_joints(bag, topics, joint_names)
    silent = [channel for channel in bag.channels if can_decode(channel)]
    if silent:
        damage = bag.file_warnings()
        what = f"topic {silent[0].topic[:80]} has no message that can be read" + (f" ({damage[0]})" if damage else "")
        raise InputError(what, "record the robot's joint states again", source)
    others = [channel for channel in bag.channels if channel.type in TYPES]
    if others and others[0].type != JOINT_STATE:
        what = f"topic {others[0].topic} has type {others[0].type}, which this bag does not describe"
        raise InputError(what, "record sensor_msgs/msg/JointState, or record to MCAP, which keeps descriptions", source)
    available = "; ".join(dict.fromkeys(f"{channel.topic[:80]} ({channel.type[:80]})" for channel in bag.channels[:8]))
    what = f"the bag has no joint states, only {available}" if available else "the bag holds no messages"
    raise InputError(what, "record a topic of type sensor_msgs/msg/JointState", source)


def _find_topic(bag: Bag, name: str, source: str) -> str:
    channels = [channel for channel in bag.channels if channel.topic in (name, "/" + name)]
    if not channels:
        topics = (
            ", ".join(dict.fromkeys(c.topic[:80] for c in bag.channels if c.type in TYPES)) or "none of joint states"
        )
        raise InputError(f"the bag has no topic {name!r}", f"choose from its topics: {topics}", source)
    if not any(map(can_decode, channels)):
        what = f"topic {channels[0].topic} has type {channels[0].type[:80]} ({channels[0].encoding[:20]})"
        raise InputError(what, f"choose a topic of a type that carries joints: {', '.join(TYPES)}", source)
    return channels[0].topic


def _by_joints(bag: Bag, topics: Sequence[str], joint_names: Sequence[str] | None) -> tuple[str, ...]:
    """Choose among several topics of one type: the one with all joints, or those that together have them."""
    names = _peek(bag, topics)
    carrying = tuple(topic for topic in topics if names[topic] & set(joint_names or names[topic]))
    whole = tuple(topic for topic in carrying if names[topic] >= set(joint_names or ()))
    usual = tuple(topic for topic in whole if topic.rpartition("/")[2] == "joint_states")
    for choice in (whole, usual):
        if len(choice) == 1:
            return choice
    if whole:
        hint = Text("choose one (", Option("topic"), f"): {', '.join(whole[:10])}")
        raise InputError(f"{len(whole)} topics carry joint states", hint, str(bag.path))
    return carrying or tuple(topics)


def _peek(bag: Bag, topics: Sequence[str]) -> dict[str, set[str]]:
    """Return the joints that the first messages of each topic name."""
    names: dict[str, set[str]] = {topic: set() for topic in topics}
    remaining = dict.fromkeys(topics, _PEEKED_MESSAGES)
    for number, (block, channels) in enumerate(bag.blocks(topics)):
        for channel in channels:
            if remaining[channel.topic] > 0:
                first_messages = block.take(np.flatnonzero(block.channel == channel.id)[:_PEEKED_MESSAGES])
                for decoded in Decoder(channel).decode(first_messages):
                    names[channel.topic] |= set(decoded.names)
                remaining[channel.topic] -= len(first_messages)
        if number > _PEEKED_BLOCKS or all(count <= 0 for count in remaining.values()):
            break
    return names


_MAX_JOINT_SETS = 200


def iter_bag(
    bag: Bag, joint_names: Sequence[str] | None, chunk: int, reading: Reading, notes: list[Note]
) -> Iterator[Samples]:
    """Yield these joints (None: all), about `chunk` samples at a time; append remarks to `notes`."""
    source = str(bag.path)
    topics = choose_topics(bag, joint_names, reading.topic)
    merger = Merger(joint_names, reading.stamps)
    decoders: dict[int, Decoder] = {}
    start_ns: int | None = None
    count = 0
    for final in (False, True):
        windows = _windows(bag, topics, merger, decoders, chunk) if not final else iter([merger.window(final=True)])
        for window in windows:
            if window is None or not len(window.stamp):
                continue
            if start_ns is None:
                start_ns = int(window.stamp[0])
            count += len(window.stamp)
            yield _samples(window, start_ns, source)
    failed = sum(decoder.failed for decoder in decoders.values())
    reason = next((decoder.reason for decoder in decoders.values() if decoder.reason), "")
    if count == 0:
        warnings = bag.file_warnings()
        if failed:
            what = f"none of the {failed} messages on {', '.join(topics)} can be decoded ({reason[:120]})"
            raise InputError(what, "the bag is damaged or of another message type", source)
        if joint_names is not None and merger.seen_names:
            missing = [name for name in joint_names if name not in merger.seen_names]
            if missing:
                raise missing_joint(missing, list(merger.seen_names), source)
            what = f"the joints of the robot never appear together on {', '.join(topics)}"
            raise InputError(what, "record all publishers of joint states at the same time", source)
        what = f"there is no joint state on {', '.join(topics)}" + (f" ({warnings[0]})" if warnings else "")
        raise InputError(what, "record the robot's joint states", source)
    notes += map(damage, bag.file_warnings())
    messages = sum(channel.count for channel in bag.channels if channel.count > 0)
    if bag.announced is not None and 0 < messages < bag.announced:
        missing_text = (
            f"{bag.announced - messages} of the {bag.announced} messages announced by metadata.yaml are missing"
        )
        notes.append(damage(missing_text))
    if failed:
        notes.append(damage(f"{failed} messages could not be decoded and were left out ({reason[:120]})"))
    notes += _merge_notes(merger, topics, joint_names)


def _merge_notes(merger: Merger, topics: Sequence[str], joint_names: Sequence[str] | None) -> list[Note]:
    notes = []
    if merger.stamps == "bag":
        text = "the header stamps are not set: the bag's receive times are used, with their transport jitter"
        notes.append(Note(NoteKind.STAMPS, text))
    if merger.unstamped:
        notes.append(repaired(f"{merger.unstamped} messages without a stamp were left out"))
    if merger.interpolated:
        joints = shortened(sorted(merger.interpolated))
        notes.append(repaired(f"joint states come in parts: {joints} interpolated at the times of the other joints"))
    if merger.dropped:
        notes.append(repaired(f"{merger.dropped} samples were left out, since not all joints were published then"))
    if len(topics) > 1:
        notes.append(remark(f"joint states of several topics were joined: {', '.join(topics[:10])}"))
    extra = [name for name in merger.seen_names if name not in (merger.joint_names or ())]
    if extra:
        which = "that appear only later" if joint_names is None else "not in the robot"
        notes.append(remark(f"ignored joints {which}: {shortened(extra)}"))
    return notes


def _windows(
    bag: Bag, topics: Sequence[str], merger: Merger, decoders: dict[int, Decoder], chunk: int
) -> Iterator[SampleWindow | None]:
    """Yield windows of whole samples while the messages stream in; the last ones stay in the merger."""
    limit = chunk
    joint_sets: set[frozenset[str]] = set()
    for block, channels in bag.blocks(topics):
        decoded: dict[str, list[Decoded]] = {}
        for channel in channels:
            rows = np.flatnonzero(block.channel == channel.id)
            decoder = decoders.setdefault(id(channel), Decoder(channel))
            for item in decoder.decode(block if len(channels) == 1 else block.take(rows)):
                joint_sets.add(frozenset(item.names))
                if len(joint_sets) > _MAX_JOINT_SETS:
                    what = f"topic {channel.topic} changes its joints from message to message"
                    raise InputError(what, Text("choose another topic (", Option("topic"), ")"), str(bag.path))
                decoded.setdefault(channel.topic, []).append(replace(item, rows=rows[item.rows]))
        for topic, items in decoded.items():
            merger.add(topic, items, block.stamp)
        if merger.waiting >= limit:
            yield merger.window()
            limit = merger.waiting + chunk  # what waits for a slower publisher is no reason to hurry


def _samples(window: SampleWindow, start_ns: int, source: str) -> Samples:
    q = window.arrays.get("q")
    if q is None:
        q = np.full((len(window.stamp), len(window.names)), np.nan)
    t: Array = (window.stamp - start_ns) / 1e9  # the nearest number to the decimal one
    return replace(samples_of(t, window.names, {**window.arrays, "q": q}, source), start_ns=start_ns)
