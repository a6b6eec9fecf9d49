# SPDX-License-Identifier: Apache-2.0

"""How good a model is, and what is wrong with the data.

`torque_errors`: on data used and not used, cross-validation, torques row by row, whiteness of the errors; `diagnosis`:
mounting, degrees, sign and unit of efforts, by `effort_scale`; `sensor_side`: motor or link; `estimator_advice`: which
estimator suits the data; `verdict`: all of it in words.
"""
