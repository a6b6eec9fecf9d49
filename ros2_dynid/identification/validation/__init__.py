# SPDX-License-Identifier: Apache-2.0

"""How good a model is, and what is wrong with the data.

`torque_errors`: on data used and not used, cross-validation; `row_evidence`: rows for pictures, whiteness of the
residual; `comparison`: torques measured and predicted row by row; `diagnosis`: mounting, degrees, sign and unit of
efforts, from `mounting`, `effort_evidence` and `effort_scale`;
`evidence`: what a verdict rests on; `verdict`: all of it in words.
"""
