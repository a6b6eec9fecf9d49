# SPDX-License-Identifier: Apache-2.0

"""Are loads right, and their bars honest? Simulated recordings: python bench/study_payloads.py [RUNS [SECONDS [ROBOT]]]

MuJoCo moves a robot of known parameters without and with a load of 0.2 to 5 kg; friction grows with what the gears
carry, encoders round, torques are noisy. Each load is found twice: from both recordings, and from a model of the empty
robot. Printed: mass and centre beside the truth, and the share within limits and within three standard deviations.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from ros2_dynid.identification.loads.from_recordings import identify_payload, identify_payload_on_model  # noqa: E402
from ros2_dynid.identification.loads.payload_fit import (  # noqa: E402
    Payload,
    physical,
)
from ros2_dynid.identification.options import IdentifyOptions  # noqa: E402
from ros2_dynid.model.load import load_robot  # noqa: E402
from ros2_dynid.model.parameters import link_slice  # noqa: E402
from ros2_dynid.model.robot import Array  # noqa: E402
from ros2_dynid.pipeline import identify  # noqa: E402
from ros2_dynid.sim.truth import true_parameters  # noqa: E402
from study_error_bars import recorded, simulate  # noqa: E402

LIGHTEST, HEAVIEST = 0.2, 5.0
GROWTH = 0.10
"""Friction over the torque that a gear carries."""


def load(rng: np.random.Generator) -> Array:
    """Return the ten parameters of a box of random mass, size and place, shape (10,), in the last joint's frame."""
    M = LIGHTEST * (HEAVIEST / LIGHTEST) ** rng.uniform()
    size, c = rng.uniform(0.05, 0.2, 3), np.array([*rng.uniform(-0.06, 0.06, 2), rng.uniform(0.03, 0.15)])
    inertia = M / 12.0 * np.diag(size @ size - size**2)
    J = inertia + M * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(M * c), M))


def main(runs: int, seconds: float, name: str) -> None:
    """Print a line for each load, and the shares."""
    robot = load_robot(name)
    options = IdentifyOptions(checks=False)
    told: dict[str, list[tuple[bool, ...]]] = {"both": [], "model": []}
    for run in range(runs):
        rng = np.random.default_rng([run, 18])
        chi = true_parameters(robot, 1 + run)
        phi = load(rng)
        truth = physical(phi, np.eye(4))
        link = next((k for k, (number, _) in robot.tools.items() if number == robot.n), None)
        if link is not None:
            truth = physical(phi, np.linalg.inv(robot.tools[link][1]))
        carried = chi.copy()
        carried[link_slice(robot.n - 1)] += phi
        parts = []
        for k, values in enumerate((chi, carried)):
            clean = simulate(robot, values, 1000 + 2 * run + k, seconds, known=1.0, growth=GROWTH)
            parts.append(recorded(clean, rng, robot.active_names))
        found = {"both": identify_payload(robot, parts[:1], parts[1:], options=options)}
        model = identify(robot, parts[:1], options=options).model
        found["model"] = identify_payload_on_model(model, parts[1:], options=options)
        for way, payload in found.items():
            told[way].append(judged(payload, truth))
            print(f"{run:3d} {way:5s} {line(payload, truth)}", flush=True)
    for way, rows in told.items():
        mass, com, mass_bar, com_bar = 100.0 * np.mean(rows, axis=0)
        print(
            f"{way:5s} {len(rows)} loads: mass within 1 % in {mass:.0f} %, centre within 3 mm in {com:.0f} %; "
            f"three standard deviations hold the mass in {mass_bar:.0f} %, the centre in {com_bar:.0f} %"
        )


def judged(payload: Payload, truth: Array) -> tuple[bool, ...]:
    """Return whether mass and centre are within 1 % and 3 mm, and within three standard deviations."""
    mass, com = payload.mass - truth[0], payload.com - truth[1:4]
    within = bool(abs(mass) <= 0.01 * truth[0]), bool(np.linalg.norm(com) <= 3e-3)
    return (*within, bool(abs(mass) <= 3 * payload.mass_std), bool(np.all(np.abs(com) <= 3 * payload.com_std)))


def line(payload: Payload, truth: Array) -> str:
    """Return a load beside the truth."""
    mass, com = payload.mass - truth[0], payload.com - truth[1:4]
    off = f"{truth[0]:6.3f} kg  off {100 * mass / truth[0]:+6.2f} % ({mass / payload.mass_std:+5.1f} sigma)"
    centre = f"{1e3 * np.linalg.norm(com):5.2f} mm ({np.abs(com / payload.com_std).max():4.1f} sigma)"
    return f"{off}  {centre}  {' '.join(payload.contradicting)}"


if __name__ == "__main__":
    given = [kind(x) for kind, x in zip((int, float, str), sys.argv[1:], strict=False)]
    main(*(given + [40, 25.0, "demo6"][len(given) :]))
