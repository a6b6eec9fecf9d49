# SPDX-License-Identifier: Apache-2.0

"""Exciting trajectories: how to move a robot so that its base parameters can be identified (Gautier 1992).

`plan` searches by `points` and `point_trajectory` (optimum points joined by `quintic` pieces) or by `fourier` and
`fourier_trajectory`, with the `criteria` and gradients (`sensitivity`) of Gautier 1992; `static` gives poses and ramps.
`limits` checks a trajectory; `collision`, `shapes`, `exact` and `surroundings` keep links apart; `gripper` names joints
that are better held. `trajectory` is what a plan is, and its files.
"""
