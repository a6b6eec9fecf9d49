# SPDX-License-Identifier: Apache-2.0

"""Reading one SQLite3 file of a rosbag2 bag (.db3, .db3.zstd), in the order it was written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from ros2_dynid.errors import InputError
from ros2_dynid.recording.bag.storage import ALWAYS_UNPACKED, Channel, MessageBlock, block_of, open_zstd, type_name

MAX_MESSAGE = 16 << 20
"""Largest message [bytes] that is read; a JointState of 100 joints has 6 kB."""
_ERRORS = (sqlite3.Error, OverflowError, UnicodeDecodeError)
"""What sqlite3 raises for damaged files; the last one for a message of its own that quotes them."""
_ROWS = 4096
_STEPS = 100_000
"""Steps of SQLite's machine between two looks at their number: a row of 30 bytes takes about 15."""
BLOCK_BYTES = 4 << 20
_MAX_RATIO = 300  # unpacked over packed size of a .db3.zstd file that is still believed


class SqliteFile:
    """One .db3 file: its topics, and its messages in blocks."""

    def __init__(self, path: Path) -> None:
        """Read the topics."""
        self.path = path
        self.warnings: list[str] = []
        self.channels: list[Channel] = []
        self._database = path
        if path.suffix in (".zstd", ".zst"):
            self._folder = tempfile.TemporaryDirectory(prefix="dynid-")  # goes with this object
            self._database = self._unpacked(Path(self._folder.name) / "bag.db3")
        self.size = self._database.stat().st_size
        page, whole = self._announced()
        self._truncated = whole > self.size
        if self._truncated:
            missing = whole - self.size
            self._warn(
                f"the file is cut: {missing} of {whole} bytes ({100 * missing / whole:.2g} %) are missing at its end"
            )
            if self.size % page:
                self._database = self._whole_pages(page)
        with self._connect() as connection:
            try:
                self._read_topics(connection)
            except _ERRORS as error:
                raise self._damaged(error) from None

    def blocks(self, channel_ids: Collection[int]) -> Iterator[MessageBlock]:
        """Yield the messages of these channels in the order of the table."""
        marks = ",".join("?" * len(channel_ids))
        query = (
            "SELECT topic_id, timestamp, data FROM messages "
            f"WHERE topic_id IN ({marks}) AND length(data) <= {MAX_MESSAGE} ORDER BY rowid"
        )
        with self._connect() as connection:
            remaining = self.size + (1 << 20)
            for rows in self._batches(connection, query, channel_ids):
                valid_rows = [row for row in rows if isinstance(row[2], bytes) and isinstance(row[1], int)]
                remaining -= sum(len(row[2]) for row in valid_rows) + 8 * len(rows)
                if remaining < 0:  # a damaged tree can list its pages over and over
                    self._warn("the database is damaged: it lists more messages than the file can hold")
                    return
                if valid_rows:
                    channel, stamp, payloads = zip(*valid_rows, strict=True)
                    yield block_of(list(payloads), list(channel), list(stamp))

    def _batches(
        self, connection: sqlite3.Connection, query: str, channel_ids: Collection[int]
    ) -> Iterator[list[tuple[int, int, bytes]]]:
        """Yield rows up to the first damage: at most _ROWS at a time, and not much more than BLOCK_BYTES of them."""
        rows: list[tuple[int, int, bytes]] = []
        size = 0
        try:
            for row in connection.execute(query, sorted(channel_ids)):
                rows.append(row)
                size += len(row[2]) if isinstance(row[2], bytes) else 0
                if len(rows) >= _ROWS or size >= BLOCK_BYTES:
                    yield rows
                    rows, size = [], 0
        except _ERRORS as error:
            self._warn(f"the database is cut or damaged: messages after the damage are missing ({error})")
        if rows:
            yield rows

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _damaged(self, error: Exception) -> InputError:
        hint = "give a rosbag2 bag; a damaged one may be repaired with: sqlite3 FILE .recover"
        return InputError(f"this is not a rosbag2 SQLite3 file or it is damaged ({error})", hint, str(self.path))

    def _announced(self) -> tuple[int, int]:
        """Return the size of a page and that of the file as its header announces them; (1, 0) if it does not."""
        with self._database.open("rb") as stream:
            head = stream.read(100)
        if len(head) < 100 or not head.startswith(b"SQLite format 3\0") or head[24:28] != head[92:96]:
            return 1, 0
        page = int.from_bytes(head[16:18], "big")
        page = 65536 if page == 1 else max(page, 1)
        return page, page * int.from_bytes(head[28:32], "big")

    def _whole_pages(self, page: int) -> Path:
        """Return a copy without the part of a page at the end, which SQLite would fill up with zeros."""
        self._folder = tempfile.TemporaryDirectory(prefix="dynid-")  # goes with this object
        copy = Path(self._folder.name) / "cut.db3"
        shutil.copyfile(self._database, copy)
        os.truncate(copy, self.size - self.size % page)
        return copy

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open the database without ever writing to it or to its folder."""
        # A write-ahead log beside the file holds the last messages of a recorder that was killed.
        log = self._database.with_name(self._database.name + "-wal")
        mode = "mode=ro" if log.exists() else "immutable=1"
        try:
            connection = sqlite3.connect(f"file:{quote(str(self._database.absolute()))}?{mode}", uri=True)
        except _ERRORS as error:
            raise self._damaged(error) from None
        with closing(connection):
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.set_progress_handler(self._step_budget(), _STEPS)
            try:
                if self._truncated:  # SQLite's own recovery sets this too: else it refuses a file that lacks pages
                    connection.execute("PRAGMA writable_schema=ON")
                for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "cache_size=-16384", "query_only=ON"):
                    connection.execute(f"PRAGMA {pragma}")
            except _ERRORS as error:
                raise self._damaged(error) from None
            yield connection

    def _step_budget(self) -> Callable[[], bool]:
        """Return what ends a query that takes more steps than a file of this size can need."""
        remaining = iter(range(100 + self.size // _STEPS))
        return lambda: next(remaining, None) is None

    def _unpacked(self, target: Path) -> Path:
        """Unpack a compressed file into a temporary one, within a bound."""
        remaining = _MAX_RATIO * self.path.stat().st_size + ALWAYS_UNPACKED
        with open_zstd(self.path) as packed, target.open("wb") as out:
            while True:
                try:
                    part = packed.read1(1 << 20)
                except Exception as error:  # zstd's own error types for cut or damaged data
                    self._warn(f"the compressed file is cut or damaged ({error})")
                    break
                if not part:
                    break
                remaining -= len(part)
                if remaining < 0:
                    what = f"it unpacks into more than {_MAX_RATIO} times its size"
                    raise InputError(what, "unpack it with: zstd -d FILE, and give the result", str(self.path))
                out.write(part)
        return target

    def _read_topics(self, connection: sqlite3.Connection) -> None:
        tables = {
            str(name): str(kind)
            for name, kind in connection.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table','view')")
        }
        if tables.get("topics") != "table" or tables.get("messages") != "table":
            what = "this SQLite3 file has no tables of topics and messages"
            what += f" ({self.warnings[0]})" if self.warnings else ""
            raise InputError(what, "give a rosbag2 bag", str(self.path))
        for table in ("topics", "messages", "message_definitions"):
            if any(column[6] for column in connection.execute(f"PRAGMA table_xinfo({table})")):
                raise InputError(f"columns of {table} are computed", "give a rosbag2 bag", str(self.path))
        definitions: dict[str, tuple[str, str]] = {}
        if tables.get("message_definitions") == "table":  # since ROS 2 Iron
            rows = connection.execute(
                "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
            )
            for name, form, text in rows.fetchmany(10_000):
                definitions[str(name)] = (str(text), str(form))
        rows = connection.execute("SELECT id, name, type, serialization_format FROM topics")
        for key, topic, kind, form in rows.fetchmany(100_000):
            text, encoding = definitions.get(str(kind), ("", ""))
            if isinstance(key, int):
                self.channels.append(Channel(key, str(topic), type_name(str(kind)), str(form), text, encoding))
