"""Payloads on their way to a driver: frames, limits, error bars, and the file of bridges."""

import numpy as np
import pytest

from ros2_dynid.control.held_load import Load
from ros2_dynid.control.payload_bridge import Bars, checked_for, chosen_driver, differing, filled, read_drivers
from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.load import load_robot, shipped_file
from ros2_dynid.model.robot import Robot
from ros2_dynid.model.transforms import rotation_rpy, transform

SHIPPED = shipped_file("payload_bridges.yaml")
POSE = transform(rotation_rpy(0.3, -0.8, 1.1), np.array((0.05, -0.02, 0.1)))
BARS, STD = Bars(), np.full(3, 1e-3)


def robot():
    """Return the demo robot with a link tool0 that is turned and moved."""
    bare = load_robot("demo6")
    return Robot(bare.name, bare.joints, bare.gravity, bare.base, {"flange": bare.tools["flange"], "tool0": (6, POSE)})


def load(mass=2.0):
    inertia = np.diag((0.01, 0.02, 0.015)) + 0.001
    return Load(mass, np.array((0.02, 0.03, 0.12)), inertia if mass else np.zeros((3, 3)), 6)


def test_the_shipped_drivers_are_those_of_ur_and_franka():
    drivers = read_drivers(SHIPPED)
    assert drivers["ur"].type == "ur_msgs/srv/SetPayload" and drivers["franka"].type == "franka_msgs/srv/SetLoad"
    sent = checked_for(drivers["ur"], robot(), load(), 0.01, STD, BARS)
    assert filled(drivers["ur"], sent)["center_of_gravity.x"] == pytest.approx(sent.com[0])
    sent = checked_for(drivers["franka"], robot(), load(), 0.01, STD, BARS)
    fields = filled(drivers["franka"], sent)
    assert sent.link == "flange" and len(fields["center_of_mass"]) == 3 and len(fields["load_inertia"]) == 9


def test_the_load_is_the_same_body_in_the_drivers_frame():
    sent = checked_for(read_drivers(SHIPPED)["ur"], robot(), load(), 0.01, STD, BARS)

    def about_origin(com, inertia):
        return Inertia(2.0, 2.0 * com, inertia + 2.0 * (com @ com * np.eye(3) - np.outer(com, com)))

    back, own = about_origin(sent.com, sent.inertia).moved(POSE), about_origin(load().com, load().inertia)
    assert (
        sent.link == "tool0"
        and np.allclose(back.first_moment, own.first_moment)
        and np.allclose(back.matrix, own.matrix)
    )


@pytest.mark.parametrize(
    ("mass", "mass_std", "com_std", "words"),
    [
        (200.0, 0.1, STD, "beyond the limit"),
        (2.0, 0.0, STD, "without error bars"),
        (2.0, np.nan, STD, "without error bars"),
        (2.0, 0.01, np.zeros(3), "without error bars"),
        (2.0, 0.3, STD, "15% only"),
        (2.0, 0.01, np.array((1e-3, 0.05, 1e-3)), "50.0 mm only"),
        (-1.0, 0.01, STD, "mass -1"),
    ],
)
def test_what_is_too_heavy_or_not_known_well_enough_is_not_sent(mass, mass_std, com_std, words):
    with pytest.raises(InputError, match=words):
        checked_for(read_drivers(SHIPPED)["ur"], robot(), load(mass), mass_std, com_std, BARS)


def test_a_load_is_taken_off_without_bars_and_far_centres_are_refused():
    driver = read_drivers(SHIPPED)["ur"]
    sent = checked_for(driver, robot(), load(0.0), 0.0, np.zeros(3), BARS)
    assert filled(driver, sent) == {"mass": 0.0, **{f"center_of_gravity.{axis}": 0.0 for axis in "xyz"}}
    far = Load(2.0, np.array((5.0, 0.0, 0.0)), load().inertia, 6)
    with pytest.raises(InputError, match="m from 'tool0'"):
        checked_for(driver, robot(), far, 0.01, STD, BARS)
    with pytest.raises(InputError, match="no link 'tool0'"):
        checked_for(driver, load_robot("puma560"), load(), 0.01, STD, BARS)


def test_a_driver_that_tells_otherwise_is_noticed():
    sent = checked_for(read_drivers(SHIPPED)["ur"], robot(), load(), 0.01, STD, BARS)
    same = {"mass": 2.0, "com": tuple(sent.com), "link": "tool0"}
    assert differing(sent, same) == []
    assert differing(sent, {**same, "mass": 2.1, "link": "flange"}) == ["mass", "link"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bridges: {x: {type: a/srv/B}}", "limits is not a mapping"),
        ("bridges: {x: {typ: a/srv/B}}", "did you mean 'type'"),
        (
            "bridges: {x: {type: a/srv/B, service: s, limits: {mass: 1, com: 1}, fields: {m: mas}}}",
            "did you mean 'mass'",
        ),
        ("bridges: {x: {type: a/srv/B, service: s, limits: {mass: 1, com: 1}, fields: {}}}", "fields is empty"),
        ("bridges: [", "no YAML"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, words):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_drivers(tmp_path / "x.yaml")


def test_an_unknown_driver_is_refused():
    with pytest.raises(InputError, match="did you mean 'franka'"):
        chosen_driver(read_drivers(SHIPPED), "frank", "x")
