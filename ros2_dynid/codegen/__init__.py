# SPDX-License-Identifier: Apache-2.0

"""Generated dynamics: one expression graph per robot, emitted as C or NumPy, compiled and cached.

`graph` holds expressions and counts operations; `newton_euler_expressions`, `composite`, `functions` and
`regressor_expressions` build them for a robot, `operation_search` looks for few operations. `program` puts a robot's
functions together, `emit_c` and `emit_numpy` write them; `kernels` and `compiled` make the fast library that `backend`
calls. `urdf_export` writes parameters back into a URDF.
"""
