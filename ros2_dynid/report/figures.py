# SPDX-License-Identifier: Apache-2.0

"""The figures of the page as PNG and PDF, for papers."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ros2_dynid.report.page_data import FrictionPicture, PageData, TorqueCurves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"measured": "0.55", "predicted": "tab:red", "prior": "tab:blue"}
LABELS = {"measured": "measured", "predicted": "identified model", "prior": "a priori model"}
FORMATS = {".png": 160, ".pdf": None}
"""Endings of the files, with their resolution [dpi]."""


@dataclass(frozen=True)
class Drawing:
    """A figure to be drawn: the name of its files, and the function without arguments that draws it."""

    name: str
    draw: Callable[[], Figure]


def write_figures(folder: Path, data: PageData) -> list[Path]:
    """Write every figure of the page's data into folder as PNG and PDF, and return their paths.

    A figure takes a fifth of a second, nearly all of it for texts, so all cores draw.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawings = drawings_of(data)
    workers = min(os.cpu_count() or 1, max(len(drawings), 1), 8)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [path for paths in pool.map(partial(save_figure, folder), drawings) for path in paths]


def drawings_of(data: PageData) -> list[Drawing]:
    """Return the drawings of the page's data."""
    drawings = [
        Drawing(f"torque_{key}_joint{j}", partial(torque_figure, torque_set.t, joint))
        for key, torque_set in data.torque.items()
        for j, joint in enumerate(torque_set.joints, start=1)
    ]
    drawings += [
        Drawing(f"friction_joint{j}", partial(friction_figure, joint)) for j, joint in enumerate(data.friction, start=1)
    ]
    for j, joint in enumerate(data.friction, start=1):
        if joint.load:
            drawings.append(Drawing(f"friction_load_joint{j}", partial(friction_load_figure, joint)))
            drawings.append(Drawing(f"residual_position_joint{j}", partial(position_figure, joint)))
        if joint.temperature:
            drawings.append(Drawing(f"friction_temperature_joint{j}", partial(temperature_figure, joint)))
    spread = [(row.name, row.percent) for row in data.base if row.percent is not None]
    if spread:
        drawings.append(Drawing("relative_std", partial(deviation_figure, spread)))
    if data.singular_values:
        drawings.append(Drawing("singular_values", partial(singular_figure, data.singular_values, data.cond)))
    return drawings


def save_figure(folder: Path, drawing: Drawing) -> list[Path]:
    """Write a drawing as PNG and PDF, and return the files."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = drawing.draw()
    FigureCanvasAgg(figure)
    for suffix, dpi in FORMATS.items():
        figure.savefig(folder / f"{drawing.name}{suffix}", dpi="figure" if dpi is None else dpi)
    return [folder / f"{drawing.name}{suffix}" for suffix in FORMATS]


def _new(width: float, height: float, ratios: Sequence[float] = (1,)) -> tuple[Figure, list[Axes]]:
    """Return a figure of that size [inch] and its axes, one above the other with heights in these ratios.

    Margins and the places of labels and titles are fixed, and ticks are few: placing them takes most of the time.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots(len(ratios), 1, sharex=True, height_ratios=ratios, squeeze=False)
    left, bottom = 0.8 / width, 0.55 / height
    figure.subplots_adjust(left, bottom, 1 - 0.1 / width, 1 - 0.35 / height, hspace=0.08)
    for one in figure.axes:
        inner = one.get_position()
        one.yaxis.set_label_coords(-0.58 / width / inner.width, 0.5)
        one.xaxis.set_label_coords(0.5, -0.3 / height / inner.height)
        one.locator_params(nbins=5)
    return figure, [one for (one,) in axes]


def torque_figure(t: Sequence[float | None], joint: TorqueCurves) -> Figure:
    """Return measured, identified and a priori torque of a joint over time, with the residual below."""
    figure, (above, below) = _new(7, 4, (2, 1))
    curves = {"measured": joint.measured, "predicted": joint.predicted, "prior": joint.prior}
    for kind, values in curves.items():
        if values:
            above.plot(_floats(t), _floats(values), color=COLOURS[kind], lw=0.9, label=LABELS[kind])
    above.set_title(_plain(joint.name), y=1.0)
    above.set(ylabel=f"torque [{joint.unit}]")
    above.legend(fontsize="small", ncols=3, loc="upper right")  # "best" looks at every sample
    measured, predicted = _floats(joint.measured), _floats(joint.predicted)
    residual = [m - p for m, p in zip(measured, predicted, strict=True)]
    below.plot(_floats(t), residual, color="tab:purple", lw=0.7)
    below.set(xlabel="time [s]", ylabel=f"residual [{joint.unit}]")
    return figure


def friction_figure(joint: FrictionPicture) -> Figure:
    """Return a joint's friction over its speed, measured, coloured by the load on the gear, and identified."""
    figure, (axes,) = _new(4, 3)
    axes.scatter(_floats(joint.x), _floats(joint.y), s=2, c=_floats(joint.load) or None, cmap="coolwarm")
    x, y, half = (_floats(values) for values in (joint.curve.x, joint.curve.y, joint.band))
    if half:
        below, above = zip(*((v - h, v + h) for v, h in zip(y, half, strict=True)), strict=True)
        axes.fill_between(x, below, above, color=COLOURS["predicted"], alpha=0.2, lw=0)
    for line in (joint.light, joint.heavy):
        if line is not None:
            axes.plot(_floats(line.x), _floats(line.y), color=COLOURS["prior"], lw=0.8, ls="--")
    axes.plot(x, y, color=COLOURS["predicted"])
    axes.set_title(_plain(joint.name), y=1.0)
    axes.set(xlabel=f"speed [{joint.speed_unit}]", ylabel=f"friction [{joint.unit}]")
    return figure


def friction_load_figure(joint: FrictionPicture) -> Figure:
    """Return a joint's friction over the load on its gear."""
    figure, (axes,) = _new(4, 3)
    against = [y if x > 0 else -y for x, y in zip(_floats(joint.x), _floats(joint.y), strict=True)]
    axes.plot(_floats(joint.load), against, ".", ms=2, color=COLOURS["measured"])
    axes.set_title(_plain(joint.name), y=1.0)
    axes.set(xlabel=f"load on the gear [{joint.unit}]", ylabel=f"friction against the motion [{joint.unit}]")
    return figure


def position_figure(joint: FrictionPicture) -> Figure:
    """Return a joint's residual torque over its position: gear errors show as waves."""
    figure, (axes,) = _new(4, 3)
    axes.plot(_floats(joint.position), _floats(joint.residual), ".", ms=2, color="tab:purple")
    axes.set_title(_plain(joint.name), y=1.0)
    axes.set(xlabel=f"position [{joint.position_unit}]", ylabel=f"residual [{joint.unit}]")
    return figure


def temperature_figure(joint: FrictionPicture) -> Figure:
    """Return a joint's friction and the model's residual over the drive's temperature."""
    figure, (above, below) = _new(4, 4, (2, 1))
    signs = [1.0 if x > 0 else -1.0 for x in _floats(joint.x)]
    against, left = (
        [s * y for s, y in zip(signs, _floats(values), strict=True)] for values in (joint.y, joint.residual)
    )
    above.plot(_floats(joint.temperature), against, ".", ms=2, color=COLOURS["measured"])
    above.set_title(_plain(joint.name), y=1.0)
    above.set(ylabel=f"friction [{joint.unit}]")
    below.plot(_floats(joint.temperature), left, ".", ms=2, color="tab:purple")
    below.set(xlabel="temperature [\u00b0C]", ylabel=f"residual [{joint.unit}]")
    return figure


def deviation_figure(spread: Sequence[tuple[str, float]]) -> Figure:
    """Return the relative standard deviations of the base parameters, given as (name, percent)."""
    figure, (axes,) = _new(max(5.0, 0.16 * len(spread)), 3)
    axes.bar([name for name, _ in spread], [percent for _, percent in spread])
    axes.set(ylabel="relative std [%]", yscale="log")
    axes.tick_params(axis="x", rotation=90, labelsize=6)
    return figure


def singular_figure(values: Sequence[float], cond: float | None) -> Figure:
    """Return the singular values."""
    figure, (axes,) = _new(4, 3)
    axes.semilogy(range(1, len(values) + 1), values, "o-", ms=3)
    axes.yaxis.set_minor_formatter("")
    axes.set_title("" if cond is None else f"cond {cond:.3g}", y=1.0)
    axes.set(xlabel="number", ylabel="singular value")
    return figure


def _floats(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _plain(name: str) -> str:
    """Return a name that matplotlib does not take for mathematics."""
    return name.replace("$", r"\$")
