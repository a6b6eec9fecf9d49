# SPDX-License-Identifier: Apache-2.0

"""Screenshots of a page by headless Chromium, if installed; no screen or graphics card needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ros2_dynid.atomic import write_bytes
from ros2_dynid.errors import DynidError, InputError

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")
FLAGS = (
    "--headless=new",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-extensions",
)
"""Draw WebGL in software, without network access."""
PATIENCE_S = 120.0


def find_chromium() -> str | None:
    """Return the path of a Chromium, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def screenshot(page: str, target: Path, *, size: tuple[int, int] = (1280, 800), fragment: str = "") -> None:
    """Draw a page, given as its text, in a window of this size [pixels] and write the picture, a PNG.

    fragment: what follows # in the page's address.
    """
    browser = find_chromium()
    if browser is None:
        raise InputError("no Chromium was found to draw the picture", "install chromium, or save the page instead")
    with tempfile.TemporaryDirectory(prefix="dynid_") as folder:
        file, picture = Path(folder) / "page.html", Path(folder) / "picture.png"
        file.write_text(page, encoding="utf-8")
        command = [browser, *FLAGS, *sandbox(), f"--user-data-dir={folder}/profile", f"--screenshot={picture}"]
        command += [f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=4000", f"{file.as_uri()}#{fragment}"]
        try:
            process = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise DynidError(f"{browser} has not drawn the page in {PATIENCE_S:g} s; save the page instead") from None
        if not picture.is_file():
            last = process.stderr.decode(errors="replace").strip().splitlines()
            raise DynidError(f"{browser} drew nothing ({last[-1] if last else 'no message'}); save the page instead")
        write_bytes(target, picture.read_bytes())


def sandbox() -> tuple[str, ...]:
    """Return the flag without which Chromium refuses to run as root, in a container; the page is our own."""
    import os

    return ("--no-sandbox",) if os.geteuid() == 0 else ()
