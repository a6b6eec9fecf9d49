# SPDX-License-Identifier: Apache-2.0

"""The table of decisions in docs/identification.md has the thresholds of the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ros2_dynid.identification.decisions.effort_delay import EffortDelayThresholds
from ros2_dynid.identification.decisions.friction_selection import FrictionThresholds
from ros2_dynid.identification.decisions.lower_row_cutoff import RowCutoffThresholds
from ros2_dynid.identification.drive_stiffness import StiffnessThresholds
from ros2_dynid.identification.physical.essential import EssentialThresholds
from ros2_dynid.identification.preparation.cutoffs import CutoffThresholds, SpectrumThresholds
from ros2_dynid.identification.preparation.even_grid import (
    BurstThresholds,
    ClockThresholds,
    GridThresholds,
    QuantumThresholds,
    RepeatThresholds,
)
from ros2_dynid.identification.preparation.prepare import SignalThresholds, VelocityThresholds
from ros2_dynid.identification.preparation.repetition import RepetitionThresholds
from ros2_dynid.identification.preparation.rows import RowThresholds
from ros2_dynid.identification.regression.prior import PriorThresholds
from ros2_dynid.identification.validation.diagnosis import (
    ContradictionThresholds,
    DegreesThresholds,
    DiagnosisThresholds,
)
from ros2_dynid.identification.validation.effort_sign_and_unit import EffortThresholds
from ros2_dynid.identification.validation.estimator_advice import EstimatorThresholds
from ros2_dynid.identification.validation.friction_share import FrictionShareThresholds
from ros2_dynid.identification.validation.gravity_share import GravityThresholds
from ros2_dynid.identification.validation.mounting import MountingThresholds
from ros2_dynid.identification.validation.resonance import ResonanceThresholds
from ros2_dynid.identification.validation.sensor_side import SensorSideThresholds
from ros2_dynid.identification.validation.verdict import VerdictThresholds

ROOT = Path(__file__).parents[2]
PAGE, IDENTIFICATION = ROOT / "docs" / "identification.md", ROOT / "ros2_dynid" / "identification"


DECISIONS = [
    SignalThresholds,
    RepeatThresholds,
    ClockThresholds,
    GridThresholds,
    BurstThresholds,
    QuantumThresholds,
    SpectrumThresholds,
    CutoffThresholds,
    VelocityThresholds,
    RowThresholds,
    RepetitionThresholds,
    EssentialThresholds,
    RowCutoffThresholds,
    EffortDelayThresholds,
    FrictionThresholds,
    PriorThresholds,
    EffortThresholds,
    MountingThresholds,
    DegreesThresholds,
    ContradictionThresholds,
    SensorSideThresholds,
    EstimatorThresholds,
    VerdictThresholds,
    GravityThresholds,
    FrictionShareThresholds,
    StiffnessThresholds,
    ResonanceThresholds,
]


def test_every_decision_is_in_the_table():
    text = "\n".join(path.read_text() for path in IDENTIFICATION.rglob("*.py"))
    names = sorted(re.findall(r"^class (\w+Thresholds)\b", text, re.MULTILINE))
    assert names == sorted(decision.__name__ for decision in [*DECISIONS, DiagnosisThresholds])


@pytest.mark.parametrize("decision", DECISIONS)
def test_thresholds_on_the_page_are_those_of_the_code(decision):
    thresholds = decision()
    name = decision.__name__
    row = re.search(rf"`{name}`: ([^|]*)\|", PAGE.read_text())
    assert row, f"{name} is not in the table"
    told = dict(re.findall(r"(\w+) (\([^)]*\)|[\d.e+-]+)", row.group(1)))
    for field in fields(thresholds):
        if field.name == "weights":  # a ladder, told in words
            continue
        value = getattr(thresholds, field.name)
        text = f"({', '.join(f'{x:g}' for x in value)})" if isinstance(value, tuple) else f"{value:g}"
        assert told.get(field.name) == text, field.name
