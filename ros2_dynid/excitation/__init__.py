# SPDX-License-Identifier: Apache-2.0

"""Exciting trajectories: how to move a robot so that its base parameters can be identified (seed 001).

`plan` searches by `points` and `point_trajectory` (optimum points joined by `quintic` pieces) or by `fourier` and
`fourier_trajectory`, with the `criteria` and gradients (`sensitivity`) of seed 001; `static` gives poses and ramps.
`limits` checks a trajectory; `collision`, `shapes`, `exact` and `surroundings` keep links apart; `gripper` names joints
that are better held. `trajectory` is what a plan is, and its files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.excitation.limits import Caps, check_trajectory
    from ros2_dynid.excitation.plan import Plan, PlanOptions, validation_plan
    from ros2_dynid.excitation.static import ramps, static_poses
    from ros2_dynid.excitation.trajectory import Trajectory, load_trajectory, save_trajectory

__all__ = [
    "Caps",
    "Plan",
    "PlanOptions",
    "Trajectory",
    "check_trajectory",
    "load_trajectory",
    "ramps",
    "save_trajectory",
    "static_poses",
    "validation_plan",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "Caps": "limits",
        "Plan": "plan",
        "PlanOptions": "plan",
        "Trajectory": "trajectory",
        "check_trajectory": "limits",
        "load_trajectory": "trajectory",
        "ramps": "static",
        "save_trajectory": "trajectory",
        "static_poses": "static",
        "validation_plan": "plan",
    },
)
