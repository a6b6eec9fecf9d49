"""M. Gautier, Numerical calculation of the base inertial parameters of robots (1991): its tables beside ours."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from paper_tables import Paper, arguments

from ros2_dynid.base_parameters import METHODS, SOURCES, base_parameters
from ros2_dynid.base_parameters.expressions import expression
from ros2_dynid.base_parameters.symbols import symbolic_terms
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import select_groups, standard_names, standard_vector

GROUPS = ("inertial", "rotor")
TABLE_II = {  # first, 40th and 41st value of each column, and the columns that R names as dependent
    "T of QR with pivoting": (6.8553e01, 2.5204e-01, 1.6199e-15),
    "singular values": (1.2082e02, 2.8153e-01, 1.3828e-15),
}
TABLE_III = """
ZZR1 5.0186 XXR2 -2.0500 XY2 0.7000 XZR2 -1.0700 YZ2 0.6500 ZZR2 6.5500 MXR2 4.3000 MY2 0.6000 XXR3 0.7634 XYR3 0.6872
XZ3 0.5500 YZ3 -0.6000 ZZR3 0.9646 MXR3 0.5280 MYR3 1.1400 Ia3 1.0000 XXR4 -0.4200 XY4 0.0200 XZ4 0.0200 YZ4 0.0150
ZZR4 0.0700 MX4 0.0200 MYR4 -0.0700 Ia4 0.3000 XXR5 0.0200 XY5 0.0100 XZ5 0.0100 YZ5 0.0100 ZZR5 0.0600 MX5 0.0200
MYR5 0.0300 Ia5 0.3000 XXR6 0.0000 XY6 0.0100 XZ6 0.0100 YZ6 0.0100 ZZ6 0.0200 MX6 0.0100 MY6 0.0100 Ia6 0.3000
"""
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
SCALING = {"accel": 1e4, "torque": 1e6, "energy": 1e8}
"""S that the paper reports for d0, d and h with the same random points."""


def rank_of_energy(paper: Paper) -> None:
    """Table II: the rank of W made of 55 random samples of h."""
    robot = load_robot("puma560")
    rng = np.random.default_rng(0)
    q, dq = rng.uniform(-np.pi, np.pi, (2, 56, 6))
    place = {name: k for k, name in enumerate(standard_names(robot))}
    h = energy_regressor(robot, q, dq)[:, [place[name] for name in select_groups(robot, GROUPS)]]
    W = h[1:] - h[0]  # differences: what is constant has no effect
    W = W[:, np.abs(W).max(axis=0) > 1e-12]
    T = np.abs(np.diag(scipy.linalg.qr(W, mode="r", pivoting=True)[0]))
    sigma = np.linalg.svd(W, compute_uv=False)
    R = np.abs(np.diag(np.linalg.qr(W, mode="r")))
    tau = len(W) * R.max() * np.finfo(float).eps
    paper.heading("Table II: the number of base parameters")
    paper.say(
        f"W has {W.shape[1]} columns that are not constant (paper: 55), from {len(W)} random differences of h. "
        "A value falls from the 40th to the 41st by fourteen orders of magnitude: the rank is 40."
    )
    rows = []
    for (name, printed), ours in zip(TABLE_II.items(), (T, sigma), strict=True):
        agrees = paper.check(ours[39] > tau > ours[40], f"rank by {name}")
        rows.append(
            (name, *(f"{x:.1e}" for pair in zip(printed, ours[[0, 39, 40]], strict=True) for x in pair), agrees)
        )
    head = ("", "1st, paper", "ours", "40th, paper", "ours", "41st, paper", "ours", "rank 40")
    paper.table(head, rows)
    dropped = int(np.sum(tau >= R))
    paper.say(
        f"R of QR without pivoting has {dropped} diagonal elements below {tau:.1e} (paper: 15 below 5.2e-14): "
        f"{paper.check(dropped == 15, 'columns to delete')}. Values differ with the random points, the gap does not."
    )


def values(paper: Paper) -> None:
    """Table III and V: values and relations of the 40 base parameters."""
    robot = load_robot("puma560")
    base = base_parameters(robot, groups=GROUPS)
    ours = dict(zip(base.names, base.values(robot, standard_vector(robot)), strict=True))
    words = TABLE_III.split()
    printed = {name: float(x) for name, x in zip(words[::2], words[1::2], strict=True)}
    paper.heading("Table III: values of the 40 base parameters")
    paper.say(
        f"{len(base.standard_names)} standard parameters, {len(base.eliminated)} without effect, {len(base.regrouped)} "
        f"regrouped, {len(base)} base parameters (paper: 66, 11, 15, 40). Units kg.m^2 (kg.m for MX, MY)."
    )
    counts = (len(base.standard_names), len(base.eliminated), len(base.regrouped), len(base))
    paper.check(counts == (66, 11, 15, 40), "counts of Table V")
    cells = []
    for name, x in printed.items():
        agrees = paper.check(name in ours and abs(ours[name] - x) < 0.5e-4 + 1e-12, f"Table III, {name}")
        cells.append((f"`{name}`", f"{x:.4f}", f"{ours[name] + 0.0:.4f}", agrees))
    half = len(cells) // 2
    rows = [(*left, *right) for left, right in zip(cells[:half], cells[half:], strict=True)]
    paper.table(("parameter", "paper", "ours", "agrees") * 2, rows)

    paper.heading("Table V: the 17 regrouping relations, with the lengths as symbols")
    paper.say("They agree if every coefficient is the same within 1e-12.")
    symbolic = symbolic_terms(robot, base)
    rows = []
    for name, (relation, coefficients) in TABLE_V.items():
        k = base.names.index(name)
        ours_here, theirs = base.terms(k), {base.leaders[k]: 1.0, **coefficients}
        same = set(ours_here) == set(theirs) and all(abs(ours_here[p] - c) < 1e-12 for p, c in theirs.items())
        text = expression(base, k, symbolic).partition(" = ")[2]
        rows.append((f"`{name}`", relation, text, paper.check(same, f"Table V, {name}")))
    paper.table(("", "paper", "ours", "agrees"), rows)


def models(paper: Paper) -> None:
    """All methods and models agree; how well they are scaled; a robot with loops."""
    robot = load_robot("puma560")
    reference = base_parameters(robot, groups=GROUPS)
    paper.heading("Three models, three methods, one result; scaling of W")
    paper.say(
        "S is the largest over the smallest absolute element of W that is not zero. The paper gives orders of "
        "magnitude, for its own random points. Each cell under a method is the largest "
        "difference of any coefficient from QR on d."
    )
    rows = []
    for source in ("accel", "torque", "energy"):
        found = {m: base_parameters(robot, source=source, method=m, groups=GROUPS) for m in METHODS}
        differences = {
            m: np.abs(b.M - reference.M).max() if b.names == reference.names else np.inf for m, b in found.items()
        }
        scaled = base_parameters(robot, source=source, groups=GROUPS, scale=True)
        agrees = paper.check(max(differences.values()) < 1e-9, f"methods on {source}")
        symbol = {"accel": "d0", "torque": "d", "energy": "h"}[source]
        rows.append(
            (symbol, f"{SCALING[source]:.0e}", f"{found['qr'].S:.0e}", f"{scaled.S:.0e}",
             *(f"{differences[m]:.0e}" for m in METHODS), agrees)
        )  # fmt: skip
    paper.table(("model", "S, paper", "S, ours", "S, scaled points", *METHODS, "agree"), rows)
    loop = load_robot("hitachi_hpr")
    same = {(s, m): base_parameters(loop, source=s, method=m, groups=GROUPS) for s in SOURCES for m in ("qr", "svd")}
    numbers = {len(base) for base in same.values()}
    paper.say(
        "Robot with a parallelogram (HITACHI-HPR): the paper prints no geometry and no numbers. The shipped "
        f"`hitachi_hpr` has its constraints on links of our own: {len(loop.joints)} joints, {len(loop.active)} active, "
        f"{sorted(numbers)[0]} base parameters, the same from d, d0 and h by QR and by SVD: "
        f"{paper.check(len(numbers) == 1, 'loop robot')}."
    )


def main() -> None:
    """Print the tables."""
    args = arguments(str(__doc__)).parse_args()
    paper = Paper(__file__)
    rank_of_energy(paper)
    values(paper)
    models(paper)
    paper.finish(args)


if __name__ == "__main__":
    main()
