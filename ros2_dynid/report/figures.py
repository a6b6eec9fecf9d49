"""The figures of the page as PNG and PDF, for papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLOURS = {"measured": "0.55", "predicted": "tab:red", "prior": "tab:blue"}
LABELS = {"measured": "measured", "predicted": "identified model", "prior": "a priori model"}


def write_figures(folder: Path, data: Mapping[str, Any]) -> list[Path]:
    """Write every figure of the page's data into folder as PNG and PDF, and return their paths."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    def new(width: float, height: float, **parts: Any) -> tuple[Any, Any]:
        """Return a figure of that size [inch] and its axes; margins are fixed: a layout engine takes half the time."""
        figure = Figure(figsize=(width, height))
        axes = figure.subplots(**parts)
        left, bottom = 0.75 / width, 0.55 / height
        figure.subplots_adjust(left, bottom, 1 - 0.1 / width, 1 - 0.35 / height, hspace=0.08)
        return figure, axes

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(figure: Any, name: str) -> None:
        FigureCanvasAgg(figure)
        for suffix, options in ((".png", {"dpi": 160}), (".pdf", {})):
            path = folder / f"{name}{suffix}"
            figure.savefig(path, **options)
            written.append(path)

    for key, rows in data.get("torque", {}).items():
        for j, joint in enumerate(rows["joints"], start=1):
            figure, (above, below) = new(7, 4, nrows=2, sharex=True, height_ratios=(2, 1))
            for kind, colour in COLOURS.items():
                if joint[kind]:
                    above.plot(rows["t"], _floats(joint[kind]), color=colour, lw=0.9, label=LABELS[kind])
            above.set(title=_plain(joint["name"]), ylabel=f"torque [{joint['unit']}]")
            above.legend(fontsize="small", ncols=3, loc="upper right")  # "best" looks at every sample
            measured, predicted = _floats(joint["measured"]), _floats(joint["predicted"])
            residual = [m - p for m, p in zip(measured, predicted, strict=True)]
            below.plot(rows["t"], residual, color="tab:purple", lw=0.7)
            below.set(xlabel="time [s]", ylabel=f"residual [{joint['unit']}]")
            save(figure, f"torque_{key}_joint{j}")
    for j, joint in enumerate(data.get("friction", []), start=1):
        figure, axes = new(4, 3)
        axes.plot(joint["x"], joint["y"], ".", ms=2, color=COLOURS["measured"])
        axes.plot(joint["curve"]["x"], joint["curve"]["y"], color=COLOURS["predicted"])
        axes.set(
            title=_plain(joint["name"]), xlabel=f"speed [{joint['speed_unit']}]", ylabel=f"friction [{joint['unit']}]"
        )
        save(figure, f"friction_joint{j}")
    spread = [row for row in data["base"] if row["percent"] is not None]
    if spread:
        figure, axes = new(max(5.0, 0.16 * len(spread)), 3)
        axes.bar([row["name"] for row in spread], [row["percent"] for row in spread])
        axes.set(ylabel="relative std [%]", yscale="log")
        axes.tick_params(axis="x", rotation=90, labelsize=6)
        save(figure, "relative_std")
    if data.get("singular_values"):
        figure, axes = new(4, 3)
        axes.semilogy(range(1, len(data["singular_values"]) + 1), data["singular_values"], "o-", ms=3)
        axes.set(xlabel="number", ylabel="singular value", title=f"cond {data['cond']:.3g}")
        save(figure, "singular_values")
    return written


def _floats(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _plain(name: str) -> str:
    """Return a name that matplotlib does not take for mathematics."""
    return name.replace("$", r"\$")
