# SPDX-License-Identifier: Apache-2.0

"""Linear regression on R factors: what recordings say, the estimate from it, and its error bars.

`information`: R factors of [W tau] for each joint and block of time, from which everything is computed;
`build_information` makes it of rows. `least_squares` (ols, wls), `error_bars` (by leaving blocks
out), `dissipative_fit` (friction that brakes), `prior` (regularisation), `two_sensors` (efforts of motors and of links
together). `estimate`: the columns of W and the result by name.
"""
