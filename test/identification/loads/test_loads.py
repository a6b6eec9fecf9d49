# SPDX-License-Identifier: Apache-2.0

"""Loads and drive gains of a small arm, compared with their definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import frictionless
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.friction_columns import PLAIN
from ros2_dynid.identification.loads import payload_fit, quick_load
from ros2_dynid.identification.loads.drive_gains import drive_gains, measure_load, measure_share
from ros2_dynid.identification.loads.loaded_friction import (
    drive_gains_with_law,
    identify_load_on_model_with_law,
    identify_loads_with_law,
    law_of,
)
from ros2_dynid.identification.loads.payload_fit import compare_joints, identify_load_on_model, without_base
from ros2_dynid.identification.model_file import model_of
from ros2_dynid.identification.options import Method, PreparationOptions
from ros2_dynid.identification.preparation.prepare import prepare
from ros2_dynid.identification.preparation.prepared import as_prepared
from ros2_dynid.identification.problem import Problem
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.error_bars import block_moments, jackknife
from ros2_dynid.identification.regression.estimate import ColumnLayout, Estimate
from ros2_dynid.identification.regression.information import Block, Information, select_friction
from ros2_dynid.identification.regression.least_squares import wls
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import LINK, link_slice
from ros2_dynid.recording.samples import Samples
from ros2_dynid.sim.truth import true_parameters

ROBOT = load_robot("demo3")


BASE = base_parameters(ROBOT)


MASS, COM = 2.5, np.array((0.03, -0.05, 0.12))


def identify_load(robot, base, empty, loaded, **more):
    return payload_fit.identify_loads(robot, base, empty, [loaded], **more)[0]


def identify_load_with_law(empty, loaded, terms, **more):
    return identify_loads_with_law(empty, [loaded], terms, **more)[0]


def ten(mass=MASS, com=COM, own=0.01):
    J = own * np.eye(3) + mass * (com @ com * np.eye(3) - np.outer(com, com))
    return np.array((J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(mass * com), mass))


LIGHT = ten(0.8, -COM, 0.002)


def chi_with(load=None, link=ROBOT.n):
    chi = true_parameters(ROBOT, 2)
    if load is not None:
        chi[link_slice(link - 1)] += load
    return chi


LAW = tuple(FrictionTerm(joint, FrictionKind.LOAD, 0.05 + 0.03 * joint) for joint in ROBOT.active)


GAINS = np.array([3.0, -2.0, 50.0])


def moved(seed, load=None, *, law=False, noise=0.005, gains=1.0, link=ROBOT.n, moving=1.0):
    """Return 400 samples of an exact motion as they are."""
    rng = np.random.default_rng(seed)
    motion = moving * rng.uniform(-2.0, 2.0, (3, 400, ROBOT.n))
    robot = replace(ROBOT, friction=LAW) if law else ROBOT
    tau = inverse_dynamics(robot, chi_with(load, link), *motion)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return as_prepared(ROBOT, *motion, tau / gains)


def late(seed, load, seconds):
    """Return 8 s of a smooth motion, filter_signal, whose efforts come late."""
    rng, t = np.random.default_rng(seed), np.arange(0.0, 8.0, 0.01)
    w = 2.0 * np.pi * np.array([0.1, 0.25, 0.4, 0.7])
    a, phase = rng.normal(0.0, 0.6, (4, 3)) / np.arange(1, 5)[:, None], rng.uniform(0.0, 6.3, (4, 3))

    def at(time, order):
        angle = np.multiply.outer(time, w)[:, :, None] + phase + order * np.pi / 2
        return np.sum(a * w[:, None] ** order * np.sin(angle), axis=1)

    tau = inverse_dynamics(replace(ROBOT, friction=LAW), chi_with(load), *(at(t - seconds, k) for k in range(3)))
    tau = tau + 0.005 * tau.std(axis=0) * rng.normal(size=tau.shape)
    samples = Samples(t, ROBOT.active_names, at(t, 0), tau=tau)
    return prepare(ROBOT, samples, PreparationOptions(position_cutoff=20.0, row_cutoff=4.0))


def problem(prepared, delay=False, terms=()):
    information = build_information(ROBOT, BASE, [prepared], delay=delay, terms=terms)
    return Problem(ROBOT, BASE, (prepared,), information, np.zeros(information.size), tuple(terms))


def rows(*args, **more):
    return problem(moved(*args, **more)).information


TERMS = tuple(replace(term, coefficient=0.0) for term in LAW)


def test_terms_of_a_law_without_the_columns_of_their_shapes():
    stribeck = FrictionTerm(2, FrictionKind.STRIBECK, speed=0.3)
    both = (LAW[0], stribeck, replace(stribeck, of_shape=True))
    assert law_of(replace(problem(moved(0)), terms=both)) == both[:2]


def test_loads_are_exact_where_friction_grows_with_them():
    parts = [problem(moved(k, load, law=True, noise=1e-6)) for k, load in enumerate((None, ten(), LIGHT))]
    plain = identify_load(ROBOT, BASE, *(part.information for part in parts[:2]))
    assert abs(plain.mass - MASS) > 0.005 * MASS, "the case is one that matters"
    one = identify_load_with_law(*parts[:2], TERMS)
    two = identify_loads_with_law(parts[0], parts[1:], TERMS)
    for found, mass, com in ((one, MASS, COM), (two[0], MASS, COM), (two[1], 0.8, -COM)):
        assert found.mass == pytest.approx(mass, rel=1e-4)
        np.testing.assert_allclose(found.com, com, atol=2e-4)
        told = np.isfinite(found.joint_mass)
        assert told.sum() >= 2
        np.testing.assert_allclose(found.joint_mass[told], mass, rtol=1e-3)


def test_joints_are_asked_by_the_robot_without_its_load_with_and_without_a_law():
    gains = np.where(np.arange(3) == 1, 1.5, 1.0)
    parts = [problem(moved(k, x, gains=gains, noise=0.02)) for k, x in enumerate((None, ten()))]
    plain = identify_load(ROBOT, BASE, *(part.information for part in parts), free=True)
    found = identify_load_with_law(*parts, TERMS, free=True)  # there is nothing that grows with the load
    assert 1.4 < found.joint_mass[1] < 1.7 and ROBOT.active_names[1] in found.contradicting
    np.testing.assert_allclose(found.joint_mass, plain.joint_mass, rtol=0.02)
    np.testing.assert_allclose(found.joint_mass_std, plain.joint_mass_std, rtol=0.1)


def stored(law=True):
    """Return a model of the robot without a load, with the covariance of base parameters and terms."""
    terms = LAW if law else ()
    empty = replace(moved(0, law=law), gear_torque=gear_torque(moved(0)))
    found = wls(build_information(ROBOT, BASE, [empty], delay=False, terms=terms))
    b = len(BASE)
    robot = replace(
        ROBOT, friction=tuple(replace(t, coefficient=c) for t, c in zip(terms, found.friction, strict=True))
    )
    extra = found.covariance[b:] if law else None
    return model_of(robot, BASE, found.base, found.base_std, found.base_covariance, friction_covariance=extra)


def gear_torque(p, load=None):
    return inverse_dynamics(*frictionless(ROBOT, chi_with(load)), p.q, p.dq, p.ddq)


@pytest.mark.parametrize("known", [True, False])
def test_a_load_on_a_model_whose_friction_grows_with_it(known):
    model = stored()
    if not known:
        model = replace(model, friction_covariance=None)
    loaded = problem(moved(1, ten(), law=True))
    found = identify_load_on_model_with_law(model, loaded, free=True)
    assert abs(found.mass - MASS) < min(4.0 * found.mass_std, 0.01 * MASS)
    plain = identify_load_on_model(replace(model, robot=ROBOT, friction_covariance=None), BASE, loaded.information)
    assert abs(plain.mass - MASS) > 5.0 * abs(found.mass - MASS)


def test_bars_of_the_law_are_among_those_of_a_load_on_a_model():
    """Identities: terms that are taken off give the same load; an error of base and law moves it as its bars say."""
    model = stored()
    loaded = replace(moved(1, ten(), law=True), gear_torque=gear_torque(moved(1), ten()))
    columns = build_information(ROBOT, BASE, [loaded], delay=False, terms=LAW)
    coefficients = np.array([term.coefficient for term in model.robot.friction])
    found = identify_load_on_model(model, BASE, columns, free=True)
    bare = identify_load_on_model(
        replace(model, friction_covariance=None), BASE, select_friction(columns, (), coefficients), free=True
    )
    np.testing.assert_allclose(found.parameters, bare.parameters, rtol=1e-6, atol=1e-7)
    b, f = len(BASE), len(LAW)
    M_L = payload_fit.load_map(ROBOT, BASE)
    alone = wls(
        without_base(payload_fit.add_load_columns(select_friction(columns, (), coefficients), M_L), model.value)
    )
    Y = []
    for j, places in enumerate(columns.columns):
        wide = np.zeros((len(columns.triangle(j)), b + f))
        wide[:, places] = columns.triangle(j)[:, :-1] / alone.sigma[j]
        Y.append(wide)
    Y = np.vstack(Y)
    G = np.linalg.lstsq(Y[:, :b] @ M_L, Y, rcond=None)[0]
    wanted = G @ model.known_covariance @ G.T
    assert found.contradicting == ()
    np.testing.assert_allclose(found.covariance, alone.load_covariance + wanted, rtol=1e-4, atol=1e-9)
    assert np.all(np.diag(wanted) > 0.1 * np.diag(alone.load_covariance))


def test_late_efforts_and_a_law():
    """With the column of the delay the error is that of the noise, without it that of the delay."""
    parts = [late(k, load, 0.008) for k, load in enumerate((None, ten()))]
    good, bad = (identify_load_with_law(*(problem(part, delay) for part in parts), TERMS) for delay in (True, False))
    assert abs(good.mass - MASS) < min(4.0 * good.mass_std, 0.02 * MASS) and good.mass_std < 0.8 * bad.mass_std
    b = len(BASE)
    model = model_of(
        replace(ROBOT, friction=LAW), BASE, BASE.values(ROBOT, chi_with()), np.full(b, 1e-6), 1e-12 * np.eye(b)
    )
    good, bad = (identify_load_on_model_with_law(model, problem(parts[1], delay)) for delay in (True, False))
    assert abs(good.mass - MASS) < min(4.0 * good.mass_std, 0.02 * MASS) and good.mass_std < 0.8 * bad.mass_std


def test_gains_with_a_law_are_those_of_torques():
    parts = [problem(moved(k, load, law=True, gains=GAINS, noise=5e-4)) for k, load in enumerate((None, ten()))]
    plain = drive_gains(ROBOT, BASE, *(part.information for part in parts), MASS)
    same = drive_gains_with_law(*parts, PLAIN, Method.WLS, MASS, None)
    np.testing.assert_array_equal(same.value, plain.value)
    found = drive_gains_with_law(*parts, "load", Method.WLS, MASS, None)
    told = np.isfinite(found.value) & np.isfinite(plain.value) & np.array(found.from_mass)
    assert told.sum() >= 2
    off = [np.abs(g.value[told] / GAINS[told] - 1.0) for g in (plain, found)]
    assert off[1].max() < 2e-3 < 5e-3 < off[0].max()
    z = (found.value - GAINS)[told] / found.std[told]
    assert np.all(np.abs(z) < 5.0) and np.all(np.abs(found.std[told] / GAINS[told]) < 2e-3)
    assert np.all(np.abs(found.std[told] / GAINS[told]) > 1e-4)


def test_efforts_in_other_units_have_gains_and_bars_in_those_units():
    """The same recordings with efforts divided by u, of either sign, have u times the gains and |u| times the bars."""
    units = np.array([0.5, -20.0, 0.02])
    found, other = (
        drive_gains_with_law(
            *(problem(moved(k, load, law=True, gains=gains, noise=5e-4)) for k, load in enumerate((None, ten()))),
            "load",
            Method.WLS,
            MASS,
            None,
        )
        for gains in (GAINS, GAINS * units)
    )
    assert np.isfinite(found.value).sum() >= 2
    np.testing.assert_allclose(other.value, found.value * units, rtol=1e-3)
    np.testing.assert_allclose(other.std, found.std * np.abs(units), rtol=0.1)


def test_parameters_of_a_load_that_did_not_show_are_all_named():
    planar = np.array([0.0, 1.0, 1.0])  # about two axes that are parallel
    parts = [rows(k, x, moving=planar) for k, x in enumerate((None, ten()))]
    known = wls(payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])).load_identified
    names = [name for name, one in zip(LINK, known, strict=True) if not one]
    assert 1 < len(names) < 10
    with pytest.raises(InputError, match=f"{', '.join(names)} of the load not excited") as error:
        identify_load(ROBOT, BASE, *parts)
    assert str(error.value).count("X") == sum(name.count("X") for name in names)


def test_bars_of_contradicting_joints_are_those_of_the_scale_of_the_load():
    gains = np.where(np.arange(3) == 1, 1.5, 1.0)
    parts = [rows(k, x, gains=gains, noise=0.02) for k, x in enumerate((None, ten()))]
    M_L = payload_fit.load_map(ROBOT, BASE)
    together = payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])
    found = wls(together)
    alone = payload_fit.estimate_empty_robot(parts[0], together, found)
    np.testing.assert_allclose(alone.base, wls(parts[0]).base)
    told = compare_joints(
        parts[1], alone.base, alone.base_covariance, found.delay, M_L, found.load, found.load_covariance
    )
    assert 1 in told.contradicting and told.variance > 0.0
    load = identify_load(ROBOT, BASE, *parts, free=True)
    wider = found.load_covariance + told.variance * np.outer(found.load, found.load)
    np.testing.assert_allclose(load.covariance, wider, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(load.joint_mass, told.scale * found.load[-1])
    np.testing.assert_allclose(load.joint_mass_std, told.std * found.load[-1])
    assert load.contradicting == tuple(ROBOT.active_names[j] for j in told.contradicting)


def test_a_body_is_closest_in_the_bars_that_contradicting_joints_widen():
    gains = np.where(np.arange(3) == 1, 1.5, 1.0)
    flat = ten(own=0.0)
    parts = [rows(k, x, gains=gains, noise=0.05) for k, x in enumerate((None, flat))]
    free, body = (identify_load(ROBOT, BASE, *parts, free=free) for free in (True, False))
    assert np.linalg.eigvalsh(pseudo_inertia(free.parameters))[0] < 0.0 and free.contradicting
    np.testing.assert_allclose(body.parameters, payload_fit.closest_body(free.parameters, free.covariance), atol=1e-9)
    np.testing.assert_array_equal(body.covariance, free.covariance)
    np.testing.assert_array_equal(body.joint_mass, free.joint_mass)
    assert body.mass != free.mass


def test_contradicting_joints_of_a_robot_with_passive_ones_have_their_own_names():
    robot = load_robot("hitachi_hpr")
    assert robot.active == (1, 3, 4, 6, 7)
    base, chi = base_parameters(robot), np.random.default_rng(9).uniform(0.5, 1.5, 14 * robot.n)
    gains, parts = np.where(np.arange(5) == 1, 1.5, 1.0), []
    for k, load in enumerate((np.zeros(10), ten())):
        rng = np.random.default_rng(k)
        motion = rng.uniform(-2.0, 2.0, (3, 400, 5))
        loaded = chi.copy()
        loaded[link_slice(robot.n - 1)] += load
        tau = inverse_dynamics(robot, loaded, *motion)
        tau = tau + 0.02 * tau.std(axis=0) * rng.normal(size=tau.shape)
        parts.append(build_information(robot, base, [as_prepared(robot, *motion, tau / gains)], delay=False))
    found = identify_load(robot, base, *parts, free=True)
    assert found.contradicting == (robot.joints[2].name,) and len(found.joint_mass) == 5
    assert found.joint == 7 and found.mass == pytest.approx(MASS, rel=0.02)


def test_one_of_several_loads_is_known_where_its_own_columns_are():
    layout = ColumnLayout(4, 1, 30)
    identified = np.ones(layout.size, dtype=bool)
    identified[[2, 5 + 3, 5 + 10 + 7, 5 + 20 + 9]] = False
    L = np.random.default_rng(0).normal(size=(layout.size, layout.size))
    found = Estimate(layout, np.arange(35.0), L @ L.T, identified, np.ones(6), 1.0, 31, Method.WLS)
    for place, unknown in enumerate((3, 7, 9)):
        one = payload_fit.one_load(found, place)
        assert np.flatnonzero(~one.load_identified).tolist() == [unknown] and not one.identified[2]
        np.testing.assert_array_equal(one.load, 5.0 + 10 * place + np.arange(10.0))
        assert (one.delay, one.layout.n_load) == (4.0, 10)
        at = [*range(5), *range(5 + 10 * place, 15 + 10 * place)]
        np.testing.assert_array_equal(one.covariance, found.covariance[np.ix_(at, at)])


def test_bars_by_which_joints_are_asked_do_not_grow_with_errors_that_last():
    """Such errors are what joints contradict each other by: bars that grow with them would hide it."""
    p = moved(0, noise=0.002)
    slow = p.tau.std(axis=0) * np.sin(2.0 * np.pi * np.arange(400)[:, None] / 130.0 + np.arange(3.0))
    empty = problem(replace(p, tau=p.tau + 0.05 * slow)).information
    together = payload_fit.build_load_information(ROBOT, BASE, empty, [rows(1, ten())])
    alone, own = payload_fit.estimate_empty_robot(empty, together, wls(together)), wls(empty)
    moments = block_moments(empty, own.value, 1.0 / own.sigma)
    wanted, grown = (jackknife(moments, own.identified, grow=grow)[0] for grow in (False, True))
    np.testing.assert_allclose(alone.covariance, wanted)
    assert np.trace(grown) > 1.5 * np.trace(wanted)


def test_the_robot_without_its_load_where_its_own_recording_does_not_tell():
    still = rows(0, moving=np.array([1.0, 1.0, 0.0]))
    loaded = rows(1, ten())
    together = payload_fit.build_load_information(ROBOT, BASE, still, [loaded])
    found = wls(together)
    assert not np.all(wls(still).identified)
    np.testing.assert_array_equal(payload_fit.estimate_empty_robot(still, together, found).value, found.value)


def test_a_quick_load_that_no_body_has_is_told_as_none(monkeypatch):
    model = stored(law=False)
    loaded = rows(1, ten())
    usual = quick_load.quick_load(model, BASE, loaded)
    asked = []

    def refusing(*args, **more):
        asked.append(more.get("free", False))
        if not asked[-1]:
            raise InputError("no body", "has this")
        return payload_fit.payload_of(*args, **more)

    monkeypatch.setattr(quick_load, "payload_of", refusing)
    found = quick_load.quick_load(model, BASE, loaded)
    assert asked == [False, True] and usual.significant and not found.significant
    assert found.mass == pytest.approx(usual.mass, rel=0.05)

    def singular(*_):
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(quick_load, "jackknife", singular)
    assert quick_load.quick_load(model, BASE, loaded) is None


def test_a_model_that_does_not_know_what_the_motion_needs_is_refused_with_all_its_names():
    model, loaded = stored(law=False), rows(1, ten())
    std = model.std.copy()
    unknown = [3, 9, len(std) - 1]
    std[unknown] = np.inf
    with pytest.raises(InputError, match=f"does not know {', '.join(BASE.names[k] for k in unknown)}; identify"):
        identify_load_on_model(replace(model, std=std), BASE, loaded)
    std = np.full(len(std), np.inf)
    with pytest.raises(InputError, match=f"does not know {', '.join(BASE.names[:5])}; identify"):
        identify_load_on_model(replace(model, std=std), BASE, loaded)
    # a motion without joint 1 does not need its friction; a joint that hardly moves needs its own
    std = model.std.copy()
    std[BASE.names.index("Fv1")] = np.inf
    for speed, refused in ((0.0, False), (1e-4, True)):
        motion = moved(1, ten(), moving=np.array([speed, 1.0, 1.0]))
        information = problem(motion).information
        with pytest.raises(InputError, match="does not know Fv1; identify" if refused else "of the load not excited"):
            identify_load_on_model(replace(model, std=std), BASE, information)
    lost = replace(model, leaders=model.leaders[1:] + model.leaders[:1])
    with pytest.raises(InputError, match="other base parameters"):
        identify_load_on_model(lost, BASE, loaded)


def test_the_column_of_a_shape_takes_no_torque_off():
    """The law's torque is that of its coefficients; how it changes with a Stribeck speed only widens the bars."""
    stribeck = FrictionTerm(2, FrictionKind.STRIBECK, 6.0, 0.1, speed=0.5, speed_std=0.01)
    robot, chi = replace(ROBOT, friction=(stribeck,)), chi_with(ten())
    rng = np.random.default_rng(1)
    motion = rng.uniform(-2.0, 2.0, (3, 400, ROBOT.n))
    tau = inverse_dynamics(robot, chi, *motion)
    loaded = as_prepared(ROBOT, *motion, tau + 0.005 * tau.std(axis=0) * rng.normal(size=tau.shape))
    b = len(BASE)
    value, covariance = BASE.values(ROBOT, chi_with()), 1e-8 * np.eye(b + 2)
    model = model_of(robot, BASE, value, np.full(b, 1e-4), covariance[:b, :b], friction_covariance=covariance[b:])
    found = identify_load_on_model_with_law(model, problem(loaded), free=True)
    assert abs(found.mass - MASS) < min(4.0 * found.mass_std, 0.01 * MASS)
    vague = covariance.copy()
    vague[-1, -1] = 10.0
    wide = identify_load_on_model_with_law(replace(model, friction_covariance=vague[b:]), problem(loaded), free=True)
    np.testing.assert_allclose(wide.parameters, found.parameters, rtol=1e-9)
    assert wide.mass_std > 1.5 * found.mass_std


def test_a_load_without_a_positive_mass_gives_no_gains():
    parts = [rows(k, x, gains=GAINS) for k, x in enumerate((None, ten()))]
    together = payload_fit.build_load_information(ROBOT, BASE, parts[0], parts[1:])
    known = GAINS
    load, draws = measure_load(together, known, MASS)
    assert load[-1] == pytest.approx(MASS) and len(draws) == 32
    with pytest.raises(InputError, match="no positive mass; check which recording is with the load"):
        measure_load(together, -known, MASS)
    share, error = measure_share(together, 2, np.zeros(10), free=False)
    assert (share, error) == (0.0, np.inf), "what a joint does not feel has no bars"


@pytest.mark.parametrize("torques", [[2.0], [2.0, 0.0], [0.0, 0.0], [2.0, 2.0]])
def test_a_joint_whose_rows_have_no_scatter_does_not_tell_the_mass(torques):
    blocks = tuple(Block((np.array([[x, 1.1 * x]]),), np.array([1]), float(k), k + 1.0) for k, x in enumerate(torques))
    load_map, load = np.zeros((1, 10)), np.zeros(10)
    load_map[0, -1], load[-1] = 1.0, 2.0
    loaded = Information(blocks, (np.array([0]),), ColumnLayout(1))
    with np.errstate(all="raise"):
        found = compare_joints(loaded, np.zeros(1), np.zeros((1, 1)), 0.0, load_map, load, np.zeros((10, 10)))
    assert np.isnan(found.scale).all() and np.isnan(found.std).all() and found.variance == 0.0


def test_the_error_levels_of_a_quick_load_are_those_that_it_leaves(monkeypatch):
    """The model is wrong at joint 2, which ten parameters of a load could hide in that joint's rows alone."""
    model, loaded, told = stored(law=False), rows(1, ten()), []
    value = model.value.copy()
    value[BASE.names.index("MXR2")] += 6.0

    def kept(robot, found, *args, **more):
        told.append(found)
        return payload_fit.payload_of(robot, found, *args, **more)

    monkeypatch.setattr(quick_load, "payload_of", kept)
    quick_load.quick_load(replace(model, value=value), BASE, loaded)
    M_L, (found,) = payload_fit.load_map(ROBOT, BASE), told
    for j, columns in enumerate(loaded.columns):
        R = loaded.triangle(j)
        left = R[:, -1] - R[:, :-1] @ (value + M_L @ found.load)[columns]
        level = np.linalg.norm(left) / np.sqrt(loaded.rows[j])
        assert found.sigma[j] == pytest.approx(level, rel=0.03)
