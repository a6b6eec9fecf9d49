# SPDX-License-Identifier: Apache-2.0

"""Stiffness of drives on two masses that SciPy integrates: a motor and a pendulum, under the motor's controller."""

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.drive_stiffness import estimate_stiffness, with_link_torque
from ros2_dynid.model.robot import Joint, Robot
from ros2_dynid.pipeline import identify
from two_masses import DAMPING, INERTIA, ROTOR, WEIGHT, recording


def test_stiffness_damping_and_rotor_are_within_their_error_bars():
    deviations = []
    for seed in range(6):
        (drive,) = estimate_stiffness([recording(seed)[0]])
        assert drive.doubt == "" and drive.k_std < 0.03 * drive.k
        pairs = ((drive.k, drive.k_std, 4000.0), (drive.d, drive.d_std, DAMPING), (drive.Ia, drive.Ia_std, ROTOR))
        deviations += [abs(value - true) / std for value, std, true in pairs]
    assert np.mean(np.array(deviations) < 3.0) >= 0.9 and max(deviations) < 5.0
    (both,) = estimate_stiffness([recording(0)[0], recording(1)[0]])
    assert abs(both.k - 4000.0) < 3.0 * both.k_std
    assert both.resonance == pytest.approx(np.sqrt(4000.0 / ROTOR) / (2.0 * np.pi), rel=0.02)


def test_the_torque_of_the_drive_is_a_sensor_at_the_link():
    samples, passed = recording(3)
    measured = with_link_torque(samples, estimate_stiffness([samples]))
    error = measured.tau_l[:, 0] - passed
    assert np.std(error) < 0.01 * np.std(passed)
    robot = Robot("pendulum", (Joint("j", 0, alpha=np.pi / 2),))
    found = identify(robot, [measured])
    rows, alone = ({row.leader: row for row in run.model.table()} for run in (found, identify(robot, [samples])))
    assert rows["ZZ1"].value == pytest.approx(INERTIA + ROTOR, rel=0.03)
    assert rows["MX1"].value * 9.81 == pytest.approx(WEIGHT, rel=0.01)
    assert rows["MX1"].std < 0.2 * alone["MX1"].std


def test_what_cannot_be_told_is_not_used():
    samples, _ = recording(3)
    (rigid,) = estimate_stiffness([replace(samples, q_m=samples.q + 0.25)])
    assert rigid.doubt == "both encoders show the same" and np.isnan(rigid.k)
    noise = 1e-2 * np.random.default_rng(0).normal(size=samples.q.shape)
    (noisy,) = estimate_stiffness([replace(samples, q_m=samples.q_m + noise)])
    assert "noise hides it" in noisy.doubt
    assert np.isnan(with_link_torque(samples, [noisy]).tau_l).all()
    with pytest.raises(InputError, match=r"no NAME\.motor_position"):
        estimate_stiffness([replace(samples, q_m=None)])
    with pytest.raises(InputError, match=r"no NAME\.effort"):
        estimate_stiffness([replace(samples, tau=None)])
    with pytest.raises(InputError, match="too short"):
        estimate_stiffness([samples.take(slice(0, 100))])
