# SPDX-License-Identifier: Apache-2.0

"""Sphinx: the Markdown pages of this folder, and a reference of the Python code made from its docstrings.

    ./dynid python -m sphinx -W -b html docs build/site

rosdoc2 reads this file as well (rosdoc2.yaml). ROS is replaced by stand-ins while modules are imported, so that the
site builds where there is none.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
for above in HERE.parents:  # rosdoc2 builds in a copy of this folder, and the package is installed there
    if (above / "ros2_dynid" / "version.py").is_file():
        sys.path.insert(0, str(above))
        break

import ros2_dynid  # noqa: E402

project = "ros2_dynid"
author = "ros2_dynid maintainers"
copyright = "ros2_dynid maintainers, Apache-2.0"
version = release = ros2_dynid.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["README.md", "_build"]  # index.rst includes README.md, which GitHub shows for the folder
html_theme = "furo"
html_title = f"ros2_dynid {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["tables.css"]
myst_heading_anchors = 3
suppress_warnings = [
    "myst.header",  # pages of tables have sections of the third level below their title
    "ref.python",  # a name in an annotation may stand for one of two classes
    "toc.not_included",  # the pages of single papers are reached from reproduction/README.md
]

add_module_names = False
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": False}
autodoc_typehints = "signature"
autodoc_use_type_comments = False  # there are none, and looking for them takes a tenth of the build
autodoc_typehints_format = "short"
toc_object_entries = False
python_maximum_signature_line_length = 100
GENERATED = "api"


def write_reference(app: Sphinx) -> None:
    """Write the page of the public Python names: functions first, then types."""
    exported = [name for name in ros2_dynid.__all__ if not name.startswith("_")]
    functions = [name for name in exported if not isinstance(getattr(ros2_dynid, name), type)]
    types = [name for name in exported if name not in functions]
    lines = ["Python reference", "================", ""]
    lines += ["What ``import ros2_dynid as dynid`` offers; :doc:`Python <../python>` is the overview.", ""]
    lines += [line for name in functions for line in (f".. autofunction:: ros2_dynid.{name}", "")]
    lines += [line for name in types for line in (f".. autoclass:: ros2_dynid.{name}", "   :members:", "")]
    text = "\n".join(lines)
    file = Path(app.srcdir) / GENERATED / "index.rst"
    file.parent.mkdir(exist_ok=True)
    if not file.is_file() or file.read_text() != text:  # Sphinx reads again what has changed
        file.write_text(text)


def plain_text(app: Sphinx, what: str, name: str, obj: object, options: dict[str, Any], lines: list[str]) -> None:
    """Turn a docstring, which is plain text, into reStructuredText that looks the same.

    Equations keep their asterisks, bars and underscores, `code` is set as code, and what is indented (a table, a
    derivation) is kept line by line.
    """
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))
    done: list[str] = []
    for paragraph in paragraphs:
        rows = paragraph.splitlines()
        if not rows:
            continue
        if all(re.match(r"([-*] |  )", row) for row in rows) and not rows[0].startswith(" "):
            done += [row[:2].replace("*", "-") + escaped(row[2:]) for row in rows]
        elif any(row.startswith(" ") for row in rows):
            done += ["| " + escaped(row).replace("  ", "\u00a0 ") if row.strip() else "|" for row in rows]
        else:
            done.append(escaped(" ".join(rows)))
        done.append("")
    lines[:] = done


def escaped(text: str) -> str:
    """Return text with reStructuredText's marks escaped and `code` marked as code."""
    parts = re.split(r"(`+[^`]+`+)", text)
    return "".join(
        f"``{part.strip('`')}``\\ " if part.startswith("`") else re.sub(r"([\\*|_`])", r"\\\1", part) for part in parts
    )


def setup(app: Sphinx) -> None:
    """Join our steps to Sphinx's."""
    app.connect("builder-inited", write_reference)
    app.connect("autodoc-process-docstring", plain_text)
