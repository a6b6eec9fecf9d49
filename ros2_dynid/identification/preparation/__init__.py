# SPDX-License-Identifier: Apache-2.0

"""Preparation: a recording becomes smooth motion and torque on an even grid, and then the rows of tau = W base.

In the order of the work: `even_grid` (stretches on an even grid), `cutoffs` (those that the spectrum proposes),
`filters` (low-pass filters), `prepare` (all of this for one recording, also in pieces), `prepared` (the result, and
efforts recorded late), `repetition` (motions that repeat), `rows` (regressor and torque through the second
filter).
"""
