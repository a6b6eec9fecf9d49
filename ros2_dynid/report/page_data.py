"""The numbers that the page draws, from an identified model and the rows it was identified from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.model_file import IdentifiedModel
from ros2_dynid.identification.torque_data import TorqueData
from ros2_dynid.model.parameters import split_name, standard_names, standard_vector
from ros2_dynid.model.pseudo_inertia import central_inertia, links_of, pseudo_inertia
from ros2_dynid.model.robot import PRISMATIC, Array, Robot

TITLES = {"fit": "fitted data", "validation": "validation data, not used in the fit"}
DIGITS = 5
"""Significant digits of what is drawn: more than a screen shows, and half the file."""
DOTS = 600
"""Points of a friction picture."""


def base_rows(model: IdentifiedModel) -> list[dict[str, Any]]:
    """Return the base parameters as the tables show them, relative deviation in percent, with the a priori value."""
    prior = model.robot.parameters
    known = any(prior.values())
    rows = []
    for k, row in enumerate(model.table()):
        percent = None if row.relative_std is None else 100 * row.relative_std
        rows.append(
            {
                **{key: getattr(row, key) for key in ("name", "value", "std", "unit", "expression")},
                "percent": percent,
                "prior": sum(c * prior.get(name, 0.0) for name, c in model.terms[k].items()) if known else None,
                "essential": None if model.essential is None else ("yes" if row.name in model.essential else "no"),
            }
        )
    return rows


def torque_sets(model: IdentifiedModel, sets: Mapping[str, TorqueData]) -> dict[str, Any]:
    """Return measured, predicted and a priori torque by data set and joint, with residual rms and histogram."""
    known = any(model.robot.parameters.values())
    found: dict[str, Any] = {}
    for name, rows in sets.items():
        joints = []
        for j, joint in enumerate(active(model.robot)):
            residual = rows.tau[:, j] - rows.predicted[:, j]
            residual = residual[np.isfinite(residual)]
            rms = float(np.sqrt(np.mean(residual**2))) if residual.size else 0.0
            edge = max(4 * rms, 1e-9)
            counts, edges = np.histogram(np.clip(residual, -edge, edge), bins=41, range=(-edge, edge))
            joints.append(
                {
                    "name": joint.name,
                    "unit": effort_unit(joint.sigma),
                    "measured": rounded(rows.tau[:, j]),
                    "predicted": rounded(rows.predicted[:, j]),
                    "prior": rounded(rows.prior[:, j]) if known else None,
                    "rms": rms,
                    "histogram": {"edges": rounded(edges), "counts": counts.tolist(), "sigma": rms or None},
                }
            )
        found[name] = {"title": TITLES.get(name, name), "t": rounded(rows.t - rows.t[0], 7), "joints": joints}
    return found


def coverage(robot: Robot, rows: TorqueData) -> list[dict[str, Any]]:
    """Return how much of each joint's range and limits the motion used; shares in percent, None without a limit."""
    found = []
    for j, joint in enumerate(active(robot)):
        limits = joint.limits
        span = limits.upper - limits.lower
        low, high = float(rows.q[:, j].min()), float(rows.q[:, j].max())
        speed, acceleration = float(np.abs(rows.dq[:, j]).max()), float(np.abs(rows.ddq[:, j]).max())
        effort = float(np.nanmax(np.abs(rows.tau[:, j]), initial=0.0))
        found.append(
            {
                "joint": joint.name,
                "from": low,
                "to": high,
                "range": share(high - low, span),
                "speed": speed,
                "speed_use": share(speed, limits.velocity),
                "acceleration": acceleration,
                "effort": effort,
                "effort_use": share(effort, limits.effort),
                "unit": "m, s, N" if joint.sigma == PRISMATIC else "rad, s, N.m",
            }
        )
    return found


def friction_pictures(model: IdentifiedModel, rows: TorqueData) -> list[dict[str, Any]]:
    """Return, by joint, the measured torque less all but its own friction over its speed, and the friction curve."""
    robot = model.robot
    names = standard_names(robot)
    value = dict(zip(names, model.chi, strict=True))
    own = [split_name(name)[0] in ("Fv", "Fc", "off") for name in names]
    rest = rows.tau - inverse_dynamics(robot, np.where(own, 0.0, model.chi), rows.q, rows.dq, rows.ddq)
    found = []
    for j, joint in zip(robot.active, active(robot), strict=True):
        k = robot.active.index(j)
        pick = np.flatnonzero(np.isfinite(rest[:, k]))
        pick = pick[:: max(1, len(pick) // DOTS)]
        top = float(np.abs(rows.dq[:, k]).max()) or 1.0
        x = np.concatenate((np.linspace(-top, -1e-9, 20), np.linspace(1e-9, top, 20)))
        y = value[f"Fv{j}"] * x + value[f"Fc{j}"] * np.sign(x) + value[f"off{j}"]
        found.append(
            {
                "name": joint.name,
                "unit": effort_unit(joint.sigma),
                "speed_unit": "m/s" if joint.sigma == PRISMATIC else "rad/s",
                "x": rounded(rows.dq[pick, k]),
                "y": rounded(rest[pick, k]),
                "curve": {"x": rounded(x), "y": rounded(y)},
            }
        )
    return found


def active(robot: Robot) -> list[Any]:
    """Return the active joints in the order of the columns."""
    return [robot.joints[j - 1] for j in robot.active]


def effort_unit(sigma: int) -> str:
    """Return the unit of a joint's effort."""
    return "N" if sigma == PRISMATIC else "N.m"


def share(part: float, whole: float) -> float | None:
    """Return part of whole in percent, None where the whole is not known."""
    return 100 * part / whole if np.isfinite(whole) and whole > 0 else None


def rounded(values: Array, digits: int = DIGITS) -> list[float | None]:
    """Return values for JSON with few digits; None where a value is not finite."""
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def consistency_rows(model: IdentifiedModel) -> list[dict[str, Any]]:
    """Return, link by link and for each set of standard parameters there is, whether a body can have them."""
    found = []
    sets = {"identified": model.standard, "made consistent": model.consistent, "a priori": model.robot.parameters}
    for title, values in sets.items():
        if not values:
            continue
        chi = standard_vector(model.robot, values)
        for joint, parameters in zip(model.robot.joints, links_of(model.robot, chi), strict=True):
            central = central_inertia(parameters)
            smallest_pseudo = float(np.linalg.eigvalsh(pseudo_inertia(parameters))[0])
            found.append(
                {
                    "link": joint.name,
                    "set": title,
                    "mass": float(parameters[9]),
                    "smallest": None if central is None else float(np.linalg.eigvalsh(central)[0]),
                    "pseudo": smallest_pseudo,
                    "verdict": "yes" if smallest_pseudo > 0 else "no",
                }
            )
    return found
