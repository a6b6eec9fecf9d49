# SPDX-License-Identifier: Apache-2.0

"""Every parameter of the feedforward is its own setting."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ros2_dynid.srv")

from ros2_dynid.control.feedforward import FeedforwardOptions
from ros2_dynid.control.feedforward_events import FeedforwardSettings
from ros2_dynid.nodes.feedforward.external_effort import Feeling
from ros2_dynid.nodes.feedforward.parameters import PARAMETERS, feedforward_settings, feeling

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}
VALUES = {
    "hold_gravity_on_activate": False, "rate": 500.0, "split": True, "gravity_only": True, "friction": False,
    "measured_gravity": True, "smoothing": 0.03, "ramp_seconds": 0.4, "timeout": 0.06, "stale_seconds": 0.07,
    "temperature_stale_seconds": 8.0, "point_rate": 90.0, "joint_order": ["elbow", "waist", "shoulder"],
    "effort_limits": [10.0, 11.0, 12.0], "effort_rates": [500.0, 510.0, 520.0], "start_tolerance": 0.21,
    "stop_lead": 0.022, "robot_adds": ["gravity"], "robot_measures": ["motor-gravity"], "check_rest_efforts": False,
}  # fmt: skip
MEANT = FeedforwardSettings(
    options=FeedforwardOptions(
        gravity_only=True, friction=False, smoothing=0.03, measured_gravity=True, split=True, ramp=0.4
    ),
    timeout=0.06,
    stale=0.07,
    hold=False,
    period=0.002,
    efforts=(10.0, 11.0, 12.0),
    rates=(500.0, 510.0, 520.0),
    command_names=("elbow", "waist", "shoulder"),
    point_rate=90.0,
    temperature_stale=8.0,
    near=0.21,
    lead=0.022,
    robot_adds=("gravity",),
    robot_measures=("motor-gravity",),
    check_rest=False,
)


def test_every_parameter_is_its_own_setting():
    assert feedforward_settings(VALUES.__getitem__) == MEANT
    for name in VALUES:  # alone, beside the defaults
        alone = feedforward_settings({**DEFAULTS, name: VALUES[name]}.__getitem__)
        assert alone != feedforward_settings(DEFAULTS.__getitem__), name
    felt = {"observer_bandwidth": 13.0, "contact_thresholds": [14.0, 15.0], "wrench_link": "hand"}
    assert feeling(felt.__getitem__) == Feeling(13.0, (14.0, 15.0), "hand")


def test_the_defaults_are_those_of_the_machine():
    assert feedforward_settings(DEFAULTS.__getitem__) == FeedforwardSettings()
