# SPDX-License-Identifier: Apache-2.0

"""Payloads on their way to a driver: frames, limits, error bars, and the file of bridges."""

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.held_load import Load
from ros2_dynid.control.payload_bridge import (
    FIGURES,
    Asked,
    Bars,
    Driver,
    checked_for,
    chosen_driver,
    differing,
    filled,
    read_drivers,
    shipped_drivers,
)
from ros2_dynid.errors import InputError
from ros2_dynid.model.inertia import Inertia
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.mdh import rotation_rpy, transform
from ros2_dynid.model.robot import Robot

SHIPPED = shipped_drivers()
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
    drivers = SHIPPED
    assert set(drivers) == {"ur", "ur_torque", "franka", "feedforward"}
    assert drivers["ur"].type == "ur_msgs/srv/SetPayload" and drivers["franka"].type == "franka_msgs/srv/SetLoad"
    sent = checked_for(drivers["ur"], robot(), load(), 0.01, STD, BARS)
    assert filled(drivers["ur"], sent)["payload.ixy"] == pytest.approx(sent.inertia[0, 1])
    (older,) = drivers["ur"].others
    assert filled(replace(drivers["ur"], fields=older), sent)["center_of_gravity.x"] == pytest.approx(sent.com[0])
    sent = checked_for(drivers["franka"], robot(), load(), 0.01, STD, BARS)
    fields = filled(drivers["franka"], sent)
    assert sent.link == "flange" and len(fields["center_of_mass"]) == 3 and len(fields["load_inertia"]) == 9


def test_the_load_is_the_same_body_in_the_drivers_frame():
    sent = checked_for(SHIPPED["ur"], robot(), load(), 0.01, STD, BARS)

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
        checked_for(SHIPPED["ur"], robot(), load(mass), mass_std, com_std, BARS)


def test_a_load_is_taken_off_without_bars_and_far_centres_are_refused():
    driver = SHIPPED["ur"]
    sent = checked_for(driver, robot(), load(0.0), 0.0, np.zeros(3), BARS)
    assert set(filled(driver, sent).values()) == {0.0}
    far = Load(2.0, np.array((5.0, 0.0, 0.0)), load().inertia, 6)
    with pytest.raises(InputError, match="m from 'tool0'"):
        checked_for(driver, robot(), far, 0.01, STD, BARS)
    with pytest.raises(InputError, match="no link 'tool0'"):
        checked_for(driver, load_robot("puma560"), load(), 0.01, STD, BARS)


def test_a_driver_that_tells_otherwise_is_noticed():
    sent = checked_for(SHIPPED["ur"], robot(), load(), 0.01, STD, BARS)
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
        ("bridges: [", "not YAML"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, text, words):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_drivers(tmp_path / "x.yaml")


def test_an_unknown_driver_is_refused():
    with pytest.raises(InputError, match="did you mean 'franka'"):
        chosen_driver(SHIPPED, "frank", "x")


@pytest.mark.parametrize(("mass", "slack"), [(2.0, 2e-3), (0.3, 3e-4), (30.0, 0.03)])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_figure_may_differ_by_a_thousandth_of_its_size(mass, slack, side):
    driver = replace(SHIPPED["ur"], largest_mass=100.0)
    sent = checked_for(driver, robot(), load(mass), 0.01 * mass, STD, BARS)
    assert differing(sent, {"mass": mass + side * 0.9 * slack}) == []
    assert differing(sent, {"mass": mass + side * 1.1 * slack}) == ["mass"]
    largest = np.abs(sent.com).max()
    for axis in range(3):  # of the largest of them, since rounding is
        com = sent.com.copy()
        com[axis] += side * 0.9e-3 * largest
        assert differing(sent, {"com": tuple(com)}) == []
        com[axis] += side * 0.2e-3 * largest
        assert differing(sent, {"com": tuple(com)}) == ["com"]
    assert differing(sent, {"com": tuple(sent.com[:2])}) == ["com"], "one is missing"
    assert differing(sent, {"mass": mass * 1.35}, tolerance=0.3) == ["mass"], "of the size that was sent"
    assert differing(sent, {"mass": mass * 1.2}, tolerance=0.3) == [] and differing(sent, {"mass": "2"}) == ["mass"]
    nothing = checked_for(driver, robot(), load(0.0), 0.0, STD, BARS)
    assert differing(nothing, {"mass": side * 0.9e-6}) == [] and differing(nothing, {"mass": side * 1.1e-6}) == ["mass"]


def test_every_figure_goes_to_the_field_of_its_name():
    sent = checked_for(SHIPPED["ur"], robot(), load(), 0.01, STD, BARS)
    wanted = {"mass": 2.0, "link": "tool0", "com": tuple(sent.com), "inertia": tuple(sent.inertia.ravel())}
    wanted |= {f"com.{axis}": sent.com[k] for k, axis in enumerate("xyz")}
    wanted |= {
        f"inertia.{a}{b}": sent.inertia["xyz".index(a), "xyz".index(b)] for a, b in ("xx", "xy", "xz", "yy", "yz", "zz")
    }
    assert set(wanted) == set(FIGURES)
    assert len({sent.figure(name) for name in FIGURES}) == len(FIGURES), "no two are alike"
    assert all(sent.figure(name) == value for name, value in wanted.items())


@pytest.mark.parametrize("side", [0.98, 1.02])
def test_limits_and_bars_of_a_driver_hold_at_their_figures(side):
    base = SHIPPED["ur"]
    distance = np.linalg.norm(POSE[:3, :3].T @ (load().com - POSE[:3, 3]))
    for driver, mass_std, com_std, words in (
        (replace(base, largest_mass=2.0 / side), 0.01, STD, "beyond the limit"),
        (replace(base, largest_distance=distance / side), 0.01, STD, "m from 'tool0'"),
        (base, side * 0.05 * 2.0, STD, "5% is asked for"),
        *((base, 0.01, np.where(np.arange(3) == k, side * 0.01, 1e-3), "10.0 mm is asked for") for k in range(3)),
    ):
        if side < 1:
            assert checked_for(driver, robot(), load(), mass_std, com_std, BARS).mass == 2.0
        else:
            with pytest.raises(InputError, match=words):
                checked_for(driver, robot(), load(), mass_std, com_std, BARS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1e-3])
@pytest.mark.parametrize("which", range(4))
def test_every_error_bar_must_be_there(bad, which):
    bars = [0.01, 1e-3, 2e-3, 3e-3]
    bars[which] = bad
    with pytest.raises(InputError, match="without error bars"):
        checked_for(SHIPPED["ur"], robot(), load(), bars[0], np.array(bars[1:]), BARS)


def test_a_driver_without_a_link_gets_the_first_of_the_joint_and_one_of_another_joint_is_refused():
    driver, bare = replace(SHIPPED["ur"], link=""), load_robot("demo6")
    assert checked_for(driver, robot(), load(), 0.01, STD, BARS).link == "flange"
    none = Robot(bare.name, bare.joints, bare.gravity, bare.base, {"elbow": (3, POSE)})
    alone = checked_for(driver, none, load(), 0.01, STD, BARS)
    assert alone.link == "" and np.array_equal(alone.com, load().com)
    with pytest.raises(InputError, match=f"no link 'elbow' behind joint '{bare.joints[5].name}'; .* none"):
        checked_for(replace(driver, link="elbow"), none, load(), 0.01, STD, BARS)
    with pytest.raises(InputError, match="set driver_link to one of flange, tool0"):
        checked_for(replace(driver, link="elbow"), robot(), load(), 0.01, STD, BARS)


GOOD = """bridges:
  x: {type: a/srv/B, service: s, link: l, success: ok, message: why, limits: {mass: 3, com: 0.5}, fields: {m: mass},
      ask: {type: a/srv/C, service: r, fields: {m: mass, c: com}}}
  y: {type: a/srv/B, service: s, limits: {mass: 4, com: 0.25}, fields: {m: mass}}
"""


def test_what_a_file_says_of_each_driver(tmp_path):
    (tmp_path / "x.yaml").write_text(GOOD)
    drivers = read_drivers(tmp_path / "x.yaml")
    ask = Asked("a/srv/C", "r", {"m": "mass", "c": "com"})
    assert drivers["x"] == Driver("x", "a/srv/B", "s", "l", {"m": "mass"}, "ok", "why", 3.0, 0.5, ask)
    assert drivers["y"] == Driver("y", "a/srv/B", "s", "", {"m": "mass"}, "", "", 4.0, 0.25, None)
    assert chosen_driver(drivers, "y", "x.yaml") is drivers["y"]
    for cut, words in (
        ("bridges:", "bridge:"), ("type: a/srv/C", "type: 5"), ("service: r", "service: ''"),
        ("{m: mass, c: com}", "{}"),
        ("service: s, link", "servic: s, link"), ("com: 0.5", "con: 0.5"), ("mass: 3", "mass: heavy"),
        ("type: a/srv/C, service: r,", "type: a/srv/C, service: r, more: 1,"),
    ):  # fmt: skip
        (tmp_path / "y.yaml").write_text(GOOD.replace(cut, words))
        with pytest.raises(InputError):
            read_drivers(tmp_path / "y.yaml")


def test_a_file_says_nothing_but_bridges_and_not_too_much(tmp_path):
    path = tmp_path / "x.yaml"
    for text, words in ((GOOD + "more: 1\n", "more"), (GOOD + "#" * 1_000_000, "large|bytes|MB"), ("[]", "mapping")):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_drivers(path)
    path.write_text(GOOD + "#" * 900_000)
    assert set(read_drivers(path)) == {"x", "y"}


def test_error_bars_asked_for_are_five_percent_and_a_centimetre():
    assert (BARS.mass_share, BARS.com) == (0.05, 0.01)
    wide = Bars(mass_share=0.2, com=0.04)
    driver = SHIPPED["ur"]
    assert checked_for(driver, robot(), load(), 0.39, np.full(3, 0.039), wide).mass == 2.0
    with pytest.raises(InputError, match="known to 20% only, 20% is asked for"):
        checked_for(driver, robot(), load(), 0.401, STD, wide)


def test_a_key_that_nobody_reads_is_refused_by_its_name_wherever_it_stands(tmp_path):
    path = tmp_path / "x.yaml"
    for place in ("type: a/srv/B, service: s, link", "mass: 3, com: 0.5", "type: a/srv/C, service: r,"):
        assert GOOD.count(place) == 1
        path.write_text(GOOD.replace(place, f"odd: 1, {place}"))
        with pytest.raises(InputError, match="odd"):
            read_drivers(path)


@pytest.mark.parametrize("figure", ["com.w", "com.xy", "inertia.yx", "inertia.x", "mass.x", "com.", "", "tool0", 5])
def test_a_field_that_is_no_figure_is_refused(tmp_path, figure):
    (tmp_path / "x.yaml").write_text(GOOD.replace("{m: mass, c: com}", f"{{m: mass, c: {figure!r}}}"))
    with pytest.raises(InputError, match="is no figure of a payload"):
        read_drivers(tmp_path / "x.yaml")
