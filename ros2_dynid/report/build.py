# SPDX-License-Identifier: Apache-2.0

"""The report of an identification folder, and the comparison of several."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from ros2_dynid.atomic import check_digests, write_text
from ros2_dynid.dynamics.friction_law import pushing_speeds, pushing_text
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import IdentifiedModel, TorqueData, load_model, load_torque_data
from ros2_dynid.identification.servo.model import drive_text, rollout_rows
from ros2_dynid.model.parameters import split_name, unit_of
from ros2_dynid.report.page import comparison_page, definitions, listing, page
from ros2_dynid.report.page_data import (
    BaseTableRow,
    ComparisonData,
    PageData,
    base_rows,
    consistency_rows,
    coverage,
    error_rows,
    friction_pictures,
    held_out_words,
    torque_sets,
)


def csv_table(rows: Sequence[BaseTableRow]) -> str:
    """Return rows of base parameters as CSV with a header; numbers in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    titles = ("name", "value", "std", "relative_std_percent", "unit", "a_priori", "essential", "expression", "served")
    writer.writerow(titles)
    for row in rows:
        values = (row.name, row.value, row.std, row.percent, row.unit, row.prior, row.essential, row.expression)
        writer.writerow(["" if value is None else value for value in (*values, row.served)])
    return text.getvalue()


def latex_table(rows: Sequence[BaseTableRow], caption: str) -> str:
    """Return rows of base parameters as a LaTeX table (booktabs) with values, standard deviations and expressions."""
    lines = [
        r"\begin{table}",
        rf"\caption{{{_escape(caption)}}}",
        r"\begin{tabular}{lrrrl}",
        r"\toprule",
        r"parameter & value & std & rel. std [\%] & expression \\",
        r"\midrule",
    ]
    for row in rows:
        cells = (_symbol(row.name), _number(row.value), _number(row.std), _number(row.percent, 3))
        lines.append(" & ".join((*cells, _expression(row.expression))) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _symbol(name: str) -> str:
    """Return a parameter's name as mathematics: ZZR1 becomes $ZZR_{1}$."""
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", name)
    return rf"$\mathit{{{match[1]}}}_{{{match[2]}}}$" if match else _escape(name)


def _expression(text: str) -> str:
    return re.sub(r"([A-Za-z]+)(\d+)", lambda m: rf"$\mathit{{{m[1]}}}_{{{m[2]}}}$", _escape(text).replace("*", r"\,"))


def _number(value: float | None, digits: int = 4) -> str:
    if value is None:
        return "--"
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    return rf"${mantissa}\cdot 10^{{{int(exponent)}}}$" if exponent else f"${text}$"


def _escape(text: str) -> str:
    """Return text that LaTeX prints as it is: names come from unchecked files."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)


SIGNIFICANCE = 0.01
"""Probability of a false alarm over all parameters of one comparison."""


@dataclass(frozen=True)
class Change:
    """A base parameter in all models: values and std, shape (models,); z: change against the first over its std."""

    name: str
    unit: str
    value: tuple[float | None, ...]
    std: tuple[float | None, ...]
    z: tuple[float | None, ...]
    significant: tuple[bool, ...]


def compare(models: Mapping[str, IdentifiedModel], significance: float = SIGNIFICANCE) -> list[Change]:
    """Return every base parameter side by side, with z = (v_k - v_0) / sqrt(std_k^2 + std_0^2) against the first.

    A change is significant where |z| exceeds the normal quantile of significance / number of parameters (Bonferroni),
    so that a table of sixty parameters gives no false alarms. Friction coefficients of a joint are not compared where
    the models have different friction laws there: Fv of one means another thing than Fv of the other.
    """
    if len(models) < 2:
        raise InputError("there is only one model", "name at least two folders to compare")
    first = next(iter(models.values()))
    for label, model in models.items():
        if model.robot.active_names != first.robot.active_names:
            raise InputError("its joints are not those of the first", "compare models of one type of robot", label)
    names = list(dict.fromkeys(name for model in models.values() for name in model.names))
    bound = float(-ndtri(significance / (2 * len(names))))
    return [_change(name, list(models.values()), bound) for name in names]


def _change(name: str, models: Sequence[IdentifiedModel], bound: float) -> Change:
    value: list[float | None] = []
    std: list[float | None] = []
    unit = ""
    for model in models:
        if name not in model.names:
            value.append(None)
            std.append(None)
            continue
        k = model.names.index(name)
        unit = unit or unit_of(model.robot, model.leaders[k])
        value.append(float(model.value[k]))
        std.append(float(model.std[k]) if np.isfinite(model.std[k]) else None)
    z: list[float | None] = [None]
    laws = [law_beside(model, name) for model in models]
    for law, v, s in zip(laws[1:], value[1:], std[1:], strict=True):
        if law != laws[0] or v is None or s is None or value[0] is None or std[0] is None or s == std[0] == 0.0:
            z.append(None)
        else:
            z.append((v - value[0]) / float(np.hypot(s, std[0])))
    significant = tuple(one is not None and abs(one) > bound for one in z)
    return Change(name, unit, tuple(value), tuple(std), tuple(z), significant)


def law_beside(model: IdentifiedModel, name: str) -> tuple[str, ...]:
    """Return the friction terms of the joint whose Fv, Fc or offset a base parameter is; none for others."""
    if name not in model.names:
        return ()
    kind, number = split_name(model.leaders[model.names.index(name)])
    if kind not in ("Fv", "Fc", "off"):
        return ()
    return tuple(sorted(term.kind.name for term in model.robot.friction if term.joint == number))


LEVELS = {"good": "good", "note": "note", "warning": "warn", "problem": "bad"}
"""A remark's level in the page's style."""
MODEL, DATA, PAGE = "model.yaml", "data.npz", "report.html"
PREVIEW = "preview.html"
"""The saved preview of the trajectory that was run: the report links one that lies beside the model."""


def write_report(
    folder: Path, *, figures: bool = True, trials: Mapping[str, Sequence[tuple[str, str]]] | None = None
) -> Path:
    """Write folder/report.html from its model.yaml and data.npz, with tables and figures beside it; return its path.

    trials: results of tests of the model, sections of names and texts by heading.
    """
    model = load_model(model_path(folder))
    check_digests(folder, _digests(model), MODEL)
    sets = load_torque_data(folder / DATA) if (folder / DATA).exists() else {}
    return write_page(folder, model, sets, figures=figures, trials=trials)


def write_page(
    folder: Path,
    model: IdentifiedModel,
    sets: Mapping[str, TorqueData],
    *,
    figures: bool = True,
    trials: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> Path:
    """Write folder/report.html of a model and its torques ("fit", "validation") as write_report does."""
    table = base_rows(model)
    cond, singular_values = model.obtained.get("cond"), model.obtained.get("singular_values")
    data = PageData(
        base=table,
        torque=torque_sets(model, sets),
        cond=float(cond) if isinstance(cond, int | float) else None,
        singular_values=_floats(singular_values),
        coverage=coverage(model.robot, sets["fit"]) if "fit" in sets else [],
        friction=friction_pictures(model, sets["fit"]) if "fit" in sets else [],
        consistency=consistency_rows(model),
        errors=error_rows(model),
        held=held_out_words(model),
    )
    title = f"Dynamic identification of {model.robot.name}"
    links = [(PREVIEW, "Watch the motion in 3D")] if (folder / PREVIEW).is_file() else []
    after = "".join(
        definitions(heading, rows, f"s-trial{k}") for k, (heading, rows) in enumerate((trials or {}).items())
    )
    if len(model.sets) > 1:
        after += definitions("Torque errors of each parameter set", set_rows(model), "s-sets")
    if model.servo is not None:
        drives = [(row.joint, drive_text(row)) for row in model.servo.rows()]
        after += definitions("Position servos", drives, "s-servos")
        after += definitions("Errors of rollouts", rollout_rows(model.servo), "s-rollout")
    laws = laws_tried(model)
    if laws:
        after += definitions("Friction laws compared on held-out data", laws, "s-laws")
    after += definitions("How it was obtained", _how(model), "s-how")
    command = model.obtained.get("command")
    if command:
        after += listing("To repeat it", str(command))
    target = folder / PAGE
    write_text(target, page(title, verdict_of(model), model_facts(model), data, after, links))
    (folder / "tables").mkdir(exist_ok=True)
    write_text(folder / "tables" / "base_parameters.csv", csv_table(table))
    write_text(folder / "tables" / "base_parameters.tex", latex_table(table, f"Base parameters of {model.robot.name}"))
    if figures:
        from ros2_dynid.report.figures import write_figures  # matplotlib is slow to load

        write_figures(folder / "figures", data)
    return target


def laws_tried(model: IdentifiedModel) -> list[tuple[str, str]]:
    """Return, by joint, each friction law tried, its gain on held-out data, and whether it was selected."""
    law_trials = model.obtained.get("friction_tried")
    rows = []
    for trial in law_trials if isinstance(law_trials, list) else []:
        if isinstance(trial, dict):
            gain, scatter = (trial.get(key) for key in ("gain", "scatter"))
            if isinstance(gain, int | float) and isinstance(scatter, int | float):
                verdict = "taken" if trial.get("chosen") else "not taken"
                change = f"{'lowers' if gain >= 0 else 'raises'} the squared error by {abs(100 * gain):.1f}"
                rows.append(
                    (f"{trial.get('joint')}: {trial.get('term')}", f"{change} ± {100 * scatter:.1f} %, {verdict}")
                )
    return rows


@dataclass(frozen=True)
class WrittenComparison:
    """The page written, the models' labels, and for each but the first the parameters that changed significantly."""

    report: str
    models: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]


def write_comparison(folders: Sequence[Path], target: Path) -> WrittenComparison:
    """Write the page that compares the folders' models into the file target; return what changed significantly."""
    models = {folder_label(folder, folders): load_model(model_path(folder)) for folder in folders}
    changes = compare(models)
    rows: list[Mapping[str, str | float | None]] = []
    for change in changes:
        row: dict[str, str | float | None] = {"name": change.name, "unit": change.unit}
        for k, _ in enumerate(models):
            row |= {f"value{k}": change.value[k], f"std{k}": change.std[k], f"z{k}": change.z[k]}
            row[f"changed{k}"] = "yes" if change.significant[k] else "no"
        rows.append(row)
    changed = {
        label: tuple(change.name for change in changes if change.significant[k]) for k, label in enumerate(models) if k
    }
    first = next(iter(models))
    verdict = [
        ("warn", f"{label} differs significantly from {first} in {', '.join(names)}.")
        if names
        else ("good", f"{label} does not differ significantly from {first}.")
        for label, names in changed.items()
    ]
    facts = ["Significant: with no real change, at most 1 of 100 such tables would mark any parameter."]
    data = ComparisonData(list(models), rows, [])
    write_text(target, comparison_page(f"Comparison of {len(models)} identifications", verdict, facts, data))
    return WrittenComparison(str(target), tuple(models), changed)


def _digests(model: IdentifiedModel) -> dict[str, str]:
    files = model.obtained.get("files")
    return {str(name): str(value) for name, value in files.items()} if isinstance(files, Mapping) else {}


def model_path(folder: Path) -> Path:
    """Return the folder's model file, or say what is missing."""
    path = folder / MODEL
    if not path.is_file():
        raise InputError(f"there is no {MODEL}", "name the folder that dynid identify wrote (-o)", str(folder))
    return path


def verdict_of(model: IdentifiedModel) -> list[tuple[str, str]]:
    """Return the verdict as (level, sentence); a model without one is judged by its errors.

    Models that were identified before friction was fitted so that it brakes may have a law that pushes.
    """
    pushing = pushing_speeds(model.robot, model.chi)
    unsafe = [("bad", f"{pushing_text(pushing)}: identify again before it is fed forward")] if pushing else []
    return unsafe + _stored_verdict(model)


def _stored_verdict(model: IdentifiedModel) -> list[tuple[str, str]]:
    stored_verdict = model.obtained.get("verdict")
    if isinstance(stored_verdict, list) and stored_verdict:
        remarks = [item for item in stored_verdict if isinstance(item, Mapping)]
        return [(LEVELS.get(str(item.get("level")), "warn"), str(item.get("text", ""))) for item in remarks]
    errors = model.validation or model.fit
    which = "on data that were not used in the fit" if model.validation else "on the fitted data; it was not validated"
    if "all" not in errors:
        return [("warn", "The model file has no torque errors.")]
    total = errors["all"].relative
    level = "good" if total < 0.05 and model.validation else "warn" if total < 0.15 else "bad"
    return [(level, f"The model predicts the torque with an error of {100 * total:.1f} % {which}.")]


def model_facts(model: IdentifiedModel) -> list[str]:
    """Return the sentences with which the page begins."""
    facts = [f"{len(model.names)} base parameters of {len(model.robot.active)} joints."]
    speeds = model.recorded_speeds
    if speeds:
        parts = ", ".join(f"{name} {speed:.3g}" for name, speed in speeds.items())
        facts.append(f"Fastest speeds recorded [rad/s or m/s]: {parts}; friction beyond them is extrapolated.")
    return facts


def set_rows(model: IdentifiedModel) -> list[tuple[str, str]]:
    """Return the torque errors of each parameter set, as rows of text; the last one is served."""
    rows = []
    for name, errors in model.sets.items():
        text = f"{100 * errors.fit['all'].relative:.2f} % on the data used"
        if errors.validation:
            text += f", {100 * errors.validation['all'].relative:.2f} % on held-out data"
        rows.append((name, text + ("; this set is used" if name == list(model.sets)[-1] else "")))
    return rows


def _how(model: IdentifiedModel) -> list[tuple[str, str]]:
    """Return what was done to the data and with which versions, as rows of text."""
    shown_elsewhere = ("verdict", "singular_values", "friction_tried", "used")
    return [(str(key), _text(value)) for key, value in model.obtained.items() if key not in shown_elsewhere]


def _floats(values: object) -> list[float]:
    return [float(v) for v in values if isinstance(v, int | float)] if isinstance(values, Sequence) else []


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_text(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def folder_label(folder: Path, folders: Sequence[Path]) -> str:
    """Return the folder's name, or the shortest part of its path that is unique."""
    same = sum(other.resolve().name == folder.resolve().name for other in folders)
    return folder.resolve().name if same == 1 else str(folder)
