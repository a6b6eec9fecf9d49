# SPDX-License-Identifier: Apache-2.0

"""Preparation: a recording becomes smooth motion and torque on an even grid, and then the rows of tau = W base.

In the order of the work: `usable` (can it be used at all?), `even_grid` (stretches on an even grid, with `repeats`,
`quantum`, `clock`, `spline`), `cutoffs` (filters that the spectrum proposes), `filters`, `derivatives` (velocities,
accelerations), `prepare` (all of this for one recording), `pieces` (for one that is larger than memory), `prepared`
(the result, and efforts recorded late), `rows` (regressor and torque through the second filter).
`preparation_options` is what a caller may choose.
"""

from ros2_dynid.identification.options import PreparationOptions
from ros2_dynid.identification.preparation.filters import Cutoffs, propose, spectrum
from ros2_dynid.identification.preparation.prepare import prepare, prepare_pieces
from ros2_dynid.identification.preparation.prepared import Filter, Prepared, as_prepared, shift_effort
from ros2_dynid.identification.preparation.rows import Rows, row_chunks, row_count, row_times

__all__ = [
    "Cutoffs",
    "Filter",
    "PreparationOptions",
    "Prepared",
    "Rows",
    "as_prepared",
    "prepare",
    "prepare_pieces",
    "propose",
    "row_chunks",
    "row_count",
    "row_times",
    "shift_effort",
    "spectrum",
]
