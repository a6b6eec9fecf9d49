# SPDX-License-Identifier: Apache-2.0

"""The version of this package; package.xml carries the same one (a test guards it)."""

__version__ = "0.2.0"
