"""The planning service of the excitation node: a plan, or a file, becomes a trajectory that is safe for the robot."""

from __future__ import annotations

import math
import time
from typing import Any

from ros2_dynid.confined import Folder
from ros2_dynid.control.reference import Reference
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.excitation.collision import Shapes, clearance
from ros2_dynid.excitation.limits import check_trajectory
from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory
from ros2_dynid.jobs import requested_surroundings
from ros2_dynid.model.robot import Array, Robot
from ros2_dynid.nodes.common.background import OneJob
from ros2_dynid.nodes.common.messages import reference_points, trajectory_message
from ros2_dynid.srv import PlanExcitation

CHECK_RATE_HZ = 100.0
"""Rate at which collisions are looked for along a trajectory."""
ALLOWANCE_M = 1e-3
"""The way to the start may come this much closer [m] than the margin, or than the robot already is."""


class Planner:
    """Answers ~/plan; `trajectory` is the last one planned or loaded."""

    def __init__(self, node: Any) -> None:
        """Offer the service of `node`; files lie in its folder."""
        self._node = node
        self._folder = Folder(node.value("folder"))
        self._job = OneJob("planning")
        self.trajectory: Trajectory | None = None
        self._shapes: Shapes | None = None
        node.create_service(PlanExcitation, "~/plan", self._on_plan, callback_group=self._job.group)

    def close(self) -> None:
        """End a planning that goes on."""
        self._job.cancel()

    def points(self, trajectory: Trajectory) -> Reference:
        """Return the points to be sent."""
        return reference_points(trajectory.joint_names, trajectory.sample(self._node.value("point_rate")))

    def check_way(self, q: Array) -> None:
        """Refuse a way to the start, shape (N, n_active), on which the robot would touch itself or leave its box."""
        if self._shapes is None:
            return
        robot = self._node.known_robot()
        (here, _), (least, what) = (clearance(robot, self._shapes, part) for part in (q[:1], q))
        if least < min(self._shapes.margin, here) - ALLOWANCE_M:
            raise InputError(
                f"on the straight way to the start {what} would come within {least:.3g} m",
                "move the robot to another pose first",
            )

    def _on_plan(self, request: Any, response: PlanExcitation.Response) -> PlanExcitation.Response:
        try:
            robot = self._node.known_robot()
            path, cond = self._found(request)
            planned = load_trajectory(path).ordered(robot.active_names)
            self._check(robot, planned)
            response.trajectory = trajectory_message(self.points(planned))
            response.cond, response.duration = cond, planned.duration
            response.success, response.message = True, str(path)
            self.trajectory = planned
        except (DynidError, OSError) as error:
            response.message = str(error)
        return response

    def _check(self, robot: Robot, planned: Trajectory) -> None:
        """Refuse a trajectory that breaks a limit or leads into a collision."""
        _, self._shapes = requested_surroundings(self._node.robot_request(), self._around(), planning=False)
        problems = [str(problem) for problem in check_trajectory(robot, planned)]
        if self._shapes is not None:
            distance, what = clearance(robot, self._shapes, planned.sample(CHECK_RATE_HZ).q)
            if distance < self._shapes.margin - ALLOWANCE_M:
                problems.append(f"{what} come within {distance:.3g} m")
        if problems:
            raise InputError(f"the trajectory is not safe: {problems[0]}", "plan another one")

    def _around(self) -> dict[str, Any]:
        value = self._node.value
        box = list(value("workspace"))
        return {
            "collisions": value("collisions"),
            "margin": value("collision_margin"),
            "box": box if len(box) > 1 else None,
        }

    def _found(self, request: Any) -> tuple[Any, float]:
        """Return the trajectory's file and its condition number, NaN for one that was not planned here."""
        value = self._node.value
        if request.file:
            return self._folder.existing(request.file), math.nan
        path = self._folder.new(time.strftime("plan_%Y%m%d_%H%M%S.yaml"), unique=True)
        wanted = {
            "method": request.method or value("method"),
            "seed": request.seed,
            "duration": request.duration or value("duration"),
            "budget": value("planning_seconds"),
        }
        outcome = self._job.run(
            "plan", robot=self._node.robot_request(), around=self._around(), output=str(path), **wanted
        )
        for note in outcome["notes"]:
            self._node.get_logger().warning(note)
        return path, float(outcome["cond"])
