# SPDX-License-Identifier: Apache-2.0

"""Identify a robot from bags of joint states: python identify_bag.py [ROBOT BAG VALIDATION_BAG]."""

import sys
from pathlib import Path

import ros2_dynid as dynid
from simulated import simulate

if len(sys.argv) == 4:
    description, recorded, validation = sys.argv[1:]
else:  # no robot at hand: make the bags
    description, recorded, validation = "demo6", "recording", "validation"
    for seed, bag in enumerate((recorded, validation)):
        if not Path(bag).exists():
            dynid.write_recording(simulate(dynid.load_robot(description), seed=seed), bag)

robot = dynid.load_robot(description)
identified = dynid.identify(robot, [recorded], validate=[validation], output="result", overwrite=True)

for row in identified.model.table():
    print(f"{row.name:6} {row.value:10.4f} +- {row.std or float('nan'):.4f} {row.unit:8} = {row.expression}")
for remark in identified.outcome.verdict:
    print(remark.text)
print(f"error on the validation bag: {100 * identified.outcome.validation['all'].relative:.2f} % of the torque")
print("written: result/model.yaml, result/report.html")
