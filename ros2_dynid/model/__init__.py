# SPDX-License-Identifier: Apache-2.0

"""The robot as frozen data, and its readers for URDFs and robot files.

`robot` is the data in modified Denavit-Hartenberg form, `parameters` names, orders and units of the standard
parameters, `friction` the terms of friction laws, `efforts` what a measured and a commanded effort means. `load` finds
and reads a robot: `urdf`, `mdh` and `from_urdf` turn a URDF into one, `robot_file` a table; `joint_limits` adds
MoveIt's limits, `inertia` is the algebra of bodies.
"""
