# SPDX-License-Identifier: Apache-2.0

"""The kinds of friction terms as a C++ header of the runtime, from the one definition of each (model/friction).

    python -m ros2_dynid.codegen.runtime_header

writes include/ros2_dynid/friction_kinds.hpp anew; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ros2_dynid.model.friction_kinds import FrictionKind

HEADER = Path(__file__).parents[2] / "include" / "ros2_dynid" / "friction_kinds.hpp"


@dataclass(frozen=True)
class CppText:
    """An expression in C++."""

    text: str

    def __mul__(self, other: CppText) -> CppText:
        """Return the product."""
        return CppText(f"{self.text} * {other.text}")


class CppSymbols:
    """The motion of one joint by the names of the header's arguments (model/friction_kinds.py)."""

    v, sign, load, warmth = CppText("v"), CppText("sign"), CppText("load"), CppText("0.0")
    shape = float("nan")  # an argument of the function: its name stands for whatever number a column asks for

    def absolute(self, x: CppText) -> CppText:
        """Return |x|."""
        return CppText(f"std::fabs({x.text})")

    def root(self, x: CppText) -> CppText:
        """Return sqrt(|x|)."""
        return CppText(f"std::sqrt(std::fabs({x.text}))")

    def gauss(self, x: CppText, width: float) -> CppText:
        """Return exp(-(x / width)^2)."""
        return CppText(f"std::exp(-({x.text} / {_number(width)}) * ({x.text} / {_number(width)}))")

    def power(self, x: CppText, exponent: float) -> CppText:
        """Return |x|^exponent."""
        return CppText(f"std::pow(std::fabs({x.text}), {_number(exponent)})")


def _number(value: float) -> str:
    return "shape" if value != value else repr(float(value))


def runtime_header() -> str:
    """Return the header's text."""
    kinds = [kind for kind in FrictionKind if not kind.thermal]
    if [kind.code for kind in kinds] != list(range(len(kinds))):
        raise ValueError("the codes of friction terms must count from 0 on")
    cases = [f"    case FrictionKind::{kind}: return {kind.column(CppSymbols()).text};" for kind in kinds]
    fields = [kind.shape.field if kind.shape is not None else "" for kind in kinds]
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            "// Made by python -m ros2_dynid.codegen.runtime_header from ros2_dynid/model/friction: do not edit.",
            "#ifndef ROS2_DYNID__FRICTION_KINDS_HPP_",
            "#define ROS2_DYNID__FRICTION_KINDS_HPP_",
            "",
            "#include <cmath>",
            "#include <cstdint>",
            "",
            "namespace ros2_dynid",
            "{",
            "",
            f"enum class FrictionKind : std::uint32_t {{ {', '.join(map(str, kinds))} }};",
            f"constexpr std::uint32_t friction_kinds = {len(kinds)};",
            "",
            "/// Names in messages and files, in the order of the numbers.",
            f"constexpr const char * friction_names[friction_kinds] = {{ {', '.join(_quoted(k) for k in kinds)} }};",
            "/// Field of a message that holds the shape of each kind; empty for those without one.",
            f"constexpr const char * friction_shapes[friction_kinds] = {{ {', '.join(map(_quoted, fields))} }};",
            "",
            "/// Factor of a term's coefficient; sign: of v, maybe smooth; load: |torque that the gear carries|.",
            "inline double friction_column(",
            "  FrictionKind kind, double v, double sign, double load, double shape) noexcept",
            "{",
            "  switch (kind) {",
            *cases,
            "  }",
            "  return 0.0;",
            "}",
            "",
            "}  // namespace ros2_dynid",
            "",
            "#endif  // ROS2_DYNID__FRICTION_KINDS_HPP_",
            "",
        ]
    )


def _quoted(text: object) -> str:
    return f'"{text}"'


if __name__ == "__main__":
    HEADER.write_text(runtime_header())
