"""Values carry their joints: the one place that puts values of named joints into another order."""

from __future__ import annotations

from collections.abc import Sequence

from ros2_dynid.errors import InputError


def joint_order(wanted: Sequence[str], given: Sequence[str], what: str = "trajectory", source: str = "") -> list[int]:
    """Return where each of the joints `wanted` stands among `given`, so that values[..., order] are theirs.

    `given` may be permuted, but must hold exactly the joints wanted; what is missing, extra or repeated is named.
    """
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    repeated = sorted({name for name in given if list(given).count(name) > 1})
    wrong = [
        f"{verb} {', '.join(map(repr, names))}"
        for verb, names in (("lacks", missing), ("has besides", extra), ("repeats", repeated))
        if names
    ]
    if wrong:
        raise InputError(
            f"the {what} {' and '.join(wrong)}", f"it must name the joints {', '.join(wanted)}", source or None
        )
    return [list(given).index(name) for name in wanted]
