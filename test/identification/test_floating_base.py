# SPDX-License-Identifier: Apache-2.0

"""Identification of a robot whose base floats: on its feet, from a crane, without torque sensors, with a load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.dynamics.floating_base import contact_efforts
from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.standing import check_standing
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.from_recordings import identify_payload
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.pipeline import identify, pose_problem
from ros2_dynid.progress import ignore_progress
from ros2_dynid.recording.samples import Samples
from urdf_oracle import example_urdfs, inertial_only

GO2 = next(path for path in example_urdfs() if path.name == "go2.urdf")
ROBOT = load_robot(GO2, floating_base=True)
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
PLAIN = "viscous+coulomb"
LINKS = inertial_only(ROBOT)
DRIVES = {f"{kind}{j}": value for j in range(7, 19) for kind, value in (("Ia", 0.01), ("Fv", 0.3), ("Fc", 0.2))}
RATE, SECONDS = 100.0, 20.0
NOISE = np.r_[np.full(3, 2e-4), np.full(3, 2e-4), np.full(12, 1e-4)]
"""Of the pose of the base [m, rad] and of the encoders [rad]; of torques 0.1 N.m, of forces 0.5 N."""


def motion(seed):
    """Return times, and sums of five sines for all joints: the trunk sways and turns, the legs bend and spread."""
    rng = np.random.default_rng(seed)
    t, w = np.arange(0.0, SECONDS, 1.0 / RATE), 0.4 * np.pi * np.arange(1, 6)
    size = np.r_[np.full(6, 0.15), np.full(12, 0.5)]
    a = rng.normal(size=(18, 5)) / np.sqrt(5) * size[:, None]
    angle = t[:, None, None] * w + rng.uniform(0, 2 * np.pi, (18, 5))
    q, dq, ddq = (np.sum(a * x, axis=2) for x in (np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle)))
    q[:, 2] += 0.3
    q[:, 6:] += np.tile((0.0, 0.8, -1.6), 4)
    return t, q, dq, ddq


def recording(seed, chi, contacts=FEET, *, measured=True):
    """Return noisy samples of a robot that the forces of its contacts carry: of the least norm that does.

    measured: whether the forces are known.
    """
    rng = np.random.default_rng(seed + 100)
    t, q, dq, ddq = motion(seed)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    width = 6 if len(contacts) == 1 else 3
    J = np.stack([jacobian(ROBOT, q, link)[:, :width] for link in contacts], axis=1).reshape(len(t), -1, 18)
    force = np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)) @ tau[:, :6, None]
    tau = tau - (J.transpose(0, 2, 1) @ force)[:, :, 0]
    tau[:, 6:] += 0.1 * rng.normal(size=(len(t), 12))
    q = q + NOISE * rng.normal(size=q.shape)
    force = (force[:, :, 0] + 0.5 * rng.normal(size=force.shape[:2])).reshape(len(t), len(contacts), width)
    tau[:, :6] *= measured
    for k, link in enumerate(contacts if measured else ()):
        tau += contact_efforts(ROBOT, q, link, np.pad(force[:, k], ((0, 0), (0, 6 - width))))
    return Samples(t, ROBOT.active_names, q, tau=tau)


def deviations(seed, chi, sensor, contacts=FEET):
    """Return how far the base parameters are from the true ones, in standard deviations."""
    options = IdentifyOptions(sensor=sensor, friction=PLAIN)
    problem = pose_problem(ROBOT, [recording(seed, chi, contacts)], options, ignore_progress)
    estimate = wls(problem.information, problem.prior)
    assert estimate.identified.all()
    return (estimate.base - problem.base.values(problem.robot, chi)) / estimate.base_std


@pytest.mark.parametrize(
    ("sensor", "contacts", "count"),
    [("none", FEET, 94), ("motor", FEET, 142), ("none", ("base",), 94)],
    ids=["on its feet, no torque sensor", "on its feet", "from a crane, no torque sensor"],
)
def test_parameters_are_within_their_error_bars(sensor, contacts, count):
    chi = standard_vector(ROBOT, LINKS | (DRIVES if sensor == "motor" else {}))
    z = np.array([deviations(seed, chi, sensor, contacts) for seed in range(3)])
    assert z.shape == (3, count)
    assert np.mean(np.abs(z) < 3.0) >= 0.95
    assert np.sqrt(np.mean(z**2)) > 0.3  # and the bars are not simply wide


def test_the_drives_tell_the_forces_of_feet_that_stand():
    """All feet stand, and no force is measured: the six rows of the base hold the drives' friction too."""
    chi = standard_vector(ROBOT, LINKS | DRIVES)
    options = IdentifyOptions(standing=tuple((foot, 3) for foot in FEET))
    z = []
    for seed in range(3):
        problem = pose_problem(ROBOT, [recording(seed, chi, measured=False)], options, ignore_progress)
        assert np.all(problem.information.rows[:6] > 100) and not problem.information.rows[6:].any()
        estimate = wls(problem.information, problem.prior)
        known = estimate.base_identified & (estimate.base_std < 1e3)
        z.append((estimate.base - problem.base.values(problem.robot, chi))[known] / estimate.base_std[known])
        assert known.sum() > 100
    assert np.mean(np.abs(np.concatenate(z)) < 3.0) >= 0.95
    # a mass at the very point where a foot stands is carried by the ground, and nothing else feels it
    assert estimate.rank == problem.information.size - len(FEET)
    for feet, words in (((("nose", 3),), "no foot 'nose'"), ((("FL_foot", 2),), "2 components")):
        with pytest.raises(InputError, match=words):
            check_standing(replace(ROBOT, standing=feet))
    with pytest.raises(InputError, match="base does not float"):
        check_standing(replace(load_robot(GO2), standing=(("FL_foot", 3),)))


def test_the_whole_identification_without_torque_sensors():
    chi = standard_vector(ROBOT, LINKS)
    options = IdentifyOptions(sensor="none", friction=PLAIN, consistent=True)
    outcome = identify(ROBOT, [recording(1, chi)], options=options, validate=[recording(2, chi)]).outcome
    assert set(outcome.fit) == {*ROBOT.active_names[:6], "all"}
    assert outcome.validation["all"].relative < 0.01
    assert not [remark for remark in outcome.verdict if remark.level.value == "problem"]
    made_up = [name for name, value in outcome.consistent.items() if value and name not in LINKS]
    assert all(int(name.lstrip("XYZMIaFvcof")) > 5 and name[0] in "XYZM" for name in made_up)
    mass = next(row for row in outcome.base if row.name == "MR6")
    every = sum(value for name, value in LINKS.items() if name[0] == "M" and name[1:].isdigit())
    assert mass.value == pytest.approx(every, rel=1e-3)
    assert abs(mass.value - every) < 4 * mass.std


def test_a_load_on_the_trunk_is_found_without_torque_sensors():
    """Within 1 % of its mass, its centre to millimetres."""
    mass, centre = 3.0, np.array([0.08, -0.03, 0.1])
    load = Inertia.at_centre_of_mass(mass, centre, np.diag([0.02, 0.03, 0.025]))
    added = load.moved(ROBOT.tools["base"][1]).standard()
    loaded = LINKS | {f"{kind}6": LINKS.get(f"{kind}6", 0.0) + value for kind, value in added.items()}
    empty, full = (recording(seed, standard_vector(ROBOT, one)) for seed, one in ((1, LINKS), (2, loaded)))
    options = IdentifyOptions(sensor="none", friction=PLAIN)
    payload = identify_payload(ROBOT, [empty], [full], link="base", options=options)
    assert payload.mass == pytest.approx(mass, rel=0.01)
    assert np.all(payload.com_std < 2e-3)
    assert abs(payload.mass - mass) < 4 * payload.mass_std
    assert np.all(np.abs(payload.com - centre) < 4 * payload.com_std)


def test_what_tells_no_mass_is_refused():
    silent = replace(recording(1, standard_vector(ROBOT, LINKS)), tau=np.zeros((2000, 18)))
    with pytest.raises(InputError, match="neither efforts of drives nor forces"):
        pose_problem(ROBOT, [silent], IdentifyOptions(sensor="none"), ignore_progress)
    arm = load_robot(GO2)
    with pytest.raises(InputError, match="does not float"):
        pose_problem(arm, [silent], IdentifyOptions(sensor="none"), ignore_progress)
