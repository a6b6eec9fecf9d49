# SPDX-License-Identifier: Apache-2.0

"""A NumPy module from the graph: the same functions as the C export, batched over samples in the first axis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as ScipyRotation

from ros2_dynid.codegen.emit_numpy import emit_numpy
from runtime_robots import coupled_loop, with_terms
from small_program import close, small_program


@pytest.mark.parametrize("wrench", [False, True])
def test_coupled_motors_friction_terms_and_a_tool_turned_by_little_are_all_in_the_code(wrench):
    """The module compares torque, velocity torques and friction with the recursions, to 1e-10."""
    rng = np.random.default_rng(6)
    pose = np.eye(4)
    pose[:3, :3] = ScipyRotation.from_rotvec((3e-4, -5e-4, 2e-4)).as_matrix()
    pose[:3, 3] = (0.1, -0.2, 0.3)
    robot = with_terms(replace(coupled_loop(rng), tools={"hand": (7, pose)}), rng)
    program = small_program(robot, wrench=wrench, tool="hand")
    module = emit_numpy(program)[f"{program.name}.py"]
    with pytest.raises(SystemExit) as ended:
        exec(module, {"__name__": "__main__"})
    assert not ended.value.code
    scope = {"__name__": "generated"}
    exec(module, scope)
    q, dq, ddq, carried = (program.tests[0][x][None] for x in ("q", "dq", "ddq", "carried"))
    if not wrench:  # what the split functions add up to is the whole
        M, Q = scope["inertia_gravity"](q)
        sum_of_parts = scope["synchronous"](M, Q + scope["velocity_torques"](q, dq), ddq)
        assert close(sum_of_parts, carried) and close(
            sum_of_parts + scope["friction"](dq, sum_of_parts), program.tests[0]["tau"][None]
        )
