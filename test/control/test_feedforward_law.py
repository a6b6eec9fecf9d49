# SPDX-License-Identifier: Apache-2.0

"""The feedforward's law: the model's torque, its switches, efforts of whole trajectories, loads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pinocchio as pin
import pytest

from oracle import PIN_COLUMNS, pin_model
from ros2_dynid.control.effort_command import EffortCommand
from ros2_dynid.control.feedforward import FeedforwardModel, FeedforwardOptions, Filler, complete_torque, split_torque
from ros2_dynid.control.held_load import Load, check_holdable, checked_load, load_parameters, reachable_poses
from ros2_dynid.control.motion_limits import known_limits
from ros2_dynid.control.reference import Reference, reference
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.control.stop import quintic
from ros2_dynid.control.torque_limiter import EffortLimits
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.newton_euler import gravity_torque, inertia_matrix, inverse_dynamics, velocity_torque
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import added_by_joint
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector
from ros2_dynid.model.robot import PRISMATIC, Coupling, Joint, Limits, Robot

ROBOT = load_robot("demo3")
NAMES = ROBOT.active_names
CHI = standard_vector(ROBOT)
MODEL = FeedforwardModel(ROBOT, CHI)
MEASURED = np.array([0.2, -0.8, 0.4])
WIDE = EffortLimits(NAMES, np.full(3, 1e4), np.full(3, 1e9))
FREE = known_limits(replace(ROBOT, joints=tuple(replace(joint, limits=Limits()) for joint in ROBOT.joints)))
PLAIN = EffortCommand(added_by_joint(ROBOT), WIDE.effort)


def expected(chi, q, dq, ddq):
    return inverse_dynamics(ROBOT, chi, q[None], dq[None], ddq[None])[0]


def gravity(chi, q):
    return gravity_torque(ROBOT, chi, q[None])[0]


def test_it_is_inverse_dynamics_with_friction():
    rng = np.random.default_rng(0)
    for _ in range(20):
        q, dq, ddq = rng.uniform(-0.5, 0.5, (3, 3))
        assert np.allclose(
            complete_torque(MODEL, FeedforwardOptions(smoothing=1e-6), q, dq, ddq), expected(CHI, q, dq, ddq)
        )


def test_the_background_part_is_the_coefficients():
    q, dq = np.random.default_rng(1).normal(size=(2, 3))
    found = MODEL.coefficients(q, dq)
    assert found.joint_names == NAMES
    assert np.allclose(found.M, inertia_matrix(ROBOT, CHI, q[None])[0], atol=1e-9)
    assert np.allclose(found.C, velocity_torque(ROBOT, CHI, q[None], dq[None])[0], atol=1e-9)
    assert np.allclose(found.Q, gravity(CHI, q), atol=1e-9)


def test_split_agrees_where_the_coefficients_were_found():
    dq, ddq = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    found = MODEL.coefficients(MEASURED, dq)
    tau = split_torque(MODEL, FeedforwardOptions(smoothing=1e-6, split=True), found, dq, ddq)
    assert np.allclose(tau, expected(CHI, MEASURED, dq, ddq), atol=1e-9)
    elsewhere = np.array([0.1, 0.3, -0.2])
    tau = split_torque(MODEL, FeedforwardOptions(smoothing=1e-6, measured_gravity=True), found, dq, ddq, elsewhere)
    moved = expected(CHI, MEASURED, dq, ddq) - gravity(CHI, MEASURED) + gravity(CHI, elsewhere)
    assert np.allclose(tau, moved, atol=1e-9)


def test_switches():
    q, dq, ddq = np.array([0.1, -0.5, 0.2]), np.array([0.5, 0.4, 0.3]), np.array([1.0, 2.0, 3.0])
    assert np.allclose(complete_torque(MODEL, FeedforwardOptions(gravity_only=True), q, dq, ddq), gravity(CHI, q))
    both = FeedforwardOptions(gravity_only=True, measured_gravity=True)
    assert np.allclose(complete_torque(MODEL, both, q, dq, ddq, MEASURED), gravity(CHI, MEASURED))
    assert np.allclose(complete_torque(MODEL, both, q, dq, ddq, None), gravity(CHI, q)), "nothing measured"
    plain = without_friction(ROBOT, CHI)
    assert np.allclose(
        complete_torque(MODEL, FeedforwardOptions(friction=False), q, dq, ddq), expected(plain, q, dq, ddq)
    )


def test_gravity_at_the_measured_position_replaces_that_of_the_reference():
    q, dq, ddq = np.array([0.1, -0.5, 0.2]), np.array([0.5, 0.4, 0.3]), np.array([1.0, 2.0, 3.0])
    options = FeedforwardOptions(measured_gravity=True, smoothing=1e-6)
    found = complete_torque(MODEL, options, q, dq, ddq, MEASURED)
    assert np.allclose(found, expected(CHI, q, dq, ddq) - gravity(CHI, q) + gravity(CHI, MEASURED))
    assert np.allclose(complete_torque(MODEL, options, q, dq, ddq, q.copy()), expected(CHI, q, dq, ddq)), "counted once"


def test_efforts_of_a_whole_trajectory():
    way = quintic(NAMES, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 1.0, points=5)
    filler = Filler(MODEL, FeedforwardOptions(), WIDE, FREE, PLAIN)
    dense = filler.filled(way, 100.0)
    assert len(dense.t) > 100 and dense.t[-1] == way.t[-1]
    for k in (0, len(dense.t) // 2, -1):
        assert np.allclose(dense.tau[k], expected(CHI, dense.q[k], dense.dq[k], dense.ddq[k]), atol=1e-3)
    assert len(filler.filled(way).t) == 5
    long = replace(way, t=way.t * 5e8)
    with pytest.raises(InputError, match="takes 5e\\+08 s"):
        filler.filled(long, 100.0)
    # split is for streamed torques: a trajectory has the complete torque of its own positions
    split = Filler(MODEL, FeedforwardOptions(split=True), WIDE, FREE, PLAIN).filled(way, 100.0)
    assert np.allclose(split.tau, dense.tau)


def test_filled_efforts_pass_the_limiter_in_the_order_of_their_names():
    way = quintic(NAMES, np.array([0.0, -1.0, 0.0]), np.array([0.5, -0.5, 0.5]), 0.5, points=60)
    whole = Filler(MODEL, FeedforwardOptions(), WIDE, FREE, PLAIN).filled(way).tau
    low = 0.3 * np.abs(whole).max(axis=0)
    weak = Filler(MODEL, FeedforwardOptions(), EffortLimits(NAMES, low, np.full(3, 1e9)), FREE, PLAIN)
    with pytest.raises(InputError, match="the effort of joint 'waist' would pass its limit by"):
        weak.filled(way)
    assert np.allclose(weak.filled_stop(way).tau, np.clip(whole, -low, low)), "a stop gets what there is"
    slow = np.array([1.0, 20.0, 10.0])
    bounded = Filler(MODEL, FeedforwardOptions(), EffortLimits(NAMES, np.full(3, 1e4), slow), FREE, PLAIN).filled(way)
    steps = np.abs(np.diff(bounded.tau, axis=0))
    allowed = slow * np.diff(bounded.t)[:, None] + 1e-9
    assert np.all(steps <= allowed) and np.any(steps > 0.99 * allowed)
    turned = Filler(MODEL, FeedforwardOptions(), WIDE, FREE, PLAIN).filled(way.ordered(tuple(reversed(NAMES))))
    assert turned.joint_names == NAMES and np.allclose(turned.tau, whole)
    wild = reference(NAMES, np.array([0.0, 1.0, 2.0]), np.zeros((3, 3)), np.array([[0.0], [1e200], [0.0]]) * np.ones(3))
    with pytest.raises(InputError, match="not finite"):
        Filler(MODEL, FeedforwardOptions(), WIDE, FREE, PLAIN).filled(wild)


@pytest.mark.parametrize("name", ["tx40", "tx40_iam6", "hitachi_hpr"])
def test_coupled_motors_and_closed_loops_are_fed_forward_too(name):
    robot = load_robot(name)
    n = len(robot.active)
    rng = np.random.default_rng(4)
    chi = rng.uniform(0.1, 1.0, len(standard_names(robot)))
    model = FeedforwardModel(robot, chi)
    for _ in range(10):
        q, dq, ddq = rng.uniform(-0.5, 0.5, (3, n))
        whole = inverse_dynamics(robot, chi, q[None], dq[None], ddq[None])[0]
        assert np.allclose(complete_torque(model, FeedforwardOptions(smoothing=1e-9), q, dq, ddq), whole, atol=1e-8)
        plain = inverse_dynamics(robot, without_friction(robot, chi), q[None], dq[None], ddq[None])[0]
        assert np.allclose(complete_torque(model, FeedforwardOptions(friction=False), q, dq, ddq), plain, atol=1e-8)
    assert np.allclose(model.coefficients(q, dq).M, inertia_matrix(robot, chi, q[None])[0], atol=1e-8)


@pytest.mark.parametrize("name", ["tx40", "hitachi_hpr"])
def test_friction_of_several_coupled_motors_is_that_of_the_model(name):
    motors = (Coupling(4, {2: 1.5, 4: -0.7}, True), Coupling(3, {3: 0.5, 5: 2.0}), Coupling(5, {4: 3.0, 5: 1.0}))
    robot = replace(load_robot(name), coupling=motors)
    rng = np.random.default_rng(7)
    chi = rng.uniform(-1.0, 1.0, len(standard_names(robot)))  # of any sign, as noise may find them
    law, n = smooth_friction(robot, chi), len(robot.active)
    for _ in range(5):
        q, dq, ddq = rng.uniform(-0.5, 0.5, (3, 1, n))
        whole = inverse_dynamics(robot, chi, q, dq, ddq)[0]
        plain = inverse_dynamics(robot, without_friction(robot, chi), q, dq, ddq)[0]
        np.testing.assert_allclose(law.torque(dq[0], 1e-9, plain), whole - plain, atol=1e-9)


def test_smooth_friction_is_odd_and_saturates():
    robot = load_robot("tx40")
    chi = np.random.default_rng(5).uniform(0.1, 1.0, len(standard_names(robot)))
    found = smooth_friction(robot, chi)
    dq = np.linspace(-1.0, 1.0, 6)
    forth, back = found.torque(dq, 0.02, np.zeros(6)) - found.off, found.torque(-dq, 0.02, np.zeros(6)) - found.off
    assert np.allclose(forth, -back, atol=1e-12)
    assert np.allclose(found.torque(np.zeros(6), 0.02, np.zeros(6)), found.off)


LOAD = Load(2.0, np.array([0.03, -0.05, 0.11]), np.diag([0.02, 0.03, 0.04]) + 0.002 * (1 - np.eye(3)), 3)


def test_a_load_is_that_body_in_pinocchio():
    rng = np.random.default_rng(6)
    model = pin_model(ROBOT)
    plain = without_friction(ROBOT, CHI).reshape(3, 14)
    ours = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
    for j in range(3):
        ten = dict(zip(ours, plain[j, :10], strict=True))
        model.inertias[j + 1] = pin.Inertia.FromDynamicParameters(np.array([ten[kind] for kind in PIN_COLUMNS]))
        model.armature[j] = plain[j, 10]
    model.inertias[3] += pin.Inertia(LOAD.mass, LOAD.com, LOAD.inertia)
    data = model.createData()
    loaded = FeedforwardModel(ROBOT, CHI + load_parameters(ROBOT, LOAD, len(CHI)))
    for _ in range(10):
        q, dq, ddq = rng.uniform(-1.0, 1.0, (3, 3))
        assert np.allclose(loaded.rigid(q, dq, ddq), pin.rnea(model, data, q, dq, ddq), atol=1e-9)
    assert not np.any(load_parameters(ROBOT, Load(0.0, np.ones(3), np.zeros((3, 3)), 3), len(CHI)))


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(-1.0, np.zeros(3), np.zeros((3, 3)), 3), "mass"),
        (Load(np.nan, np.zeros(3), np.zeros((3, 3)), 3), "mass"),
        (Load(np.inf, np.zeros(3), np.zeros((3, 3)), 3), "mass"),
        (Load(1.0, np.array([0, np.nan, 0]), np.zeros((3, 3)), 3), "not finite"),
        (Load(1.0, np.zeros(3), np.diag([1.0, np.inf, 1.0]), 3), "not finite"),
        (Load(1.0, np.zeros(3), np.diag([0.1, -0.1, 0.1]), 3), "negative principal moment"),
        (Load(1.0, np.zeros(3), np.diag([0.1, 0.1, 0.21]), 3), "triangle"),
        (Load(1.0, np.zeros(3), np.diag([1e4, 1e4, 1e4]), 3), "kg.m"),  # given in kg.mm^2
        (Load(1.0, np.zeros(3), np.diag([1.7e308, 1.7e308, 1.7e308]), 3), "kg.m"),
        (Load(0.0, np.zeros(3), np.diag([0.1, 0.1, 0.1]), 3), "no mass"),
    ],
)
def test_what_no_body_can_have_is_refused(load, words):
    with pytest.raises(InputError, match=words):
        checked_load(load)


def test_where_the_robot_is_matters_only_if_gravity_is_to_be_measured():
    q, dq, ddq = np.array([0.5, -0.2, 0.1]), np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -1.0])
    found = MODEL.coefficients(q, dq)
    off, on = FeedforwardOptions(smoothing=1e-6), FeedforwardOptions(smoothing=1e-6, measured_gravity=True)
    plain = expected(CHI, q, dq, ddq)
    moved = plain + gravity(CHI, MEASURED) - gravity(CHI, q)
    assert np.abs(moved - plain).max() > 1.0
    for options, measured, wanted in ((off, MEASURED, plain), (on, None, plain), (on, MEASURED, moved)):
        assert np.allclose(complete_torque(MODEL, options, q, dq, ddq, measured), wanted)
        assert np.allclose(split_torque(MODEL, options, found, dq, ddq, measured), wanted)


def test_bodies_at_the_edge_are_taken():
    for inertia in (np.zeros((3, 3)), np.diag([0.1, 0.1, 0.2]), np.diag([0.0, 0.1, 0.1])):  # point, plate, rod
        assert checked_load(Load(1.0, np.ones(3), inertia, 3)).mass == 1.0


def test_what_the_robot_could_not_hold_is_refused():
    effort = np.array([120.0, 180.0, 80.0])
    poses = reachable_poses(ROBOT)
    limits = [joint.limits for joint in ROBOT.joints]
    assert np.all(poses >= [x.lower for x in limits]) and np.all(poses <= [x.upper for x in limits])
    check_holdable(MODEL, None, effort, MEASURED, poses, "the model", "load another")
    heavy = FeedforwardModel(
        ROBOT, CHI + load_parameters(ROBOT, Load(1e9, np.array([0.0, 0.0, 0.06]), np.zeros((3, 3)), 3), 42)
    )
    for place in (MEASURED, None):
        with pytest.raises(InputError, match="the payload"):
            check_holdable(heavy, MODEL, effort, place, poses, "the payload", "give its mass")
    nobody_knows = FeedforwardModel(ROBOT, np.full(len(CHI), np.nan))
    for place, words in ((MEASURED, "where the robot is"), (None, "in 100% of the robot's positions")):
        with pytest.raises(InputError, match=words):
            check_holdable(nobody_knows, None, effort, place, poses, "the model", "load another")
    # a load at the end that is beyond the limits in some positions only
    some = FeedforwardModel(
        ROBOT, CHI + load_parameters(ROBOT, Load(8.0, np.array([0.5, 0.0, 0.0]), np.zeros((3, 3)), 3), 42)
    )
    shares = [np.any(np.abs(some.gravity(p)) > effort) for p in poses]
    assert 0.0 <= np.mean(shares) < 0.5
    check_holdable(some, MODEL, effort, None, poses, "the payload", "give its mass")
    with pytest.raises(InputError, match=r"needs .* N.m at 'shoulder'"):
        check_holdable(MODEL, None, np.array([120.0, 1.0, 80.0]), MEASURED, poses, "the model", "load another")


def test_a_load_is_judged_where_the_robot_is_and_by_itself():
    """Gravity with the load, and of the load alone, must be within the efforts; both signs, and at most poses."""
    robot = load_robot("demo3")
    chi = standard_vector(robot)
    load = Load(3.0, np.array([0.1, 0.0, 0.05]), np.zeros((3, 3)), robot.n)
    empty = FeedforwardModel(robot, chi)
    full = FeedforwardModel(robot, chi + load_parameters(robot, load, len(chi)))
    poses = reachable_poses(robot)
    whole = np.array([full.gravity(q) for q in poses])
    alone = whole - np.array([empty.gravity(q) for q in poses])
    own = [joint.limits for joint in robot.joints]
    assert np.all(poses >= [x.lower for x in own]) and np.all(poses <= [x.upper for x in own])
    assert np.all(np.ptp(poses, axis=0) > 0.8 * np.minimum([x.upper - x.lower for x in own], 2 * np.pi))
    k = int(np.argmax(np.abs(whole).max(axis=0)))
    for at in (int(np.argmax(whole[:, k])), int(np.argmin(whole[:, k]))):  # a large torque of either sign
        limit = np.full(robot.n, np.inf)
        limit[k] = 1.01 * max(abs(whole[at, k]), abs(alone[at, k]))
        check_holdable(full, empty, limit, poses[at], poses[:0], "the payload", "take it off")
        limit[k] = 0.99 * abs(whole[at, k])
        with pytest.raises(InputError, match=f"needs {abs(whole[at, k]):.4g} N.m at {robot.active_names[k]!r}"):
            check_holdable(full, None, limit, poses[at], poses[:0], "the payload", "take it off")
    # the load alone is judged too, where the robot's own weight hides it
    opposed = int(np.argmax(np.abs(alone[:, k]) - np.abs(whole[:, k])))
    if abs(alone[opposed, k]) > abs(whole[opposed, k]):
        limit = np.full(robot.n, np.inf)
        limit[k] = 0.5 * (abs(alone[opposed, k]) + abs(whole[opposed, k]))
        with pytest.raises(InputError, match="against gravity where the robot is"):
            check_holdable(full, empty, limit, poses[opposed], poses[:0], "the payload", "take it off")
    median = np.median(np.abs(whole[:, k]))
    limit = np.full(robot.n, np.inf)
    limit[k] = 0.9 * median
    with pytest.raises(InputError, match="beyond the effort limits in"):
        check_holdable(full, None, limit, None, poses, "the model", "identify again")
    limit[k] = 1.1 * median
    check_holdable(full, None, limit, None, poses, "the model", "identify again")


@pytest.mark.parametrize(("moments", "refused"), [
    ((0.0, 0.0, 0.0), ""),
    ((0.01, 0.02, 0.03), ""),  # a thin plate: the largest is the sum of the others
    ((0.01, 0.02, 0.0301), "triangle"),
    ((-1e-6, 0.02, 0.02), "negative"),
    ((1e-9, 2e-9, 3.1e-9), "triangle"),
    ((1e-9, 2e-9, 3e-9), ""),
])  # fmt: skip
def test_inertias_that_a_body_can_have(moments, refused):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    load = Load(1.0, np.zeros(3), turn @ np.diag(moments) @ turn.T, 1)
    if refused:
        with pytest.raises(InputError, match=refused):
            checked_load(load)
    else:
        assert checked_load(load) is load


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("excess", "refused"), [(0.0, False), (0.7e-9, False), (1.4e-9, True)])
def test_rounding_is_forgiven_to_a_billionth_of_the_largest_moment(seed, excess, refused):
    """Thin plates and rods however they lie: the sum of two moments, or a moment of 0, is met but for rounding."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    a, b = rng.uniform(0.01, 0.03, 2)
    for moments, words in (((a, b, (a + b) * (1 + excess)), "triangle"), ((a, a, -a * excess), "negative")):
        load = Load(1.0, np.zeros(3), turn @ np.diag(moments) @ turn.T, 1)
        if refused:
            with pytest.raises(InputError, match=words):
                checked_load(load)
        else:
            assert checked_load(load) is load


@pytest.mark.parametrize("mass", [0.5, 4.0])
def test_an_inertia_of_ten_metres_radius_is_a_mistake_of_units(mass):
    for radius, refused in ((9.9, False), (10.1, True)):
        load = Load(mass, np.zeros(3), np.diag([0.6, 0.7, 1.0]) * mass * radius**2, 1)
        if refused:
            with pytest.raises(InputError, match="no body of the payload's mass"):
                checked_load(load)
        else:
            assert checked_load(load) is load


def test_an_inertia_that_is_not_symmetric_counts_by_its_symmetric_part():
    inertia = np.diag([0.02, 0.02, 0.02])
    inertia[0, 1] = 0.03  # 0.015 on both sides: moments of 0.005, 0.02 and 0.035, more than the others together
    with pytest.raises(InputError, match="triangle"):
        checked_load(Load(1.0, np.zeros(3), inertia, 1))
    inertia[0, 1] = 0.016
    assert checked_load(Load(1.0, np.zeros(3), inertia, 1)).mass == 1.0


def test_poses_reach_the_limits_half_a_turn_or_a_metre():
    own = (Limits(-1.0, 2.0), Limits(-9.0, 9.0), Limits(), Limits(-0.2, 0.3), Limits(), Limits(-5.0, 0.1))
    slides = (False, False, False, True, True, True)
    joints = [
        Joint(f"j{k}", k, limits=x, sigma=PRISMATIC if slide else 0)
        for k, (x, slide) in enumerate(zip(own, slides, strict=True))
    ]
    poses = reachable_poses(Robot("r", tuple(joints)), 4000)
    np.testing.assert_allclose(poses.min(axis=0), [-1.0, -np.pi, -np.pi, -0.2, -1.0, -1.0], atol=0.01)
    np.testing.assert_allclose(poses.max(axis=0), [2.0, np.pi, np.pi, 0.3, 1.0, 0.1], atol=0.01)
    assert reachable_poses(Robot("r", tuple(joints))).shape == (64, 6)
    far = replace(joints[1], limits=Limits(4.0, 5.0))  # nothing of it is within half a turn
    np.testing.assert_array_equal(reachable_poses(Robot("r", (replace(far, parent=0),)), 3), 4.0)


def test_times_of_a_filled_trajectory():
    """Its own points stay, those of the rate come between, and none are closer than a microsecond."""
    filler = Filler(MODEL, FeedforwardOptions(), WIDE, FREE, PLAIN)
    t = np.array([0.05, 0.0514, 0.1300005, 0.4])
    q = np.linspace(0.0, 0.2, 4)[:, None] * np.ones(3)
    dq = np.array([0.1, 0.1, 0.1, 0.0])[:, None] * np.ones(3)
    way = reference(NAMES, t, q, dq, np.full((4, 3), 0.2))
    found = filler.filled(way, 50.0)
    grid = 0.05 + 0.02 * np.arange(18)
    wanted = np.unique(np.concatenate((t, grid[np.abs(grid - 0.13) > 1e-3])))
    np.testing.assert_allclose(found.t, wanted, atol=1e-9)
    for k in (0, -1):  # the ends as given, though before and after them the joints rest
        np.testing.assert_allclose(found.dq[k], dq[k])
        np.testing.assert_allclose(found.ddq[k], 0.2)
        np.testing.assert_allclose(
            found.tau[k], complete_torque(MODEL, filler.options, q[k], found.dq[k], found.ddq[k])
        )
    for k in range(1, len(found.t) - 1):
        np.testing.assert_allclose(found.q[k], way.at(found.t[k])[0])
        np.testing.assert_allclose(found.tau[k], complete_torque(MODEL, filler.options, *way.at(found.t[k])[:3]))
    widest = np.diff(t).max()
    for rate, filled in ((1.45 / widest, False), (1.55 / widest, True)):
        assert (len(filler.filled(way, rate).t) > 4) == filled
    one = reference(NAMES, np.array([0.5]), q[:1], np.zeros((1, 3)))
    assert len(filler.filled(one, 100.0).t) == 1
    with pytest.raises(InputError, match="no velocities"):
        filler.filled(reference(NAMES, t, q), 50.0)


def test_a_filled_trajectory_has_a_hundred_thousand_points_at_most():
    q = np.zeros((3, 3))
    for seconds, refused in ((999.0, False), (1001.0, True)):
        way = reference(NAMES, np.array([3.0, 8.0, 3.0 + seconds]), q, q)
        filler = Filler(MODEL, FeedforwardOptions(gravity_only=True), WIDE, FREE, PLAIN)
        if refused:
            with pytest.raises(InputError, match=f"takes {seconds:g} s"):
                filler.filled(way, 100.0)
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Reference, "sampled", lambda self, t: (_ for _ in ()).throw(KeyError(len(t))))
                with pytest.raises(KeyError, match=r"99[89]0[01]"):
                    filler.filled(way, 100.0)


@pytest.mark.parametrize("smoothing", [0.02, 0.3])
def test_coulomb_friction_changes_sign_over_the_smoothing(smoothing):
    q, ddq = np.array([0.1, -0.5, 0.2]), np.array([1.0, 2.0, 3.0])
    dq = smoothing * np.array([0.4, -1.0, 0.1])
    Fv, Fc, off = CHI.reshape(3, 14)[:, 11:].T
    wanted = Fv * dq + Fc * np.tanh([0.4, -1.0, 0.1]) + off
    options, plain = FeedforwardOptions(smoothing=smoothing), MODEL.rigid(q, dq, ddq)
    np.testing.assert_allclose(complete_torque(MODEL, options, q, dq, ddq) - plain, wanted, atol=1e-9)
    found = MODEL.coefficients(q, dq)
    np.testing.assert_allclose(split_torque(MODEL, options, found, dq, ddq) - plain, wanted, atol=1e-9)


def test_friction_of_the_load_is_that_of_the_torque_which_is_carried():
    """Of all of it, with gravity where it is taken: tau = x + 0.2 |x| tanh(dq / v0) + plain friction."""
    model = FeedforwardModel(replace(ROBOT, friction=(FrictionTerm(2, FrictionKind.LOAD, 0.2),)), CHI)
    q, dq, ddq = np.array([0.5, -0.2, 0.1]), np.array([0.3, -0.02, 0.5]), np.array([1.0, 2.0, -1.0])
    found = model.coefficients(q, dq)
    for measured in (False, True):
        options = FeedforwardOptions(measured_gravity=measured)
        x = MODEL.rigid(q, dq, ddq) + (gravity(CHI, MEASURED) - gravity(CHI, q) if measured else 0.0)
        wanted = x + MODEL.friction(q, dq, 0.02, x) + np.array([0.0, 0.2 * abs(x[1]) * np.tanh(-1.0), 0.0])
        np.testing.assert_allclose(complete_torque(model, options, q, dq, ddq, MEASURED), wanted, atol=1e-9)
        np.testing.assert_allclose(split_torque(model, options, found, dq, ddq, MEASURED), wanted, atol=1e-9)


def test_coefficients_tell_where_they_were_found_and_stay_as_they_are():
    q, dq = np.array([0.5, -0.2, 0.1]), np.array([0.3, -0.2, 0.5])
    found = MODEL.coefficients(q, dq)
    q += 1.0
    dq += 1.0
    np.testing.assert_allclose(found.q, [0.5, -0.2, 0.1])
    np.testing.assert_allclose(found.dq, [0.3, -0.2, 0.5])


def test_the_joint_that_is_named_needs_the_largest_share_of_its_limit():
    tau = np.abs(MODEL.gravity(MEASURED))
    assert tau[1] > 1.5 * tau[2] > 1.0
    effort = np.array([np.inf, 0.9 * tau[1], 0.5 * tau[2]])
    with pytest.raises(
        InputError, match=f"needs {tau[2]:.4g} N.m at 'elbow' .* its limit is {effort[2]:g}; load another"
    ):
        check_holdable(MODEL, None, effort, MEASURED, np.empty((0, 3)), "the model", "load another")


@pytest.mark.parametrize("side", [-1, 1])
def test_most_positions_are_more_than_half_of_them_for_any_joint_and_sign(side):
    poses = reachable_poses(ROBOT)
    tau = side * np.array([MODEL.gravity(p) for p in poses])[:, 2]
    for share, refused in ((0.55, True), (0.45, False)):  # poses in which gravity pulls to this side, beyond a limit
        high, rest = poses[tau > 2.0], poses[np.abs(tau) < 1.0]
        count = min(len(high), len(rest))
        some = np.vstack((high[: round(share * 2 * count)], rest[: 2 * count - round(share * 2 * count)]))
        effort = np.array([np.inf, np.inf, 1.5])
        beyond = np.mean([abs(MODEL.gravity(p)[2]) > 1.5 for p in some])
        assert (beyond > 0.5) == refused
        if refused:
            with pytest.raises(InputError, match=f"beyond the effort limits in {beyond:.0%} of the robot's positions"):
                check_holdable(MODEL, None, effort, None, some, "the model", "load another")
        else:
            check_holdable(MODEL, None, effort, None, some, "the model", "load another")


def test_a_load_of_no_mass_has_no_inertia_at_all():
    inertia = np.zeros((3, 3))
    for k in range(3):
        inertia[:] = 0.0
        inertia[k, k] = -1e-9
        with pytest.raises(InputError, match="inertia but no mass"):
            checked_load(Load(0.0, np.zeros(3), inertia, 3))
    assert checked_load(Load(0.0, np.ones(3), np.zeros((3, 3)), 3)).mass == 0.0


@pytest.mark.parametrize("joint", [1, 2, 3])
def test_a_load_is_at_the_joint_that_is_named(joint):
    found = load_parameters(ROBOT, replace(LOAD, joint=joint), len(CHI)).reshape(3, 14)
    assert np.flatnonzero(found.any(axis=1)).tolist() == [joint - 1]
    np.testing.assert_allclose(found[joint - 1, 6:10], [*(2.0 * LOAD.com), 2.0])
    assert not found[:, 10:].any()
