# SPDX-License-Identifier: Apache-2.0

"""The documentation builds as a site without a warning, and the reference has every public Python name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import ros2_dynid as dynid
from browser import browser
from pages import ROOT

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")

pytestmark = pytest.mark.timeout(600)


def test_the_site_builds_and_is_complete(tmp_path: Path) -> None:
    """One test: workers that share the tests would build it once each, for most of a minute."""
    site = built(tmp_path)
    every_page_is_there(site)
    the_first_page_leads_to_all_pages_of_the_folder(site)
    the_reference_documents_every_public_name(site)
    no_page_is_wider_than_its_window(site)


def built(folder: Path) -> Path:
    """Build the site from a copy: the build writes the pages of the reference beside the sources."""
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("api", "__pycache__"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-j", "2", "-q", "-b", "html", "docs", "html"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def every_page_is_there(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / ("index.html" if str(name) == "README.html" else name)).is_file(), name


def the_first_page_leads_to_all_pages_of_the_folder(site: Path) -> None:
    index = (site / "index.html").read_text()
    missing = [page.stem for page in (ROOT / "docs").glob("*.md") if f'href="{page.stem}.html' not in index]
    assert missing in ([], ["README"])


def the_reference_documents_every_public_name(site: Path) -> None:
    page = (site / "api/index.html").read_text()
    for name in dynid.__all__:
        kind = getattr(dynid, name)
        names = f"(?:{name}|{getattr(kind, '__name__', name)})"  # some are exported under a name of their own
        assert name == "__version__" or re.search(rf'id="ros2_dynid\.[\w.]*{names}"', page), name
    assert "tau = Y chi" in page and "system-message" not in page


def no_page_is_wider_than_its_window(site: Path) -> None:
    """On a screen and on a phone: what is wide scrolls in its own frame."""
    with browser() as chromium:
        for width in (1280, 400):
            window = chromium.new_page(viewport={"width": width, "height": 900})
            for page in sorted(site.glob("*.html")):
                window.goto(page.as_uri())
                assert window.evaluate("document.documentElement.scrollWidth") <= width, (page.name, width)


def test_rosdoc2_finds_the_sources() -> None:
    _, settings = yaml.safe_load_all((ROOT / "rosdoc2.yaml").read_text())
    (builder,) = settings["builders"]
    assert (ROOT / builder["sphinx"]["sphinx_sourcedir"] / "conf.py").is_file()
    assert (ROOT / settings["settings"]["python_source"] / "version.py").is_file()
    assert "<rosdoc2>rosdoc2.yaml</rosdoc2>" in (ROOT / "package.xml").read_text()
