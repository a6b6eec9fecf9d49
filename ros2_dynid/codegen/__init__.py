# SPDX-License-Identifier: Apache-2.0

"""Generated dynamics: one expression graph per robot, emitted as C or NumPy, compiled and cached.

`graph` holds expressions and counts operations; `newton_euler_expressions`, `composite`, `functions` and
`regressor_expressions` build them for a robot, `representation`, `factor` and `operation_search` look for few
operations. `program` puts a robot's functions together, `emit_c` and `emit_numpy` write them; `kernels` and `compiled`
make the fast library that `backend` calls. `urdf_export` writes parameters back into a URDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.codegen.backend import fast_inverse_dynamics, fast_regressor, torque_function
    from ros2_dynid.codegen.compiled import BuildError
    from ros2_dynid.codegen.program import ProgramOptions, program_of
    from ros2_dynid.codegen.urdf_export import updated_urdf

__all__ = [
    "BuildError",
    "ProgramOptions",
    "fast_inverse_dynamics",
    "fast_regressor",
    "program_of",
    "torque_function",
    "updated_urdf",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "BuildError": "compiled",
        "ProgramOptions": "program",
        "fast_inverse_dynamics": "backend",
        "fast_regressor": "backend",
        "program_of": "program",
        "torque_function": "backend",
        "updated_urdf": "urdf_export",
    },
)
