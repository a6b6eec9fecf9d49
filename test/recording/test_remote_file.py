# SPDX-License-Identifier: Apache-2.0

"""A remote file, read in ranges through any object that returns bytes from an offset on."""

from __future__ import annotations

import io

import numpy as np
import pytest

from bagmaker import plain_messages, write_bag
from ros2_dynid.errors import InputError
from ros2_dynid.recording.read import iter_samples
from ros2_dynid.recording.remote_file import RemoteFile


def test_a_remote_file_is_read_in_ranges(tmp_path):
    data = np.random.default_rng(2).integers(0, 256, 5000, np.uint8).tobytes()
    asked = []

    def read(offset, count):
        asked.append((offset, count))
        return data[offset : offset + min(count, 700)]  # a server may give less

    file = RemoteFile("s3://x", len(data), read)
    assert str(file) == "s3://x" and not asked
    with file.open() as stream:
        assert stream.read(10) == data[:10] and stream.tell() == 10
        assert stream.seek(-100, io.SEEK_END) == 4900 and stream.read() == data[4900:] and stream.read(5) == b""
        assert stream.seek(50) == 50 and stream.read(30) == data[50:80]
        assert stream.seek(20, io.SEEK_CUR) == 100 and stream.read(3) == data[100:103]
        assert stream.seek(0) == 0 and stream.read() == data
    assert file.received == sum(min(count, 700, len(data) - offset) for offset, count in asked)
    assert all(offset + count <= len(data) for offset, count in asked)
    file.check()
    raw = file.open().raw
    assert raw.seek(-7) == 0 and raw.tell() == 0 and raw.readable() and raw.seekable()
    raw.seek(4000)
    assert raw.seek(500, io.SEEK_CUR) == 4500 and raw.read(10) == data[4500:4510]


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("gone")])
def test_a_remote_file_that_fails_says_so(error):
    def read(offset, count):
        raise error

    file = RemoteFile("s3://x", 100, read)
    with pytest.raises(OSError, match="gone"):
        file.open().read(1)
    with pytest.raises(InputError, match=r"could not be read to its end \(gone\)"):
        file.check()


def test_a_remote_bag(tmp_path):
    messages, _, _, q, *_ = plain_messages(200)
    (path,) = write_bag(tmp_path / "bag", messages).glob("*.mcap")
    data = path.read_bytes()
    file = RemoteFile("far.mcap", len(data), lambda offset, count: data[offset : offset + count])
    found = list(iter_samples(file))
    np.testing.assert_array_equal(np.concatenate([s.q for s in found]), q)
    file.check()
