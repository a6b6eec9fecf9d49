# SPDX-License-Identifier: Apache-2.0

"""Which parameter set is the model: one property, the same torques for every consumer, and each set's errors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import yaml

from recordings import simulated, simulated_truth
from ros2_dynid.cli import main
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError, MissingPackageError
from ros2_dynid.identification.candidates import impose_consistency
from ros2_dynid.identification.estimators.estimator import build_estimator
from ros2_dynid.identification.model_file import SetErrors, TorqueError, load_model, save_model
from ros2_dynid.identification.options import IdentifyOptions, Method
from ros2_dynid.identification.physical.consistency import fully_consistent_links, smallest_joint_inertia
from ros2_dynid.identification.problem import build_problem
from ros2_dynid.identification.served_set import select_served_set
from ros2_dynid.identification.validation.verdict import remark_on_essential, remark_on_impossible
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.pipeline import identify
from ros2_dynid.progress import ignore_progress
from ros2_dynid.usecases.robot_source import RobotSource, load_robot_or_model

MOTION = np.random.default_rng(0).uniform(-1, 1, (3, 20, 6))


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Return the outcome of a short and noisy recording: M(q) of its unconstrained estimate is indefinite."""
    robot, _ = simulated_truth()
    folder = tmp_path_factory.mktemp("short")
    options = IdentifyOptions(consistent=True, cross_validate=3, checks=False, prior="none")
    return identify(robot, [cut_and_noisy()], options=options, output=folder), folder


def cut_and_noisy():
    samples = simulated()
    part = samples.take(samples.t < 2.5)
    return replace(part, tau=part.tau + 0.5 * np.random.default_rng(0).standard_normal(part.tau.shape))


def test_inertia_matrix_of_what_is_served_is_positive_definite(short):
    model = load_model(short[1])
    assert model.serve == "consistent"
    assert smallest_joint_inertia(model.robot, model.chi, count=10_000) > 0.0
    assert smallest_joint_inertia(model.robot, model.chi_of(model.value), count=10_000) < 0.0
    assert all(fully_consistent_links(model.robot, standard_vector(model.robot, model.standard_served)))


def test_every_consumer_has_the_torques_of_the_consistent_set(short, tmp_path, capsys):
    model = load_model(short[1])
    imposed = replace(model, serve="base").chi_of(model.served)
    expected = model.torque(*MOTION)
    direct = inverse_dynamics(model.robot, standard_vector(model.robot, model.consistent), *MOTION)
    assert np.allclose(expected, direct, atol=1e-9 * np.abs(direct).max())
    assert not np.allclose(expected, replace(model, serve="base").torque(*MOTION), rtol=1e-3)
    for use, chi in (("served", imposed), ("base", model.chi_of(model.value))):
        assert np.array_equal(load_robot_or_model(RobotSource(str(short[1])), use)[1], chi)
    args = ["export", str(short[1]), "--to", "numpy", "--effort", "1", "-o", str(tmp_path / "code"), "--json"]
    assert main(args) == 0
    exported = json.loads(capsys.readouterr().out)["parameters"]
    assert exported == pytest.approx(dict(zip(model.leaders, model.served.tolist(), strict=True)))
    messages = pytest.importorskip("ros2_dynid.nodes.common.model_messages")
    from builtin_interfaces.msg import Time

    message = messages.model_message(model, Time(), "base_link")
    assert np.allclose(messages.model_of_message(message)[1], model.chi)
    assert np.allclose([p.std for p in message.parameters], model.std)


def test_bodies_that_can_exist_are_served_where_the_best_fit_has_none(monkeypatch):
    robot, _ = simulated_truth()
    options = IdentifyOptions(cross_validate=3, checks=False, prior="none", friction="viscous+coulomb")
    found = identify(robot, [cut_and_noisy()], options=options)
    assert found.model.serve == "consistent" and list(found.outcome.sets) == ["base", "consistent"]
    assert smallest_joint_inertia(robot, found.model.chi, count=10_000) > 0.0
    (said,) = (remark for remark in found.outcome.verdict if "inertia matrix" in str(remark.text))
    assert said.level == "note"
    ordinary = identify(robot, [simulated()], options=options)
    assert ordinary.model.serve == "base" and list(ordinary.outcome.sets) == ["base"]
    assert not any("inertia matrix" in str(remark.text) for remark in ordinary.outcome.verdict)
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(MissingPackageError, match="clarabel"):
        identify(robot, [cut_and_noisy()], options=options)


def test_an_estimate_that_bodies_can_have_stays_whatever_least_squares_says():
    """Instrumental variables are not undone by the rows that they do not trust."""
    robot, chi = simulated_truth()
    problem = build_problem(robot, [cut_and_noisy()], IdentifyOptions(friction="viscous+coulomb"), ignore_progress)
    found = build_estimator(Method.WLS, problem)(None)
    truth = found.with_base(problem.base.values(robot, chi))
    kept = impose_consistency(problem, problem.information, replace(truth, method=Method.IV))
    moved = impose_consistency(problem, problem.information, truth)
    far = [np.max(np.abs(x.value - truth.base) / found.base_std) for x in (kept, moved)]
    assert far[0] < 0.1 and far[1] > 1.0, "wls is what its rows say"


def test_errors_of_each_set_stand_side_by_side(tmp_path):
    robot, _ = simulated_truth()
    folder = tmp_path / "model"
    options = IdentifyOptions(essential=True, consistent=True, cross_validate=3, checks=False)
    found = identify(robot, [cut_and_noisy()], options=options, output=folder)
    sets = found.outcome.sets
    assert list(sets) == ["base", "essential", "consistent"]
    fit = {name: errors.fit["all"].relative for name, errors in sets.items()}
    assert fit["base"] < fit["essential"] and fit["base"] < fit["consistent"]
    tested = {name: errors.validation["all"].relative for name, errors in sets.items()}
    assert len(set(tested.values())) == 3 and all(tested[name] > fit[name] for name in sets)
    assert found.outcome.fit == sets["consistent"].fit and found.outcome.validation == sets["consistent"].validation
    assert load_model(folder).sets == sets
    assert "Torque errors of each parameter set" in (folder / "report.html").read_text()
    data = json.loads((folder / "summary.json").read_text())
    assert data["serve"] == "consistent" and set(data["sets"]) == set(sets)


def test_validation_recordings_are_predicted_by_each_set():
    robot, _ = simulated_truth()
    samples = simulated()
    others = [samples.take(samples.t > 6.0)]
    found = identify(
        robot, [cut_and_noisy()], validate=others, options=IdentifyOptions(consistent=True, checks=False)
    ).outcome
    assert found.sets["base"].validation["all"] != found.sets["consistent"].validation["all"]
    assert found.validation == found.sets["consistent"].validation


def test_files_without_the_entry_serve_base_and_wrong_ones_are_refused(short, tmp_path):
    model = load_model(short[1])
    path = tmp_path / "model.yaml"
    save_model(model, path)
    data = yaml.safe_load(path.read_text())
    old = {key: value for key, value in data.items() if key not in ("serve", "sets")}
    path.write_text(yaml.safe_dump(old))
    assert np.array_equal(load_model(path).served, model.value)
    for damage in ({"serve": "cheapest"}, {"consistent": None}, {"sets": 3}):
        path.write_text(yaml.safe_dump({**data, **damage}))
        with pytest.raises(InputError):
            load_model(path)


def errors(relative):
    return {"all": TorqueError(1.0, relative)}


def test_bodies_that_do_not_fit_are_not_served_unasked():
    """A counterbalance that the robot file lacks is no body's: the KR300 has 18 % with bodies and 6 % without."""
    base = SetErrors(errors(0.046), errors(0.057))
    fitting, odd = (SetErrors(errors(0.05), errors(x)) for x in (0.059, 0.18))
    untested = {"base": SetErrors(errors(0.046), {}), "consistent": SetErrors(errors(0.15), {})}
    assert select_served_set({"base": base}, asked=False) == "base"
    assert select_served_set({"base": base, "consistent": fitting}, asked=False) == "consistent"
    assert select_served_set({"base": base, "consistent": odd}, asked=False) == "base"
    assert select_served_set({"base": base, "essential": base, "consistent": odd}, asked=False) == "essential"
    assert select_served_set({"base": base, "consistent": odd}, asked=True) == "consistent"
    assert (
        select_served_set(untested, asked=False) == "base" and select_served_set(untested, asked=True) == "consistent"
    )
    (said,) = remark_on_impossible({"base": base, "consistent": odd}, "base")
    assert said.level == "warning" and "18.0 % instead of 5.7 %" in str(said.text)


def test_essential_parameters_that_predict_worse_are_said_to():

    def remarks(few):
        return remark_on_essential(
            {
                "base": SetErrors(errors(0.02), errors(0.023)),
                "essential": SetErrors(errors(0.02), errors(few)),
            }
        )

    (said,) = remarks(0.198)
    assert said.level == "warning" and "19.8 %" in said.text and "2.3 %" in said.text
    assert remarks(0.0235) == [] and remarks(0.02) == []
    assert remark_on_essential({"base": SetErrors(errors(0.02), errors(0.023))}) == []
    untested = {"base": SetErrors(errors(0.02), {}), "essential": SetErrors(errors(0.3), {})}
    assert remark_on_essential(untested) == []
