"""How good a model is, and what is wrong with the data.

`torque_errors`: on data used and not used, cross-validation, whiteness of the residual; `comparison`: torques
measured and predicted row by row; `effort_scale`: efforts of
wrong sign or unit, recordings that contradict each other; `verdict`: all of it in words.
"""

from ros2_dynid.identification.validation.comparison import Comparison, compare_torques
from ros2_dynid.identification.validation.torque_errors import (
    Errors,
    cross_validate,
    folds,
    torque_errors,
)
from ros2_dynid.identification.validation.verdict import Level, Remark, verdict

__all__ = [
    "Comparison",
    "Errors",
    "Level",
    "Remark",
    "compare_torques",
    "cross_validate",
    "folds",
    "torque_errors",
    "verdict",
]
