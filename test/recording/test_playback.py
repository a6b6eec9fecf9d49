# SPDX-License-Identifier: Apache-2.0

"""Play a recording: its joint states as serialized messages, each at its time."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.recording.live import stamp_ns
from ros2_dynid.recording.playback import Message, recorded_messages, timed
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples

MS = 1_000_000


def test_what_is_played_is_cut_in_time(tmp_path):
    t = np.arange(20) / 10
    save_samples(Samples(t, ("a",), t[:, None], start_ns=10**9), tmp_path / "bag")
    for start, end, first, last in (
        (None, None, 0, 19), (0.45, None, 5, 19), (None, 1.25, 0, 12), (0.25, 0.65, 3, 6), (0.5, 1.5, 5, 15),
        (1.0, 1.0, 10, 10),
    ):  # fmt: skip
        found = list(recorded_messages(tmp_path / "bag", start=start, end=end))
        stamps = [m.stamp - 10**9 for m in found]
        assert stamps == [k * 100 * MS for k in range(first, last + 1)]
        assert all(m.topic == "/joint_states" and stamp_ns(m.payload) == m.stamp for m in found)
    with pytest.raises(InputError, match="no such file"):
        list(recorded_messages(tmp_path / "none"))


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0])
def test_messages_come_when_they_are_due(rate):
    now = [100.0]
    messages = [Message(10**9 + k * 200 * MS, "/j", b"") for k in range(4)]

    def sleep(seconds):
        assert seconds > 0.0
        now[0] += seconds

    seen = []
    for stamp, message in timed(iter(messages), rate, clock=lambda: now[0], sleep=sleep):
        at = 10**9 + (now[0] - 100.0) * rate * 1e9
        assert stamp == pytest.approx(at, abs=2e3)
        if message is not None:
            seen.append((message.stamp, now[0] - 100.0))
    assert [s for s, _ in seen] == [m.stamp for m in messages]
    np.testing.assert_allclose([when for _, when in seen], np.arange(4) * 0.2 / rate, atol=1e-6)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="not a speed"):
            next(timed(iter(messages), wrong))
