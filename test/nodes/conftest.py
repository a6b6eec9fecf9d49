# SPDX-License-Identifier: Apache-2.0

"""The order of the node tests: those that may take longest first, so that two workers end at about the same time."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests by the limit of their time, the longest first."""

    def limit(item: pytest.Item) -> float:
        marker = item.get_closest_marker("timeout")
        return 0.0 if marker is None else float(marker.args[0])

    items.sort(key=limit, reverse=True)
