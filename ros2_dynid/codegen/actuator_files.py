# SPDX-License-Identifier: Apache-2.0

"""Identified drives as actuators of Isaac Lab, mjlab and Newton: a Python file for each, to be imported.

Names and meaning of the fields are those of Isaac Lab 2.3 (`DelayedPDActuatorCfg`; friction as an effort needs Isaac
Sim 5), mjlab 1.6 (`BuiltinPositionActuatorCfg`) and Newton 1.7 (`newton.actuators`). Delays are steps of the physics,
whose length the file leaves to its user.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ros2_dynid.codegen.mjcf_patch import DriveSettings

HEAD = '''"""Drives of {robot}, identified from commands and positions. Units: N.m, rad, s (prismatic joints: N, m).

{notes}
"""

{imports}

PHYSICS_STEP = 0.005
"""Step of your physics [s]: delays are whole numbers of it."""
'''
DELAY = "round({delay!r} / PHYSICS_STEP)"


def _isaac_lab(drives: Sequence[DriveSettings]) -> str:
    entries = []
    for drive in drives:
        lines = [
            f"joint_names_expr=[{re.escape(drive.joint)!r}]",
            f"stiffness={drive.kp!r}",
            f"damping={drive.damping!r}",
            f"armature={drive.armature!r}",
            f"friction={drive.friction!r}",
            f"dynamic_friction={drive.friction!r}",
            f"min_delay={DELAY.format(delay=drive.delay)}",
            f"max_delay={DELAY.format(delay=drive.delay)}",
            *([f"effort_limit={drive.limit!r}"] if math.isfinite(drive.limit) else []),
        ]
        entries.append(f"    {drive.joint!r}: DelayedPDActuatorCfg({_lines(lines, 8)}    ),\n")
    return "\nACTUATORS = {\n" + "".join(entries) + '}\n"""For ArticulationCfg(actuators=ACTUATORS)."""\n'


def _mjlab(drives: Sequence[DriveSettings]) -> str:
    entries = []
    for drive in drives:
        lines = [
            f"target_names_expr=({re.escape(drive.joint)!r},)",
            f"stiffness={drive.kp!r}",
            f"damping={drive.damping!r}",
            *([f"effort_limit={drive.limit!r}"] if math.isfinite(drive.limit) else []),
            f"armature={drive.armature!r}",
            f"frictionloss={drive.friction!r}",
            f"delay_min_lag={DELAY.format(delay=drive.delay)}",
            f"delay_max_lag={DELAY.format(delay=drive.delay)}",
        ]
        entries.append(f"    BuiltinPositionActuatorCfg({_lines(lines, 8)}    ),\n")
    text = (
        '"""For EntityArticulationInfoCfg(actuators=ACTUATORS), with PHYSICS_STEP as the timestep of the simulation."""'
    )
    return f"\nACTUATORS = (\n{''.join(entries)})\n{text}\n"


def _newton(drives: Sequence[DriveSettings]) -> str:
    rows = []
    for drive in drives:
        limit = repr(drive.limit) if math.isfinite(drive.limit) else "None"
        values = (drive.kp, drive.damping, drive.armature, drive.friction)
        rows.append(f"    {drive.joint!r}: ({', '.join(map(repr, values))}, {limit}, {drive.delay!r}),\n")
    return f'''
DRIVES = {{
{"".join(rows)}}}
"""By joint: kp, kd, armature, friction, largest effort (None: no limit), delay [s]."""


def add_drives(builder):
    """Give the joints of a newton.ModelBuilder their drives, before it is finalized; joints by their names."""
    for joint, label in enumerate(builder.joint_label):
        name = label.rsplit("/", 1)[-1]
        if name not in DRIVES:
            continue
        kp, kd, armature, friction, limit, delay = DRIVES[name]
        dof = builder.joint_qd_start[joint]
        builder.joint_armature[dof], builder.joint_friction[dof] = armature, friction
        builder.joint_target_ke[dof] = builder.joint_target_kd[dof] = 0.0
        clamping = [] if limit is None else [(ClampingMaxEffort, {{"max_effort": limit}})]
        steps = round(delay / PHYSICS_STEP)
        builder.add_actuator(DrivePD, index=dof, kp=kp, kd=kd, delay_steps=steps, clamping=clamping)
'''


def _lines(lines: Sequence[str], indent: int) -> str:
    return "\n" + "".join(f"{' ' * indent}{line},\n" for line in lines)


SIMULATORS: Mapping[str, tuple[str, str, Callable[[Sequence[DriveSettings]], str]]] = MappingProxyType(
    {
        "isaaclab": ("Isaac Lab", "from isaaclab.actuators import DelayedPDActuatorCfg", _isaac_lab),
        "mjlab": ("mjlab", "from mjlab.actuator import BuiltinPositionActuatorCfg", _mjlab),
        "newton": ("Newton", "from newton.actuators import ClampingMaxEffort, DrivePD", _newton),
    }
)
"""By the name of a format: that of the simulator, the import of its file, and its body."""


def actuator_file(simulator: str, robot: str, drives: Sequence[DriveSettings], notes: Sequence[str]) -> str:
    """Return the Python file with the drives for a simulator of SIMULATORS; notes: what it cannot express."""
    _, imports, body = SIMULATORS[simulator]
    text = "\n".join(note.replace("\\", "/").replace('"""', "'''") for note in notes) or "Everything is expressed."
    return HEAD.format(robot=robot.replace('"""', "'''").replace("\\", "/"), notes=text, imports=imports) + body(drives)
