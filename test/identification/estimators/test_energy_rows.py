# SPDX-License-Identifier: Apache-2.0

"""Rows of the power balance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prepared_motions import filtered_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.kinematics import constraint
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.estimators.energy_rows import energy_rows
from ros2_dynid.identification.preparation.filters import lowpass_kernel
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.preparation.rows import row_filter, windows
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


BASE = base_parameters(ROBOT)


def test_power_is_what_energy_grows_by_and_friction_takes():
    p = replace(filtered_motion(), segments=(slice(0, 900),))
    chi = true_parameters(ROBOT, 1)
    names = standard_names(ROBOT)
    chi[[k for k, name in enumerate(names) if name.startswith("Fc")]] = 0.0  # jumps are not those of a filtered sign
    p = replace(p, tau=inverse_dynamics(ROBOT, chi, p.q, p.dq, p.ddq))
    everything = list(range(len(names)))
    chunks = list(energy_rows(ROBOT, p, everything, delay=True))
    W, power = (np.concatenate([getattr(c, x)[..., 0, :] for c in chunks], axis=-1) for x in ("W", "tau"))
    assert np.abs(chi @ W[:-1] - power).max() < 2e-3 * np.abs(power).max()
    late = np.sum(np.gradient(p.tau, 0.01, axis=0) * p.dq, axis=1)
    at = np.concatenate([w.at for w in windows(p, 40)])
    half = len(p.kernel) // 2
    wanted = [-(p.kernel[::-1] @ late[k - half : k + half + 1]) for k in at]
    np.testing.assert_allclose(W[-1], wanted, atol=0.02 * np.abs(late).max())
    assert all(chunk.keep.all() for chunk in chunks)
    with pytest.raises(InputError, match="needs a filter"):
        list(energy_rows(ROBOT, replace(p, kernel=None), everything))


@pytest.mark.parametrize("name", ["tx40", "hitachi_hpr"])
def test_power_of_coupled_motors_and_of_joints_that_others_move(name):
    """Columns of Coulomb friction hold the filtered signs, those of every speed of the tree and of every motor."""
    robot = load_robot(name)
    n, count = len(robot.active), 300
    t = np.arange(count) / 100.0
    w = np.linspace(2.0, 5.0, n)
    q, dq, ddq = (0.4 * w**k * np.sin(np.outer(t, w) + k * np.pi / 2) for k in range(3))
    names = standard_names(robot)
    chi = np.linspace(1.0, 2.0, len(names))
    coulomb = [k for k, one in enumerate(names) if one.startswith("Fc")]
    chi[coulomb] = 0.0
    p = as_prepared(robot, q, dq, ddq, inverse_dynamics(robot, chi, q, dq, ddq), t)
    kernels = [lowpass_kernel(8.0, 100.0, k) for k in (0, 1)]
    sign = np.sin(np.outer(t, np.arange(1.0, 1.0 + p.sign.shape[1])))
    p = replace(p, kernel=kernels[0], slope_kernel=kernels[1], step=6, sign=sign)
    (rows,) = energy_rows(robot, p, list(range(len(names))))
    W, power = rows.W[:, 0], rows.tau[0]
    assert np.abs(chi @ W - power).max() < 2e-3 * np.abs(power).max()
    G, _ = constraint(robot)
    every = dq @ G.T
    motors = [sum(c * every[:, j - 1] for j, c in coupling.weights.items()) for coupling in robot.coupling]
    speeds = np.column_stack([every, *motors])
    passed = row_filter(p.kernel, p.step)
    places = [names.index(f"Fc{j + 1}") for j in range(robot.n)]
    places += [names.index(f"Fcm{coupling.motor}") for coupling in robot.coupling]
    assert sorted(places) == coulomb
    np.testing.assert_allclose(W[places], passed((sign * speeds).T, W.shape[1]), atol=1e-9)


def test_power_is_compared_where_any_joint_moves():
    p = filtered_motion()
    moves = np.column_stack((p.t < 4.0, (p.t > 2.0) & (p.t < 6.0), np.zeros(len(p.t)))) > 0.0
    some = replace(p, dq=np.where(moves, 3.0, 0.0), top_speed=np.full(3, 3.0), filter=replace(p.filter, slow=0.1))
    chunks = list(energy_rows(ROBOT, some, BASE.columns(ROBOT)))
    t = np.concatenate([chunk.t for chunk in chunks])
    keep = np.concatenate([chunk.keep for chunk in chunks], axis=1)
    assert keep.shape == (1, len(t)) and keep[0, t < 5.7].all() and not keep[0, t > 6.3].any()
    with pytest.raises(InputError, match="needs a filter"):
        list(energy_rows(ROBOT, replace(p, slope_kernel=None), BASE.columns(ROBOT)))
