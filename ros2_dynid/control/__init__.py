# SPDX-License-Identifier: Apache-2.0

"""What a controller does with a trajectory and a model: references between points, stops within limits, feedforward."""
