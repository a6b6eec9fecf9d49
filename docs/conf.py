"""Sphinx: the Markdown pages of this folder, and a reference of the Python code made from its docstrings.

    ./dynid python -m sphinx -W -b html docs build/site

rosdoc2 reads this file as well (rosdoc2.yaml). ROS is replaced by stand-ins while modules are imported, so that the
site builds where there is none.
"""

from __future__ import annotations

import ast
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

import ros2_dynid.version  # noqa: E402

project = "ros2_dynid"
author = "ros2_dynid maintainers"
copyright = "ros2_dynid maintainers, Apache-2.0"
version = release = ros2_dynid.version.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
exclude_patterns = ["README.md", "_build"]  # index.rst includes README.md, which GitHub shows for the folder
html_theme = "furo"
html_title = f"ros2_dynid {release}"
html_copy_source = False
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
PACKAGE = Path(ros2_dynid.version.__file__).parent
GENERATED = "api"
ORDER = ("usecases", "model", "dynamics", "base_parameters", "codegen", "excitation", "recording", "identification")
"""Packages as the pipeline uses them; the others follow by name."""
NO_LIBRARY = ("nodes", "commands", "cli", "demo")
"""Not called from Python: nodes.md and --help describe them."""


def packages() -> list[str]:
    """Return the packages at the top of the code, in the order of the pages."""
    rank = {name: k for k, name in enumerate(ORDER)}
    found = [init.parent.name for init in PACKAGE.glob("*/__init__.py") if init.parent.name not in NO_LIBRARY]
    return sorted(found, key=lambda name: (rank.get(name, len(rank)), name))


def exports(folder: Path) -> dict[str, str]:
    """Return the names in a package's __all__, each with the module that defines it, below ros2_dynid."""
    exported: list[str] = []
    origin: dict[str, str] = {}
    for node in ast.parse((folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if alias.asname in (None, alias.name):
                    origin[alias.name] = node.module.removeprefix("ros2_dynid.")
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            exported = [str(item) for item in ast.literal_eval(node.value)]
    found = {}
    for name in exported:
        module = origin.get(name, "")
        there = PACKAGE.joinpath(*module.split("."))
        if (there / "__init__.py").is_file() and module:  # passed on by a package further in
            module = exports(there).get(name, "")
        if module:
            found[name] = module
    return found


def documented(package: str) -> dict[str, set[str]]:
    """Return the modules that a package's page documents, and which names of them; none stands for all.

    What a package exports is public. All modules are documented where it exports nothing.
    """
    found: dict[str, set[str]] = {}
    for init in [PACKAGE / package / "__init__.py", *sorted((PACKAGE / package).glob("*/**/__init__.py"))]:
        here = ".".join(init.parent.relative_to(PACKAGE).parts)
        exported = exports(init.parent)
        for name, module in exported.items():
            if module.startswith(f"{package}."):  # documented where it is defined
                found.setdefault(module, set()).add(name)
        if not exported:
            for file in init.parent.glob("*.py"):
                if not file.name.startswith("_"):
                    found.setdefault(f"{here}.{file.stem}", set())
    return found


def write_reference(app: Sphinx) -> None:
    """Write a page for every package of the code."""
    folder = Path(app.srcdir) / GENERATED
    folder.mkdir(exist_ok=True)
    names = packages()
    wanted = {"index.rst": reference_index([*names, "top"])}
    for name in names:
        wanted[f"{name}.rst"] = reference_page(f"ros2_dynid.{name}", documented(name))
    top = [file.stem for file in PACKAGE.glob("*.py") if not file.name.startswith("_") and file.stem not in NO_LIBRARY]
    wanted["top.rst"] = reference_page("ros2_dynid", {name: set() for name in top})
    for stale in folder.glob("*.rst"):
        if stale.name not in wanted:
            stale.unlink()
    for name, text in wanted.items():
        file = folder / name
        if not file.is_file() or file.read_text() != text:  # Sphinx reads again what has changed
            file.write_text(text)


def reference_index(names: list[str]) -> str:
    """Return the page that lists the packages."""
    listed = "\n".join(f"   {name}" for name in names)
    return (
        "Python reference\n================\n\n"
        "Made from the docstrings of the code. The page :doc:`Python <../python>` lists the names that are stable;\n"
        "the others are for those who work on the package, and may change in any release.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )


def reference_page(package: str, modules: dict[str, set[str]]) -> str:
    """Return the page of a package: what it is, then module after module."""
    lines = [package, "=" * len(package), ""]
    if package != "ros2_dynid":
        lines += [f".. automodule:: {package}", "   :no-members:", ""]
    for module, names in sorted(modules.items()):
        lines += [module, "-" * len(module), "", f".. automodule:: ros2_dynid.{module}"]
        lines += [f"   :members: {', '.join(sorted(names))}", ""] if names else [""]
    return "\n".join(lines)


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
