# SPDX-License-Identifier: Apache-2.0

"""References between points, stops within limits, and the supervisor that asks for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.interpolate import BPoly

from ros2_dynid.control.pace import Pace
from ros2_dynid.control.reference import check_end, reference
from ros2_dynid.control.stop import approach_reference
from ros2_dynid.errors import InputError
from ros2_dynid.model.joint_order import joint_order
from ros2_dynid.model.load import load_robot

NAMES = ("waist", "shoulder", "elbow")


@pytest.mark.parametrize("given_to", [0, 1, 2])
def test_between_points_it_is_scipys_hermite_polynomial(given_to):
    rng = np.random.default_rng(given_to)
    t = np.cumsum(rng.uniform(0.1, 0.6, 6))
    q, dq, ddq = rng.normal(size=(3, 6, 2))
    fields = [None if k > given_to else x for k, x in enumerate((q, dq, ddq))]
    points = reference(("a", "b"), t, *fields)
    for joint in range(2):
        known = np.stack([x[:, joint] for x in fields if x is not None], axis=1)
        oracle = BPoly.from_derivatives(t, known)
        for instant in rng.uniform(t[0], t[-1], 50):
            found = [x[joint] for x in points.at(float(instant))[:3]]
            expected = [oracle(instant, nu=k) for k in range(3)]
            assert np.allclose(found, expected, rtol=1e-8, atol=1e-7)


def test_effort_is_interpolated_and_the_ends_hold():
    points = reference(("a",), np.array([1.0, 2.0]), np.array([[0.0], [1.0]]), tau=np.array([[2.0], [4.0]]))
    assert points.at(1.25)[3] == pytest.approx([2.5])
    assert points.at(0.0)[0] == [0.0] and points.at(9.0)[0] == [1.0] and points.at(9.0)[1] == [0.0]
    assert points.shifted(-1.5).t == pytest.approx([0.5])
    with pytest.raises(InputError, match="past"):
        points.shifted(-3.0)


def test_what_a_joint_trajectory_controller_refuses_is_refused():
    q = np.zeros((3, 2))
    with pytest.raises(InputError, match="do not increase"):
        reference(("a", "b"), np.array([0.0, 1.0, 1.0]), q)
    with pytest.raises(InputError, match="not finite"):
        reference(("a", "b"), np.array([0.0, 1.0, 2.0]), q + np.nan)
    with pytest.raises(InputError, match="shape"):
        reference(("a", "b"), np.array([0.0, 1.0, 2.0]), q, np.zeros((3, 1)))
    with pytest.raises(InputError, match="end at rest"):
        check_end(reference(("a", "b"), np.array([0.0, 1.0, 2.0]), q, np.ones((3, 2))))
    robot = load_robot("demo3")
    assert robot.active_names == NAMES
    assert joint_order(NAMES, ["elbow", "waist", "shoulder"]) == [1, 2, 0]
    for names, said in (
        (["waist", "shoulder"], "the state lacks 'elbow'"),
        (["waist", "shoulder", "elbow", "gripper", "torch"], "has besides 'gripper', 'torch'"),
        (["waist", "waist", "shoulder"], "lacks 'elbow' and repeats 'waist'"),
    ):
        with pytest.raises(InputError, match=f"{said}.*must name the joints waist, shoulder, elbow"):
            joint_order(NAMES, names, "state")


def test_values_carry_their_joints_and_are_never_written_again():
    rng = np.random.default_rng(0)
    t, names = np.array([0.0, 0.5, 1.5]), ("elbow", "waist", "shoulder")
    mine = [rng.normal(size=(3, 3)) for _ in range(4)]
    points = reference(names, t, *mine)
    again = points.ordered(NAMES)
    for instant in (0.2, 0.7, 1.4):
        for before, after in zip(points.at(instant), again.at(instant), strict=True):
            assert dict(zip(names, before, strict=True)) == pytest.approx(dict(zip(NAMES, after, strict=True)))
    assert again.joint_names == NAMES and again.ordered(names).q == pytest.approx(points.q)
    with pytest.raises(InputError, match="lacks 'torch'"):
        points.ordered(("torch", *NAMES))
    with pytest.raises(InputError, match="twice"):
        reference(("waist", "waist", "elbow"), t, mine[0])
    for held in (points, again, points.shifted(0.3), points.shifted(-0.6)):
        for values in (held.t, held.q, held.dq, held.ddq, held.tau, held.coefficients):
            with pytest.raises(ValueError, match="read-only"):
                values[0] = 1.0
    mine[0][0, 0] = np.nan
    assert np.all(np.isfinite(points.q)), "what the caller writes later does not reach it"


def test_an_approach_uses_its_limits_and_no_more():
    velocity, acceleration = np.array([1.0, 0.5]), np.array([2.0, 4.0])
    way = approach_reference(NAMES[:2], np.zeros(2), np.array([1.0, -1.0]), velocity, acceleration)
    q, dq, ddq = way.sampled(np.linspace(0, way.duration, 4001))
    use = max((np.abs(dq).max(axis=0) / velocity).max(), (np.abs(ddq).max(axis=0) / acceleration).max())
    assert use == pytest.approx(1.0, abs=1e-3)
    assert np.allclose(q[-1], [1.0, -1.0])


def test_a_pace_makes_up_for_short_pauses_and_drops_long_ones():
    pace = Pace(1_000_000, 0, 5_000_000_000, most=10)
    assert pace.due(3_500_000) == 3
    for _ in range(3):
        stamp = pace.count()
    assert stamp == 5_003_000_000
    assert pace.due(103_500_000) == 1 and pace.dropped == 99
    assert pace.count() == 5_103_000_000
    later = Pace(1_000_000, 70_000_000, 5_000_000_000)
    assert later.due(69_000_000) == 0 and later.due(72_500_000) == 2 and later.stamp == 5_000_000_000
    later.count()
    assert later.due(72_500_000) == 1 and later.stamp == 5_001_000_000
    assert later.due(121_500_000) == 50 and later.dropped == 0, "50 are made up for"
    assert later.due(122_500_000) == 1 and later.dropped == 50
    assert later.count() == 5_052_000_000 and later.due(122_500_000) == 0
    assert later.due(222_500_000) == 1 and later.dropped == 50 + 99, "of all pauses"
    assert later.count() == 5_152_000_000 and later.due(225_499_999) == 3


@pytest.mark.parametrize("field", ["positions", "velocities", "accelerations", "efforts"])
def test_every_value_of_every_field_is_looked_at(field):
    t = np.array([0.0, 1.0, 2.0])
    place = ["positions", "velocities", "accelerations", "efforts"].index(field)
    for wrong in (np.nan, np.inf, -np.inf):
        for k in range(6):
            values = np.zeros((4, 3, 2))
            values[place].flat[k] = wrong
            with pytest.raises(InputError, match=f"{field} hold a value that is not finite"):
                reference(("a", "b"), t, *values)
    for shape in ((2, 2), (4, 2), (3, 1), (3, 3), (3,), (3, 2, 1)):
        values = [np.zeros((3, 2)) for _ in range(4)]
        values[place] = np.zeros(shape)
        with pytest.raises(InputError, match=f"{field} have shape"):
            reference(("a", "b"), t, *values)


@pytest.mark.parametrize(
    "t", [[-0.1, 1.0, 2.0], [0.0, 0.0, 1.0], [0.0, 2.0, 1.0], [0.0, 1.0, np.inf], [np.nan, 1.0, 2.0]]
)
def test_times_increase_from_zero_on(t):
    with pytest.raises(InputError, match="do not increase from 0 on"):
        reference(("a", "b"), np.array(t), np.zeros((3, 2)))
    with pytest.raises(InputError, match="do not increase from 0 on"):
        reference(("a", "b"), np.zeros(0), np.zeros((0, 2)))
    with pytest.raises(InputError, match="twice"):
        reference(("a", "a"), np.array([0.0, 1.0, 2.0]), np.zeros((3, 2)))


def test_a_shift_leaves_out_what_is_past():
    t = np.array([0.5, 1.0, 2.0])
    q, dq, ddq, tau = np.random.default_rng(0).normal(size=(4, 3, 2))
    points = reference(("a", "b"), t, q, dq, ddq, tau)
    later = points.shifted(0.3)
    np.testing.assert_allclose(later.t, t + 0.3)
    assert later.coefficients is points.coefficients and later.tau is points.tau
    np.testing.assert_array_equal(points.shifted(-0.5).t, t - 0.5)
    rest = points.shifted(-0.6)
    np.testing.assert_allclose(rest.t, [0.4, 1.4])
    for found, given in ((rest.q, q), (rest.dq, dq), (rest.ddq, ddq), (rest.tau, tau)):
        np.testing.assert_array_equal(found, given[1:])
    np.testing.assert_allclose(rest.at(0.9)[0], points.at(1.5)[0])
    one = points.shifted(-2.0)
    assert len(one.t) == 1 and one.t[0] == 0.0
    with pytest.raises(InputError, match="past"):
        points.shifted(-2.01)
    bare = reference(("a", "b"), t, q).shifted(-0.6)
    assert bare.dq is None and bare.ddq is None and bare.tau is None
    turned = points.ordered(("b", "a"))
    for found, given in ((turned.q, q), (turned.dq, dq), (turned.ddq, ddq), (turned.tau, tau)):
        np.testing.assert_array_equal(found, given[:, ::-1])
    assert points.ordered(["a", "b"]) is points


def test_a_single_point_and_the_shares_of_segments():
    q, dq = np.array([[1.0, 2.0]]), np.array([[0.5, 0.0]])
    one = reference(("a", "b"), np.array([0.7]), q, dq)
    for found, wanted in zip(one.within(np.linspace(0, 1, 3)), (q, dq, 0 * q), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert np.array_equal(reference(("a", "b"), np.array([0.7]), q).within(np.array([0.0]))[1], 0 * q)
    t = np.array([0.5, 1.0, 3.0])
    q, dq, ddq = np.random.default_rng(1).normal(size=(3, 3, 2))
    points, shares = reference(("a", "b"), t, q, dq, ddq), np.array([0.1, 0.25, 0.8])
    at = [a + s * (b - a) for a, b in itertools.pairwise(t) for s in shares]
    for found, wanted in zip(points.within(shares), points.sampled(np.array(at)), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    for end, when in ((0, 0.5), (0, -1.0), (-1, 3.0), (-1, 9.0)):
        found = points.at(when)
        assert np.array_equal(found[0], q[end]) and not found[1].any() and not found[2].any() and found[3] is None


@pytest.mark.parametrize("scale", [0.01, 0.5, 1.0, 7.0])
def test_torques_between_points_lie_on_a_line_whatever_the_times(scale):
    t = scale * np.array([0.0, 1.0, 3.0, 3.5])
    q = np.zeros((4, 2))
    tau = np.array([[1.0, -2.0], [5.0, 4.0], [-3.0, 0.5], [2.0, 2.0]])
    points = reference(("a", "b"), t, q, q, q, tau)
    for at in np.linspace(0.0, t[-1], 57):
        wanted = [np.interp(at, t, tau[:, k]) for k in range(2)]
        np.testing.assert_allclose(points.at(float(at))[3], wanted, atol=1e-12)
    np.testing.assert_array_equal(points.at(-1.0)[3], tau[0])
    np.testing.assert_array_equal(points.at(99.0 * scale)[3], tau[-1])


@pytest.mark.parametrize(("speed", "refused"), [(0.0, False), (5e-10, False), (2e-9, True), (1.0, True)])
def test_every_joint_rests_at_the_end_whichever_way_it_moved(speed, refused):
    t, q = np.array([0.0, 1.0, 2.0]), np.zeros((3, 2))
    for joint, side in itertools.product((0, 1), (-1, 1)):
        dq = np.ones((3, 2))
        dq[-1] = 0.0
        dq[-1, joint] = side * speed
        points = reference(("a", "b"), t, q, dq)
        if refused:
            with pytest.raises(InputError, match="end at rest"):
                check_end(points)
        else:
            check_end(points)
    check_end(reference(("a", "b"), t, q))


def test_a_reference_lasts_until_its_last_point():
    assert reference(("a",), np.array([0.5, 1.0, 2.5]), np.zeros((3, 1))).duration == 2.5


def test_a_view_of_what_somebody_else_may_write_is_copied():
    mine = np.ones((3, 2))
    view = mine[:]
    view.setflags(write=False)
    points = reference(("a", "b"), np.array([0.0, 1.0, 2.0]), view)
    mine[:] = 7.0
    assert np.all(points.q == 1.0)
    assert reference(("a", "b"), points.t, points.q).q is points.q, "what nobody can write is shared"


@pytest.mark.parametrize("given_to", [0, 1, 2])
def test_at_a_point_it_is_where_the_next_segment_begins(given_to):
    t = np.array([0.0, 1.0, 3.0, 3.5])
    fields = np.random.default_rng(given_to).normal(size=(3, 4, 2))[: given_to + 1]
    points = reference(("a", "b"), t, *fields)
    for k in (1, 2):
        for found, after in zip(points.at(t[k])[:3], points.at(t[k] + 1e-9)[:3], strict=True):
            np.testing.assert_allclose(found, after, atol=1e-6)
        np.testing.assert_allclose(points.at(t[k])[0], fields[0][k])
