# SPDX-License-Identifier: Apache-2.0

"""The fleet's page: one file with its data, style and script inside, the same for three robots and for a thousand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ros2_dynid.codec import Plain
from ros2_dynid.fleet.summary import Fleet, KindRow, Outlier
from ros2_dynid.fleet.trends import Trend
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.model.robot import Array
from ros2_dynid.report.page import document

SECTIONS = (
    ("robots", "Robots", "Click a header to sort; a robot's name opens its report."),
    (
        "heat",
        "Parameters against robots",
        "How many sigmas each robot's parameters are from the mean of the others of its kind: blue below, red above. "
        "The robots furthest off come first.",
    ),
    ("trends", "Friction over time", "Friction torque of each joint at half its top speed, one point for a recording."),
    ("outliers", "Who stands out", "Parameters further from the other robots than chance explains."),
    ("kinds", "What robots of a kind share", "Mean of each base parameter, and its spread between robots."),
    ("worst", "Worst recordings", "Torque error under the robot's estimate from all its recordings."),
    ("failed", "Not used", "Recordings that could not be read or prepared."),
)
CALM = ("good", "note")
ENOUGH_ROBOTS = 5
"""Robots of a kind from which a spread between them is known well enough to name one of them."""
FAR = 5.0
"""Distance [sigma] worth a word where robots are too few to judge."""
MOST_POINTS, LEAST_POINTS = 60_000, 6
"""Points of all trends together, and of each at least: the page stays small with a thousand robots."""
MOST_ROWS, MOST_WORST, MOST_TEXT = 3000, 200, 240


def fleet_page(fleet: Fleet, *, most_points: int = MOST_POINTS) -> str:
    """Return index.html."""
    robots = fleet.robots
    counts: dict[str, int] = {}
    for one in robots.values():
        counts[one.verdict] = counts.get(one.verdict, 0) + 1
    verdict = [("bad", f"{robot}: {one.reason}") for robot, one in robots.items() if one.verdict == "stands out"][:20]
    more = counts.get("stands out", 0) - len(verdict)
    if more > 0:
        verdict.append(("bad", f"{more} more robots stand out."))
    if not verdict:
        verdict = [("good", "No robot stands out from the others of its kind.")]
    verdict += _too_few(fleet)
    if fleet.failed:
        verdict.append(("warn", f"{len(fleet.failed)} recordings could not be used."))
    seconds, count = (sum(getattr(one, name) for one in robots.values()) for name in ("seconds", "recordings"))
    verdict_counts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
    facts = [
        f"{len(robots)} robots, {count} recordings, {duration_text(seconds)} in all.",
        f"Verdicts: {verdict_counts}.",
    ]
    links = "".join(f'<a href="#s-{key}">{heading}</a>' for key, heading, _ in SECTIONS)
    body = "\n".join(
        f'<section><h2 id="s-{key}">{heading}</h2><p class="soft">{text}</p><div id="{key}"></div></section>'
        for key, heading, text in SECTIONS
    )
    script = (Path(__file__).parent / "fleet.js").read_text(encoding="utf-8")
    return document(f"Fleet of {len(robots)} robots", verdict, facts, links, body, _data(fleet, most_points), script)


def duration_text(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 120.0:
        return f"{seconds:.3g} s"
    return f"{seconds / 60.0:.3g} min" if seconds < 7200.0 else f"{seconds / 3600.0:.3g} h"


def _too_few(fleet: Fleet) -> list[tuple[str, str]]:
    """Say of which kinds there are too few robots to judge, and which one is far off all the same."""
    remarks = []
    for kind in fleet.kinds:
        if 1 < len(kind.robots) < ENOUGH_ROBOTS:
            robot, sigmas = max(
                ((robot, _furthest(row)) for robot, row in zip(kind.robots, fleet.compared[kind.name].z, strict=True)),
                key=lambda one: abs(one[1]),
            )
            far = f"; {robot} is furthest from the others ({sigmas:+.0f} sigma)" if abs(sigmas) > FAR else ""
            text = f"{kind.name}: {len(kind.robots)} robots are too few to judge who stands out{far}."
            remarks.append(("warn", text))
    return remarks


def _furthest(row: Array) -> float:
    """Return the largest of a robot's distances from the others [sigma]; 0 where none is known."""
    known = row[np.isfinite(row)]
    return float(known[np.argmax(np.abs(known))]) if len(known) else 0.0


def _data(fleet: Fleet, most_points: int) -> dict[str, Plain]:
    return {
        "fleet": True,
        "robots": _robots(fleet),
        "kinds": _kinds(fleet),
        "trends": _trends(fleet, most_points),
        "outliers": [_round_fields(one) for one in fleet.outliers[:MOST_ROWS]],
        "worst": _worst(fleet),
        "failed": [
            {"robot": one.robot, "recording": one.recording[-MOST_TEXT:], "reason": one.reason[:MOST_TEXT]}
            for one in fleet.failed[:MOST_ROWS]
        ],
    }


def _robots(fleet: Fleet) -> list[Plain]:
    furthest: dict[str, float] = {}
    for kind in fleet.kinds:
        z = fleet.compared[kind.name].z
        for robot, row in zip(kind.robots, z, strict=True):
            if np.isfinite(row).any():
                furthest[robot] = _furthest(row)
    rows = sorted(fleet.robots.items(), key=lambda item: (item[1].verdict in CALM, item[0]))
    return [
        {
            "id": robot,
            "verdict": one.verdict,
            "validation": _percent(one.validation.get("all")),
            "fit": _percent(one.fit.get("all")),
            "sigmas": _round_value(furthest.get(robot)),
            "recordings": one.recordings,
            "seconds": _round_value(one.seconds),
            "kind": one.kind,
            "reason": one.reason[:MOST_TEXT],
            "report": one.report,
        }
        for robot, one in rows
    ]


def _kinds(fleet: Fleet) -> list[Plain]:
    return [
        {
            "name": kind.name,
            "robots": list(kind.robots),
            "names": [row.parameter for row in kind.parameters],
            "z": [[None if np.isnan(z) else round(float(z), 1) for z in row] for row in fleet.compared[kind.name].z],
            "table": [_round_fields(row) for row in kind.parameters],
        }
        for kind in fleet.kinds
    ]


def _trends(fleet: Fleet, most_points: int) -> list[Plain]:
    """Return the trends, robots whose friction has changed first; long ones thinned out."""
    total = sum(len(one) for one in fleet.trends.values())
    most = max(LEAST_POINTS, most_points // max(total, 1))
    rows = [(robot, trends) for robot, trends in fleet.trends.items() if any(len(one.time) > 1 for one in trends)]
    rows.sort(key=lambda item: (not any(one.left for one in item[1]), item[0]))
    return [
        {
            "id": robot,
            "changed": any(one.left is not None for one in trends),
            "joints": [_joint(one, most) for one in trends],
        }
        for robot, trends in rows
    ]


def _joint(trend: Trend, most: int) -> Plain:
    count = len(trend.time)
    shown_points = range(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(int)).tolist()
    return {
        "name": trend.joint,
        "unit": "N.m or N",
        "t": [int(trend.time[k]) for k in shown_points],
        "y": [_round_value(trend.torque[k]) for k in shown_points],
        "low": _round_value(trend.low),
        "high": _round_value(trend.high),
        "slope": _round_value(trend.slope),
        "left": trend.left,
    }


def _worst(fleet: Fleet) -> Sequence[Plain]:
    rows = sorted(
        ((row.together, robot, row) for robot, result in fleet.results.items() for row in result.rows),
        key=lambda item: (-item[0], item[1], item[2].place),
    )
    return [
        {
            "robot": robot,
            "together": _round_value(100 * together),
            "alone": _round_value(100 * row.alone),
            "recording": row.place[-MOST_TEXT:],
        }
        for together, robot, row in rows[:MOST_WORST]
    ]


def _percent(error: TorqueError | None) -> float | None:
    return None if error is None else _round_value(100 * error.relative)


def _round_fields(row: Outlier | KindRow) -> dict[str, Plain]:
    return {name: _round_value(value) if isinstance(value, float) else value for name, value in vars(row).items()}


def _round_value(value: float | None) -> float | None:
    """Return four digits, which is what a table shows."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.4g}")
