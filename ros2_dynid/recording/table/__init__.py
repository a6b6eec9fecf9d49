# SPDX-License-Identifier: Apache-2.0

"""Tables: CSV logs and npz files, and which column is which signal."""

from ros2_dynid.recording.table.column_map import parse_columns
from ros2_dynid.recording.table.read_table import TABLES, iter_table

__all__ = ["TABLES", "iter_table", "parse_columns"]
