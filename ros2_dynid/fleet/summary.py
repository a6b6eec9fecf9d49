# SPDX-License-Identifier: Apache-2.0

"""The fleet in figures: a verdict for each robot, those that stand out, trends, and what could not be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.codec import finite_or_none
from ros2_dynid.fleet.kinds import Kind, Own, compare_kind
from ros2_dynid.fleet.reduce_robot import RobotResult
from ros2_dynid.fleet.trends import Trend, trends
from ros2_dynid.identification.model_file import TorqueError


@dataclass(frozen=True)
class Outlier:
    """A robot that stands out from its kind in a parameter: its value, the others' mean and spread, and sigmas."""

    robot: str
    parameter: str
    value: float
    mean: float
    spread: float
    sigmas: float
    unit: str


@dataclass(frozen=True)
class FailedRecording:
    """A recording, or a name that nothing has, that could not be used, and why, in one line."""

    robot: str
    recording: str
    reason: str


@dataclass(frozen=True)
class KindRow:
    """A parameter of a kind of robots: mean, its std, and spread between robots; robots: how many show it."""

    parameter: str
    unit: str
    mean: float | None
    std: float | None
    spread: float | None
    robots: int


@dataclass(frozen=True)
class KindSummary:
    """A kind of robots: which, and what they share."""

    name: str
    robots: tuple[str, ...]
    parameters: tuple[KindRow, ...]


@dataclass(frozen=True)
class Left:
    """A joint whose friction left its band, when (UTC), and its change a day as a share of the first friction."""

    joint: str
    date: str
    change_per_day: float | None


@dataclass(frozen=True)
class RobotSummary:
    """A robot of the fleet.

    model, report: files, relative to the fleet's folder, empty if there is no model; verdict: good, note, warning,
    stands out, changed, refused or no data; validation: torque errors on data not used, by joint and for all; shrunk:
    its parameters drawn to those of its kind by its own information; left: joints whose friction has changed.
    """

    kind: str
    verdict: str
    reason: str
    model: str
    report: str
    recordings: int
    seconds: float
    fit: Mapping[str, TorqueError] = field(default_factory=dict)
    validation: Mapping[str, TorqueError] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    shrunk: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fleet:
    """All robots together, as reduced: results by robot, kinds with their comparison, trends by robot."""

    robots: Mapping[str, RobotSummary]
    outliers: tuple[Outlier, ...]
    failed: tuple[FailedRecording, ...]
    kinds: tuple[KindSummary, ...]
    compared: Mapping[str, Kind]
    trends: Mapping[str, Sequence[Trend]]
    results: Mapping[str, RobotResult]


def summarise(
    kinds: Mapping[str, Sequence[str]],
    results: Mapping[str, RobotResult],
    failed: Sequence[FailedRecording],
    folders: Mapping[str, tuple[str, str]],
) -> Fleet:
    """Return the fleet. kinds: robots by kind, all of them; results: of those that have any; folders: model, report."""
    outliers: list[Outlier] = []
    summaries: list[KindSummary] = []
    compared: dict[str, Kind] = {}
    shrunk: dict[str, dict[str, float]] = {}
    for name, members in kinds.items():
        present = [results[one] for one in members if one in results and results[one].identified.any()]
        if not present:
            continue
        comparison = compare_kind([Own(one.value, one.covariance, one.identified) for one in present])
        compared[name] = comparison
        summaries.append(_kind(name, present, comparison))
        outliers += _outliers(present, comparison)
        for i, one in enumerate(present):
            pairs = zip(one.names, comparison.shrunk[i].tolist(), strict=True)
            shrunk[one.id] = {parameter: value for parameter, value in pairs if np.isfinite(value)}
    over_time = {
        one.id: trends(one.joints, [row.time for row in one.rows], [row.friction for row in one.rows])
        for one in results.values()
    }
    robots = {
        robot: _robot(robot, kind, results.get(robot), outliers, over_time.get(robot, ()), folders, shrunk, failed)
        for kind, members in kinds.items()
        for robot in members
    }
    outliers_by_size = tuple(sorted(outliers, key=lambda one: (-abs(one.sigmas), one.robot, one.parameter)))
    return Fleet(robots, outliers_by_size, tuple(failed), tuple(summaries), compared, over_time, results)


def _kind(name: str, present: Sequence[RobotResult], comparison: Kind) -> KindSummary:
    first, counts = present[0], np.sum([one.identified for one in present], axis=0)
    figures = (map(finite_or_none, column) for column in (comparison.mean, comparison.mean_std, comparison.spread))
    rows = zip(first.names, first.units, *figures, counts.tolist(), strict=True)
    return KindSummary(name, tuple(one.id for one in present), tuple(KindRow(*row) for row in rows))


def _outliers(present: Sequence[RobotResult], comparison: Kind) -> list[Outlier]:
    rows = []
    for i, k in zip(*np.nonzero(comparison.stands_out), strict=True):
        one = present[int(i)]
        rows.append(
            Outlier(
                one.id,
                one.names[int(k)],
                float(one.value[k]),
                float(comparison.mean[k]),
                float(comparison.spread[k]),
                float(comparison.z[i, k]),
                one.units[int(k)],
            )
        )
    return rows


def _robot(
    robot: str,
    kind: str,
    result: RobotResult | None,
    outliers: Sequence[Outlier],
    over_time: Sequence[Trend],
    folders: Mapping[str, tuple[str, str]],
    shrunk: Mapping[str, Mapping[str, float]],
    failed: Sequence[FailedRecording],
) -> RobotSummary:
    if result is None:
        count = sum(one.robot == robot for one in failed)
        reason = f"none of its recordings can be used ({count} failed)" if count else "it has no recordings"
        return RobotSummary(kind, "no data", reason, "", "", 0, 0.0)
    own = sorted((one for one in outliers if one.robot == robot), key=lambda one: -abs(one.sigmas))
    left = tuple(Left(trend.joint, _date(trend.left), trend.slope) for trend in over_time if trend.left is not None)
    verdict, reason = _verdict(result, own, left)
    model, report = folders.get(robot, ("", ""))
    return RobotSummary(
        kind,
        verdict,
        reason,
        model,
        report,
        len(result.rows),
        sum(row.seconds for row in result.rows),
        result.fit,
        result.validation,
        result.verdict,
        left,
        shrunk.get(robot, {}),
    )


def _verdict(result: RobotResult, own: Sequence[Outlier], left: Sequence[Left]) -> tuple[str, str]:
    """Return the verdict and its reason: the most serious first."""
    parts = []
    if own:
        shown_outliers = ", ".join(f"{one.parameter} ({one.sigmas:+.1f} sigma)" for one in own[:4])
        parts.append(f"stands out in {shown_outliers}" + (f" and {len(own) - 4} more" if len(own) > 4 else ""))
    if left:
        parts.append("; ".join(f"the friction of {one.joint} left its band on {one.date}" for one in left[:4]))
    if result.problem:
        parts.append(result.problem)
    verdict = "stands out" if own else "refused" if result.problem else "changed" if left else result.level
    return verdict, "; ".join(parts) or next(iter(result.verdict), "")


def _date(seconds: float | None) -> str:
    return "" if seconds is None else str(np.datetime64(int(seconds), "s").astype("datetime64[D]"))
