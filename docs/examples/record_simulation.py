# SPDX-License-Identifier: Apache-2.0

"""A recording without hardware: a simulated arm (MuJoCo) follows a trajectory, its joint states become a rosbag2 bag.

    ./dynid python docs/examples/record_simulation.py demo6 exciting.yaml recording

The arm weighs other than its robot file says, by up to --spread of each value. Its joints rub, its encoders round, its
torques carry noise, and a PD controller at 1 kHz makes it follow the trajectory as well as such a controller can: the
bag is what a real arm would give. TRAJECTORY is a file that `dynid excite` wrote.
"""

from __future__ import annotations

import argparse

import numpy as np

from ros2_dynid.control.reference import reference
from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.model.load import load_robot
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.plant import Plant
from ros2_dynid.sim.simulated_robot import Imperfections

PERIOD = 1e-3
"""Control period of the simulated arm [s]."""
SETTLE = 1.0
"""Standstill before the motion [s], not recorded."""
LOAD_SIZE = 0.05
"""Radius of the load, a solid ball [m], and the distance of its centre from the last joint's frame along z [m]."""


def main() -> None:
    """Simulate, and write the bag."""
    parser = argparse.ArgumentParser(description="Record a simulated arm into a rosbag2 bag.")
    parser.add_argument("robot", metavar="ROBOT", help="URDF, robot file, or the name of a shipped robot")
    parser.add_argument("trajectory", metavar="TRAJECTORY", help="file that `dynid excite` wrote")
    parser.add_argument("bag", metavar="BAG", help="folder to write; must not exist")
    parser.add_argument("--seed", type=int, default=1, help="of the arm's true parameters and of the noise")
    parser.add_argument("--spread", type=float, default=0.15, help="how far the arm is from its robot file")
    parser.add_argument("--rate", type=int, default=500, help="of the joint states [Hz]; a divisor of 1000")
    parser.add_argument("--load", type=float, default=0.0, help="mass of a ball at the last link [kg]")
    parser.add_argument("--backwards", metavar="JOINT", help="record this joint's effort with the wrong sign")
    args = parser.parse_args()

    robot = load_robot(args.robot)
    motion = load_trajectory(args.trajectory).ordered(robot.active_names).sample(1 / PERIOD)
    plant = Plant(
        robot,
        seed=args.seed,
        spread=args.spread,
        period=PERIOD,
        imperfections=Imperfections(),
        start=motion.q[0],
        stiffness=5.0,
    )
    if args.load:
        inertia = 0.4 * args.load * LOAD_SIZE**2 * np.eye(3)
        plant.sim.attach(args.load, np.array([0.0, 0.0, LOAD_SIZE]), inertia)
    for _ in range(round(SETTLE / PERIOD)):
        plant.step()
    plant.follow(reference(robot.active_names, motion.t, motion.q, motion.dq, motion.ddq))
    measured = [plant.step() for _ in motion.t][:: round(1 / (PERIOD * args.rate))]

    q, dq, tau = (np.array([getattr(m, name) for m in measured]) for name in ("q", "dq", "tau"))
    if args.backwards:
        tau[:, robot.active_names.index(args.backwards)] *= -1
    t = np.arange(len(q)) / args.rate
    save_samples(Samples(t, robot.active_names, q, dq, tau=tau, start_ns=1_700_000_000_000_000_000), args.bag)
    print(f"{args.bag}: {len(t)} joint states of {len(robot.active_names)} joints, {t[-1]:.1f} s at {args.rate} Hz")


if __name__ == "__main__":
    main()
