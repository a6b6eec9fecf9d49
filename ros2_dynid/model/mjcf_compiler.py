# SPDX-License-Identifier: Apache-2.0

"""MuJoCo's own reading of an MJCF file: its parser and compiler, in a process with limits, give the numbers.

What the dynamics do not need (textures, sensors, shapes of bodies that state their inertia) is removed before MuJoCo
compiles the model, so that meshes are read only where they are weighed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any, TypeAlias

from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.model.reader_process import Limits, output_of, words_of

CompiledMjcf: TypeAlias = dict[str, Any]
"""Fields of MuJoCo's mjModel by name, as lists; the names of bodies, joints, sites and tendons under `names`."""

LIMITS = Limits(seconds=7, memory=450_000_000)
"""Of MuJoCo: `<replicate>` makes any number of bodies of a short file."""
MEMORY_OF_MESHES, MOST_MEMORY = 20, 2_000_000_000
"""Memory for each byte of the meshes that are weighed, and at most [bytes]."""
MOST_OBJECTS = 10_000
"""Bodies, joints and sites: a robot has hundreds."""
FIELDS = (
    *("body_parentid", "body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia"),
    *("body_gravcomp", "site_bodyid", "site_pos", "site_quat"),
    *(
        "jnt_type",
        "jnt_bodyid",
        "jnt_pos",
        "jnt_axis",
        "jnt_limited",
        "jnt_range",
        "jnt_stiffness",
        "jnt_stiffnesspoly",
    ),
    *("jnt_qposadr", "jnt_dofadr", "jnt_actfrclimited", "jnt_actfrcrange", "qpos0", "qpos_spring"),
    *("dof_armature", "dof_damping", "dof_dampingpoly", "dof_frictionloss"),
    *("actuator_trntype", "actuator_trnid", "actuator_gear", "actuator_gaintype", "actuator_gainprm"),
    *("actuator_biastype", "actuator_biasprm", "actuator_forcelimited", "actuator_forcerange", "actuator_armature"),
    *("actuator_ctrllimited", "actuator_ctrlrange", "actuator_damping", "actuator_dampingpoly"),
    *("actuator_dyntype", "actuator_delay"),
    *("eq_type", "eq_objtype", "eq_obj1id", "eq_obj2id", "eq_active0", "eq_data"),
    *("tendon_adr", "tendon_num", "tendon_stiffness", "tendon_damping", "tendon_armature", "tendon_frictionloss"),
    *("wrap_type", "wrap_objid"),
)
"""What is read of mjModel; fields that an older MuJoCo does not have are left out."""


def compile_mjcf(file: Path, text: bytes | None = None) -> CompiledMjcf:
    """Return the compiled model of an MJCF file, or of a text that stands for it in its folder."""
    if importlib.util.find_spec("mujoco") is None:
        raise MissingPackageError("mujoco", f"{file}: an MJCF file")
    command = ["-m", "ros2_dynid.model.mjcf_compiler", str(file)]
    run = output_of(command) if text is None else output_of([*command, "-"], text=text.decode("utf-8", "replace"))
    if run.returncode == 0:
        compiled: CompiledMjcf = json.loads(run.stdout)
        return compiled
    why = words_of(run, LIMITS)
    hint = "keep its files (meshes, includes) beside it" if "file" in why else "correct it"
    raise InputError(f"MuJoCo refuses it: {why}", hint, str(file))


def remove_what_has_no_dynamics(spec: Any) -> None:
    """Remove from a parsed model what its joints' torques do not depend on, and the shapes that weigh nothing."""
    from mujoco import mjtInertiaFromGeom

    TRUE = mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    for elements in (
        *(spec.keys, spec.sensors, spec.cameras, spec.lights, spec.skins, spec.pairs, spec.excludes, spec.tuples),
        *(spec.textures, spec.hfields),
    ):
        for element in list(elements):
            spec.delete(element)
    weighed = set()
    for body in spec.bodies:
        stated = body.explicitinertial and spec.compiler.inertiafromgeom != TRUE
        for geom in list(body.geoms):
            if stated or _is_static(body) or not _weighs(geom, spec.compiler.inertiagrouprange):
                spec.delete(geom)
            else:
                geom.material = ""
                weighed.add(geom.meshname)
    for mesh in [mesh for mesh in spec.meshes if (mesh.name or Path(mesh.file).stem) not in weighed]:
        spec.delete(mesh)
    for material in list(spec.materials):
        spec.delete(material)


def _is_static(body: Any) -> bool:
    """Return whether no joint lies between a body and the world."""
    while body.parent is not None:
        if body.joints:
            return False
        body = body.parent
    return True


def _weighs(geom: Any, groups: Any) -> bool:
    """Return whether a shape counts where MuJoCo computes the inertia of its body from shapes."""
    mass_is_zero = geom.mass == 0 or (geom.mass != geom.mass and geom.density == 0)  # NaN: not given
    return not mass_is_zero and groups[0] <= geom.group <= groups[1]


def _allow_meshes(spec: Any, file: str) -> None:
    """Raise the limit of memory by what the meshes that are weighed take, as large as their files are."""
    folder = Path(file).parent / (spec.modelfiledir or "") / (spec.meshdir or "")
    files = [folder / mesh.file for mesh in spec.meshes if mesh.file]
    size = sum(one.stat().st_size for one in files if one.is_file())
    allowed = min(LIMITS.memory + MEMORY_OF_MESHES * size, MOST_MEMORY)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, MOST_MEMORY))


def _print_compiled(file: str, text: str | None) -> None:
    """Print the compiled model of a file, or of a text in its place, as JSON."""
    import mujoco
    import numpy as np

    if text is None:
        spec = mujoco.MjSpec.from_file(file)
    else:
        os.chdir(Path(file).parent)
        file = Path(file).name
        spec = mujoco.MjSpec.from_string(text)
        spec.modelfiledir = "."
    spec.compiler.usethread = 0  # each thread takes memory of its own
    assembly = list(spec.keys[0].qpos) if spec.keys else []
    remove_what_has_no_dynamics(spec)
    _allow_meshes(spec, file)
    model = spec.compile()
    if max(model.nbody, model.njnt, model.nsite) > MOST_OBJECTS:
        sys.exit(f"it has more than {MOST_OBJECTS} bodies, joints or sites")
    kinds = {"body": model.nbody, "jnt": model.njnt, "site": model.nsite, "tendon": model.ntendon}
    objects = {"body": "BODY", "jnt": "JOINT", "site": "SITE", "tendon": "TENDON"}
    compiled: CompiledMjcf = {
        name: np.asarray(getattr(model, name)).tolist() for name in FIELDS if hasattr(model, name)
    }
    compiled["names"] = {
        kind: [
            mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{objects[kind]}"), i) or "" for i in range(count)
        ]
        for kind, count in kinds.items()
    }
    weightless = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY
    compiled["gravity"] = [0.0, 0.0, 0.0] if weightless else model.opt.gravity.tolist()
    compiled["fluid"] = [model.opt.density, model.opt.viscosity]
    compiled["model"] = spec.modelname
    compiled["assembly"] = [float(x) for x in assembly] if len(assembly) == model.nq else []
    compiled["timestep"] = model.opt.timestep
    json.dump(compiled, sys.stdout)


if __name__ == "__main__":
    LIMITS.set(hard_memory=MOST_MEMORY)
    try:
        _print_compiled(sys.argv[1], sys.stdin.buffer.read().decode() if sys.argv[2:] else None)
    except BaseException as error:
        sys.exit(" ".join(str(error).split())[:200] or type(error).__name__)
