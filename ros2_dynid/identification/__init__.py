# SPDX-License-Identifier: Apache-2.0

"""Identification: from recordings to a dynamic model with error bars.

| package or module | holds |
| --- | --- |
| `preparation` | a recording becomes smooth motion and torque, and then the rows of tau = W base |
| `friction` | the columns of friction in W |
| `estimators` | R factors of the rows, the estimators on them, and error bars |
| `physical` | essential, standard and physically consistent parameters |
| `validation` | torque errors, cross-validation, wrong signs and units, and the verdict |
| `loads` | a payload, and drive gains from a known one |
| `model_file` | the identified model and model.yaml |
| `torque_data` | measured and predicted torques beside it, data.npz |
| `online` | identification while the robot works |
| `choices`, `options` | what a caller may choose |
"""
