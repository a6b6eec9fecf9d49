# SPDX-License-Identifier: Apache-2.0

"""What a robot adds to a commanded effort: its texts, robot files, there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, PreparationOptions
from ros2_dynid.model.efforts import (
    AddedEffort,
    MeasuredEffort,
    added_beyond_model,
    added_by_joint,
    added_effort,
    check_sensors,
    declare_added_effort,
    declared_sensors,
    effort_gains,
    in_amperes,
    measures_gravity,
    parse_sensor,
    sensor_name,
)
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.pipeline import declare_sensors

TEXTS = ("nothing", "gravity", "arm-gravity", "friction:0.5", "gravity+friction:0.8", "arm-gravity+friction:1.0")


@pytest.mark.parametrize("text", TEXTS)
def test_a_declaration_reads_as_it_is_written(text):
    assert str(added_effort(text)) == text
    assert added_effort("gravity+friction:1e-3") == AddedEffort(True, True, 1e-3)


def file_of(drives, passive=False):
    joints = [{"name": name} for name in "abc"]
    return {"joints": joints, "drives": drives} | ({"passive": {"c": {"b": 1}}} if passive else {})


def test_a_robot_file_declares_it_once_and_by_joint_and_gives_it_back():
    drives = {"adds": {"gravity": True, "friction": 0.8}, "joints": {"b": {"adds": "nothing"}}}
    robot = robot_from_dict(file_of(drives), "file")
    lifted = AddedEffort(True, True, 0.8)
    assert [joint.adds for joint in robot.joints] == [lifted, AddedEffort(), lifted]
    assert robot_from_dict(robot_to_dict(robot), "again").joints == robot.joints
    loop = robot_from_dict(file_of({"adds": {"gravity": True, "payload": False}}, passive=True), "loop")
    assert [joint.adds for joint in loop.joints] == [AddedEffort(True), AddedEffort(True), None]
    assert added_by_joint(loop).gravity.tolist() == [True, True]
    assert robot_from_dict(robot_to_dict(loop), "again").joints == loop.joints
    silent = robot_from_dict(file_of({"joints": {"a": {"adds": "gravity"}}}), "file")
    assert added_by_joint(silent) is None and "drives" in robot_to_dict(silent)
    assert "drives" not in robot_to_dict(robot_from_dict(file_of({}), "file"))
    assert all(added_by_joint(load_robot(name)).nothing for name in ("demo3", "demo6", "hitachi_hpr", "tx40"))


@pytest.mark.parametrize(
    ("drives", "said"),
    [
        ({"adds": "everything"}, "choose nothing, gravity"),
        ({"adds": 1}, "choose nothing, gravity"),
        ({"adds": {"weight": True}}, "weight"),
        ({"adds": {"gravity": 1}}, "true or false"),
        ({"adds": {"gravity": False, "payload": True}}, "without its own"),
        ({"adds": {"gravity": True, "friction": 1.2}}, "from 0 to 1"),
        ({"adds": {"gravity": True, "friction": "much"}}, "friction"),
        ({"joints": {"x": {"adds": "nothing"}}}, "unknown joint 'x'"),
        ({"joints": {"c": {"adds": "nothing"}}}, "is passive"),
        ({"joints": {"a": {}}}, "choose nothing, gravity"),
        ({"measures": "gear"}, "the sensor is 'gear'"),
        ({"measures": "link-friction:0.5"}, "the sensor is"),
        ({"gain": 0}, "gain of the effort is 0"),
        ({"gain": "large"}, "gain"),
        ({"measures": "motor", "joints": {"a": {"measures": "motor-gravity"}}}, "hold gravity, those of others do not"),
        ({"takes": "nothing"}, "takes"),
    ],
)
def test_what_no_robot_adds_is_refused_in_one_line(drives, said):
    with pytest.raises(InputError) as error:
        robot_from_dict(file_of(drives, passive=True), "arm.yaml")
    assert said in str(error.value) and str(error.value).startswith("arm.yaml: ") and "\n" not in str(error.value)


def test_texts_are_one_for_each_joint_or_one():
    robot = load_robot("demo3")
    assert declare_added_effort(robot, [""]) is robot and declare_added_effort(robot, []) is robot
    assert [str(j.adds) for j in declare_added_effort(robot, ["gravity"]).joints] == ["gravity"] * 3
    assert [str(j.adds) for j in declare_added_effort(robot, TEXTS[:3]).joints] == list(TEXTS[:3])
    for wrong in (["gravity", "nothing"], ["gravity", "", "nothing"]):
        with pytest.raises(InputError, match="for each joint, or once"):
            declare_added_effort(robot, wrong)


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("motor-gravity", MeasuredEffort(gravity=False)),
        ("motor-gravity-friction:0.8", MeasuredEffort(gravity=False, missing=0.8)),
        ("motor-friction:0.3", MeasuredEffort(missing=0.3)),
        ("current", MeasuredEffort(current=True)),
        ("current-gravity", MeasuredEffort(gravity=False, current=True)),
        ("link+Ia", MeasuredEffort(("Ia",))),
        ("link-gravity", MeasuredEffort((), gravity=False)),
    ],
)
def test_what_a_measured_effort_holds_reads_as_it_is_written(text, measured):
    assert parse_sensor(text) == measured and str(measured) == text
    assert parse_sensor("motor-friction") == parse_sensor("motor-friction:1") == MeasuredEffort(("Ia",))


def test_a_robot_file_says_what_measured_efforts_hold_and_older_ones_do_too():
    drives = {
        "measures": "motor-gravity",
        "gain": 12.5,
        "joints": {"b": {"gain": 2}, "c": {"measures": "link-gravity"}},
    }
    robot = robot_from_dict(file_of(drives), "file")
    plain = MeasuredEffort(gravity=False, gain=12.5)
    assert [joint.measures for joint in robot.joints] == [plain, replace(plain, gain=2.0), replace(plain, drive=())]
    assert effort_gains(robot).tolist() == [12.5, 2.0, 12.5] and not measures_gravity(robot)
    assert robot_from_dict(robot_to_dict(robot), "again").joints == robot.joints
    older = robot_from_dict({"joints": [{"name": "a", "sensor": "link"}, {"name": "b"}]}, "file")
    assert [joint.measures for joint in older.joints] == [MeasuredEffort(()), None] and measures_gravity(older)
    assert robot_from_dict(robot_to_dict(older), "again").joints == older.joints
    assert declared_sensors(robot, "motor").joints[0].measures == MeasuredEffort(gain=12.5), "gains stay"


def test_a_current_is_a_torque_once_its_gain_is_known():
    robot = robot_from_dict(file_of({"measures": "current", "joints": {"b": {"gain": 1.0}}}), "file")
    unknown = MeasuredEffort(current=True)
    assert [joint.measures for joint in robot.joints] == [unknown, MeasuredEffort(), unknown]
    assert in_amperes(robot) and robot_from_dict(robot_to_dict(robot), "again").joints == robot.joints
    known = robot_from_dict(file_of({"measures": "current", "gain": 12.5}), "file")
    assert not in_amperes(known) and declared_sensors(known, "current").joints[0].measures == MeasuredEffort(gain=12.5)
    assert in_amperes(declared_sensors(load_robot("demo3"), "current"))


def test_gains_of_a_request_are_the_models():
    robot = declared_sensors(load_robot("demo3"), "current")
    _, second, third = robot.active_names
    known = declare_sensors(robot, IdentifyOptions(preparation=PreparationOptions(gains={second: 12.5, third: 1.0})))
    wanted = MeasuredEffort(current=True), MeasuredEffort(gain=12.5), MeasuredEffort()
    assert tuple(joint.measures for joint in known.joints) == wanted
    with pytest.raises(InputError, match="a drive gain is given for 'other'"):
        declare_sensors(robot, IdentifyOptions(preparation=PreparationOptions(gains={"other": 1.0})))


def test_of_what_the_efforts_lack_and_the_robot_adds_nothing_is_left_to_subtract():
    robot = declare_added_effort(load_robot("demo3"), ["gravity+friction:0.8"])
    assert added_beyond_model(robot).same_as(added_by_joint(robot))
    same = added_beyond_model(declared_sensors(robot, "motor-gravity-friction:0.8"))
    assert not same.gravity.any() and not same.payload.any() and abs(same.friction).max() < 1e-15
    less = added_beyond_model(declared_sensors(robot, "motor-friction:0.5"))
    assert less.gravity.all() and less.friction == pytest.approx([0.6] * 3), "0.5 F - 0.6 0.5 F = 0.2 F"


def test_sensors_by_their_names():
    for name, felt in (("motor", ("Ia", "Fv", "Fc")), ("link", ()), ("link+Fc", ("Fc",)), ("link+Fc+Ia", ("Ia", "Fc"))):
        assert parse_sensor(name) == MeasuredEffort(felt)
    assert [sensor_name(x) for x in (("Fc", "Fv", "Ia"), (), ("Fc",), ("Fc", "Ia"))] == [
        "motor",
        "link",
        "link+Fc",
        "link+Ia+Fc",
    ]
    for wrong in ("gear", "motor+Fc", "link+Fx", "link+Fc+Fc", ""):
        with pytest.raises(InputError, match="the sensor is"):
            parse_sensor(wrong)
        with pytest.raises(InputError, match="the sensor is"):
            check_sensors(f"j1=motor, j2={wrong}")
    check_sensors("j1=motor, j2=link+Fv")
    check_sensors("link")
