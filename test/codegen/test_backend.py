# SPDX-License-Identifier: Apache-2.0

"""Dynamics by the compiled library where there is one, and by NumPy, with one warning, where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.codegen import backend, compiled
from ros2_dynid.codegen.backend import (
    TermsTorque,
    fast_energy_regressor,
    fast_inverse_dynamics,
    fast_regressor,
    regressor_function,
    torque_function,
)
from ros2_dynid.dynamics.energy import energy_regressor
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Joint, Robot
from runtime_robots import with_terms
from small_program import close

SMALL = Robot("small", (Joint("a", 0, d=0.1), Joint("b", 1, alpha=np.pi / 2, r=0.2)))


def batch(robot, N, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, N, len(robot.active)))


def test_friction_terms_are_added_to_generated_code(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    robot = with_terms(load_robot("puma560"), np.random.default_rng(7))
    chi = np.random.default_rng(1).uniform(0.1, 1.0, len(standard_names(robot)))
    q, dq, ddq = batch(robot, 7)
    wanted = inverse_dynamics(robot, chi, q, dq, ddq)
    one = torque_function(robot, chi)
    assert isinstance(one, TermsTorque)
    assert close(one.torques(q, dq, ddq), wanted) and close(one.torque(q[2], dq[2], ddq[2]), wanted[2])
    assert close(fast_inverse_dynamics(robot, chi, q, dq, ddq), wanted)
    warm = replace(robot, friction=(FrictionTerm(2, FrictionKind.CUBIC, 0.5),))
    more = fast_inverse_dynamics(warm, chi, q, dq, ddq) - inverse_dynamics(replace(robot, friction=()), chi, q, dq, ddq)
    assert close(more[:, 1], 0.5 * dq[:, 1] ** 3) and close(np.delete(more, 1, axis=1), np.zeros((7, 5)))


@pytest.mark.parametrize("choice", ["numpy", "compiled"])
def test_memory_that_is_given_is_filled(monkeypatch, choice):
    monkeypatch.setenv("DYNID_BACKEND", choice)
    if choice == "compiled" and not compiled.shutil.which("cc"):
        pytest.skip("needs a C compiler")
    for N in (0, 1, 31, 32, 33, 70):
        q, dq, ddq = batch(SMALL, N)
        Y = regressor(SMALL, q, dq, ddq)
        out = fast_regressor(SMALL, q, dq, ddq)
        assert out.shape == Y.shape == (N, 2, 28) and out.transpose().flags.c_contiguous
        if not N:
            continue
        assert close(out, Y)
        turned = fast_regressor(SMALL, -q, dq, 2.0 * ddq, out=out)
        assert np.shares_memory(turned, out) and close(out, regressor(SMALL, -q, dq, 2.0 * ddq))
        assert close(fast_energy_regressor(SMALL, q, dq), energy_regressor(SMALL, q, dq))
        fill = regressor_function(SMALL, 10 * backend.MIN_BUILD_SAMPLES)
        assert close(fill(q, dq, ddq), Y.transpose(2, 1, 0)) and close(
            fill(dq, q, ddq).transpose(2, 1, 0), regressor(SMALL, dq, q, ddq)
        )
        for wrong in (np.zeros((N + 1, 2, 28)).transpose(), np.zeros((N, 2, 28)), np.zeros((28, 2, N + 1)).transpose()):
            if wrong.shape == out.shape and wrong.transpose().flags.c_contiguous:
                continue
            with pytest.raises(InputError, match="out does not fit"):
                fast_regressor(SMALL, q, dq, ddq, out=wrong)


def test_batches_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    good = np.zeros((4, 2))
    for wrong in (np.zeros(2), np.zeros((4, 3)), np.zeros((3, 2)), np.zeros((1, 4, 2))):
        with pytest.raises(InputError, match=r"give samples by joints, \(N, 2\)"):
            fast_regressor(SMALL, good, wrong, good)
    bad = good.copy()
    bad[2, 1] = np.inf
    with pytest.raises(InputError, match="ddq of joint 'b' is not finite in sample 2"):
        fast_regressor(SMALL, good, good, bad)


def test_temperatures_and_loads_reach_the_friction_terms(monkeypatch):
    monkeypatch.setenv("DYNID_BACKEND", "numpy")
    terms = (
        FrictionTerm(1, FrictionKind.LOAD, 0.3),
        FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, 0.2, reference=30.0),
    )
    robot = replace(SMALL, friction=terms)
    chi = np.random.default_rng(1).uniform(0.1, 1.0, 28)
    q, dq, ddq = batch(robot, 5)
    T = np.random.default_rng(2).uniform(10.0, 60.0, (5, 2))
    T[3, 1] = np.nan
    wanted = inverse_dynamics(robot, chi, q, dq, ddq, T)
    assert close(fast_inverse_dynamics(robot, chi, q, dq, ddq, T), wanted)
    cold = inverse_dynamics(robot, chi, q, dq, ddq)
    assert not close(cold, wanted) and close(fast_inverse_dynamics(robot, chi, q, dq, ddq), cold)
    one = torque_function(robot, chi)
    assert close(one.torques(q, dq, ddq), cold)
    assert close(one.torque(q[1].tolist(), dq[1].tolist(), ddq[1].tolist()), cold[1])
