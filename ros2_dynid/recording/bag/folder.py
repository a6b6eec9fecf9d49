# SPDX-License-Identifier: Apache-2.0

"""A bag: which files it is made of, and their messages in blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.errors import InputError
from ros2_dynid.model.files import check_depth
from ros2_dynid.recording.bag.decode import can_decode
from ros2_dynid.recording.bag.mcap_file import McapFile
from ros2_dynid.recording.bag.rosbag1_file import Rosbag1File
from ros2_dynid.recording.bag.sqlite_file import SqliteFile
from ros2_dynid.recording.bag.storage import Channel, MessageBlock, Storage, distinct
from ros2_dynid.recording.remote_file import RemoteFile

METADATA = "metadata.yaml"
_MAX_METADATA = 4 << 20
_KINDS: dict[str, Callable[[Path], Storage]] = {"mcap": McapFile, "db3": SqliteFile, "bag": Rosbag1File}


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


def _kind(path: Path) -> str:
    name = path.name.lower()
    for packed in (".zstd", ".zst"):
        name = name.removesuffix(packed)
    return name.rpartition(".")[2]


def open_bag(path: Path | RemoteFile) -> Bag:
    """Open a bag folder, or a single .mcap, .db3 or ROS 1 .bag file, packed with zstd or not; remote: .mcap only."""
    if isinstance(path, RemoteFile):
        return Bag(Path(path.name), (McapFile(path),))
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
            files.append(_KINDS[_kind(file)](file))
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
        check_depth(text)
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
    return [(int(part[:18]), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name) if part]
