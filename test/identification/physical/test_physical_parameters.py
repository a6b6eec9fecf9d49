# SPDX-License-Identifier: Apache-2.0

"""Standard and consistent parameters of an estimate, as far as they are asked for."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.identification.candidates import Candidates, PhysicalParameters, find_physical_parameters
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.consistency import table
from ros2_dynid.identification.physical.essential import essential
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.identification.validation.torque_errors import torque_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import by_joint, standard_names, standard_vector
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
CHI = true_parameters(ROBOT, 4)
LINKS = CHI.copy()
by_joint(ROBOT, LINKS)[:, 10:] = 0.0


def candidates_of(estimate, selection=None):
    """Return what the physical parameters of an estimate start from."""
    return Candidates({"base": estimate.value}, estimate, estimate, None, selection, PhysicalParameters(), True)


def motion(seed, count=600):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, count, 3))


# --- standard and consistent parameters


@cache
def fitted():
    q, dq, ddq = motion(5)
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    tau = tau + 0.02 * tau.std(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    prepared = (as_prepared(ROBOT, q, dq, ddq, tau),)
    information = build_information(ROBOT, BASE, prepared, delay=False)
    problem = Problem(ROBOT, BASE, prepared, information, BASE.values(ROBOT, standard_vector(ROBOT)))
    return problem, wls(information)


def test_nothing_is_computed_that_nobody_asked_for():
    problem, found = fitted()
    empty = find_physical_parameters(problem, candidates_of(found), IdentifyOptions())
    assert (empty.standard, empty.consistent, empty.value, empty.consistency) == (None, None, None, None)
    only = find_physical_parameters(problem, candidates_of(found), IdentifyOptions(standard=True))
    assert only.consistent is None and only.value is None and only.consistency.imposed is None


@pytest.mark.parametrize("distance", ["scaled", "euclidean"])
def test_standard_parameters_have_the_torques_of_the_base_ones(distance):
    problem, found = fitted()
    options = IdentifyOptions(standard=True, distance=distance)
    whole = find_physical_parameters(problem, candidates_of(found), options)
    chi = np.array([whole.standard[name] for name in standard_names(ROBOT)])
    np.testing.assert_allclose(BASE.full_map(ROBOT) @ chi, found.base, atol=1e-6)
    counts = whole.consistency
    assert counts.base == table(ROBOT, chi) and counts.essential is None
    assert counts.a_priori == table(ROBOT, standard_vector(ROBOT))
    assert counts.smallest_joint_inertia is not None and counts.smallest_joint_inertia_imposed is None
    selection = essential(problem.information, found)
    assert len(selection.kept) < len(BASE)
    few = find_physical_parameters(problem, candidates_of(selection.estimate, selection), options)
    other = np.array([few.standard[name] for name in standard_names(ROBOT)])
    assert not np.allclose(other, chi)
    assert few.consistency.base == counts.base and few.consistency.essential == table(ROBOT, other)
    errors = [torque_errors(ROBOT.active_names, problem.information, value)["all"].relative
              for value in (found.value, BASE.full_map(ROBOT) @ other)]  # fmt: skip
    assert errors[1] < 1.1 * errors[0]


def test_consistent_parameters_with_their_errors():
    problem, found = fitted()
    whole = find_physical_parameters(problem, candidates_of(found), IdentifyOptions(consistent=True))
    chi = np.array([whole.consistent[name] for name in standard_names(ROBOT)])
    np.testing.assert_allclose(BASE.full_map(ROBOT) @ chi, whole.value[: len(BASE)], atol=1e-6)
    counts = whole.consistency
    assert whole.standard is None and counts.imposed["full"] == 3 and counts.imposed == table(ROBOT, chi)
    assert 0.0 <= counts.loss < 0.05 and counts.smallest_joint_inertia_imposed > 0.0
    assert counts.fit == torque_errors(ROBOT.active_names, problem.information, whole.value)
    assert counts.base is None and counts.smallest_joint_inertia is None
