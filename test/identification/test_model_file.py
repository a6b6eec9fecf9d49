"""model.yaml: the same model back, atomically, and one readable line for what is no model."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import without_friction
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification.model_file import (
    TorqueError,
    is_model_file,
    load_model,
    model_of,
    save_model,
)
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
