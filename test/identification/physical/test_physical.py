# SPDX-License-Identifier: Apache-2.0

"""Essential, standard and consistent parameters of recorded motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recordings import DATA, simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads.drive_gains import drive_gains
from ros2_dynid.identification.loads.payload_fit import identify_loads
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.consistency import (
    build_programme,
    cholesky_pivots,
    consistent_links,
    fully_consistent_links,
    impose,
    longest_link,
    make_consistent,
    smallest_joint_inertia,
    table,
)
from ros2_dynid.identification.physical.essential import EssentialThresholds, essential, largest_rows, share_of_largest
from ros2_dynid.identification.physical.standard import closest, on_leaders
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.rows import row_chunks
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.information import restrict
from ros2_dynid.identification.regression.least_squares import joint_errors, ols, weighted_triangle, wls
from ros2_dynid.model.inertia import central_inertia, links_of, pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.progress import ignore_progress

MASS, COM, INERTIA = 1.5, np.array([0.03, -0.02, 0.12]), np.diag([0.004, 0.005, 0.003])


def identify_load(robot, base, empty, loaded, **more):
    return identify_loads(robot, base, empty, [loaded], **more)[0]


def load_parameters():
    J = INERTIA + MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM))
    return (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * COM), MASS)


@pytest.fixture(scope="module")
def case():
    robot, chi = simulated_truth()
    base = base_parameters(robot, method="closed-form")
    prepared = prepare(robot, simulated())
    return robot, chi, base, prepared, build_information(robot, base, [prepared])


def test_elimination_keeps_the_error_and_what_matters(case):
    robot, chi, base, _, information = case
    full = wls(information)
    found = essential(information, full)
    kept = {base.leaders[k] for k in found.kept}
    assert {f"{kind}{j}" for kind in ("Fv", "Fc") for j in range(1, 7)} <= kept
    assert len(kept) < len(base)
    dropped = [k for k in range(len(base)) if k not in found.kept]
    assert np.all(found.estimate.value[dropped] == 0.0)
    before, after = (np.sum((joint_errors(information, e.value) / full.sigma) ** 2) for e in (full, found.estimate))
    assert before <= after < 1.35 * before
    assert all(step.statistic <= step.limit for step in found.steps if step.dropped)
    again = essential(information, full)
    assert again.kept == found.kept
    truth = base.values(robot, chi)
    unexplained = np.abs(truth[dropped]) / full.std[dropped]
    assert np.max(unexplained) < 12.0  # nothing that the data clearly show was dropped


def test_parameters_that_make_no_share_of_the_torque_are_dropped_and_the_others_fitted_again(case):
    robot, chi, base, prepared, _ = case
    options = IdentifyOptions(significant=0.01, cross_validate=3, friction=PLAIN)
    found = identify(robot, [simulated()], options=options).outcome
    assert 0 < len(found.essential) < len(base) and found.sets["essential"].validation["all"].relative < 0.1
    assert found.elimination.steps == ()
    W = regressor(robot, prepared.q, prepared.dq, prepared.ddq)[..., base.columns(robot)]
    largest = np.abs(W * base.values(robot, chi)).max(axis=0) / np.abs(prepared.tau).max(axis=0)[:, None]
    share = dict(zip(base.names, largest.max(axis=0), strict=True))
    assert {name for name in base.names if share[name] > 0.02} <= set(found.essential)
    assert all(share[name] > 0.003 for name in found.essential)
    value = {row.name: row.value for row in found.base}
    assert all(value[name] == 0.0 for name in base.names if name not in found.essential)
    few = identify(robot, [simulated()], options=replace(options, significant=0.1)).outcome
    assert set(few.essential) < set(found.essential)


@pytest.mark.skipif(not (DATA / "kr300").is_dir(), reason="the recordings of real robots are not here")
def test_elimination_stops_before_held_out_torques_suffer():
    """The F test alone drops too much of a robot whose counterbalance is not in the model."""
    robot = load_robot(DATA / "kr300" / "robot.yaml")
    options = IdentifyOptions(essential=True)
    recordings = [DATA / "kr300" / f"{part}.npz" for part in "ab"]
    problem = build_problem(robot, recordings, options, ignore_progress)
    full = wls(problem.information)
    alone, stopped = (essential(problem.information, full, EssentialThresholds(folds=folds)) for folds in (0, 5))
    assert len(stopped.kept) > len(alone.kept)
    last = stopped.steps[-1]
    assert not last.dropped and last.statistic <= last.limit and last.growth > last.allowed
    assert essential(problem.information, full, most=0).kept == tuple(range(len(problem.base)))
    outcome = identify(robot, recordings, options=options).outcome
    errors = {name: outcome.sets[name].validation["all"].relative for name in ("base", "essential")}
    assert errors["essential"] < 1.05 * errors["base"]
    assert not any("essential parameters alone" in remark.text for remark in outcome.verdict)


def test_restricted_information_is_that_of_fewer_columns(case):
    *_, information = case
    kept = [0, 3, 10, 20, information.size - 1]
    part = ols(restrict(information, kept))
    R = weighted_triangle(information, np.ones(6)).R
    expected = np.linalg.lstsq(R[:, kept], R[:, -1], rcond=None)[0]
    assert np.allclose(part.value, expected, rtol=1e-7, atol=1e-10)


def test_torque_share_of_a_parameter(case):
    robot, _, base, prepared, information = case
    value = wls(information).value
    rows = list(row_chunks(robot, prepared, base.columns(robot), delay=True))
    share = share_of_largest(*largest_rows(rows), value)
    k = base.leaders.index("Fc2")
    torque = max(np.max(np.abs(r.tau[1]) * r.keep[1]) for r in rows)
    assert share[k] == pytest.approx(abs(value[k]) / torque, rel=0.3)  # the filter overshoots where it turns round


def test_closest_has_the_base_parameters_and_moves_least(case):
    robot, chi, base, *_ = case
    value, reference = base.values(robot, chi), standard_vector(robot)
    found = closest(robot, base, value, reference)
    M = base.full_map(robot)
    assert np.allclose(M @ found, value, atol=1e-9 * np.max(np.abs(value)))
    assert np.allclose(closest(robot, base, M @ reference, reference), reference, atol=1e-12)
    from ros2_dynid.identification.physical.standard import scales

    S = scales(robot, reference)
    assert np.linalg.norm((found - reference) / S) <= np.linalg.norm((chi - reference) / S) * (1 + 1e-9)


def test_distance_as_printed_moves_least_in_si_units(case):
    robot, chi, base, *_ = case
    value, reference = base.values(robot, chi), standard_vector(robot)
    M = base.full_map(robot)
    printed, ours = closest(robot, base, value, reference, "euclidean"), closest(robot, base, value, reference)
    assert np.allclose(M @ printed, value, atol=1e-9 * np.max(np.abs(value)))
    assert np.linalg.norm(printed - reference) < np.linalg.norm(ours - reference)
    change = value - M @ reference
    leaders = on_leaders(robot, base, change, reference)  # eq. 32: nothing but leaders moves
    assert np.allclose(M @ leaders, value, atol=1e-9 * np.max(np.abs(value)))
    assert np.count_nonzero(leaders != reference) <= len(base)


def test_pivots_are_those_of_cholesky_and_less_forgiving_than_eigenvalues():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 3))
    A = A @ A.T
    assert np.allclose(cholesky_pivots(A), np.diag(np.linalg.cholesky(A)) ** 2)
    J = np.array([[0.01, 0.02, 0.0], [0.02, 0.01, 0.0], [0.0, 0.0, 0.01]])  # eigenvalues 0.03, 0.01, -0.01
    assert cholesky_pivots(J).min() == pytest.approx(0.01 - 0.02**2 / 0.01)
    assert np.linalg.eigvalsh(J)[0] == pytest.approx(-0.01)
    assert cholesky_pivots(np.zeros((2, 2))).min() == -np.inf


def test_true_links_are_consistent_and_a_spoilt_one_is_not(case):
    robot, chi, *_ = case
    assert all(consistent_links(robot, chi)) and all(fully_consistent_links(robot, chi))
    assert smallest_joint_inertia(robot, chi) > 0
    bad = chi.copy()
    bad[14] -= 10.0  # XX2
    assert consistent_links(robot, bad) == [True, False, True, True, True, True]
    assert consistent_links(robot, bad, -20.0) == [True] * 6
    heavy = chi.copy()
    heavy[9] = -1.0  # M1
    assert not consistent_links(robot, heavy, -20.0)[0]
    flat = np.array([1.0, 0, 0, 1.0, 0, 2.5, 0, 0, 0, 1.0])  # against the triangle inequality, yet positive definite
    assert np.linalg.eigvalsh(central_inertia(flat))[0] > 0 > np.linalg.eigvalsh(pseudo_inertia(flat))[0]


def test_made_consistent_changes_only_what_is_not(case):
    robot, chi, *_ = case
    assert np.allclose(make_consistent(robot, chi), chi)
    point = chi.copy()
    M, c = 0.2, np.array([0.0, 0.0, 0.042])
    J = M * (c @ c * np.eye(3) - np.outer(c, c))
    point[70:80] = J[0, 0], 0, 0, J[1, 1], 0, J[2, 2], *(M * c), M
    lifted = make_consistent(robot, point)
    assert all(fully_consistent_links(robot, lifted))
    assert np.allclose(lifted[:70], chi[:70])
    assert np.allclose(lifted[76:80], point[76:80])
    massless = chi.copy()
    massless[70:80] = 0.0, 0, 0, 0, 0, 0, 0.4, 0.3, 0.0, 0.0
    assert make_consistent(robot, massless)[79] == pytest.approx(0.5 / longest_link(robot))


def test_programme_gives_links_that_exist_and_hardly_loses_fit(case):
    robot, chi, base, _, information = case
    full = wls(information)
    T = weighted_triangle(information, 1.0 / full.sigma)
    reference = make_consistent(robot, standard_vector(robot))
    found = impose(build_programme(robot, base, reference), T, full.value)
    assert table(robot, found.chi) == {"0": 6, "-0.01": 6, "-0.02": 6, "-0.04": 6, "full": 6}
    assert -1e-6 < found.loss < 0.1
    assert np.allclose(found.value, base.full_map(robot) @ found.chi)
    assert np.all(links_of(robot, found.chi)[:, 9] > 0)
    truth = base.values(robot, chi)
    near = np.abs(found.value - truth) < 5 * full.base_std + 1e-3
    assert np.mean(near) > 0.95


def test_load_is_found_with_its_error_bars(case):
    robot, _, base, _, empty = case
    loaded = build_information(
        robot, base, [prepare(robot, simulated(seed=5, seed_motion=104, load=load_parameters()))]
    )
    found = identify_load(robot, base, empty, loaded)
    assert abs(found.mass - MASS) < 4 * found.mass_std and found.mass_std < 0.02
    assert np.all(np.abs(found.com - COM) < 4 * found.com_std) and np.max(found.com_std) < 2e-3
    assert np.all(np.abs(found.inertia - INERTIA) < 4 * found.inertia_std + 1e-5)
    assert found.significant and found.interval[0] > 1.9 * found.mass_std
    moved = identify_load(robot, base, empty, loaded, link="tool0")
    expected = (np.linalg.inv(robot.tools["tool0"][1]) @ np.append(COM, 1.0))[:3]
    assert np.allclose(moved.com, expected, atol=5 * np.max(found.com_std))
    with pytest.raises(InputError, match="no moving link"):
        identify_load(robot, base, empty, loaded, link="nowhere")


def test_no_load_is_not_significant(case):
    robot, _, base, _, empty = case
    other = build_information(robot, base, [prepare(robot, simulated(seed=6, seed_motion=104))])
    found = identify_load(robot, base, empty, other)
    assert abs(found.mass) < 4 * found.mass_std


def test_gains_from_a_known_mass(case):
    robot, _, base, *_ = case
    gains = np.array([3.0, 4.0, 2.0, 1.5, 0.7, 0.5])
    recordings = (simulated(), simulated(seed=5, seed_motion=104, load=load_parameters()))
    empty, loaded = (
        build_information(robot, base, [prepare(robot, replace(s, tau=s.tau / gains))]) for s in recordings
    )
    found = drive_gains(robot, base, empty, loaded, MASS)
    assert np.all(np.abs(found.value - gains) < 4.5 * found.std)
    assert np.all(found.std < 0.06 * gains)
    with pytest.raises(InputError, match="mass"):
        drive_gains(robot, base, empty, loaded, 0.0)
    at_once = drive_gains(robot, base, empty, loaded, MASS, load=np.array(load_parameters()))
    assert np.all(np.abs(at_once.value - gains) < 0.02 * gains)
    assert np.all(at_once.std < 0.02 * gains)
    with pytest.raises(InputError, match="load"):
        drive_gains(robot, base, empty, loaded, MASS, load=np.zeros(10))


def test_a_body_that_exists_costs_no_fit(case):
    """The truth can exist, so that parameters which can fit as well as any: a priori values draw nothing."""
    robot, chi, base, _, information = case
    found = wls(information)
    T = weighted_triangle(information, 1.0 / found.sigma)
    reference = make_consistent(robot, standard_vector(robot))
    imposed = impose(build_programme(robot, base, reference), T, found.value)
    assert -1e-6 < imposed.loss < 0.01
    z = (imposed.value - base.values(robot, chi)) / found.base_std
    assert np.mean(np.abs(z) < 3.0) >= 0.95
