# SPDX-License-Identifier: Apache-2.0

"""Standard deviations of predicted torques: against the scatter of repeated identifications, and on held-out data."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm, t

from recordings import simulated, simulated_truth
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification import torque_std as module
from ros2_dynid.identification.model_file import model_of, save_model
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.torque_std import TorqueScatter, band_level, bars_of, error_bars, torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Limits
from ros2_dynid.pipeline import identify

MOTION = np.random.default_rng(3).uniform(-1, 1, (3, 60, 6)) * np.array([1.5, 1.5, 3.0])[:, None, None]


@pytest.fixture(scope="module")
def models():
    """Return models of one motion recorded again and again: other noise each time, far above what is the same."""
    robot, _ = simulated_truth()
    base = base_parameters(robot, method="closed-form")
    found = []
    for seed in range(8):
        samples = simulated()
        noise = 0.5 * np.random.default_rng(seed).standard_normal(samples.tau.shape)
        estimate = wls(build_information(robot, base, [prepare(robot, replace(samples, tau=samples.tau + noise))]))
        more = {"obtained": {"sigma": estimate.sigma.tolist()}}
        found.append(model_of(robot, base, estimate.base, estimate.base_std, estimate.base_covariance, **more))
    return found


def test_std_is_the_scatter_of_repeated_identifications(models):
    tau = np.array([model.torque(*MOTION) for model in models])
    stated = np.sqrt(np.mean([torque_std(model, *MOTION) ** 2 for model in models], axis=0))
    scatter = tau.std(axis=0, ddof=1)
    ratio = np.sqrt(np.mean(stated**2, axis=0) / np.mean(scatter**2, axis=0))
    assert np.all((ratio > 0.6) & (ratio < 1.8)), ratio
    assert 0.8 < np.sqrt(np.mean(stated**2) / np.mean(scatter**2)) < 1.5


def test_truth_is_within_three_std(models):
    robot, chi = simulated_truth()
    truth = inverse_dynamics(robot, chi, *MOTION)
    z = np.array([(model.torque(*MOTION) - truth) / torque_std(model, *MOTION) for model in models])
    assert np.mean(np.abs(z) < 3.0) >= 0.95


def test_std_is_the_quadratic_form_of_the_covariance(models):
    model = models[0]
    base = base_parameters(model.robot, method="closed-form")
    Y = regressor(model.robot, *MOTION)[:, :, base.columns(model.robot)]
    expected = np.sqrt(np.einsum("tjb,bc,tjc->tj", Y, model.covariance, Y))
    assert np.allclose(torque_std(model, *MOTION), expected, rtol=1e-6)
    sigma = np.array(model.obtained["sigma"])
    assert np.allclose(torque_std(model, *MOTION, measured=True), np.hypot(expected, sigma), rtol=1e-6)
    links = [k for k, name in enumerate(model.leaders) if name[:2] not in ("Fv", "Fc", "of")]
    assert 0 < len(links) < len(model.leaders)
    few, C = Y[:, :, links], model.covariance[np.ix_(links, links)]
    alone = np.sqrt(np.einsum("tjb,bc,tjc->tj", few, C, few))
    assert np.allclose(torque_std(model, *MOTION, friction=False), alone, rtol=1e-6)
    both = torque_std(model, *MOTION, friction=False, measured=True)
    assert np.allclose(both, np.hypot(alone, sigma), rtol=1e-6)
    with pytest.raises(InputError, match="shape"):
        torque_std(model, *MOTION[:, :, :3])


@pytest.mark.parametrize("at_once", [1, 7, 59, 60, 61])
def test_std_does_not_depend_on_how_many_samples_are_held_at_a_time(models, monkeypatch, at_once):
    whole = torque_std(models[0], *MOTION)
    monkeypatch.setattr(module, "CHUNK", at_once)
    np.testing.assert_allclose(torque_std(models[0], *MOTION), whole, rtol=1e-9)


@pytest.mark.parametrize(
    ("obtained", "level", "dof"),
    [
        ({"sigma": [1.0, 2, 3.0, 4.0, 5.0, 6.0], "dof": 12}, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 12.0),
        ({"sigma": [1.0] * 6, "band_sigma": [2.0] * 6, "dof": 0.5}, [2.0] * 6, 0.5),
        ({"sigma": [1.0] * 5, "dof": 0}, [0.0] * 6, np.inf),
        ({"sigma": 3.0, "dof": -1.0}, [0.0] * 6, np.inf),
        ({"sigma": [1.0] * 5 + ["x"], "dof": "many"}, [0.0] * 6, np.inf),
        ({}, [0.0] * 6, np.inf),
    ],
)
def test_the_scatter_that_a_file_tells(models, obtained, level, dof):
    std = models[0].std.copy()
    std[3] = np.inf
    found = module.torque_scatter(replace(models[0], obtained=obtained, std=std))
    assert found.sigma.tolist() == level and found.dof == dof
    assert found.identified.tolist() == [k != 3 for k in range(len(std))]
    np.testing.assert_array_equal(found.covariance, models[0].covariance)


def test_torque_of_a_parameter_that_is_not_known_has_no_bound(models):
    model = models[0]
    std = model.std.copy()
    std[model.leaders.index("Fv3")] = np.inf
    spread = torque_std(replace(model, std=std), *MOTION)
    assert np.all(np.isinf(spread[:, 2])) and np.all(np.isfinite(np.delete(spread, 2, axis=1)))


def test_friction_terms_have_bars_only_where_friction_is_asked_for(models):
    """A term of joint 3 with a covariance of its own, beside a base parameter that is not known."""
    model = models[0]
    robot = replace(model.robot, friction=(FrictionTerm(3, FrictionKind.CUBIC, 0.1, 0.2),))
    b = len(model.names)
    rubbing = replace(model, robot=robot, friction_covariance=np.append(np.zeros(b), 0.04)[None])
    plain = torque_std(model, *MOTION)
    wanted = plain.copy()
    wanted[:, 2] = np.hypot(plain[:, 2], 0.2 * np.abs(MOTION[1][:, 2]) ** 3)
    np.testing.assert_allclose(torque_std(rubbing, *MOTION), wanted)
    links = torque_std(model, *MOTION, friction=False)
    np.testing.assert_allclose(torque_std(rubbing, *MOTION, friction=False), links)
    std = model.std.copy()
    std[model.leaders.index("Fv5")] = np.inf
    spread = torque_std(replace(rubbing, std=std), *MOTION)
    assert np.isinf(spread[:, 4]).all()
    np.testing.assert_allclose(np.delete(spread, 4, axis=1), np.delete(wanted, 4, axis=1))


@pytest.mark.parametrize(
    "shapes", [((5, 6), (5, 6), (4, 6)), ((5, 6), (5, 5), (5, 6)), ((6,), (6,), (6,)), ((5, 5),) * 3]
)
def test_motion_of_other_shapes_is_refused(models, shapes):
    with pytest.raises(InputError, match=r"differ in shape.*\(N, 6\)"):
        torque_std(models[0], *(np.zeros(shape) for shape in shapes))


def test_band_holds_held_out_rows_and_counts_those_outside():
    robot, _ = simulated_truth()
    quick = IdentifyOptions(friction="viscous+coulomb", checks=False, prior="none", cross_validate=0)
    other = simulated(seed=5, seed_motion=104)
    found = identify(robot, [simulated()], validate=[other], options=quick).outcome
    assert set(found.band_coverage) == {*robot.active_names, "all"}
    assert 0.90 <= found.band_coverage["all"] <= 0.99
    noise = np.random.default_rng(0).standard_normal(other.tau.shape) * 3.0
    found = identify(robot, [simulated()], validate=[replace(other, tau=other.tau + noise)], options=quick).outcome
    assert found.band_coverage["all"] < 0.8
    assert identify(robot, [simulated()], options=quick).outcome.band_coverage == {}


def test_bars_of_a_model_are_those_of_its_file(models):
    model = replace(models[0], obtained={"sigma": [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]})
    found, wanted = error_bars(model), bars_of(model.robot, model.leaders, module.torque_scatter(model))
    np.testing.assert_array_equal(found.sigma, [1.0, 2.0, 3.0, 4.0, 5.0, np.nan])
    np.testing.assert_array_equal(found.torque_std, wanted.torque_std)
    assert np.all(found.torque_std > 0.0)


def test_spread_of_rows():
    W = np.array([[[1.0, 0.0]], [[2.0, 0.0]]])
    spread = TorqueScatter(np.diag([0.04, 0.01]), np.array([True, True]), np.array([0.3]))
    assert np.allclose(spread.std(W), [[np.sqrt(0.08), 0.0]])
    assert np.allclose(spread.measured(W), [[np.sqrt(0.17), 0.3]])
    half = replace(spread, identified=np.array([True, False]))
    assert np.isinf(half.std(W)[0, 0]) and half.std(W)[0, 1] == 0.0


def test_command_adds_columns(models, tmp_path, capsys):
    model = models[0]
    save_model(model, tmp_path / "model.yaml")
    names = model.robot.active_names
    header = ["time", *(f"{n}.{kind}" for kind in ("position", "velocity", "acceleration") for n in names)]
    lines = [",".join(map(str, (0.1 * k, *MOTION[:, k].ravel()))) for k in range(5)]
    (tmp_path / "in.csv").write_text("\n".join([",".join(header), *lines]) + "\n")
    args = [str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), "--std"]
    assert main(["torque", str(tmp_path / "model.yaml"), *args]) == 0
    with (tmp_path / "out.csv").open() as file:
        table = list(csv.reader(file))
    assert table[0][7:] == [f"{n}.effort_std" for n in names]
    assert np.allclose(np.array(table[1:], dtype=float)[:, 7:], torque_std(model, *MOTION[:, :5]))
    capsys.readouterr()
    assert main(["torque", "demo6", *args, "--overwrite"]) == 2
    assert "error bars" in capsys.readouterr().err


def test_band_level_is_that_of_held_out_errors_without_what_the_covariance_explains():
    rng = np.random.default_rng(0)
    R = np.column_stack((rng.standard_normal((40, 2)), np.zeros(40)))
    block = Block((R,), np.array([40]), 0.0, 1.0)
    information = Information((block,), (np.arange(2),), ColumnLayout(2))
    C = np.diag([0.04, 0.01])
    ones = np.ones(2, dtype=bool)
    found = Estimate(information.layout, np.zeros(2), C, ones, np.array([0.5]), 1.0, 2, Method.WLS, 29.0)
    assert band_level(information, found, None) == pytest.approx(0.5)
    assert band_level(information, found, np.array([0.1])) == pytest.approx(0.5), "never below the residual level"
    explained = np.mean(np.einsum("ki,ij,kj->k", R[:, :2], C, R[:, :2]))
    assert band_level(information, found, np.array([2.0])) == pytest.approx(np.sqrt(4.0 - 1.25 * explained))


def test_band_is_wider_where_few_blocks_tell_it():
    few, many = (TorqueScatter(np.eye(1), np.ones(1, dtype=bool), np.ones(1), dof) for dof in (9.0, np.inf))
    assert few.width == pytest.approx(2.262, abs=1e-3) and many.width == pytest.approx(1.960, abs=1e-3)


@pytest.mark.parametrize("limited", [True, False])
def test_error_bars_are_the_largest_over_motions_within_the_limits(limited):
    robot = load_robot("demo3")
    if not limited:
        joints = [replace(j, limits=Limits(-0.5, 0.3) if k == 0 else Limits()) for k, j in enumerate(robot.joints)]
        joints[2] = replace(joints[2], sigma=PRISMATIC)
        robot = replace(robot, joints=tuple(joints), parameters={})
    base = base_parameters(robot)
    rng = np.random.default_rng(4)
    L = rng.normal(size=(len(base.leaders), len(base.leaders)))
    spread = TorqueScatter(L @ L.T, np.ones(len(base.leaders), dtype=bool), np.array([0.3, 0.0, 0.5]))
    found = bars_of(robot, base.leaders, spread)
    draw = np.random.default_rng(0)
    q, dq, ddq = (draw.uniform(-1.0, 1.0, (500, 3)) for _ in range(3))
    for k, joint in enumerate(robot.joints):
        x, reach = joint.limits, 1.0 if joint.sigma == PRISMATIC else np.pi
        lower, upper = max(x.lower, -reach), min(x.upper, reach)
        q[:, k] = lower + (q[:, k] + 1) / 2 * (upper - lower)
        dq[:, k] *= x.velocity if limited else 1.0
        ddq[:, k] *= x.acceleration if limited else 1.0
    place = [standard_names(robot).index(name) for name in base.leaders]
    Y = regressor(robot, q, dq, ddq)[:, :, place]
    std = np.sqrt(np.einsum("tnb,bc,tnc->tn", Y, spread.covariance, Y)).max(axis=0)
    np.testing.assert_allclose(found.torque_std, std, rtol=1e-9)
    np.testing.assert_array_equal(found.sigma, [0.3, np.nan, 0.5])
    open_one = replace(spread, identified=np.arange(len(base.leaders)) != 0)
    assert np.isnan(bars_of(robot, base.leaders, open_one).torque_std).any()


@pytest.mark.parametrize("dof", [5.0, 40.0, np.inf])
def test_a_band_holds_95_percent(dof):
    spread = TorqueScatter(np.diag([0.04, 0.09]), np.ones(2, dtype=bool), np.array([0.5, 0.0]), dof)
    assert spread.width == pytest.approx(norm.ppf(0.975) if np.isinf(dof) else t.ppf(0.975, dof))
    W = np.array([[[1.0, 2.0], [0.0, 1.0]], [[3.0, -1.0], [1.0, 0.0]]])
    wanted = np.sqrt(0.04 * W[0] ** 2 + 0.09 * W[1] ** 2)
    np.testing.assert_allclose(spread.std(W), wanted)
    np.testing.assert_allclose(spread.measured(W), np.hypot(wanted, [[0.5], [0.0]]))
    unknown = replace(spread, identified=np.array([True, False]))
    assert np.isinf(unknown.std(W)).tolist() == [[True, True], [True, False]]
