# SPDX-License-Identifier: Apache-2.0

"""Identify an unknown payload: first against recordings without it, then on an identified model."""

import ros2_dynid as dynid
from simulated import simulate

robot = dynid.load_robot("demo6")
empty, loaded = simulate(robot, seed=1), simulate(robot, seed=2, load=1.5)  # or paths of bags

payload = dynid.identify_payload(robot, [loaded], empty=[empty], link="flange")
print(f"mass {payload.mass:.3f} +- {payload.mass_std:.3f} kg")
print(f"centre of mass {payload.com.round(3)} +- {payload.com_std.round(3)} m in {payload.frame}")
print(f"inertia about it [kg.m^2]\n{payload.inertia.round(4)}")

model = dynid.identify(robot, [empty]).model  # once for a robot; later dynid.load_model("result/model.yaml")
quick = dynid.identify_payload(model, [loaded], link="flange")
print(f"on the model: {quick.mass:.3f} +- {quick.mass_std:.3f} kg")
