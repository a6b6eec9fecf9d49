# SPDX-License-Identifier: Apache-2.0

"""The estimators: `estimator` gives each as a function from blocks of time to an estimate.

ols and wls are in `regression.least_squares`; `robust` (irls), `total_least_squares`, `instrumental` (iv), `idim_iv`,
`didim`, `energy_rows`, `sequential` and `joint_by_joint` (recursive) are here, one a file. `simulated_loop`: the motion
of an estimate's own closed loop.
"""
