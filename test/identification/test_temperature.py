# SPDX-License-Identifier: Apache-2.0

"""Friction that changes with the temperature of the drive: its torque, files, choice, simulated plant, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid import cli
from ros2_dynid.codegen.backend import fast_inverse_dynamics
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import load_model, load_torque_data
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot_file import robot_from_dict, robot_to_dict
from ros2_dynid.pipeline import identify
from ros2_dynid.recording.read import load_samples
from ros2_dynid.recording.samples import Samples
from ros2_dynid.recording.save import save_samples
from ros2_dynid.sim.controller import pd_gains
from ros2_dynid.sim.simulated_robot import Imperfections, SimulatedRobot

ROBOT = load_robot("demo3")
PLAIN = {name: value for name, value in ROBOT.parameters.items() if not name.startswith(("F", "off"))}
CHI = standard_vector(ROBOT, {**PLAIN, "Fv1": 6.0, "Fv2": 8.0, "Fv3": 3.0, "Fc1": 6.0, "Fc2": 9.0, "Fc3": 3.0})
TERMS = (
    FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0),
    FrictionTerm(3, FrictionKind.TEMPERATURE, -0.04, reference=35.0),
)


def motion(seconds: float, rate: float, seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 1.0 / rate)
    amplitude, phase = rng.uniform(0.1, 0.35, (3, 6)), rng.uniform(0.0, 6.3, (3, 6))
    w = 2.0 * np.pi * np.array([0.1, 0.2, 0.3, 0.5, 0.7, 0.9])
    waves = [np.sin(np.multiply.outer(t, w)[:, None] + phase + k * np.pi / 2) for k in range(3)]
    q, dq, ddq = (np.sum(amplitude * w**k * wave, axis=2) for k, wave in enumerate(waves))
    return t, q, dq, ddq


def recording(terms: tuple[FrictionTerm, ...], seed: int) -> Samples:
    """Return 60 s at 100 Hz while the drives warm up from 20 to 50 deg C, told in whole degrees, with noise."""
    rng = np.random.default_rng(seed)
    t, q, dq, ddq = motion(60.0, 100.0, seed)
    temperature = np.repeat(50.0 - 30.0 * np.exp(-t / 20.0)[:, None], 3, axis=1)
    tau = inverse_dynamics(replace(ROBOT, friction=terms), CHI, q, dq, ddq, temperature)
    tau += rng.normal(0.0, 0.02 * tau.std(axis=0), tau.shape)
    noisy = q + rng.normal(0.0, 1e-5, q.shape)
    return Samples(t, ROBOT.active_names, noisy, tau=tau, source="simulated", temperature=np.round(temperature))


def test_the_terms_are_a_linear_factor_of_viscous_and_coulomb_friction():
    _, q, dq, ddq = motion(2.0, 50.0, 0)
    T = np.random.default_rng(1).uniform(10.0, 60.0, q.shape)
    robot = replace(ROBOT, friction=TERMS)
    warm = inverse_dynamics(robot, CHI, q, dq, ddq, T)
    plain = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    factor = 1.0 - 0.15 / 8.0 * (T[:, 1] - 35.0)
    assert np.allclose(warm[:, 1], plain[:, 1] + 8.0 * (factor - 1.0) * dq[:, 1])
    assert np.allclose(warm[:, 2], plain[:, 2] - 0.04 * (T[:, 2] - 35.0) * np.sign(dq[:, 2]))
    assert np.allclose(fast_inverse_dynamics(robot, CHI, q, dq, ddq, T), warm)
    # not known: as at the reference
    assert np.allclose(inverse_dynamics(robot, CHI, q, dq, ddq), plain)
    T[:, 1] = np.nan
    assert np.allclose(inverse_dynamics(robot, CHI, q, dq, ddq, T)[:, 1], plain[:, 1])


def test_a_warming_robot_is_found_and_its_files_carry_the_temperature(tmp_path, capsys):
    samples = recording(TERMS, 1)
    table = tmp_path / "warming.csv"
    save_samples(samples, table)
    again = load_samples(table, ROBOT)
    assert again.temperature is not None and np.array_equal(again.temperature, samples.temperature)

    found = identify(ROBOT, [table], output=tmp_path / "model")
    terms = found.model.robot.friction
    assert [(term.joint, term.kind) for term in terms] == [(term.joint, term.kind) for term in TERMS]
    for term, true in zip(terms, TERMS, strict=True):
        assert term.std is not None and term.std < 0.2 * abs(true.coefficient)
        assert abs(term.coefficient - true.coefficient) < 4.0 * term.std
    assert load_model(tmp_path / "model").robot.friction == terms
    rows = [row for row in found.outcome.friction if row.name == "Ftv2"]
    assert rows[0].unit == "N.m.s/(rad.K)" and rows[0].reference == terms[0].reference
    data = load_torque_data(tmp_path / "model" / "data.npz")["fit"]
    assert np.ptp(data.temperature[:, 1]) > 20.0
    assert "against the temperature" in (tmp_path / "model" / "report.html").read_text()

    t, q, dq, ddq = motion(1.0, 20.0, 3)
    for warmth in (None, np.full_like(q, 55.0)):
        given = Samples(t, ROBOT.active_names, q, dq, ddq, temperature=warmth)
        save_samples(given, tmp_path / "motion.csv", overwrite=True)
        files = [str(tmp_path / name) for name in ("model", "motion.csv", "torque.csv")]
        assert cli.main(["torque", *files, "--overwrite"]) == 0
        said = "is not known in every row" in " ".join(capsys.readouterr().out.split())
        assert said == (warmth is None)
        tau = load_samples_of_efforts(tmp_path / "torque.csv")
        expected = inverse_dynamics(found.model.robot, found.model.chi, q, dq, ddq, warmth)
        assert np.allclose(tau, expected)
    kelvin = np.full_like(q, 40.0)
    kelvin[7, 2] = 313.15
    given = Samples(t, ROBOT.active_names, q, dq, ddq, temperature=kelvin)
    save_samples(given, tmp_path / "motion.csv", overwrite=True)
    assert cli.main(["torque", str(tmp_path / "model"), str(tmp_path / "motion.csv"), str(tmp_path / "no.csv")]) == 2
    assert "elbow.temperature is 313.15 deg C in row 8; give degrees Celsius" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


def load_samples_of_efforts(path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1)[:, 1:]


def test_a_warming_robot_with_plain_friction_gets_no_term():
    found = identify(ROBOT, [recording((), 2)])
    assert found.model.robot.friction == ()
    assert any("temperature" in trial.term for trial in found.outcome.friction_tried)


def test_consistent_friction_dissipates_at_every_temperature_recorded():
    steep = FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.5, reference=35.0)
    found = identify(ROBOT, [recording((steep,), 4)], options=IdentifyOptions(consistent=True))
    (term,) = (term for term in found.model.robot.friction if term.joint == 2)
    assert found.model.consistent is not None
    assert found.model.consistent["Fv2"] + term.coefficient * (50.0 - term.reference) >= -1e-6


def test_mujoco_warms_up_and_the_law_is_found():
    term = FrictionTerm(2, FrictionKind.TEMPERATURE_VISCOUS, -0.15, reference=35.0)
    made = Imperfections(cold=20.0, warm=50.0, warming_time=8.0)
    plant = replace(ROBOT, friction=(term,))
    t, q, dq, _ = motion(16.0, 500.0, 5)
    sim = SimulatedRobot(plant, CHI, period=2e-3, imperfections=made, start=q[0], seed=1)
    Kp, Kd = pd_gains(ROBOT, CHI, 5.0)
    seen = sim.measure()
    rows = []
    for k in range(len(t)):
        seen = sim.step(Kp * (q[k] - seen.q) + Kd * (dq[k] - seen.dq))
        rows.append((seen.q, seen.tau, seen.temperature))
    positions, torques, warmth = (np.array(x) for x in zip(*rows, strict=True))
    samples = Samples(t, ROBOT.active_names, positions, tau=torques, source="MuJoCo", temperature=warmth)
    options = IdentifyOptions(friction=f"{ROBOT.active_names[1]}=temperature_viscous")
    (found,) = identify(ROBOT, [samples], options=options).model.robot.friction
    assert found.std is not None and found.coefficient < -5.0 * found.std
    assert abs(found.coefficient + 0.15) < 4.0 * found.std


def test_a_robot_file_keeps_the_reference():
    robot = replace(ROBOT, friction=TERMS)
    assert robot_from_dict(robot_to_dict(robot), "test").friction == TERMS


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"term": "temperature", "coefficient": -0.1}, "has no reference"),
        ({"term": "temperature", "coefficient": -0.1, "reference": -400.0}, "reference -400"),
        ({"term": "temperature", "coefficient": float("nan"), "reference": 20.0}, "coefficient"),
        ({"term": "load", "coefficient": 0.1, "reference": 20.0}, "does not change with the temperature"),
    ],
)
def test_bad_terms_are_refused_in_one_line(entry, what):
    with pytest.raises(InputError, match=what):
        robot_from_dict({**robot_to_dict(ROBOT), "friction": [{"joint": 1, **entry}]}, "test")


@pytest.mark.parametrize(("temperature", "what"), [(None, "is not recorded"), (25.0, "does not change")])
def test_a_law_of_the_temperature_needs_one_that_changes(temperature, what):
    samples = recording((), 1)
    warmth = None if temperature is None else np.full_like(samples.q, temperature)
    with pytest.raises(InputError, match=what):
        identify(ROBOT, [replace(samples, temperature=warmth)], options=IdentifyOptions(friction="temperature"))
