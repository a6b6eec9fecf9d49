# SPDX-License-Identifier: Apache-2.0

"""What each recording of a fleet is: a hash of its content, taken by the workers where its stamp is not known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ros2_dynid.atomic import write_text
from ros2_dynid.errors import DynidError
from ros2_dynid.fleet.map_recording import Failed, identities, reason
from ros2_dynid.fleet.recordings import Found, Identity, is_url, stamp_of
from ros2_dynid.fleet.workers import Task, Workers
from ros2_dynid.progress import Progress

BATCH, BATCH_BYTES = 50, 100_000_000
"""Recordings that are hashed in one task, and their size [bytes]."""


def hash_recordings(
    recordings_of: Mapping[str, Found],
    stamps: Path,
    hands: Workers,
    report: Progress,
    *,
    batch_bytes: int = BATCH_BYTES,
) -> tuple[dict[str, Identity], dict[str, str], float]:
    """Return what each recording is, or why not, and the time it took [s]; a file with the same stamp is not read."""
    before = load_stamps(stamps)
    identity_of: dict[str, Identity] = {}
    unread: dict[str, str] = {}
    hashing = 0.0
    to_hash: list[str] = []
    sizes: dict[str, int] = {}
    for place in dict.fromkeys(p for one in recordings_of.values() for p in (*one.recordings, *one.validate)):
        try:
            size, stamp = stamp_of(place)
        except (DynidError, OSError):
            to_hash.append(place)  # a worker may reach what this machine does not
            continue
        if place in before and (before[place].size, before[place].stamp) == (size, stamp):
            identity_of[place] = before[place]
        else:
            to_hash.append(place)
            sizes[place] = 0 if is_url(place) else size  # what is remote is not read for it
    batches = batch_places(to_hash, sizes, most_bytes=batch_bytes)
    waiting = iter([Task(identities, (batch,), str(k)) for k, batch in enumerate(batches)])
    for finished, completion in enumerate(hands.run(lambda: next(waiting, None)), start=1):
        report("hashing recordings", 0.05 * finished / len(batches))
        hashing += completion.seconds
        batch, result = batches[int(completion.task.subject)], completion.result
        answers = result if isinstance(result, tuple) else (result,) * len(batch)
        for place, one in zip(batch, answers, strict=True):
            if isinstance(one, Failed):
                unread[place] = reason(one)
            else:
                identity_of[place] = one
    if to_hash:
        table = {place: [one.content, one.size, one.stamp] for place, one in sorted(identity_of.items())}
        write_text(stamps, json.dumps(table))
    return identity_of, unread, hashing


def batch_places(
    places: Sequence[str], sizes: Mapping[str, int], *, most: int = BATCH, most_bytes: int = BATCH_BYTES
) -> list[tuple[str, ...]]:
    """Return places in batches of at most `most` recordings and `most_bytes`, which one alone may pass."""
    batches: list[list[str]] = []
    total = 0
    for place in places:
        size = sizes.get(place, 0)
        if not batches or len(batches[-1]) == most or total + size > most_bytes:
            batches.append([])
            total = 0
        batches[-1].append(place)
        total += size
    return [tuple(batch) for batch in batches]


def load_stamps(path: Path) -> dict[str, Identity]:
    """Return what earlier runs have hashed; nothing where the file is not theirs."""
    try:
        data = json.loads(path.read_text())
        return {str(p): Identity(str(c), int(size), str(stamp)) for p, (c, size, stamp) in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
