# SPDX-License-Identifier: Apache-2.0

"""Collision shapes where Pinocchio has them, the ranges that true shapes leave, and what surroundings are asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from excitation_robots import uneven, with_follower
from ros2_dynid.dynamics.kinematics import frames
from ros2_dynid.errors import InputError
from ros2_dynid.excitation import exact
from ros2_dynid.excitation import friction_sweeps as sweeps
from ros2_dynid.excitation import surroundings as around
from ros2_dynid.excitation.limits import bounds_of
from ros2_dynid.excitation.shapes import Solid, capsules_of, urdf_solids
from ros2_dynid.model.from_urdf import robot_from_urdf_string
from ros2_dynid.model.robot import PRISMATIC, Joint, Limits, Passive, Robot
from urdf_oracle import PinUrdf
from urdf_text import joint, urdf

AT = {
    "root": ((0.1, 0.2, -0.3), (0.3, -0.2, 0.5)),
    "a": ((0.0, 0.3, 0.1), (-0.4, 0.7, 0.1)),
    "b": ((-0.2, 0.1, 0.4), (1.0, 0.2, -0.6)),
    "c": ((0.5, -0.1, 0.0), (0.2, 0.9, 0.3)),
    "d": ((0.1, 0.1, 0.1), (-0.7, -0.3, 0.8)),
    "side": ((0.2, 0.0, 0.3), (0.5, 0.5, 0.5)),
    "lump": ((0.0, -0.2, 0.2), (0.1, -0.8, 0.4)),
}


def described(mimic=True):
    """Return a URDF with a cylinder on every link, each turned and moved in its link's frame."""

    def body(name):
        xyz, rpy = (" ".join(map(str, x)) for x in AT[name])
        shape = f'<cylinder radius="0.0{len(name)}5" length="0.4"/>'
        there = f'<origin xyz="{xyz}" rpy="{rpy}"/>'
        return f'<link name="{name}"><collision>{there}<geometry>{shape}</geometry></collision></link>'

    follow = '<mimic joint="j1" multiplier="-0.5" offset="0.3"/>' if mimic else ""
    return urdf(
        *map(body, AT),
        joint("j1", "root", "a", xyz="0.1 0 0.3", rpy="0.2 0.1 -0.4", axis="0 0.6 0.8"),
        joint("j2", "a", "b", xyz="0 0.2 0.1", rpy="-0.3 0.4 0.2", axis="1 0 0", inside=follow),
        joint("j3", "b", "c", xyz="0.3 0.1 0", rpy="0.5 0 0.9", axis="0 0 1", type="prismatic"),
        joint("j4", "c", "d", xyz="0 0 0.2", rpy="0 -0.6 0.3", axis="0 1 0"),
        joint("s", "a", "side", xyz="0.2 0.2 0", rpy="0.3 0.2 0.1", axis="1 0 0"),
        joint("f", "b", "lump", xyz="0.1 0 0.1", rpy="0.4 0.4 0", type="fixed"),
    )


@pytest.mark.parametrize(
    "chain", [{}, {"tip_link": "d", "hold": {"s": 0.7}}, {"base_link": "a"}, {"hold": {"j4": -0.9}}]
)
def test_shapes_are_where_pinocchio_has_their_links(tmp_path, chain):
    text = described(mimic="base_link" not in chain)
    (tmp_path / "r.urdf").write_text(text)
    robot = robot_from_urdf_string(text, **chain)
    held = dict(chain.get("hold", {}))
    theirs = PinUrdf(text, robot, held)
    solids, missing = urdf_solids(robot, tmp_path / "r.urdf", **chain)
    capsules = capsules_of(solids)
    assert missing == () and len(capsules) == len(solids)
    q = np.random.default_rng(0).uniform(-0.9, 0.9, (5, len(robot.active)))
    base = chain.get("base_link")
    for pose, T in zip(q, frames(robot, q), strict=True):
        start = np.eye(4) if base is None else np.linalg.inv(theirs.link(base, pose))
        for solid, (name, number, a, b, radius) in zip(solids, capsules, strict=True):
            assert (name, number, radius) == (solid.link, solid.joint, float(f"0.0{len(solid.link)}5"))
            carrier = np.eye(4) if number == 0 else T[number - 1]
            origin = np.eye(4)
            xyz, rpy = AT[name]
            origin[:3, :3], origin[:3, 3] = theirs.pin.rpy.rpyToMatrix(*rpy), xyz
            true = start @ theirs.link(name, pose) @ origin
            np.testing.assert_allclose(carrier @ solid.pose, true, atol=1e-9)
            for end, z in ((a, -0.2), (b, 0.2)):
                np.testing.assert_allclose(carrier @ [*end, 1.0], true @ [0.0, 0.0, z, 1.0], atol=1e-9)
    wanted = set(AT) - ({"root"} if base else set())
    assert {solid.link for solid in solids} == wanted


# --- ranges


def stick(link, number, x, radius=0.05, length=0.4):
    """Return a rod along x that begins at x."""
    pose = np.eye(4)
    pose[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    pose[0, 3] = x + length / 2
    return Solid(link, number, pose, "cylinder", (radius, length))


def scissors(sigma=0):
    """Return an arm whose last two joints may bring its second and its last link together; one joint follows."""
    limits = Limits(-3.0, 2.9, 1.0, 1.0)
    joints = (
        Joint("lead", 0, limits=Limits(-1.0, 1.0, 1.0, 1.0)),
        Joint("follow", 1, alpha=0.3, limits=Limits(-9.0, 9.0, 9.0, 9.0)),
        Joint("swing", 2, d=0.5, limits=limits),
        Joint(
            "tip", 3, sigma, d=0.3, limits=replace(limits, lower=-2.6) if sigma == 0 else Limits(-0.2, 0.3, 1.0, 1.0)
        ),
    )
    return Robot("scissors", joints, passive=(Passive(2, {1: -1.0}, 0.2),))


@pytest.mark.parametrize(
    ("sigma", "start"), [(0, None), (0, (0.0, 0.6, 0.1)), (PRISMATIC, None), (PRISMATIC, (0.0, -2.2, 0.1))]
)
def test_in_the_range_that_is_left_nothing_touches_and_beyond_it_does(sigma, start):
    pytest.importorskip("coal")
    robot = scissors(sigma)
    solids = [stick("two", 2, 0.0, length=0.45), stick("four", 4, 0.05, length=0.25), stick("one", 1, 0.0)]
    kept, notes = exact.narrowed(robot, solids, [("two", "four")], start=start)
    assert len(notes) == 1 and "two and four would touch" in notes[0]
    (changed,) = [k for k in range(4) if kept.joints[k] != robot.joints[k]]
    assert changed in (2, 3) and notes[0].startswith(f"joint {robot.joints[changed].name} is limited to ")
    rng = np.random.default_rng(1)

    def poses(of, count=400):
        own = [of.joints[j - 1].limits for j in of.active]
        return rng.uniform([x.lower for x in own], [x.upper for x in own], (count, 3))

    assert exact.exact_clearance(robot, solids, poses(robot), only=[("two", "four")])[0] <= 0.0
    assert exact.exact_clearance(kept, solids, poses(kept), only=[("two", "four")])[0] > 0.0
    limits, column = kept.joints[changed].limits, kept.active.index(changed + 1)
    if start is not None:
        assert limits.lower <= start[column] <= limits.upper
    beyond = poses(robot, 1500)
    step = 0.2
    for edge, side in ((limits.lower, -1.0), (limits.upper, 1.0)):
        own = getattr(robot.joints[changed].limits, "lower" if side < 0 else "upper")
        if edge == own:
            continue
        beyond[:, column] = edge + side * rng.uniform(0.0, step, len(beyond))
        assert exact.exact_clearance(robot, solids, beyond, only=[("two", "four")])[0] < exact.GUARD_M + 0.01


@pytest.mark.parametrize(("gap", "touches"), [(0.003, True), (0.005, False), (-0.01, True)])
def test_what_comes_within_four_millimetres_counts_as_touching(gap, touches):
    coal = pytest.importorskip("coal")
    robot = Robot("r", (Joint("a", 0, limits=Limits(-1, 1, 1, 1)), Joint("b", 1, d=1.0, limits=Limits(-1, 1, 1, 1))))
    far = np.eye(4)
    far[0, 3] = 1.0 + 0.2 + gap
    solids = [Solid("base", 0, far, "sphere", (0.1,)), Solid("two", 2, np.eye(4), "sphere", (0.1,))]
    table = exact.find_touching(coal, robot, solids, [1, 2])
    values, places = exact.grid_positions(robot, 1)
    straight = places[np.argmin(np.abs(values))]
    assert bool(table[straight].any()) == touches and not table[places[0]].any()


# --- what is asked for


def test_surroundings_hand_on_all_that_they_are_asked_for(tmp_path):
    text = described()
    (tmp_path / "r.urdf").write_text(text)
    chain = {"tip_link": "d", "hold": {"s": 0.7}}
    robot = robot_from_urdf_string(text, **chain)
    box = (-3.0, 3.1, -3.2, 3.3, -3.4, 3.5)
    _, found = around.surroundings(robot, tmp_path / "r.urdf", floor=-2.0, box=box, margin=0.037, **chain)
    _, known = around.known_shapes(robot, tmp_path / "r.urdf", floor=-2.0, box=box, margin=0.037, **chain)
    assert found.margin == 0.037 and len(found.planes) == 7
    for field in ("joint", "a", "b", "radius", "pairs", "planes", "plane_shapes"):
        np.testing.assert_array_equal(getattr(found, field), getattr(known, field))
    np.testing.assert_array_equal(found.planes[1:, 3], [-3.0, -3.1, -3.2, -3.3, -3.4, -3.5])
    expected = capsules_of(urdf_solids(robot, tmp_path / "r.urdf", **chain)[0])
    np.testing.assert_array_equal(found.a, [capsule[2] for capsule in expected])
    with pytest.raises(InputError, match="there is no tip link"):
        around.surroundings(robot, tmp_path / "r.urdf", tip_link="nowhere")
    with pytest.raises(InputError, match="there is no base link"):
        around.surroundings(robot, tmp_path / "r.urdf", base_link="nowhere")
    with pytest.raises(InputError, match="to hold"):
        around.surroundings(robot, tmp_path / "r.urdf", hold={"nothing": 1.0})


@pytest.mark.parametrize("robot", [uneven(), with_follower()], ids=["arm", "follower"])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_robot_can_stand_at_both_ends_of_a_sweep(monkeypatch, robot, side):
    """Poses whose way leads where it cannot, at one end or the other, are not taken."""
    bounds = bounds_of(robot, 0.0)
    middle = np.array([0.5, -1.25, 0.7])
    pool = [middle + np.array([0.0, side * shift, 0.0]) for shift in (0.3, 0.0, -0.3)]
    for room, first in ((0.55, 0), (0.35, 1), (0.15, 2)):

        def fault(robot, bounds, shapes, chi, pose, room=room):
            return "no" if side * (pose[1] - middle[1]) > room else ""

        monkeypatch.setattr(sweeps, "fault_of", fault)
        found = sweeps.choose_sweep_poses(robot, bounds, None, None, pool, 1, 1, 0.2)
        np.testing.assert_allclose(found[0][0], pool[first])
