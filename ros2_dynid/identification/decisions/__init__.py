# SPDX-License-Identifier: Apache-2.0

"""What the data decide before the estimate, each with its evidence and thresholds: `lower_row_cutoff` (how much of the
spectrum is used), `effort_delay` (efforts recorded late), `friction_law` (which terms, by `friction_selection`).
"""
