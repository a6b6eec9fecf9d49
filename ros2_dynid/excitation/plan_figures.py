# SPDX-License-Identifier: Apache-2.0

"""Pictures of a plan: the motion against its limits, the singular values, and how well parameters are excited."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ros2_dynid.atomic import replacing
from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.excitation.criteria import relative_std
from ros2_dynid.excitation.plan import Plan
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Array, Robot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
FIGURES = ("motion", "singular_values", "parameters")


def predicted_std(robot: Robot, plan: Plan, noise: float, chi: Array | None = None) -> tuple[Array, Array]:
    """Return the predicted standard deviation of each base parameter, and the same over its a priori value in percent.

    noise: standard deviation of the measured torque [N.m or N], or of the energy differences [J] for points.
    """
    if not (np.isfinite(noise) and noise > 0):
        raise InputError(f"torque noise of {noise}", "give a positive standard deviation [N.m]")
    values = plan.base.values(robot, standard_vector(robot) if chi is None else chi)
    std = relative_std(plan.W, np.full(plan.W.shape[1], 100.0), noise)[: len(values)]  # friction terms follow
    with np.errstate(divide="ignore"):
        return std, 100.0 * std / np.abs(values)


def figure_files(path: str | Path) -> list[Path]:
    """Return the names of the three pictures of `save_figures`, which begin with `path` without its suffix."""
    base = Path(path)
    return [base.with_name(f"{base.stem}_{name}{base.suffix or '.png'}") for name in FIGURES]


def save_figures(path: str | Path, robot: Robot, plan: Plan, noise: float = 1.0) -> list[Path]:
    """Write the pictures and return their paths."""
    targets = figure_files(path)
    figures = (motion_figure(plan), plan_singular_figure(plan), parameter_figure(robot, plan, noise))
    for target, figure in zip(targets, figures, strict=True):
        with replacing(target) as file:
            figure.savefig(file, dpi=110, format=target.suffix[1:])
    return targets


def _figure(rows: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure without a window and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("matplotlib", "drawing a trajectory") from None
    figure = Figure(figsize=(9.0, height), layout="constrained")
    return figure, [one for (one,) in figure.subplots(rows, 1, squeeze=False)]


def motion_figure(plan: Plan) -> Figure:
    """Return positions, velocities and accelerations, each as a fraction of its limit less the margin."""
    figure, axes = _figure(3, 8.0)
    s = plan.trajectory.sample(max(50.0, 1000.0 / plan.duration))
    bounds = plan.bounds
    index = [bounds.names.index(name) for name in plan.trajectory.joint_names]
    middle, half = 0.5 * (bounds.upper + bounds.lower)[index], 0.5 * (bounds.upper - bounds.lower)[index]
    for axis, values, title in (
        (axes[0], (s.q - middle) / half, "position"),
        (axes[1], s.dq / bounds.velocity[index], "velocity"),
        (axes[2], s.ddq / bounds.acceleration[index], "acceleration"),
    ):
        for k, name in enumerate(plan.trajectory.joint_names):
            axis.plot(s.t, values[:, k], label=name, color=COLOURS[k % len(COLOURS)], linewidth=1.2)
        for limit in (-1.0, 1.0):
            axis.axhline(limit, color="0.3", linestyle="--", linewidth=0.8)
        axis.set_ylabel(f"{title} / limit")
        axis.set_ylim(-1.15, 1.15)
        axis.grid(alpha=0.3)
    axes[0].legend(loc="upper right", fontsize="small", ncols=3)
    axes[2].set_xlabel("time [s]")
    axes[0].set_title(f"{plan.trajectory.kind}: condition number {plan.cond:.3g}, {plan.duration:.3g} s")
    return figure


def plan_singular_figure(plan: Plan) -> Figure:
    """Return the singular values of W, as it is and with columns of norm 1, the largest one being 1."""
    figure, (axis,) = _figure(1, 4.0)
    norms = np.linalg.norm(plan.W, axis=0)
    for W, label in ((plan.W, "W"), (plan.W / np.where(norms > 0, norms, 1.0), "W with columns of norm 1")):
        sigma = np.linalg.svd(W, compute_uv=False)
        axis.semilogy(np.arange(1, len(sigma) + 1), sigma / sigma[0], "o-", markersize=4, label=label)
    axis.set_xlabel("number")
    axis.set_ylabel("singular value / largest")
    axis.grid(alpha=0.3, which="both")
    axis.legend()
    return figure


def parameter_figure(robot: Robot, plan: Plan, noise: float) -> Figure:
    """Return the predicted standard deviation of the base parameters over their a priori values, or as it is."""
    std, percent = predicted_std(robot, plan, noise)
    has_std = bool(np.any(np.isfinite(percent)))
    values = np.where(np.isfinite(percent), percent, np.nan) if has_std else std
    figure, (axis,) = _figure(1, max(4.0, 0.2 * len(std)))
    order = np.argsort(np.where(np.isnan(values), -1.0, values))
    colours = ["#D55E00" if has_std and values[k] > 10.0 else "#0072B2" for k in order]
    axis.barh(np.arange(len(std)), values[order], color=colours)
    axis.set_yticks(np.arange(len(std)), [plan.base.names[k] for k in order], fontsize="x-small")
    axis.set_xscale("log")
    unit = "[% of the a priori value]" if has_std else "[SI]"
    axis.set_xlabel(f"predicted standard deviation {unit} for noise {noise:g}")
    axis.grid(alpha=0.3, axis="x")
    return figure
