# SPDX-License-Identifier: Apache-2.0

"""From base parameters to physical ones.

`essential` drops parameters that the data do not support; `standard` finds the standard parameters closest to a priori
ones; `consistency` tests whether links could exist, and finds those that can.
"""
