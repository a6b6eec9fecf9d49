# SPDX-License-Identifier: Apache-2.0

"""Friction terms of a request by name, those that may be tried, and terms with what was estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from linkages import four_bar
from ros2_dynid.dynamics.kinematics import motion_of
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS
from ros2_dynid.identification.friction_columns import (
    SHAPE_STEP,
    build_standstill_terms,
    change_shape,
    check_law,
    list_candidate_terms,
    put_signs,
    read_law_terms,
    signs,
)
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate, friction_covariance, identified_terms
from ros2_dynid.model.efforts import MeasuredEffort
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from ros2_dynid.model.robot import Coupling

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried

# --- laws by name

TOP = np.array([1.0, 2.0, 4.0])


def test_every_term_that_a_joint_may_have():
    found = list_candidate_terms(ROBOT, TOP)
    cold = [kind for kind in FrictionKind if kind is not POWER and "temperature" not in str(kind)]
    for joint, top in enumerate(TOP, start=1):
        own = [term for term in found if term.joint == joint]
        assert list(dict.fromkeys(term.kind for term in own)) == cold
        speeds = [(term.speed, term.of_shape) for term in own if term.kind is STRIBECK]
        assert speeds == [(pytest.approx(share * top), of) for share in STRIBECK_SHARES for of in (False, True)]
    assert all(term.coefficient == 0.0 for term in found)
    warm = list_candidate_terms(ROBOT, TOP, np.array([[20.0, 30.0, np.nan], [21.9, 32.5, np.nan]]), 2.0)
    more = [(term.joint, str(term.kind), term.reference) for term in warm if "temperature" in str(term.kind)]
    assert more == [(2, "temperature", 31.2), (2, "temperature_viscous", 31.2)], "2 K at least"
    edge = list_candidate_terms(ROBOT, TOP, np.array([[20.0, 20.0, 20.0], [22.0, 21.9, 22.1]]), 2.0)
    assert {term.joint for term in edge if "temperature" in str(term.kind)} == {1, 3}
    joints = [replace(joint, measures=MeasuredEffort(())) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in list_candidate_terms(at_link, TOP)} == {1, 3}
    still = list_candidate_terms(ROBOT, np.array([0.0, 2.0, 4.0]))
    assert STRIBECK not in {term.kind for term in still if term.joint == 1}


def test_shapes_that_are_tried_are_a_step_of_the_grid_apart():
    assert STRIBECK_SHARES[0] == pytest.approx(0.04) and len(STRIBECK_SHARES) == 4
    np.testing.assert_allclose(np.diff(np.log(STRIBECK_SHARES)), SHAPE_STEP, atol=0.02)
    for lowest, highest, farthest in ((0.2, 0.9, 0.26), (1.1, 3.8, DEFAULTS.shape_change + 1e-9)):
        near = [p for p in POWERS if (p < 1.0) == (highest < 1.0)]
        assert all(min(abs(p - x) for p in near) <= farthest for x in np.linspace(lowest, highest, 200))
    assert len(POWERS) == 5 and tuple(sorted(POWERS)) == POWERS, "on either side of viscous friction"


def test_what_friction_lacks_near_standstill():
    terms = [FrictionTerm(3, LOAD), FrictionTerm(1, LOAD), FrictionTerm(1, ROOT)]
    found = build_standstill_terms(ROBOT, terms, TOP, 0.02)
    assert [(t.joint, t.kind, t.speed) for t in found] == [
        (1, STRIBECK, pytest.approx(0.01)), (3, STRIBECK, pytest.approx(0.04)),
    ]  # fmt: skip
    assert build_standstill_terms(ROBOT, terms, TOP, 0.0) == ()


def test_laws_that_can_be_asked_for():
    for law in ("auto", "load", "viscous+coulomb", "elbow=load,wrist=cubic+load", "elbow=stribeck"):
        check_law(law)
    for law, word in (("auto+load", "auto"), ("elbow=load,wrist=glue", "glue"), ("load,", ""), ("a=b=load", "b=load")):
        with pytest.raises(InputError, match=f"unknown term '{word}'; write auto, or terms from viscous"):
            check_law(law)


def test_terms_of_a_law_by_name():
    a, b, c = ROBOT.active_names
    found = read_law_terms(ROBOT, "load+viscous+root", TOP)
    assert [(t.joint, t.kind) for t in found] == [(j, kind) for j in (1, 2, 3) for kind in (LOAD, ROOT)]
    found = read_law_terms(ROBOT, f"{c}=cubic,{a}=power+coulomb", TOP)
    assert [(t.joint, t.kind, t.exponent, t.of_shape) for t in found] == [
        *((1, POWER, p, of) for p in POWERS for of in (False, True)), (3, CUBIC, 0.0, False),
    ]  # fmt: skip
    assert read_law_terms(ROBOT, "viscous+coulomb", TOP) == ()
    warmth = np.array([[20.0, 20.0, np.nan], [20.3, 20.0, np.nan]])
    (term,) = read_law_terms(ROBOT, f"{a}=temperature", TOP, warmth)
    assert term.reference == pytest.approx(20.1, abs=0.11), "asked for, it needs no 2 K"
    for name, words in ((b, "does not change"), (c, "is not recorded")):
        with pytest.raises(InputError, match=words):
            read_law_terms(ROBOT, f"{name}=temperature_viscous", TOP, warmth)
    joints = [replace(joint, measures=MeasuredEffort(())) if k == 1 else joint for k, joint in enumerate(ROBOT.joints)]
    at_link = replace(ROBOT, joints=tuple(joints), parameters={})
    assert {term.joint for term in read_law_terms(at_link, "load", TOP)} == {1, 3}
    with pytest.raises(InputError, match="measured at the link"):
        read_law_terms(at_link, f"{b}=load", TOP)
    with pytest.raises(InputError, match="names the joint 'nobody'"):
        read_law_terms(ROBOT, "nobody=load", TOP)


# --- terms with what was estimated


def stribeck(speed, joint=2):
    term = FrictionTerm(joint, STRIBECK, speed=speed)
    return term, replace(term, of_shape=True)


def power(exponent, joint=3):
    term = FrictionTerm(joint, POWER, exponent=exponent)
    return term, replace(term, of_shape=True)


def estimate_of(value, std, identified=None):
    known = np.ones(len(value) + 1, dtype=bool) if identified is None else np.array([True, *identified])
    covariance = np.diag(np.array([1.0, *std]) ** 2)
    layout = ColumnLayout(1, 0, 0, len(value))
    return Estimate(layout, np.array([5.0, *value]), covariance, known, np.ones(1), 1.0, 1, Method.WLS)


def test_terms_with_what_was_estimated():
    terms = (FrictionTerm(1, ROOT), FrictionTerm(1, ASYMMETRIC), *stribeck(0.2), *power(1.5), FrictionTerm(3, CUBIC))
    found = identified_terms(terms, estimate_of(
        (-0.3, -0.4, 2.0, 0.5, 4.0, -0.8, 0.7), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), [True] * 6 + [False]
    ))  # fmt: skip
    assert [(term.joint, term.kind) for term in found] == [
        (1, ROOT), (1, ASYMMETRIC), (2, STRIBECK), (3, POWER), (3, CUBIC),
    ]  # fmt: skip
    assert [term.coefficient for term in found] == [0.0, -0.4, 2.0, 4.0, 0.7]
    assert [term.std for term in found] == pytest.approx([0.1, 0.2, 0.3, 0.5, None])
    assert found[2].speed == pytest.approx(0.2 * np.exp(0.25)) and found[2].speed_std == pytest.approx(0.2 * 0.4 / 2.0)
    assert found[3].exponent == pytest.approx(1.3) and found[3].exponent_std == pytest.approx(0.6 / 4.0)
    assert found[0].speed_std is found[0].exponent_std is None
    driving = identified_terms(stribeck(0.2), estimate_of((-1.0, 0.5), (0.1, 0.1)))
    assert driving[0].coefficient == 0.0 and driving[0].speed == 0.2 and driving[0].speed_std is None
    unknown = identified_terms(stribeck(0.2), estimate_of((1.0, 0.2), (0.1, 0.1), [True, False]))
    assert unknown[0].speed == pytest.approx(0.2 * np.exp(0.2)) and unknown[0].speed_std is None


def test_the_covariance_of_a_law_is_that_of_its_own_columns_with_base_parameters_and_each_other():
    """Where a shape is known its column counts too; where a term has left the order is that of the law."""
    terms = (FrictionTerm(1, ROOT), *stribeck(0.2), FrictionTerm(3, CUBIC))
    layout = ColumnLayout(2, 1, 0, 4)
    S = np.random.default_rng(0).normal(size=(7, 7))
    C, value = S @ S.T, np.array([5.0, 6.0, 0.3, 2.0, 0.5, 0.7, 0.01])

    def found(identified, value=value, C=C):
        return Estimate(layout, value, C, np.array(identified), np.ones(1), 1.0, 7, Method.WLS)

    every = [True] * 7
    np.testing.assert_array_equal(friction_covariance(terms, found(every)), C[2:6][:, [0, 1, 2, 3, 4, 5]])
    no_shape = [True, True, True, True, False, True, True]
    np.testing.assert_array_equal(friction_covariance(terms, found(no_shape)), C[np.ix_([2, 3, 5], [0, 1, 2, 3, 5])])
    driving = value * np.where(np.arange(7) == 3, -1.0, 1.0)  # without a coefficient there is no shape
    assert friction_covariance(terms, found(every, driving)).shape == (3, 5)
    assert friction_covariance(terms, found([True, True, False, True, True, True, True])) is None
    assert friction_covariance(terms, found(every, C=np.where(np.eye(7) > 0, np.nan, C))) is None
    bare = Estimate(ColumnLayout(2), value[:2], C[:2, :2], np.array([True] * 2), np.ones(1), 1.0, 2, Method.WLS)
    assert friction_covariance((), bare) is None


@pytest.mark.parametrize(("change", "ratio"), [(0.3, np.exp(0.3)), (-0.3, np.exp(-0.3)), (2.0, np.exp(0.47)),
                                               (-2.0, np.exp(-0.47))])  # fmt: skip
def test_a_shape_changes_by_a_step_of_the_grid_at_most(change, ratio):
    stribeck = FrictionTerm(1, FrictionKind.STRIBECK, speed=0.3)
    assert change_shape(stribeck, change).speed == pytest.approx(0.3 * ratio)
    assert change_shape(power(2.0)[0], change).exponent == pytest.approx(2.0 + np.log(ratio))


# --- signs


@pytest.mark.parametrize("name", ["tx40", "hitachi_hpr", "demo3", "geared", "four_bar"])
def test_signs_are_those_of_every_speed_and_stand_in_the_columns_of_coulomb(name):
    robot = four_bar() if name == "four_bar" else load_robot("tx40" if name == "geared" else name)
    if name == "geared":  # motors that feel several joints, each by a ratio of its own
        coupling = (Coupling(6, {5: 0.5, 6: -2.0}), Coupling(3, {2: 3.0, 3: 1.0, 4: 0.25}))
        robot = replace(robot, coupling=coupling, parameters={})
    rng = np.random.default_rng(1)
    q, dq, ddq = rng.normal(size=(3, 6, len(robot.active)))
    sign = signs(robot, q, dq)
    every = motion_of(robot, q, dq).dq.T
    np.testing.assert_array_equal(sign[:, : robot.n], np.sign(every))
    for m, coupling in enumerate(robot.coupling):
        total = sum(c * every[:, j - 1] for j, c in coupling.weights.items())
        np.testing.assert_array_equal(sign[:, robot.n + m], np.sign(total))
    Y = np.ascontiguousarray(regressor(robot, q, dq, ddq).transpose(2, 1, 0))
    again = Y.copy()
    put_signs(robot, again, q, sign)
    np.testing.assert_allclose(again, Y, atol=1e-12)
    put_signs(robot, again, q, 0.5 * sign)
    coulomb = [k for k, column in enumerate(standard_names(robot)) if column.startswith("Fc")]
    np.testing.assert_allclose(again[coulomb], 0.5 * Y[coulomb], atol=1e-12)
    others = [k for k in range(len(Y)) if k not in coulomb]
    np.testing.assert_array_equal(again[others], Y[others])
