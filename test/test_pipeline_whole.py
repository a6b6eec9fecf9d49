"""A whole identification, of little data: every figure of the outcome is that of the set and of the rows it is of."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from motions import recorded_motion
from ros2_dynid import pipeline
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.torque_data import load_torque_data
from ros2_dynid.identification.validation import torque_errors
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.recording.read import load_samples

pytest.importorskip("clarabel")
SETS = ["base", "essential", "consistent"]
OPTIONS = IdentifyOptions(
    essential=True, standard=True, consistent=True, friction="viscous+coulomb", prior="none", checks=False
)
STEPS = (
    "fitted_torques", "predicted_recordings", "provenance", "held_out_level", "validation_of", "refuse_wrong_data",
    "set_fits",
)  # fmt: skip


@pytest.fixture(scope="module")
def robot():
    return load_robot("demo3")


@pytest.fixture(scope="module")
def halves(robot, tmp_path_factory):
    """Return the two halves of a noisy recording."""
    folder = tmp_path_factory.mktemp("recorded")
    samples = load_samples(folder / recorded_motion(folder, robot), robot)
    noise = 1.5 * np.random.default_rng(0).standard_normal(samples.tau.shape)
    samples = replace(samples, tau=samples.tau + noise)
    return samples.take(samples.t < 4.0), samples.take(samples.t >= 4.0)


@pytest.fixture
def steps(monkeypatch):
    """Return what the steps of an identification are given and what they return, while it runs as ever."""
    seen = SimpleNamespace(**{name: [] for name in STEPS})

    def watch(name):
        step, calls = getattr(pipeline, name), getattr(seen, name)

        def call(*args, **more):
            answer = step(*args, **more)
            calls.append((args, answer))
            return answer

        monkeypatch.setattr(pipeline, name, call)

    for name in STEPS:
        watch(name)
    return seen


def test_every_figure_is_of_the_set_that_is_served(robot, halves, steps, tmp_path):
    told = []
    result = pipeline.identify(
        robot, halves[:1], options=OPTIONS, validate=halves[1:], output=tmp_path / "out",
        progress=lambda stage, done: told.append((stage, done)),
    )  # fmt: skip
    outcome, obtained = result.outcome, result.model.obtained
    (((problem, value), fitted),) = steps.fitted_torques
    (_, _, values, banded, *_), held_out = steps.predicted_recordings[0]
    (_, _, found, *_), _ = steps.provenance[0]
    level = steps.held_out_level[0][1]
    assert list(values) == list(outcome.sets) == SETS and outcome.serve == result.model.serve == "consistent"
    assert value is values["consistent"]
    pairs = [("base", "essential"), ("base", "consistent"), ("essential", "consistent")]
    assert not any(np.allclose(values[one], values[other], rtol=1e-6) for one, other in pairs), "each has its own"
    kept = np.flatnonzero(values["essential"][problem.information.layout.base])
    assert outcome.essential == tuple(problem.base.names[k] for k in kept) and 0 < len(kept) < len(values["base"])
    np.testing.assert_array_equal(result.model.value, found.base)

    for name, one in values.items():
        assert outcome.sets[name].fit == torque_errors(robot.active_names, problem.information, one)
        assert outcome.sets[name].validation == held_out[name].errors
    assert (outcome.fit, outcome.validation) == (outcome.sets["consistent"].fit, held_out["consistent"].errors)
    assert outcome.band_coverage == held_out["consistent"].coverage
    assert set(result.torques) == {"fit", "validation"}
    assert result.torques["fit"] is fitted.data and result.torques["validation"] is held_out["consistent"].data
    stored = load_torque_data(tmp_path / "out" / "data.npz")
    for name, data in result.torques.items():
        np.testing.assert_allclose(stored[name].predicted, data.predicted, rtol=1e-6)

    assert outcome.rows == sum(problem.information.rows) > max(problem.information.rows)
    assert outcome.cond == found.cond and obtained["dof"] == found.dof
    assert obtained["band_sigma"] == banded.sigma.tolist() == level.tolist() != found.sigma.tolist()
    fractions = [done for _, done in told]
    assert fractions == sorted(fractions) and told[-1] == ("done", 1.0) and ("writing", 0.97) in told
    assert not steps.refuse_wrong_data, "checks were not asked for"


def test_each_set_is_tested_by_fits_of_its_own(robot, halves, steps):
    options = replace(OPTIONS, cross_validate=2)
    outcome = pipeline.identify(robot, halves[:1], options=options).outcome
    fits = steps.set_fits[0][1]
    assert [args[2] for args, _ in steps.validation_of] == [fits[name] for name in SETS]
    for (_, tested), name in zip(steps.validation_of, SETS, strict=True):
        assert outcome.sets[name].validation == tested.errors
    assert outcome.folds == 2 and outcome.band_coverage == {}


def test_checks_are_made_unless_they_are_declined(robot, halves, steps):
    options = IdentifyOptions(friction="viscous+coulomb", prior="none", cross_validate=0)
    with pytest.raises(InputError, match="wrong sign"):
        pipeline.identify(robot, [replace(halves[0], tau=-halves[0].tau)], options=options)
    pipeline.identify(robot, halves[:1], options=options)
    assert len(steps.refuse_wrong_data) == 1


@pytest.mark.parametrize("answers", [("base", "consistent"), ("consistent", "base"), ("consistent", "consistent")])
def test_bodies_are_served_only_if_neither_kind_of_error_speaks_against_them(robot, halves, monkeypatch, answers):
    said = iter(answers)
    monkeypatch.setattr(pipeline, "served_set", lambda *args, **more: next(said))
    options = replace(OPTIONS, essential=False, standard=False, cross_validate=2)
    found = pipeline.identify(robot, halves[:1], options=options).outcome
    assert found.serve == ("base" if "base" in answers else "consistent")
    assert found.fit == found.sets[found.serve].fit


def test_a_model_gives_the_parameters_asked_for_and_keeps_its_gravity(robot, halves, tmp_path):
    pipeline.identify(robot, halves[:1], options=replace(OPTIONS, cross_validate=0), output=tmp_path)
    model = load_model(tmp_path)
    chi = {
        "served": model.chi, "base": model.chi_of(model.value), "standard": standard_vector(robot, model.standard),
        "consistent": standard_vector(robot, model.consistent),
    }  # fmt: skip
    for use, expected in chi.items():
        found, values = pipeline.robot_or_model(tmp_path, use=use, gravity=robot.gravity)
        np.testing.assert_array_equal(values, expected)
        assert found.active_names == robot.active_names
    for k in range(3):
        with pytest.raises(InputError, match=r"identified with gravity \[.*\]; base parameters hold for one mounting"):
            pipeline.robot_or_model(tmp_path, gravity=robot.gravity + 0.1 * np.eye(3)[k])


@pytest.mark.parametrize(("prior", "as_found"), [("none", True), ("urdf", False)])
def test_an_estimate_drawn_towards_bodies_is_served_as_bodies(robot, halves, monkeypatch, prior, as_found):
    asked, physical = [], pipeline._physical
    monkeypatch.setattr(pipeline, "possible", lambda *_: True)
    monkeypatch.setattr(
        pipeline, "_physical", lambda *args, **more: asked.append((args, more)) or physical(*args, **more)
    )
    options = IdentifyOptions(friction="viscous+coulomb", prior=prior, checks=False, cross_validate=0)
    found = pipeline.identify(robot, halves[:1], options=options).outcome
    (((*_, drawn), more),) = asked
    assert (drawn is None) == as_found and more == {"as_found": as_found}
    assert as_found or (drawn.weighing.weight > 0.0 and drawn.weighing.bodies)
    assert found.serve == ("base" if as_found else "consistent")
