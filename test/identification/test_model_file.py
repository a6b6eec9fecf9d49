"""model.yaml: the same model back, atomically, and one readable line for what is no model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import yaml

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.friction_terms import terms_torque
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import (
    TorqueError,
    is_model_file,
    load_model,
    model_of,
    save_model,
)
from ros2_dynid.identification.torque_std import torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

ROBOT = load_robot("demo6")
BASE = base_parameters(ROBOT, method="closed-form")


def model(**more):
    rng = np.random.default_rng(0)
    value = BASE.values(ROBOT, standard_vector(ROBOT))
    C = rng.standard_normal((len(BASE), len(BASE)))
    covariance = C @ C.T * 1e-6
    std = np.sqrt(np.diag(covariance))
    std[3] = np.inf
    return model_of(ROBOT, BASE, value, std, covariance, **more)


def test_round_trip_is_exact(tmp_path):
    fit = {"all": TorqueError(0.5, 0.03)}
    written = model(fit=fit, essential=("ZZR1",), standard={"ZZ1": 0.5}, obtained={"method": "wls", "x": np.float64(2)})
    save_model(written, tmp_path / "new" / "model.yaml")
    read = load_model(tmp_path / "new")
    for name in ("value", "std", "covariance"):
        assert np.array_equal(getattr(read, name), getattr(written, name))
    assert read.names == written.names and read.leaders == written.leaders and read.terms == written.terms
    assert read.fit == fit and read.essential == ("ZZR1",) and read.standard == {"ZZ1": 0.5}
    assert read.obtained == {"method": "wls", "x": 2.0}
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 5, 6))
    assert np.array_equal(read.torque(q, dq, ddq), written.torque(q, dq, ddq))


def rubbing():
    """Return a model with friction terms whose covariance with everything is known."""
    law = (
        FrictionTerm(2, FrictionKind.LOAD, 0.1, 0.01),
        FrictionTerm(3, FrictionKind.STRIBECK, 2.0, 0.1, speed=0.2, speed_std=0.02),
    )
    bare = model()
    S = np.random.default_rng(4).standard_normal((len(BASE) + 3, len(BASE) + 3))
    C = 0.5e-4 * (S @ S.T + (S @ S.T).T)
    robot = replace(ROBOT, friction=law)
    b = len(BASE)
    return model_of(robot, BASE, bare.value, np.sqrt(np.diag(C))[:b], C[:b, :b], friction_covariance=C[b:])


def test_the_covariance_of_friction_terms_survives_and_older_files_have_none(tmp_path):
    written = rubbing()
    assert written.known_covariance.shape == (len(BASE) + 3, len(BASE) + 3)
    save_model(written, tmp_path / "model.yaml")
    read = load_model(tmp_path / "model.yaml")
    assert np.array_equal(read.known_covariance, written.known_covariance)
    data = yaml.safe_load((tmp_path / "model.yaml").read_text())
    rows = data.pop("friction_covariance")
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(data))
    old = load_model(tmp_path / "old.yaml")
    assert old.friction_covariance is None and np.array_equal(old.known_covariance, old.covariance)
    for spoilt in (rows[:2], [row[:-1] for row in rows], "none", [[*rows[0][:-1], float("nan")], *rows[1:]]):
        (tmp_path / "bad.yaml").write_text(yaml.safe_dump({**data, "friction_covariance": spoilt}))
        with pytest.raises(InputError, match=r"identify .*again"):
            load_model(tmp_path / "bad.yaml")


def test_torques_of_friction_terms_have_error_bars():
    """By hand: the parameters are moved along the eigenvectors of their covariance, terms and their shape as well."""
    known = rubbing()
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 20, 6))
    values, axes = np.linalg.eigh(known.known_covariance)
    step, b = 1e-5, len(BASE)
    load, stribeck = known.robot.friction
    carried = known.torque(q, dq, ddq, friction=False)
    variance = np.zeros(q.shape)
    for value, axis in zip(values, axes.T, strict=True):
        moved = known.chi_of(known.value + step * axis[:b])
        law = (
            replace(load, coefficient=load.coefficient + step * axis[b]),
            replace(
                stribeck,
                coefficient=2.0 + step * axis[b + 1],
                speed=0.2 * np.exp(step * axis[b + 2] / 2.0),
            ),
        )
        plain = replace(known.robot, friction=())
        tau = inverse_dynamics(plain, moved, q, dq, ddq) - inverse_dynamics(plain, known.chi, q, dq, ddq)
        for robot, sign in ((replace(plain, friction=law), 1.0), (known.robot, -1.0)):
            tau = tau + sign * terms_torque(robot, dq, np.sign(dq), carried)
        variance += value * (tau / step) ** 2
    assert np.allclose(torque_std(known, q, dq, ddq), np.sqrt(variance), rtol=1e-3)
    old = replace(known, friction_covariance=None)
    assert not np.allclose(torque_std(old, q, dq, ddq)[:, 1], np.sqrt(variance)[:, 1], rtol=0.02)


def test_torque_is_that_of_the_parameters_behind_the_base():
    q, dq, ddq = np.random.default_rng(1).uniform(-1, 1, (3, 50, 6))
    chi = standard_vector(ROBOT)
    assert np.allclose(model().torque(q, dq, ddq), inverse_dynamics(ROBOT, chi, q, dq, ddq), atol=1e-9)
    bare = inverse_dynamics(ROBOT, without_friction(ROBOT, chi), q, dq, ddq)
    assert np.allclose(model().torque(q, dq, ddq, friction=False), bare, atol=1e-9)


def test_expression_and_table():
    row = model().table()[0]
    assert row.name == BASE.names[0] and row.expression.startswith(BASE.leaders[0])
    assert row.relative_std == pytest.approx(row.std / abs(row.value))
    assert model().table()[3].std is None


def test_writing_leaves_no_other_file_and_replaces_whole(tmp_path):
    path = tmp_path / "model.yaml"
    save_model(model(), path)
    save_model(model(fit={"all": TorqueError(1.0, 0.1)}), path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.yaml"]
    assert load_model(path).fit["all"].relative == 0.1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "just words",
        lambda text: "format: something else\n",
        lambda text: text.replace("version: 1", "version: 99"),
        lambda text: text.replace("leader: ", "ledaer: "),
        lambda text: text.replace("value: ", "value: .nan #", 1),
        lambda text: text.replace("leader: ZZ1", "leader: QQ1"),
        lambda text: yaml.safe_dump({**yaml.safe_load(text), "covariance": [[1.0]]}),
        lambda text: yaml.safe_dump({**yaml.safe_load(text), "robot": "gone"}),
        lambda text: text.replace("format", "!!python/object/apply:os.system ['true']\nformat", 1),
    ],
)
def test_damaged_or_foreign_files_are_refused_in_one_line(tmp_path, damage):
    path = tmp_path / "model.yaml"
    save_model(model(), path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError) as error:
        load_model(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_model(tmp_path / "model.yaml")
    assert not is_model_file(tmp_path)
