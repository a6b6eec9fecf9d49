# SPDX-License-Identifier: Apache-2.0

"""A. Izaguirre et al., A new computational structure for real-time dynamics (1992): its tables and figures beside ours.

The PUMA 260 itself is simulated: the robot with physical links that is nearest to the paper's Table 2, in MuJoCo.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy import cos, sin
from paper_tables import (
    ROBOT,
    SIMULATION,
    Better,
    Known,
    Paper,
    Search,
    arguments,
    axes,
    estimated,
    exactly,
    measured,
    printed,
    statement,
    verdict,
)

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.emit_c import emit_c
from ros2_dynid.codegen.program import ProgramOptions, chosen_parameters, program_of
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.excitation.quintic import PiecewiseQuintic, shortest_times, through_points
from ros2_dynid.identification.physical.consistency import build_programme, impose
from ros2_dynid.identification.regression.estimate import ColumnLayout, Triangle
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.sim.controller import pd_gains
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot

TABLE_2 = {  # the paper's names, ours in modified DH, and the averages over ten trajectories
    "ia1": ("Ia1", 0.091631), "ia2": ("Ia2", 0.136312), "ia3": ("Ia3", 0.030843), "ia4": ("Ia4", 0.001781),
    "ia5": ("Ia5", 0.006759), "ia6": ("Ia6", 0.001262), "m6": ("M6", 2.768114), "z6": ("MZ6", 0.014041),
    "y4": ("MZ4", -0.382190), "a4": ("XX4", 0.079781), "c4": ("YY4", 0.077761),
    "fs1": ("Fc1", 0.787033), "fs2": ("Fc2", 1.389280), "fs3": ("Fc3", 0.650706), "fs4": ("Fc4", 0.256854),
    "fs5": ("Fc5", 0.036607), "fs6": ("Fc6", 0.106594), "ds1": ("Fv1", 0.575662), "ds2": ("Fv2", 0.944670),
    "ds3": ("Fv3", 0.417502), "ds4": ("Fv4", 0.066791), "ds5": ("Fv5", 0.101721), "ds6": ("Fv6", 0.030363),
}  # fmt: skip
TABLE_1 = """
ia1 0.098889 0.050155; ia2 0.1436638 0.086779; ia3 0.048211 0.054446; ia4 0.003262 0.012358; ia5 0.012713 0.018743;
ia6 0.002808 0.002849; m6 2.721895 1.119838; x6 -0.0012975 0.002621; y6 -0.000464 0.002; z6 0.012975 0.009833;
a6 0.00340 0.006396; b6 -0.001549 0.005895; c6 0.000513 0.001691; d6 -0.000107 0.001391; e6 0.000655 0.001307;
f6 -0.000123 0.000831; x5 0.005288 0.012684; y5 0.0067 0.014106; a5 -0.000094 0.008077; c5 -0.003878 0.016054;
d5 0.000206 0.004036; e5 0.000139 0.002689; f5 0.002137 0.005822; x4 0.004657 0.018356; y4 -0.344338 0.229325;
a4 0.086604 0.092222; c4 0.078255 0.081800; d4 0.006251 0.011871; e4 -0.000380 0.004918; f4 0.000146 0.001974;
x3 0.015860 0.077495; y3 0.068128 0.182303; a3 -0.055563 0.09324; d3 0.004356 0.020517; e3 0.004208 0.027816;
f3 0.005254 0.021493; x2 0.014250 0.235012; y2 -0.007559 0.040522; d2 -0.017301 0.049358; e2 -0.015461 0.026013;
fs1 0.690330 0.074645; fs2 1.379400 0.229495; fs3 0.600034 0.127999; fs4 0.221244 0.038097; fs5 0.039534 0.037993;
fs6 0.097322 0.027456; ds1 0.640149 0.142105; ds2 1.054428 0.292792; ds3 0.419111 0.177024; ds4 0.087686 0.002107;
ds5 0.099686 0.070966; ds6 0.033299 0.012595
"""
"""Parameter, average and standard deviation over ten trajectories, all 52 fitted; 23 are marked as significant."""
SPREAD_2 = """
ia1 0.015729 ia2 0.037337 ia3 0.022379 ia4 0.005213 ia5 0.012284 ia6 0.002065 m6 0.139741 z6 0.006980 y4 0.025796
a4 0.022904 c4 0.021450 fs1 0.048752 fs2 0.221132 fs3 0.045556 fs4 0.031520 fs5 0.041190 fs6 0.020605 ds1 0.057868
ds2 0.199482 ds3 0.103817 ds4 0.033318 ds5 0.030324 ds6 0.011697
"""
"""Table 2: standard deviations with the 23 significant parameters only."""
EXTREMES_1 = """
ia1 0.155265 0.07256; ia2 0.243456 -0.0067; ia3 0.136380 -0.031769; ia4 0.032090 -0.010854; ia5 0.041647 -0.030187;
ia6 0.009251 -0.002870; m6 4.311959 0.402778; x6 0.002830 -0.005907; y6 0.002262 -0.002939; z6 0.023582 -0.004141;
a6 0.010470 -0.00916; b6 0.008865 -0.0107; c6 0.003652 -0.00208; d6 0.002072 -0.0030; e6 0.003036 -0.00168;
f6 0.001565 -0.0013; x5 0.035485 -0.00479; y5 0.039692 -0.01085; a5 0.012286 -0.0172; c5 0.019385 -0.0296;
d5 0.007888 -0.00736; e5 0.005776 -0.00354; f5 0.016140 -0.00345; x4 0.046432 -0.01414; y4 0.117723 -0.6942;
a4 0.196475 -0.11892; c4 0.176402 -0.11721; d4 0.032354 -0.01660; e4 0.008801 -0.0053; f4 0.003355 -0.00283;
x3 0.242066 -0.05096; y3 0.254483 -0.33270; a3 0.037403 -0.3020; d3 0.031289 -0.04308; e3 0.050051 -0.03657;
f3 0.031724 -0.03638; x2 0.512454 -0.32158; y2 0.075899 -0.0645; d2 0.066779 -0.0837; e2 0.025235 -0.0641;
fs1 0.776301 0.565639; fs2 1.640865 0.929609; fs3 0.831090 0.382789; fs4 0.288517 0.162633; fs5 0.099793 -0.03222;
fs6 0.135677 0.062352; ds1 0.957472 0.496185; ds2 1.639596 0.646664; ds3 0.653683 0.065445; ds4 0.045901 0.146658;
ds5 0.281025 -0.00686; ds6 0.053150 0.019065
"""
"""Table 1: maximum and minimum over ten trajectories."""
EXTREMES_2 = """
ia1 0.115515 0.069620; ia2 0.205561 0.084086; ia3 0.046165 -0.032295; ia4 0.013764 -0.005222; ia5 0.028195 -0.015815;
ia6 0.003792 -0.004269; m6 2.971715 2.395409; z6 0.022369 0.002290; y4 -0.315692 -0.423311; a4 0.118200 0.036028;
c4 0.118039 0.033405; fs1 0.861973 0.703532; fs2 1.711836 1.080681; fs3 0.751500 0.593681; fs4 0.301434 0.199465;
fs5 0.097840 -0.03550; fs6 0.140304 0.077563; ds1 0.685223 0.465081; ds2 1.362454 0.558198; ds3 0.589464 0.292471;
ds4 0.113687 0.019180; ds5 0.155355 0.044809; ds6 0.056091 0.016647
"""
"""Table 2: maximum and minimum with the 23 significant parameters only."""
TABLE_3 = {  # friction: value of Lloyd, value of the paper
    "fs1": (0.760, 0.7870), "fs2": (1.620, 1.3892), "fs3": (0.850, 0.6507), "fs4": (0.175, 0.2568),
    "fs5": (0.178, 0.0366), "fs6": (0.140, 0.1065), "ds1": (0.71, 0.5756), "ds2": (0.55, 0.9446),
    "ds3": (0.50, 0.4175), "ds4": (0.05, 0.066), "ds5": (0.030, 0.101), "ds6": (0.065, 0.030),
}  # fmt: skip
ORDER = ["rotor", "6", "5", "4", "3", "2", "1"]
"""The paper keeps the rotors first, then the parameters of the last links."""
GROUPS = ("inertial", "rotor", "friction")
COUNTS = {  # function, with an arbitrary load: multiplications and additions of the paper
    ("inertia_gravity", False): (98, 70),
    ("velocity_torques", False): (140, 110),
    ("inertia_gravity", True): (190, 150),
    ("velocity_torques", True): (200, 170),
    ("synchronous", False): (36, 36),
}
TASKS = {
    "inertia_gravity": "inertia and gravity coefficients",
    "velocity_torques": "velocity torques",
    "synchronous": "synchronous task",
}
A2, D3, D4, Z6_APPENDIX = 0.2032, 0.12624, 0.2032, 0.01401
"""Lengths of Appendix A [m], and its Z6 [kg.m]."""
PERIOD, CONTROL = 0.028, 0.002
"""Sampling period of the paper and control period of the simulation [s]."""
BACKGROUND = 0.020
"""Background period of the paper [s]: gravity at the actual position is as old as that."""
ENDS = 15
"""Samples that the paper drops at both ends of a trajectory."""
TRAVEL, START = np.pi / 2, np.array([0.3, -2.4, 1.0, 0.0, 0.4, 0.0])
"""Way of the joints in open loop, and where they start [rad]."""
MOTIONS = {"1": (0,), "2": (1,), "3": (2,), "1, 2, 3 together": (0, 1, 2)}
SPEEDS = {"slow": 45.0, "fast": 180.0}
"""Largest speed of a motion [deg/s]."""
CONSIDERABLY = 0.5
"""An error is considerably reduced if at most half of it is left."""
WAYS = ("nominal", "on-line")
"""Where the gravity torque is computed: at the nominal or at the actual position."""
SPEED_BANDS = (0.02, 0.1, 0.2, 0.4, 1.6)
"""Limits of the bands of speed in which friction is looked at [rad/s]."""
PATHS = 4
"""Paths behind the errors of the multi-rate structure."""
ROUNDING = 1e-12
"""Differences of coefficients of at most 8 N.m that are rounding."""
LOAD_KG, LOAD_AT = 0.5, np.array([0.0, 0.0, 0.05])
"""Load at the flange: mass [kg] and its centre in frame 6 [m]."""


@cache
def puma() -> Robot:
    """Return the PUMA 260."""
    return load_robot("puma260")


@cache
def base_set() -> BaseParameters:
    """Return the 52 parameters in the paper's order."""
    return base_parameters(puma(), groups=GROUPS, order=ORDER, method="closed-form")


def printed_parameters() -> Array:
    """Return chi, shape (n_standard,), with the values of Table 2 and zeros elsewhere."""
    return standard_vector(puma(), dict(TABLE_2.values()))


@cache
def simulated() -> tuple[Array, Array]:
    """Return chi of the robot that is simulated, and the base parameters of Table 2 that it comes nearest to."""
    robot, base = puma(), base_set()
    wanted = base.values(robot, printed_parameters())
    weight = 1.0 / np.maximum(np.abs(wanted), 1e-3)
    T = Triangle(np.hstack((np.diag(weight), (weight * wanted)[:, None])), ColumnLayout(len(base)))
    return impose(build_programme(robot, base, standard_vector(robot)), T, np.zeros(len(base))).chi, wanted


def independent(paper: Paper) -> None:
    """78 parameters, 52 independent ones."""
    base = base_parameters(puma(), groups=GROUPS, order=ORDER)
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
    for row in rows:
        paper.check(row[1] == row[2], f"Section 6.1, {row[0]}")
    paper.table(
        ("", "paper", "ours", "verdict"),
        [(*row, verdict(exactly(row[2]), exactly(row[1]), Better.NEITHER)) for row in rows],
    )
    paper.say("The heading of the paper's Table 1 speaks of 53 parameters; its text and its rows have 52.")


def printed_program(q: Array, *, complete: bool) -> tuple[Array, Array]:
    """Return DIJ (N, 6, 6) and DI (N, 6) by the statements of Appendix A, as printed.

    complete: with the products of JS413 and JS423 that the step from link 4 to link 3 leaves out.
    """
    p = {name: value for name, (_, value) in TABLE_2.items()}
    M6, Z6, Y4, AD4, CD4 = p["m6"], Z6_APPENDIX, p["y4"], p["a4"], p["c4"]
    IA = [p[f"ia{j}"] for j in range(1, 7)]
    FP42, FP32, FP21 = D4 * M6, -D3 * M6, A2 * M6
    NP4, NP3, NP2 = M6 * D4**2, M6 * D3**2, M6 * A2**2
    S2, S3, S4, S5 = (sin(q[:, k]) for k in (1, 2, 3, 4))
    C2, C3, C4, C5 = (cos(q[:, k]) for k in (1, 2, 3, 4))
    C23, S23 = cos(q[:, 1] + q[:, 2]), sin(q[:, 1] + q[:, 2])
    T1214, T1224 = C2 * A2, S2 * A2
    T1411, T1421 = C23 * C4, S23 * C4
    T1414, T1424 = -(S23 * D4) + T1214, (C23 * D4) + T1224
    BS51, BS52 = -(S5 * Z6), C5 * Z6
    BA52 = (Y4 + BS52) + FP42
    BS41, BS42, BS43 = C4 * BS51, S4 * BS51, BA52
    BA42 = BS42 + FP32
    BS32, BS31, BS33 = (S3 * BS41) + (C3 * BS43), (C3 * BS41) - (S3 * BS43), -BA42
    BA31 = BS31 + FP21
    BS22, BS23, BS21 = (S2 * BA31) + (C2 * BS32), BS33, (C2 * BA31) - (S2 * BS32)
    JA533, JA511 = CD4 - NP4, AD4 - NP4
    JS423, JS413 = -(D4 * BS42), -(D4 * BS41)
    JS422 = (S4**2 * JA511) + (C4**2 * JA533) + 2.0 * D4 * BS43
    JS412 = S4 * C4 * (JA511 - JA533)
    JS411 = (C4**2 * JA511) + (S4**2 * JA533) + 2.0 * D4 * BS43
    JA433, JA411 = -NP3, JS411 - NP3
    JS333 = JS422
    JS323, JS313 = -(S3 * JS412) - (D3 * BS32), -(C3 * JS412) - (D3 * BS31)
    JS322 = (S3**2 * JA411) + (C3**2 * JA433) + 2.0 * D3 * BS33
    JS312 = S3 * C3 * (JA411 - JA433)
    JS311 = (C3**2 * JA411) + (S3**2 * JA433) + 2.0 * D3 * BS33
    if complete:  # R J R^T with R = Rz(q3) Rx(-90 deg): the terms of J13 and J23
        JS323, JS313 = JS323 - C3 * JS423, JS313 + S3 * JS423
        JS322, JS311 = JS322 + 2.0 * S3 * C3 * JS413, JS311 - 2.0 * S3 * C3 * JS413
        JS312 = JS312 + (C3**2 - S3**2) * JS413
    JA333, JA322 = JS333 - NP2, JS322 - NP2
    JS233 = JA333 + 2.0 * ((T1224 * BS22) + (T1214 * BS21))
    JS223 = (S2 * JS313) + (C2 * JS323) - (T1224 * BS23)
    JS222 = (S2**2 * JS311) + (2 * S2 * C2 * JS312) + (C2**2 * JA322) + 2.0 * T1214 * BS21
    PS031, PS042, PS041 = C23 * D3, -(S23 * D3), (T1411 * D3) + (S4 * T1414)
    PS131 = -(C23 * T1224) + (S23 * T1214)
    PS141, PS142 = -(T1411 * T1424) + (T1421 * T1414), (S23 * T1424) + (C23 * T1414)
    PS241 = -(C4 * D4)
    zero = 0.0 * S2
    upper = {
        (1, 1): JS222 + IA[0], (1, 2): JS223, (1, 3): (S2 * JS313) + (C2 * JS323),
        (1, 4): (S23 * JS413) - (BS42 * PS031) + (BS41 * T1214), (1, 5): -(BS52 * PS041) + (BS51 * PS042),
        (2, 2): JS233 + IA[1], (2, 3): JS422 + (BS31 * A2), (2, 4): -JS423 - (BS42 * PS131),
        (2, 5): -(BS52 * PS141) + (BS51 * PS142), (3, 3): JS422 + IA[2], (3, 4): -JS423, (3, 5): -(BS52 * PS241),
        (4, 4): IA[3] + zero, (5, 5): IA[4] + zero, (6, 6): IA[5] + zero,
    }  # fmt: skip
    DIJ = np.zeros((len(q), 6, 6))
    for (i, j), value in upper.items():
        DIJ[:, i - 1, j - 1] = DIJ[:, j - 1, i - 1] = value
    g = 9.81
    DI = np.stack(
        (zero, g * BS21, g * (-(BS32 * S2) + (BS31 * C2)), g * -(BS42 * S23),
         g * (-(BS52 * T1421) + (BS51 * C23)), zero),
        axis=1,
    )  # fmt: skip
    return DIJ, DI


def appendix(paper: Paper) -> None:
    """Appendix A: all 21 D_ij and 6 D_i of the printed program against ours."""
    robot = puma()
    chi = standard_vector(robot, {**dict(TABLE_2.values()), "MZ6": Z6_APPENDIX})
    q = np.random.default_rng(0).uniform(-3.0, 3.0, (200, 6))
    M, Q = inertia_matrix(robot, chi, q), gravity_torque(robot, chi, q)
    (D, G), (whole, _) = printed_program(q, complete=False), printed_program(q, complete=True)
    paper.heading("Appendix A: what the printed program computes")
    paper.say(
        "The statements of the printed program, run as they stand with its constants, against our inertia matrix and "
        "gravity torques at 200 random positions: largest value and largest difference. Gravity points along -z.",
    )
    rows, agree = [], []
    for i in range(6):
        for j in range(i, 6):
            size = np.abs(D[:, i, j]).max()
            as_printed, with_terms = (np.abs(x[:, i, j] - M[:, i, j]).max() for x in (D, whole))
            agree.append(as_printed < ROUNDING)
            paper.check(bool(with_terms < ROUNDING), f"Appendix A, D{i + 1}{j + 1}")
            rows.append((f"D{i + 1}{j + 1}", _size(size), _size(as_printed), _size(with_terms), "kg.m^2",
                         _agreement(as_printed), _agreement(with_terms)))  # fmt: skip
    for i in range(6):
        difference = float(np.abs(G[:, i] - Q[:, i]).max())
        paper.check(difference < ROUNDING, f"Appendix A, D{i + 1}")
        rows.append(
            (f"D{i + 1}", _size(np.abs(G[:, i]).max()), _size(difference), "", "N.m", _agreement(difference), "")
        )
    paper.table(
        ("coefficient", "largest", "difference, as printed", "with the missing terms", "unit", "verdict, as printed",
         "with the missing terms"),
        rows,
    )  # fmt: skip
    paper.say(
        f"{sum(agree)} of the 21 D_ij agree. D11, D12 and D13 do not: on the way from link 4 to link 3 the printed "
        "program drops JS413 and JS423, which it has computed. With R = Rz(q3) Rx(-90 deg) the products -2 S3 C3 "
        "JS413, "
        "+2 S3 C3 JS413 and (C3^2 - S3^2) JS413 belong to JS311, JS322 and JS312, and S3 JS423, -C3 JS423 to JS313 and "
        "JS323. With them all 21 agree.",
    )


def _size(x: float) -> str:
    """Return a size for a table; rounding as such."""
    return "rounding" if 0 < x < ROUNDING else f"{x:.3g}"


def _agreement(difference: float) -> str:
    return verdict(exactly(difference >= ROUNDING), exactly(False), Better.NEITHER)


def gravity_coefficients(paper: Paper) -> None:
    """Section 7.1: three gravity coefficients."""
    p = {name: value for name, (_, value) in TABLE_2.items()}
    first = {row.split()[0]: float(row.split()[1]) for row in TABLE_1.replace("\n", " ").split(";")}
    g = 9.81
    paper.heading("Section 7.1: gravity coefficients")
    rows = []
    for name, lloyd, theirs, what, value in (
        ("c12", 5.509, "5.51792", "g a2 m6", g * A2 * p["m6"]),
        ("c13", 1.1762, "1.176644", "g (y4 + d4 m6)", g * (p["y4"] + D4 * p["m6"])),
        ("c15", 0.192, "0.13743", "g z6, z6 of Appendix A", g * Z6_APPENDIX),
    ):
        from_print = Known(value, *(value * (1 + k * 0.5e-3) for k in (-1, 1)))  # z6 has four digits
        rows.append((name, lloyd, theirs, what, f"{value:.5f}", f"{value / float(theirs):.4f}",
                     verdict(from_print, printed(theirs), Better.NEITHER)))  # fmt: skip
    paper.table(("", "Lloyd [N.m]", "paper [N.m]", "from the program", "value [N.m]", "ratio", "verdict"), rows)
    paper.say(
        "Sizes; the paper's signs are those of its D_i. c12 follows from Table 2, c15 from the Z6 = 0.01401 that "
        f"Appendix A has (Table 2: 0.014041, {g * p['z6']:.5f} N.m). c13 follows from nothing printed: Table 2 gives "
        f"{g * (p['y4'] + D4 * p['m6']):.4f} and Table 1 {g * (first['y4'] + D4 * first['m6']):.4f} N.m. The standard "
        f"deviation of y4 alone is {g * 0.025796:.3f} N.m of it, so the 1.1766 that almost equals Lloyd's value is 2.3 "
        "of them away. Exchanged digits (1.7664 for 1.1766) would be a likely reading, and would not be Lloyd's value.",
    )


def operations(paper: Paper) -> None:
    """The operation counts of the generated code, and its time."""
    robot = puma()
    significant = [name for name, _ in TABLE_2.values() if not re.match(r"F[vc]\d", name)]
    paper.heading("Operation counts and times of the generated code, 11 significant inertial parameters")
    times = {load: clocked(robot, significant, load) for load in (False, True)}
    rows = []
    for (function, load), theirs in COUNTS.items():
        parameters, values = chosen_parameters(robot, significant)
        count = (
            program_of(robot, parameters, values, ProgramOptions(load=load), functions=(function,))
            .functions[function]
            .count
        )
        ours = (count.multiplications, count.additions)
        paper.check(ours[0] <= theirs[0] and ours[1] <= theirs[1], f"count of {function}, load {load}")
        rows.append((TASKS[function], "yes" if load else "no", *theirs, *ours, f"{sum(ours) / sum(theirs):.2f}",
                     verdict(exactly(sum(ours)), exactly(sum(theirs))), times[load].get(function, "no compiler")))  # fmt: skip  # noqa: E501
    paper.table(
        ("function", "load", "multiplications, paper", "additions, paper", "ours", "ours", "ratio of sums", "verdict",
         "time, compiled C"),
        rows,
    )  # fmt: skip
    paper.say(
        "The paper computes coefficients and velocity torques in the background in 20 ms on an Intel 8087; the times "
        "here are of whatever machine made this page, one call each. Times of 1986 and of today say nothing about the "
        "methods; what the split is worth in accuracy is below.",
    )


def clocked(robot: Robot, only: Sequence[str], load: bool) -> dict[str, str]:
    """Return the time of each generated C function, or nothing where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return {}
    parameters, values = chosen_parameters(robot, only)
    files = emit_c(program_of(robot, parameters, values, ProgramOptions(load=load)))
    more = ", constants" if load else ""
    calls = {
        "inertia_gravity": f"puma260_inertia_gravity(q{more}, M, Q);",
        "velocity_torques": f"puma260_velocity_torques(q, dq{more}, tau);",
        "synchronous": "puma260_synchronous(M, Q, ddq, tau);",
    }
    loops = "".join(
        f"t = clock(); for (k = 0; k < 300000; k++) {{ q[k % 6] += 1e-6; {call} sum += tau[0] + M[0]; }}"
        f'printf("{name} %g\\n", (double)(clock() - t) / CLOCKS_PER_SEC / 0.3);'
        for name, call in calls.items()
    )
    ready = "double load[10] = {0}, constants[PUMA260_CONSTANTS]; puma260_prepare(load, constants);" if load else ""
    source = (
        '#include <stdio.h>\n#include <time.h>\n#include "puma260.h"\n'
        "int main(void) { static double q[6], dq[6] = {1, 1, 1, 1, 1, 1}, ddq[6], M[36], Q[6], tau[6];"
        f"double sum = 0; long k; clock_t t; {ready} {loops} return sum > 1e300; }}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        (Path(folder) / "clock.c").write_text(source)
        build = [compiler, "-O2", "clock.c", "puma260.c", "-o", "clock", "-lm"]
        subprocess.run(build, cwd=folder, check=True, capture_output=True, timeout=100)
        printed = subprocess.run(["./clock"], cwd=folder, check=True, capture_output=True, text=True, timeout=100)
    return {line.split()[0]: measured(float(line.split()[1]), "us") for line in printed.stdout.splitlines()}


def random_path(rng: np.random.Generator, points: int, share: float = 1.0) -> PiecewiseQuintic:
    """Return polynomials through random points of the range, at rest at both ends, as fast as the limits allow."""
    limits = [joint.limits for joint in puma().joints]
    lower, upper = (np.array([getattr(x, name) for x in limits]) for name in ("lower", "upper"))
    velocity, acceleration = (np.array([getattr(x, name) for x in limits]) for name in ("velocity", "acceleration"))
    middle, half = 0.5 * (lower + upper), 0.5 * np.minimum(upper - lower, np.pi)
    q = middle + 0.8 * half * rng.uniform(-1, 1, (points, 6))
    dq = 0.5 * velocity * rng.uniform(-1, 1, (points, 6))
    dq[[0, -1]] = 0.0
    u = shortest_times(q[:-1], q[1:], dq[:-1], dq[1:], share * velocity, share * acceleration)
    return through_points(np.concatenate(([0.0], np.cumsum(u))), q, dq)


@dataclass(frozen=True)
class Drive:
    """A run on the simulated robot: times (N,), nominal and true positions, and motor torques, each (N, 6)."""

    t: Array
    nominal: Array
    q: Array
    tau: Array


def drive(
    path: PiecewiseQuintic,
    torque: Callable[[float, Array, Array], Array],
    *,
    seed: int = 0,
    held: Sequence[int] = (),
    loaded: bool = False,
    noise: float = 0.005,
) -> Drive:
    """Run the simulated robot under torque(t, q, dq), held joints under position control; sampled every CONTROL."""
    robot, (chi, _) = puma(), simulated()
    start, _, _ = path.evaluate(np.zeros(1))
    sim = SimulatedRobot(robot, chi, period=CONTROL, imperfections=Imperfections(latency=0, torque_noise=noise),
                         start=start[0], seed=seed)  # fmt: skip
    if loaded:
        sim.attach(LOAD_KG, LOAD_AT, LOAD_KG * 1e-4 * np.eye(3))
    Kp, Kd = pd_gains(robot, chi, 6.0)
    seen = sim.measure()
    count = int(np.ceil(path.duration / CONTROL))
    t = CONTROL * np.arange(count)
    nominal, speed, _ = path.evaluate(t)
    q, tau = np.empty((2, count, 6))
    for k in range(count):
        q[k] = sim.positions
        command = torque(float(t[k]), seen.q, seen.dq)
        for j in held:
            command[j] += Kp[j] * (nominal[k, j] - seen.q[j]) + Kd[j] * (speed[k, j] - seen.dq[j])
        seen = sim.step(command)
        tau[k] = seen.tau
    return Drive(t, nominal, q, tau)


@cache
def recordings() -> tuple[Drive, ...]:
    """Return ten recordings: six with few points, four with many, under position control with feedforward."""
    robot, runs = puma(), []
    known = standard_vector(robot)
    for k in range(10):
        path = random_path(np.random.default_rng(k), 8 if k < 6 else 14, 0.9)
        q, dq, ddq = path.evaluate(CONTROL * np.arange(int(np.ceil(path.duration / CONTROL)) + 1))
        ahead = inverse_dynamics(robot, known, q, dq, ddq)
        runs.append(drive(path, lambda t, *_, ahead=ahead: ahead[round(t / CONTROL)].copy(), seed=k, held=range(6)))
    return tuple(runs)


def sampled(run: Drive) -> tuple[Array, Array, Array, Array]:
    """Return q, dq, ddq, tau every 28 ms, derivatives by the paper's central differences, ends cut."""
    step = round(PERIOD / CONTROL)
    resolution = 2 * np.pi / 2**15  # of the encoders [rad]
    q = np.round(run.q[::step] / resolution) * resolution
    dq = np.full_like(q, np.nan)
    dq[1:-1] = (q[2:] - q[:-2]) / (2 * PERIOD)
    ddq = np.full_like(q, np.nan)
    ddq[2:-2] = (dq[3:-1] - dq[1:-3]) / (2 * PERIOD)
    part = slice(ENDS, len(q) - ENDS)
    return q[part], dq[part], ddq[part], run.tau[::step][part]


def fitted(columns: Sequence[int]) -> tuple[Array, Array, Array, list[Array]]:
    """Return estimates for each run (10, b), the share of the torque, W of all runs weighted, and torques predicted."""
    robot = puma()
    values, sizes, rows, predicted = [], [], [], []
    for run in recordings():
        q, dq, ddq, tau = sampled(run)
        W = regressor(robot, q, dq, ddq)[:, :, list(columns)]
        first = np.linalg.lstsq(W.reshape(-1, W.shape[2]), tau.ravel(), rcond=None)[0]
        weight = 1.0 / np.sqrt(np.mean((tau - W @ first) ** 2, axis=0))
        rows.append((W * weight[:, None]).reshape(-1, W.shape[2]))
        values.append(np.linalg.lstsq(rows[-1], (tau * weight).ravel(), rcond=None)[0])
        sizes.append(np.abs(W).max(axis=0) / np.abs(tau).max(axis=0)[:, None])
        predicted.append(W @ values[-1])
    share = np.max([np.max(size * np.abs(np.mean(values, axis=0)), axis=0) for size in sizes], axis=0)
    return np.array(values), share, np.concatenate(rows), predicted


def identification(paper: Paper) -> None:
    """Tables 1, 2 and 3: all 52 parameters, the significant ones, and the fit with these alone."""
    base, (_, wanted) = base_set(), simulated()
    truth = base.values(puma(), simulated()[0])
    place = {leader: k for k, leader in enumerate(base.leaders)}
    kept = [place[ours] for ours, _ in TABLE_2.values()]
    seen = paper.searched("fits", lambda: fits(kept))
    all52, share, only23, cond, errors = (seen[key] for key in ("all", "share", "only", "cond", "errors"))
    one = {row.split()[0]: [float(x) for x in row.split()[1:]] for row in TABLE_1.replace("\n", " ").split(";")}
    words = SPREAD_2.split()
    two = {name: float(x) for name, x in zip(words[::2], words[1::2], strict=True)}
    paper.heading("Tables 1 and 2: identification on the simulated PUMA 260")
    off = np.abs(truth - wanted)
    worst = int(np.argmax(np.where(np.abs(wanted) > 1e-3, off / np.maximum(np.abs(wanted), 1e-3), 0)))
    paper.say(
        "The recordings are not published, and what a simulation and a robot give is not compared, whoever would look "
        "preferable. The robot is simulated in MuJoCo with the standard parameters of physical "
        "links that come nearest to Table 2: no robot has exactly its values with all others zero. The largest "
        "relative "
        f"change is {base.names[worst]}, {wanted[worst]:.4f} to {truth[worst]:.4f}. Ten runs under position control, "
        "polynomials through random points at 90 % of the speed limits; positions and torques every 28 ms, encoders of "
        "2^15 steps a turn, torque noise of 0.5 % of the largest effort; velocities and accelerations by the paper's "
        f"central differences, {ENDS} samples dropped at both ends; each run fitted by weighted least squares on its "
        "own.",
    )
    significant = [k for k in range(len(base)) if share[k] >= 0.01]
    hit = sum(k in significant for k in kept)
    conds = (828.8 / 0.033, 146.0 / 0.35)
    figures = (
        ("condition number, all parameters", conds[0], cond[0], Better.LOWER),
        ("condition number, the 23", conds[1], cond[1], Better.LOWER),
        ("improvement", conds[0] / conds[1], cond[0] / cond[1], Better.NEITHER),
    )
    rows = [
        ("independent parameters", 52, len(base), verdict(exactly(len(base)), exactly(52), Better.NEITHER)),
        ("significant: averages that make 1 % of a joint's largest torque in some run", 23, len(significant),
         verdict(exactly(len(significant), SIMULATION), exactly(23, ROBOT), Better.NEITHER)),
        ("of the paper's 23 significant here", 23, hit,
         verdict(exactly(hit, SIMULATION), exactly(23, ROBOT), Better.NEITHER)),
        *((name, f"{theirs:.0f}", f"{ours:.0f}", verdict(exactly(ours, SIMULATION), exactly(theirs, ROBOT), better))
          for name, theirs, ours, better in figures),
    ]  # fmt: skip
    paper.table(("", "paper", "ours", "verdict"), rows)
    rows, gains = [], []
    for i, (name, (ours, value)) in enumerate(TABLE_2.items()):
        k = kept[i]
        std = (np.std(all52[:, k], ddof=1), np.std(only23[:, i], ddof=1))
        gains.append((one[name][1] / two[name], std[0] / std[1]))
        rows.append(
            (f"{name} = `{ours}`", f"{one[name][0]:.4f}", f"{one[name][1]:.4f}", f"{value:.4f}", f"{two[name]:.4f}",
             f"{truth[k]:.4f}", f"{all52[:, k].mean():.4f}", f"{std[0]:.4f}", f"{only23[:, i].mean():.4f}",
             f"{std[1]:.4f}", f"{std[1] / two[name]:.2f}",
             verdict(_deviation(std[1], SIMULATION), _deviation(two[name], ROBOT)))
        )  # fmt: skip
    paper.table(
        ("parameter", "paper, 52: average", "std", "paper, 23: average", "std", "simulated truth", "ours, 52: average",
         "std", "ours, 23: average", "std", "std over the paper's", "verdict"),
        rows,
    )  # fmt: skip
    medians = np.median(gains, axis=0)
    paper.say(
        "The paper's averages and deviations are of its robot, ours of a simulated one whose noise we chose: neither "
        f"compares. Fitting the 23 alone makes them smaller by a median factor of {medians[0]:.1f} in the paper and "
        f"{medians[1]:.1f} here.",
    )
    full_tables(paper, all52, only23, kept, share)
    frictions = []
    for name, (lloyd, theirs) in TABLE_3.items():
        i = list(TABLE_2).index(name)
        mean, truth_here = only23[:, i].mean(), truth[kept[i]]
        off = (abs(mean / truth_here - 1), abs(theirs / lloyd - 1))
        word = verdict(exactly(off[0], SIMULATION), exactly(off[1], ROBOT))
        frictions.append((name, lloyd, theirs, f"{mean:.4f}", f"{truth_here:.4f}", f"{100 * off[1]:.0f} %",
                          f"{100 * off[0]:.1f} %", word))  # fmt: skip
    paper.heading("Table 3: friction against an independent value")
    paper.say("The paper compares with Lloyd's measurements; here the independent value is what the simulation has.")
    paper.table(
        ("parameter", "Lloyd", "paper", "ours", "simulated truth", "paper off Lloyd", "ours off the truth", "verdict"),
        frictions,
    )
    braking = paper.searched("braking", lambda: {"share": friction_by_speed()})["share"]
    speeds = [f"{low:g} to {high:g} rad/s" for low, high in itertools.pairwise(SPEED_BANDS)]
    paper.say(
        "fs4 and ds4 are 3 to 4 standard deviations from the simulated truth, also if velocities and accelerations are "
        "known exactly. The simulation smooths Coulomb friction about standstill, most where the rotor is light: below "
        "is the mean Coulomb friction that acts, over its full value, by speed. A fit of a constant and a term "
        "proportional to the speed takes less for the constant and more for the slope.",
    )
    paper.table(
        ("joint", *speeds),
        [(j, *("" if np.isnan(x) else f"{x:.2f}" for x in row)) for j, row in enumerate(braking, start=1)],
    )
    paper.heading("Figures 1 to 5: one run, and the fit of its torques")
    paper.table(
        ("torque error, norm over norm", *(f"joint {j}" for j in range(1, 7))),
        [(f"{n} parameters", *(f"{e:.1f} %" for e in row)) for n, row in zip((52, 23), errors, strict=True)],
    )
    paper.say(
        'The paper shows curves and says "almost perfect" for the first three joints and larger differences for the '
        "last three. That each of the first three has a smaller error than each of the last three, with 23 parameters: "
        f"{statement(errors[1][i] < errors[1][j] for i in range(3) for j in range(3, 6))}. From 52 to 23 parameters "
        f"the first three joints lose {max(errors[1][j] - errors[0][j] for j in range(3)):.1f} points at most and the "
        f"last three up to {max(errors[1][j] - errors[0][j] for j in range(3, 6)):.1f}.",
    )
    draw_run(paper, seen)


def full_tables(paper: Paper, all52: Array, only23: Array, kept: list[int], share: Array) -> None:
    """Table 1 in full, link by link, and the maxima and minima of Table 2."""

    def parsed(text: str) -> dict[str, list[float]]:
        return {row.split()[0]: [float(x) for x in row.split()[1:]] for row in text.replace("\n", " ").split(";")}

    def cells(values: Array) -> tuple[str, ...]:
        return tuple(f"{x:.4f}" for x in (values.mean(), np.std(values, ddof=1), values.max(), values.min()))

    one, ends1, ends2 = parsed(TABLE_1), parsed(EXTREMES_1), parsed(EXTREMES_2)
    base, theirs = base_set(), [name for name in one if name not in TABLE_2]
    ours = [k for k in range(len(base)) if k not in kept]
    head = ("average", "std", "maximum", "minimum")
    rows: list[tuple[str, ...]] = []
    for link in "654321":
        left = [name for name in theirs if name.endswith(link)]
        right = [k for k in ours if base.names[k].endswith(link)]
        paper.check(len(left) == len(right), f"Table 1, parameters of link {link}")
        for name, k in zip(left, right, strict=False):
            printed_cells = (f"{x:g}" for x in (*one[name], *ends1[name]))
            rows.append((name, *printed_cells, f"`{base.names[k]}`", *cells(all52[:, k]), f"{100 * share[k]:.1f} %"))
    paper.say(
        "Maxima and minima of the significant ones, with all 52 parameters and with the 23:",
    )
    extremes = []
    for i, name in enumerate(TABLE_2):
        here = (all52[:, kept[i]], only23[:, i])
        printed_cells = (f"{x:g}" for x in (*ends1[name], *ends2[name]))
        extremes.append((name, *printed_cells, *(f"{x:.4f}" for v in here for x in (v.max(), v.min()))))
    spans = ("52: maximum", "minimum", "23: maximum", "minimum")
    paper.table(("", *(f"paper, {x}" for x in spans), *(f"ours, {x}" for x in spans)), extremes)
    paper.say(
        f"The other {len(theirs)} of Table 1, which the paper finds not significant, are moments in its own (standard "
        "DH) frames, ours in modified DH frames: every link has as many in both, of other combinations, so that rows "
        "stand side by side and not for the same quantity. The maximum of ds4 is printed where its minimum belongs. "
        "The "
        "last column is the largest share of a joint's torque that ours make.",
    )
    paper.table(("paper", *head, "ours", *head, "share"), rows)


def fits(kept: Sequence[int]) -> Search:
    """Return the estimates of all 52 and of the 23, condition numbers, torque errors [%], and the first run's curves."""  # noqa: E501
    columns = base_set().columns(puma())
    all52, share, W52, fit52 = fitted(columns)
    only23, _, W23, fit23 = fitted([columns[k] for k in kept])
    errors = []
    for fit in (fit52, fit23):
        pairs = [(f, sampled(run)[3]) for f, run in zip(fit, recordings(), strict=True)]
        wrong, size = (
            np.sum([np.sum(x**2, axis=0) for x in part], axis=0)
            for part in ([f - t for f, t in pairs], [t for _, t in pairs])
        )
        errors.append(100 * np.sqrt(wrong / size))
    q, dq, ddq, tau = sampled(recordings()[0])
    curves = {"q": q, "dq": dq, "ddq": ddq, "tau": tau, "fit52": fit52[0], "fit23": fit23[0]}
    cond = np.array([np.linalg.cond(W) for W in (W52, W23)])
    numbers: Search = {"all": all52, "share": share, "only": only23, "cond": cond, "errors": np.array(errors)}
    return numbers | {key: np.round(curve, 3) for key, curve in curves.items()}


def _deviation(std: float, of: str) -> Known:
    """Return a standard deviation of ten values, itself known within two of 1 / sqrt(2 (10 - 1)) of it."""
    return estimated(std, std / np.sqrt(18.0), of)


def draw_run(paper: Paper, seen: Search) -> None:
    """Draw the first run as the paper's Figures 1 to 5 do."""
    q, dq, ddq, tau, fit52, fit23 = (seen[key] for key in ("q", "dq", "ddq", "tau", "fit52", "fit23"))
    t = PERIOD * np.arange(len(q))
    figure, plots = axes(1, 3, (10.0, 2.8))
    for plot, values, label in zip(
        plots[0],
        (np.degrees(q), dq, ddq),
        ("position [deg]", "velocity [rad/s]", "acceleration [rad/s^2]"),
        strict=True,
    ):
        plot.plot(t, values, linewidth=0.8)
        plot.set(xlabel="time [s]", ylabel=label)
    plots[0, 0].legend([f"{j}" for j in range(1, 7)], fontsize=6, ncols=3)
    paper.figure(
        figure, "izaguirre_1992_run", "Figures 1 to 3: positions, velocities and accelerations by differences, 28 ms"
    )
    figure, plots = axes(2, 3, (10.0, 4.5))
    for j, plot in enumerate(plots.ravel()):
        plot.plot(t, tau[:, j], color="black", linewidth=0.8, label="measured")
        plot.plot(t, fit52[:, j], linewidth=0.8, label="52 parameters")
        plot.plot(t, fit23[:, j], linewidth=0.8, label="23 parameters")
        plot.set(title=f"joint {j + 1}", xlabel="time [s]", ylabel="torque [N.m]")
    plots[0, 0].legend(fontsize=6)
    caption = "Figures 4 and 5: torque measured and fitted with 52 and with 23 parameters"
    paper.figure(figure, "izaguirre_1992_fit", caption)


def friction_by_speed() -> Array:
    """Return the Coulomb friction that acts in the simulation over its full value, shape (6, bands)."""
    robot, (chi, _) = puma(), simulated()
    names = standard_names(robot)
    bare = np.where([name.startswith("F") for name in names], 0.0, chi)
    speed, friction = [], []
    for run in recordings():
        dq = np.gradient(run.q, CONTROL, axis=0)
        part = slice(50, -50, 3)
        frictionless = inverse_dynamics(robot, bare, run.q[part], dq[part], np.gradient(dq, CONTROL, axis=0)[part])
        speed.append(dq[part])
        friction.append(run.tau[part] - frictionless)
    v, f = np.concatenate(speed), np.concatenate(friction)
    share = np.full((6, len(SPEED_BANDS) - 1), np.nan)
    for j in range(6):
        Fc, Fv = (chi[names.index(f"{kind}{j + 1}")] for kind in ("Fc", "Fv"))
        for k, (low, high) in enumerate(itertools.pairwise(SPEED_BANDS)):
            at = (np.abs(v[:, j]) > low) & (np.abs(v[:, j]) <= high)
            if np.count_nonzero(at) > 20:
                share[j, k] = np.mean(f[at, j] * np.sign(v[at, j]) - Fv * np.abs(v[at, j])) / Fc
    return share


def identified() -> Array:
    """Return chi with the averages of the fit of the 23 significant parameters, zeros elsewhere."""
    base = base_set()
    columns = base.columns(puma())
    place = {leader: k for k, leader in enumerate(base.leaders)}
    values = fitted([columns[place[ours]] for ours, _ in TABLE_2.values()])[0].mean(axis=0)
    return standard_vector(puma(), dict(zip([ours for ours, _ in TABLE_2.values()], values, strict=True)))


def following(paper: Paper) -> None:
    """Figures 6 to 9: open loop with the identified model, joints alone and together, slow and fast, with load."""
    paper.heading("Figures 6 to 9: following a trajectory in open loop")
    paper.say(
        "The torque of the identified model (23 parameters, averages of the ten fits) along a nominal motion of 90 deg "
        "drives joints 1, 2 and 3 of the simulated robot without any feedback; joints that do not take part are held. "
        "Slow: 45 deg/s at most, fast: 180 deg/s, as there. Error: the largest deviation from the "
        "nominal "
        "path over 90 deg. On-line gravity: the gravity torque is computed at the actual position, "
        "every 20 ms in the background.",
    )
    seen = paper.searched("open loop", open_loops)
    largest = {
        (name, speed, way): 100 * float(np.abs(seen[f"{name}, {speed}, {way}"]).max()) / 90.0
        for name in MOTIONS for speed in SPEEDS for way in WAYS
    }  # fmt: skip
    rows = [
        (name, speed, *(f"{largest[name, speed, way]:.1f} %" for way in WAYS)) for name in MOTIONS for speed in SPEEDS
    ]
    paper.table(("joints", "speed", "nominal gravity", "on-line gravity"), rows)
    cases = list(MOTIONS)
    paper.say(
        "The robots differ, so that no figure compares; what the paper says in words is tried on the simulated one."
    )
    claims = {
        "fast motion: less than 10 % (Figures 6 and 7)": [largest[n, "fast", "nominal"] < 10.0 for n in cases],
        "smaller errors at high speed than at low speed, in all the experiments": [
            largest[n, "fast", way] < largest[n, "slow", way] for n in cases for way in WAYS
        ],
        "slow motion, single joints: errors considerably reduced by on-line gravity (Figure 8)": [
            largest[n, "slow", "on-line"] < CONSIDERABLY * largest[n, "slow", "nominal"] for n in ("2", "3")
        ],
        "slow motion, three joints: the same (Figure 9)": [
            largest[n, "slow", "on-line"] < CONSIDERABLY * largest[n, "slow", "nominal"] for n in cases[3:]
        ],
    }
    paper.table(("the paper says", "in simulation"), [(text, statement(held)) for text, held in claims.items()])
    paper.say(
        "Why not for single joints: where the gravity torque grows along a motion, nominal gravity acts like a spring "
        "that pulls the joint back to its path, and gravity at the actual position takes that away. Slope of the "
        "gravity "
        "torque along the slow motion, smallest and largest: "
        + ", ".join(
            f"joint {j + 1} {low:.1f} to {high:.1f} N.m/rad" for j, (low, high) in zip((1, 2), springs(), strict=True)
        )
        + ". Where it is positive an open loop with nominal gravity is stable, where it is negative on-line gravity "
        "helps. The paper does not print its motions.",
    )
    figure, plots = axes(2, 4, (11.0, 4.6))
    for column, name in enumerate(MOTIONS):
        for row, speed in enumerate(SPEEDS):
            for way, color in zip(WAYS, ("C0", "C1"), strict=True):
                error = seen[f"{name}, {speed}, {way}"]
                t = np.linspace(0.0, duration(speed), len(error))
                label = [f"{way} gravity"] + [None] * (error.shape[1] - 1)
                plots[row, column].plot(t, error, color=color, linewidth=0.9, label=label)
            plots[row, column].set(title=f"joint {name}, {speed}", xlabel="time [s]", ylabel="error [deg]")
    plots[0, 0].legend(fontsize=6)
    paper.figure(figure, "izaguirre_1992_open_loop", "Figures 6 to 9: error of the position in open loop")
    rows = []
    for speed, cells in zip(SPEEDS, seen["load"], strict=True):
        rows.append((speed, *(f"{x:.1f} %" for x in cells)))
        paper.check(bool(cells[2] < cells[1]), f"load known, {speed}")
    paper.say(f"With a load of {LOAD_KG:g} kg at the flange, joints 1, 2 and 3 together, nominal gravity:")
    paper.table(("speed", "no load", "load unknown to the model", "load's ten parameters given"), rows)
    paper.say("The paper counts the operations with an arbitrary load and shows no motion with one.")


def springs() -> list[tuple[float, float]]:
    """Return the smallest and the largest slope of the gravity torque of joints 2 and 3 along their slow motions."""
    robot, (chi, _) = puma(), simulated()
    found = []
    for j in (1, 2):
        path = motion((j,), "slow")
        q = path.evaluate(np.linspace(0.0, path.duration, 100))[0]
        step = np.zeros(6)
        step[j] = 1e-5
        slope = (gravity_torque(robot, chi, q + step) - gravity_torque(robot, chi, q - step))[:, j] / 2e-5
        found.append((float(slope.min()), float(slope.max())))
    return found


def duration(speed: str) -> float:
    """Return the time of a motion of 90 deg from rest to rest [s]."""
    return 15 / 8 * TRAVEL / float(np.radians(SPEEDS[speed]))


def motion(group: Sequence[int], speed: str) -> PiecewiseQuintic:
    """Return the nominal motion of 90 deg of the joints in the group."""
    end = START.copy()
    end[list(group)] += TRAVEL * np.array([1, 1, -1])[list(group)]
    return through_points(np.array([0.0, duration(speed)]), np.array((START, end)), np.zeros((2, 6)))


def open_loops() -> Search:
    """Return the position errors [deg] of every motion, every 20 ms, and the largest with a load [% of 90 deg]."""
    robot, chi = puma(), identified()
    result: Search = {}
    for name, group in MOTIONS.items():
        for speed in SPEEDS:
            for way in WAYS:
                run = open_loop(robot, chi, motion(group, speed), group, way == "on-line")
                result[f"{name}, {speed}, {way}"] = np.round(np.degrees(run.q - run.nominal)[::10, list(group)], 4)
    load = np.zeros_like(chi)
    c = LOAD_AT
    J = LOAD_KG * (1e-4 * np.eye(3) + c @ c * np.eye(3) - np.outer(c, c))
    load[70:80] = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(LOAD_KG * c), LOAD_KG)
    cells = []
    for speed in SPEEDS:
        for loaded, model in ((False, chi), (True, chi), (True, chi + load)):
            run = open_loop(robot, model, motion((0, 1, 2), speed), (0, 1, 2), False, loaded)
            cells.append(100 * float(np.abs((run.q - run.nominal)[:, :3]).max()) / TRAVEL)
    return result | {"load": np.array(cells).reshape(2, 3)}


def open_loop(
    robot: Robot, chi: Array, path: PiecewiseQuintic, group: Sequence[int], gravity: bool, loaded: bool = False
) -> Drive:
    """Return the run under the model's torque alone; joints outside the group are held."""
    q, dq, ddq = path.evaluate(CONTROL * np.arange(int(np.ceil(path.duration / CONTROL)) + 1))
    ahead = inverse_dynamics(robot, chi, q, dq, ddq)
    nominal = gravity_torque(robot, chi, q)
    held = [j for j in range(6) if j not in group]

    actual = nominal[0]

    def torque(t: float, now: Array, _: Array) -> Array:
        nonlocal actual
        k = round(t / CONTROL)
        if not gravity:
            return ahead[k].copy()
        if k % round(BACKGROUND / CONTROL) == 0:
            actual = gravity_torque(robot, chi, now[None])[0]
        return np.asarray(ahead[k] - nominal[k] + actual)

    return drive(path, torque, held=held, loaded=loaded, noise=0.0)


def rates(paper: Paper) -> None:
    """The computational structure itself: torque error against the background period."""
    paper.heading("The multi-rate structure: torque error against the background period")
    paper.say(
        "The synchronous task multiplies M by ddq and adds h; the background finds M and h = C + Q where the robot was "
        "at its last start. Paths through random points at the speed limits with Table 2's values, friction left "
        "out, and the same paths at a half and a quarter of the speed; the error is the norm of the torque's error "
        "over the norm of the torque, all joints. "
        "In the second column coefficients are one period old when they are first used, as when the background takes "
        "its whole period to compute them.",
    )
    periods = (0.005, 0.010, 0.020, 0.050)
    seen = paper.searched("rates", lambda: {"error": rate_errors(periods)})["error"]
    table = {
        (share, period): seen[i, k] for i, share in enumerate((1.0, 0.5, 0.25)) for k, period in enumerate(periods)
    }
    rows = []
    for period in periods:
        cells = [f"{100 * x:.2f} %" for share in (1.0, 0.5, 0.25) for x in table[share, period]]
        rows.append((f"{1000 * period:g} ms", *cells))
    paper.table(
        ("background period", "full speed", "full, one period old", "half", "half, one period old", "quarter",
         "quarter, one period old"),
        rows,
    )  # fmt: skip
    widths = bandwidths()
    paper.say(
        "The argument from bandwidths: the frequency below which 95 % of the variation lies, mean removed, of "
        "the same paths at full speed; largest over joints, or entries of M. The paper cites Kircanski et al. for "
        "spectra "
        "of position and velocity that are similar and one of the acceleration that is about five times as wide, and "
        "has the coefficients vary an order of magnitude more slowly than accelerations.",
    )
    paper.table(
        ("", "bandwidth", "of that of ddq"),
        [(name, f"{x:.2f} Hz", f"{x / widths['ddq']:.2f}") for name, x in widths.items()],
    )
    slower = max(widths["M"], widths["C + Q"])
    paper.say(
        f"That the spectrum of the acceleration is at least twice as wide as that of the velocity: "
        f"{statement([widths['ddq'] > 2 * widths['dq']])}; that M and C + Q vary an order of magnitude (5 times or "
        "more) "
        f"more slowly than ddq: {statement([5 * slower <= widths['ddq']])}.",
    )
    ratio = table[1.0, 0.020][0] / table[1.0, 0.010][0]
    paper.check(1.7 < ratio < 2.4, "the error grows with the period")
    paper.say(
        f"At the paper's 20 ms the torque is off by {100 * table[1.0, 0.020][0]:.2f} % at full speed. The error is of "
        f"first order: twice the period, {ratio:.2f} times the error. The paper argues from the bandwidths of "
        "position, "
        "velocity and acceleration and gives no figure for the torque. Robots of 1986 with 20 ms were well served; "
        "with generated code the whole torque takes less than a microsecond, so `dynid` computes it whole unless asked "
        "to split. The feedforward node finds the coefficients at a rate of its own (`background_rate`) and in the "
        "thread "
        "that sends torques: threads of Python have no priorities, and a task of lower priority saves nothing where "
        "both "
        "take microseconds. The generated C has them as two functions for "
        "controllers with such threads.",
    )
    figure, plots = axes(1, 1, (6.0, 3.2))
    for share, label in ((1.0, "full speed"), (0.5, "half"), (0.25, "quarter")):
        for old, style in ((0, "o-"), (1, "s--")):
            values = [100 * table[share, p][old] for p in periods]
            plots[0, 0].loglog(
                [1000 * p for p in periods], values, style, label=label + (", one period old" if old else "")
            )
    plots[0, 0].set(xlabel="background period [ms]", ylabel="torque error [%]")
    plots[0, 0].legend(fontsize=6)
    paper.figure(figure, "izaguirre_1992_rates", "Torque error against the background period")


def bandwidths() -> dict[str, float]:
    """Return the frequencies below which 95 % of the variation of motion and coefficients lies [Hz]."""
    robot = puma()
    chi = np.where([name.startswith("F") for name in standard_names(robot)], 0.0, printed_parameters())
    parts: dict[str, list[float]] = {}
    for seed in range(PATHS):
        path = _path(seed)
        step = 0.002
        q, dq, ddq = path.evaluate(np.arange(0.0, path.duration, step))
        series = {
            "q": q, "dq": dq, "ddq": ddq, "M": inertia_matrix(robot, chi, q).reshape(len(q), -1),
            "C + Q": inverse_dynamics(robot, chi, q, dq, np.zeros_like(ddq)),
        }  # fmt: skip
        for name, values in series.items():
            moving = values[:, np.ptp(values, axis=0) > 1e-9 * np.abs(values).max()]
            window = np.hanning(len(values))[:, None]
            power = np.abs(np.fft.rfft(window * (moving - moving.mean(axis=0)), axis=0)) ** 2
            below = np.cumsum(power, axis=0) / power.sum(axis=0)
            frequency = np.fft.rfftfreq(len(values), step)
            parts.setdefault(name, []).append(float(np.max(frequency[np.argmax(below >= 0.95, axis=0)])))
    return {name: float(np.mean(values)) for name, values in parts.items()}


def rate_errors(periods: Sequence[float]) -> Array:
    """Return the errors, shape (speeds, periods, 2), with fresh coefficients and with ones that are a period old."""
    robot = puma()
    chi = np.where([name.startswith("F") for name in standard_names(robot)], 0.0, printed_parameters())
    shares = (1.0, 0.5, 0.25)
    return np.array([[[split_error(robot, chi, s, p, age * p) for age in (0, 1)] for p in periods] for s in shares])


@cache
def _path(seed: int) -> PiecewiseQuintic:
    return random_path(np.random.default_rng(seed), 8)


def split_error(robot: Robot, chi: Array, share: float, period: float, age: float) -> float:
    """Return the torque's relative error when M and h are of the last multiple of the period, `age` [s] before."""
    wrong = right = 0.0
    for seed in range(PATHS):
        path = _path(seed).slowed(share)
        t = np.arange(0.0, path.duration, 0.0071)
        q, dq, ddq = path.evaluate(t)
        tau = inverse_dynamics(robot, chi, q, dq, ddq)
        q0, dq0, _ = path.evaluate(np.floor(t / period + 1e-9) * period - age)
        split = np.einsum("tij,tj->ti", inertia_matrix(robot, chi, q0), ddq)
        split += inverse_dynamics(robot, chi, q0, dq0, np.zeros_like(ddq))
        wrong, right = wrong + float(np.sum((split - tau) ** 2)), right + float(np.sum(tau**2))
    return float(np.sqrt(wrong / right))


def main() -> None:
    """Print the page."""
    args = arguments(str(__doc__).partition("\n\n")[0]).parse_args()
    paper = Paper(
        __file__,
        "Izaguirre et al. 1992: a computational structure for real-time dynamics",
        "A. Izaguirre, M. Hashimoto, R. P. Paul and V. Hayward, 1992. The PUMA 260 is shipped as `puma260`. The "
        "authors' "
        "recordings are not published; where a table needs one, the robot itself is simulated in MuJoCo.",
        args,
    )
    independent(paper)
    appendix(paper)
    gravity_coefficients(paper)
    operations(paper)
    identification(paper)
    following(paper)
    rates(paper)
    paper.finish()


if __name__ == "__main__":
    main()
