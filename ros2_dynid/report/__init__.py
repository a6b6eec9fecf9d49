# SPDX-License-Identifier: Apache-2.0

"""Reports of an identification: one HTML page, figures for papers, and tables.

`build` writes them; `page` is the HTML, `page_data` what it shows, `figures` and `tables` are for papers, `compare`
finds what changed between models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ros2_dynid.exports import lazy_exports

if TYPE_CHECKING:
    from ros2_dynid.report.build import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
__getattr__ = lazy_exports(
    __name__,
    {
        "write_comparison": "build",
        "write_report": "build",
    },
)
