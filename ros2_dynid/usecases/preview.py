# SPDX-License-Identifier: Apache-2.0

"""Preview: a trajectory and its robot become a page that plays it in 3D."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ros2_dynid.atomic import write_text
from ros2_dynid.excitation.limits import Caps
from ros2_dynid.excitation.obstacles import read_entries
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory
from ros2_dynid.model.load import urdf_of
from ros2_dynid.model.robot import Robot
from ros2_dynid.output_files import check_outputs
from ros2_dynid.preview.bodies import Body, urdf_bodies
from ros2_dynid.preview.chromium import screenshot
from ros2_dynid.preview.page import preview_page
from ros2_dynid.preview.scene import Appearance, Scene, appearance, moment_of_least, names_of, scene
from ros2_dynid.usecases.plan import Surroundings, robot_and_shapes
from ros2_dynid.usecases.robot_source import RobotSource


@dataclass(frozen=True)
class PreviewRequest:
    """A trajectory file and its robot; save: the page's file; screenshot: a PNG at time `at` [s].

    at None: the moment when the robot comes closest to something, or the middle. caps: limits beside the robot's own;
    width, height: of the picture [pixels]; overwrite:
    replace files that exist.
    """

    trajectory: str
    robot: RobotSource
    surroundings: Surroundings = field(default_factory=Surroundings)
    save: str | None = None
    screenshot: str | None = None
    at: float | None = None
    caps: Caps = field(default_factory=Caps)
    width: int = 1280
    height: int = 800
    overwrite: bool = False


@dataclass(frozen=True)
class PreviewOutcome:
    """What is shown: use: largest fraction of each limit; clearance: least distance [m], at time `at` [s] of `pair`.

    warning: what to know first, such as that collisions were not checked.
    """

    robot: str
    kind: str
    duration: float
    use: Mapping[str, float]
    clearance: float | None
    at: float | None
    pair: tuple[str, str] | None
    file: str | None = None
    picture: str | None = None
    notes: tuple[str, ...] = ()
    warning: str = ""


def preview(request: PreviewRequest) -> PreviewOutcome:
    """Write the page and the picture that are asked for."""
    return previewed(request)[0]


def previewed(request: PreviewRequest) -> tuple[PreviewOutcome, str]:
    """Return the outcome of `preview` and the page itself."""
    inputs = [request.trajectory, request.robot.path or None, request.surroundings.file]
    check_outputs([request.save, request.screenshot], inputs=inputs, overwrite=request.overwrite)
    scene = scene_of(load_trajectory(request.trajectory), request.robot, request.surroundings, request.caps)
    page = preview_page(scene)
    outcome = describe_preview(scene, request)
    if request.save:
        write_text(request.save, page)
    if request.screenshot:
        at = request.at if request.at is not None else outcome.at
        when = scene.motion.duration / 2 if at is None else at
        screenshot(page, Path(request.screenshot), size=(request.width, request.height), fragment=f"t={when:.6g}")
    return outcome, page


def scene_of(trajectory: Trajectory, source: RobotSource, around: Surroundings, caps: Caps | None = None) -> Scene:
    """Return the scene of a trajectory."""
    robot, look = robot_appearance(source, around)
    return scene(robot, trajectory, look, caps)


def robot_appearance(source: RobotSource, around: Surroundings) -> tuple[Robot, Appearance]:
    """Return the robot and what it looks like."""
    robot, shapes = robot_and_shapes(source, around, planning=False)
    bodies, notes = _bodies(robot, source)
    look = appearance(robot, bodies, shapes, floor=around.floor, box=around.box, notes=notes)
    return robot, replace(look, obstacles=() if around.obstacles is None else read_entries(around.obstacles))


def _bodies(robot: Robot, source: RobotSource) -> tuple[list[Body], tuple[str, ...]]:
    chain = source.chain
    with contextlib.ExitStack() as stack:
        file: Path | None
        if source.path:
            file, chain = urdf_of(source.path, **chain)
        else:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "robot.urdf"
            file.write_text(source.urdf, encoding="utf-8")
        return ([], ()) if file is None else urdf_bodies(robot, file, **chain)


def describe_preview(scene: Scene, request: PreviewRequest) -> PreviewOutcome:
    """Return the figures of a motion, and where it was shown or saved."""
    motion, shapes = scene.motion, scene.appearance.shapes
    least = moment_of_least(motion)
    pair = None
    if least is not None and shapes is not None and motion.nearest is not None:
        k = int(motion.nearest.distance.argmin())
        pair = names_of(shapes, int(motion.nearest.first[k]), int(motion.nearest.second[k]))
    return PreviewOutcome(
        robot=scene.appearance.name,
        kind=motion.kind,
        duration=motion.duration,
        use={kind: float(used.max()) for kind, used in motion.use.items()},
        clearance=None if least is None else least[0],
        at=None if least is None else least[1],
        pair=pair,
        file=request.save,
        picture=request.screenshot,
        notes=scene.notes,
        warning=scene.warning,
    )
