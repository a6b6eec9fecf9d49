# SPDX-License-Identifier: Apache-2.0

"""Portable C99 (and C++) from the graph: a header, a source file, a program that checks itself, and a CMakeLists.txt.

No allocation, no dependency but <math.h>, no global state. Constants are compiled in, or prepared once from parameters
and a load that are known at run time. Names from the robot appear in comments only, made harmless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.codegen.graph import ADD, MUL, NUM, PAR, TINY, Expr, Graph, evaluate
from ros2_dynid.codegen.loop_code import MAX_POSES, assembled, close_in_c
from ros2_dynid.codegen.loop_expressions import JOINTS
from ros2_dynid.codegen.operation_search import Generated
from ros2_dynid.codegen.text import Code, Statement, code_of, comment, number
from ros2_dynid.dynamics.friction_law import references
from ros2_dynid.model.parameters import LINK
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True, eq=False)
class Program:
    """What is exported: generated functions of one robot, with the values of their parameters."""

    robot: Robot
    name: str
    functions: Mapping[str, Generated]
    """By name: torque, inertia_gravity, velocity_torques, synchronous, and friction of a robot with friction terms; all
    with the same `parameters`."""
    parameters: tuple[str, ...]
    values: Array
    runtime: bool = False
    """Whether the parameters are passed at run time instead of compiled in."""
    load: bool = False
    wrench: bool = False
    tool: str = "the last joint's frame"
    """What load and wrench refer to: about its origin, in its axes."""
    real: str = "double"
    about: tuple[str, ...] = ()
    """Lines for the header: where the parameters come from."""
    tests: tuple[Mapping[str, Array], ...] = field(default_factory=tuple)
    """Reference samples: q, dq, ddq (and wrench, load, temperature; closed positions of all joints) with tau, M, Q, C,
    the torque carried and its friction F."""

    @property
    def prepared(self) -> bool:
        """Whether constants are prepared at run time."""
        return self.runtime or self.load

    @property
    def thermal(self) -> bool:
        """Whether friction changes with the temperature of the drives, which torque and friction take then."""
        return bool(references(self.robot))

    @property
    def references(self) -> list[float]:
        """T0 of each active joint [deg C], which stands for a temperature that is not known; 0 where none matters."""
        reference_of_joint = references(self.robot)
        return [reference_of_joint.get(place, 0.0) for place in range(len(self.robot.active))]

    @property
    def has_loops(self) -> bool:
        """Whether functions take closed positions of all joints, `joints`, instead of q: from a function `close`."""
        return self.robot.loops is not None

    def inputs(self, function: str) -> list[str]:
        """Return the arrays that a function takes, constants aside."""
        wrench = ["wrench"] if function == "torque" and self.wrench else []
        warmth = ["temperature"] if function in ("torque", "friction") and self.thermal else []
        motion = list(INPUTS[function])
        if self.has_loops and function != "synchronous":
            motion = [JOINTS, *(array for array in motion if array != "q")]
        return [*motion, *wrench, *warmth]


INPUTS = {
    "torque": ("q", "dq", "ddq"),
    "inertia_gravity": ("q",),
    "velocity_torques": ("q", "dq"),
    "synchronous": ("M", "h", "ddq"),
    "friction": ("dq", "carried"),
}
_DOC = {
    "torque": "tau = M(q) ddq + C(q, dq) + Q(q) + friction of the model",
    "inertia_gravity": "inertia matrix M (row by row) and gravity torques Q: the background task",
    "velocity_torques": "C: Coriolis and centrifugal torques, with friction and offsets of the model: background task",
    "synchronous": "tau = M ddq + h with M and h from the background: the synchronous task",
    "friction": "F: friction and offsets of gears that carry what the synchronous task returns; tau is the sum of both",
}
_RIGID = "C: Coriolis and centrifugal torques without friction: background task"


def purpose(program: Program, function: str) -> str:
    """Return what a function computes, in one line."""
    return _RIGID if function == "velocity_torques" and program.robot.friction else _DOC[function]


def sizes(program: Program) -> dict[str, int]:
    """Return the lengths of the arrays that the generated functions take."""
    n = len(program.robot.active)
    return {"q": n, "dq": n, "ddq": n, "tau": n, "M": n * n, "Q": n, "C": n, "h": n, "wrench": 6, "load": 10} | {
        "parameters": len(program.parameters),
        "carried": n,
        "F": n,
        "temperature": n,
        JOINTS: program.robot.n,
    }


def targets(program: Program, function: str) -> list[str]:
    """Return where the outputs of a function go, in their order."""
    n = len(program.robot.active)
    if function == "inertia_gravity":
        return [f"M[{k}]" for k in range(n * n)] + [f"Q[{k}]" for k in range(n)]
    array = {"velocity_torques": "C", "friction": "F"}.get(function, "tau")
    return [f"{array}[{k}]" for k in range(n)]


def emit_c(program: Program) -> dict[str, str]:
    """Return the files of the export by name."""
    codes = {name: _code(program, name) for name in program.functions}
    slots = _layout(codes)
    return {
        f"{program.name}.h": _header(program, slots),
        f"{program.name}.c": _source(program, codes, slots),
        "main.c": _main(program, slots),
        "CMakeLists.txt": _cmake(program),
    }


def _code(program: Program, function: str) -> Code:
    generated = program.functions[function]
    real = program.real
    suffix = "f" if real == "float" else ""
    zero = number(0.0, real)
    styles = {
        "sin": f"sin{suffix}({{x}})",
        "cos": f"cos{suffix}({{x}})",
        "sign": f"({real})(({{x}} > {zero}) - ({{x}} < {zero}))",
        "abs": f"fabs{suffix}({{x}})",
        "root": f"sqrt{suffix}(fabs{suffix}({{x}}))",
        "inverse_root": f"(({real})1 / sqrt{suffix}(fabs{suffix}({{x}})))",
        "gauss": f"exp{suffix}(-({{x}}) * ({{x}}))",
        "log": f"log{suffix}(fabs{suffix}({{x}}) + {number(TINY, real)})",
        "exp": f"exp{suffix}({{x}})",
        "inverse": f"(({real})1 / ({{x}}))",
    }
    outputs = list(zip(targets(program, function), generated.outputs, strict=True))
    return code_of(generated.graph, outputs, real=real, functions=styles)


def _layout(codes: Mapping[str, Code]) -> dict[str, int]:
    """Return where the constants of each function start in the array of all constants, and their number ("")."""
    start, layout = 0, {}
    for name, code in codes.items():
        layout[name] = start
        start += len(code.constants)
    return layout | {"": max(start, 1)}


def _signature(program: Program, function: str, outputs: Sequence[str]) -> str:
    real, n = program.real, sizes(program)
    restrict = f"{program.name.upper()}_RESTRICT"
    arguments = [f"const {real} *{restrict} {array} /* {n[array]} */" for array in program.inputs(function)]
    if program.prepared and function != "synchronous":
        arguments.append(f"const {real} *{restrict} constants")
    arguments += [f"{real} *{restrict} {array} /* {n[array]} */" for array in outputs]
    head = f"void {program.name}_{function}("
    return head + (",\n" + " " * len(head)).join(arguments) + ")"


def _outputs(function: str) -> list[str]:
    return {"inertia_gravity": ["M", "Q"], "velocity_torques": ["C"], "friction": ["F"]}.get(function, ["tau"])


def _background_signature(program: Program) -> str:
    real, n = program.real, sizes(program)
    restrict = f"{program.name.upper()}_RESTRICT"
    position = JOINTS if program.has_loops else "q"
    arguments = [f"const {real} *{restrict} {array} /* {n[array]} */" for array in (position, "dq")]
    if program.prepared:
        arguments.append(f"const {real} *{restrict} constants")
    arguments += [f"{real} *{restrict} {array} /* {n[array]} */" for array in ("M", "h")]
    head = f"void {program.name}_background("
    return head + (",\n" + " " * len(head)).join(arguments) + ")"


def _prepare_signature(program: Program) -> str:
    real, n = program.real, sizes(program)
    arguments = []
    if program.runtime:
        arguments.append(f"const {real} *parameters /* {n['parameters']} */")
    if program.load:
        arguments.append(f"const {real} *load /* 10 */")
    arguments.append(f"{real} *constants /* {program.name.upper()}_CONSTANTS */")
    return f"void {program.name}_prepare({', '.join(arguments)})"


def _header(program: Program, layout: Mapping[str, int]) -> str:
    robot, upper = program.robot, program.name.upper()
    lines = [f"/* Inverse dynamics of the robot {comment(robot.name)}, generated by ros2_dynid.", " *"]
    lines += [f" * {comment(line)}" for line in program.about]
    lines += [" * Units: rad, m, kg, s, N, N.m. Joints, in the order of q, dq, ddq and tau:"]
    for k, name in enumerate(robot.active_names):
        kind = "prismatic" if robot.joints[robot.active[k] - 1].sigma else "revolute"
        lines.append(f" *   {k}: {comment(name)} ({kind})")
    how = "passed at run time, with these values as the reference" if program.runtime else "compiled in"
    lines.append(f" * Parameters ({how}):")
    for k, (name, value) in enumerate(zip(program.parameters, program.values, strict=True)):
        lines.append(f" *   {k}: {name} = {float(value)!r}")
    lines += [" * Operations at every call (multiplications, additions; sines and cosines not counted):"]
    for name, generated in program.functions.items():
        lines.append(f" *   {name}: {generated.count.multiplications}, {generated.count.additions}")
    if program.load:
        lines.append(
            f" * Load: XX XY XZ YY YZ ZZ MX MY MZ M about the origin and in the axes of {comment(program.tool)}."
        )
    if program.wrench:
        lines.append(
            " * Wrench: force [N], then moment [N.m], that the environment exerts on the robot, about the origin"
        )
        lines.append(f" *   and in the axes of {comment(program.tool)}.")
    if program.thermal:
        known = f"{upper}_TEMPERATURES"
        lines.append(f" * Temperature: of the drives [deg C]; finite, and that of {known} where it is not known.")
    lines += [" */", f"#ifndef {upper}_H", f"#define {upper}_H", ""]
    lines += [f"#define {upper}_JOINTS {len(robot.active)}", f"#define {upper}_PARAMETERS {len(program.parameters)}"]
    if program.thermal:
        known = ", ".join(number(value, program.real) for value in program.references)
        lines.append(f"#define {upper}_TEMPERATURES {{{known}}}")
    if program.prepared:
        lines.append(f"#define {upper}_CONSTANTS {layout['']}")
    lines += [
        "",
        "#if defined(__cplusplus) || !defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L",
        f"#define {upper}_RESTRICT",
        "#else",
        f"#define {upper}_RESTRICT restrict",
        "#endif",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
    ]
    if program.has_loops:
        lines += _closure_lines(program)
    if program.prepared:
        what = " and ".join(x for x, on in (("parameters", program.runtime), ("load", program.load)) if on)
        lines += [f"/* Constants for the functions below, to be prepared again when {what} change. */"]
        lines += [_prepare_signature(program) + ";", ""]
    for name in program.functions:
        lines += [f"/* {purpose(program, name)} */", _signature(program, name, _outputs(name)) + ";", ""]
    if "inertia_gravity" in program.functions and "velocity_torques" in program.functions:
        lines += ["/* M and h = C + Q for the synchronous task: the whole background task */"]
        lines += [_background_signature(program) + ";", ""]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {upper}_H */", ""]
    return "\n".join(lines)


def _closure_lines(program: Program) -> list[str]:
    """Return the declaration of the function that closes the loops."""
    robot, upper = program.robot, program.name.upper()
    start = ", ".join(number(float(x)) for x in assembled(robot))
    names = comment(", ".join(joint.name for joint in robot.joints))
    return [
        f"#define {upper}_ALL_JOINTS {robot.n}",
        f"/* Closed positions of all joints ({names}) to start from. */",
        f"#define {upper}_ASSEMBLY {{{start}}}",
        "",
        "/* Close the loops: joints holds closed positions of an earlier call, at first those above, and gets",
        " * those at q. Returns 1; or 0, with joints as they were, where q is out of reach or too far away, or the",
        " * pose is nearly singular: compute no torque for q then, and hold or stop. The time is bounded: one pose",
        f" * for a small step, and at most {MAX_POSES}. */",
        f"int {program.name}_close(const double *q /* {len(robot.active)} */, double *{JOINTS} /* {robot.n} */);",
        "",
    ]


def _source(program: Program, codes: Mapping[str, Code], layout: Mapping[str, int]) -> str:
    real = program.real
    lines = [f'#include "{program.name}.h"', "", "#include <math.h>", ""]
    if program.has_loops:
        lines += close_in_c(program.robot, f"{program.name}_close", "")
    if program.prepared:
        lines += _prepare(program, codes, layout)
    for name, code in codes.items():
        generated = program.functions[name]
        lines += [_signature(program, name, _outputs(name)), "{"]
        lines += [f"    (void){array};" for array in program.inputs(name) if array not in code.arrays]
        if program.prepared and name != "synchronous":
            lines += [
                f"    const {real} {constant} = constants[{layout[name] + k}];"
                for k, (constant, _) in enumerate(code.constants)
            ]
            if not code.constants:
                lines.append("    (void)constants;")
        else:
            values = _values(program, generated, code)
            lines += [
                f"    const {real} {constant} = {number(value, real)};"
                for (constant, _), value in zip(code.constants, values, strict=True)
            ]
        lines += [""] if code.constants else []
        lines += _statements(code.statements, f"const {real} ") + _statements(code.outputs, "")
        lines += ["}", ""]
    if "inertia_gravity" in codes and "velocity_torques" in codes:
        constants = "constants, " if program.prepared else ""
        n = len(program.robot.active)
        position = JOINTS if program.has_loops else "q"
        lines += [
            _background_signature(program),
            "{",
            f"    {real} C[{n}];",
            "    int k;",
            f"    {program.name}_inertia_gravity({position}, {constants}M, h);",
            f"    {program.name}_velocity_torques({position}, dq, {constants}C);",
            f"    for (k = 0; k < {n}; ++k)",
            "        h[k] += C[k];",
            "}",
            "",
        ]
    return "\n".join(lines)


def _statements(statements: Sequence[Statement], declare: str) -> list[str]:
    return [f"    {declare}{statement.name} = {statement.text};" for statement in statements]


def _values(program: Program, generated: Generated, code: Code) -> list[float]:
    """Return the values of a function's constants for the program's parameters (and no load)."""
    given = np.concatenate((program.values, np.zeros(len(LINK)))) if program.load else program.values
    parameters = dict(zip(generated.constants, generated.rows @ given, strict=True)) if len(generated.rows) else {}
    return evaluate(generated.graph, [expr for _, expr in code.constants], {}, parameters)


def _prepare(program: Program, codes: Mapping[str, Code], layout: Mapping[str, int]) -> list[str]:
    """Return the function that computes all constants from parameters and load."""
    lines = [_prepare_signature(program), "{"]
    for name, code in codes.items():
        if code.constants:
            fixed = None if program.runtime else program.values
            lines += [f"    /* {name} */"]
            lines += constant_lines(
                program.functions[name], code.constants, program.real, layout[name], fixed, len(program.parameters)
            )
    for array, on in (("parameters", program.runtime), ("load", program.load)):
        lines += [f"    (void){array};"] if on else []
    return [*lines, "    (void)constants;", "}", ""]


def constant_lines(
    generated: Generated,
    constants: Sequence[tuple[str, Expr]],
    real: str,
    start: int,
    values: Array | None = None,
    count: int | None = None,
) -> list[str]:
    """Return a block that writes constants[start ...] from parameters[] (or their `values`) and load[].

    The rows of `generated` hold `count` parameters (all if None), then the load.
    """
    rows = dict(zip(generated.constants, generated.rows, strict=True))
    lines = ["    {"]
    for node in generated.graph.needed(expr for _, expr in constants):
        key = generated.graph.keys[node]
        if key[0] == PAR:
            row = rows[str(key[1])]
            n = len(row) if count is None else count
            fixed = 0.0 if values is None else float(row[:n] @ values)
            terms = [(c, f"parameters[{k}]") for k, c in enumerate(row[:n]) if c != 0.0 and values is None]
            terms += [(c, f"load[{k}]") for k, c in enumerate(row[n:]) if c != 0.0]
            lines.append(f"        const {real} {key[1]} = {_linear(fixed, terms, real)};")
    for k, (_, expr) in enumerate(constants):
        lines.append(f"        constants[{start + k}] = {constant_text(generated.graph, expr, real)};")
    return [*lines, "    }"]


def _linear(fixed: float, terms: Sequence[tuple[float, str]], real: str) -> str:
    parts = [number(fixed, real)] if fixed or not terms else []
    for c, name in terms:
        size = name if abs(c) == 1.0 else f"{number(abs(c), real)} * {name}"
        parts.append((f"+ {size}" if parts else size) if c > 0 else (f"- {size}" if parts else f"-{size}"))
    return " ".join(parts)


def constant_text(graph: Graph, expr: Expr, real: str) -> str:
    """Return the expression of a constant in numbers and parameters."""
    key = graph.keys[expr.node]
    if key[0] == NUM:
        text = number(key[1], real)  # type: ignore[arg-type]
    elif key[0] == PAR:
        text = str(key[1])
    else:
        a = Expr(graph, key[1])  # type: ignore[arg-type]
        b = Expr(graph, key[2] if key[0] == MUL else key[3])  # type: ignore[arg-type]
        sign = "*" if key[0] == MUL else "+" if key[2] == 1 else "-"
        assert key[0] in (ADD, MUL)
        text = f"({constant_text(graph, a, real)} {sign} {constant_text(graph, b, real)})"
    return text if expr.sign > 0 else f"-{text}"


def _main(program: Program, layout: Mapping[str, int]) -> str:
    """Return a program that compares every function with reference values; exit code 0 if they agree."""
    real, name, n = program.real, program.name, sizes(program)
    tolerance = "1e-10" if real == "double" else "2e-4"
    lines = [
        "/* Checks the generated functions against reference values that were computed without them. */",
        "#include <math.h>",
        "#include <stdio.h>",
        "",
        f'#include "{name}.h"',
        "",
        f"static double error(const {real} *x, const double *reference, int count)",
        "{",
        "    double worst = 0.0, scale = 1e-300;",
        "    int k;",
        "    for (k = 0; k < count; ++k)",
        "        if (fabs(reference[k]) > scale)",
        "            scale = fabs(reference[k]);",
        "    for (k = 0; k < count; ++k) {",
        "        const double off = fabs((double)x[k] - reference[k]);",
        "        if (off > worst || off != off) /* what is no number stays */",
        "            worst = off;",
        "    }",
        "    return worst / scale;",
        "}",
        "",
    ]
    tests = len(program.tests)
    inputs, output_arrays = _check_arrays(program)
    for array in inputs:
        lines += _table(real, f"{array}_in", [test[array] for test in program.tests])
    for array in output_arrays:
        lines += _table("double", f"{array}_reference", [test[array] for test in program.tests])
    if program.runtime:
        lines += _table(real, "parameters_in", [program.values])
    lines += ["int main(void)", "{", "    double worst = 0.0, e;", "    int i;"]
    lines += ["    int k;"] if "F" in output_arrays and not program.wrench else []
    lines += [f"    {real} {array}[{n[array]}];" for array in output_arrays]
    if "M" in output_arrays and "C" in output_arrays:
        lines.append(f"    {real} h[{n['h']}], tau_two_rates[{n['tau']}];")
    if program.has_loops:
        lines.append(f"    double {JOINTS}[{name.upper()}_ALL_JOINTS] = {name.upper()}_ASSEMBLY;")
    if program.prepared:
        lines.append(f"    {real} constants[{name.upper()}_CONSTANTS];")
    c = "constants, " if program.prepared else ""
    lines += [f"    for (i = 0; i < {tests}; ++i) {{"]
    if program.prepared:
        given = [*(["parameters_in[0]"] if program.runtime else []), *(["load_in[i]"] if program.load else [])]
        lines.append(f"        {name}_prepare({', '.join(given)}, constants);")
    wrench = "wrench_in[i], " if program.wrench else ""
    warmth = "temperature_in[i], " if program.thermal else ""
    position = "q_in[i]"
    if program.has_loops:
        position = JOINTS
        lines += [
            f"        if (!{name}_close(q_in[i], {JOINTS})) {{",
            '            printf("sample %d does not close\\n", i);',
            "            return 1;",
            "        }",
        ]
    lines += [f"        {name}_torque({position}, dq_in[i], ddq_in[i], {wrench}{warmth}{c}tau);"]
    checks = [("torque", "tau", "tau")]
    if "M" in output_arrays:
        lines.append(f"        {name}_inertia_gravity({position}, {c}M, Q);")
        checks += [("inertia", "M", "M"), ("gravity", "Q", "Q")]
    if "C" in output_arrays:
        lines.append(f"        {name}_velocity_torques({position}, dq_in[i], {c}C);")
        checks.append(("velocity torques", "C", "C"))
    if "F" in output_arrays:
        carrying = f"{JOINTS}, dq_in[i]" if program.has_loops else "dq_in[i]"
        lines.append(f"        {name}_friction({carrying}, carried_in[i], {warmth}{c}F);")
        checks.append(("friction", "F", "F"))
    if "M" in output_arrays and "C" in output_arrays:
        lines += _two_rates_lines(program, c, warmth, with_friction="F" in output_arrays)
        if not program.wrench:
            checks.append(("two rates", "tau_two_rates", "tau"))
    for title, array, reference in checks:
        lines += [
            f"        e = error({array}, {reference}_reference[i], {n[reference]});",
            f"        if (!(e <= {tolerance}))",
            f'            printf("%s: sample %d is off by %.3g\\n", "{title}", i, e);',
            "        if (e > worst || e != e)",
            "            worst = e;",
        ]
    lines += [
        "    }",
        '    printf("largest relative error %.3g\\n", worst);',
        f"    return worst <= {tolerance} ? 0 : 1;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _check_arrays(program: Program) -> tuple[list[str], list[str]]:
    """Return the arrays that the functions take, and those that are compared with reference values."""
    inputs = ["q", "dq", "ddq", *(["wrench"] if program.wrench else []), *(["load"] if program.load else [])]
    inputs += ["temperature"] if program.thermal else []
    output_arrays = ["tau"]
    if "inertia_gravity" in program.functions:
        output_arrays += ["M", "Q"]
    if "velocity_torques" in program.functions:
        output_arrays.append("C")
    if "friction" in program.functions:
        inputs.append("carried")
        output_arrays.append("F")
    return inputs, output_arrays


def _two_rates_lines(program: Program, constants: str, warmth: str, *, with_friction: bool) -> list[str]:
    """Return the calls of the background and the synchronous task; a wrench is not in their torque."""
    name = program.name
    lines = [
        f"        {name}_background({JOINTS if program.has_loops else 'q_in[i]'}, dq_in[i], {constants}M, h);",
        f"        {name}_synchronous(M, h, ddq_in[i], tau_two_rates);",
    ]
    if program.wrench:
        return [*lines, "        (void)tau_two_rates;"]
    if with_friction:
        moving = f"{JOINTS}, dq_in[i]" if program.has_loops else "dq_in[i]"
        lines += [
            f"        {name}_friction({moving}, tau_two_rates, {warmth}{constants}F);",
            f"        for (k = 0; k < {sizes(program)['tau']}; ++k)",
            "            tau_two_rates[k] += F[k];",
        ]
    return lines


def _table(real: str, name: str, rows: Sequence[Array]) -> list[str]:
    flat = [np.asarray(row, dtype=float).ravel() for row in rows]
    body = [
        "    {" + ", ".join(number(float(x), real) for x in row) + "}" + ("," if k + 1 < len(flat) else "")
        for k, row in enumerate(flat)
    ]
    return [f"static const {real} {name}[{len(flat)}][{flat[0].size}] = {{", *body, "};", ""]


def _cmake(program: Program) -> str:
    name = program.name
    return f"""cmake_minimum_required(VERSION 3.10)
project({name} C)

set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

add_library({name} {name}.c)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(UNIX)
  target_link_libraries({name} PUBLIC m)
endif()

# The check: compares every function with reference values.
add_executable({name}_check main.c)
target_link_libraries({name}_check PRIVATE {name})
enable_testing()
add_test(NAME {name}_check COMMAND {name}_check)
"""
