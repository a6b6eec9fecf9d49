# SPDX-License-Identifier: Apache-2.0

"""The planning service of the excitation node: a plan, or a file, becomes a trajectory that is safe for the robot."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from ros2_dynid.codec import Plain, decode, encode
from ros2_dynid.confined import Folder
from ros2_dynid.control.knots import reference_by_knots
from ros2_dynid.control.motion_limits import MotionSettings, motion_limits
from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import InputError
from ros2_dynid.excitation.collision import Shapes, clearance, nearest
from ros2_dynid.excitation.limits import check_trajectory, closed_way
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory
from ros2_dynid.jobs import PLAN
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.nodes.common.answers import answering
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import reference_points, trajectory_message
from ros2_dynid.nodes.common.optional import given_fields, optional
from ros2_dynid.nodes.common.qos import LATCHED
from ros2_dynid.nodes.excitation.obstacles import Obstacles
from ros2_dynid.srv import PlanExcitation
from ros2_dynid.usecases.plan import PlanRequest, Surroundings, robot_and_shapes
from ros2_dynid.usecases.robot_source import RobotSource

CHECK_RATE_HZ = 100.0
"""Rate at which collisions are looked for along a trajectory."""
ROUNDING_M = 1e-9
"""Difference of distances [m] that means nothing: a jog after the other must not come closer step by step."""
ALLOWANCE_M = 1e-3
"""The way to the start may come this much closer [m] than the margin, or than the robot already is."""


@dataclass(frozen=True, eq=False)
class SafePlan:
    """A trajectory that is safe for this robot, in the order of its joints, with the shapes it was checked with."""

    robot: Robot
    trajectory: Trajectory
    shapes: Shapes | None

    def points(self, trajectory: Trajectory, most_hz: float) -> Reference:
        """Return as few points as `trajectory`, this one or a slower one, needs, at most `most_hz` a second [Hz]."""
        limits = motion_limits(self.robot, MotionSettings())
        curve = trajectory.curve
        return reference_by_knots(trajectory.joint_names, curve.evaluate, curve.duration, limits, most_hz)

    def check_way(self, q: Array) -> None:
        """Refuse a way to the start, shape (N, n_active), that leads into a collision or that its loops cannot go."""
        free, wrong = closed_way(self.robot, q)
        if free < len(q):
            raise InputError(f"on the straight way to the start {wrong}", "move the robot to another pose first")
        if self.shapes is None:
            return
        (here, _), (least, what) = (clearance(self.robot, self.shapes, part) for part in (q[:1], q))
        if least < min(self.shapes.margin, here) - ALLOWANCE_M:
            raise InputError(
                f"on the straight way to the start {what} would come within {least:.3g} m",
                "move the robot to another pose first",
            )


class Planner:
    """Answers ~/plan; `plan` is the last one planned or loaded."""

    def __init__(
        self,
        node: Node,
        value: Callable[[str], Any],
        robot: Callable[[], Robot],
        robot_source: Callable[[], RobotSource],
        changed: Callable[[], None] = lambda: None,
        check_still: Callable[[], None] = lambda: None,
        base_frame: Callable[[], str] = lambda: "",
    ) -> None:
        """Offer the service on `node`; value(name) is a parameter's value now, files lie in the folder.

        changed: called when there is another plan; check_still: refuses while a motion is under way.
        """
        self._changed, self._check_still = changed, check_still
        self._logger, self._value, self._robot, self._robot_source = node.get_logger(), value, robot, robot_source
        self._folder = Folder(value("folder"))
        self._job = OneJob("planning")
        self._one_request = threading.Lock()
        self.plan: SafePlan | None = None
        self._known: tuple[Robot, object, Shapes | None] | None = None
        self.obstacles = Obstacles(node, value, self._folder, self._job.group, self._check_again, base_frame)
        self._planned = node.create_publisher(JointTrajectory, "~/planned", LATCHED)
        node.create_service(PlanExcitation, "~/plan", self._on_plan, callback_group=self._job.group)

    def close(self) -> None:
        """End a planning that goes on."""
        self._job.cancel()

    def _on_plan(self, request: PlanExcitation.Request, response: PlanExcitation.Response) -> PlanExcitation.Response:
        with answering(response, self._logger), self._alone():
            robot = self._robot()
            self.obstacles.catch_up()
            path, cond = self._found(request)
            planned = load_trajectory(path).ordered(robot.active_names)
            plan = self._checked(robot, planned)
            samples = planned.sample(self._value("point_rate"))
            response.trajectory = trajectory_message(reference_points(planned.joint_names, samples))
            response.cond, response.duration = cond, planned.duration
            response.message = str(path)
            self.plan = plan
            self._changed()
            self._planned.publish(response.trajectory)
        return response

    def _check_again(self) -> str:
        """Check the plan again, for other obstacles than it was made for; forget it if it is not safe any more."""
        self._check_still()
        plan = self.plan
        if plan is None:
            return ""
        try:
            self.plan = self._checked(plan.robot, plan.trajectory)
        except InputError as error:
            self.plan = None
            self._changed()
            return f"the plan is forgotten: {error.what}; plan again"
        return "the plan keeps clear of them"

    def surroundings(self) -> Surroundings:
        """Return what the robot must not touch now."""
        return configured_surroundings(self._value, self.obstacles.file)

    def shapes(self, robot: Robot) -> Shapes | None:
        """Return what a robot must not touch now, None if nothing is known: read anew when it has changed."""
        around = self.surroundings()
        file = around.obstacles
        state = (encode(around), file and Path(file).stat().st_mtime_ns)
        if self._known is None or self._known[0] is not robot or self._known[1] != state:
            _, shapes = robot_and_shapes(self._robot_source(), around, planning=False)
            self._known = (robot, state, shapes)
        return self._known[2]

    def free_way(self, robot: Robot) -> Callable[[Array], int]:
        """Return what counts how many positions of a way, shape (N, n), keep clear and closed, from the first one on.

        A robot that is closer to something than the margin may not come any closer.
        """
        shapes = self.shapes(robot)

        def count(q: Array) -> int:
            free, _ = closed_way(robot, q)
            if shapes is None or free == 0:
                return free
            distance = nearest(robot, shapes, q).distance
            wrong = distance < min(shapes.margin, float(distance[0])) - ROUNDING_M
            return min(free, int(np.argmax(wrong)) if wrong.any() else len(q))

        return count

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second request: requests that wait here would keep the threads that a stop needs."""
        if not self._one_request.acquire(blocking=False):
            raise InputError("planning is already going on", "wait for it or cancel it")
        try:
            yield
        finally:
            self._one_request.release()

    def _checked(self, robot: Robot, planned: Trajectory) -> SafePlan:
        """Refuse a trajectory that breaks a limit or leads into a collision."""
        shapes = self.shapes(robot)
        problems = [str(problem) for problem in check_trajectory(robot, planned)]
        if shapes is not None:
            distance, what = clearance(robot, shapes, planned.sample(CHECK_RATE_HZ).q)
            if distance < shapes.margin - ALLOWANCE_M:
                problems.append(f"{what} come within {distance:.3g} m")
        if problems:
            raise InputError(f"the trajectory is not safe: {problems[0]}", "plan another one")
        return SafePlan(robot, planned, shapes)

    def _found(self, request: PlanExcitation.Request) -> tuple[Path, float]:
        """Return the trajectory's file and its condition number, NaN for one that was not planned here."""
        if (file := optional(request.file)) is not None:
            return self._folder.existing(file), math.nan
        path = self._folder.new(time.strftime("plan_%Y%m%d_%H%M%S.yaml"), unique=True)
        asked = plan_request(request, self._robot_source(), path, self._value, self.surroundings())
        outcome = self._job.work(PLAN, asked)
        for note in outcome.notes:
            self._logger.warning(note)
        return path, math.nan if outcome.cond is None else outcome.cond


def plan_request(
    request: PlanExcitation.Request,
    robot: RobotSource,
    output: Path,
    value: Callable[[str], Any],
    around: Surroundings | None = None,
) -> PlanRequest:
    """Return what a service request asks for; value(name) is a parameter of the node, for what it does not give."""
    plain: dict[str, Plain] = {
        "robot": encode(robot),
        "output": str(output),
        "method": value("method"),
        "seed": request.seed,
        "duration": value("duration"),
        "time_budget": value("planning_seconds") or None,
        "surroundings": encode(around or configured_surroundings(value)),
    }
    return decode(PlanRequest, plain | given_fields(request, ("method", "duration")))


def configured_surroundings(value: Callable[[str], Any], obstacles: str | None = None) -> Surroundings:
    """Return what the robot must not touch, as the node's parameters say; obstacles: another file than theirs."""
    plain: dict[str, Plain] = {"collisions": value("collisions"), "margin": value("collision_margin")}
    if len(value("workspace")) > 1:
        plain["box"] = list(value("workspace"))
    if obstacles is not None:
        plain["obstacles"] = obstacles
    elif value("obstacles"):
        plain["obstacles"] = str(Path(value("obstacles")).expanduser())
    return decode(Surroundings, plain)
