# SPDX-License-Identifier: Apache-2.0

"""M. Gautier, Numerical calculation of the base inertial parameters of robots (1991): its tables beside ours."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.linalg
from paper_tables import (
    Better,
    Paper,
    about,
    arguments,
    exactly,
    scattered,
    statement,
    tendency,
    verdict,
)

from ros2_dynid.base_parameters import SOURCES, base_parameters
from ros2_dynid.base_parameters.expressions import expression
from ros2_dynid.base_parameters.numeric import Points, by_qr, by_svd, comparable, model_rows
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.base_parameters.scaling import criterion, scaled_points
from ros2_dynid.base_parameters.symbols import symbolic_terms
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import select_groups, standard_names, standard_vector
from ros2_dynid.model.robot import Array

GROUPS = ("inertial", "rotor")
TABLE_II = """
ZZ1 68.553 120.82 3.8203 -0.14128; Ia1 59.540 96.715 7.9726e-17 1.2633; XX2 56.210 78.129 1.1072 -0.64517;
XY2 53.820 70.393 2.7443 -3.0548e-16; XZ2 52.934 59.110 1.5815 -0.17779; YY2 45.777 55.097 8.3251e-17 -0.52031;
YZ2 41.811 49.868 2.3261 4.7093e-16; ZZ2 40.388 46.651 1.2721 0.025507; MX2 38.433 44.702 28.195 0.24972;
MY2 36.752 40.420 36.526 -9.2725e-18; Ia2 35.341 39.754 8.1084e-18 0.099354; XX3 32.487 37.589 1.2027 -0.68264;
XY3 31.803 35.828 1.7946 0.0086334; XZ3 30.019 32.022 4.9349 1.6515e-16; YY3 26.775 28.993 8.8418e-17 -0.35387;
YZ3 25.016 26.636 5.3286 -3.6194e-16; ZZ3 22.815 23.792 5.7767 -0.32732; MX3 19.409 20.918 22.033 0.036423;
MY3 17.306 19.197 28.448 -0.43167; MZ3 15.057 17.571 3.1513e-17 -0.25570; M3 14.006 14.026 6.7436e-16 1.3217;
Ia3 9.1768 9.9962 0.63825 2.6388e-15; XX4 7.9791 9.5516 3.6147 -0.35180; XY4 7.7318 8.1208 7.3713 2.9775e-17;
XZ4 6.1533 5.9656 14.435 -9.7873e-17; YY4 5.1126 5.0137 2.4113e-16 -0.84556; YZ4 4.4065 4.6084 9.9817 -1.1408e-16;
ZZ4 3.9558 4.1533 14.250 0.49376; MX4 3.0364 3.4905 18.716 1.8375e-17; MY4 2.9987 2.9391 20.361 0.81228;
MZ4 2.7431 2.8430 2.5541e-15 1.5243; M4 1.7903 2.5664 1.0295e-15 -1.6854; Ia4 1.5204 2.0108 3.4103 1.1091e-16;
XX5 1.4065 1.6119 7.1551 -1.0276; XY5 1.3187 1.2859 10.192 1.5193e-18; XZ5 0.87418 1.1429 15.635 1.4820e-17;
YY5 0.77411 0.83973 7.4052e-16 -0.49376; YZ5 0.53603 0.68671 13.316 9.0862e-17; ZZ5 0.47190 0.41455 13.966 -0.53387;
MX5 0.25204 0.28153 20.472 9.1535e-17; MY5 1.6199e-15 1.3828e-15 16.395 0.24349;
MZ5 9.0819e-16 9.5098e-16 6.8609e-16 0.81228; M5 7.6112e-16 8.0914e-16 5.7533e-16 0.082822;
Ia5 5.7027e-16 7.0702e-16 3.9575 1.8610e-16; XX6 4.5733e-16 6.5005e-16 10.858 0.53387;
XY6 2.9198e-16 5.6727e-16 20.111 1.2192e-17; XZ6 2.6984e-16 5.0297e-16 19.148 1.6842e-17;
YY6 2.4353e-16 4.2402e-16 1.6120e-15 0.53387; YZ6 2.2046e-16 3.8045e-16 17.955 -3.5353e-17;
ZZ6 1.3862e-16 3.0940e-16 10.806 2.6972e-17; MX6 9.5979e-17 2.5514e-16 12.469 2.0261e-18;
MY6 5.1004e-17 2.0519e-16 12.599 3.7307e-17; MZ6 2.4312e-17 1.4772e-16 7.8398e-16 -0.24349;
M6 1.0142e-18 3.0844e-17 9.9760e-17 -0.21858; Ia6 0 2.1179e-18 0.54424 3.5993e-17
"""
"""Parameter, |T_ii| of QR with pivoting, sigma_i, |R_ii| of QR without, V2 N; misprints corrected, see the page."""
TABLE_III = """
ZZR1 2.1458 5.0186 XXR2 -0.7925 -2.0500 XY2 0 0.7000 XZR2 -0.3449 -1.0700 YZ2 0 0.6500 ZZR2 0.6250 6.5500
MXR2 0.7113 4.3000 MY2 0 0.6000 XXR3 0.1707 0.7634 XYR3 -0.0157 0.6872 XZ3 0 0.5500 YZ3 0 -0.6000 ZZR3 0.8036 0.9646
MXR3 0.0101 0.5280 MYR3 0.7843 1.1400 Ia3 0 1.0000 XXR4 0.3711 -0.4200 XY4 0 0.0200 XZ4 0 0.0200 YZ4 0 0.0150
ZZR4 0.4148 0.0700 MX4 0 0.0200 MYR4 -0.2806 -0.0700 Ia4 0 0.3000 XXR5 0.3635 0.0200 XY5 0 0.0100 XZ5 0 0.0100
YZ5 0 0.0100 ZZR5 0.7783 0.0600 MX5 0 0.0200 MYR5 0.2119 0.0300 Ia5 0 0.3000 XXR6 -0.7783 0.0000 XY6 0 0.0100
XZ6 0 0.0100 YZ6 0 0.0100 ZZ6 0 0.0200 MX6 0 0.0100 MY6 0 0.0100 Ia6 0 0.3000
"""
"""Base parameter, beta N, value."""
TABLE_IV = {  # the three rows that the paper also quotes in its text
    "ZZR1": {"Ia1": 1, "YY2": 1, "YY3": 1, "MZ3": 0.4, "M3": 0.29, "M4": 0.2904, "M5": 0.2904, "M6": 0.2904},
    "XXR2": {"YY2": -1, "M3": -0.25, "M4": -0.25, "M5": -0.25, "M6": -0.25},
    "XZR2": {"MZ3": -0.5, "M3": -0.1, "M4": -0.1, "M5": -0.1, "M6": -0.1},
}
D3, R3, D4, R4 = 0.5, 0.2, 0.02, 0.6
"""Lengths of Table I [m]."""


def masses(first: int, coefficient: float) -> dict[str, float]:
    """Return the coefficient for the masses of link `first` to 6."""
    return {f"M{j}": coefficient for j in range(first, 7)}


TABLE_V: dict[str, tuple[str, dict[str, float]]] = {  # the 17 regrouping relations, as printed and as coefficients
    "ZZR1": (
        "ZZ1 + YY2 + YY3 + 2 R3 MZ3 + (R3^2 + D3^2 + D4^2) (M4 + M5 + M6) + (R3^2 + D3^2) M3 + Ia1",
        {"YY2": 1, "YY3": 1, "MZ3": 2 * R3, **masses(4, R3**2 + D3**2 + D4**2), "M3": R3**2 + D3**2, "Ia1": 1},
    ),
    "XXR2": ("XX2 - YY2 - D3^2 (M3 + M4 + M5 + M6)", {"YY2": -1, **masses(3, -(D3**2))}),
    "XZR2": ("XZ2 - D3 MZ3 - D3 R3 (M3 + M4 + M5 + M6)", {"MZ3": -D3, **masses(3, -D3 * R3)}),
    "ZZR2": ("ZZ2 + D3^2 (M3 + M4 + M5 + M6) + Ia2", {"Ia2": 1, **masses(3, D3**2)}),
    "MXR2": ("MX2 + D3 (M3 + M4 + M5 + M6)", masses(3, D3)),
    "XXR3": (
        "XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4^2 - D4^2) (M4 + M5 + M6)",
        {"YY3": -1, "YY4": 1, "MZ4": 2 * R4, **masses(4, R4**2 - D4**2)},
    ),
    "XYR3": ("XY3 - D4 MZ4 - D4 R4 (M4 + M5 + M6)", {"MZ4": -D4, **masses(4, -D4 * R4)}),
    "ZZR3": (
        "ZZ3 + YY4 + 2 R4 MZ4 + (D4^2 + R4^2) (M4 + M5 + M6)",
        {"YY4": 1, "MZ4": 2 * R4, **masses(4, D4**2 + R4**2)},
    ),
    "MXR3": ("MX3 + D4 (M4 + M5 + M6)", masses(4, D4)),
    "MYR3": ("MY3 + MZ4 + R4 (M4 + M5 + M6)", {"MZ4": 1, **masses(4, R4)}),
    "XXR4": ("XX4 - YY4 + YY5", {"YY4": -1, "YY5": 1}),
    "ZZR4": ("ZZ4 + YY5", {"YY5": 1}),
    "MYR4": ("MY4 - MZ5", {"MZ5": -1}),
    "XXR5": ("XX5 - YY5 + YY6", {"YY5": -1, "YY6": 1}),
    "ZZR5": ("ZZ5 + YY6", {"YY6": 1}),
    "MYR5": ("MY5 + MZ6", {"MZ6": 1}),
    "XXR6": ("XX6 - YY6", {"YY6": -1}),
}
SCALING = {"accel": about(1e4), "torque": about(1e6), "energy": about(1e8)}
"""S that the paper reports for d0, d and h with the same random points."""
SYMBOLS = {"accel": "d0", "torque": "d", "energy": "h"}
SPEED = 2.0
"""Largest random velocity [rad/s], with which the sizes in Table II are the paper's, and acceleration [rad/s^2]."""
SEEDS = 20
"""Random sets of points behind every mean."""
SPREAD_SETS = 200
"""Random sets behind S, whose order is to be decided."""
SCALED_SETS, STARTS, SWEEPS = 3, 2, 40
"""Sets scaled row by row; random starts for each row, of which the best are kept; sweeps of the search."""
COEFFICIENT = 1e-12
"""Coefficients of beta, of the order of 1, agree within this: the rounding of a factorisation of 55 columns."""
ROUNDING = 1e-13
"""Values below are rounding, the paper's and ours."""


@cache
def affecting() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names and places in chi of the 55 parameters that affect the model."""
    robot = load_robot("puma560")
    place = {name: k for k, name in enumerate(standard_names(robot))}
    names = select_groups(robot, GROUPS)
    h = model_rows(robot, "energy", random_set(0, 60), [place[name] for name in names])[:, 0]
    live = [name for name, column in zip(names, h.T, strict=True) if np.ptp(column) > 1e-12]
    return tuple(live), tuple(place[name] for name in live)


def random_set(seed: int, count: int) -> Points:
    """Return random points: any angle, velocities and accelerations between -SPEED and SPEED, SI units."""
    q, dq, ddq = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, count, 6)) * np.array(
        [[[np.pi]], [[SPEED]], [[SPEED]]]
    )
    return Points(q, dq, ddq, np.tile(load_robot("puma560").gravity, (count, 1)))


def spread_of(W: Array) -> float:
    """Return S, the largest over the smallest absolute element of W that is not zero."""
    size = np.abs(W)
    return float(size.max() / size[size > ROUNDING * size.max()].min())


def diagonals(W: Array) -> tuple[Array, Array, Array]:
    """Return |T_ii| of QR with pivoting, the singular values, and |R_ii| of QR without pivoting."""
    T = np.abs(np.diag(scipy.linalg.qr(W, mode="r", pivoting=True)[0]))
    return T, np.linalg.svd(W, compute_uv=False), np.abs(np.diag(np.linalg.qr(W, mode="r")))


def beta_of(base: BaseParameters) -> tuple[list[str], Array]:
    """Return X2, the 15 regrouped parameters in Table V's order, and beta, shape (40, 15)."""
    deleted = [name for name in affecting()[0] if name not in base.leaders]
    return deleted, base.M[:, [base.standard_names.index(name) for name in deleted]]


def rank_of_energy(paper: Paper, base: BaseParameters) -> None:
    """Table II: the rank of W made of 55 random samples of h, and the choice of the base parameters."""
    robot, (names, columns) = load_robot("puma560"), affecting()
    seen = [diagonals(model_rows(robot, "energy", random_set(seed, 55), columns)[:, 0]) for seed in range(1, SEEDS + 1)]
    with np.errstate(divide="ignore"):
        T, sigma, R = (np.exp(np.mean(np.log(column), axis=0)) for column in zip(*seen, strict=True))
    tau = 55 * np.max([s[1][0] for s in seen]) * np.finfo(float).eps
    table = {row.split()[0]: [float(x) for x in row.split()[1:]] for row in TABLE_II.replace("\n", " ").split(";")}
    assert tuple(table) == names, "the columns of W are not those of the paper"
    theirs = np.array(list(table.values()))
    level = [
        float(np.exp(np.mean(np.log(ours[real] / column[real]))))
        for ours, column in zip((T, sigma, R), theirs.T[:3], strict=True)
        for real in [column > ROUNDING]
    ]
    deleted, beta = beta_of(base)
    V2N = dict(zip(names, theirs[:, 3], strict=True))
    from_deleted = -beta @ np.array([V2N[name] for name in deleted])
    paper.heading("Table II: number and choice of the base parameters")
    paper.say(
        f"W has {len(names)} columns that are not constant (paper: 55) and 55 random rows of h. T, sigma and R are "
        f"geometric means over {SEEDS} random sets; the paper shows one set, whose distribution it does not give. "
        f"With -pi to pi rad and -{SPEED:g} to {SPEED:g} rad/s the sizes are its own: the geometric mean of ours over "
        f"the paper's is {level[0]:.2f} for T, {level[1]:.2f} for sigma and ~{level[2]:.2f} for R. Below a "
        "deleted column R is also what is left beside directions that rounding made, the paper's and ours: such "
        "values are marked with ~, they differ by some percent from processor to processor. What is to agree "
        f"row by row is which values are rounding: below tau = {tau:.1e} for the largest of our sets (paper: "
        "5.2e-14, which "
        f"is 55 T_11 eps with its T_11 and the eps = 2^-56 of a VAX: {55 * 68.553 * 2.0**-56:.2e}). Zero stands for "
        "such a value.",
    )
    paper.say(
        "V2 N is a random combination of the null vectors of W. Its values depend on N and on the basis that the SVD "
        "chose, but W V2 N = 0 ties them: the entries of the base columns follow from those of the deleted ones by "
        "-beta (eq. 27). The last but one column shows that for the printed ones, with our beta.",
    )
    rows, same_class, off = [], [], []
    zero_T, first = theirs[:, 0] < 1e-13, int(np.argmax(tau > R))
    for i, name in enumerate(names):
        expected = float(from_deleted[base.leaders.index(name)]) if name in base.leaders else None
        matches = [
            zero_T[i] == bool(tau > T[i]),
            bool(theirs[i, 1] < 1e-13) == bool(tau > sigma[i]),
            bool(theirs[i, 2] < 1e-13) == bool(tau > R[i]) == (name in deleted),
        ]
        if expected is not None:
            unit = 10.0 ** (np.floor(np.log10(max(abs(theirs[i, 3]), 1e-9))) - 4)
            spread = unit + 1e-4
            matches.append(abs(expected - theirs[i, 3]) < 2 * spread)
            off.append(abs(expected - theirs[i, 3]))
        same_class.append(all(matches))
        rows.append(
            (i + 1, f"`{name}`", _cell(theirs[i, 0]), _cell(T[i]), _cell(theirs[i, 1]), _cell(sigma[i]),
             _cell(theirs[i, 2]), "~" * int(i > first and R[i] > ROUNDING) + _cell(R[i]),
             _cell(theirs[i, 3]), "deleted" if expected is None else _cell(expected), same(all(matches)))
        )  # fmt: skip
    paper.check(all(same_class), "Table II")
    paper.table(
        ("i", "X_i", "T, paper", "T, ours", "sigma, paper", "ours", "R, paper", "ours", "V2 N, paper",
         "from its deleted rows", "verdict"),
        rows,
    )  # fmt: skip
    sizes = [scattered([draw[0][i] for draw in seen]) for i in range(40)]
    inside = sum(size.low <= row[0] <= size.high for size, row in zip(sizes, theirs, strict=False))
    over_rounding = paper.searched(
        "gaps", lambda: {name: np.array([s[k][39] / s[k][40] for s in seen]) for k, name in enumerate(("T", "sigma"))}
    )
    gaps = {
        "T_40 / T_41": (about(1.6e14), over_rounding["T"]),
        "sigma_40 / sigma_41": (about(2.0e14), over_rounding["sigma"]),
    }
    numbers = {
        "diagonal elements of R that are zero": ("15", 15, int(np.sum(tau > R))),
        "zero rows of V2": ("23 (text: 17)", 23, int(np.sum(np.abs(from_deleted) < 1e-9))),
    }
    rows = []
    for name, (theirs_here, draws) in gaps.items():
        ours = scattered(draws)
        rows.append((name, f"{theirs_here.value:.1e}", f"{ours.value:.1e}", f"{ours.low:.1e} to {ours.high:.1e}",
                     f"{ours.value / theirs_here.value:.2g}", verdict(ours, theirs_here, Better.HIGHER)))  # fmt: skip
    for name, (text, theirs_here, count) in numbers.items():
        word = verdict(exactly(count), exactly(theirs_here), Better.NEITHER)
        rows.append((name, text, count, "", f"{count / theirs_here:.2g}", word))
    paper.table(("", "paper", f"ours, median of {SEEDS} sets", "5 to 95 %", "ratio", "verdict"), rows)
    paper.check(all(1e13 < gap < 1e16 for gap in gaps["T_40 / T_41"][1]), "gap between the 40th and the 41st value")
    paper.say(
        "The verdict of a row of Table II is on which values are rounding and on V2 N, not on the sizes of T, sigma "
        "and R: those depend on the distribution of the points. Of the paper's 40 values of T that are not zero, "
        f"{inside} lie between the 5 % and the 95 % quantile of our {SEEDS} sets. T_41 and sigma_41 are rounding, "
        "which differs from one processor to another: the paper's gaps count as known within a factor of 2.",
    )
    paper.say(
        f"The largest difference of the printed V2 N from what its own deleted rows give is {max(off):.1e}: rounding "
        "of five digits. The text speaks of 17 zero rows of V2 that belong to the unchanged parameters; the table has "
        "23 of them, as it must: 17 is the number of those that change. Misprints corrected above: sigma_5 "
        "(5.9110D+00 for D+01), T_35 (3187D+00 for 1.3187D+00), sigma_38 (D+01 for D-01), R_38 (D+17 for D+01), "
        "the name of row 49 (XZ6 for YZ6), and the sign of V2 N for ZZ1: printed 1.4128D-01, where the other 54 "
        "entries ask "
        "for -1.4128D-01.",
    )


def same(agrees: bool) -> str:
    """Return the verdict on what either is as in the paper or is not."""
    return verdict(exactly(agrees), exactly(True), Better.NEITHER)


def _mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _cell(x: float) -> str:
    return "0" if abs(x) < ROUNDING else f"{x:.3g}"


def values(paper: Paper, base: BaseParameters) -> None:
    """Table III, IV and V: values and relations of the 40 base parameters."""
    robot = load_robot("puma560")
    ours = dict(zip(base.names, base.values(robot, standard_vector(robot)), strict=True))
    words = TABLE_III.split()
    table = {name: (float(k), float(x)) for name, k, x in zip(words[::3], words[1::3], words[2::3], strict=True)}
    deleted, beta = beta_of(base)
    K = np.array([table[name][0] for name in base.names])
    N = np.linalg.lstsq(beta, K, rcond=None)[0]
    paper.heading("Table III: values of the 40 base parameters")
    counts = (len(base.standard_names), len(base.eliminated), len(base.regrouped), len(base))
    changed = int(np.sum(np.any(beta != 0, axis=1)))
    theirs, ours_here = (66, 11, 15, 40, 17, 23), (*counts, changed, len(base) - changed)
    words = (verdict(exactly(a), exactly(b), Better.NEITHER) for a, b in zip(ours_here, theirs, strict=True))
    paper.table(
        ("", "standard", "without effect", "regrouped", "base", "changed by regrouping", "not changed"),
        [("paper", *theirs), ("ours", *ours_here), ("verdict", *words)],
    )
    paper.check(ours_here == theirs, "counts")
    paper.say(
        "Units kg.m^2 (kg.m for MX, MY). beta N has a random N, which the paper does not print; its column of 40 "
        f"determines {np.linalg.matrix_rank(beta)} combinations of the 15 elements, so that the other 27 entries are "
        "a test of our beta: ours is beta times the N that fits the printed column best.",
    )
    cells = []
    for k, (name, (random, x)) in enumerate(table.items()):
        agrees = name in ours and abs(ours[name] - x) < 0.5e-4 + 1e-12 and abs(beta[k] @ N - random) < 1e-4
        paper.check(agrees, f"Table III, {name}")
        cells.append(
            (f"`{name}`", f"{random:.4f}", f"{beta[k] @ N + 0.0:.4f}", f"{x:.4f}", f"{ours[name] + 0.0:.4f}",
             same(agrees))
        )  # fmt: skip
    half = len(cells) // 2
    rows = [(*left, *right) for left, right in zip(cells[:half], cells[half:], strict=True)]
    paper.table(("parameter", "beta N, paper", "ours", "value, paper", "ours", "verdict") * 2, rows)

    paper.heading("Table IV: the 17 rows of beta that are not zero")
    paper.say(
        "Ours. Of the paper's table the text at hand has the three rows that it quotes, ZZR1, XXR2 and XZR2; the "
        "others are checked by Table V with its lengths put in. Empty cells are zero.",
    )
    rows = []
    for k, name in enumerate(base.names):
        if not np.any(beta[k]):
            continue
        expected = TABLE_IV.get(name) or dict(TABLE_V[name][1])
        agrees = all(abs(c - expected.get(p, 0.0)) < 1e-12 for p, c in zip(deleted, beta[k], strict=True))
        paper.check(agrees, f"Table IV, {name}")
        rows.append((f"`{name}`", *(f"{c:.6g}" if c else "" for c in beta[k]), same(agrees)))
    paper.table(("", *(f"`{name}`" for name in deleted), "verdict"), rows)

    paper.heading("Table V: the 17 regrouping relations, with the lengths as symbols")
    paper.say("Compared are all coefficients, to 1e-12.")
    symbolic = symbolic_terms(robot, base)
    rows = []
    for name, (relation, coefficients) in TABLE_V.items():
        k = base.names.index(name)
        terms, expected = base.terms(k), {base.leaders[k]: 1.0, **coefficients}
        agrees = set(terms) == set(expected) and all(abs(terms[p] - c) < 1e-12 for p, c in expected.items())
        paper.check(agrees, f"Table V, {name}")
        text = expression(base, k, symbolic).partition(" = ")[2]
        rows.append((f"`{name}`", relation, text, same(agrees)))
    paper.table(("", "paper", "ours", "verdict"), rows)
    unchanged = [name for name, row in zip(base.names, beta, strict=True) if not np.any(row)]
    paper.say(
        f"Without effect, the paper's 11: {', '.join(base.eliminated)}. Not changed, its 23: {', '.join(unchanged)}."
    )


def models(paper: Paper, base: BaseParameters) -> None:
    """All methods and models agree; a robot with loops."""
    robot, (names, columns) = load_robot("puma560"), affecting()
    exact = base_parameters(robot, method="closed-form", groups=GROUPS)
    beta = exact.M[:, [exact.standard_names.index(name) for name in names]]
    paper.heading("Three models, two methods, one result")
    paper.say(
        "The paper says that the results are the same for h, d and d0 and for QR and SVD. Each cell is the largest "
        "difference of any coefficient of beta, as the factorisation gives it, from our closed form; `dynid base` "
        f"removes such rounding. Same: the same columns are deleted, and no difference above {COEFFICIENT:g}.",
    )
    rows = []
    for source in ("accel", "torque", "energy"):
        points = random_set(1, 130 if source == "energy" else 40)
        W = comparable(model_rows(robot, source, points, columns), source, points)
        found = {"QR": by_qr(W), "SVD": by_svd(W)}
        differences = {
            m: np.abs(d.beta - beta).max() if [names[k] for k in d.leaders] == list(exact.leaders) else np.inf
            for m, d in found.items()
        }
        agrees = [difference < COEFFICIENT for difference in differences.values()]
        paper.check(all(agrees), f"methods on {source}")
        rows.append((SYMBOLS[source], *(f"{difference:.0e}" for difference in differences.values()), statement(agrees)))
    paper.table(("model", "QR", "SVD", "the paper's statement"), rows)
    loop = load_robot("hitachi_hpr")
    bases = {(s, m): base_parameters(loop, source=s, method=m, groups=GROUPS) for s in SOURCES for m in ("qr", "svd")}
    numbers = {len(found) for found in bases.values()}
    paper.check(len(numbers) == 1, "loop robot")
    paper.say(
        "Robot with a parallelogram (HITACHI-HPR): the paper prints its constraints, theta_2 = theta_3 - theta_4 and "
        "theta_5 = 3 pi - theta_4, and no geometry and no numbers, so that its result cannot be compared. The shipped "
        f"`hitachi_hpr` has these constraints on links of our own: {len(loop.joints)} joints, {len(loop.active)} "
        f"active, {sorted(numbers)[0]} base parameters, the same from d, d0 and h by QR and by SVD.",
    )


def scaling(paper: Paper) -> None:
    """Scaling of W: how large S is at random, how small it becomes row by row, and what the rank gains."""
    robot, (_, columns) = load_robot("puma560"), affecting()
    paper.heading("Scaling of W")
    paper.say(
        "S is the largest over the smallest absolute element of W that is not zero, SI units: 55 rows of h, and 60 of "
        f"d and d0 from 10 points. Median, 5 % and 95 % quantile over {SPREAD_SETS} random sets. The smallest of "
        "thousands of random elements is a matter of luck, so that S scatters by orders of magnitude.",
    )
    rows, seen = [], []
    for source in ("accel", "torque", "energy"):
        count = 55 if source == "energy" else 10
        sets = (random_set(k, count) for k in range(1, SPREAD_SETS + 1))
        S = [spread_of(model_rows(robot, source, points, columns).reshape(-1, 55)) for points in sets]
        seen.append(np.array(S))
        ours, theirs = scattered(S), SCALING[source]
        rows.append(
            (SYMBOLS[source], f"{theirs.value:.0e}", f"{ours.value:.1e}", f"{ours.low:.0e} to {ours.high:.0e}",
             f"{ours.value / theirs.value:.1g}", verdict(ours, theirs))
        )  # fmt: skip
    paper.table(("model", "S, paper", "S, ours", "5 to 95 %", "ratio", "verdict"), rows)
    paper.say(
        "The paper's order, from one set: d0 is the best, then d, then h. d0 scaled better than d: "
        f"{tendency(seen[0] < seen[1])}. d scaled better than h: {tendency(seen[1] < seen[2])}.",
    )
    found = paper.searched("scaled", lambda: {str(seed): _scaled(seed) for seed in range(1, SCALED_SETS + 1)})
    matrices = {
        "random": [model_rows(robot, "energy", random_set(k, 55), columns)[:, 0] for k in range(1, SCALED_SETS + 1)],
        "scaled": [
            model_rows(robot, "energy", _points(found[str(k)]), columns)[:, 0] for k in range(1, SCALED_SETS + 1)
        ],
    }
    gaps = paper.searched("scaled_gaps", lambda: {kind: _gaps(made) for kind, made in matrices.items()})
    rows, figures = [], {"random": [], "scaled": []}
    for seed in range(1, SCALED_SETS + 1):
        for kind in figures:
            matrix, gap = matrices[kind][seed - 1], float(gaps[kind][seed - 1])
            size = np.abs(matrix)
            figures[kind].append((float(np.median(size.max(1) / size.min(1))), spread_of(matrix), gap))
        rows.append((seed, *(f"{x:.2g}" for kind in ("random", "scaled") for x in figures[kind][-1])))
    means = {kind: [_mean(list(column)) for column in zip(*seen, strict=True)] for kind, seen in figures.items()}
    rows.append(("mean", *(f"{x:.2g}" for kind in ("random", "scaled") for x in means[kind])))
    rows.append(("paper", "", "1e+08", "1.6e+14", "about 10", "about 100", "1.6e+15"))
    scaled = list(zip(*figures["scaled"], strict=True))
    gains = [s[2] / r[2] for s, r in zip(figures["scaled"], figures["random"], strict=True)]
    gain = scattered(gains)
    rows.append(
        ("verdict", "", "", "", verdict(scattered(scaled[0]), about(10)), verdict(scattered(scaled[1]), about(100)),
         verdict(scattered(scaled[2]), about(1.6e15), Better.HIGHER))
    )  # fmt: skip
    paper.say(
        f"Row by row, as the paper does it: J = |h|_F + S of each row is minimised without derivatives, from {STARTS} "
        f"random points a row, of which the better half is kept ({SWEEPS} sweeps).",
    )
    paper.table(
        ("set", "S of a row, random", "S, random", "T_40 / T_41, random", "S of a row, scaled", "S, scaled",
         "T_40 / T_41, scaled"),
        rows,
    )  # fmt: skip
    paper.check(means["scaled"][1] < 300, "scaling of h")
    paper.say(
        "The paper says that scaling improves T_40 / T_41 by a factor of 10; here the median factor is "
        f"{gain.value:.1f}: {verdict(gain, about(10), Better.HIGHER)}.",
    )


def _gaps(matrices: list[Array]) -> Array:
    """Return T_40 / T_41 of each: over what is rounding, so that it differs from one processor to another."""
    values = [diagonals(matrix)[0] for matrix in matrices]
    return np.array([T[39] / T[40] for T in values])


def _points(x: Array) -> Points:
    """Return points from q and dq side by side, shape (N, 12)."""
    return Points(x[:, :6], x[:, 6:], np.zeros((len(x), 6)), np.tile(load_robot("puma560").gravity, (len(x), 1)))


def _scaled(seed: int) -> Array:
    """Return 55 scaled points, q and dq side by side, shape (55, 12)."""
    robot, (_, columns) = load_robot("puma560"), affecting()
    points = scaled_points(robot, "energy", random_set(seed, 55 * STARTS), list(columns), sweeps=SWEEPS, seed=seed)
    rows = model_rows(robot, "energy", points, columns)
    best = np.sort(np.argsort(criterion(rows, np.abs(rows[0]) >= 0, 0.0, 1.0))[:55])
    return np.hstack((points.q, points.dq))[best]


def main() -> None:
    """Print the page."""
    args = arguments(str(__doc__)).parse_args()
    paper = Paper(
        __file__,
        "Gautier 1991: numerical calculation of the base inertial parameters",
        "M. Gautier, 1991. The PUMA 560 of its Table I is shipped as `puma560`. Everything here is computed; nothing "
        "needs a recording.",
        args,
    )
    base = base_parameters(load_robot("puma560"), groups=GROUPS)
    rank_of_energy(paper, base)
    values(paper, base)
    models(paper, base)
    scaling(paper)
    paper.finish()


if __name__ == "__main__":
    main()
