# SPDX-License-Identifier: Apache-2.0

"""Replay of a recording into the nodes."""
