# SPDX-License-Identifier: Apache-2.0

"""Linear regression on R factors: what recordings say, the estimate from it, and its error bars.

`information`: R factors of [W tau] for each joint and block of time, from which everything is computed;
`build_information` makes it of rows. `least_squares` (ols, wls), `covariance` (error bars by leaving blocks out),
`dissipative_fit` (friction that brakes), `prior` (regularisation), `two_sensors` (efforts of motors and of links
together). `column_layout`: the columns of W by name; `estimate`: the result by name; `identified_terms`: its friction.
"""
