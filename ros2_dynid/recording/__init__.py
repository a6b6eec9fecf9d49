# SPDX-License-Identifier: Apache-2.0

"""Recordings: bags and tables become `Samples`, in the robot's joint order and SI units, and are written again.

`read` reads, sorts and cuts recordings larger than memory, and `save` writes. `bag` holds storage formats and message
codecs, `table` CSV and npz, `checks` what `dynid check` looks at. `playback` replays messages at their times, `session`
records a live stream, `live` and `live_points` decode single live messages.
"""
