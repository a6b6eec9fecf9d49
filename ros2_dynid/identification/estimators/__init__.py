"""Estimators on R factors, and error bars that account for correlated residuals.

`information`: what recordings say, R factors of [W tau] for each joint and block of time, from which everything is
computed. `least_squares` (ols, wls), `robust` (irls), `total_least_squares`, `instrumental` (iv), `idim_iv`, `didim`,
`energy_rows`, `sequential` and `recursive` are the estimators, one a file; `fit` gives each as a function from blocks
to an estimate. `simulated_loop`: the motion of an estimate's own closed loop. `covariance`: error bars by leaving
blocks out. `column_layout`: the columns of W by name; `estimate`: the result by name.
"""

from ros2_dynid.identification.estimators.column_layout import ColumnLayout, Triangle
from ros2_dynid.identification.estimators.estimate import Estimate
from ros2_dynid.identification.estimators.fit import Fit, Problem, fitter, identify_arrays, inform
from ros2_dynid.identification.estimators.information import Block, Information, combine, gather
from ros2_dynid.identification.estimators.least_squares import Solution, ols, solve, wls

__all__ = [
    "Block",
    "ColumnLayout",
    "Estimate",
    "Fit",
    "Information",
    "Problem",
    "Solution",
    "Triangle",
    "combine",
    "fitter",
    "gather",
    "identify_arrays",
    "inform",
    "ols",
    "solve",
    "wls",
]
