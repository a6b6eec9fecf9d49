# SPDX-License-Identifier: Apache-2.0

"""How good a model is, and what is wrong with the data.

`torque_errors`: on data used and not used, torques row by row, whiteness of the errors; `cross_validation`: stretches
left out in turn; `diagnosis`: what is wrong with recordings, by `effort_sign_and_unit`, `gravity_share` and `mounting`,
each a `finding`; `sensor_side`: motor or link; `estimator_advice`: which estimator suits the data; `verdict`: all of it
in words.
"""
