# SPDX-License-Identifier: Apache-2.0

"""The simulated robot: MuJoCo moves it, with friction, encoders, noise and latency as a real one has them.

`simulated_robot` is the whole, `plant` the mechanics by `mjcf`, `controller` follows trajectories, `truth` draws
parameters that nobody else knows.
"""
