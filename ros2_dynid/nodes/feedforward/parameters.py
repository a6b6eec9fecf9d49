# SPDX-License-Identifier: Apache-2.0

"""Parameters of the node feedforward, and the settings that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ros2_dynid.control.feedforward import FeedforwardOptions
from ros2_dynid.control.feedforward_events import FeedforwardSettings
from ros2_dynid.control.torque_ramp import RAMP_SECONDS
from ros2_dynid.model.efforts import CHOICES, SENSOR_CHOICES
from ros2_dynid.nodes.common.parameters import Described, Settable
from ros2_dynid.nodes.common.stop_topic import PARAMETERS as STOP_PARAMETERS
from ros2_dynid.nodes.feedforward.external_effort import Feeling

TRAJECTORY, EFFORT = "trajectory", "effort"

PARAMETERS = (
    Described("model", "", "model file; empty: wait for base_parameters", settable=Settable.UNCONFIGURED),
    Described(
        "output",
        TRAJECTORY,
        "trajectory: effort in joint_trajectory; effort: torques streamed at `rate`",
        choices=(TRAJECTORY, EFFORT),
    ),
    Described(
        "robot_adds",
        [""],
        f"what the robot adds to a commanded effort, one a joint or one: {CHOICES}; empty: as the model declares",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "robot_measures",
        [""],
        f"what a measured effort holds, one a joint or one: {SENSOR_CHOICES}; empty: as the model declares",
        settable=Settable.UNCONFIGURED,
    ),
    Described(
        "check_rest_efforts",
        True,
        "compare both with the efforts measured at rest before the first torque; false: efforts are no torques",
    ),
    Described(
        "hold_gravity_on_activate",
        True,
        "with output effort, send gravity at the measured position before the first reference; false: nothing",
    ),
    Described("rate", 1000.0, "of streamed torques [Hz]", 10.0, 4000.0),
    Described("background_rate", 50.0, "of the coefficients published [Hz]", 0.5, 500.0),
    Described("split", False, "streamed torque from the background's coefficients, instead of the complete one"),
    Described("gravity_only", False, "nothing but the torque against gravity"),
    Described("friction", True, "include friction"),
    Described("measured_gravity", False, "gravity at the measured position instead of the reference"),
    Described("smoothing", 0.02, "speed over which Coulomb friction changes sign [rad/s or m/s]", 1e-4, 10.0),
    Described(
        "ramp_seconds", RAMP_SECONDS, "of every change-over between models, loads, options or to gravity [s]", 0.0, 10.0
    ),
    Described("timeout", 0.05, "a streamed reference older than this has stopped [s]", 0.001, 10.0),
    Described(
        "start_tolerance", 0.1, "how far a reference may begin from the measured position [rad or m]", 1e-4, 10.0
    ),
    Described("stop_lead", 0.01, "expected time from sending a stop to the controller's first step [s]", 0.0, 0.2),
    Described("stale_seconds", 0.1, "joint states older than this are not used [s]", 0.002, 10.0),
    Described(
        "temperature_stale_seconds",
        60.0,
        "temperatures of the drives older than this are not used: friction at T0 [s]",
        0.1,
        3600.0,
    ),
    Described(
        "point_rate", 100.0, "points with effort in a second of a trajectory passed on, at least [Hz]", 1.0, 1000.0
    ),
    Described("priority", 40, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
    Described("joint_order", [""], "joints in the order of effort_commands; empty: the robot's own"),
    Described(
        "effort_limits", [0.0], "largest torques [N.m or N], one a joint or one; 0: the robot's own limits", 0.0, 1e6
    ),
    Described(
        "effort_rates",
        [0.0],
        "largest changes of streamed torques [N.m/s or N/s], one a joint or one; 0: from limit to limit in 0.1 s",
        0.0,
        1e9,
    ),
    Described("observer_bandwidth", 100.0, "of the external torques found [rad/s]", 1.0, 1000.0),
    Described(
        "contact_thresholds",
        [0.0],
        "external torques that mean contact [N.m or N], one a joint or one; 0: from the model's error bars",
        0.0,
        1e6,
    ),
    Described("wrench_link", "", "link of ~/external_wrench; empty: the robot's last link"),
    Described("predicted_rate", 100.0, "of the predicted torque for plots on ~/predicted, at most [Hz]", 1.0, 1000.0),
    *STOP_PARAMETERS,
)


def feedforward_settings(value: Callable[[str], Any]) -> FeedforwardSettings:
    """Return the machine's settings; value(name) is a parameter's value."""
    return FeedforwardSettings(
        options=FeedforwardOptions(
            gravity_only=value("gravity_only"),
            friction=value("friction"),
            smoothing=value("smoothing"),
            measured_gravity=value("measured_gravity"),
            split=value("split"),
            ramp=value("ramp_seconds"),
        ),
        timeout=value("timeout"),
        stale=value("stale_seconds"),
        hold=value("hold_gravity_on_activate"),
        period=1 / value("rate"),
        efforts=tuple(value("effort_limits")),
        rates=tuple(value("effort_rates")),
        command_names=tuple(name for name in value("joint_order") if name),
        point_rate=value("point_rate"),
        temperature_stale=value("temperature_stale_seconds"),
        near=value("start_tolerance"),
        lead=value("stop_lead"),
        robot_adds=tuple(value("robot_adds")) if any(value("robot_adds")) else (),
        robot_measures=tuple(value("robot_measures")) if any(value("robot_measures")) else (),
        check_rest=value("check_rest_efforts"),
    )


def feeling(value: Callable[[str], Any]) -> Feeling:
    """Return the observer's settings; value(name) is a parameter's value."""
    return Feeling(value("observer_bandwidth"), tuple(value("contact_thresholds")), value("wrench_link"))
