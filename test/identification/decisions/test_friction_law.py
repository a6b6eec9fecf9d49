# SPDX-License-Identifier: Apache-2.0

"""The friction law of recordings: what is tried, from what, and what is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.decisions import friction_law
from ros2_dynid.identification.decisions.friction_law import choose_friction_law
from ros2_dynid.identification.decisions.friction_selection import DEFAULTS
from ros2_dynid.identification.options import Method
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import identified_terms
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo3")
CUBIC, ROOT, ASYMMETRIC, STRIBECK, LOAD, POWER = (
    FrictionKind[name] for name in ("CUBIC", "ROOT", "ASYMMETRIC", "STRIBECK", "LOAD", "POWER")
)

STRIBECK_SHARES, POWERS = STRIBECK.shape.tried, POWER.shape.tried


def with_terms(*terms):
    return replace(ROBOT, friction=terms)


def exact_motion(robot, seed=1, count=900):
    """Return smooth motion with the robot's torques and a trace of noise, every sample a row."""
    rng = np.random.default_rng(seed)
    t = np.arange(count) / 50.0
    amplitude, phase = rng.uniform(0.1, 0.35, (3, 5)), rng.uniform(0.0, 6.3, (3, 5))
    w = 2.0 * np.pi * np.array([0.1, 0.2, 0.3, 0.5, 0.7])
    waves = [np.sin(np.multiply.outer(t, w)[:, None] + phase + k * np.pi / 2) for k in range(3)]
    q, dq, ddq = (np.sum(amplitude * w**k * wave, axis=2) for k, wave in enumerate(waves))
    tau = inverse_dynamics(robot, standard_vector(robot), q, dq, ddq)
    return as_prepared(robot, q, dq, ddq, tau + 1e-3 * rng.normal(size=tau.shape), t)


BASE = base_parameters(ROBOT)


def law_of(true, friction, method=Method.WLS, **more):
    prepared = [exact_motion(with_terms(*true))]
    return choose_friction_law(
        ROBOT, BASE, prepared, build_information(ROBOT, BASE, prepared, delay=False), friction, method, **more
    )


@pytest.mark.parametrize(
    "changed", [{"gain": 1e6}, {"chance": 1e-12}, {"terms": 0}, {"significance": 1e6}, {"collinear": 1.0}]
)
def test_thresholds_are_those_that_are_passed(changed):
    """With any of these no term is taken that is taken by default."""
    true = [FrictionTerm(2, LOAD, 0.3)]
    assert [term.kind for term in law_of(true, "auto").terms] == [LOAD]
    assert law_of(true, "auto", thresholds=replace(DEFAULTS, **changed)).terms == ()


@pytest.mark.parametrize(("true", "friction"), [
    (FrictionTerm(2, LOAD, 0.3), "auto"),
    (FrictionTerm(2, LOAD, 0.3), "joint2=load"),
    (FrictionTerm(3, STRIBECK, 2.0, speed=0.25), "joint3=stribeck"),
    (FrictionTerm(3, STRIBECK, 2.0, speed=0.25), "auto"),
    (FrictionTerm(1, POWER, 3.0, exponent=1.9), "joint1=power"),
])  # fmt: skip
def test_the_law_of_exact_data_is_found_with_its_shape(true, friction):
    names = {f"joint{k + 1}": name for k, name in enumerate(ROBOT.active_names)}
    for given, name in names.items():
        friction = friction.replace(f"{given}=", f"{name}=")
    law = law_of([true], friction)
    (found,) = identified_terms(law.terms, wls(law.information))
    assert (found.joint, found.kind) == (true.joint, true.kind)
    assert found.coefficient == pytest.approx(true.coefficient, rel=0.01)
    assert found.speed == pytest.approx(true.speed, rel=0.01)
    assert found.exponent == pytest.approx(true.exponent, rel=0.01)
    assert any(trial.chosen and trial.joint == true.joint for trial in law.trials)
    estimate = wls(law.information)
    value = BASE.values(ROBOT, standard_vector(ROBOT))
    np.testing.assert_allclose(estimate.base, value, atol=0.02 * np.abs(value).max())


def traced(monkeypatch, name):
    """Return what the law asks of a function, and what it gets."""
    real, calls = getattr(friction_law, name), []

    def told(*args, **more):
        found = real(*args, **more)
        calls.append((args, more, found))
        return found

    monkeypatch.setattr(friction_law, name, told)
    return calls


def test_the_slowest_filter_of_several_recordings_decides(monkeypatch):
    parts = [exact_motion(ROBOT, seed, 400) for seed in (1, 2)]
    parts = [replace(p, filter=replace(p.filter, slow=slow, row_cutoff=cutoff, row_rate=50.0))
             for p, slow, cutoff in zip(parts, (0.03, 0.01), (20.0, 5.0), strict=True)]  # fmt: skip
    near, chosen = traced(monkeypatch, "build_standstill_terms"), traced(monkeypatch, "select_terms")
    information = build_information(ROBOT, BASE, parts, delay=False)
    for order in (parts, parts[::-1]):
        near.clear(), chosen.clear()
        choose_friction_law(ROBOT, BASE, order, information, "auto", Method.WLS)
        ((_, _, top, slow), _, _), (args, asked, _) = *near, *chosen
        assert slow == 0.03 and asked["independent"] == pytest.approx(0.2)
        np.testing.assert_array_equal(top, np.maximum(*(p.top_speed for p in parts)))
        assert args[0].layout.n_friction == len(args[1]) + 3, "what each joint lacks near standstill beside them"
    near.clear(), chosen.clear()
    choose_friction_law(ROBOT, BASE, parts, information, "load", Method.WLS)
    assert not near and chosen[0][1]["force"] and chosen[0][0][0].layout.n_friction == 3


def test_a_motion_that_repeats_is_left_out_by_parts_of_its_period(monkeypatch):
    """Or each stretch left out would have the motion of another, and whatever repeats with it, such as a gear's ripple,
    would look like a term."""
    chosen = traced(monkeypatch, "select_terms")
    for count, repeats in ((700, False), (1500, True)):
        prepared = [exact_motion(with_terms(FrictionTerm(2, LOAD, 0.3)), count=count)]
        information = build_information(ROBOT, BASE, prepared, delay=False)
        assert bool(information.phases) == repeats
        law = choose_friction_law(ROBOT, BASE, prepared, information, "auto", Method.WLS)
        ((judged, *_), _, _) = chosen.pop()
        blocks = information.phases if repeats else information.blocks
        assert [(block.start, block.end) for block in judged.blocks] == [(block.start, block.end) for block in blocks]
        assert [term.kind for term in law.terms] == [LOAD]


@pytest.mark.parametrize("law", ["auto", "temperature"])
def test_speeds_and_temperatures_of_all_recordings_say_what_may_be_tried(monkeypatch, law):
    """20 to 21 degrees in one and 24 to 25 in the other are a change of 5 K."""
    parts = [
        replace(p, temperature=np.tile(np.linspace(low, low + 1.0, 300)[:, None], 3), top_speed=speed * p.top_speed,
                temperatures=np.array([[low] * 3, [low + 1.0] * 3]))
        for p, low, speed in zip([exact_motion(ROBOT, k, 300) for k in (1, 2)], (20.0, 24.0), (0.5, 1.0), strict=True)
    ]  # fmt: skip
    asked = traced(monkeypatch, "list_candidate_terms" if law == "auto" else "read_law_terms")
    choose_friction_law(ROBOT, BASE, parts, build_information(ROBOT, BASE, parts, delay=False), law, Method.WLS)
    ((args, _, terms),) = asked
    top, temperatures = args[1:3] if law == "auto" else args[2:4]
    np.testing.assert_array_equal(temperatures, [[20.0] * 3, [25.0] * 3])
    np.testing.assert_array_equal(top, np.maximum(*(p.top_speed for p in parts)))
    assert {term.reference for term in terms if "temperature" in str(term.kind)} == {22.5}


def test_a_law_whose_terms_are_not_significant_is_plain_friction_with_what_was_tried():
    prepared = [exact_motion(with_terms(FrictionTerm(2, LOAD, 0.3)))]
    information = build_information(ROBOT, BASE, prepared, delay=False)
    asked = ROBOT, BASE, prepared, information, "auto", Method.WLS
    taken, none = (choose_friction_law(*asked, thresholds=replace(DEFAULTS, significance=x)) for x in (3.0, 1e6))
    assert [term.kind for term in taken.terms] == [LOAD]
    assert none.terms == () and none.information is information and none.prepared == tuple(prepared)
    assert any(trial.chosen for trial in taken.trials)
    assert none.trials == tuple(replace(trial, chosen=False) for trial in taken.trials)


def test_a_term_that_friction_cannot_have_is_told_as_not_taken():
    plain = exact_motion(ROBOT)
    driving = -0.05 * np.abs(plain.tau) * np.sign(plain.dq) * np.array([0.0, 1.0, 0.0])
    prepared = [replace(plain, tau=plain.tau + driving)]
    information = build_information(ROBOT, BASE, prepared, delay=False)
    none = choose_friction_law(ROBOT, BASE, prepared, information, f"{ROBOT.active_names[1]}=load", Method.WLS)
    assert none.terms == () and none.information is information and not any(trial.chosen for trial in none.trials)


def test_plain_friction_stays_plain_and_the_energy_model_has_no_terms():
    law = law_of([], "auto")
    assert law.terms == () and law.trials and law.information.layout.n_friction == 0
    plain = law_of([FrictionTerm(2, LOAD, 0.3)], "viscous+coulomb")
    assert plain.terms == () and plain.trials == ()
    energy = law_of([FrictionTerm(2, LOAD, 0.3)], "auto", Method.ENERGY)
    assert energy.terms == () and energy.information.layout.n_friction == 0
    with pytest.raises(InputError, match="energy model has no friction terms"):
        law_of([], "load", Method.ENERGY)
    assert law_of([], "viscous+coulomb", Method.ENERGY).terms == ()
