# SPDX-License-Identifier: Apache-2.0

"""The layers of the package, in order: the table that the import test and docs/architecture.md share.

`python test/support/architecture.py` writes the list of all modules into docs/architecture.md.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "ros2_dynid"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- modules: written by test/support/architecture.py -->", "<!-- end of modules -->"


@dataclass(frozen=True)
class Layer:
    """Packages or modules at the top of ros2_dynid, and what they hold."""

    parts: tuple[str, ...]
    holds: str


LAYERS = (
    Layer(
        (
            "errors",
            "progress",
            "codec",
            "output_files",
            "atomic",
            "confined",
            "processes",
            "output",
            "blas",
            "version",
        ),
        "errors and notes, progress, dataclasses as plain data, files and processes",
    ),
    Layer(("model",), "the robot as frozen data; URDFs and robot files; names, order and units of the parameters"),
    Layer(("dynamics",), "Newton-Euler recursion, regressors of torque and energy, friction, coupling, loops"),
    Layer(("base_parameters",), "base parameters by QR, by SVD and in closed form"),
    Layer(("codegen",), "expressions specialised to a robot; C and NumPy; the compiled backend"),
    Layer(("control",), "supervision of a moving robot: references, stops within limits, feedforward"),
    Layer(("sim",), "the simulated robot (MuJoCo) of the demo and the tests; a model in closed loop"),
    Layer(("excitation",), "exciting trajectories, limits, collision"),
    Layer(("recording",), "rosbag2, ROS 1 bags, csv and npz in and out; checks of a recording"),
    Layer(("identification",), "preparation, estimators, physical parameters, validation, model.yaml"),
    Layer(("report",), "the HTML page, figures and tables"),
    Layer(("preview",), "a motion as a scene; the pages that show it in 3D: the preview and the panel"),
    Layer(("pipeline",), "identification as a sequence of stages, from recordings to a model"),
    Layer(("fleet",), "many robots and recordings: map, reduce, compare, on a Dask cluster"),
    Layer(("usecases",), "typed requests and outcomes; what the command line, jobs and nodes call"),
    Layer(("api",), "the names that `import ros2_dynid` offers"),
    Layer(("jobs", "job_process", "demo"), "use cases in a process of their own; the whole loop over real nodes"),
    Layer(("nodes",), "managed ROS 2 nodes: convert, call, publish; the only layer that imports ROS"),
    Layer(("commands", "cli"), "the command line: one file per command"),
)
"""A module imports from its own layer and from those before it."""
INSIDE = {
    "identification": (
        ("friction_columns",),
        ("options",),
        ("preparation",),
        ("model_file",),
        ("regression",),
        ("torque_std",),
        ("decisions",),
        ("recordings",),
        ("problem",),
        ("estimators",),
        ("physical",),
        ("loads", "validation"),
        ("estimation",),
        ("candidates",),
        ("scores",),
        ("served_set",),
        ("result", "online"),
    )
}
"""The same inside a layer."""


def sources() -> list[Path]:
    """Return all modules."""
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def place(name: str) -> tuple[int, int]:
    """Return the place of a module's full name in LAYERS and INSIDE; -1 where there is no order."""
    parts = name.split(".")[1:]
    layer = next((k for k, one in enumerate(LAYERS) if parts and parts[0] in one.parts), -1)
    order = INSIDE.get(parts[0], ()) if parts else ()
    inside = next((k for k, some in enumerate(order) if len(parts) > 1 and parts[1] in some), -1)
    return layer, inside


def module_name(path: Path) -> str:
    """Return a module's full name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_table() -> str:
    """Return the layers as a Markdown table."""
    rows = [f"| {', '.join(f'`{part}`' for part in layer.parts)} | {layer.holds} |" for layer in LAYERS]
    return "\n".join(["| layer | content |", "| --- | --- |", *rows])


def module_list() -> str:
    """Return every module with the first line of its docstring, by layer, as Markdown."""
    lines: list[str] = []
    for layer in LAYERS:
        lines += ["", f"### {', '.join(layer.parts)}", ""]
        for path in sources():
            name = module_name(path).removeprefix("ros2_dynid.")
            if name.split(".")[0] in layer.parts and not path.name.startswith("__main__"):
                first = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
                lines.append(f"- `{name}`: {first}")
    return "\n".join(lines).strip()


def written(text: str) -> str:
    """Return the page with the layers and modules as they are."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{module_list()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
