"""The parameters of every node: default, meaning with unit, range. config/*.yaml and docs/nodes.md show the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor


@dataclass(frozen=True)
class Described:
    """A parameter: its default, what it means with its unit, and the range it may have."""

    name: str
    default: Any
    text: str
    lower: float | None = None
    upper: float | None = None

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor that `ros2 param describe` shows."""
        descriptor = ParameterDescriptor(description=self.text)
        if self.lower is not None and self.upper is not None:
            if isinstance(self.default, int):
                descriptor.integer_range = [IntegerRange(from_value=int(self.lower), to_value=int(self.upper), step=0)]
            else:
                descriptor.floating_point_range = [FloatingPointRange(from_value=self.lower, to_value=self.upper)]
        return descriptor


COMMON = (
    Described("autostart", True, "configure and activate at start, without a lifecycle manager"),
    Described("robot", "", "URDF or robot file (path, or name of a shipped robot); empty: wait for robot_description"),
    Described("base_link", "", "link of the URDF that stands still; empty: its root"),
    Described("tip_link", "", "keep only the joints between base_link and this link; empty: all"),
)

SIM_ROBOT = (
    Described("rate", 1000.0, "control rate [Hz]", 50.0, 4000.0),
    Described("seed", 1, "chooses the true parameters and the noise", 0, 2**31 - 1),
    Described("spread", 0.15, "how far the true parameters are from the file's, as a share", 0.0, 0.5),
    Described("start", [0.0], "positions at the start [rad or m]; one number: for all joints"),
    Described("stiffness", 8.0, "frequency of the position control [Hz]", 0.5, 20.0),
    Described("resolution", 2.4e-5, "of the encoders [rad or m]", 1e-9, 0.01),
    Described("torque_noise", 0.005, "standard deviation, as a share of the effort limit", 0.0, 0.2),
    Described("latency", 1, "control periods between command and torque", 0, 50),
    Described("publish_clock", False, "publish /clock, for nodes with use_sim_time"),
)

EXCITATION = (
    Described("folder", "~/.ros/ros2_dynid/trajectories", "folder for plans; files in requests must lie in it"),
    Described("method", "fourier", "how to plan: points or fourier"),
    Described("duration", 10.0, "of a Fourier plan [s]", 1.0, 600.0),
    Described("planning_seconds", 8.0, "time to plan [s]", 1.0, 3600.0),
    Described("collisions", True, "keep links apart, by the collision shapes of the URDF"),
    Described("collision_margin", 0.02, "distance kept between links and from the walls [m]", 0.0, 1.0),
    Described("workspace", [0.0], "box to stay in, x, X, y, Y, z, Z in the base frame [m]; one number: none"),
    Described("point_rate", 100.0, "points of a trajectory in a second [Hz]", 5.0, 1000.0),
    Described("approach_speed", 0.3, "on the way to the start, as a share of the limits", 0.01, 1.0),
    Described("rehearsal_speed", 0.2, "speed of a rehearsal, as a share", 0.01, 1.0),
    Described("tracking_tolerance", 0.2, "largest tracking error [rad or m]", 1e-4, 10.0),
    Described(
        "limit_overshoot", 0.05, "stop beyond the position limits by this [rad or m], velocity by this share", 0.0, 1.0
    ),
    Described("stale_seconds", 0.1, "longest silence of joint states [s]", 0.002, 10.0),
    Described("control_period", 0.002, "how often joint states, silence and connection are looked at [s]", 0.0005, 0.1),
    Described("stop_deceleration", 5.0, "to stop joints without an acceleration limit with [rad/s2 or m/s2]", 0.1, 1e3),
    Described("settle_seconds", 0.5, "rest at the start before the trajectory [s]", 0.0, 60.0),
    Described(
        "start_delay", 0.0, "stamp trajectories this far ahead [s]; 0: no stamp, they start on arrival", 0.0, 10.0
    ),
    Described("priority", 0, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
    Described("action", "", "FollowJointTrajectory action to use instead of the topic; empty: the topic"),
)

RECORDER = (
    Described("folder", "~/.ros/ros2_dynid/recordings", "folder for the bags; nothing is written outside of it"),
    Described("follow_excitation", True, "start and stop with the excitation's announcement on exciting"),
    Described("buffer_seconds", 60.0, "length of the ring buffer [s]", 0.0, 3600.0),
    Described(
        "lead_seconds", 0.0, "what the buffer held this long before a start goes into the bag too [s]", 0.0, 60.0
    ),
    Described("expected_rate", 1000.0, "of joint states, sizes the ring buffer [Hz]", 1.0, 20000.0),
)

IDENTIFICATION = (
    Described("recordings_folder", "~/.ros/ros2_dynid/recordings", "folder that bags in requests must lie in"),
    Described("models_folder", "~/.ros/ros2_dynid/models", "folder for models; nothing is written outside of it"),
    Described("method", "wls", "estimator: ols, wls, irls, tls, iv, energy, sequential or recursive"),
    Described("model", "", "model file to serve from the start; empty: none"),
    Described("online", False, "estimate from every joint state while the node runs"),
    Described("online_rate", 100.0, "rows of the online estimator in a second and joint [Hz]", 1.0, 1000.0),
    Described("online_cutoff", 15.0, "cutoff of the online filter [Hz]", 0.5, 200.0),
    Described("online_memory", 30.0, "time constant of forgetting [s]", 0.5, 3600.0),
    Described("drift_ratio", 3.0, "drift: torque error over this many times that of the model's own data", 1.1, 100.0),
    Described("predicted_rate", 100.0, "of the predicted torque for plots on ~/predicted, at most [Hz]", 1.0, 1000.0),
)

FEEDFORWARD = (
    Described("model", "", "model file; empty: wait for base_parameters"),
    Described("output", "trajectory", "trajectory: effort in joint_trajectory; effort: torques streamed at `rate`"),
    Described("rate", 1000.0, "of streamed torques [Hz]", 10.0, 4000.0),
    Described("background_rate", 50.0, "of the coefficients published [Hz]", 0.5, 500.0),
    Described("split", False, "torque from the background's coefficients, instead of the complete one at `rate`"),
    Described("gravity_only", False, "nothing but the torque against gravity"),
    Described("friction", True, "include friction"),
    Described("measured_gravity", False, "gravity at the measured position instead of the reference"),
    Described("smoothing", 0.02, "speed over which Coulomb friction changes sign [rad/s or m/s]", 1e-4, 10.0),
    Described("ramp_seconds", 0.3, "of every change-over between models or to rest [s]", 0.0, 10.0),
    Described("timeout", 0.05, "a streamed reference older than this has stopped [s]", 0.001, 10.0),
    Described(
        "point_rate", 100.0, "points with effort in a second of a trajectory passed on, at least [Hz]", 1.0, 1000.0
    ),
    Described("priority", 40, "real-time priority of the node's threads, where the system allows it; 0: none", 0, 98),
    Described("joint_order", [""], "joints in the order of effort_commands; empty: the robot's own"),
    Described("effort_limits", [0.0], "largest torques [N.m or N], one a joint; 0: the robot's own limits"),
    Described("predicted_rate", 100.0, "of the predicted torque for plots on ~/predicted, at most [Hz]", 1.0, 1000.0),
)
