# SPDX-License-Identifier: Apache-2.0

"""Reorder values of named joints; the only place that does."""

from __future__ import annotations

from collections.abc import Sequence

from ros2_dynid.errors import InputError


def joint_order(
    expected: Sequence[str], actual: Sequence[str], what: str = "trajectory", source: str = ""
) -> list[int]:
    """Return `order` such that values[..., order], given in the order `actual`, are in the order `expected`.

    `actual` may be permuted, but must hold exactly the expected joints; what is missing, extra or repeated is named.
    """
    missing = [name for name in expected if name not in actual]
    extra = [name for name in actual if name not in expected]
    repeated = sorted({name for name in actual if list(actual).count(name) > 1})
    wrong = [
        f"{verb} {', '.join(map(repr, names))}"
        for verb, names in (("lacks", missing), ("has besides", extra), ("repeats", repeated))
        if names
    ]
    if wrong:
        raise InputError(
            f"the {what} {' and '.join(wrong)}", f"it must name the joints {', '.join(expected)}", source or None
        )
    return [list(actual).index(name) for name in expected]
