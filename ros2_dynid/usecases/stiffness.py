# SPDX-License-Identifier: Apache-2.0

"""Stiffness: recordings with encoders at motors and links give the drives' stiffness, and the torque they pass on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ros2_dynid.errors import InputError
from ros2_dynid.identification.drive_stiffness import DriveStiffness, estimate_stiffness, with_link_torque
from ros2_dynid.model.robot import PRISMATIC
from ros2_dynid.recording.read import read_samples
from ros2_dynid.recording.samples import Reading
from ros2_dynid.recording.save import check_target, save_samples
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class StiffnessRequest:
    """Recordings (paths) and how they are read; output: one of them again, with the torque of the drives."""

    robot: RobotSource
    recordings: tuple[str, ...]
    reading: Reading = field(default_factory=Reading)
    output: str | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class JointStiffness:
    """Stiffness, damping, rotor inertia and error bars of a drive; resonance [Hz]: of the motor, its link held.

    None where it is not known, and `doubt` says why. unit: of the stiffness.
    """

    stiffness: float | None
    stiffness_std: float | None
    damping: float | None
    damping_std: float | None
    rotor_inertia: float | None
    rotor_inertia_std: float | None
    resonance: float | None
    doubt: str
    unit: str


@dataclass(frozen=True)
class StiffnessOutcome:
    """The drives by joint, and the file that was written, if any."""

    joints: Mapping[str, JointStiffness]
    output: str | None


def stiffness(request: StiffnessRequest) -> StiffnessOutcome:
    """Estimate the stiffness of all drives, and write the torque that they pass on if asked to."""
    robot = request.robot.load()
    if request.output is not None:
        if len(request.recordings) != 1:
            raise InputError("the output is one recording", "give one recording with it")
        check_target(request.output, inputs=list(request.recordings), overwrite=request.overwrite)
    recordings = [read_samples(path, robot, request.reading) for path in request.recordings]
    drives = estimate_stiffness(recordings)
    if request.output is not None:
        if all(drive.doubt for drive in drives):
            raise InputError("no drive's stiffness is known", drives[0].doubt, request.recordings[0])
        save_samples(with_link_torque(recordings[0], drives), request.output, overwrite=request.overwrite)
    slides = {joint.name for joint in robot.joints if joint.sigma == PRISMATIC}
    return StiffnessOutcome({drive.joint: _outcome(drive, drive.joint in slides) for drive in drives}, request.output)


def _outcome(drive: DriveStiffness, slides: bool) -> JointStiffness:
    def known(x: float) -> float | None:
        return None if drive.doubt or not math.isfinite(x) else float(x)

    return JointStiffness(
        stiffness=known(drive.k),
        stiffness_std=known(drive.k_std),
        damping=known(drive.d),
        damping_std=known(drive.d_std),
        rotor_inertia=known(drive.Ia),
        rotor_inertia_std=known(drive.Ia_std),
        resonance=known(drive.resonance),
        doubt=drive.doubt,
        unit="N/m" if slides else "N.m/rad",
    )
