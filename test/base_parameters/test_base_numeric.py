# SPDX-License-Identifier: Apache-2.0

"""The factorisations themselves, scaling, tolerance and gap, special robots, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.closed_form import rank_warnings
from ros2_dynid.base_parameters.numeric import (
    Dependence,
    by_qr,
    by_svd,
    condition,
    equilibrium,
    independent_columns,
    model_rows,
    points_needed,
    random_points,
)
from ros2_dynid.base_parameters.result import si_coefficients
from ros2_dynid.base_parameters.scaling import scaled_points
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Coupling, Joint, Robot

QUARTER = np.pi / 2


def names_of(robot, groups=("inertial",), **options):
    """Return the base parameters' names, having made sure that all methods find the same."""
    results = [base_parameters(robot, method=m, groups=groups, **options) for m in ("qr", "svd", "closed-form")]
    for result in results[1:]:
        assert result.leaders == results[0].leaders
        np.testing.assert_allclose(result.M, results[0].M, atol=1e-11)
    return results[0].names


# --- factorisations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factorise", [by_qr, by_svd])
def test_dependent_columns_are_found_with_their_coefficients(factorise):
    rng = np.random.default_rng(0)
    W = rng.normal(size=(40, 6))
    W[:, 2] = 2.0 * W[:, 0] - 0.5 * W[:, 1]  # depends on those before it: deleted
    W[:, 4] = 0.0
    W[:, 5] = W[:, 3]
    found = factorise(W)
    assert found.leaders == [0, 1, 3]
    expected = np.array([[1, 0, 2, 0, 0, 0], [0, 1, -0.5, 0, 0, 0], [0, 0, 0, 1, 0, 1]])
    np.testing.assert_allclose(found.beta, expected, atol=1e-14)
    assert found.gap > 1e10 and found.doubt is None


@pytest.mark.parametrize("factorise", [by_qr, by_svd])
def test_a_matrix_of_zeros_has_no_base_parameter(factorise):
    found = factorise(np.zeros((10, 4)))
    assert found.leaders == [] and found.beta.shape == (0, 4)


@pytest.mark.parametrize("factorise", [by_qr, by_svd])
def test_full_rank_keeps_everything(factorise):
    found = factorise(np.random.default_rng(1).normal(size=(30, 5)))
    assert found.leaders == [0, 1, 2, 3, 4] and np.isinf(found.gap)


@pytest.mark.parametrize("factorise", [by_qr, by_svd])
def test_the_tolerance_decides_what_counts_as_zero(factorise):
    rng = np.random.default_rng(2)
    W = rng.normal(size=(50, 3))
    W[:, 2] = W[:, 0] + 1e-7 * rng.normal(size=50)
    assert factorise(W).leaders == [0, 1, 2]
    assert factorise(W, tolerance=1e-4).leaders == [0, 1]


def test_a_dependent_column_does_not_spoil_the_ones_after_it():
    """Its rounding error must not become a direction: as many rows as columns would then run out of room."""
    rng = np.random.default_rng(3)
    basis = rng.normal(size=(20, 10))
    R = basis @ rng.normal(size=(10, 20))
    for limit in (1e-6, 1e-10):
        assert independent_columns(R, limit, 10) == list(range(10))
    R[:, 3] = 1e6 * R[:, 0] + 1e6 * R[:, 1]  # coefficients that the quick way cannot tell from independence
    assert independent_columns(R / 1e6, 1e-12, 10) == [0, 1, 2, *range(4, 11)]


def test_condition_and_equilibrium():
    assert condition(np.diag([4.0, 2.0, 1.0])) == pytest.approx(4.0)
    assert equilibrium(np.array([[1.0, 0.0], [-8.0, 2.0]])) == 8.0
    assert condition(np.zeros((5, 0))) == equilibrium(np.zeros((5, 0))) == 1.0


@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_condition_and_scaling_are_those_of_the_samples_in_si_units(source):
    """Of the leading columns: the energy's without its mean for cond, as it is for S."""
    joints = (Joint("a", 0), Joint("b", 1, alpha=QUARTER, d=0.2, r=0.1), Joint("p", 2, 1, alpha=0.4, d=0.3))
    robot = Robot("r", joints)
    for seed in (0, 5):
        base = base_parameters(robot, source=source, groups=("inertial", "rotor"), seed=seed, scale=False)
        points = random_points(robot, points_needed(robot, source, 33), np.random.default_rng(seed))
        rows = model_rows(robot, source, points)[..., base.columns(robot)].reshape(-1, len(base))
        W = rows - rows.mean(axis=0) if source == "energy" else rows
        assert base.cond == pytest.approx(np.linalg.cond(W), rel=1e-6)
        size = np.abs(rows)
        assert pytest.approx(size.max() / size[size > 1e-12 * size.max(axis=0)].min(), rel=1e-9) == base.S


@pytest.mark.parametrize(("factorise", "words"), [(by_qr, "QR with pivoting counts 2"), (by_svd, "values count 2")])
def test_columns_too_small_for_the_tolerance_leave_the_count_in_doubt(factorise, words):
    W = np.zeros((6, 3))
    W[0, 0] = W[1, 1] = 1e-4
    found = factorise(W, 1e-3)
    assert words in found.doubt and found.doubt.endswith(" 0") and found.leaders == []
    assert factorise(1e4 * W, 1e-3).doubt is None and factorise(W, 1e-9).leaders == [0, 1]


# --- scaling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["torque", "accel", "energy"])
def test_scaling_brings_the_elements_of_w_closer_together(source):
    robot = load_robot("puma560")
    plain = base_parameters(robot, source=source, groups=("inertial", "rotor"), scale=False)
    scaled = base_parameters(robot, source=source, groups=("inertial", "rotor"), scale=True)
    assert scaled.leaders == plain.leaders
    np.testing.assert_allclose(scaled.M, plain.M, atol=1e-12)
    assert scaled.S < plain.S / 10.0
    assert scaled.cond < plain.cond


def test_scaling_never_makes_a_row_worse():
    robot = load_robot("puma3")
    columns = [k for j in range(3) for k in range(14 * j, 14 * j + 10)]
    points = random_points(robot, points_needed(robot, "energy", 30), np.random.default_rng(0))
    rows = [model_rows(robot, "energy", p, columns) for p in (points, scaled_points(robot, "energy", points, columns))]
    live = np.abs(rows[0]).max(axis=0)[0] > 1e-12
    S = [np.abs(r[:, 0, live]).max(axis=1) / np.abs(r[:, 0, live]).min(axis=1) for r in rows]
    assert np.median(S[1]) < np.median(S[0]) / 5.0


def leaning(angle: float) -> Robot:
    """Return an arm whose first axis is `angle` [rad] off the vertical."""
    return Robot("leaning", (Joint("j1", 0, alpha=angle), Joint("j2", 1, alpha=QUARTER, d=0.3)))


def test_samples_are_scaled_where_the_gap_is_below_a_thousand():
    """An axis that is barely off the vertical: rounding, which differs by processor, comes close to what it shows."""
    scaled_ones = []
    for angle in (1e-10, 1e-12, 3e-13, 1e-13, 5e-14):
        plain, scaled, chosen = (
            base_parameters(leaning(angle), groups=("inertial",), scale=s) for s in (False, True, None)
        )
        assert plain.cond != scaled.cond
        expected = scaled if plain.gap < 1e3 else plain
        assert (chosen.gap, chosen.cond, chosen.S) == (expected.gap, expected.cond, expected.S)
        scaled_ones.append(expected is scaled)
    assert not scaled_ones[0] and scaled_ones[-1], "both happen"


def test_how_clear_the_rank_is_and_what_the_factorisation_doubts_is_said():
    assert rank_warnings(1e-3, 1e-15) == []
    assert "is uncertain" in rank_warnings(4e-14, 2e-16)[0] and "set tolerance" in rank_warnings(4e-14, 2e-16)[0]
    (told,) = rank_warnings(1e-3, 1e-15, "QR counts otherwise")
    assert str(told) == "QR counts otherwise; set tolerance"


@pytest.mark.parametrize(("kept", "small"), [(1.0, 5e-12), (1e-4, 0.0)])
def test_coefficients_within_the_noise_of_the_samples_are_zero(kept, small):
    """The noise is what the smallest pivot leaves of the rounding errors; units do not matter."""
    beta, size = np.array([[1.0, 0.0, 5e-12], [0.0, 1.0, 0.0]]), np.array([2.0, 3.0, 2.0])
    coefficients = si_coefficients(Dependence([0, 1], beta, kept, 1e-15, 1e-13), size, kept)
    np.testing.assert_allclose(coefficients, [[1.0, 0.0, small], [0.0, 1.0, 0.0]], rtol=1e-12)


@pytest.mark.parametrize("factorised", [by_qr, by_svd])
@pytest.mark.parametrize("misaligned", [1e-7, 1e-8])
def test_a_column_nearly_made_of_others_is_left_to_a_later_one(factorised, misaligned):
    """Rounded geometry makes columns that are new by a hair; leading with them gives coefficients of its inverse."""
    a, b, c = np.random.default_rng(4).normal(size=(3, 60))
    found = factorised(np.column_stack((a, b, 0.3 * a + 0.7 * b + misaligned * c, c)))
    assert found.leaders == [0, 1, 3]
    np.testing.assert_allclose(found.beta[:, 2], [0.3, 0.7, misaligned], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("method", ["qr", "svd", "closed-form"])
def test_a_parameter_that_hangs_on_a_misalignment_is_said(method):
    base = base_parameters(leaning(1e-8), method=method, groups=("inertial",))
    assert "MX1" in base.leaders and "misalignment" in base.warnings[0]
    straight = base_parameters(leaning(1e-8), method=method, groups=("inertial",), tolerance=1e-5)
    assert "MX1" not in straight.leaders and not straight.warnings


@pytest.mark.parametrize("factorise", [by_qr, by_svd])
def test_no_leader_hangs_on_a_misalignment_if_the_rank_is_reached_without_it(factorise):
    rng = np.random.default_rng(4)
    W = rng.normal(size=(40, 4))
    W[:, 2] = W[:, 0] + 1e-9 * W[:, 3]  # sets column 2 apart from 0, but column 3 shows the same
    found = factorise(W)
    assert found.leaders == [0, 1, 3]
    np.testing.assert_allclose(W[:, found.leaders] @ found.beta, W, atol=1e-14)
    assert found.beta[2, 2] == pytest.approx(1e-9, rel=1e-5)


# --- special robots ---------------------------------------------------------------------------------------------------


def test_one_joint():
    vertical = Robot("vertical", (Joint("j1", 0),))
    assert names_of(vertical) == ("ZZ1",)
    assert names_of(vertical, ("inertial", "rotor")) == ("ZZR1",)
    assert names_of(vertical, None) == ("ZZR1", "Fv1", "Fc1", "off1")
    horizontal = Robot("horizontal", (Joint("j1", 0, alpha=QUARTER),))
    assert names_of(horizontal) == ("ZZ1", "MX1", "MY1")
    assert names_of(replace(horizontal, gravity=np.zeros(3))) == ("ZZ1",)


def test_one_sliding_joint_feels_its_weight_only_where_it_is_along_gravity():
    along = Robot("lift", (Joint("j1", 0, 1),))
    assert names_of(along, ("inertial", "rotor")) == ("M1", "Ia1")
    across = Robot("slide", (Joint("j1", 0, 1, alpha=QUARTER),))
    assert names_of(across, ("inertial", "rotor")) == ("MR1",)
    # M1 (ddq + g) + Ia1 ddq + off1: three parameters, two effects; the offset acts as weight.
    base = base_parameters(along, method="closed-form")
    assert base.regrouped == ("off1",)
    assert base.terms(0) == pytest.approx({"M1": 1.0, "off1": 1 / 9.81})
    assert base.terms(1) == pytest.approx({"Ia1": 1.0, "off1": -1 / 9.81})
    assert names_of(along, None) == ("MR1", "IaR1", "Fv1", "Fc1")


def test_all_prismatic():
    gantry = Robot(
        "gantry",
        (
            Joint("x", 0, 1, alpha=QUARTER),
            Joint("y", 1, 1, alpha=QUARTER),
            Joint("z", 2, 1, alpha=QUARTER, theta=QUARTER),
        ),
    )
    assert names_of(gantry) == ("M1", "M2", "M3")
    base = base_parameters(gantry, method="closed-form", groups=("inertial",))
    assert len(base.eliminated) == 27


def test_parallel_axes_along_gravity():
    scara = Robot("scara", (Joint("j1", 0), Joint("j2", 1, d=0.4), Joint("j3", 2, d=0.3)))
    assert names_of(scara) == ("ZZR1", "ZZR2", "MXR2", "MY2", "ZZ3", "MX3", "MY3")
    coaxial = Robot("coaxial", (Joint("j1", 0), Joint("j2", 1, r=0.4), Joint("j3", 2, r=0.3)))
    assert names_of(coaxial) == ("ZZ1", "ZZ2", "ZZ3")


def test_gravity_of_any_direction():
    puma = load_robot("puma560")
    floor, wall = names_of(puma), names_of(replace(puma, gravity=np.array([-9.81, 0.0, 0.0])))
    ceiling = names_of(replace(puma, gravity=np.array([0.0, 0.0, 9.81])))
    assert ceiling == floor
    assert (len(floor), len(wall)) == (36, 38) and set(wall) - set(floor) == {"MX1", "MYR1"}
    assert names_of(puma, tilting_base=True) == wall
    assert len(names_of(replace(puma, gravity=np.zeros(3)))) == 34  # MX2 and MY2 are felt by gravity only


def test_motors_that_turn_alike_share_their_parameters():
    arm = Robot(
        "twins",
        (Joint("j1", 0, alpha=QUARTER), Joint("j2", 1, d=0.3)),
        coupling=(Coupling(1, {1: 1.0, 2: 2.0}, True), Coupling(2, {1: 0.5, 2: 1.0}, True)),
    )
    base = base_parameters(arm, method="closed-form")
    assert names_of(arm, None) == base.names
    assert {"Iam2", "Fvm2", "Fcm2"} <= set(base.regrouped)
    k = base.names.index("FcmR1")
    assert base.terms(k) == pytest.approx({"Fcm1": 1.0, "Fcm2": 0.5})


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"source": "torques"}, "unknown model"),
        ({"method": "lu"}, "unknown method"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"tolerance": -1e-9}, "tolerance"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"groups": ("inertia",)}, "unknown parameter group"),
        ({"source": "energy", "groups": ("inertial", "friction")}, "friction cannot be identified from the energy"),
        ({"source": "accel", "groups": ("offset",)}, "offset cannot be identified from the accel model"),
        ({"order": ["ZZ9"]}, "ZZ9"),
        ({"order": ["Fv"], "groups": ("inertial",)}, "Fv"),
    ],
)
def test_bad_options_are_refused_in_one_line(options, complaint):
    with pytest.raises(InputError, match=complaint) as error:
        base_parameters(Robot("r", (Joint("j1", 0),)), **options)
    assert "\n" not in str(error.value)


def test_values_need_all_standard_parameters():
    robot = load_robot("puma3")
    base = base_parameters(robot, method="closed-form")
    with pytest.raises(InputError, match="42 standard parameters"):
        base.values(robot, np.zeros(30))
