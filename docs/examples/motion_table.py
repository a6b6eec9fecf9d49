"""A planned trajectory as a table for `dynid torque`: time, NAME.position, NAME.velocity, NAME.acceleration.

./dynid python docs/examples/motion_table.py exciting.yaml motion.csv --rate 100
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ros2_dynid.excitation.trajectory import load_trajectory
from ros2_dynid.recording.convert import save_samples
from ros2_dynid.recording.samples import Samples


def main() -> None:
    """Sample the trajectory and write the table."""
    parser = argparse.ArgumentParser(description="Write a trajectory as a table of q, dq and ddq.")
    parser.add_argument("trajectory", metavar="TRAJECTORY", help="file that `dynid excite` wrote")
    parser.add_argument("table", metavar="CSV", help="file to write: .csv, or .npz")
    parser.add_argument("--rate", type=float, default=100.0, help="samples in a second [Hz]")
    args = parser.parse_args()
    trajectory = load_trajectory(args.trajectory)
    motion = trajectory.sample(args.rate)
    save_samples(
        Samples(motion.t, trajectory.joint_names, motion.q, motion.dq, motion.ddq), Path(args.table), overwrite=True
    )
    print(f"{args.table}: {len(motion.t)} samples of {len(trajectory.joint_names)} joints")


if __name__ == "__main__":
    main()
