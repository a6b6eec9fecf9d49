# SPDX-License-Identifier: Apache-2.0

"""The simulated robot: MuJoCo moves it, with friction, encoders, noise and latency as a real one has them.

`simulated_robot` is the whole, `plant` the mechanics by `mjcf`, `controller` follows trajectories, `truth` draws
parameters that nobody else knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot
    from ros2_dynid.sim.truth import true_parameters

__all__ = ["Imperfections", "SimulatedRobot", "true_parameters"]
__getattr__ = lazy_exports(
    __name__,
    {
        "Imperfections": "simulated_robot",
        "SimulatedRobot": "simulated_robot",
        "true_parameters": "truth",
    },
)
