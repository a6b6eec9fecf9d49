# SPDX-License-Identifier: Apache-2.0

"""Times of several functions, measured in turn in one run: only their ratios are meaningful on a noisy machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(functions: Mapping[str, Callable[[], object]], repeats: int = 15) -> dict[str, float]:
    """Return the median time of each function [s], called in turn `repeats` times after one call to warm up."""
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}
