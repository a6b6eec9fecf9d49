# SPDX-License-Identifier: Apache-2.0

"""Loads from recordings and the model of the robot without them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from recordings import simulated, simulated_truth
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.identification.loads.from_recordings import identify_payload, identify_payload_on_model
from ros2_dynid.identification.loads.payload_fit import add_load_columns, find_disagreement
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.physical.consistency import closest_body
from ros2_dynid.identification.preparation.repetition import measure_motion_period
from ros2_dynid.identification.preparation.rows import Rows
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import gather
from ros2_dynid.model.inertia import pseudo_inertia
from ros2_dynid.pipeline import identify

MASS, COM, INERTIA = 1.5, np.array([0.03, -0.02, 0.12]), np.diag([0.004, 0.005, 0.003])


J = INERTIA + MASS * (COM @ COM * np.eye(3) - np.outer(COM, COM))


LOAD = (J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2], *(MASS * COM), MASS)


def loaded(seed=5, motion=104):
    return simulated(seed=seed, seed_motion=motion, load=LOAD)


@pytest.fixture(scope="module")
def model():
    return identify(simulated_truth()[0], [simulated()]).model


def test_load_is_found_on_a_stored_model(model):
    found = identify_payload_on_model(model, [loaded()])
    assert abs(found.mass - MASS) < 4 * found.mass_std and found.mass_std < 0.02
    flange = np.linalg.inv(model.robot.tools[found.frame][1])
    com = (flange @ np.append(COM, 1.0))[:3]
    assert np.all(np.abs(found.com - com) < 4 * found.com_std) and np.max(found.com_std) < 3e-3
    assert found.significant and np.linalg.eigvalsh(pseudo_inertia(found.parameters))[0] > 0
    more = identify_payload_on_model(model, [loaded(), loaded(6, 105)])
    assert abs(more.mass - MASS) < 4 * more.mass_std and more.mass_std < 1.2 * found.mass_std
    told = np.isfinite(found.joint_mass)
    assert told.sum() >= 2 and np.all(np.abs(found.joint_mass - MASS)[told] < 5 * found.joint_mass_std[told])


def test_bars_hold_those_of_the_model(model):
    known = identify_payload_on_model(replace(model, covariance=np.zeros_like(model.covariance)), [loaded()], free=True)
    vague = identify_payload_on_model(replace(model, covariance=100 * model.covariance), [loaded()], free=True)
    assert known.mass_std < vague.mass_std / 2 and known.mass == pytest.approx(vague.mass)


def test_joints_that_contradict_each_other_are_named_and_widen_the_bars(model):
    gains = np.array([1.0, 1.0, 1.1, 1.0, 1.0, 1.0])
    empty, full = (replace(s, tau=s.tau * gains) for s in (simulated(), loaded()))
    plain = IdentifyOptions(checks=False, friction="viscous+coulomb")
    spoilt = identify(model.robot, [empty], options=plain).model
    found, straight = identify_payload_on_model(spoilt, [full]), identify_payload_on_model(model, [loaded()])
    assert model.robot.active_names[2] in found.contradicting and straight.contradicting == ()
    assert abs(found.mass - MASS) > 20 * straight.mass_std  # without the joints' word the bars would be wrong
    assert abs(found.mass - MASS) < 2 * found.mass_std
    for friction in ("viscous+coulomb", "auto"):  # no law may take over what the joints contradict each other by
        options = replace(plain, friction=friction)
        together = identify_payload(model.robot, [empty], [full], options=options)
        assert together.contradicting == (model.robot.active_names[2],) and together.mass_std > 10 * straight.mass_std
        assert abs(together.mass - MASS) < 2 * together.mass_std
        agreeing = identify_payload(model.robot, [simulated()], [loaded()], options=options)
        assert agreeing.contradicting == () and abs(agreeing.mass - MASS) < 4 * agreeing.mass_std


def test_closest_body_exists_and_stays_where_it_does():
    true = np.array(LOAD)
    covariance = np.diag((0.1 * np.abs(true) + 1e-4) ** 2)
    assert np.array_equal(closest_body(true, covariance), true)
    wrong = true.copy()
    wrong[0] -= 0.03  # XX below what the centre of mass alone asks for
    found = closest_body(wrong, covariance)
    assert np.linalg.eigvalsh(pseudo_inertia(found))[0] > 0 > np.linalg.eigvalsh(pseudo_inertia(wrong))[0]
    distance = [float((x - wrong) @ np.linalg.solve(covariance, x - wrong)) for x in (found, true)]
    assert distance[0] < distance[1]


def test_model_that_does_not_know_what_the_motion_needs_is_refused(model):
    std = model.std.copy()
    std[model.leaders.index("Fv3")] = np.inf
    with pytest.raises(InputError, match="Fv3"):
        identify_payload_on_model(replace(model, std=std), [loaded()])


def test_command_takes_a_model(model, tmp_path, capsys):
    def written(name, samples):
        np.savez(tmp_path / name, t=samples.t, q=samples.q, tau=samples.tau)
        return str(tmp_path / name)

    empty, first = written("empty.npz", simulated()), written("first.npz", loaded())
    folder = tmp_path / "model"
    identify(model.robot, [empty], options=IdentifyOptions(friction="viscous+coulomb"), output=folder)
    assert main(["payload", str(folder / "model.yaml"), "--loaded", first, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert abs(found["mass"] - MASS) < 4 * found["std"]["mass"] and found["joint_mass"]
    assert main(["payload", "demo6", "--loaded", first]) == 2
    assert "without the load" in capsys.readouterr().err
    assert main(["payload", str(folder / "model.yaml"), "--empty", empty, "--loaded", first]) == 2


@pytest.mark.parametrize(
    ("scale", "std", "named"),
    [
        ([1.0, 1.01, 1.1], [0.02, 0.02, 0.005], (2,)),  # narrow bars draw the mean of all to the wrong joint
        ([1.1, 1.0, np.nan, 1.01], [0.01, 0.01, np.nan, 0.01], (0,)),
        ([0.9, 1.1], [0.01, 0.01], (0, 1)),  # of two, nobody knows which
        ([1.0, 1.3, 0.7, 1.01, 0.99], [0.02] * 5, (1, 2)),
        ([1.0, 1.02, 0.98], [0.02] * 3, ()),
    ],
)
def test_the_joint_is_named_without_which_the_others_agree(scale, std, named):
    variance, found = find_disagreement(np.array(scale), np.array(std))
    assert found == named and (variance > 0.0) == bool(named)


def test_rows_of_loads_keep_their_phases():
    """Identity: by phase and by time the same rows are summed, with the columns of loads too."""
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 19.0, 0.02)
    rows = Rows(
        t, rng.standard_normal((4, 2, len(t))), rng.standard_normal((2, len(t))), np.ones((2, len(t)), dtype=bool)
    )
    plain = gather([rows], np.ones((2, 4), dtype=bool), len(t), ColumnLayout(4), period=10.0)
    for place, count in ((0, 1), (1, 2)):
        wide = add_load_columns(plain, rng.standard_normal((4, 10)), place, count)
        for j in range(2):
            by_time, by_phase = (
                sum(block.R[j].T @ block.R[j] for block in blocks) for blocks in (wide.blocks, wide.phases)
            )
            assert by_time.shape == (5 + 10 * count, 5 + 10 * count)
            assert np.allclose(by_time, by_phase)


def test_a_motion_that_was_run_twice_repeats_although_filters_take_its_ends():
    t = np.arange(0.0, 20.0, 0.02)
    q = np.column_stack([np.sin(0.2 * np.pi * k * t) + np.cos(0.6 * np.pi * t) for k in (1, 2, 3)])
    assert measure_motion_period(q[25:-25], 50.0) == pytest.approx(10.0, abs=0.01)
    assert measure_motion_period(q[:800], 50.0) is None
