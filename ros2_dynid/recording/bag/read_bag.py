# SPDX-License-Identifier: Apache-2.0

"""A bag becomes samples: its joint states are decoded, merged over topics and yielded in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.robot import Array
from ros2_dynid.notes import Note, NoteKind, damage, remark, repaired
from ros2_dynid.recording.bag.decode import Decoded, Decoder
from ros2_dynid.recording.bag.folder import Bag
from ros2_dynid.recording.bag.merge import Merger, SampleWindow
from ros2_dynid.recording.bag.topics import choose_topics
from ros2_dynid.recording.reading import Reading
from ros2_dynid.recording.samples import Samples, missing_joint, samples_of, shortened

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
        missed = f"{bag.announced - messages} of the {bag.announced} messages announced by metadata.yaml are missing"
        notes.append(damage(missed))
    if failed:
        notes.append(damage(f"{failed} messages could not be decoded and were left out ({reason[:120]})"))
    notes += _merge_notes(merger, topics, joint_names)


def _merge_notes(merger: Merger, topics: Sequence[str], joint_names: Sequence[str] | None) -> list[Note]:
    notes = []
    if merger.stamps == "bag":
        text = "the header stamps are not set: the times are those of recording, with the jitter of transport"
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
