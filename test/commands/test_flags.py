# SPDX-License-Identifier: Apache-2.0

"""Every flag of a command reaches the field of the request that it is meant for."""

from __future__ import annotations

import argparse

import pytest

from ros2_dynid.cli import main, parse_arguments
from ros2_dynid.commands.shared.arguments import parse_gains, parse_hold
from ros2_dynid.commands.shared.command import items, numbers
from ros2_dynid.errors import InputError
from ros2_dynid.identification.options import IdentifyOptions, Method, PreparationOptions, VelocitySource
from ros2_dynid.recording.samples import Reading, Units
from ros2_dynid.usecases.check import CheckRequest
from ros2_dynid.usecases.fleet import FleetRequest
from ros2_dynid.usecases.gains import GainsRequest
from ros2_dynid.usecases.identify import IdentifyRequest
from ros2_dynid.usecases.payload import PayloadRequest
from ros2_dynid.usecases.plan import PlanMethod, PlanRequest, Surroundings
from ros2_dynid.usecases.preview import PreviewRequest
from ros2_dynid.usecases.report import ReportRequest
from ros2_dynid.usecases.robot_source import RobotSource
from ros2_dynid.usecases.tool import ToolRequest

CHAIN = "--base-link here --tip-link there --hold a=0.5,b=-1 --hold c=2 --gravity 1,2,-9 --joint-limits limits.yaml"
ROBOT = RobotSource("arm.urdf", "", "here", "there", {"a": 0.5, "b": -1.0, "c": 2.0}, "limits.yaml", (1.0, 2.0, -9.0))
READ = (
    "--topic /joints --torque-topic /torques --start 1.5 --end 9 --stamps bag --rate 250 --columns time=stamp "
    "--time-unit ms --angle-unit deg --length-unit mm --effort-unit mN.m"
)
READING = Reading(
    "/joints", {"time": "stamp"}, Units("ms", "deg", "mm", "mN.m"), "bag", 1.5, 9.0, 250.0, torque_topic="/torques"
)
PREPARE = (
    "--position-cutoff 11 --row-cutoff 3 --row-rate 50 --slow 0.07 --velocity measured --gains a=2,b=-3 --gains c=4 "
    "--delay 0.004"
)
PREPARATION = PreparationOptions(
    11.0, 3.0, 50.0, 0.07, VelocitySource("measured"), {"a": 2.0, "b": -3.0, "c": 4.0}, 0.004
)
AROUND = "--floor -0.1 --box -1,2,-3,4,-5,6 --collision shapes.urdf --collision-margin 0.03"
SURROUNDINGS = Surroundings(True, "shapes.urdf", 0.03, -0.1, (-1.0, 2.0, -3.0, 4.0, -5.0, 6.0))
COMMON = IdentifyOptions(preparation=PREPARATION, reading=READING, sensor="link+Fc")
PLAIN, UNSAID = RobotSource("arm.urdf"), IdentifyOptions()


def request(line):
    """Return the request that a command line makes."""
    args = parse_arguments(line.split())
    return args.module.request_of(args)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("check a b arm.urdf", CheckRequest(PLAIN, ("a", "b"), UNSAID.reading)),
        ("identify arm.urdf a", IdentifyRequest(PLAIN, ("a",), options=UNSAID, command="dynid identify arm.urdf a")),
        ("payload arm.urdf --loaded l", PayloadRequest(PLAIN, (), ("l",), options=UNSAID)),
        ("gains arm.urdf --empty e --loaded l --mass 2", GainsRequest(PLAIN, ("e",), ("l",), 2.0, UNSAID)),
        ("tool arm.urdf a --wrench /w", ToolRequest(PLAIN, "a", "/w", options=UNSAID)),
        ("excite arm.urdf -o x.yaml", PlanRequest(PLAIN, "x.yaml")),
        ("preview m.yaml arm.urdf", PreviewRequest("m.yaml", PLAIN)),
        ("report out", ReportRequest(("out",))),
        (
            "identify arm.urdf a --standing left,right=sole",
            IdentifyRequest(
                PLAIN,
                ("a",),
                options=IdentifyOptions(standing=(("left", 3), ("right", 6))),
                command="dynid identify arm.urdf a --standing left,right=sole",
            ),
        ),
        (
            "check a arm.urdf --floating-base --base /odom --contact left=/l --contact right",
            CheckRequest(
                RobotSource("arm.urdf", floating_base=True),
                ("a",),
                Reading(base="/odom", contacts=(("left", "/l"), ("right", "right"))),
            ),
        ),
    ],
)
def test_what_is_not_said_is_as_a_request_has_it(line, expected):
    assert request(line) == expected


def test_check():
    asked = request(f"check run.mcap arm.urdf {CHAIN} {READ} {PREPARE}")
    assert asked == CheckRequest(ROBOT, ("run.mcap",), READING, PREPARATION)


def test_identify():
    line = (
        f"identify arm.urdf a.mcap b.csv {CHAIN} {READ} {PREPARE} -o out --overwrite --method irls "
        "--validate c --validate d --essential --essential-std 0.2 --distance euclidean --standard --consistent "
        "--friction load+stribeck --prior none --sensor link+Fc --controller gains.yaml --torque-sensor link+Ia "
        "--preview page.html --no-checks"
    )
    options = IdentifyOptions(
        Method.IRLS,
        PREPARATION,
        READING,
        essential=True,
        standard=True,
        consistent=True,
        checks=False,
        friction="load+stribeck",
        prior="none",
        distance="euclidean",
        essential_std=0.2,
        sensor="link+Fc",
        controller="gains.yaml",
        torque_sensor="link+Ia",
    )
    expected = IdentifyRequest(
        ROBOT, ("a.mcap", "b.csv"), ("c", "d"), options, "out", True, f"dynid {line}", "page.html"
    )
    assert request(line) == expected


def test_identify_in_folds_or_on_other_recordings_but_not_both(capsys):
    asked = request("identify arm.urdf a --cross-validate 7")
    assert asked.options.cross_validate == 7 and asked.validation == ()
    assert main(["identify", "arm.urdf", "a", "--cross-validate", "7", "--validate", "b"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_the_command_that_is_kept_can_be_typed_again():
    args = parse_arguments(["identify", "my arm.urdf", "a"])
    assert args.module.request_of(args).command == "dynid identify 'my arm.urdf' a"


@pytest.mark.parametrize("loaded", ["--loaded l m --loaded n", "--loaded x=l x=m y=n"])
def test_payload(loaded):
    line = f"payload arm.urdf --empty e --empty f {loaded} --free --link flange --sensor link+Fc"
    asked = request(f"{line} {CHAIN} {READ} {PREPARE}")
    recordings = tuple(loaded.replace("--loaded", "").split())
    assert asked == PayloadRequest(ROBOT, ("e", "f"), recordings, "flange", COMMON, True)


def test_gains():
    line = "gains arm.urdf --empty e --loaded l --loaded m --mass 2.5 --load 1 2 3 4 5 6 7 8 9 10 --sensor link+Fc"
    asked = request(f"{line} {CHAIN} {READ} {PREPARE}")
    assert asked == GainsRequest(ROBOT, ("e",), ("l", "m"), 2.5, COMMON, tuple(map(float, range(1, 11))))


def test_tool():
    line = "tool arm.urdf run --wrench /wrench --sensor-link flange --free"
    asked = request(f"{line} {CHAIN} {READ} {PREPARE}")
    options = IdentifyOptions(preparation=PREPARATION, reading=READING)
    assert asked == ToolRequest(ROBOT, "run", "/wrench", "flange", options, True)


def test_excite():
    line = (
        "excite arm.urdf --method points --only inertial,rotor --rows 90 --seed 3 --duration 7 --harmonics 4 "
        "--periods 2 --criterion logdet --weights 1,2 --equilibrium 0.2 --optimiser powell --measure qr --poses 5 "
        "--hold-time 3 --time-budget 9 --margin 0.1 --max-position 1.1 --max-velocity 1.2 --max-acceleration 1.3 "
        "--max-effort 1.4 --start 0.1,-0.2 -o out.yaml --rate 25 --csv out.csv --rehearsal slow.yaml "
        "--rehearsal-speed 0.3 --figures plan.png --noise 0.5"
    )
    asked = request(f"{line} {CHAIN} {AROUND}")
    assert asked == PlanRequest(
        ROBOT,
        "out.yaml",
        PlanMethod.POINTS,
        ("inertial", "rotor"),
        seed=3,
        rows=90,
        duration=7.0,
        harmonics=4,
        periods=2,
        criterion="logdet",
        weights=(1.0, 2.0),
        equilibrium=0.2,
        optimiser="powell",
        measure="qr",
        poses=5,
        hold_time=3.0,
        time_budget=9.0,
        margin=0.1,
        max_position=1.1,
        max_velocity=1.2,
        max_acceleration=1.3,
        max_effort=1.4,
        start=(0.1, -0.2),
        surroundings=SURROUNDINGS,
        rate=25.0,
        csv="out.csv",
        rehearsal="slow.yaml",
        rehearsal_speed=0.3,
        figures="plan.png",
        noise=0.5,
    )


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [("", True), ("--no-collision", False), ("--collision x.urdf", True), ("--no-collision --collision x.urdf", True)],
)
def test_shapes_count_unless_they_are_not_wanted(flags, wanted):
    asked = request(f"excite demo3 -o x.yaml {flags}")
    assert asked.surroundings.collisions is wanted


def test_lists_may_begin_with_a_minus():
    asked = request("excite demo3 -o x.yaml --gravity -9.81,0,0 --start -.5,1,2")
    assert asked.robot.gravity == (-9.81, 0.0, 0.0) and asked.start == (-0.5, 1.0, 2.0)
    asked = request("excite demo3 --box -inf,1,-1,1,0,2 -o x.yaml")
    assert asked.surroundings.box == (float("-inf"), 1.0, -1.0, 1.0, 0.0, 2.0) and asked.output == "x.yaml"


@pytest.mark.parametrize("box", ["1,2,3,4,5", "1,2,3,4,5,6,7"])
def test_a_box_has_six_numbers(capsys, box):
    assert main(["excite", "demo3", "-o", "x.yaml", "--box", box]) == 2
    assert (
        capsys.readouterr().err == f"dynid excite: --box has {len(box.split(','))} numbers; give six: x,X,y,Y,z,Z [m]\n"
    )


def test_preview():
    line = f"preview move.yaml arm.urdf {CHAIN} {AROUND} --save p.html --screenshot p.png --at 3.5 --size 640x480"
    assert request(line) == PreviewRequest(
        "move.yaml", ROBOT, SURROUNDINGS, save="p.html", screenshot="p.png", at=3.5, width=640, height=480
    )


@pytest.mark.parametrize("size", ["99x100", "100x99", "8001x100", "100x8001", "640", "640x", "x480", "-640x480", "axb"])
def test_sizes_of_pictures_that_are_refused(capsys, size):
    assert main(["preview", "m.yaml", "demo3", f"--size={size}"]) == 2
    assert "is not WIDTHxHEIGHT in pixels" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "pixels"), [("100x8000", (100, 8000)), ("8000x100", (8000, 100))])
def test_sizes_of_pictures_up_to_their_bounds(size, pixels):
    asked = request(f"preview m.yaml demo3 --size {size}")
    assert (asked.width, asked.height) == pixels


@pytest.mark.parametrize(
    ("flags", "where"),
    [("", (None, None)), ("--workers 0", (None, 0)), ("--scheduler tcp://127.0.0.1:1", ("tcp://127.0.0.1:1", None))],
)
def test_fleet(flags, where):
    asked = request(f"fleet fleet.yaml -o out {flags}")
    assert asked == FleetRequest("fleet.yaml", "out", *where, "dynid fleet fleet.yaml -o DIR")


def test_report():
    assert request("report a b -o page.html --no-figures") == ReportRequest(("a", "b"), "page.html", False)
    assert request("report a") == ReportRequest(("a",), None, True)


@pytest.mark.parametrize("rate", ["0", "-1", "nan", "inf"])
def test_a_speed_that_is_none_is_refused_before_anything_is_read(capsys, rate):
    assert main(["replay", "there/is/none.mcap", f"--rate={rate}"]) == 2
    assert "is not a speed" in capsys.readouterr().err


def test_lists_names_and_numbers_of_flags():
    assert items(" a, b,,c ,") == ("a", "b", "c")
    assert numbers("1,-2.5,inf") == (1.0, -2.5, float("inf"))
    with pytest.raises(argparse.ArgumentTypeError, match="'1,x' is not a list of numbers"):
        numbers("1,x")
    assert parse_gains(["a=b=2", "c=-1,d=0.5"]) == {"a=b": 2.0, "c": -1.0, "d": 0.5}, "the last = separates"
    assert parse_hold(["a=b=2", "c=-1,d=0.5"]) == {"a=b": 2.0, "c": -1.0, "d": 0.5}


@pytest.mark.parametrize("text", ["a", "a=", "=1", "a=x", "a=1,b"])
def test_gains_and_held_joints_are_a_name_and_a_number(text):
    with pytest.raises(InputError, match="is not a joint and a number"):
        parse_gains([text])
    with pytest.raises(InputError, match="is not a joint and a number"):
        parse_hold([text])


def test_a_joint_is_held_once_and_at_a_place_that_exists():
    with pytest.raises(InputError, match="names joint 'a' twice"):
        parse_hold(["a=1", "a=1"])
    for value in ("nan", "inf"):
        with pytest.raises(InputError, match="is not a joint and a number"):
            parse_hold([f"a={value}"])
