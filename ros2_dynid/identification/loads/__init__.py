# SPDX-License-Identifier: Apache-2.0

"""Loads: `from_recordings` is the entry; `payload_fit` finds an unknown load, `drive_gains` gains from a known one."""
