"""M. Gautier, G. Venture, Identification of standard dynamic parameters of robots with positive definite inertia matrix
(2013): its tables beside ours.

    ./dynid python docs/reproduction/seed_002.py                  with a simulated recording
    ./dynid python docs/reproduction/seed_002.py FOLDER           with a real one: FOLDER/tx40_traj.npz, tx40.urdf

tx40_traj.npz: arrays t (N,) [s], q and tau (N, 6) [rad, N.m] of a TX-40 on the joint side. Its q is 0 where the motors
of joints 2 and 3 are a quarter turn from theirs, as in the recording of figaroh-plus (examples/staubli_TX40).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from paper_tables import Paper, arguments

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.physical.consistency import TOLERANCES, consistent_links
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Coupling, Robot
from ros2_dynid.pipeline import IdentifyOptions, identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples

TABLE_II = """
ZZ1 0.0392 1.24 0.315; Ia1 0.362 0.362 0.362; Fv1 7.96 7.96 7.93; Fc1 6.79 6.81 6.86; off1 0 0.314 0.314;
XX2 0.0163 -0.471 0.0271; XY2 0.000785 0.0103 0.00619; XZ2 -0.0157 -0.149 -0.0405; YY2 0.0881 0.0881 0.0881;
YZ2 0.000324 0.00556 0.000324; ZZ2 0.0828 1.08 0.131; MX2 0.392 2.14 0.0959; MY2 -0.0072 0.105 0.0679;
MZ2 0.162 0.162 0.162; Ia2 0.507 0.507 0.507; Fv2 5.92 5.93 5.92; Fc2 7.38 7.47 7.42; off2 0 0.86 0;
XX3 0.0223 0.13 0.0691; XY3 -0.000195 -0.00697 -0.000195; XZ3 -0.0116 0.0022 -0.0116; YY3 0.0224 0.0224 0.0224;
YZ3 -0.00222 0.00453 -0.00222; ZZ3 0.00441 0.108 0.042; MX3 0.0326 0.0841 0.0308; MY3 0.0244 -0.631 -0.115;
MZ3 0.265 0.265 0.265; M3 4.07 4.07 4.07; Ia3 0.0829 0.102 0.0914; Fv3 1.98 1.99 2.01; Fc3 6.43 6.41 6.37;
off3 0 0.448 0; XX4 0.109 0.0056 0.109; XY4 2.9e-05 -0.00366 2.9e-05; XZ4 0.00135 -0.0026 0.00135;
YY4 0.108 0.108 0.108; YZ4 -0.00117 -0.00664 -0.00117; ZZ4 0.00407 0.00378 0.00407; MX4 0.0145 -0.0326 -0.0127;
MY4 -0.00724 -0.00755 -0.00724; MZ4 -0.586 -0.586 -0.586; M4 3.62 3.62 3.62; Ia4 0.0341 0.0315 0.0303;
Fv4 1.06 1.07 1.07; Fc4 2.72 2.6 2.67; off4 0 -0.0606 0; XX5 0.00101 0.00192 0.00101; XY5 0 -0.00093 0;
XZ5 0 -0.00237 -0.000158; YY5 0.001 0.001 0.001; YZ5 -3.06e-06 6.73e-05 -3.06e-06; ZZ5 0.00101 0.00393 0.00101;
MX5 0 0.00824 0; MY5 -0.00306 -0.0105 0.00239; MZ5 -0.00102 -0.00102 -0.00102; M5 1.02 1.02 1.02;
Ia5 0.0361 0.0322 0.0346; Fv5 1.24 1.24 1.24; Fc5 2.62 2.6 2.62; off5 0 0.105 0; XX6 0.000353 0.000471 0.000353;
XY6 0 0.000846 0; XZ6 0 0.000353 0; YY6 0.000353 0.000353 0.000353; YZ6 0 -0.000441 0; ZZ6 0 0.000704 0;
MX6 0 0.00107 0; MY6 0 -0.00371 0; MZ6 0.0084 0.0084 0.0084; M6 0.2 0.2 0.2; Ia6 0.0114 0.011 0.0112;
Fv6 0.694 0.64 0.637; Fc6 0 0.42 0.408; off6 0 0.188 0.174; Fvm6 0.592 0.604 0.598; Fcm6 1.88 1.78 1.81
"""
"""Parameter, a priori value, identified with base parameters, with essential parameters; SI units."""
TABLE_III = {0.0: (2, 6), -0.01: (3, 6), -0.02: (5, 6), -0.04: (6, 6)}
"""Tolerance [kg.m^2]: consistent links with base and with essential parameters, of 6."""
ZERO = np.array([0.0, -np.pi / 2, np.pi / 2, 0.0, 0.0, 0.0])
"""Zero of the recording's q against the paper's [rad]."""
MOVING = 7.5
"""The arm moves for so long [s]."""
PRINTED_MASSES = (3, 4, 5, 6)
"""Links of which the paper prints the mass."""


def printed() -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the three columns of Table II."""
    rows = [row.split() for row in TABLE_II.replace("\n", " ").split(";")]
    a, b, c = ({row[0]: float(row[k]) for row in rows} for k in (1, 2, 3))
    return a, b, c


def from_print(paper: Paper, robot: Robot) -> None:
    """What follows from the printed tables alone: counts, distances, consistency."""
    paper.heading("Numbers of parameters")
    rows = []
    for name, text in (("tx40", "coupling inertia tied to Ia6"), ("tx40_iam6", "coupling inertia Iam6 on its own")):
        base = base_parameters(load_robot(name))
        rows.append((text, len(base.standard_names), len(base)))
    paper.table(("", "standard", "base"), [("paper", 86, 61), *rows])
    paper.check([row[1:] for row in rows] == [(86, 60), (87, 61)], "numbers of parameters")
    paper.say(
        "The paper's 86 and 61 do not belong together: with eq. 34 and 35 the motor of joint 6 adds Fvm6 and Fcm6 to "
        "84 standard parameters and couples by Ia6, which gives 86 and 60. A coupling inertia of its own gives 87 "
        "and 61."
    )
    reference, base_column, essential_column = (standard_vector(robot, column) for column in printed())
    paper.heading("Table II: distance from the a priori values")
    rows = []
    for name, column, distance in (("base", base_column, 0.1591), ("essential", essential_column, 0.0416)):
        ours = float(np.linalg.norm(column - reference) / np.linalg.norm(reference))
        agrees = paper.check(abs(ours - distance) < 0.5e-4, f"distance, {name}")
        rows.append((f"standard parameters from {name} parameters", distance, f"{ours:.4f}", agrees))
    paper.table(("", "paper", "from the printed columns", "agrees"), rows)
    paper.heading("Table III: consistent links")
    paper.say(
        "Links whose inertia matrix at the centre of mass (eq. 36) is positive definite. Table II prints no mass of "
        "links 1 and 2 and no XX, YY of link 1, so that only links 3 to 6 can be tested from the printed columns."
    )
    rows = [("paper, 6 links", *(f"{TABLE_III[t][0]} and {TABLE_III[t][1]}" for t in TOLERANCES))]
    tested = [
        [sum(consistent_links(robot, column, t)[j - 1] for j in PRINTED_MASSES) for t in TOLERANCES]
        for column in (base_column, essential_column)
    ]
    rows.append(("printed columns, links 3 to 6", *(f"{b} and {e}" for b, e in zip(*tested, strict=True))))
    paper.table(("with base and with essential parameters", *(f"tolerance {t:g}" for t in TOLERANCES)), rows)
    fewer = paper.check(all(b <= e for b, e in zip(*tested, strict=True)), "Table III, order")
    paper.say(
        f"As in the paper, the essential parameters leave at least as many links consistent at every tolerance: "
        f"{fewer}. Link 6 is printed with ZZ6 = 0, so that it is not strictly definite in any column."
    )


def simulated(robot: Robot) -> Samples:
    """Return a recording with the paper's essential parameters: 12 s at 1 kHz, quantised positions, noisy torques."""
    rng = np.random.default_rng(0)
    t = np.arange(0.0, 12.0, 1e-3)
    limits = [joint.limits for joint in robot.joints]
    w = 2 * np.pi / 12.0 * np.arange(1, 7)
    phase, amplitude = rng.uniform(0, 2 * np.pi, (6, 6)), rng.uniform(0.3, 1.0, (6, 6)) / w
    x = t[:, None, None] * w + phase
    q, dq = (amplitude * np.sin(x)).sum(2), (amplitude * w * np.cos(x)).sum(2)
    ddq = -(amplitude * w**2 * np.sin(x)).sum(2)
    scale = np.min(
        [
            [0.9 * min(-x.lower, x.upper) for x in limits] / np.abs(q).max(0),
            [0.9 * x.velocity for x in limits] / np.abs(dq).max(0),
            [0.9 * x.acceleration for x in limits] / np.abs(ddq).max(0),
        ],
        axis=0,
    )
    q, dq, ddq = q * scale, dq * scale, ddq * scale
    tau = inverse_dynamics(robot, standard_vector(robot, printed()[2]), q, dq, ddq)
    tau += 0.02 * np.abs(tau).max(axis=0) * rng.standard_normal(tau.shape)
    step = 2 * np.pi / 2**18
    return Samples(t, robot.active_names, np.round(q / step) * step, tau=tau, source="simulated")


def recorded(robot: Robot, folder: Path) -> Samples:
    """Return the real recording, in the paper's coordinates, as long as the arm moves."""
    samples = load_samples(folder / "tx40_traj.npz", robot, end=MOVING)
    return replace(samples, q=samples.q - ZERO)


def identified(paper: Paper, robot: Robot, samples: Samples, urdf: Path | None) -> None:
    """Table II as base parameters, from a recording in the paper's coordinates; urdf: of the real one."""
    paper.heading(
        f"Table II identified from {'a real recording, not the authors' + chr(39) if urdf else 'a simulation'}"
    )
    if urdf:
        paper.say(
            "The authors' recording is not published. This one is of the same robot type, by others: 7.5 s at 5 kHz, "
            "published with figaroh-plus under Apache-2.0. The robots may differ, above all in friction."
        )
    else:
        paper.say(
            "The authors' recording is not published. Here the torques are those of the paper's last column with 2 % "
            "noise, along 12 s of random motion, so that the last column is the truth."
        )
    options = IdentifyOptions(cross_validate=3)
    found = identify(robot, [samples], options=options).summary
    essential = identify(robot, [samples], options=replace(options, essential=True)).summary
    errors = [100 * part["validation"]["all"]["relative"] for part in (found, essential)]
    small = paper.check(max(errors) < 10.0, "torque error below 10 %")
    paper.table(
        ("", "paper", "ours"),
        [
            ("base parameters", 61, len(found["base"])),
            ("essential parameters", 31, len(essential["essential"])),
            ("torque error on data not used, base parameters", "", f"{errors[0]:.1f} %"),
            ("torque error on data not used, essential parameters", "less than 10 %", f"{errors[1]:.1f} %"),
            ("below 10 %", "yes", small),
        ],
    )
    paper.say(
        "Standard parameters depend on the a priori values chosen; what a recording tells are base parameters. So the "
        "a priori and the essential column of Table II are shown as the base parameters that they make. Its base "
        "column is shown as printed: there each leader already holds the value of its base parameter (ZZ1 is our "
        "ZZR1), while the parameters regrouped into it keep their a priori values, so that taken as standard "
        "parameters it would count them twice."
    )
    base = base_parameters(robot)
    reference, by_base, by_essential = printed()
    columns = [base.values(robot, standard_vector(robot, column)) for column in (reference, by_essential)]
    columns.insert(1, np.array([by_base[leader] for leader in base.leaders]))
    kept = set(essential["essential"])
    rows = []
    for row in found["base"]:
        k = base.names.index(row["name"])
        std = "" if row["std"] is None else f"{row['std']:.2g}"
        values = [f"{column[k]:.3g}" for column in columns]
        rows.append((f"`{row['name']}`", *values, f"{row['value']:.3g}", std, "yes" if row["name"] in kept else ""))
    head = ("parameter", "a priori", "base, paper", "essential, paper", "ours", "std", "essential, ours")
    paper.table(head, rows)


def consistency(paper: Paper, robot: Robot, samples: Samples, urdf: Path | None) -> None:
    """Table III with our estimates, and with consistency imposed; a priori values of the URDF if there is one."""
    paper.heading("Table III with our estimates")
    if urdf:
        bare = load_robot(urdf)
        robot = replace(bare, coupling=(Coupling(6, {5: 1.0, 6: 1.0}),))
        samples = replace(samples, q=samples.q + ZERO, joint_names=robot.active_names)
        paper.say("A priori values: the inertias of the robot's URDF, made consistent.")
    else:
        paper.say(
            "A priori values: those printed, which lack the masses of links 1 and 2; small ones take their place, so "
            "that these links hardly pass."
        )
    keys = [f"{t:g}" for t in TOLERANCES]
    options = IdentifyOptions(essential=True, standard=True, consistent=True)
    found = identify(robot, [samples], options=options).summary["consistency"]
    rows = [("base", *(TABLE_III[t][0] for t in TOLERANCES), *(found["base"][k] for k in keys))]
    rows.append(("essential", *(TABLE_III[t][1] for t in TOLERANCES), *(found["essential"][k] for k in keys)))
    rows.append(("imposed", *[""] * 4, *(found["imposed"][k] for k in keys)))
    paper.table(("consistent links of 6", *(f"{k}, paper" for k in keys), *(f"{k}, ours" for k in keys)), rows)
    paper.check(found["imposed"]["0"] == 6, "consistency imposed")
    if urdf:
        paper.check([found["essential"][k] for k in keys] == [6] * 4, "Table III, essential")
    paper.say(
        "The last row is `dynid identify --consistent`: the best fit under the condition that every link is a body. "
        f"Its weighted error is {100 * found['loss']:.1f} % larger than that of the best fit without the condition."
    )


def main() -> None:
    """Print the tables."""
    parser = arguments(str(__doc__).partition("\n\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="where tx40_traj.npz is")
    args = parser.parse_args()
    paper, robot = Paper(__file__), load_robot("tx40")
    from_print(paper, robot)
    samples = recorded(robot, args.folder) if args.folder else simulated(robot)
    urdf = args.folder / "tx40.urdf" if args.folder else None
    identified(paper, robot, samples, urdf)
    consistency(paper, robot, samples, urdf)
    paper.finish(args)


if __name__ == "__main__":
    main()
