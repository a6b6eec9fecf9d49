# SPDX-License-Identifier: Apache-2.0

"""Stage 3, Problem -> Estimation: the estimate of the data alone, and what it says about the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ros2_dynid.identification.estimators.estimator import Fit, build_estimator
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.estimate import Estimate
from ros2_dynid.identification.validation.diagnosis import diagnose, refuse_certain, refuse_contradictions
from ros2_dynid.identification.validation.estimator_advice import EstimatorAdvice, advise_estimator
from ros2_dynid.identification.validation.finding import Finding
from ros2_dynid.identification.validation.sensor_side import SensorSide, compare_sensor_sides
from ros2_dynid.progress import Progress


@dataclass(frozen=True, eq=False)
class Estimation:
    """The estimate of the data alone, and the estimator that made it, for blocks of time.

    findings: what is likely wrong with the recordings. advice: the estimator that suits them. sensor_sides: which
    torque the effort of each joint looks like.
    """

    data: Estimate
    fit: Fit
    findings: tuple[Finding, ...]
    advice: EstimatorAdvice
    sensor_sides: Mapping[str, SensorSide]


def estimate_parameters(problem: Problem, options: IdentifyOptions, report: Progress) -> Estimation:
    """Estimate the parameters by the method asked for; refuse recordings that are certainly wrong."""
    fit = build_estimator(options.method, problem, lambda done: report("estimating", 0.7 + 0.1 * done))
    data = fit(None)
    findings = check_recordings(problem, data, options.friction) if options.checks else ()
    return Estimation(data, fit, findings, advise_estimator(problem, data, fit), compare_sensor_sides(problem, data))


def check_recordings(problem: Problem, data: Estimate, friction: str) -> tuple[Finding, ...]:
    """Refuse what is certainly wrong with the recordings; return what is likely. friction: the law asked for."""
    sources = [prepared.source for prepared in problem.prepared]
    findings = diagnose(problem, friction).findings
    refuse_certain(findings, sources[0])
    refuse_contradictions(problem.information, data.value, sources)
    return findings
