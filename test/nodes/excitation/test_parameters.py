# SPDX-License-Identifier: Apache-2.0

"""Every parameter of the motion is its own setting."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.control.motion_limits import MotionSettings
from ros2_dynid.nodes.excitation.parameters import PARAMETERS, SETTINGS, motion_settings

VALUES = {
    "tracking_tolerance": 0.11, "stale_seconds": 0.12, "limit_overshoot": 0.13, "approach_speed": 0.14,
    "settle_seconds": 0.15, "stop_deceleration": 0.16, "stop_lead": 0.17, "start_delay": 0.18,
}  # fmt: skip
MEANT = MotionSettings(
    tracking=0.11,
    stale=0.12,
    overshoot=0.13,
    approach_speed=0.14,
    settle=0.15,
    deceleration=0.16,
    lead=0.17,
    delay=0.18,
)


def test_every_parameter_of_the_motion_is_its_own_setting():
    assert set(VALUES) == set(SETTINGS)
    assert motion_settings(VALUES.__getitem__) == MEANT


def test_the_defaults_are_those_of_the_machine():
    defaults = {parameter.name: parameter.default for parameter in PARAMETERS}
    assert motion_settings(defaults.__getitem__) == MotionSettings()
