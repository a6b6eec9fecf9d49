# SPDX-License-Identifier: Apache-2.0

"""What the report draws, number by number, and that its figures draw just that."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import TorqueData, TorqueError, model_of
from ros2_dynid.identification.torque_std import torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC
from ros2_dynid.report.build import compare, csv_table, latex_table, model_facts, set_rows, verdict_of
from ros2_dynid.report.figures import (
    deviation_figure,
    drawings_of,
    friction_figure,
    friction_load_figure,
    position_figure,
    save_figure,
    singular_figure,
    temperature_figure,
    torque_figure,
)
from ros2_dynid.report.page_data import (
    BaseTableRow,
    FrictionPicture,
    Histogram,
    LineData,
    PageData,
    TorqueCurves,
    TorqueSet,
    base_rows,
    consistency_rows,
    coverage,
    effort_unit,
    error_rows,
    friction_pictures,
    held_out_words,
    round_values,
    share,
    torque_sets,
)

ROBOT = load_robot("demo3")
CHI = standard_vector(ROBOT)


def identified(scale=1.0, relative_std=0.05, robot=ROBOT):
    base = base_parameters(robot)
    value = scale * base.values(robot, standard_vector(robot))
    std = relative_std * np.maximum(np.abs(value), 1e-3)
    errors = {key: TorqueError(0.1, 0.02) for key in (*robot.active_names, "all")}
    return model_of(robot, base, value, std, np.diag(std**2), fit=errors, validation=errors, obtained={})


def rows_of(model, n=900, seed=0):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.normal(size=(3, n, 3))
    predicted = model.torque(q, dq, ddq)
    tau = predicted + rng.normal(size=predicted.shape) * [1.0, 2.0, 0.5]
    tau[7, 1] = np.nan
    nobody = np.full_like(q, np.nan)
    return TorqueData(5.0 + np.arange(n) / 100, q, dq, ddq, tau, predicted, 0.8 * predicted, nobody)


def floats(values):
    return np.array([np.nan if x is None else x for x in values])


def test_torques_with_their_bands_and_histograms():
    model = identified()
    rows = rows_of(model)
    found = torque_sets(model, {"fit": rows, "other": rows})
    assert found["fit"].title == "fitted data" and found["other"].title == "other"
    np.testing.assert_allclose(found["fit"].t, np.arange(900) / 100, atol=1e-6)
    thirds = torque_sets(model, {"fit": replace(rows, t=1e3 + np.arange(900) / 3)})["fit"].t
    assert thirds == [float(f"{x:.7g}") for x in (1e3 + np.arange(900) / 3) - 1e3]
    half = norm.ppf(0.975) * torque_std(model, rows.q, rows.dq, rows.ddq, measured=True)
    for j, joint in enumerate(found["fit"].joints):
        assert (joint.name, joint.unit) == (ROBOT.active_names[j], "N.m")
        residual = rows.tau[:, j] - rows.predicted[:, j]
        rms = np.sqrt(np.nanmean(residual**2))
        assert joint.rms == pytest.approx(rms)
        np.testing.assert_allclose(floats(joint.measured), rows.tau[:, j], rtol=1e-4)
        np.testing.assert_allclose(floats(joint.predicted), rows.predicted[:, j], rtol=1e-4)
        np.testing.assert_allclose(floats(joint.prior), 0.8 * rows.predicted[:, j], rtol=1e-4)
        np.testing.assert_allclose(floats(joint.upper), rows.predicted[:, j] + half[:, j], rtol=1e-4)
        np.testing.assert_allclose(floats(joint.lower), rows.predicted[:, j] - half[:, j], rtol=1e-4)
        counts = np.array(joint.histogram.counts)
        assert len(counts) == 41 and counts.sum() == np.isfinite(residual).sum()
        np.testing.assert_allclose(joint.histogram.edges, np.linspace(-4 * rms, 4 * rms, 42), rtol=1e-4, atol=1e-9)
        inside = [
            np.sum((residual >= a) & (residual < b))
            for a, b in zip(joint.histogram.edges[5:35], joint.histogram.edges[6:36], strict=True)
        ]
        assert np.abs(np.array(inside) - counts[5:35]).max() <= 1
        assert joint.histogram.sigma == joint.rms
    for parameters in ({}, {"M1": 0.0, "Fv2": 0.0}):
        bare = replace(model, robot=replace(ROBOT, parameters=parameters))
        assert torque_sets(bare, {"fit": rows})["fit"].joints[0].prior is None
        assert {row.prior for row in base_rows(bare)} == {None}, "zeros are no knowledge"
    far = rows.tau.copy()
    far[3:5] += 1e3
    far[5] -= 1e3
    for j, joint in enumerate(torque_sets(model, {"fit": replace(rows, tau=far)})["fit"].joints):
        assert joint.histogram.edges[-1] < 900.0 and sum(joint.histogram.counts) == np.isfinite(far[:, j]).sum()
        assert (joint.histogram.counts[0], joint.histogram.counts[-1]) == (1, 2), (
            "what is further off counts at the end"
        )
    exact = replace(rows, tau=rows.predicted)
    (perfect, *_) = torque_sets(model, {"fit": exact})["fit"].joints
    assert perfect.rms == 0.0 and perfect.histogram.sigma is None and sum(perfect.histogram.counts) == 900
    nothing = torque_sets(model, {"fit": replace(rows, tau=np.full_like(rows.tau, np.nan))})["fit"].joints[0]
    assert nothing.rms == 0.0 and sum(nothing.histogram.counts) == 0


def test_a_band_holds_what_measurements_scatter_by():
    """The prediction's own error and the level of each joint's errors, as wide as few degrees of freedom ask for."""
    sigma = np.array([1.0, 2.0, 0.5])
    model = replace(identified(), obtained={"sigma": sigma.tolist(), "dof": 7})
    rows = rows_of(model, n=30)
    half = student.ppf(0.975, 7) * np.hypot(torque_std(model, rows.q, rows.dq, rows.ddq), sigma)
    for j, joint in enumerate(torque_sets(model, {"fit": rows})["fit"].joints):
        np.testing.assert_allclose(floats(joint.upper), rows.predicted[:, j] + half[:, j], rtol=1e-4)
        np.testing.assert_allclose(floats(joint.lower), rows.predicted[:, j] - half[:, j], rtol=1e-4)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_coverage_by_joint(side):
    rows = rows_of(identified())
    rows.dq[3], rows.ddq[4], rows.tau[5] = 9.0 * side, 8.0 * side, 700.0 * side
    robot = replace(
        ROBOT,
        joints=(
            *ROBOT.joints[:2],
            replace(ROBOT.joints[2], limits=replace(ROBOT.joints[2].limits, effort=np.inf, upper=np.inf)),
        ),
    )
    for j, row in enumerate(coverage(robot, rows)):
        limits = robot.joints[j].limits
        q, dq, ddq, tau = (x[:, j] for x in (rows.q, rows.dq, rows.ddq, rows.tau))
        assert (row.joint, row.from_, row.to) == (ROBOT.active_names[j], q.min(), q.max())
        assert row.speed == np.abs(dq).max() and row.acceleration == np.abs(ddq).max()
        assert row.effort == np.nanmax(np.abs(tau)) and row.unit == "rad, s, N.m"
        assert row.speed_use == pytest.approx(100 * row.speed / limits.velocity)
        if j < 2:
            assert row.range == pytest.approx(100 * (row.to - row.from_) / (limits.upper - limits.lower))
            assert row.effort_use == pytest.approx(100 * row.effort / limits.effort)
        else:
            assert row.range is None and row.effort_use is None
    assert share(1.0, 4.0) == 25.0 and share(1.0, 0.5) == 200.0
    assert share(1.0, 0.0) is None and share(1.0, np.inf) is None and share(1.0, -1.0) is None
    assert effort_unit(PRISMATIC) == "N" and effort_unit(0) == "N.m"
    assert round_values(np.array([1.234567, np.nan, -np.inf, 123456.7])) == [1.2346, None, None, 123460.0]
    assert round_values(np.array([1.234567]), 3) == [1.23]


def test_friction_over_speed_load_and_position():
    term = FrictionTerm(2, FrictionKind.LOAD, 0.3, std=0.02)
    model = identified()
    model = replace(model, robot=replace(model.robot, friction=(term,)))
    rows = rows_of(model, n=2500)
    rows.temperature[:, 2] = 20.0 + np.arange(2500) / 100
    place = {leader: k for k, leader in enumerate(model.leaders)}
    drives = CHI.reshape(3, 14)
    chi = drives.copy()
    chi[:, 11:14] = 0.0  # Fv, Fc, off
    without = inverse_dynamics(ROBOT, chi.ravel(), rows.q, rows.dq, rows.ddq)
    for j, joint in enumerate(friction_pictures(model, rows)):
        pick = np.flatnonzero(np.isfinite(rows.tau[:, j]))
        pick = pick[:: len(pick) // 600]
        np.testing.assert_allclose(joint.x, rows.dq[pick, j], rtol=1e-4)
        np.testing.assert_allclose(joint.y, (rows.tau - without)[pick, j], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(joint.position, rows.q[pick, j], rtol=1e-4)
        np.testing.assert_allclose(joint.residual, (rows.tau - rows.predicted)[pick, j], rtol=1e-4, atol=1e-6)
        carried = np.abs(without)
        np.testing.assert_allclose(joint.load, carried[pick, j], rtol=1e-3, atol=1e-3)
        assert (joint.unit, joint.speed_unit, joint.position_unit) == ("N.m", "rad/s", "rad")
        np.testing.assert_allclose(joint.temperature, rows.temperature[pick, j] if j == 2 else [], rtol=1e-4)
        x, top = np.array(joint.curve.x), np.abs(rows.dq[:, j]).max()
        assert len(x) == 40 and x[0] == pytest.approx(-top, rel=1e-4) and x[-1] == pytest.approx(top, rel=1e-4)
        Fv, Fc, off = drives[j, 11:14]
        plain = Fv * x + Fc * np.sign(x) + off
        std = np.array([model.std[place[f"{kind}{j + 1}"]] for kind in ("Fv", "Fc", "off")])
        variance = (std[0] * x) ** 2 + std[1] ** 2 + std[2] ** 2
        levels = np.quantile(carried[:, j], (0.1, 0.5, 0.9))
        if j == 1:
            for line, level in zip((joint.light, joint.curve, joint.heavy), levels, strict=True):
                np.testing.assert_allclose(line.y, plain + 0.3 * level * np.sign(x), rtol=1e-3)
            variance += (0.02 * levels[1]) ** 2
        else:
            assert joint.light is None and joint.heavy is None
            np.testing.assert_allclose(joint.curve.y, plain, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(joint.band, 2 * np.sqrt(variance), rtol=1e-3)


def test_what_a_joint_that_follows_others_does_is_no_row_of_its_own():
    """Joints are counted as the columns of the data are, names and limits are the joint's own."""
    robot = load_robot("hitachi_hpr")
    limited = tuple(
        replace(joint, limits=replace(joint.limits, lower=-1.0 - k, upper=1.0 + k, velocity=2.0 + k, effort=3.0 + k))
        for k, joint in enumerate(robot.joints)
    )
    names = ("Fv4", "Fc4", "off4", "Fv7", "Fc7")
    friction = dict(zip(names, (2.0, 3.0, 0.5, 7.0, 9.0), strict=True))
    robot = replace(robot, joints=limited, parameters={**robot.parameters, **friction})
    model = identified(robot=robot)
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.normal(size=(3, 40, 5))
    zero = np.zeros((40, 5))
    rows = TorqueData(np.arange(40.0), q, dq, ddq, rng.normal(size=(40, 5)), zero, zero, np.full((40, 5), np.nan))
    assert robot.active == (1, 3, 4, 6, 7)
    covered = coverage(robot, rows)
    assert [row.joint for row in covered] == ["j1", "j3", "j4", "j6", "j7"]
    for k, (number, row) in enumerate(zip(robot.active, covered, strict=True)):
        assert row.speed_use == pytest.approx(100 * np.abs(dq[:, k]).max() / (1.0 + number))
        assert row.range == pytest.approx(100 * np.ptp(q[:, k]) / (2.0 * number))
        assert row.effort_use == pytest.approx(100 * np.abs(rows.tau[:, k]).max() / (2.0 + number))
    pictures = friction_pictures(model, rows)
    assert [one.name for one in pictures] == ["j1", "j3", "j4", "j6", "j7"]
    value = dict(zip(standard_names(robot), model.chi, strict=True))
    for k, (number, one) in enumerate(zip(robot.active, pictures, strict=True)):
        np.testing.assert_allclose(one.x, dq[:, k], rtol=1e-4)
        np.testing.assert_allclose(one.position, q[:, k], rtol=1e-4)
        x = np.array(one.curve.x)
        wanted = value[f"Fv{number}"] * x + value[f"Fc{number}"] * np.sign(x) + value[f"off{number}"]
        np.testing.assert_allclose(one.curve.y, wanted, rtol=1e-4, atol=1e-6)
    assert np.abs(pictures[2].curve.y).max() > 3.0 and np.abs(pictures[4].curve.y).max() > 9.0
    curves = torque_sets(model, {"fit": rows})["fit"].joints
    assert [one.name for one in curves] == ["j1", "j3", "j4", "j6", "j7"]
    np.testing.assert_allclose(floats(curves[3].measured), rows.tau[:, 3], rtol=1e-4)


def test_temperatures_that_are_known_in_part_are_drawn_as_far():
    model = identified()
    rows = rows_of(model, n=20)
    rows.temperature[::2, 0] = 30.0
    found = [one.temperature for one in friction_pictures(model, rows)]
    assert found == [[30.0, None] * 10, [], []]


def test_the_band_of_a_friction_curve_takes_what_its_parameters_share():
    model = identified()
    place = {leader: k for k, leader in enumerate(model.leaders)}
    half = np.random.default_rng(3).normal(size=(len(model.std), len(model.std)))
    C = half @ half.T
    model = replace(model, covariance=C, std=np.sqrt(np.diag(C)))
    for number, one in enumerate(friction_pictures(model, rows_of(model, n=30)), start=1):
        x = np.array(one.curve.x)
        at = [place[f"{kind}{number}"] for kind in ("Fv", "Fc", "off")]
        g = np.vstack((x, np.sign(x), np.ones_like(x)))
        variance = np.array([column @ C[np.ix_(at, at)] @ column for column in g.T])
        np.testing.assert_allclose(one.band, 2.0 * np.sqrt(variance), rtol=1e-3)


def test_the_band_of_a_friction_curve_takes_what_terms_and_parameters_share():
    """A root term that undoes what Coulomb friction scatters by leaves a narrow band."""
    model = identified()
    term = FrictionTerm(2, FrictionKind.ROOT, 1.0, std=1.0)
    model = replace(model, robot=replace(model.robot, friction=(term,)))
    b, place = len(model.leaders), list(model.leaders).index("Fc2")
    C = np.zeros((b, b))
    C[place, place] = 1.0
    with_term = np.zeros((1, b + 1))
    with_term[0, [place, b]] = -1.0, 1.0
    model = replace(model, covariance=C, std=np.sqrt(np.diag(C)), friction_covariance=with_term)
    second = friction_pictures(model, rows_of(model, n=30))[1]
    x = np.abs(np.array(second.curve.x))
    np.testing.assert_allclose(second.band, 2.0 * np.abs(1.0 - np.sqrt(x)), rtol=1e-3, atol=1e-3)


def test_base_parameters_with_their_a_priori_values_and_what_is_essential():
    model = identified(scale=1.1, relative_std=0.02)
    rows = base_rows(model)
    np.testing.assert_allclose([row.value for row in rows], model.value)
    np.testing.assert_allclose([row.prior for row in rows], model.value / 1.1, atol=1e-12)
    large = np.abs(model.value) > 1e-3
    np.testing.assert_allclose([row.percent for row, big in zip(rows, large, strict=True) if big], 2.0)
    assert {row.essential for row in rows} == {None} and {row.served for row in rows} == {None}
    essential = base_rows(replace(model, essential=(model.names[2],)))
    assert [row.essential for row in essential] == ["yes" if k == 2 else "no" for k in range(len(rows))]
    assert {row.prior for row in base_rows(replace(model, robot=replace(ROBOT, parameters={})))} == {None}


def test_bodies_that_can_be_and_not():
    model = replace(identified(), standard=dict(ROBOT.parameters), consistent={})
    rows = consistency_rows(model)
    assert [(row.link, row.set) for row in rows] == [
        (name, kind) for kind in ("identified", "a priori") for name in ROBOT.active_names
    ]
    for j, row in enumerate(rows[:3]):
        XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = CHI.reshape(3, 14)[j, :10]
        J = np.array([[XX, XY, XZ], [XY, YY, YZ], [XZ, YZ, ZZ]])
        h = np.array([MX, MY, MZ])
        central = J - (h @ h * np.eye(3) - np.outer(h, h)) / M
        pseudo = np.block([[np.trace(J) / 2 * np.eye(3) - J, h[:, None]], [h[None], np.array([[M]])]])
        assert row.mass == M and row.smallest == pytest.approx(np.linalg.eigvalsh(central)[0])
        assert row.pseudo == pytest.approx(np.linalg.eigvalsh(pseudo)[0])
        assert row.verdict == ("yes" if row.pseudo > 0 else "no")
    wrong = dict(ROBOT.parameters) | {"M2": -1.0}
    verdicts = [row.verdict for row in consistency_rows(replace(model, standard=wrong))[:3]]
    assert verdicts[1] == "no"


# --- comparisons


def test_changes_are_differences_over_their_common_std():
    first, second = identified(), identified(scale=1.3, relative_std=0.08)
    found = compare({"a": first, "b": second, "c": first})
    bound = norm.ppf(1 - 0.01 / 2 / len(first.names))
    assert [change.name for change in found] == list(first.names)
    for k, change in enumerate(found):
        z = (second.value[k] - first.value[k]) / np.hypot(first.std[k], second.std[k])
        assert change.z == (None, pytest.approx(z), 0.0)
        assert change.significant == (False, abs(z) > bound, False)
        assert change.value == (first.value[k], second.value[k], first.value[k]) and change.std[1] == second.std[k]
    below = replace(first, value=first.value - 0.99 * bound * np.sqrt(2) * first.std)
    above = replace(first, value=first.value - 1.01 * bound * np.sqrt(2) * first.std)
    assert not any(change.significant[1] for change in compare({"a": first, "b": below}))
    assert all(change.significant[1] for change in compare({"a": first, "b": above}))
    loose = compare({"a": first, "b": below}, significance=0.1)
    assert all(change.significant[1] for change in loose)
    unknown = replace(first, std=np.where(np.arange(len(first.std)) == 1, np.nan, first.std))
    changes = compare({"a": first, "b": unknown})
    assert changes[1].z == (None, None) and changes[1].std == (first.std[1], None) and changes[0].z[1] == 0.0
    changes = compare({"a": unknown, "b": first})
    assert changes[1].z == (None, None)
    fewer = replace(first, names=("other", *first.names[1:]))
    changes = {change.name: change for change in compare({"a": first, "b": fewer})}
    assert changes[first.names[0]].value == (first.value[0], None) and changes[first.names[0]].std[1] is None
    assert changes["other"].value == (None, first.value[0]) and changes["other"].std == (None, first.std[0])
    assert changes["other"].z == changes[first.names[0]].z == (None, None) and changes["other"].unit
    exact = replace(first, std=np.zeros_like(first.std))
    assert compare({"a": exact, "b": exact})[0].z == (None, None)
    for pair in ((exact, second), (second, exact)):  # one of them is known exactly
        for k, change in enumerate(compare(dict(zip("ab", pair, strict=True)))):
            assert change.z[1] == pytest.approx((pair[1].value[k] - pair[0].value[k]) / second.std[k])
    turn = np.arange(len(first.names))[::-1]
    other = replace(
        second, names=tuple(second.names[k] for k in turn), leaders=tuple(second.leaders[k] for k in turn),
        value=second.value[turn], std=second.std[turn],
    )  # fmt: skip
    assert compare({"a": first, "b": other}) == compare({"a": first, "b": second}), "by name, whatever the order"
    with pytest.raises(InputError, match="only one model"):
        compare({"a": first})


# --- tables


def test_tables_say_every_number():
    rows = [
        BaseTableRow("ZZR1", 1.23456, 0.0123, "kg.m^2", "ZZ1 + 2*MX2", 1.0, 1.1, "yes"),
        BaseTableRow("x_y%", -2e-7, None, "kg", "a^b", None, None, None, 0.5),
    ]
    header, one, two = csv_table(rows).splitlines()
    assert header == "name,value,std,relative_std_percent,unit,a_priori,essential,expression,served"
    assert one == "ZZR1,1.23456,0.0123,1.0,kg.m^2,1.1,yes,ZZ1 + 2*MX2,"
    assert two == "x_y%,-2e-07,,,kg,,,a^b,0.5"
    lines = latex_table(rows, "All of {it}").splitlines()
    assert lines[:6] == [
        r"\begin{table}", r"\caption{All of \{it\}}", r"\begin{tabular}{lrrrl}", r"\toprule",
        r"parameter & value & std & rel. std [\%] & expression \\", r"\midrule",
    ]  # fmt: skip
    assert lines[6] == r"$\mathit{ZZR}_{1}$ & $1.235$ & $0.0123$ & $1$ & $\mathit{ZZ}_{1}$ + 2\,$\mathit{MX}_{2}$ \\"
    assert lines[7] == r"x\_y\% & $-2\cdot 10^{-7}$ & -- & -- & a\textasciicircum{}b \\"
    fine = latex_table([replace(rows[0], value=1.234567, std=0.01234567, percent=1.234567)], "c").splitlines()[6]
    assert " & $1.235$ & $0.01235$ & $1.23$ & " in fine
    odd = latex_table([replace(rows[1], name=r"a&b~c#d\e$", expression="{x}")], "c").splitlines()[6]
    assert odd.startswith(r"a\&b\textasciitilde{}c\#d\textbackslash{}e\$ & ") and odd.endswith(r"\{x\} \\")
    assert lines[8:] == [r"\bottomrule", r"\end{tabular}", r"\end{table}"]


# --- figures


def data_of(line):
    return [list(values) for values in line.get_data()]


TORQUE = TorqueCurves(
    "el$bow", "N.m", [1.0, None, 3.0], [0.5, 2.0, 4.0], [9.0, 8.0, 7.0], 1.0, Histogram([], [], None), [], []
)
PICTURE = FrictionPicture(
    "elbow", "N.m", "rad/s", [1.0, -2.0, 0.5], [3.0, -4.0, 0.1], LineData([-1.0, 1.0], [-2.0, 2.0]), [0.5, 0.25],
    [10.0, 20.0, 30.0], LineData([-1.0, 1.0], [-1.0, 1.0]), LineData([-1.0, 1.0], [-3.0, 3.0]), [0.1, 0.2, 0.3], "rad",
    [5.0, 6.0, 7.0],
)  # fmt: skip


def test_torque_figures_draw_the_curves_and_the_residual():
    figure = torque_figure([0.0, 0.1, 0.2], TORQUE)
    above, below = figure.axes
    labels = [line.get_label() for line in above.lines]
    assert labels == ["measured", "identified model", "a priori model"]
    np.testing.assert_equal(
        [data_of(line)[1] for line in above.lines], [[1.0, np.nan, 3.0], [0.5, 2.0, 4.0], [9.0, 8.0, 7.0]]
    )
    np.testing.assert_equal(data_of(below.lines[0]), [[0.0, 0.1, 0.2], [0.5, np.nan, -1.0]])
    assert above.get_title() == r"el\$bow" and above.get_ylabel() == "torque [N.m]"
    assert below.get_xlabel() == "time [s]" and below.get_ylabel() == "residual [N.m]"
    assert len(torque_figure([0.0, 0.1, 0.2], replace(TORQUE, prior=None)).axes[0].lines) == 2
    assert [text.get_text() for text in above.get_legend().get_texts()] == labels
    assert {line.get_linewidth() for line in above.lines} == {0.9} and below.lines[0].get_linewidth() == 0.7
    heights = [axes.get_position().height for axes in (above, below)]
    assert heights[0] / heights[1] == pytest.approx(2.0)


def test_figures_have_margins_of_a_size():
    """In inches, whatever the size of the figure: for labels to the left and below, a title above."""
    for figure, size in ((torque_figure([0.0, 0.1, 0.2], TORQUE), (7, 4)), (friction_figure(PICTURE), (4, 3))):
        assert tuple(figure.get_size_inches()) == size
        boxes = [axes.get_position() for axes in figure.axes]
        assert min(box.x0 for box in boxes) * size[0] == pytest.approx(0.8)
        assert min(box.y0 for box in boxes) * size[1] == pytest.approx(0.55)
        assert (1 - max(box.x1 for box in boxes)) * size[0] == pytest.approx(0.1)
        assert (1 - max(box.y1 for box in boxes)) * size[1] == pytest.approx(0.35)
        for axes, box in zip(figure.axes, boxes, strict=True):
            assert len(axes.yaxis.get_major_locator().tick_values(0.0, 1.03)) <= 8, "few ticks"
            left = axes.yaxis.label.get_position()[0] * box.width * size[0]
            low = axes.xaxis.label.get_position()[1] * box.height * size[1]
            assert left == pytest.approx(-0.58) and low == pytest.approx(-0.3)
    wide = deviation_figure([(f"p{k}", 1.0) for k in range(50)])
    assert (
        wide.get_size_inches()[0] == pytest.approx(8.0) and deviation_figure([("p", 1.0)]).get_size_inches()[0] == 5.0
    )


def test_friction_figures_draw_dots_curves_and_band():
    (axes,) = friction_figure(PICTURE).axes[:1]
    dots = axes.collections[0]
    np.testing.assert_allclose(dots.get_offsets(), [[1.0, 3.0], [-2.0, -4.0], [0.5, 0.1]])
    np.testing.assert_allclose(dots.get_array(), [10.0, 20.0, 30.0])
    corners = axes.collections[1].get_paths()[0].vertices
    assert {(-1.0, -2.5), (-1.0, -1.5), (1.0, 1.75), (1.0, 2.25)} <= {tuple(np.round(p, 9)) for p in corners}
    assert [data_of(line)[1] for line in axes.lines] == [[-1.0, 1.0], [-3.0, 3.0], [-2.0, 2.0]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("speed [rad/s]", "friction [N.m]")
    band = axes.collections[1]
    assert band.get_linewidth() == [0.0] and band.get_alpha() == 0.2 and list(dots.get_sizes()) == [2.0]
    assert [line.get_linewidth() for line in axes.lines][:2] == [0.8, 0.8]
    plain = friction_figure(replace(PICTURE, band=[], light=None, heavy=None, load=[])).axes[0]
    assert len(plain.collections) == 1 and len(plain.lines) == 1
    (pushed,) = friction_load_figure(replace(PICTURE, y=[-3.0, 4.0, 0.1])).axes
    assert data_of(pushed.lines[0])[1] == [-3.0, -4.0, 0.1], "what drives the joint is negative"
    (load,) = friction_load_figure(PICTURE).axes
    assert data_of(load.lines[0]) == [[10.0, 20.0, 30.0], [3.0, 4.0, 0.1]], "against the motion"
    above, below = temperature_figure(replace(PICTURE, temperature=[20.0, None, 40.0])).axes
    np.testing.assert_equal(data_of(above.lines[0]), [[20.0, np.nan, 40.0], [3.0, 4.0, 0.1]])
    np.testing.assert_equal(data_of(below.lines[0]), [[20.0, np.nan, 40.0], [5.0, -6.0, 7.0]])
    assert below.get_xlabel() == "temperature [°C]" and above.get_title() == "elbow"
    for axes in (above, load):
        assert axes.title.get_position()[1] == 1.0, "at a place of its own: to find one takes long"
    (position,) = position_figure(PICTURE).axes
    assert data_of(position.lines[0]) == [[0.1, 0.2, 0.3], [5.0, 6.0, 7.0]]
    assert position.get_xlabel() == "position [rad]"
    for dotted in (load, position, above, below):
        assert dotted.lines[0].get_markersize() == 2.0 and dotted.lines[0].get_linestyle() == "None"


def test_bars_and_singular_values():
    (bars,) = deviation_figure([("a", 2.0), ("b", 30.0)]).axes
    assert [bar.get_height() for bar in bars.patches] == [2.0, 30.0] and bars.get_yscale() == "log"
    (singular,) = singular_figure([9.0, 3.0, 0.3], 30.0).axes
    assert data_of(singular.lines[0]) == [[1, 2, 3], [9.0, 3.0, 0.3]] and singular.get_title() == "cond 30"
    assert singular.lines[0].get_markersize() == 3.0
    assert singular.get_yscale() == "log" and singular_figure([1.0], None).axes[0].get_title() == ""


def test_what_is_drawn_of_a_page(tmp_path):
    row = BaseTableRow("a", 1.0, 0.1, "kg", "a", 10.0, None, None, None)
    torque = {"fit": TorqueSet("fitted data", [0.0, 0.1, 0.2], [TORQUE, TORQUE])}
    bare = replace(PICTURE, load=[])
    page = PageData([row, replace(row, percent=None)], torque, 30.0, [3.0, 1.0], [], [bare, PICTURE], [])
    warm = replace(page, friction=[replace(PICTURE, temperature=[1.0, 2.0, 3.0])])
    assert "friction_temperature_joint1" in [d.name for d in drawings_of(warm)]
    drawings = drawings_of(page)
    assert [d.name for d in drawings] == [
        "torque_fit_joint1", "torque_fit_joint2", "friction_joint1", "friction_joint2", "friction_load_joint2",
        "residual_position_joint2", "relative_std", "singular_values",
    ]  # fmt: skip
    assert len(drawings[-2].draw().axes[0].patches) == 1
    empty = PageData([replace(row, percent=None)], {}, None, [], [], [], [])
    assert drawings_of(empty) == []
    paths = save_figure(tmp_path, drawings[-1])
    assert [path.name for path in paths] == ["singular_values.png", "singular_values.pdf"]
    header = paths[0].read_bytes()
    width, height = (int.from_bytes(header[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (4 * 160, 3 * 160) and paths[1].read_bytes().startswith(b"%PDF")


def test_errors_of_each_set_and_the_last_is_served():
    def errors(fit, held_out):
        return SimpleNamespace(
            fit={"all": TorqueError(1.0, fit)}, validation={"all": TorqueError(1.0, held_out)} if held_out else {}
        )

    model = replace(identified(), sets={"base": errors(0.0123, 0.0456), "essential": errors(0.02, None)})
    assert set_rows(model) == [
        ("base", "1.23 % on the data used, 4.56 % on held-out data"),
        ("essential", "2.00 % on the data used; this set is used"),
    ]


@pytest.mark.parametrize(
    ("validation", "fit", "level", "words"),
    [
        (0.049, 0.3, "good", "4.9 % on data that were not used"),
        (0.051, 0.01, "warn", "5.1 % on data that were not used"),
        (0.149, 0.01, "warn", "14.9 %"),
        (0.151, 0.01, "bad", "15.1 %"),
        (None, 0.01, "warn", "1.0 % on the fitted data"),
        (None, 0.2, "bad", "20.0 %"),
        (None, None, "warn", "has no torque errors"),
    ],
)
def test_a_verdict_where_the_file_has_none(validation, fit, level, words):
    model = replace(
        identified(), obtained={}, validation={} if validation is None else {"all": TorqueError(1.0, validation)},
        fit={} if fit is None else {"all": TorqueError(1.0, fit)},
    )  # fmt: skip
    ((found, text),) = verdict_of(model)
    assert found == level and words in text
    assert model_facts(model) == [f"{len(model.names)} base parameters of 3 joints."]
    rows = error_rows(model)
    if fit is None:
        assert rows == []
    else:
        held = None if validation is None else pytest.approx(100 * validation)
        assert [(row.joint, row.percent, row.held_percent) for row in rows] == [("all", pytest.approx(100 * fit), held)]
    for folds, words in ((0, "other recordings"), (5, "5 parts left out in turn")):
        obtained = {"validated_by": {"data": "x", "folds": folds}}
        assert held_out_words(replace(model, obtained=obtained)) == words
    told = replace(model, obtained={"verdict": [{"level": "x", "text": "so it is"}, "no remark"]})
    assert verdict_of(told) == [("warn", "so it is")]
    levels = {"good": "good", "note": "note", "warning": "warn", "problem": "bad"}
    told = replace(model, obtained={"verdict": [{"level": one, "text": one} for one in levels]})
    assert verdict_of(told) == [(style, one) for one, style in levels.items()]


def test_friction_that_pushes_leads_the_verdict_and_speeds_are_a_fact():
    model = replace(identified(), obtained={"verdict": [{"level": "good", "text": "so it is"}]})
    assert verdict_of(model) == [("good", "so it is")]
    pushing = model.value.copy()
    pushing[model.leaders.index("Fv2")] = -50.0
    (level, text), rest = verdict_of(replace(model, value=pushing, serve="base"))
    name = model.robot.joints[1].name
    assert (level, rest) == ("bad", ("good", "so it is")) and f"the friction of {name} (at " in text
    told = replace(model, obtained={"used": {name: {"speed": 1.2345, "load": 3.0}}})
    assert model_facts(told)[-1] == (
        f"Fastest speeds recorded [rad/s or m/s]: {name} 1.23; friction beyond them is extrapolated."
    )
