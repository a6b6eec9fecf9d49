# SPDX-License-Identifier: Apache-2.0

"""The public Python interface: what `import ros2_dynid as dynid` offers.

These names are stable; `docs/python.md` lists them. Everything else in the package may change in any release.
Samples are the first axis of every array; units are SI and radians.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ros2_dynid.base_parameters.compute import base_parameters as compute_base_parameters
from ros2_dynid.base_parameters.result import BaseParameters
from ros2_dynid.codegen.backend import InverseDynamics, fast_inverse_dynamics, torque_function
from ros2_dynid.codegen.backend import fast_regressor as compute_regressor
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.excitation.plan import Plan, PlanOptions
from ros2_dynid.excitation.plan import plan as plan_excitation
from ros2_dynid.excitation.standing_poses import standing_poses as plan_standing_poses
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, save_trajectory
from ros2_dynid.identification.loads import from_recordings
from ros2_dynid.identification.loads.payload_fit import Payload
from ros2_dynid.identification.model_file import IdentifiedModel, load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.result import Identification
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples as read_recording
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples as write_recording
from ros2_dynid.usecases.export import export_mjcf, export_urdf
from ros2_dynid.usecases.rollout import roll_out_model as roll_out

__all__ = [
    "BaseParameters",
    "DynidError",
    "Identification",
    "IdentifiedModel",
    "IdentifyOptions",
    "Payload",
    "Plan",
    "PlanOptions",
    "Robot",
    "Samples",
    "Trajectory",
    "compute_base_parameters",
    "compute_regressor",
    "compute_torque",
    "export_mjcf",
    "export_urdf",
    "identify",
    "identify_payload",
    "load_model",
    "load_robot",
    "load_trajectory",
    "make_torque_function",
    "plan_excitation",
    "plan_standing_poses",
    "read_recording",
    "roll_out",
    "save_trajectory",
    "write_recording",
]


def compute_torque(
    model: IdentifiedModel | Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, *, friction: bool = True
) -> Array:
    """Return tau, shape (N, n) [N.m or N], for q, dq, ddq of that shape.

    Of a model with its identified parameters, of a robot with those of its description. friction: with friction and
    offsets, or without.
    """
    robot, chi = _robot_and_parameters(model)
    if not friction:
        robot, chi = frictionless(robot, chi)
    return fast_inverse_dynamics(robot, chi, q, dq, ddq)


def make_torque_function(model: IdentifiedModel | Robot) -> InverseDynamics:
    """Return an object whose `torque(q, dq, ddq)` takes and gives arrays of shape (n,): one sample of a control loop.

    With a C compiler it is compiled for this robot, once, which takes seconds, and then takes less than a microsecond
    a call. Its inputs are not checked.
    """
    return torque_function(*_robot_and_parameters(model))


def identify_payload(
    model: IdentifiedModel | Robot,
    loaded: Sequence[str | Path | Samples],
    *,
    empty: Sequence[str | Path | Samples] = (),
    link: str | None = None,
    options: IdentifyOptions | None = None,
) -> Payload:
    """Identify a load on the last link from recordings with it (`loaded`).

    What the robot does without it is told by an identified model, or for a robot by recordings without it (`empty`).
    link: in whose frame the load is given; by default the first that the last joint carries.
    """
    if isinstance(model, Robot):
        if not empty:
            raise InputError("no recordings without the load", "give them, or the model of the robot without it")
        return from_recordings.identify_payload(model, empty, loaded, link=link, options=options)
    if empty:
        raise InputError("a model and recordings without the load are given", "give one of them")
    return from_recordings.identify_payload_on_model(model, loaded, link=link, options=options)


def _robot_and_parameters(model: IdentifiedModel | Robot) -> tuple[Robot, Array]:
    """Return the robot and its standard parameters, shape (n_standard,)."""
    if isinstance(model, Robot):
        return model, np.asarray(standard_vector(model))
    return model.robot, model.chi
