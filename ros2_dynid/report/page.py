# SPDX-License-Identifier: Apache-2.0

"""The HTML page: one file with its data, style and script inside, so that it opens from disk and can be mailed."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ros2_dynid.codec import Plain, encode
from ros2_dynid.report.page_data import ComparisonData, PageData

HERE = Path(__file__).parent
SECTIONS: Sequence[tuple[str, str, str]] = (
    (
        "errors",
        "Torque errors of the joints",
        "Error over torque, both as root mean square. Data left out of the fit tell how well the model predicts.",
    ),
    ("torque", "Torque", "The measured torque, and what the identified and the a priori model predict."),
    (
        "parameters",
        "Base parameters",
        "Click a header to sort. A relative deviation under 10 % is good, over 30 % poor.",
    ),
    (
        "excitation",
        "Excitation",
        "How well the motion excited each parameter, and how much of each joint's limits it used.",
    ),
    ("friction", "Friction", "The friction law of each joint, and the measured torque minus the rest of the model."),
    ("consistency", "Physical consistency", "Physical consistency of the parameters of each link."),
)


def page(
    title: str,
    verdict: Sequence[tuple[str, str]],
    facts: Sequence[str],
    data: PageData,
    after: str,
    files: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of one identification.

    verdict: (level, sentence) with level good, warn or bad; facts: sentences below it; data: what page.js draws; after:
    HTML of the closing sections, already escaped (`definitions`, `listing`); files: pages beside this one and their
    names, to be linked.
    """
    sections = "\n".join(
        f'<section><h2 id="s-{key}">{heading}</h2><p class="soft">{text}</p><div id="{key}"></div></section>'
        for key, heading, text in SECTIONS
    )
    links = "".join(f'<a href="#s-{key}">{heading}</a>' for key, heading, _ in SECTIONS)
    links += '<a href="#s-how">How it was obtained</a>'
    links += "".join(f'<a href="{escape(file)}">{escape(text)}</a>' for file, text in files)
    return document(title, verdict, facts, links, sections + after, data)


def comparison_page(title: str, verdict: Sequence[tuple[str, str]], facts: Sequence[str], data: ComparisonData) -> str:
    """Return the page that compares identifications; data: models and comparison, which page.js draws as a table."""
    section = '<section><h2 id="s-comparison">Parameters side by side</h2><div id="comparison"></div></section>'
    return document(title, verdict, facts, "", section, data)


def definitions(heading: str, rows: Sequence[tuple[str, str]], anchor: str) -> str:
    """Return a closing section of names and texts as HTML."""
    body = "".join(f"<tr><td>{escape(name)}</td><td class='text'>{escape(text)}</td></tr>" for name, text in rows)
    return f'<section><h2 id="{anchor}">{escape(heading)}</h2><div class="scroll"><table>{body}</table></div></section>'


def listing(heading: str, text: str) -> str:
    """Return a closing section with a text to copy, such as the command line."""
    return f"<section><h2>{escape(heading)}</h2><pre>{escape(text)}</pre></section>"


def escape(text: str) -> str:
    """Return text that a browser shows as it is."""
    return html.escape(text, quote=True)


def embedded(data: PageData | ComparisonData | Mapping[str, Plain]) -> str:
    """Return data as JSON that is safe inside a script element: no `<`, so neither `</script>` nor `<!--` can occur."""
    return json.dumps(encode(data), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def document(
    title: str,
    verdict: Sequence[tuple[str, str]],
    facts: Sequence[str],
    links: str,
    body: str,
    data: PageData | ComparisonData | Mapping[str, Plain],
    more: str = "",
) -> str:
    """Return a whole page: body and links are HTML, data is what the script draws, more: a script that comes after."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    sentences = "".join(f'<li class="{escape(level)}">{escape(text)}</li>' for level, text in verdict)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1>
{"".join(f'<p class="soft">{escape(fact)}</p>' for fact in facts)}
<ul class="verdict">{sentences}</ul>
<nav>{links}</nav></header>
<main>
{body}
</main>
<script type="application/json" id="data">{embedded(data)}</script>
<script>{script}{more}</script>
</body>
</html>
"""
