"""How good a model is, and what is wrong with the data.

`torque_errors`: on data used and not used, cross-validation; `row_evidence`: rows for pictures, whiteness of the
residual; `comparison`: torques measured and predicted row by row; `diagnosis`: mounting, degrees, sign and unit of
efforts, from `mounting`, `effort_evidence` and `effort_scale`;
`evidence`: what a verdict rests on; `verdict`: all of it in words.
"""

from ros2_dynid.identification.validation.comparison import Comparison, FittedTorques, compare_torques, fitted_torques
from ros2_dynid.identification.validation.evidence import Evidence, evidence_of
from ros2_dynid.identification.validation.torque_errors import (
    Errors,
    HeldOut,
    LeftOut,
    ValidatedBy,
    cross_validate,
    folds,
    held_out_in_folds,
    torque_errors,
)
from ros2_dynid.identification.validation.verdict import Level, Remark, verdict

__all__ = [
    "Comparison",
    "Errors",
    "Evidence",
    "FittedTorques",
    "HeldOut",
    "LeftOut",
    "Level",
    "Remark",
    "ValidatedBy",
    "compare_torques",
    "cross_validate",
    "evidence_of",
    "fitted_torques",
    "folds",
    "held_out_in_folds",
    "torque_errors",
    "verdict",
]
