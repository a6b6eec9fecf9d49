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
autodoc_typehints_format = "short"
toc_object_entries = False
python_maximum_signature_line_length = 100
PACKAGE = Path(ros2_dynid.version.__file__).parent
GENERATED = "api"
ORDER = ("usecases", "model", "dynamics", "base_parameters", "codegen", "excitation", "recording", "identification")
"""Packages as the pipeline uses them; the others follow by name."""
NO_LIBRARY = ("nodes", "commands", "cli", "demo")
"""Not called from Python: nodes.md and --help describe them."""


def packages() -> dict[str, list[str]]:
    """Return the public modules of every package of the code, by the package's name; files at the top are in ''."""
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] in NO_LIBRARY or any(part.startswith("_") for part in parts[:-1]):
            continue
        if parts[-1] == "__init__":
            found.setdefault(parts[0] if len(parts) > 1 else "", [])
            parts = parts[:-1]
            if len(parts) < 2:
                continue
        elif parts[-1].startswith("_"):
            continue
        found.setdefault(parts[0] if len(parts) > 1 else "", []).append(".".join(parts))
    return found


def public_names(file: Path) -> dict[str, str]:
    """Return the names that a package exports in __all__, each with the full name of what it stands for."""
    tree = ast.parse(file.read_text())
    exported: list[str] = []
    origin: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            origin |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            exported = [str(item) for item in ast.literal_eval(node.value)]
    return {name: origin[name] for name in exported if name in origin}


def write_reference(app: Sphinx) -> None:
    """Write a page for every package of the code."""
    folder = Path(app.srcdir) / GENERATED
    folder.mkdir(exist_ok=True)
    found = packages()
    rank = {name: k for k, name in enumerate(ORDER)}
    names = sorted((name for name in found if name), key=lambda name: (rank.get(name, len(rank)), name))
    wanted = {"index.rst": reference_index([*names, "top"])}
    for name in names:
        wanted[f"{name}.rst"] = reference_page(f"ros2_dynid.{name}", found[name])
    wanted["top.rst"] = reference_page("ros2_dynid", found[""])
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
        "Made from the docstrings of the code. The command line, the nodes and the file formats are the stable\n"
        "interface; Python names may still change before version 1.0.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )


def reference_page(package: str, modules: list[str]) -> str:
    """Return the page of a package: what it is, then the names it exports, or all modules where it exports none."""
    lines = [package, "=" * len(package), ""]
    exported: dict[str, str] = {}
    if package != "ros2_dynid":
        lines += [f".. automodule:: {package}", "   :no-members:", ""]
        names_here = public_names(PACKAGE / package.partition(".")[2] / "__init__.py")
        exported = {name: full for name, full in names_here.items() if full.startswith(f"{package}.")}
    sources = {full.rpartition(".")[0] for full in exported.values()} or {f"ros2_dynid.{name}" for name in modules}
    for module in sorted(sources):
        names = [full.rpartition(".")[2] for full in exported.values() if full.rpartition(".")[0] == module]
        title = module.removeprefix("ros2_dynid.")
        lines += [title, "-" * len(title), "", f".. automodule:: {module}"]
        lines += [f"   :members: {', '.join(names)}", ""] if names else [""]
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
