# SPDX-License-Identifier: Apache-2.0

"""Identification while the robot works."""
