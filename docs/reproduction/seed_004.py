"""A. Izaguirre et al., A new computational structure for real-time dynamics (1992): its tables beside ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy import cos, sin
from paper_tables import Paper, arguments

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.codegen.program import Options, chosen_parameters, program_of
from ros2_dynid.dynamics.inertia import gravity_torque, inertia_matrix
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.physical.essential import significance
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.preparation.rows import row_chunks
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot

TABLE_2 = {  # the paper's names, ours in modified DH, and the averages over ten trajectories
    "ia1": ("Ia1", 0.091631), "ia2": ("Ia2", 0.136312), "ia3": ("Ia3", 0.030843), "ia4": ("Ia4", 0.001781),
    "ia5": ("Ia5", 0.006759), "ia6": ("Ia6", 0.001262), "m6": ("M6", 2.768114), "z6": ("MZ6", 0.014041),
    "y4": ("MZ4", -0.382190), "a4": ("XX4", 0.079781), "c4": ("YY4", 0.077761),
    "fs1": ("Fc1", 0.787033), "fs2": ("Fc2", 1.389280), "fs3": ("Fc3", 0.650706), "fs4": ("Fc4", 0.256854),
    "fs5": ("Fc5", 0.036607), "fs6": ("Fc6", 0.106594), "ds1": ("Fv1", 0.575662), "ds2": ("Fv2", 0.944670),
    "ds3": ("Fv3", 0.417502), "ds4": ("Fv4", 0.066791), "ds5": ("Fv5", 0.101721), "ds6": ("Fv6", 0.030363),
}  # fmt: skip
ORDER = ["rotor", "6", "5", "4", "3", "2", "1"]
"""The paper keeps the rotors first, then the parameters of the last links."""
COUNTS = {  # function, with an arbitrary load: multiplications and additions of the paper
    ("inertia_gravity", False): (98, 70),
    ("velocity_torques", False): (140, 110),
    ("inertia_gravity", True): (190, 150),
    ("velocity_torques", True): (200, 170),
}
TASKS = {"inertia_gravity": "inertia and gravity coefficients", "velocity_torques": "velocity torques"}
A2, D4 = 0.2032, 0.2032
"""Lengths of Appendix A [m]."""


def printed_parameters(robot: Robot) -> Array:
    """Return chi, shape (n_standard,), with the values of Table 2 and zeros elsewhere."""
    return standard_vector(robot, dict(TABLE_2.values()))


def independent(paper: Paper) -> None:
    """78 parameters, 52 independent ones."""
    robot = load_robot("puma260")
    base = base_parameters(robot, groups=("inertial", "rotor", "friction"), order=ORDER)
    rotors = sum(name.startswith("Ia") for name in base.names)
    friction = sum(name.startswith("F") for name in base.names)
    absorbing = [name for name in base.names if name.startswith("IaR")]
    rows = [
        ("standard parameters", 78, len(base.standard_names)),
        ("linearly independent", 52, len(base)),
        ("of these rotor inertias", 6, rotors),
        ("of these friction parameters", 12, friction),
        ("of these moments of links", 34, len(base) - rotors - friction),
        ("rotor inertias on which others depend", 2, len(absorbing)),
    ]
    paper.heading("Section 6.1: linearly independent parameters of the PUMA 260")
    paper.table(
        ("", "paper", "ours", "agrees"),
        [(*row, paper.check(row[1] == row[2], f"Section 6.1, {row[0]}")) for row in rows],
    )


def appendix(paper: Paper) -> None:
    """The coefficients that the printed program of Appendix A computes, in closed form, against ours."""
    robot = load_robot("puma260")
    chi = printed_parameters(robot)
    rng = np.random.default_rng(0)
    q = rng.uniform(-3.0, 3.0, (200, 6))
    M, Q = inertia_matrix(robot, chi, q), gravity_torque(robot, chi, q)
    p = {name: value for name, (_, value) in TABLE_2.items()}
    s4, c4, s5, c5 = sin(q[:, 3]), cos(q[:, 3]), sin(q[:, 4]), cos(q[:, 4])
    along = p["y4"] + c5 * p["z6"] + D4 * p["m6"]  # first moment of link 4 and beyond about joint 3, along link 3
    outside = s4**2 * p["a4"] + c4**2 * p["c4"] - p["m6"] * D4**2
    flat = p["z6"] * s5 * c4
    s23, c23, c2 = sin(q[:, 1] + q[:, 2]), cos(q[:, 1] + q[:, 2]), cos(q[:, 1])
    closed = {
        "D33": (M[:, 2, 2], outside + 2 * D4 * along + p["ia3"], "kg.m^2"),
        "D34": (M[:, 2, 3], -D4 * s4 * s5 * p["z6"], "kg.m^2"),
        "D35": (M[:, 2, 4], D4 * c4 * c5 * p["z6"], "kg.m^2"),
        "D44": (M[:, 3, 3], p["ia4"] + 0 * s4, "kg.m^2"),
        "D45": (M[:, 3, 4], 0 * s4, "kg.m^2"),
        "D55": (M[:, 4, 4], p["ia5"] + 0 * s4, "kg.m^2"),
        "D66": (M[:, 5, 5], p["ia6"] + 0 * s4, "kg.m^2"),
        "D1": (Q[:, 0], 0 * s4, "N.m"),
        "D2": (Q[:, 1], 9.81 * (c2 * A2 * p["m6"] - s23 * along - c23 * flat), "N.m"),
        "D3": (Q[:, 2], 9.81 * (-s23 * along - c23 * flat), "N.m"),
        "D4": (Q[:, 3], 9.81 * s23 * s4 * s5 * p["z6"], "N.m"),
        "D5": (Q[:, 4], 9.81 * p["z6"] * (-c5 * s23 * c4 - s5 * c23), "N.m"),
        "D6": (Q[:, 5], 0 * s4, "N.m"),
    }
    paper.heading("Appendix A: what the printed program computes")
    paper.say(
        "The inertial coefficients D_ij and gravitational coefficients D_i that the program's statements reduce to, "
        "with Table 2's values, and ours at 200 random positions: largest difference and largest value. Gravity points "
        "along -z of the base, as the program has it."
    )
    rows = []
    for name, (ours, theirs, unit) in closed.items():
        difference, size = float(np.abs(ours - theirs).max()), float(np.abs(theirs).max())
        rows.append(
            (name, f"{size:.3g}", f"{difference:.0e}", unit, paper.check(difference < 1e-12, f"Appendix A, {name}"))
        )
    paper.table(("coefficient", "largest", "difference", "unit", "agrees"), rows)
    paper.say(
        "Section 7.1 quotes three gravity coefficients: c12 = 5.51792, c13 = -1.176644, c15 = -0.13743 N.m. With "
        "Table 2 "
        f"g a2 m6 = {9.81 * A2 * p['m6']:.5f} N.m and g z6 = {9.81 * p['z6']:.5f} N.m agree in size with the first and "
        f"the last; g (y4 + d4 m6) = {9.81 * (p['y4'] + D4 * p['m6']):.5f} N.m does not agree with the second, which "
        "seems misprinted (1.17 for 1.77)."
    )


def operations(paper: Paper) -> None:
    """The operation counts of the generated code."""
    robot = load_robot("puma260")
    significant = [name for name, _ in TABLE_2.values() if not re.match(r"F[vc]\d", name)]
    paper.heading("Operation counts of the generated code, 11 significant inertial parameters")
    rows = []
    for (function, load), printed in COUNTS.items():
        ours = counted(robot, significant, function, load)
        agrees = paper.check(ours[0] <= printed[0] and ours[1] <= printed[1], f"count of {function}, load {load}")
        rows.append((TASKS[function], "yes" if load else "no", *printed, *ours, agrees))
    ours = counted(robot, significant, "synchronous", False)
    rows.append(("synchronous task", "no", 36, 36, *ours, paper.check(ours[0] <= 36 and ours[1] <= 36, "synchronous")))
    head = ("function", "load", "multiplications, paper", "additions, paper", "ours", "ours", "not more")
    paper.table(head, rows)


def counted(robot: Robot, only: Sequence[str], function: str, load: bool) -> tuple[int, int]:
    """Return multiplications and additions of a generated function."""
    parameters, values = chosen_parameters(robot, only)
    program = program_of(robot, parameters, values, Options(load=load), functions=(function,))
    count = program.functions[function].count
    return count.multiplications, count.additions


def significant(paper: Paper) -> None:
    """Tables 1 and 2: ten trajectories, the fit of all parameters, and the significant ones. Not the authors' data."""
    robot = load_robot("puma260")
    chi = printed_parameters(robot)
    groups = ("inertial", "rotor", "friction")
    base = base_parameters(robot, groups=groups, order=ORDER, method="closed-form")
    columns = base.columns(robot)
    rng = np.random.default_rng(4)
    runs = []
    for _ in range(10):
        q, dq, ddq = fast_motion(robot, rng)
        tau = inverse_dynamics(robot, chi, q, dq, ddq)
        tau = tau + 0.02 * np.abs(tau).max(axis=0) * rng.standard_normal(tau.shape)
        runs.append(as_prepared(robot, q, dq, ddq, tau, 0.028 * np.arange(len(q))))
    found = [wls(inform(robot, base, [run])).value for run in runs]
    average, spread = np.mean(found, axis=0), np.std(found, axis=0)
    share = significance((rows for run in runs for rows in row_chunks(robot, run, columns, delay=True)), average)
    kept = [k for k in range(len(base)) if share[k] >= 0.01]
    W = np.concatenate([regressor(robot, run.q, run.dq, run.ddq).reshape(-1, 84) for run in runs])[:, columns]
    paper.heading("Tables 1 and 2: significant parameters (not the authors' recordings)")
    paper.say(
        "The recordings are not published. Here the robot is simulated with Table 2's values: ten random trajectories "
        "sampled every 28 ms, each fitted on its own with all independent parameters, torques with 2 % noise. A "
        "parameter counts as significant if it makes at least 1 % of a joint's largest torque, as in the paper."
    )
    paper.table(
        ("", "paper", "ours (simulated)"),
        [
            ("independent parameters", 52, len(base)),
            ("significant parameters", 23, len(kept)),
            ("condition number, all parameters", f"{828.8 / 0.033:.0f}", f"{np.linalg.cond(W):.0f}"),
            ("condition number, significant ones", f"{146.0 / 0.35:.0f}", f"{np.linalg.cond(W[:, kept]):.0f}"),
        ],
    )
    order = {leader: k for k, leader in enumerate(base.leaders)}
    rows = []
    for name, (ours, value) in TABLE_2.items():
        k = order[ours]
        paper.check(share[k] >= 0.01, f"significance of {ours}")
        rows.append(
            (f"{name} = `{ours}`", f"{value:.4f}", f"{average[k]:.4f}", f"{spread[k]:.4f}", f"{100 * share[k]:.1f} %")
        )
    head = (
        "parameter",
        "Table 2, truth of the simulation",
        "average of ten fits",
        "standard deviation",
        "of the torque",
    )
    paper.table(head, rows)


def fast_motion(robot: Robot, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Return q, dq, ddq, shape (N, 6), of a random motion as fast as the limits allow, 28 ms a sample."""
    limits = [joint.limits for joint in robot.joints]
    velocity, acceleration = (np.array([getattr(x, name) for x in limits]) for name in ("velocity", "acceleration"))
    t = 0.028 * np.arange(400)
    w, phase = rng.uniform(0.6, 4.0, (4, 6)), rng.uniform(0.0, 6.28, (4, 6))
    x = t[:, None, None] * w + phase
    a = rng.uniform(0.5, 1.0, (4, 6)) / w
    q, dq, ddq = (a * sin(x)).sum(1), (a * w * cos(x)).sum(1), -(a * w**2 * sin(x)).sum(1)
    scale = np.minimum(velocity / np.abs(dq).max(0), acceleration / np.abs(ddq).max(0))
    return q * scale, dq * scale, ddq * scale


def main() -> None:
    """Print the tables."""
    args = arguments(str(__doc__)).parse_args()
    paper = Paper(__file__)
    independent(paper)
    appendix(paper)
    operations(paper)
    significant(paper)
    paper.say(
        "Figures 6 to 9, open-loop tests on the robot: `dynid demo` repeats them on its simulated arm, slow and fast, "
        "with and without gravity compensation at the measured position."
    )
    paper.finish(args)


if __name__ == "__main__":
    main()
