# SPDX-License-Identifier: Apache-2.0

"""S.-K. Lin, Minimal linear combinations of the inertia parameters of a manipulator (1995): its tables beside ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from paper_tables import Better, Paper, arguments, axes, exactly, statement, verdict

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.expressions import combination
from ros2_dynid.base_parameters.minimal_combinations import combination_matrix, minimal_combinations
from ros2_dynid.codegen.graph import Count, Graph, evaluate
from ros2_dynid.codegen.minimal_recursion import minimal_inertia, minimal_torque
from ros2_dynid.codegen.program import ProgramOptions, chosen_parameters, program_of
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.identification.estimators.from_last_link import identify_from_last_link
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import group_of, standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Array, Joint, Robot

Operations = tuple[int, int]
"""Multiplications and additions."""
TABLE_II: dict[str, tuple[Operations, Operations]] = {  # joints i >= s: rotational, translational
    "w": ((8, 5), (8, 4)),
    "dw": ((10, 7), (8, 4)),
    "Omega": ((6, 9), (6, 9)),
    "alpha": ((0, 3), (0, 3)),
    "D": ((0, 0), (5, 4)),
    "a": ((17, 13), (18, 13)),
    "rho": ((6, 3), (3, 0)),
    "zeta": ((22, 19), (9, 5)),
    "p": ((8, 7), (8, 7)),
    "e, tau": ((12, 11), (12, 12)),
}
TABLE_III = {  # general robot with n rotational joints; Stanford arm; Stanford arm with simplified links
    "Balafoutis et al.": ((93, -69), (81, -66), None, None),
    "Gautier and Khalil": ((92, -127), (81, -117), (232, 218), (142, 99)),
    "Lin": ((89, -82), (77, -71), (231, 219), (139, 101)),
}
SIMPLIFIED = [f"{kind}{j}" for j in range(1, 7) for kind in ("XX", "YY", "ZZ", "M")]
SIMPLIFIED += ["MY2", "MZ3", "MY4", "MY5", "MZ6"]
"""Links whose axes are principal ones, with one first moment each: our reading of simplified links."""
NOISES = (0.0, 1e-4, 1e-3, 1e-2)
DRAWS = 20


def general_robot(kinds: list[int], *, right_angles: bool = False) -> Robot:
    """Return a robot without a zero length, gravity along no axis, axes at no right angle unless asked for."""
    rng = np.random.default_rng(5)
    joints = []
    for j, sigma in enumerate(kinds):
        alpha, d, r = rng.uniform(0.2, 1.2, 3)
        alpha, theta = np.pi / 2 if right_angles else alpha, 0.7 if sigma == PRISMATIC else 0.0
        joints.append(Joint(f"j{j + 1}", j, sigma, 0.0, 0.0, alpha, d, theta, r))
    return Robot("general", tuple(joints), gravity=np.array([1.0, 2.0, -9.0]))


def operations(robot: Robot, only: list[str]) -> Operations:
    """Return multiplications and additions of the generated inverse dynamics, parameters being symbols."""
    parameters, values = chosen_parameters(robot, only)
    count = program_of(robot, parameters, values, ProgramOptions(), functions=("torque",)).functions["torque"].count
    return count.multiplications, count.additions


def lins(robot: Robot, keep: frozenset[str] | None = None) -> Operations:
    """Return multiplications and additions of Lin's recursion, generated."""
    graph = Graph()
    count = graph.count(minimal_torque(graph, robot, keep).outputs)
    return count.multiplications, count.additions


def text(count: Operations | None) -> str:
    """Return a count for a table."""
    return "" if count is None else f"{count[0]} M, {count[1]} A"


def compared(ours: Operations, paper: Operations) -> str:
    """Return the verdict on two counts by their sums."""
    return verdict(exactly(sum(ours)), exactly(sum(paper)))


def combinations(paper: Paper) -> None:
    """Theorem 2 and Table I for the Stanford arm."""
    robot = load_robot("stanford")
    found = minimal_combinations(robot)
    base = base_parameters(robot, groups=("inertial",))
    names, rows, _ = combination_matrix(robot)
    order = [base.standard_names.index(name) for name in names]
    together = np.linalg.matrix_rank(np.vstack((rows, base.M[:, order])))
    paper.heading("Theorem 2 and Table I: the minimal linear combinations of the Stanford arm")
    paper.say(
        "The paper gives the rule and no list. Ours, from the composite bodies of eq. 8 to 15; joint 3 is "
        "translational, r = 1, s = 2. U in kg.m^2, k in kg.m, m in kg. Its Table I sets the constants of a body "
        "before a "
        "translational joint beside those of Gautier et al.; the text at hand has none of its cells. The last column "
        "is "
        "that comparison for this arm: the base parameter with the same leader, as Gautier's rules make it.",
    )
    leaders = {
        "U33": "ZZ", "U11-U22": "XX", "U12": "XY", "U13": "XZ", "U23": "YZ", "kx": "MX", "ky": "MY", "kz": "MZ", "m": "M"  # noqa: E501
    }  # fmt: skip
    table, same, before_translational = [], 0, []
    for c in found:
        kind, _, joint = c.name.rpartition("_")
        leader = f"{leaders[kind]}{joint}"
        theirs = combination(base.terms(base.leaders.index(leader))) if leader in base.leaders else "none"
        same += theirs == combination(c.terms)
        table.append((f"`{c.name}`", f"`{combination(c.terms)}`", f"`{theirs}`"))
        if theirs != combination(c.terms):
            before_translational.append(int(joint) < robot.n and any(j.sigma for j in robot.joints[int(joint) :]))
    paper.table(("combination", "Lin, in standard parameters", "Gautier, base parameter"), table)
    agrees = len(found) == len(base) == together == 33
    paper.check(agrees, "Theorem 2 for the Stanford arm")
    paper.say(
        f"{len(found)} combinations of Lin and {len(base)} base parameters; {same} are the same, and both sets span "
        "the "
        f"same space (rank of both together {together}). The paper says that they differ only where a translational "
        f"joint follows: {statement(before_translational)}.",
    )


def counts_by_variable(paper: Paper) -> None:
    """Table II: operations of each variable."""
    paper.heading("Table II: operations of Lin's recursion, variable by variable")
    paper.say(
        "`codegen/minimal_recursion.py` generates eq. 57 to 93 from the combinations alone, independently of our own "
        "generator. Counted for a joint i >= s between others, robot without right angle or zero length; the text at "
        "hand lacks eq. 63 to 67, which were derived anew. The variable alpha stands for the differences of squares in "
        "Psi; a of a translational joint is the sum of its two rows; e holds what Table II gives for the joint torque.",
    )
    rotational = minimal_torque(Graph(), general_robot([0] * 6)).steps
    translational = minimal_torque(Graph(), general_robot([0, 0, 0, PRISMATIC, 0, 0])).steps
    rows, totals = [], np.zeros((2, 2, 2), dtype=int)
    for name, printed in TABLE_II.items():
        parts = name.split(", ")
        cells: list[object] = [name]
        for column, (steps, theirs) in enumerate(zip((rotational, translational), printed, strict=True)):
            ours = _total([steps[part][3] for part in parts])
            totals[column] += np.array((theirs, ours))
            cells += [text(theirs), text(ours), compared(ours, theirs)]
        rows.append(cells)
    rows.append(
        ["sum", *(cell for column in totals for cell in (text(tuple(column[0])), text(tuple(column[1])),
                                                          compared(tuple(column[1]), tuple(column[0]))))]
    )  # fmt: skip
    paper.table(("variable", "rotational, paper", "ours", "verdict", "translational, paper", "ours", "verdict"), rows)
    paper.say(
        "Of the rotational joint everything is the paper's count but zeta, 19 M, 16 A instead of 22 M, 19 A. The paper "
        "charges all six elements of D; U22 is none of the combinations, and D22 is zero unless a translational joint "
        f"follows. There zeta takes {text(_total([translational['zeta'][2]]))}, as printed.",
    )
    lm = minimal_inertia(Graph(), general_robot([0, 0, 0, PRISMATIC, 0, 0])).steps
    first, second = _total([lm["l"][2]]), _total([lm["J"][2]])
    paper.say(
        "Forward dynamics (section III): for a translational joint behind a rotational one the paper counts 8 M, 7 A "
        "for the first moment of the composite body and 50 M, 40 A for its inertia, Gautier's set 11 M, 9 A and 55 M, "
        f"41 A. Generated from the combinations they take {text(first)} ({compared(first, (8, 7))}) and {text(second)} "
        f"({compared(second, (50, 40))}).",
    )


def _total(counts: list[Count]) -> Operations:
    return sum(c.multiplications for c in counts), sum(c.additions for c in counts)


def counts(paper: Paper) -> None:
    """Table III: operations of the inverse dynamics."""
    paper.heading("Table III: multiplications and additions of the inverse dynamics")
    paper.say(
        "Sines, cosines and sign changes are not counted, a multiplication by a constant is. The paper does not count "
        "the 4 n multiplications that place the frames; neither of ours forms them.",
    )
    stanford, general = load_robot("stanford"), general_robot([0] * 6)
    six, seven = lins(general), lins(general_robot([0] * 7))
    slope = (seven[0] - six[0], seven[1] - six[1])
    formula = tuple((slope[k], six[k] - 6 * slope[k]) for k in range(2))
    principal = frozenset(f"{kind}_{j}" for j in range(1, 7) for kind in ("U33", "U11-U22", "m"))
    moments = frozenset(("ky_2", "kz_3", "ky_4", "ky_5"))
    ours = {
        "Lin's recursion, generated": (*formula, six, lins(stanford), lins(stanford, principal | moments)),
        "ros2_dynid": (None, None, operations(general, ["inertial"]), operations(stanford, ["inertial"]),
                       operations(stanford, SIMPLIFIED)),
    }  # fmt: skip
    rows = []
    for name, (m, a, full, simple) in TABLE_III.items():
        rows.append((name, *_formula(m, a), text(_at(m, a, 6)), text(full), text(simple)))
    for name, (m, a, general_count, full, simple) in ours.items():
        rows.append((name, *_formula(m, a), text(general_count), text(full), text(simple)))
    lin = TABLE_III["Lin"]
    printed = (_at(lin[0], lin[1], 6), lin[2], lin[3])
    for name, row in ours.items():
        cells = []
        for count, theirs in zip(row[2:], printed, strict=True):
            assert theirs is not None
            cells.append(f"{sum(count) / sum(theirs):.2f}, {compared(count, theirs)}")
        links = verdict(exactly(sum(row[4]), "links of our choice"), exactly(sum(lin[3]), "links that are not printed"))
        cells[2] = f"{cells[2].partition(',')[0]}, {links} (*)"
        rows.append((f"{name} over Lin, sums", "", "", *cells))
        paper.check(all(sum(c) <= sum(t) for c, t in zip(row[2:4], printed[:2], strict=True)), f"Table III, {name}")
    paper.table(
        ("method", "M, n rotational joints", "A", "n = 6", "Stanford arm", "Stanford arm, simplified links (*)"), rows
    )
    paper.say(
        "(*) The paper does not print which parameters it keeps. Ours: principal axes along the frames' (XX, YY, ZZ), "
        "masses, and one first moment a link (MY2, MZ3, MY4, MY5, MZ6). "
        f"ros2_dynid takes {text(ours['ros2_dynid'][4])}: 14 multiplications fewer than Lin's count and 1 addition "
        "more, "
        "of links that may not be the same.",
    )
    right = lins(general_robot([0] * 6, right_angles=True))
    saved = (six[0] - right[0], six[1] - right[1])
    predicted = (5 * 5 * 4 + 2, 5 * 5 * 2 + 1)
    paper.say(
        "With adjacent axes parallel or perpendicular the paper saves 5 (n - 1) (4 M, 2 A) and 2 M, 1 A: "
        f"{text(predicted)} for n = 6. Of Lin's recursion, generated, right angles save {text(saved)}: "
        f"{verdict(exactly(sum(saved)), exactly(sum(predicted)), Better.HIGHER)}.",
    )


def _at(m: Operations, a: Operations, n: int) -> Operations:
    return m[0] * n + m[1], a[0] * n + a[1]


def _formula(m: Operations | None, a: Operations | None) -> tuple[str, str]:
    if m is None or a is None:
        return "", ""
    return f"{m[0]} n {'-' if m[1] < 0 else '+'} {abs(m[1])}", f"{a[0]} n {'-' if a[1] < 0 else '+'} {abs(a[1])}"


def dynamics(paper: Paper) -> None:
    """Inverse and forward dynamics in minimal combinations: do they give the torques of the links?"""
    paper.heading("Inverse and forward dynamics in minimal combinations")
    rows, exact = [], []
    for name, robot in (("Stanford arm", load_robot("stanford")), ("6 rotational joints", general_robot([0] * 6)),
                        ("R T T R T R", general_robot([0, 1, 1, 0, 1, 0]))):  # fmt: skip
        rng = np.random.default_rng(1)
        inertial, matrix, labels = combination_matrix(robot)
        chi = rng.standard_normal(len(inertial))
        values = dict(zip(labels, matrix @ chi, strict=True))
        full = standard_vector(robot, dict(zip(inertial, chi, strict=True)))
        full[[group_of(x) != "inertial" for x in standard_names(robot)]] = 0.0
        graph = Graph()
        torque, inertia = minimal_torque(graph, robot), minimal_inertia(graph, robot)
        worst = np.zeros(2)
        for _ in range(10):
            q, dq, ddq = rng.standard_normal((3, robot.n))
            tau = inverse_dynamics(robot, full, q[None], dq[None], ddq[None])[0]
            found = evaluate(graph, torque.outputs, {"q": q, "dq": dq, "ddq": ddq}, values)
            bias = evaluate(graph, torque.outputs, {"q": q, "dq": dq, "ddq": 0 * q}, values)
            M = np.array(evaluate(graph, inertia.outputs, {"q": q}, values)).reshape(robot.n, robot.n)
            forward = np.linalg.solve(M, tau - np.array(bias))
            size = np.linalg.cond(M) * np.abs(ddq).max()
            errors = (np.abs(found - tau).max() / np.abs(tau).max(), np.abs(forward - ddq).max() / size)
            worst = np.maximum(worst, errors)
        count = graph.count(inertia.outputs)
        rows.append(
            (name, len(labels), f"{worst[0]:.0e}", f"{worst[1]:.0e}", text((count.multiplications, count.additions)))
        )
        exact.append(bool(worst.max() < 1e-12))
        paper.check(exact[-1], f"dynamics of {name}")
    paper.table(
        ("robot", "combinations", "torque, relative error", "acceleration, relative error over cond(M)",
         "operations of M(q)"),
        rows,
    )  # fmt: skip
    paper.say(
        "Random parameters and motions; errors against the Newton-Euler recursion over links. The paper verified its "
        f"algorithm with a FORTRAN program and prints no figures. That it is right: {statement(exact)}.",
    )


@dataclass(frozen=True)
class Recording:
    """A simulated motion of the Stanford arm: q, dq, ddq, tau (N, 6), W (N, 6, 33) of the combinations, their truth."""

    robot: Robot
    q: Array
    dq: Array
    ddq: Array
    tau: Array
    W: Array
    truth: Array


def simulated() -> Recording:
    """Return 8 s of three sines a joint, motion known exactly."""
    robot = load_robot("stanford")
    chi = standard_vector(robot)
    chi[[group_of(name) != "inertial" for name in standard_names(robot)]] = 0.0
    inertial, matrix, _ = combination_matrix(robot)
    place = {name: k for k, name in enumerate(standard_names(robot))}
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 8.0, 0.01)
    wave = rng.uniform(0.3, 1.5, (6, 3)) * rng.choice((-1, 1), (6, 3))
    pulse, phase = rng.uniform(0.5, 3.0, (6, 3)), rng.uniform(0, 6, (6, 3))
    x = pulse[:, :, None] * t + phase[:, :, None]
    q = np.sum(wave[:, :, None] * np.sin(x), axis=1).T * 0.4
    dq = np.sum((wave * pulse)[:, :, None] * np.cos(x), axis=1).T * 0.4
    ddq = -np.sum((wave * pulse**2)[:, :, None] * np.sin(x), axis=1).T * 0.4
    columns = [place[name] for name in inertial]
    W = regressor(robot, q, dq, ddq)[:, :, columns] @ np.linalg.pinv(matrix)
    return Recording(robot, q, dq, ddq, inverse_dynamics(robot, chi, q, dq, ddq), W, matrix @ chi[columns])


def procedure(paper: Paper) -> None:
    """Section IV: the recursive identification on a simulated Stanford arm, and how errors grow towards the base."""
    run = simulated()
    labels = combination_matrix(run.robot)[2]
    joint = np.array([int(label.rpartition("_")[2]) for label in labels])
    size = np.linalg.norm(run.truth)
    paper.heading("Section IV: identification from the last joint to the first")
    paper.say(
        'The paper reports in words that simulations on the Stanford arm "matched the true values very closely", '
        "without noise. Ours: 8 s of three sines a joint, motion known exactly. Link by link: "
        "`identification/estimators/from_last_link.py`, eq. 94 to 116 with the paper's combinations w_i, n small "
        "least-squares problems from the last link to the first. All at once: the same combinations from all torques, "
        "weighted, as by `--method wls`. Noise is normal, its standard deviation a share of each joint's largest "
        "torque; "
        f"medians of {DRAWS} draws. Errors are norms over all 33 combinations relative to the norm of the true ones.",
    )
    rows = []
    for noise in NOISES:
        errors = [_errors(run, noise, seed) for seed in range(DRAWS if noise else 1)]
        small, whole = np.median([np.linalg.norm(e, axis=1) for e in errors], axis=0) / size
        share = "" if noise == 0 else f"{small / whole:.1f}"
        rows.append((f"{100 * noise:g} %", f"{small:.1e}", f"{whole:.1e}", share))
        if noise == 0.0:
            paper.check(small < 1e-9, "recursive identification without noise")
            close = statement([bool(small < 1e-9)])
    paper.table(("noise", "link by link", "all at once, weighted", "link by link over all at once"), rows)
    paper.say(f"That the true values are matched very closely without noise: {close}.")
    paper.say("How the error grows: combinations of each composite body, noise 0.1 %.")
    errors = np.array([_errors(run, 1e-3, seed) for seed in range(DRAWS)])
    cond = identify_from_last_link(run.robot, run.q, run.dq, run.ddq, run.tau).cond
    rows, growth = [], []
    for j in range(6, 0, -1):
        at = joint == j
        own = np.median(np.linalg.norm(errors[:, :, at], axis=2), axis=0) / np.linalg.norm(run.truth[at])
        growth.append((j, *own))
        rows.append((j, int(at.sum()), f"{cond[j - 1]:.0f}", *(f"{x:.1e}" for x in own), f"{own[0] / own[1]:.1f}"))
    paper.table(("body", "combinations", "cond of its problem", "link by link", "all at once", "ratio"), rows)
    figure, plots = axes(1, 1, (6.0, 3.0))
    for k, label in ((1, "link by link"), (2, "all at once")):
        plots[0, 0].semilogy([g[0] for g in growth], [g[k] for g in growth], "o-", label=label)
    plots[0, 0].set(xlabel="composite body", ylabel="relative error")
    plots[0, 0].invert_xaxis()
    plots[0, 0].legend()
    paper.figure(figure, "lin_1995_growth", "Relative error of the combinations found at each joint, noise 0.1 %")
    paper.say(
        "Link by link each torque is used once; what joint 1 says about the wrist is not used, and errors of "
        "the wrist go on into the arm. All joints at once is the default of `dynid identify`; `--method recursive` is "
        "the same order of small problems in base parameters and with friction, with error bars, and takes the delay "
        "of "
        "the effort from a fit of all joints.",
    )


def _errors(run: Recording, noise: float, seed: int) -> Array:
    """Return the errors of both estimates, shape (2, 33)."""
    rng = np.random.default_rng(seed)
    sigma = noise * np.abs(run.tau).max(axis=0)
    measured = run.tau + sigma * rng.standard_normal(run.tau.shape)
    weight = 1.0 / np.where(sigma > 0, sigma, 1.0)
    rows, right = (run.W * weight[:, None]).reshape(-1, run.W.shape[2]), (measured * weight).ravel()
    whole = np.linalg.lstsq(rows, right, rcond=None)[0]
    small = list(identify_from_last_link(run.robot, run.q, run.dq, run.ddq, measured).value.values())
    return np.array((small - run.truth, whole - run.truth))


def main() -> None:
    """Print the page."""
    args = arguments(str(__doc__)).parse_args()
    paper = Paper(
        __file__,
        "Lin 1995: minimal linear combinations of the inertia parameters",
        "S.-K. Lin, 1995. The Stanford arm is shipped as `stanford`. Everything here is computed or simulated.",
        args,
    )
    combinations(paper)
    counts_by_variable(paper)
    counts(paper)
    dynamics(paper)
    procedure(paper)
    paper.finish()


if __name__ == "__main__":
    main()
