# SPDX-License-Identifier: Apache-2.0

"""Shared by the commands: arguments for robots and recordings, and the spelling of options."""
