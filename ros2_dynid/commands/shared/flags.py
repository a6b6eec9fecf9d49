"""How the command line writes an option of a request: `gains: {elbow: -1}` is `--gains elbow=-1` here."""

from __future__ import annotations

from collections.abc import Mapping

from ros2_dynid.errors import Option, scalar_text

FLAGS = {"groups": "only", "source": "from"}
"""Fields of the requests whose flag has another name."""


def as_flag(option: Option) -> str:
    """Return an option as it is typed; a mapping repeats its flag."""
    flag = "--" + FLAGS.get(option.key, option.key).replace("_", "-")
    value = option.value
    if value is None or value is True:
        return flag
    if value is False:
        return f"no {flag}"
    if isinstance(value, Mapping):
        return " ".join(f"{flag} {name}={scalar_text(item)}" for name, item in value.items())
    if isinstance(value, str | float | int):
        return f"{flag} {scalar_text(value)}"
    return f"{flag} {','.join(scalar_text(item) for item in value)}"
