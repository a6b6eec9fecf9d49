# SPDX-License-Identifier: Apache-2.0

"""Presets of drivers: every one keeps to the schema, every fact has its source, and robots take what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from ros2_dynid.errors import InputError
from ros2_dynid.model.driver_presets import load_preset, preset_names, read_preset, with_driver
from ros2_dynid.model.efforts import AddedEffort, MeasuredEffort, added_beyond_model, declare_added_effort
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Limits, Robot

WANTED = {"ur", "ur_torque", "franka", "lbr_fri", "kinova_gen3", "kinova_jaco", "xarm", "piper", "openarm", "so101"}


def arm(names, **more):
    return Robot("arm", tuple(Joint(name, k, **more) for k, name in enumerate(names)))


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_every_fact_has_a_page(name):
    preset = load_preset(name)
    assert set(preset.sources) == set(preset.facts) | ({"payload"} if preset.payload else set())
    for key, pages in preset.sources.items():
        assert pages and all(page.startswith(("https://", "docs/")) for page in pages), key
    assert preset.title and (preset.cannot or name == "feedforward")
    robot = with_driver(arm([f"left_{own}" for own in preset.joints] or ["j1", "j2"]), preset)
    for joint in robot.joints:
        assert (joint.adds is not None) == bool(preset.adds) and (joint.measures is not None) == bool(preset.measures)


def test_all_robots_that_are_promised_are_there():
    assert WANTED | {"ros2_control_effort", "feedforward"} == set(preset_names())


def test_a_ur_adds_gravity_and_a_share_of_friction_joint_by_joint():
    preset = load_preset("ur")
    robot = with_driver(arm([f"tool_{own}" for own in preset.joints]), preset)
    shares = [0.8, 0.8, 0.7, 0.8, 0.8, 0.8]
    assert [joint.adds for joint in robot.joints] == [AddedEffort(True, True, share) for share in shares]
    assert all(joint.measures == MeasuredEffort(current=True) for joint in robot.joints)


def test_the_efforts_of_a_ur_are_currents_or_torques_without_gravity_and_all_else_is_the_same():
    currents, torques = load_preset("ur"), load_preset("ur_torque")
    robot = with_driver(arm(torques.joints), torques)
    assert all(joint.measures == MeasuredEffort(gravity=False) for joint in robot.joints)
    beyond = added_beyond_model(robot)
    assert beyond is not None and not beyond.gravity.any(), "what the model lacks is not subtracted again"
    others = set(currents.facts) - {"launch", "effort", "measures"}
    assert all(currents.facts[key] == torques.facts[key] for key in others)
    assert (currents.adds, currents.payload) == (torques.adds, torques.payload)


def test_what_a_description_says_stays_and_other_joints_are_left_alone():
    franka = load_preset("franka")
    robot = declare_added_effort(arm(["fr3_joint1", "fr3_joint2"]), ["nothing"])
    robot = replace(robot, joints=(*robot.joints, Joint("finger", 2)))
    first, second, finger = with_driver(robot, franka).joints
    assert first.adds == second.adds == AddedEffort() and first.measures == MeasuredEffort(())
    assert finger.adds is None and finger.measures is None
    limited = with_driver(arm(["joint1", "joint3"]), load_preset("xarm"))
    assert [joint.limits.effort for joint in limited.joints] == [50.0, 32.0]
    told = with_driver(arm(["joint1"], limits=Limits(effort=7.0)), load_preset("xarm"))
    assert told.joints[0].limits.effort == 7.0


def test_another_robot_and_another_name_are_refused():
    with pytest.raises(InputError, match=r"none of the joints .* is one of the driver 'ur'"):
        with_driver(load_robot("demo3"), load_preset("ur"))
    with pytest.raises(InputError, match=r"there is no driver 'urr'; .*ur"):
        load_preset("urr")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"adds": {"value": "gravity"}}, "adds has the source"),
        ({"adds": {"value": "gravity", "source": "other"}}, "adds has the source"),
        ({"adds": {"value": "everything", "source": "page"}}, "choose nothing"),
        ({"measures": {"value": "gear", "source": "page"}}, "the sensor is"),
        ({"gains": {"value": {"j1": "much"}, "source": "page"}}, "gains of j1"),
        ({"effort": {"value": "x", "unit": "A", "source": "page"}}, "unit"),
        ({"torque": {"value": "x", "source": "page"}}, "torque"),
        ({"cannot": [{"value": "fly"}]}, "cannot has the source"),
        ({"joints": {"value": "j1", "source": "page"}}, "joints is not a list"),
    ],
)
def test_a_file_of_ones_own_keeps_to_the_schema(tmp_path, entry, words):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"title": "mine", "sources": {"page": "https://example.org"}, **entry}))
    with pytest.raises(InputError, match=words) as error:
        load_preset(str(file))
    assert str(file) in str(error.value) and "\n" not in str(error.value)
    file.write_text(yaml.safe_dump({"sources": {"page": "x"}, "gains": {"value": {"every": 3.0}, "source": "page"}}))
    assert read_preset(file).gains == {"every": 3.0}
