# SPDX-License-Identifier: Apache-2.0

"""Small parts of identification that large tests only use: each against brute force or a formula written apart."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.stats import norm, t

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.robust import _scale
from ros2_dynid.identification.model_file import TorqueData, load_torque_data, save_torque_data
from ros2_dynid.identification.preparation.even_grid import bursts, smoothed_over
from ros2_dynid.identification.regression.information import block_length
from ros2_dynid.identification.torque_std import TorqueScatter, bars_of
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import PRISMATIC, Limits


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


def test_the_robust_scale_is_the_standard_deviation_of_gaussian_errors_and_not_of_outliers():
    rng = np.random.default_rng(0)
    size = np.abs(rng.normal(0.0, 3.0, 20_000))
    assert _scale(size) == pytest.approx(3.0, rel=0.02)
    spoilt = size.copy()
    spoilt[:1000] = 1e4
    s = _scale(spoilt)
    assert 3.0 < s < 3.5
    assert np.mean(np.minimum(spoilt / s, 1.345) ** 2) == pytest.approx(0.7102, rel=1e-4), "Huber's proposal 2"
    assert _scale(np.zeros(10)) == 0.0


def test_rows_of_a_block():
    assert [block_length(n, 10) for n in (1, 10, 11, 95, 100, 101)] == [1, 1, 2, 10, 10, 11]
    assert block_length(7, 0) == 7 and block_length(0, 5) == 1


# --- bursts


def smooth(count=1200):
    t = np.arange(count) / 500
    return t, np.column_stack((10 * np.sin(3 * t), 5 * np.cos(2 * t))) + 1e-3 * np.random.default_rng(0).normal(
        size=(count, 2)
    )


@pytest.mark.parametrize("joint", [0, 1])
def test_a_burst_is_found_where_it_is_and_interpolated(joint):
    t, tau = smooth()
    assert not bursts(tau).any()
    loud = tau.copy()
    loud[480:504, joint] += 8.0 * np.random.default_rng(1).normal(size=24)
    found = bursts(loud)
    assert found[480:504, joint].all() and not found[:, 1 - joint].any()
    rows = np.flatnonzero(found[:, joint])
    assert 456 <= rows[0] <= 480 and 504 <= rows[-1] <= 532 and np.all(np.diff(rows) == 1)
    filled = smoothed_over(t, loud, found)
    np.testing.assert_array_equal(filled[:, 1 - joint], loud[:, 1 - joint])
    bad = found[:, joint]
    np.testing.assert_array_equal(filled[~bad, joint], loud[~bad, joint])
    np.testing.assert_allclose(filled[bad, joint], np.interp(t[bad], t[~bad], tau[~bad, joint]), atol=1e-12)


def test_what_is_no_burst():
    _, tau = smooth()
    noise = np.random.default_rng(1).normal(size=tau.shape)
    assert not bursts(tau + 3.0 * noise).any(), "noisy all the time"
    often = tau.copy()
    often[:80, 0] += 8.0 * noise[:80, 0]
    assert not bursts(often).any(), "more than a twentieth of it"
    quiet = tau.copy()
    quiet[480:504, 0] += 0.05 * noise[480:504, 0]
    assert not bursts(quiet).any(), "too little to do harm"
    step = tau.copy()
    step[600:, 0] += 6.0
    assert not bursts(step).any(), "dry friction where a joint turns back"
    short = tau[:200].copy()
    short[100:112] += 8.0 * noise[100:112]
    assert not bursts(short).any(), "too short to tell"


def test_torques_for_pictures_come_back_as_they_were_written(tmp_path):
    rng = np.random.default_rng(0)
    sets = {
        name: TorqueData(rng.normal(size=count), *rng.normal(size=(7, count, 3)))
        for name, count in (("fit", 5), ("validation", 4))
    }
    save_torque_data(tmp_path / "data.npz", sets)
    found = load_torque_data(tmp_path / "data.npz")
    assert list(found) == ["fit", "validation"]
    for name, one in sets.items():
        for field in fields(one):
            again = getattr(found[name], field.name)
            assert again.dtype == float
            np.testing.assert_allclose(again, getattr(one, field.name), rtol=1e-6)
    with np.load(tmp_path / "data.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    assert all(array.dtype == np.float32 for array in arrays.values())
    np.savez(tmp_path / "old.npz", **{key: value for key, value in arrays.items() if "temperature" not in key})
    old = load_torque_data(tmp_path / "old.npz")["validation"]
    assert old.temperature.shape == (4, 3) and np.all(np.isnan(old.temperature))
    np.savez(tmp_path / "less.npz", **{key: value for key, value in arrays.items() if key != "fit_predicted"})
    (tmp_path / "broken.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:300])
    for bad in ("less.npz", "broken.npz"):
        with pytest.raises(InputError, match="identify again"):
            load_torque_data(tmp_path / bad)


@pytest.mark.parametrize("seed", range(12))
def test_bursts_are_those_of_their_definition(seed):
    """Block by block of 12 fourth differences, in loops: sizes about where a burst begins to count."""
    rng = np.random.default_rng(seed)
    count = 1200
    _, tau = smooth(count)
    for joint in range(2):
        for _ in range(rng.integers(1, 6)):
            at, size = int(rng.integers(0, count - 24)), rng.uniform(0.1, 1.5)
            tau[at : at + int(rng.integers(8, 30)), joint] += size * rng.normal()
            tau[at : at + 24, joint] += size * rng.normal(size=24)
    wanted = np.zeros(tau.shape, bool)
    for joint in range(2):
        jagged = np.abs(np.diff(tau[:, joint], 4))
        blocks = [jagged[12 * k : 12 * k + 12] for k in range((count - 4) // 12)]
        means = [block.mean() for block in blocks]
        limit = max(6.0 * np.quantile(means, 0.9), 0.3 * tau[:, joint].std())
        noisy = [k for k, block in enumerate(blocks) if block.mean() > limit and np.median(block) > limit]
        if len(noisy) <= 0.05 * len(blocks):
            for k in noisy:
                wanted[max(12 * (k - 1), 0) : 12 * (k + 2) + 4, joint] = True
    np.testing.assert_array_equal(bursts(tau), wanted)


def test_how_long_efforts_must_be_for_bursts_to_be_looked_for():
    for blocks, told in ((19, False), (20, True)):
        tau = 1e-3 * np.random.default_rng(0).normal(size=(12 * blocks + 4, 1))
        tau[100:112] += 20.0 * np.random.default_rng(1).normal(size=(12, 1))
        tau[:, 0] += 10.0 * np.sin(np.arange(len(tau)) / 200)
        assert bursts(tau).any() == told
