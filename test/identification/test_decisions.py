"""Decisions about efforts as tables: sign and unit, mounting, sensor side, choice of the estimator, agreement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm, t

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError, RankError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.fit import inform
from ros2_dynid.identification.estimators.least_squares import wls
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.validation import (
    diagnosis,
    effort_evidence,
    effort_scale,
    method_choice,
    mounting,
    sensor_side,
)
from ros2_dynid.identification.validation.effort_evidence import EffortEvidence
from ros2_dynid.identification.validation.effort_scale import (
    Factor,
    _backward_together,
    against_prior,
    backward_friction,
    clear,
    factors,
)
from ros2_dynid.identification.validation.sampled_motion import SampledMotion, sampled_motion
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import DRIVE, with_gravity

ROBOT = load_robot("demo3")
NAMES = ("a", "b", "c")


def option_of(finding):
    (found,) = (part for part in finding.hint.parts if not isinstance(part, str))
    return found.key, found.value


# --- sign and unit in words


@pytest.mark.parametrize(
    ("gains", "kinds", "option"),
    [
        ((1.0, 1.39, 0.71), [], None),
        ((-1.0, 1.0, 1.0), [("effort_sign", ("a",))], ("gains", {"a": -1.0})),
        ((-1.3, 1.0, -0.75), [("effort_sign", ("a", "c"))], ("gains", {"a": -1.0, "c": -1.0})),
        ((1.0, 1.41, 1.0), [("effort_unit", ("b",))], ("gains", {"b": 1.41})),
        ((1.0, 0.69, 1.0), [("effort_unit", ("b",))], ("gains", {"b": 0.69})),
        ((-0.012345, 1.0, 1.0), [("effort_sign", ("a",)), ("effort_unit", ("a",))], ("gains", {"a": -0.0123})),
        ((0.001, 0.0004, 0.0029), [("effort_unit", NAMES)], ("effort_unit", "mN.m")),
        ((0.001, 0.0003, 0.001), [("effort_unit", NAMES)], ("gains", {"a": 0.001, "b": 0.0003, "c": 0.001})),
        ((0.001, 0.0031, 0.001), [("effort_unit", NAMES)], ("gains", {"a": 0.001, "b": 0.0031, "c": 0.001})),
        ((0.001, 1.0, 0.001), [("effort_unit", ("a", "c"))], ("gains", {"a": 0.001, "c": 0.001})),
        (
            (0.001, -0.001, 0.001),
            [("effort_sign", ("b",)), ("effort_unit", NAMES)],
            ("gains", {"a": 0.001, "b": -0.001, "c": 0.001}),
        ),
    ],
)
def test_signs_and_units_in_words(gains, kinds, option):
    found = diagnosis._findings(NAMES, np.array(gains), True, False)
    assert [(one.kind, one.joints) for one in found] == kinds
    assert all(option_of(one) == option and one.hint.startswith("set ") for one in found)
    assert [one.certain for one in found] == [one.kind == "effort_sign" for one in found]
    sure = diagnosis._findings(NAMES, np.array(gains), False, True)
    assert all(one.certain and "as far as it can be told" in one.hint for one in sure)
    for one in found:
        if one.kind == "effort_unit":
            assert all(
                f"{name} {1 / abs(g):.3g}" in one.what
                for name, g in zip(NAMES, gains, strict=True)
                if name in one.joints
            )
        elif len(one.joints) < 3:
            assert one.what == f"the effort of {', '.join(one.joints)} has the wrong sign"
    (turned,) = diagnosis._findings(NAMES, -np.ones(3), True, True)
    assert turned.what == "all efforts have the wrong sign"


@pytest.mark.parametrize(
    ("scale", "clear_scales", "common"),
    [
        (Factor(100.0, 0.1), (), 100.0),
        (Factor(-100.0, 0.1), (), 100.0),
        (Factor(0.01, 1e-5), (), 0.01),
        (Factor(4.9, 0.01), (), 1.0),  # masses may be wrong by that
        (Factor(5.1, 0.01), (), 5.1),
        (Factor(0.21, 0.001), (), 1.0),
        (Factor(0.19, 0.001), (), 0.19),
        (Factor(100.0, 50.0), (), 1.0),
        (Factor(100.0, np.inf), (), 1.0),
        (Factor(100.0, 0.1), (290.0, -40.0), 100.0),
        (Factor(100.0, 0.1), (310.0,), 1.0),
        (Factor(100.0, 0.1), (120.0, 32.0), 1.0),
    ],
)
def test_a_scale_common_to_all_joints(scale, clear_scales, common):
    evidence = [EffortEvidence(gravity_r=0.9 * np.sign(s), gravity_scale=s) for s in clear_scales]
    evidence.append(EffortEvidence(gravity_r=0.7, gravity_scale=1e6))  # does not speak clearly
    assert diagnosis._common_scale(scale, evidence) == common


@pytest.mark.parametrize(
    ("evidence", "common", "gain"),
    [
        (EffortEvidence(), 1.0, 1.0),
        (EffortEvidence(), 50.0, 0.02),
        (EffortEvidence(friction_r=-0.9), 50.0, -0.02),
        (EffortEvidence(gravity_r=0.9, gravity_scale=40.0), 1.0, 0.025),
        (EffortEvidence(gravity_r=-0.9, gravity_scale=-40.0, friction_r=-0.9), 1.0, -0.025),
        (EffortEvidence(gravity_r=0.9, gravity_scale=40.0), 20.0, 0.05),
        (EffortEvidence(gravity_r=0.9, gravity_scale=29.0), 1.0, 1.0),
    ],
)
def test_the_first_gain_of_a_joint(evidence, common, gain):
    assert diagnosis._first_gain(evidence, common) == pytest.approx(gain)


def test_all_that_is_certain_is_refused_in_one_line():
    found = [
        diagnosis.Finding("x", (), "first", "do this"),
        diagnosis.Finding("y", (), "second", "do that", certain=False),
        diagnosis.Finding("z", (), "third", "do this"),
        diagnosis.Finding("w", (), "fourth", "do more"),
    ]
    with pytest.raises(InputError) as refused:
        diagnosis.refuse(found, "run")
    assert refused.value.what == "first; third; fourth" and refused.value.hint == "do this, and do more"
    diagnosis.refuse(found[1:2], "run")


@pytest.mark.parametrize(
    ("again", "evidence", "gain", "certain"),
    [
        (Factor(1.1, 0.001), (), 1.0, None),
        (Factor(4.9, 0.001), (), 1.0, None),  # masses may be wrong by that
        (Factor(6.0, 0.001), (), 1.0 / 6.0, False),
        (Factor(29.0, 0.001), (), 1.0 / 29.0, False),
        (Factor(31.0, 0.001), (), 1.0 / 31.0, True),
        (Factor(0.21, 0.001), (), 1.0, None),
        (Factor(0.19, 0.001), (), 1.0 / 0.19, False),
        (Factor(0.03, 1e-5), (), 1.0 / 0.03, True),
        (Factor(31.0, np.inf), (), 1.0, None),
        (Factor(-1.1, 0.001), (), -1.0, True),
        (Factor(-1.1, 0.001), (EffortEvidence(friction_r=0.7),), 1.0, None),  # friction brakes: no wrong sign
        (Factor(-1.1, 0.001), (EffortEvidence(friction_r=0.4),), -1.0, True),
        (Factor(-1.1, 0.001), (EffortEvidence(inertia=1.0),), 1.0, None),
        (Factor(-1.1, 0.001), (EffortEvidence(inertia=0.0),), -1.0, True),
        (Factor(-31.0, 0.001), (), -1.0 / 31.0, True),
        (Factor(-31.0, 0.001), (EffortEvidence(inertia=1.0),), 1.0, None),
    ],
)
def test_all_efforts_against_the_a_priori_masses(monkeypatch, again, evidence, gain, certain):
    """What remains wrong after the joints agree with each other is a sign or a unit of them all."""
    asked = []

    def told(names, gains, agree, certain_unit):
        asked.append((names, gains, agree, certain_unit))
        return ()

    monkeypatch.setattr(diagnosis, "against_prior", lambda information, base, prior: again)
    monkeypatch.setattr(diagnosis, "_common_scale", lambda scale, evidence: 1.0)
    monkeypatch.setattr(diagnosis, "relative_gains", lambda robot, base, information, start: (start, False))
    monkeypatch.setattr(diagnosis, "_findings", told)
    problem = SimpleNamespace(robot=ROBOT, information=None, base=None, prior=None)
    three = [*evidence, *(EffortEvidence() for _ in range(3 - len(evidence)))]
    diagnosis._efforts(problem, three, None)
    ((names, gains, agree, sure),) = asked
    assert names == ROBOT.active_names and agree is False
    np.testing.assert_allclose(gains, np.full(3, gain))
    assert certain is None or sure is certain


def test_efforts_are_put_right_joint_by_joint_before_they_are_compared_with_masses(monkeypatch):
    """The first gains are those of the joints' own evidence; masses are asked about rows with those that are found."""
    seen = []

    def told(names, gains, agree, certain_unit):
        return (gains, agree, certain_unit)

    def scale(information, base, prior):
        seen.append(information)
        return Factor(40.0, 0.01) if len(seen) == 1 else Factor(1.0, 0.01)

    starts = []

    def relative(robot, base, information, start):
        starts.append(start)
        return np.array([0.02, -0.02, 0.01]), True

    monkeypatch.setattr(diagnosis, "against_prior", scale)
    monkeypatch.setattr(diagnosis, "relative_gains", relative)
    monkeypatch.setattr(diagnosis, "scaled", lambda information, gains: (information, gains.tolist()))
    monkeypatch.setattr(diagnosis, "_findings", told)
    problem = SimpleNamespace(robot=ROBOT, information="rows", base=None, prior=None)
    evidence = [EffortEvidence(), EffortEvidence(friction_r=-0.9), EffortEvidence()]
    gains, agree, certain = diagnosis._efforts(problem, evidence, None)
    assert seen == ["rows", ("rows", [0.02, -0.02, 0.01])] and agree and certain
    np.testing.assert_allclose(starts, [[0.025, -0.025, 0.025]])
    np.testing.assert_allclose(gains, [0.02, -0.02, 0.01])


@pytest.mark.parametrize(
    ("wrong", "described", "named"), [(True, 0.111, True), (True, 0.109, False), (False, 0.2, False)]
)
def test_a_wrong_mounting_is_named_unless_reversed_efforts_explain_it(monkeypatch, wrong, described, named):
    tau = np.arange(12.0).reshape(4, 3) + 1.0
    motion = SampledMotion(*(np.zeros((4, 3)) for _ in range(3)), tau)
    first = SimpleNamespace(wrong=wrong, error=0.1, described=0.8, angle=90.0, gravity=(9.81, 0.0, 0.0), certain=False)
    asked = []

    def told(robot, given):
        asked.append(given.tau)
        return first if len(asked) == 1 else SimpleNamespace(described=described)

    monkeypatch.setattr(diagnosis, "mounting", told)
    evidence = [EffortEvidence(), EffortEvidence(friction_r=-0.9), EffortEvidence()]
    found = diagnosis._mounting(ROBOT, motion, evidence)
    assert (found is not None) == named
    if wrong:
        np.testing.assert_array_equal(asked[1], tau * np.array([1.0, -1.0, 1.0]))
    if found is not None:
        assert option_of(found) == ("gravity", (9.81, 0.0, 0.0)) and not found.certain and found.kind == "gravity"
        assert "90 degrees" in found.what and "80 %" in found.what and "10 %" in found.what
    monkeypatch.setattr(diagnosis, "mounting", lambda *_: None)
    assert diagnosis._mounting(ROBOT, motion, evidence) is None


@pytest.mark.parametrize(
    ("reach", "unit", "named"),
    [
        ((1.0, 2.0, 0.1), 180.0 / np.pi, ROBOT.active_names[:2]),  # 5.7 is less than a turn
        ((1.0, 2.0, 1.5), 180.0 / np.pi, ROBOT.active_names),
        ((9.0, 2.0, 1.5), 1.0, None),  # more than a turn, in radians
        ((0.1, 0.1, 0.1), 180.0 / np.pi, None),
    ],
)
def test_angles_in_degrees_are_named_where_a_joint_turns_too_far(reach, unit, named):
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 400, 3)) * np.array(reach)
    tau = inverse_dynamics(ROBOT, standard_vector(ROBOT), q, dq, ddq)
    tau = tau + 0.01 * tau.std(axis=0) * rng.normal(size=tau.shape)
    prepared = as_prepared(ROBOT, unit * q, unit * dq, unit * ddq, tau)
    base = base_parameters(ROBOT)
    problem = SimpleNamespace(robot=ROBOT, base=base, prepared=[prepared], information=inform(ROBOT, base, [prepared]))
    found = diagnosis._degrees(problem, sampled_motion([prepared]))
    assert (None if found is None else found.joints) == named
    assert found is None or (option_of(found) == ("angle_unit", "deg") and found.kind == "position_unit")
    turned = diagnosis._in_radians(prepared, np.array([2.0, 3.0, 0.5]))
    for one, other in zip(("q", "dq", "ddq"), (q, dq, ddq), strict=True):
        np.testing.assert_allclose(getattr(turned, one), unit * other * np.array([2.0, 3.0, 0.5]))
    np.testing.assert_allclose(turned.top_speed, prepared.top_speed * np.array([2.0, 3.0, 0.5]))


def test_the_error_of_joints_fitted_alone_is_relative_to_all_torques():
    motion, tau = noisy((1.0, 1.0, 1.0))
    base, information = information_of(tau, motion)
    Y = regressor(ROBOT, *motion)[:, :, base.columns(ROBOT)]
    left = []
    for j in range(3):
        W = Y[:, j, information.columns[j]]
        x, _, rank, _ = np.linalg.lstsq(W, tau[:, j], rcond=None)
        left.append(np.linalg.norm(tau[:, j] - W @ x) / np.sqrt(len(tau) - rank))
    expected = np.linalg.norm(left) / np.sqrt(np.sum(np.mean(tau**2, axis=0)))
    assert diagnosis._own_error(information) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("terms", "own", "friction", "law", "of_law", "named"),
    [
        ((), True, "auto", True, True, True),  # auto has looked already
        ((), True, "viscous", True, True, True),
        ((), True, "viscous", True, False, False),  # with the law of the data the joints agree
        ((), True, "viscous", False, False, True),
        ((), False, "viscous", True, True, False),
        (("a term",), True, "auto", True, True, True),
        (("a term",), False, "auto", True, True, False),
    ],
)
def test_efforts_are_judged_by_the_law_that_data_support(monkeypatch, terms, own, friction, law, of_law, named):
    """own: whether something is wrong by the law asked for, of_law: by that of the data; by plain friction it is."""
    asked = []

    def efforts(problem, evidence, motion):
        asked.append(problem.name)
        return ("wrong",) if {"asked": own, "plain": own or bool(terms), "law": of_law}[problem.name] else ()

    @dataclass(frozen=True)
    class Small:
        name: str
        robot = ROBOT
        prepared = ()
        terms: tuple = ()
        information: str = "rows"

        def plain(self):
            return Small("plain")

    monkeypatch.setattr(diagnosis, "_efforts", efforts)
    monkeypatch.setattr(diagnosis, "coarser", lambda information, most: (information, most))
    monkeypatch.setattr(diagnosis, "sampled_motion", lambda prepared: None)
    monkeypatch.setattr(diagnosis, "effort_evidence", lambda robot, motion: ["one"])
    monkeypatch.setattr(diagnosis, "_degrees", lambda problem, motion: None)
    monkeypatch.setattr(diagnosis, "_mounting", lambda robot, motion, evidence: None)
    monkeypatch.setattr(diagnosis, "_law_of_data", lambda plain: Small("law") if law else None)
    found = diagnosis.diagnose(Small("asked", terms), friction=friction)
    assert bool(found.findings) == named and found.evidence == ("one",)
    assert ("asked" in asked) == bool(terms)
    for hides in ("_degrees", "_mounting"):
        monkeypatch.setattr(diagnosis, hides, lambda *_: "this first")
        assert diagnosis.diagnose(Small("asked", terms), friction=friction).findings == ("this first",)


# --- efforts against the other joints and the a priori masses


@pytest.mark.parametrize(("freedom", "level"), [(np.inf, 1e-5), (10.0, 1e-5), (25.0, 1e-3)])
def test_what_is_no_chance(freedom, level):
    assert clear(freedom, level) == pytest.approx(-(norm.ppf(level) if np.isinf(freedom) else t.ppf(level, freedom)))


def random_motion(count=900, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (3, count, 3)) * np.array([1.0, 0.7, 1.3])


def information_of(tau, motion, blocks=None):
    base = base_parameters(ROBOT)
    return base, inform(ROBOT, base, [as_prepared(ROBOT, *motion, tau)], delay=False)


def noisy(gains, seed=1, chi=None):
    motion = random_motion()
    chi = standard_vector(ROBOT) if chi is None else chi
    tau = inverse_dynamics(ROBOT, chi, *motion)
    tau = tau + 0.02 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
    return motion, tau * np.asarray(gains)


@pytest.mark.parametrize("gain", [1.0, -1.0, 7.0, 0.2])
def test_the_factor_of_a_joint_against_the_others(gain):
    base, information = information_of(*noisy((1.0, gain, 1.0))[::-1])
    found = factors(information, without=0)
    assert (found[0].value, found[0].std) == (1.0, np.inf)
    told = found[1]
    assert abs(told.value - gain) < 5.0 * told.std and 1e-4 < told.std / abs(gain) < 0.1
    assert told.wrong == (gain != 1.0)
    assert 3.0 <= told.freedom <= len(information.blocks)
    # by brute force: what joints 3 knows, times one factor, beside what only joint 2 feels
    q, dq, ddq = random_motion()
    _, tau = noisy((1.0, gain, 1.0))
    Y = regressor(ROBOT, q, dq, ddq)[:, :, base.columns(ROBOT)]
    felt = [np.linalg.norm(Y[:, j], axis=0) > 1e-9 for j in range(3)]
    value = np.zeros(len(base))
    value[felt[2]] = np.linalg.lstsq(Y[:, 2, felt[2]], tau[:, 2], rcond=None)[0]
    own = felt[1] & ~felt[2]
    A = np.column_stack((Y[:, 1, own], Y[:, 1, felt[2] & felt[1]] @ value[felt[2] & felt[1]]))
    assert told.value == pytest.approx(np.linalg.lstsq(A, tau[:, 1], rcond=None)[0][-1], rel=1e-6)


def test_a_joint_that_others_do_not_tell_about_has_no_factor():
    _, information = information_of(*noisy((1.0, 1.0, 1.0))[::-1])
    nothing = replace(
        information, columns=tuple(np.arange(100 * j, 100 * j + len(c)) for j, c in enumerate(information.columns))
    )
    assert all(np.isinf(one.std) and one.value == 1.0 for one in factors(nothing))
    rng = np.random.default_rng(3)
    motion = random_motion()
    _, noise = information_of(rng.normal(size=motion[0].shape), motion)
    assert all(np.isinf(one.std) for one in factors(noise)), "what the others predict is noise"


@pytest.mark.parametrize("scale", [1.0, -3.0, 60.0])
def test_the_scale_of_all_efforts_against_the_a_priori_links(scale):
    chi = standard_vector(ROBOT)
    drives = [k for k, name in enumerate(standard_names(ROBOT)) if name[:2] in ("Fv", "Fc", "of")]
    chi[drives] += np.linspace(0.1, 1.0, len(drives))  # fitted, whatever they are
    motion, tau = noisy((scale, scale, scale), chi=chi)
    base, information = information_of(tau, motion)
    prior = information.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
    found = against_prior(information, base, prior)
    assert abs(found.value - scale) < 5.0 * found.std and 1e-4 < found.std / abs(scale) < 0.05
    Y = regressor(ROBOT, *motion)[:, :, base.columns(ROBOT)].reshape(-1, len(base))
    links = np.array([leader[:2] not in ("Ia", "Fv", "Fc", "of") for leader in base.leaders])
    A = np.column_stack((Y[:, ~links], Y[:, links] @ prior[: len(base)][links]))
    assert found.value == pytest.approx(np.linalg.lstsq(A, tau.ravel(), rcond=None)[0][-1], rel=1e-6)
    none = against_prior(information, base, 0.0 * prior)
    assert (none.value, none.std) == (1.0, np.inf)


def test_factors_and_scales_scatter_as_their_bars_say():
    """Both ways: bars that are too narrow accuse good joints, bars that are too wide excuse bad ones."""
    gains, of_joints, of_all = np.array([1.0, 1.0, -5.0]), [], []
    motion, tau = noisy((1.0, 1.0, 1.0))
    for seed in range(12):
        error = 0.1 * np.random.default_rng(seed).normal(size=tau.shape) * tau.std(axis=0)
        base, information = information_of((tau + error) * gains, motion)
        of_joints.append([(one.value, one.std) for one in factors(information)])
        _, alike = information_of(2.0 * (tau + error), motion)
        prior = alike.layout.vector(base.values(ROBOT, standard_vector(ROBOT)))
        scale = against_prior(alike, base, prior)
        of_all.append((scale.value, scale.std))
    for told in (np.array(of_joints)[:, 2], np.array(of_all)):
        assert 0.5 < np.sqrt(np.mean(told[:, 1] ** 2)) / told[:, 0].std(ddof=1) < 2.0


def test_friction_that_drives_is_found_at_its_joint():
    chi = standard_vector(ROBOT)
    names = standard_names(ROBOT)
    for j, (Fv, Fc) in enumerate(((1.0, 2.0), (0.5, 1.0), (0.7, 0.4)), start=1):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = Fv, Fc
    for signs in ((1, 1, 1), (1, -1, 1), (-1, 1, -1)):
        motion, tau = noisy(signs, chi=chi)
        base, information = information_of(tau, motion)
        assert backward_friction(base, ROBOT, information) == [j for j in range(3) if signs[j] < 0]


@pytest.mark.parametrize(
    ("share", "noise", "found"),
    [(-0.13, 0.02, [1]), (-0.08, 0.02, []), (0.13, 0.02, []), (-0.13, 3.0, []), (-0.9, 0.02, [1])],
)
def test_friction_that_drives_in_the_estimate_of_all_joints_must_be_material_and_certain(share, noise, found):
    """share: torque of joint 2's viscous friction over all of its torque; below a tenth it may be something else."""
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = (1.0, 1.0) if j != 2 else (0.0, 0.0)
    motion = random_motion()
    torque = np.linalg.norm(inverse_dynamics(ROBOT, chi, *motion)[:, 1])
    chi[names.index("Fv2")] = share * torque / np.linalg.norm(motion[1][:, 1]) / np.sqrt(1.0 - min(share**2, 0.5))
    tau = inverse_dynamics(ROBOT, chi, *motion)
    tau = tau + noise * np.random.default_rng(1).normal(size=tau.shape) * tau.std(axis=0)
    base, information = information_of(tau, motion)
    assert _backward_together(base, ROBOT, information) == found
    # a joint's own rows need not show much of it, but must be certain
    assert backward_friction(base, ROBOT, information) == ([1] if share < 0.0 and noise < 1.0 else [])


@pytest.mark.parametrize(
    ("of_all", "left", "gains"),
    [
        ((8.0, 4.0, 1.0), {0: 1, 1: 0}, (1.0, 0.25, 1.0)),  # without joint 2 the others agree, though 1 is farther off
        ((8.0, 4.0, 1.0), {0: 0, 1: 0}, (0.125, 1.0, 1.0)),
        ((4.0, 0.1, 1.0), {0: 0, 1: 0}, (1.0, 10.0, 1.0)),
        ((1.0, 1.0, -1.1), {}, (1.0, 1.0, -1.0)),
        ((1.0, 1.0, -0.6), {}, (1.0, 1.0, -1.0)),
        ((1.0, 1.0, -0.4), {}, (1.0, 1.0, -2.5)),  # wrong by more than its sign
        ((1.0, 1.0, -2.2), {}, (1.0, 1.0, -1.0 / 2.2)),
        ((1.0, 1.0, 1.0), {}, (1.0, 1.0, 1.0)),
    ],
)
def test_the_joint_without_which_the_others_agree_best_is_put_right_first(monkeypatch, of_all, left, gains):
    asked = []

    def told(part, without=None):
        asked.append(without)
        if np.any(part != 1.0):
            return [Factor(1.0, 0.01)] * 3
        if without is None:
            return [Factor(value, 0.01) for value in of_all]
        return [Factor(9.0 if j < left[without] else 1.0, 0.01) for j in range(3)]

    monkeypatch.setattr(effort_scale, "factors", told)
    monkeypatch.setattr(effort_scale, "scaled", lambda information, gains: gains.copy())
    monkeypatch.setattr(effort_scale, "backward_friction", lambda *_: [])
    monkeypatch.setattr(effort_scale, "_backward_together", lambda *_: [])
    found, agree = effort_scale.relative_gains(None, None, SimpleNamespace(n=3))
    np.testing.assert_allclose(found, gains)
    assert agree and {k for k in asked if k is not None} == set(left)


# --- one joint's own evidence


def true_chi(friction=1.0):
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j in (1, 2, 3):
        chi[names.index(f"Fv{j}")], chi[names.index(f"Fc{j}")] = friction, friction
    return chi


def test_evidence_of_a_joint_from_its_motion():
    q, dq, ddq = slow_motion()
    chi = true_chi(3.0)
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    good = effort_evidence.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau))
    gains = np.array([1.0, -1.0, 50.0])
    spoiled = effort_evidence.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, tau * gains))
    for j, gain in enumerate(gains):
        a, b = good[j], spoiled[j]
        assert a.friction_r > 0.5 and b.friction_r == pytest.approx(np.sign(gain) * a.friction_r)
        np.testing.assert_equal(b.inertia, np.sign(gain) * a.inertia)
        np.testing.assert_allclose(b.gravity_scale, gain * a.gravity_scale)
        np.testing.assert_allclose(b.gravity_r, np.sign(gain) * a.gravity_r)
        assert not a.reversed and b.reversed == (gain < 0)
    assert np.isnan(good[0].gravity_r), "a vertical axis feels no weight"
    assert good[1].gravity_scale == pytest.approx(1.0, abs=0.35) and good[1].gravity_r > 0.8
    assert [one.inertia for one in good].count(1.0) >= 1
    # partial correlation and scale by their definition
    friction = np.column_stack((np.tanh(dq[:, 1] / (0.05 * np.abs(dq[:, 1]).max())), dq[:, 1]))
    others = np.column_stack((np.ones(len(q)), friction, ddq))
    Q = inverse_dynamics(
        ROBOT, np.where([name[:2] in ("Fv", "Fc", "of") for name in standard_names(ROBOT)], 0.0, chi), q, 0 * q, 0 * q
    )[:, 1]
    own, rest = (x - others @ np.linalg.lstsq(others, x, rcond=None)[0] for x in (Q, tau[:, 1] - tau[:, 1].mean()))
    assert good[1].gravity_r == pytest.approx(own @ rest / np.linalg.norm(own) / np.linalg.norm(rest), rel=1e-6)
    assert good[1].gravity_scale == pytest.approx(own @ rest / (own @ own), rel=1e-6)


def test_what_shows_nothing():
    q, dq, ddq = slow_motion()
    tau = inverse_dynamics(ROBOT, true_chi(), q, dq, ddq)
    few = SampledMotion(*(x[:159] for x in (q, dq, ddq, tau)))
    blank = EffortEvidence()
    assert all(
        np.isnan([one.gravity_r, one.friction_r, one.inertia]).all()
        for one in effort_evidence.effort_evidence(ROBOT, few)
    )
    still, constant, unknown = dq.copy(), tau.copy(), tau.copy()
    still[:, 0] = 0.0
    constant[:, 1] = 5.0
    unknown[600:, 2] = np.nan
    for motion, joint in (
        (SampledMotion(q, still, ddq, tau), 0),
        (SampledMotion(q, dq, ddq, constant), 1),
        (SampledMotion(q[:170], dq[:170], ddq[:170], np.where(np.arange(170)[:, None] > 150, np.nan, tau[:170])), 2),
    ):
        found = effort_evidence.effort_evidence(ROBOT, motion)[joint]
        assert str(found) == str(blank)
    half = effort_evidence.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, unknown))[2]
    short = effort_evidence.effort_evidence(ROBOT, SampledMotion(q[:600], dq[:600], ddq[:600], tau[:600]))[2]
    assert half.inertia == short.inertia == 1.0
    for field in ("gravity_r", "gravity_scale", "friction_r"):
        np.testing.assert_allclose(getattr(half, field), getattr(short, field), rtol=0.05)


# --- mounting


@pytest.mark.parametrize("gravity", [(0.0, 0.0, -9.81), (0.0, 0.0, 9.81), (6.9, 0.0, -6.9), (0.0, 9.81, 0.0)])
def test_gravity_is_found_whatever_the_size_of_the_motion_torque(gravity):
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(with_gravity(ROBOT, gravity), true_chi(), q, dq, ddq)
    found = mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    angle = np.degrees(
        np.arccos(np.dot(gravity, ROBOT.gravity) / np.linalg.norm(gravity) / np.linalg.norm(ROBOT.gravity))
    )
    np.testing.assert_allclose(found.gravity, np.array(gravity) * 9.81 / np.linalg.norm(gravity), atol=0.3)
    assert found.error < 0.1 and found.brakes and found.angle == pytest.approx(angle, abs=2.0)
    assert found.wrong == found.certain == (angle > 25.0)
    assert (found.described < 0.1) == (angle < 25.0) and found.described < 1.0 + 1e-9
    backward = mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, -tau))
    assert not backward.brakes and backward.angle == pytest.approx(180.0 - angle, abs=2.0)
    smooth = inverse_dynamics(
        with_gravity(ROBOT, gravity),
        np.where([n[:2] in ("Fv", "Fc", "of") for n in standard_names(ROBOT)], 0.0, standard_vector(ROBOT)),
        q,
        dq,
        ddq,
    )
    assert mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, smooth)).brakes, "of inertia, where there is no friction"
    assert not mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, -smooth)).brakes
    for unit in (1e-6, 1e6):  # nothing depends on the unit of the effort
        for effort, wanted in ((tau, found), (-tau, backward)):
            other = mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, unit * effort))
            assert (other.brakes, other.wrong, other.gravity) == (wanted.brakes, wanted.wrong, wanted.gravity)
            assert other.described == pytest.approx(wanted.described, rel=1e-6)
        for sign in (1.0, -1.0):
            assert mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, sign * unit * smooth)).brakes == (sign > 0.0)


def test_mounting_is_not_told_without_masses_gravity_or_motion():
    q, dq, ddq = slow_motion(2)
    tau = inverse_dynamics(ROBOT, true_chi(), q, dq, ddq)
    motion = SampledMotion(q, dq, ddq, tau)
    assert mounting.mounting(replace(ROBOT, parameters={}), motion) is None
    assert mounting.mounting(replace(ROBOT, gravity=np.zeros(3)), motion) is None
    assert mounting.mounting(ROBOT, SampledMotion(q, dq, ddq, 0.0 * tau)) is None
    one = q * np.array([1.0, 1e-4, 1e-4])
    assert mounting.mounting(ROBOT, SampledMotion(one, dq, ddq, tau)) is None


@pytest.mark.parametrize(
    ("direction", "gravity"),
    [
        ((0.0, 0.02, -1.0), (0.0, 0.0, -9.81)),
        ((0.17, 0.0, -1.0), (0.0, 0.0, -9.81)),  # 9.6 degrees
        ((0.19, 0.0, -1.0), (1.83, 0.0, -9.64)),  # 10.8 degrees
        ((-1.0, 0.05, 0.05), (-9.81, 0.0, 0.0)),
    ],
)
def test_a_direction_near_an_axis_is_that_axis(direction, gravity):
    unit = np.array(direction) / np.linalg.norm(direction)
    assert mounting._tidy(unit, 9.81) == gravity
    assert "-0.0" not in map(str, mounting._tidy(unit, 9.81))


# --- motor or link


def side(felt, sure, share=0.01):
    return sensor_side.SensorSide(felt, sure, share)


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ({}, {}),
        ({"a": side((), True), "b": side((), True)}, {"a": (), "b": ()}),
        ({"a": side((), True), "b": side(DRIVE, False)}, {"a": (), "b": ("Fc",)}),
        ({"a": side((), True), "b": side(DRIVE, True)}, {"a": ()}),
        ({"a": side((), True), "b": side(("Fc",), False), "c": side(DRIVE, True)}, {"a": ()}),
        ({"a": side((), False), "b": side(("Fc",), False)}, {}),
        ({"a": side(("Fc",), True), "b": side(("Fv", "Fc"), False)}, {"a": ("Fc",), "b": ("Fc",)}),
        # half of them hold Fc: each has its own; more than half: all do
        ({"a": side(("Fc",), True), "b": side((), True)}, {"a": ("Fc",), "b": ()}),
        ({"a": side(("Fc",), True), "b": side((), True), "c": side(("Fc",), True)}, dict.fromkeys("abc", ("Fc",))),
        ({"a": side(("Fc",), True), "b": side((), True), "c": side((), True)}, {"a": ("Fc",), "b": (), "c": ()}),
    ],
)
def test_joints_that_do_not_tell_follow_those_that_do(sides, found):
    assert sensor_side.found_sensors(sides) == found


class Fold:
    """A fold whose errors by the columns dropped are given."""

    def __init__(self, errors):
        self.errors = errors

    def error(self, dropped):
        return self.errors[tuple(sorted(dropped))]


COLUMNS = {"Ia": [0], "Fv": [1, 3], "Fc": [2]}
ALL, DRY, SLIDE, FULL = (0, 1, 2, 3), (0, 1, 3), (0,), ()


@pytest.mark.parametrize(
    ("errors", "share", "expected"),
    [
        # nothing is needed: the smallest law is best
        ([(9.0, 10.0, 11.0, 12.0)] * 4, 0.01, ((), True, 0.0, 0.0)),
        ([(9.0, 10.0, 11.0, 12.0)] * 4, 0.049, ((), True, 0.0, 0.0)),
        ([(9.0, 10.0, 11.0, 12.0)] * 4, 0.051, ((), False, 0.0, 0.0)),
        # all of it is
        (
            [(90.0, 80.0, 70.0, 10.0), (91.0, 80.0, 71.0, 10.0), (92.0, 81.0, 72.0, 11.0)],
            0.01,
            (DRIVE, False, 0.0, 0.0),
        ),
        # dry friction: a little worse than the best, within the scatter
        (
            [(90.0, 10.5, 10.0, 10.0), (91.0, 9.5, 10.0, 9.9), (92.0, 10.5, 10.0, 10.0)],
            0.01,
            (("Fc",), True, 0.6, np.sqrt(3) * np.std([0.5, -0.4, 0.5], ddof=1)),
        ),
        # viscous friction is needed: the sum of the differences is beyond the scatter
        (
            [(90.0, 12.5, 10.0, 10.0), (91.0, 12.4, 10.0, 10.1), (92.0, 12.6, 10.0, 10.0)],
            0.01,
            (("Fv", "Fc"), False, 0.0, 0.0),
        ),
    ],
)
def test_the_smallest_law_within_the_scatter_of_the_best(errors, share, expected):
    folds = [Fold(dict(zip((ALL, DRY, SLIDE, FULL), one, strict=True))) for one in errors]
    found = sensor_side._compared(folds, COLUMNS, sensor_side.LAWS, share)
    felt, sure, growth, scatter = expected
    total = min(sum(one[k] for one in errors) for k in range(4))
    assert (found.felt, found.clear, found.share) == (felt, sure, share)
    assert (found.growth, found.scatter) == (pytest.approx(growth / total), pytest.approx(scatter / total))
    assert sensor_side._compared(folds[:2], COLUMNS, sensor_side.LAWS, share) == sensor_side.SensorSide(
        DRIVE, False, share
    )


@pytest.mark.parametrize(("mean", "felt"), [(0.16, ("Fc",)), (0.18, ("Fv", "Fc"))])
def test_a_law_may_be_worse_than_the_best_by_one_standard_error(mean, felt):
    """Four folds whose errors grow by a mean and a zigzag of 0.3: the standard error of their sum is 4 * 0.1732."""
    folds = []
    for swing in (0.3, -0.3, 0.3, -0.3):
        errors = {ALL: 90.0, DRY: 10.0 + mean + swing, SLIDE: 10.0, FULL: 10.5}
        folds.append(Fold(errors))
    assert sensor_side._compared(folds, COLUMNS, sensor_side.LAWS, 0.01).felt == felt


def test_sides_from_rows_and_the_share_of_viscous_friction():
    chi, names = standard_vector(ROBOT), standard_names(ROBOT)
    for j, (Ia, Fv, Fc) in enumerate(((0.5, 6.0, 8.0), (0.0, 0.0, 5.0), (0.0, 0.0, 0.0)), start=1):
        for part, x in zip(DRIVE, (Ia, Fv, Fc), strict=True):
            chi[names.index(f"{part}{j}")] = x
    motion, tau = noisy((1.0, 1.0, 1.0), chi=chi)
    base, information = information_of(tau, motion)
    found = wls(information)
    problem = SimpleNamespace(robot=ROBOT, information=information, base=base, terms=())
    sides = sensor_side.sensor_sides(problem, found)
    a, b, c = (sides[name] for name in ROBOT.active_names)
    assert (
        (a.felt, a.clear) == (DRIVE, True) and (b.felt, b.clear) == (("Fc",), True) and (c.felt, c.clear) == ((), True)
    )
    for j, one in enumerate((a, b, c), start=1):
        k = base.leaders.index(f"Fv{j}")
        largest = abs(found.base[k]) + 2.0 * found.base_std[k]
        wanted = largest * np.linalg.norm(motion[1][:, j - 1]) / np.linalg.norm(tau[:, j - 1])
        assert one.share == pytest.approx(wanted)
    linked = replace(
        ROBOT, joints=tuple(replace(joint, felt=()) if k == 1 else joint for k, joint in enumerate(ROBOT.joints))
    )
    assert set(sensor_side.sensor_sides(SimpleNamespace(**{**vars(problem), "robot": linked}), found)) == {
        ROBOT.active_names[0],
        ROBOT.active_names[2],
    }
    assert sensor_side._share(information, found, 0, None) == np.inf, "no viscous friction among the base parameters"
    lost = found.identified.copy()
    lost[base.leaders.index("Fv3")] = False
    assert sensor_side.sensor_sides(problem, replace(found, identified=lost))[ROBOT.active_names[2]].share == np.inf


def test_a_fold_is_predicted_by_a_fit_to_the_others():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 4)), rng.normal(size=(10, 4))
    y, z = rng.normal(size=30), rng.normal(size=10)
    fold = sensor_side._Fold(np.column_stack((B, z)), np.column_stack((A, y)))
    for dropped in ((), (1,), (0, 3)):
        kept = [k for k in range(4) if k not in dropped]
        x = np.linalg.lstsq(A[:, kept], y, rcond=None)[0]
        assert fold.error(dropped) == pytest.approx(np.sum((z - B[:, kept] @ x) ** 2))


# --- which estimator


def estimate(value, std, method=Method.WLS, known=(True, True, True)):
    return SimpleNamespace(base=np.array(value), base_std=np.array(std), base_identified=np.array(known), method=method)


@pytest.mark.parametrize(
    ("found", "unbiased", "method"),
    [
        ((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), Method.WLS),
        ((1.0, 2.0, 3.059), (1.0, 2.0, 3.0), Method.WLS),  # 2.95 standard deviations
        ((1.0, 2.0, 3.0602), (1.0, 2.0, 3.0), Method.IV),
        ((1.0, 2.0, 2.9398), (1.0, 2.0, 3.0), Method.IV),
        ((9.0, 2.0, 3.0), (0.1, 2.0, 3.0), Method.WLS),  # hardly excited: says nothing
    ],
)
def test_bias_by_the_encoders_is_told_by_an_estimate_without(monkeypatch, found, unbiased, method):
    other = estimate(unbiased, (0.02, 0.02, 0.02), Method.IV)
    monkeypatch.setattr(method_choice, "_best", lambda problem: other)
    monkeypatch.setattr(method_choice, "_noise", lambda problem: method_choice.NOISY)
    problem = SimpleNamespace(base=SimpleNamespace(names=NAMES))
    told = method_choice.method_choice(problem, estimate(found, (0.02, 0.02, 0.02)))
    assert (told.method, told.noise) == (method, method_choice.NOISY)
    assert (told.reason is None) == (method is Method.WLS)
    if told.reason is not None:
        assert ["c is off by 3.0", "3.1"][0][:10] in told.reason and "biases wls" in told.reason
    monkeypatch.setattr(method_choice, "_noise", lambda problem: 0.99 * method_choice.NOISY)
    assert method_choice.method_choice(problem, estimate(found, (0.02, 0.02, 0.02))).method is Method.WLS
    monkeypatch.setattr(method_choice, "_noise", lambda problem: None)
    assert method_choice.method_choice(problem, estimate(found, (0.02, 0.02, 0.02))).noise is None


def test_estimates_that_cannot_be_compared(monkeypatch):
    problem = SimpleNamespace(base=SimpleNamespace(names=NAMES))
    monkeypatch.setattr(method_choice, "_noise", lambda problem: 1.0)
    mine = estimate((1.0, 2.0, 3.0), (0.02, 0.02, 0.02))

    def refuse(error):
        def best(problem):
            raise error

        monkeypatch.setattr(method_choice, "_best", best)
        return method_choice.method_choice(problem, mine)

    assert refuse(RankError("open", "record", rank=3, expected=4, tolerance=1e-8)).reason is None
    told = refuse(InputError("no commands", "use wls"))
    assert told.method is Method.WLS and "may be biased; no commands; record the commanded" in told.reason
    for method in method_choice.UNBIASED:
        assert method_choice.method_choice(problem, estimate((1, 2, 3), (1, 1, 1), method)).reason is None


@pytest.mark.parametrize(
    ("std", "unbiased_std", "known", "well"),
    [
        ((0.049, 0.1, 0.2), (0.1, 0.1, 0.2), (True, True, True), (True, False, False)),
        ((0.9, 0.9, 0.9), (0.051, 0.099, 0.149), (True, True, True), (False, True, True)),
        ((0.01, 0.01, 0.01), (0.01, 0.01, 0.01), (True, False, True), (True, False, True)),
    ],
)
def test_parameters_that_are_well_excited(std, unbiased_std, known, well):
    found, unbiased = estimate((5.0, 5.0, 5.0), std), estimate((1.0, -2.0, 3.0), unbiased_std, known=known)
    assert tuple(method_choice._well(found, unbiased)) == well
    swapped = method_choice._well(estimate((5.0, 5.0, 5.0), std, known=known), estimate((1.0, -2.0, 3.0), unbiased_std))
    assert tuple(swapped) == well


def test_the_narrowest_of_the_estimates_without_bias(monkeypatch):
    stds = {Method.IV: (0.02, 0.02, 0.02), Method.IDIM_IV: (0.03, 0.01, 0.01), Method.DIDIM: (0.04, 0.04, 0.001)}

    def fitter(method, problem):
        if method in problem.refused:
            raise InputError("cannot", "be")
        return lambda chosen: estimate((1.0, 2.0, 3.0), stds[method], method)

    monkeypatch.setattr(method_choice, "fitter", fitter)
    recording = SimpleNamespace(reference=np.zeros(3))
    problem = SimpleNamespace(controller=1, prepared=[recording, recording], refused=())
    assert method_choice._best(problem).method is Method.IDIM_IV
    problem.refused = (Method.IDIM_IV,)
    assert method_choice._best(problem).method is Method.IV
    problem.refused, problem.controller = (), None
    assert method_choice._best(problem).method is Method.IV
    problem.controller, problem.prepared = 1, [recording, SimpleNamespace(reference=None)]
    assert method_choice._best(problem).method is Method.IV


def test_samples_of_several_recordings_in_their_order():
    parts = [as_prepared(ROBOT, *np.random.default_rng(k).normal(size=(4, n, 3))) for k, n in enumerate((50, 30))]
    parts[0] = replace(parts[0], segments=(slice(3, 20), slice(25, 50)))
    every = sampled_motion(parts, most=100)
    assert every.stride == 1 and len(every.q) == 17 + 25 + 30
    np.testing.assert_array_equal(every.ddq, np.concatenate((parts[0].ddq[3:20], parts[0].ddq[25:], parts[1].ddq)))
    few = sampled_motion(parts, most=18)
    at = np.concatenate((np.arange(3, 20), np.arange(25, 50)))[::4]
    assert few.stride == 4
    for field in ("q", "dq", "ddq", "tau"):
        rows = np.concatenate((getattr(parts[0], field)[at], getattr(parts[1], field)[::4]))
        np.testing.assert_array_equal(getattr(few, field), rows)
