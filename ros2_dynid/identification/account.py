"""What the outcome and the model file say about an estimate: laws tried, elimination, prior, delay, provenance."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial

import numpy as np

from ros2_dynid.codec import Plain, encode
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import Option, Text
from ros2_dynid.identification.estimators import Estimate, Problem
from ros2_dynid.identification.estimators.friction_selection import Trial
from ros2_dynid.identification.estimators.least_squares import weighted_triangle
from ros2_dynid.identification.estimators.prior import Drawn
from ros2_dynid.identification.estimators.two_sensors import drive_values, second_errors
from ros2_dynid.identification.model_file import TorqueError
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.outcome import (
    Delay,
    Elimination,
    EliminationStep,
    FrictionRow,
    FrictionTrial,
    PriorUse,
    SecondSensor,
    SensorRow,
)
from ros2_dynid.identification.physical import Essential
from ros2_dynid.identification.physical.essential import largest_rows, share_of_largest
from ros2_dynid.identification.preparation import Prepared
from ros2_dynid.identification.preparation.elsewhere import over
from ros2_dynid.identification.preparation.rows import row_chunks
from ros2_dynid.identification.torque_data import TorqueData
from ros2_dynid.identification.validation import (
    HeldOut,
    Level,
    Remark,
)
from ros2_dynid.identification.validation.sensor_side import SensorSide, found_sensors
from ros2_dynid.model.effort_sensors import sensor_name
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import DRIVE, Array, Robot
from ros2_dynid.version import __version__

COVERED = 0.9
"""Share of held-out rows inside the 95 % band of the torque below which the error bars do not hold."""


def friction_rows(robot: Robot) -> tuple[FrictionRow, ...]:
    """Return the friction terms of the identified robot, with units and error bars."""
    return tuple(
        FrictionRow(
            name=term.name,
            joint=robot.joints[term.joint - 1].name,
            term=str(term.kind),
            value=term.coefficient,
            std=term.std,
            unit=term.kind.units[robot.joints[term.joint - 1].sigma],
            speed=term.speed or None,
            speed_std=term.speed_std,
            exponent=term.exponent or None,
            exponent_std=term.exponent_std,
            reference=term.reference if term.kind.thermal else None,
        )
        for term in robot.friction
    )


def friction_trials(robot: Robot, tried: Sequence[Trial]) -> tuple[FrictionTrial, ...]:
    """Return the laws that were tried, joint by joint."""
    return tuple(
        FrictionTrial(
            name="+".join(term.name for term in trial.terms),
            joint=robot.joints[trial.joint - 1].name,
            term="+".join(str(term.kind) for term in trial.terms),
            gain=trial.gain,
            scatter=trial.scatter,
            chosen=trial.chosen,
            speed=max(term.speed for term in trial.terms) or None,
        )
        for trial in tried
    )


def prior_use(problem: Problem, drawn: Drawn) -> PriorUse:
    """Return where the prior came from, its weight, and how much of each base parameter it made."""
    shares = drawn.share[problem.information.layout.base]
    return PriorUse(
        source=drawn.prior.source,
        weight=drawn.weighing.weight,
        gain=drawn.weighing.gain,
        scatter=drawn.weighing.scatter,
        share=drawn.base_share,
        parameters=dict(zip(problem.base.names, shares.tolist(), strict=True)),
    )


def prior_remarks(prior: PriorUse | None) -> list[Remark]:
    """Say how much of the model is not the data's."""
    if prior is None or prior.weight == 0.0:
        return []
    most = [name for name, share in prior.parameters.items() if share > 0.5]
    text = (
        f"{100 * prior.share:.0f} % of what is said about the base parameters comes from {prior.source}, which lowers "
        f"the held-out error by {100 * prior.gain:.0f} +- {100 * prior.scatter:.0f} %; mostly from there: "
        f"{', '.join(most) or 'none'}"
    )
    return [Remark(Level.NOTE, text)]


def sensor_rows(robot: Robot, sides: Mapping[str, SensorSide]) -> dict[str, SensorRow]:
    """Return which torque the effort of each joint is, as it was used and as it was found."""
    rows, found = {}, found_sensors(sides)
    for j, name in zip(robot.active, robot.active_names, strict=True):
        used, side = sensor_name(robot.joints[j - 1].felt), sides.get(name)
        if side is None:
            rows[name] = SensorRow(used)
            continue
        share = side.share if np.isfinite(side.share) else None
        rows[name] = SensorRow(used, sensor_name(found.get(name, DRIVE)), side.clear, share)
    return rows


def second_sensors(problem: Problem) -> dict[str, SecondSensor]:
    """Return what the second efforts were, by joint; empty without them."""
    two = problem.second
    if two is None:
        return {}
    found, rows = two.estimate(), {}
    bias = found.layout.sensor.stop - len(two.joints)
    for k, (joint, (error, torque, count)) in enumerate(zip(two.joints, second_errors(two, found), strict=True)):
        drive = drive_values(two, found, joint)
        std = float(found.std[bias + k])
        rows[problem.robot.active_names[joint]] = SecondSensor(
            sensor=sensor_name(two.robot.joints[two.robot.active[joint] - 1].felt),
            fit=TorqueError(error / max(count, 1) ** 0.5, error / max(torque, 1e-300)),
            bias=float(found.value[bias + k]),
            bias_std=std if np.isfinite(std) else None,
            drive={part: value for part, (value, _) in drive.items()},
            drive_std={part: spread for part, (_, spread) in drive.items()},
        )
    return rows


def sensor_remarks(sides: Mapping[str, SensorSide]) -> list[Remark]:
    """Say so where efforts that count as the motors' look like those of torque sensors at the links."""
    found = {name: sensor_name(felt) for name, felt in found_sensors(sides).items()}
    if not found:
        return []
    alike = len(found) == len(sides) and len(set(found.values())) == 1
    named = next(iter(found.values())) if alike else ",".join(f"{name}={sensor}" for name, sensor in found.items())
    who = "the efforts" if len(found) == len(sides) else f"the efforts of {', '.join(found)}"
    text = f"{who} look like those of torque sensors at the links: held-out data need no viscous friction and no rotor"
    hint = Text(text, " inertia there; if that is so, declare it: ", Option("sensor", named))
    return [Remark(Level.NOTE, hint)]


def coverage_remarks(coverage: Mapping[str, float]) -> list[Remark]:
    """Say whether the 95 % band of the prediction holds on data that were not used."""
    if "all" not in coverage:
        return []
    share = coverage["all"]
    text = f"the 95 % band of the torque holds {100 * share:.0f} % of the held-out rows"
    if share >= COVERED:
        return [Remark(Level.GOOD, text)]
    low = [name for name, one in coverage.items() if one < COVERED and name != "all"]
    text += f", too few at {', '.join(low)}: the error bars do not hold there; record longer, and more varied motion"
    return [Remark(Level.WARNING, text)]


def speeds_and_loads(robot: Robot, problem: Problem, value: Array, data: TorqueData) -> dict[str, Plain]:
    """Return, by joint, the top speed [rad/s or m/s] and the mean torque that its gear carried [N.m or N]."""
    chi = np.zeros(len(standard_names(robot)))
    chi[problem.base.columns(robot)] = value[problem.information.layout.base]
    load = np.mean(np.abs(inverse_dynamics(*frictionless(robot, chi), data.q, data.dq, data.ddq)), axis=0)
    top = np.max(np.abs(data.dq), axis=0)
    pairs = zip(robot.active_names, top.tolist(), load.tolist(), strict=True)
    return {name: {"speed": speed, "load": carried} for name, speed, carried in pairs}


def elimination_of(problem: Problem, selection: Essential) -> Elimination:
    """Return the steps of the elimination, and the largest share of a joint's torque that each parameter makes."""
    names, found = problem.base.names, selection.estimate
    columns, delay = problem.base.columns(problem.robot), bool(problem.information.layout.n_delay)
    largest = over(partial(_largest_rows, problem.robot, columns, delay, problem.terms), problem.prepared)
    W, tau = (np.max(part, axis=0) for part in zip(*(one for one in largest if one is not None), strict=True))
    share = share_of_largest(W, tau, found.value)
    steps = tuple(
        EliminationStep(
            parameter=names[step.parameter],
            relative_std=step.relative_std if np.isfinite(step.relative_std) else None,
            statistic=step.statistic,
            limit=step.limit,
            dropped=step.dropped,
            growth=step.growth,
            allowed=step.allowed,
        )
        for step in selection.steps
    )
    return Elimination(steps, dict(zip(names, share[found.layout.base].tolist(), strict=True)))


def _largest_rows(
    robot: Robot,
    columns: Sequence[int],
    delay: bool,
    terms: Sequence[FrictionTerm],
    whole: Prepared,
    parts: Iterable[Prepared],
) -> tuple[Array, Array] | None:
    return largest_rows(rows for part in parts for rows in row_chunks(robot, part, columns, delay=delay, terms=terms))


def provenance(
    options: IdentifyOptions,
    problem: Problem,
    found: Estimate,
    validation: HeldOut,
    remarks: Sequence[Remark],
    command: str,
) -> dict[str, Plain]:
    """Return how the model was obtained, for the model file."""
    prepared = problem.prepared
    return {
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "method": found.method.value,
        "options": encode(options),
        "data": [
            {"source": p.source, "seconds": float(p.t[-1] - p.t[0]), "rate": p.filter.rate, "segments": len(p.segments)}
            for p in prepared
        ],
        "filter": encode(prepared[0].filter),
        "rows": int(problem.information.rows.sum()),
        "cond": encode(found.cond),
        "singular_values": _singular_values(problem, found),
        "rank": found.rank,
        "sigma": encode(found.sigma),
        "delay": encode(delay_of(problem, found)),
        "validated_by": {
            "data": validation.by.value,
            "folds": validation.folds,
            "left_out": validation.left_out.value,
        },
        "verdict": [encode(remark) for remark in remarks],
        "notes": list(notes_of(problem)),
        "versions": {"ros2_dynid": __version__, "numpy": np.__version__, "python": platform.python_version()},
        **({"command": command} if command else {}),
    }


def delay_of(problem: Problem, found: Estimate) -> Delay:
    """Return how late the effort was in all: what it was moved by, and what was estimated of the rest."""
    estimated = bool(found.layout.n_delay) and np.isfinite(found.delay_std)
    return Delay(problem.prepared[0].filter.delay + found.delay, found.delay_std if estimated else None)


def notes_of(problem: Problem) -> tuple[str, ...]:
    """Return what was done to the recordings."""
    return tuple(note.text for prepared in problem.prepared for note in prepared.notes)


def _singular_values(problem: Problem, found: Estimate) -> list[float]:
    """Return the singular values of the weighted W with columns scaled to unit norm; the effort's delay is left out."""
    known = found.sigma.shape == (problem.information.n,) and bool(np.all(found.sigma > 0.0))
    weights = 1.0 / found.sigma if known else np.ones(problem.information.n)
    W = weighted_triangle(problem.information, weights).base
    norms = np.linalg.norm(W, axis=0)
    return [float(s) for s in np.linalg.svd(W / np.where(norms > 0.0, norms, 1.0), compute_uv=False)]
