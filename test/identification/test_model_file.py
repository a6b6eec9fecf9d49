# SPDX-License-Identifier: Apache-2.0

"""model.yaml: the same model back, atomically, and one readable line for what is no model."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import yaml

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.friction import terms_torque, without_friction
from ros2_dynid.dynamics.newton_euler import inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.identification import model_file
from ros2_dynid.identification.model_file import (
    SetErrors,
    TorqueData,
    TorqueError,
    is_model_file,
    load_model,
    load_torque_data,
    model_of,
    save_model,
    save_torque_data,
)
from ros2_dynid.identification.torque_std import torque_std
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_names, standard_vector

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
    with pytest.raises(InputError, match=f"{tmp_path.name}: this is a folder"):
        load_model(tmp_path)


def test_a_file_that_is_far_too_large_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.yaml"
    save_model(by_hand(), path)
    size = path.stat().st_size
    for largest, refused in ((size, False), (size - 1, True)):
        monkeypatch.setattr(model_file, "LARGEST", largest)
        if refused:
            with pytest.raises(InputError, match=str(path)):
                load_model(path)
        else:
            assert load_model(path).names == SMALL_BASE.names


# --- every entry of the file, of a model of three joints made by hand


SMALL = load_robot("demo3")
SMALL_BASE = base_parameters(SMALL)


def by_hand(**more):
    """Return a model whose base parameters are 1, -2, 3, ..., with a law of friction."""
    b = len(SMALL_BASE)
    value = np.arange(1.0, b + 1.0) * np.where(np.arange(b) % 2, -1.0, 1.0)
    L = np.random.default_rng(2).normal(size=(b, b))
    covariance = 1e-4 * (L @ L.T)
    law = (FrictionTerm(1, FrictionKind.CUBIC, 0.3), FrictionTerm(3, FrictionKind.LOAD, 0.1))
    robot = replace(SMALL, friction=law)
    return model_of(robot, SMALL_BASE, value, np.sqrt(np.diag(covariance)), covariance, **more)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"ZZ1": 1.0}, "ZZ1"),
        ({"ZZ1": 1.0, "Ia1": -1.0, "M3": -0.186, "MZ3": 0.4}, "ZZ1 - Ia1 - 0.186*M3 + 0.4*MZ3"),
        ({"ZZ1": -1.0, "Ia1": 2.0}, "-ZZ1 + 2*Ia1"),
        ({"ZZ1": -0.25, "Ia1": 1.0}, "-0.25*ZZ1 + Ia1"),
        ({"ZZ1": 1.0 / 3.0}, "0.333333*ZZ1"),
    ],
)
def test_a_base_parameter_in_words(terms, text):
    found = by_hand()
    assert replace(found, terms=(terms, *found.terms[1:])).expression(0) == text
    assert replace(found, terms=(*found.terms[:-1], terms)).expression(len(found.names) - 1) == text


def consistent_set():
    chi = standard_vector(SMALL)
    return dict(zip(standard_names(SMALL), (chi + 0.1 * np.arange(len(chi))).tolist(), strict=True))


def test_rows_of_the_table_are_those_of_their_parameter():
    found = by_hand(consistent=consistent_set(), serve="consistent")
    units = {"ZZ": "kg.m^2", "MX": "kg.m", "Fv": "N.m.s/rad", "Fc": "N.m", "off": "N.m"}
    imposed = SMALL_BASE.values(SMALL, standard_vector(SMALL, found.consistent))
    for k, row in enumerate(found.table()):
        assert (row.name, row.leader, row.value) == (SMALL_BASE.names[k], SMALL_BASE.leaders[k], found.value[k])
        assert row.served == pytest.approx(imposed[k], rel=1e-9) and row.std == pytest.approx(found.std[k])
        assert row.relative_std == pytest.approx(found.std[k] / (k + 1)), "of its magnitude"
        assert row.unit == units.get(row.leader[:-1], row.unit) and row.expression == found.expression(k)
    nothing = by_hand().value.copy()
    nothing[4] = 0.0
    assert replace(by_hand(), value=nothing).table()[4].relative_std is None
    assert [row.served for row in by_hand().table()] == [row.value for row in by_hand().table()]


@pytest.mark.parametrize("serve", ["base", "consistent"])
def test_every_entry_comes_back(tmp_path, serve):
    errors = {name: {"all": TorqueError(x, 0.1 * x), "waist": TorqueError(2 * x, 0.2 * x)} for name, x in
              (("fit", 1.0), ("validation", 3.0), ("other", 5.0))}  # fmt: skip
    sets = {"base": SetErrors(errors["fit"], errors["other"]), "consistent": SetErrors(errors["other"], {})}
    standard = {name: 2.0 * x for name, x in consistent_set().items()}
    written = by_hand(
        essential=("ZZR1", "Fv1"), standard=standard, consistent=consistent_set(), fit=errors["fit"],
        validation=errors["validation"], obtained={"method": "wls", "data": {"rows": [1, 2]}}, serve=serve, sets=sets,
    )  # fmt: skip
    path = tmp_path / "model.yaml"
    save_model(written, path)
    read = load_model(path)
    for name in ("names", "leaders", "terms", "essential", "standard", "consistent", "fit", "validation", "obtained",
                 "serve", "sets"):  # fmt: skip
        assert getattr(read, name) == getattr(written, name), name
    for name in ("value", "std", "covariance", "served", "chi"):
        np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
        assert name == "chi" or not getattr(read, name).flags.writeable
    assert read.standard_served == (standard if serve == "base" else consistent_set())
    assert read.robot.friction == written.robot.friction
    data = yaml.safe_load(path.read_text())
    lines = path.read_text().splitlines()
    first = lines.index("covariance:") + 1
    assert all(line.startswith("- [") and line.endswith("]") for line in lines[first : first + len(SMALL_BASE)])
    assert "- name: ZZR1" in lines and lines[:2] == ["format: ros2_dynid/model", "version: 1"]
    served = dict(zip(written.leaders, written.served.tolist(), strict=True))
    law = ({"Fcub": 0.3}, {}, {"Fl": 0.1})
    assert data["friction"] == [
        {"joint": joint.name, **{kind: served[f"{kind}{j}"] for kind in ("Fv", "Fc", "off")}, **law[j - 1]}
        for j, joint in enumerate(SMALL.joints, start=1)
    ]
    for k, row in enumerate(data["base"]):
        assert (row["unit"], row["expression"]) == (written.table()[k].unit, written.expression(k))
        assert row.get("served") == (None if serve == "base" else served[written.leaders[k]])


def test_a_file_that_says_so_is_a_model_file(tmp_path):
    path = tmp_path / "model.yaml"
    save_model(by_hand(), path)
    assert is_model_file(path) and is_model_file(tmp_path) and is_model_file(str(path))
    path.write_text(path.read_text()[:200])
    assert is_model_file(path), "it may still be damaged"
    path.write_text("# a note\n" + "\n" * 3000 + "format: ros2_dynid/model\n")
    assert is_model_file(path)
    path.write_text("joints: []\n")
    assert not is_model_file(path) and not is_model_file(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="not an identified model"):
        load_model(path)


def test_what_does_not_fit_together_is_refused():
    good, b = by_hand(consistent=consistent_set()), len(SMALL_BASE)
    assert replace(good, serve="consistent").serve == "consistent"
    for changes, words in (
        ({"names": good.names[1:]}, "differ in number"),
        ({"leaders": good.leaders[1:]}, "differ in number"),
        ({"terms": good.terms[1:]}, "differ in number"),
        ({"covariance": good.covariance[1:, 1:]}, "differ in number"),
        ({"value": good.value[1:]}, "no finite value"),
        ({"std": good.std[1:]}, "no finite value"),
        ({"value": np.where(np.arange(b) == 7, np.inf, good.value)}, "no finite value"),
        ({"friction_covariance": np.zeros((2, b + 1))}, "friction terms and their covariance"),
        ({"friction_covariance": np.full((2, b + 2), np.nan)}, "friction terms and their covariance"),
        ({"leaders": (*good.leaders[:-1], "off9")}, "'off9' is not a parameter of the robot"),
        ({"terms": (*good.terms[:-1], {"off3": 1.0, "XX9": 1.0})}, "'XX9' is not a parameter of the robot"),
        ({"serve": "standard"}, "serves 'standard'"),
        ({"serve": "consistent", "consistent": None}, "no consistent parameters to serve"),
    ):
        with pytest.raises(InputError, match=words):
            replace(good, **changes)
    with pytest.raises(InputError, match="differ in number"):
        replace(good, names=(), leaders=(), terms=(), value=np.zeros(0), std=np.zeros(0), covariance=np.zeros((0, 0)))


@pytest.mark.parametrize(
    "damage",
    [
        {"fit": [1, 2]}, {"validation": "good"}, {"standard": [1.0]}, {"consistent": 3}, {"obtained": "yesterday"},
        {"fit": {"all": {"rms": "much"}}}, {"covariance": [[1.0], [1.0]]}, {"version": 2}, {"version": 0}, {"base": []},
    ],
)  # fmt: skip
def test_entries_of_the_wrong_kind_are_refused(tmp_path, damage):
    path = tmp_path / "model.yaml"
    save_model(by_hand(), path)
    data = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**data, **damage}))
    with pytest.raises(InputError, match=r"identify|give a number") as error:
        load_model(path)
    assert str(path) in str(error.value)
    for absent in ("essential", "standard", "consistent", "serve", "sets", "friction_covariance", "friction"):
        data.pop(absent, None)
    path.write_text(yaml.safe_dump({**data, "fit": None, "validation": None}))
    old = load_model(path)
    assert old.fit == old.validation == {}
    assert (old.essential, old.standard, old.consistent, old.serve, old.sets) == (None, None, None, "base", {})


def test_torques_for_pictures_come_back_as_they_were_written(tmp_path):
    rng = np.random.default_rng(0)
    sets = {
        name: TorqueData(rng.normal(size=count), *rng.normal(size=(7, count, 3)))
        for name, count in (("fit", 5), ("validation", 4))
    }
    save_torque_data(tmp_path / "data.npz", sets)
    found = load_torque_data(tmp_path / "data.npz")
    assert list(found) == ["fit", "validation"]
    for name, one in sets.items():
        for field in fields(one):
            again = getattr(found[name], field.name)
            assert again.dtype == float
            np.testing.assert_allclose(again, getattr(one, field.name), rtol=1e-6)
    with np.load(tmp_path / "data.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    assert all(array.dtype == np.float32 for array in arrays.values())
    np.savez(tmp_path / "old.npz", **{key: value for key, value in arrays.items() if "temperature" not in key})
    old = load_torque_data(tmp_path / "old.npz")["validation"]
    assert old.temperature.shape == (4, 3) and np.all(np.isnan(old.temperature))
    np.savez(tmp_path / "less.npz", **{key: value for key, value in arrays.items() if key != "fit_predicted"})
    (tmp_path / "broken.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:300])
    for bad in ("less.npz", "broken.npz"):
        with pytest.raises(InputError, match="identify again"):
            load_torque_data(tmp_path / bad)
