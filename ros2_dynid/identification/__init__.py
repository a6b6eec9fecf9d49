# SPDX-License-Identifier: Apache-2.0

"""Identification: from recordings to a dynamic model with error bars.

| package or module | holds |
| --- | --- |
| `preparation` | a recording becomes smooth motion and torque, and then the rows of tau = W base |
| `friction_columns` | the columns of friction in W, and laws by name |
| `regression` | R factors of the rows, least squares on them, and error bars |
| `decisions` | what the data decide: cut-off of the rows, delay of the effort, friction law |
| `estimators` | the estimators, one file each |
| `physical` | essential, standard and physically consistent parameters |
| `validation` | torque errors, cross-validation, wrong signs and units, and the verdict |
| `loads` | a payload, and drive gains from a known one |
| `recordings` ... `result` | the stages, in the order of `pipeline.identify` |
| `model_file` | the identified model, model.yaml, and data.npz beside it |
| `online` | identification while the robot works |
| `options` | what a caller may choose |
"""
