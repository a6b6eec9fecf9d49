"""Friction laws that are served: do they brake from standstill to the speed limit, and what does that cost?

    python bench/study_dissipation.py --data ../shared/data [--plants N] [NAME ...]

For each set of bench/real_robots.py, and for random plants whose friction is of many kinds: fit and held-out error, the
time, each joint's law, the least F(v) sign(v) over speeds up to the limit and loads up to the largest recorded, as a
share of the joint's friction at the fastest recorded speed, and how much of that friction terms of the wrong sign undo.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from real_robots import held_out_errors, sets

from ros2_dynid.dynamics.friction_terms import term_column
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.friction_kinds import FrictionTerm
from ros2_dynid.model.parameters import JOINT, Fc, Fv
from ros2_dynid.model.robot import Array
from ros2_dynid.pipeline import Identified, identify

SPEEDS = np.unique(np.concatenate((np.geomspace(1e-5, 1.0, 400), np.linspace(0.0, 1.0, 401)[1:])))


def law_terms(found: Identified, k: int) -> list[tuple[str, float, FrictionTerm | None]]:
    """Return the terms of active joint k: name, coefficient and term, None for Fv and Fc."""
    robot, chi = found.model.robot, found.model.chi
    joint = robot.active[k]
    own = JOINT * (joint - 1)
    plain = [(f"Fv{joint}", float(chi[own + Fv]), None), (f"Fc{joint}", float(chi[own + Fc]), None)]
    return plain + [(t.name, t.coefficient, t) for t in robot.friction if t.joint == joint]


def parts(found: Identified, k: int, v: Array, load: float) -> Array:
    """Return the torque of each term against the motion, shape (terms, N), at signed speeds v."""
    out = []
    for name, c, term in law_terms(found, k):
        if term is None:
            out.append(c * (np.abs(v) if name.startswith("Fv") else np.ones_like(v)))
        else:
            out.append(c * term_column(term, v, np.sign(v), np.full_like(v, load)) * np.sign(v))
    return np.array(out)


def judge(found: Identified, k: int) -> str:
    """Return the law of joint k and how it behaves, in one line."""
    robot = found.model.robot
    data = found.torques["fit"]
    top = float(np.max(np.abs(data.dq[:, k])))
    limit = robot.joints[robot.active[k] - 1].limits.velocity
    limit = limit if np.isfinite(limit) and limit > 0.0 else 2.0 * top
    load = float(np.max(np.abs(data.tau[:, k])))
    v = np.concatenate((SPEEDS, -SPEEDS)) * limit
    worst, undone = np.inf, 0.0
    for one in (0.0, load):
        each = parts(found, k, v, one)
        at_top = max(float(parts(found, k, np.array([top]), one).sum()), 1e-12)
        worst = min(worst, float(each.sum(axis=0).min() / at_top))
        within = np.abs(v) <= top
        undone = max(undone, float(-each[:, within].clip(max=0.0).sum(axis=0).min() / at_top))
    text = " ".join(f"{name}={c:.4g}" for name, c, _ in law_terms(found, k))
    growth = float(parts(found, k, np.array([limit]), 0.0).sum() / max(parts(found, k, np.array([top]), 0.0).sum(), 1e-9))
    return (
        f"      {robot.active_names[k]:22s} top {top:6.3f} limit {limit:6.3f} min {worst:7.3f} undone {undone:6.2f} "
        f"growth {growth:5.2f} (speed {limit / top:4.2f}) {text}"
    )


def main() -> None:
    """Print the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="sets to try (default: all)")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--friction", default="auto")
    parser.add_argument("--consistent", action="store_true")
    args = parser.parse_args()
    for one in sets(args.data):
        if args.names and one.name not in args.names:
            continue
        with tempfile.TemporaryDirectory() as place:
            began = time.process_time()
            options = IdentifyOptions(friction=args.friction, consistent=args.consistent)
            found = identify(one.robot, one.fitted, options=options, output=place)
            spent = time.process_time() - began
            held_out = held_out_errors(Path(place), one.robot, one.held_out)
        print(
            f"{one.name}: serve {found.model.serve}, fit {100 * found.outcome.fit['all'].relative:.2f} %, "
            f"cross {100 * found.outcome.validation['all'].relative:.2f} %, held out {100 * held_out.all:.2f} %, "
            f"{spent:.2f} s; joints {' '.join(f'{100 * e:.1f}' for e in held_out.joints)}"
        )
        for k in range(len(one.robot.active)):
            print(judge(found, k), flush=True)


if __name__ == "__main__":
    main()
