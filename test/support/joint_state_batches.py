# SPDX-License-Identifier: Apache-2.0

"""Recordings of efforts alone."""

from __future__ import annotations

import numpy as np

from ros2_dynid.recording.samples import Samples


def states(t, names, tau, start_ns=0):
    t = np.asarray(t, float)
    return Samples(t, tuple(names), np.zeros((len(t), len(names))), tau=tau, start_ns=start_ns)
