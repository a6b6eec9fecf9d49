# SPDX-License-Identifier: Apache-2.0

"""The model as one flat file for the C++ runtime in include/ros2_dynid: little endian, versioned, with a checksum."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.codegen.runtime_export import runtime_bytes
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names
from runtime_robots import coupled_loop, with_forces, with_terms


class Reader:
    def __init__(self, data):
        assert data[:8] == b"DYNIDRT\n"
        self.version, crc, length = struct.unpack("<III", data[8:20])
        self.data, self.at = data[20:], 0
        assert crc == zlib.crc32(self.data) and length == len(self.data)

    def take(self, form, count=1):
        found = struct.unpack_from(f"<{count}{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{count}{form}")
        return found if count > 1 else found[0]

    def text(self):
        length = self.take("I")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def weights(self):
        return {self.take("I"): self.take("d") for _ in range(self.take("I"))}


def read_runtime(data):
    """Return the model in a runtime file as plain values, by the layout in its header (include/ros2_dynid)."""
    r = Reader(data)
    found = {"version": r.version, "name": r.text(), "gravity": r.take("d", 3), "base": r.take("d", 12), "joints": []}
    for _ in range(r.take("I")):
        found["joints"].append((r.text(), r.take("I", 2), r.take("d", 6), r.take("d", 5), r.take("d", 14)))
    found["coupling"] = [(r.take("I", 2), r.take("d", 3), r.weights()) for _ in range(r.take("I"))]
    found["passive"] = [(r.take("I"), r.take("d"), r.weights()) for _ in range(r.take("I"))]
    found["friction"] = [(r.take("I", 2), r.take("d", 2)) for _ in range(r.take("I"))]
    found["forces"] = []
    for _ in range(r.take("I") if r.version >= 2 else 0):
        pivoted, rest = r.take("I"), r.take("d")
        where = [(r.take("I"), r.take("d", 3)) for _ in range(2)] if pivoted else r.weights()
        found["forces"].append((rest, where, [(r.take("I"), r.take("d")) for _ in range(r.take("I"))]))
    found["warm"] = [(r.take("I", 2), r.take("d", 2)) for _ in range(r.take("I") if r.version >= 3 else 0)]
    found["tools"] = [(r.text(), r.take("I"), r.take("d", 12)) for _ in range(r.take("I"))]
    found["bars"] = [r.take("d", 2) for _ in range(len(found["joints"]) - len(found["passive"]))]
    active = len(found["bars"])
    found["adds"] = [(r.take("I", 3), r.take("d")) for _ in range(active if r.version >= 4 else 0)]
    found["recorded"] = [r.take("d") for _ in found["friction"]] if r.version >= 5 else []
    assert r.at == len(r.data)
    return found


@pytest.mark.parametrize("which", ["loop", "springs"])
def test_a_runtime_file_says_all_of_the_model(which):
    rng = np.random.default_rng(2)
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(rng)
    robot = with_terms(robot, rng)
    pose = np.eye(4)
    pose[:3, 3] = (0.1, 0.2, 0.3)
    robot = replace(robot, tools={"base_tool": (0, pose), "händ": (robot.n, pose)})
    chi = rng.normal(size=len(standard_names(robot)))
    place = dict(zip(standard_names(robot), chi.tolist(), strict=True))
    n = len(robot.active)
    found = read_runtime(runtime_bytes(robot, chi, ErrorBars(np.arange(n) + 1.0, -np.arange(n) - 1.0)))
    declared = [robot.joints[j - 1].adds for j in robot.active]
    assert (found["version"], found["name"]) == (5, robot.name)
    assert found["recorded"] == [term.recorded_speed for term in robot.friction]
    older = replace(robot, friction=tuple(replace(term, recorded_speed=0.0) for term in robot.friction))
    version = read_runtime(runtime_bytes(older, chi))["version"]
    assert version == (4 if any(declared) else 2 if robot.forces else 1)
    assert found["adds"] == [
        ((0, 0, 0), 0.0) if one is None else ((1, one.gravity, one.payload), one.friction) for one in declared
    ]
    assert found["gravity"] == tuple(robot.gravity)
    assert found["base"] == (*robot.base[:3, :3].ravel(), *robot.base[:3, 3])
    for (name, numbers, geometry, limits, values), joint, own in zip(
        found["joints"], robot.joints, chi[: 14 * robot.n].reshape(-1, 14), strict=True
    ):
        assert (name, numbers) == (joint.name, (joint.parent, joint.sigma))
        assert geometry == (joint.gamma, joint.b, joint.alpha, joint.d, joint.theta, joint.r)
        lim = joint.limits
        assert limits == (lim.lower, lim.upper, lim.velocity, lim.acceleration, lim.effort) and values == tuple(own)
    for (numbers, values, weights), own in zip(found["coupling"], robot.coupling, strict=True):
        m = own.motor
        assert numbers == (m, int(own.independent_inertia)) and weights == dict(own.weights)
        assert values == (place.get(f"Iam{m}", 0.0), place[f"Fvm{m}"], place[f"Fcm{m}"])
    assert found["passive"] == [(p.joint, p.offset, dict(p.terms)) for p in robot.passive]
    assert found["friction"] == [((t.joint, t.kind.code), (t.coefficient, t.shape)) for t in robot.friction]
    for k, ((rest, where, powers), own) in enumerate(zip(found["forces"], robot.forces, strict=True), start=1):
        assert rest == own.rest
        assert where == ([(p.joint, p.point) for p in own.pivots] if own.pivots else dict(own.weights))
        assert [p for p, _ in powers] == list(own.powers)
        assert [c for _, c in powers] == [v for name, v in place.items() if name[0] == "K" and name[2:] == str(k)]
    assert found["tools"] == [("händ", robot.n, (*pose[:3, :3].ravel(), 0.1, 0.2, 0.3))]
    assert found["bars"] == [(k + 1.0, -k - 1.0) for k in range(n)]
    assert np.isnan(read_runtime(runtime_bytes(robot, chi))["bars"]).all()
    for wrong in (chi[:-1], np.where(np.arange(len(chi)) == 3, np.nan, chi)):
        with pytest.raises(InputError, match="missing or not finite"):
            runtime_bytes(robot, wrong)


@pytest.mark.parametrize("which", ["loop", "springs"])
def test_a_runtime_file_tells_how_friction_changes_with_the_temperature(which):
    rng = np.random.default_rng(3)
    robot = with_forces(load_robot("demo6")) if which == "springs" else coupled_loop(rng)
    robot = with_terms(robot, rng)
    robot = replace(robot, friction=tuple(replace(term, recorded_speed=0.0) for term in robot.friction))
    first, last = robot.active[0], robot.active[-1]
    warm = (
        FrictionTerm(last, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0),
        FrictionTerm(first, FrictionKind.TEMPERATURE, 0.04, reference=28.0),
    )
    chi = rng.normal(size=len(standard_names(robot)))
    cold = read_runtime(runtime_bytes(robot, chi))
    found = read_runtime(runtime_bytes(replace(robot, friction=(warm[0], *robot.friction, warm[1])), chi))
    assert found["warm"] == [((last, 1), (-0.15, 35.0)), ((first, 0), (0.04, 28.0))] and cold["warm"] == []
    declared = any(robot.joints[j - 1].adds is not None for j in robot.active)
    assert found["version"] == (4 if declared else 3)
    assert cold["version"] == (4 if declared else 2 if robot.forces else 1)
    for key in set(found) - {"warm", "version", "bars"}:
        assert found[key] == cold[key], key
