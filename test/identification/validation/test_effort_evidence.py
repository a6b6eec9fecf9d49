# SPDX-License-Identifier: Apache-2.0

"""What efforts show, part by part: inertias, factors, contradictions, degrees, mounting; each by a plain way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from motions import slow_motion
from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.dynamics.regressor import regressor
from ros2_dynid.errors import InputError
from ros2_dynid.identification.preparation import as_prepared
from ros2_dynid.identification.regression.build_information import build_information
from ros2_dynid.identification.regression.estimate import ColumnLayout
from ros2_dynid.identification.regression.information import Block, Information
from ros2_dynid.identification.regression.least_squares import own_errors, wls
from ros2_dynid.identification.validation import diagnosis, effort_scale, verdict
from ros2_dynid.identification.validation.effort_scale import (
    SampledMotion,
    against_prior,
    factors,
    refuse_contradictions,
)
from ros2_dynid.identification.validation.torque_errors import (
    HeldOut,
    cross_validate,
    folds,
    held_out_in_folds,
    torque_errors,
)
from ros2_dynid.model.forces import Force, ForceKind
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import link_slice, standard_names, standard_vector
from ros2_dynid.model.robot import with_gravity

ROBOT = load_robot("demo3")
BASE = base_parameters(ROBOT)
NAMES = standard_names(ROBOT)
BODIES = [k for k, name in enumerate(NAMES) if name[:2] not in ("Fv", "Fc", "of")]


def rubbing(size=2.0):
    chi = standard_vector(ROBOT)
    for j in (1, 2, 3):
        for part in ("Ia", "Fv", "Fc"):
            chi[NAMES.index(f"{part}{j}")] = size * j
    return chi


def only_bodies(chi):
    out = np.zeros_like(chi)
    out[BODIES] = chi[BODIES]
    return out


# --- evidence of one joint


def test_no_sample_is_no_evidence():
    found = effort_scale.effort_evidence(ROBOT, SampledMotion(*np.zeros((4, 0, 3))))
    assert len(found) == 3 and all(np.isnan([one.gravity_r, one.friction_r, one.inertia]).all() for one in found)


def test_an_offset_of_the_effort_is_no_evidence():
    q, dq, ddq = slow_motion()
    tau = inverse_dynamics(ROBOT, rubbing(), q, dq, ddq)
    plain, moved = (
        effort_scale.effort_evidence(ROBOT, SampledMotion(q, dq, ddq, x)) for x in (tau, tau + 40.0 * np.ptp(tau))
    )
    for a, b in zip(plain, moved, strict=True):
        for field in ("gravity_r", "gravity_scale", "friction_r", "inertia"):
            np.testing.assert_allclose(getattr(b, field), getattr(a, field), rtol=1e-6)


@pytest.mark.parametrize(("share", "told"), [(0.03, True), (0.015, False)])
def test_the_weight_of_a_joint_counts_beside_that_of_the_heaviest(share, told):
    q, dq, ddq = slow_motion()
    chi = only_bodies(standard_vector(ROBOT))
    last = chi[link_slice(2)].copy()
    for _ in range(8):  # a lighter last link weighs less on the one before it, too
        spread = gravity_torque(ROBOT, chi, q).std(axis=0)
        last *= share * spread[1] / spread[2]
        chi[link_slice(2)] = last
    robot = replace(ROBOT, parameters=dict(zip(NAMES, chi.tolist(), strict=True)))
    Q = gravity_torque(robot, chi, q)
    assert Q[:, 2].std() / Q.std(axis=0).max() == pytest.approx(share, rel=0.01)
    found = effort_scale.effort_evidence(robot, SampledMotion(q, dq, ddq, 2.0 * Q))[2]
    assert np.isfinite(found.gravity_r) == told
    if told:
        assert found.gravity_scale == pytest.approx(2.0, rel=1e-6) and found.gravity_r == pytest.approx(1.0)


# --- factors of joints


def recorded(gains=(1.0, 1.0, 1.0), seed=0, noise=0.02, chi=None):
    rng = np.random.default_rng(seed)
    q, dq, ddq = rng.uniform(-2.0, 2.0, (3, 600, 3))
    tau = inverse_dynamics(ROBOT, rubbing() if chi is None else chi, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return as_prepared(ROBOT, q, dq, ddq, tau * np.array(gains))


@pytest.mark.parametrize("gains", [(1.0, 1.0, 1.0), (1.0, 4.0, 1.0), (-3.0, 1.0, 0.2)])
def test_every_joint_is_compared_with_what_any_of_the_others_know(gains):
    prepared = recorded(gains)
    information = build_information(ROBOT, BASE, [prepared], delay=False)
    Y = regressor(ROBOT, prepared.q, prepared.dq, prepared.ddq)[:, :, BASE.columns(ROBOT)]
    felt = np.linalg.norm(Y, axis=0) > 1e-9
    for j, told in enumerate(factors(information)):
        others = [k for k in range(3) if k != j]
        value = wls(information.of_joints(others)).value
        shared = felt[j] & (felt[others[0]] | felt[others[1]])
        alone = felt[j] & ~shared
        A = np.column_stack((Y[:, j, alone], Y[:, j, shared] @ value[shared]))
        if np.isinf(told.std):
            assert gains != (1.0, 1.0, 1.0), "others that contradict each other tell nothing"
            continue
        assert told.value == pytest.approx(np.linalg.lstsq(A, prepared.tau[:, j], rcond=None)[0][-1], rel=1e-6)


def test_the_delay_is_no_parameter_that_joints_tell_each_other_about():
    """Its column is felt by all joints, but it is none of the robot."""
    prepared = recorded((1.0, 3.0, 1.0))
    plain, late = (build_information(ROBOT, BASE, [prepared], delay=delay) for delay in (False, True))
    for a, b in zip(factors(plain), factors(late), strict=True):
        assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01))
    prior = BASE.values(ROBOT, standard_vector(ROBOT))
    a, b = (against_prior(one, BASE, one.layout.vector(prior)) for one in (plain, late))
    assert (b.value, b.std) == (pytest.approx(a.value), pytest.approx(a.std, rel=0.01)) and np.isfinite(a.std)
    nothing = late.layout.vector(np.zeros(len(BASE)), delay=0.1)
    none = against_prior(late, BASE, nothing)
    assert (none.value, none.std) == (1.0, np.inf), "no links to compare with"


# --- recordings that contradict each other


def three_recordings(changes, noise, rows=20, seed=0):
    rng = np.random.default_rng(seed)
    truth, blocks = np.array([1.0, -2.0, 0.5]), []
    for k in range(12):
        A = rng.normal(size=(rows, 3))
        y = A @ truth * changes[k // 4] + noise[k // 4] * rng.normal(size=rows)
        blocks.append(Block((np.column_stack((A, y)),), np.array([rows]), float(k), k + 1.0, k // 4))
    return truth, Information(tuple(blocks), (np.arange(3),), ColumnLayout(3))


def errors_of(truth, information, k):
    """Return the relative errors of recording k, with the parameters given and with those that fit it best."""
    rows = np.vstack([block.R[0] for block in information.blocks if block.recording == k])
    best = np.linalg.lstsq(rows[:, :3], rows[:, 3], rcond=None)[0]
    return [np.linalg.norm(rows[:, 3] - rows[:, :3] @ x) / np.linalg.norm(rows[:, 3]) for x in (truth, best)]


@pytest.mark.parametrize("change", [1.07, 1.1, 1.13, 1.2, 1.5])
@pytest.mark.parametrize("noise", [0.02, 0.1, 0.2, 0.3, 0.4, 0.6])
def test_a_recording_contradicts_where_its_error_is_material_and_thrice_that_alone(change, noise):
    truth, information = three_recordings((1.0, 1.0, change), (0.02, 0.02, noise))
    together, alone = errors_of(truth, information, 2)
    assert abs(together - 0.1) > 1e-4 and abs(together / alone - 3.0) > 1e-3
    if together > 0.1 and together > 3.0 * alone:
        with pytest.raises(InputError, match=f"c: torque error {100 * together:.0f} % .*, {100 * alone:.1f} % alone"):
            refuse_contradictions(information, truth, "abc")
    else:
        refuse_contradictions(information, truth, "abc")


@pytest.mark.parametrize(("changes", "noise", "named"), [
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.02), "c"),
    ((1.8, 1.0, 1.5), (0.02, 0.02, 0.02), "a"),
    ((1.5, 1.0, 1.8), (0.02, 0.02, 0.2), "a"),  # the other one is noisy alone, too
])  # fmt: skip
def test_of_several_that_contradict_the_clearest_is_named(changes, noise, named):
    truth, information = three_recordings(changes, noise)
    with pytest.raises(InputError, match=f"^{named}: "):
        refuse_contradictions(information, truth, "abc")


def test_a_recording_of_too_few_rows_contradicts_nobody():
    truth, information = three_recordings((1.0, 1.0, 3.0), (0.02, 0.02, 0.02))
    few = (
        *information.blocks[:8],
        replace(information.blocks[8], R=(information.blocks[8].R[0][:3],), rows=np.array([3])),
    )
    refuse_contradictions(replace(information, blocks=few), truth, "abc")
    # of two joints, one with two rows
    both = tuple(
        replace(block, R=(block.R[0], block.R[0][: (20 if block.recording < 2 else 1)]),
                rows=np.array([20, 20 if block.recording < 2 else 1]))
        for block in information.blocks[:10]
    )  # fmt: skip
    two = Information(both, (np.arange(3), np.arange(3)), ColumnLayout(3))
    refuse_contradictions(two, truth, "abc")
    with pytest.raises(InputError, match=r"^c: "):
        more = tuple(replace(b, R=(b.R[0], b.R[0]), rows=np.array([20, 20])) for b in information.blocks)
        refuse_contradictions(replace(two, blocks=more), truth, "abc")


# --- the law that efforts are judged by


def test_a_refusal_names_its_recording_and_every_hint_once():
    found = [
        diagnosis.Finding("a", (), "first", "do this"),
        diagnosis.Finding("b", (), "second", "do that"),
        diagnosis.Finding("c", (), "third", "do this"),
    ]
    with pytest.raises(InputError, match=r"^run\.bag: first; second; third") as refused:
        diagnosis.refuse(found, "run.bag")
    assert refused.value.hint == "do this, and do that"


# --- mounting


def test_a_robot_that_stands_still_in_an_upright_direction_has_gravity_of_its_own_size():
    """The direction is found; its size is that of the description, of the moon too."""
    q, dq, ddq = slow_motion(2)
    moon = replace(ROBOT, gravity=np.array([0.0, 0.0, -1.62]))
    tau = inverse_dynamics(with_gravity(ROBOT, (1.62, 0.0, 0.0)), rubbing(), q, dq, ddq)
    found = diagnosis.mounting(moon, SampledMotion(q, dq, ddq, tau))
    assert found.gravity == (1.62, 0.0, 0.0) and found.angle == pytest.approx(90.0, abs=2.0) and found.wrong


def test_drives_and_offsets_are_fitted_and_their_description_is_not_believed():
    """Rotors, friction and offsets of any size explain themselves; those described play no part."""
    q, dq, ddq = slow_motion(2)
    drives = [k for k in range(len(NAMES)) if NAMES[k][:2] in ("Ia", "Fv", "Fc", "of")]
    chi = standard_vector(ROBOT)
    chi[drives] = np.linspace(1.0, 20.0, len(drives))
    tau = inverse_dynamics(ROBOT, chi, q, dq, ddq)
    motion = SampledMotion(q, dq, ddq, tau)
    plain = diagnosis.mounting(ROBOT, motion)
    assert plain.error < 0.15 and plain.described < 0.15 and not plain.wrong
    claims = dict(zip(NAMES, chi * np.where(np.isin(np.arange(len(chi)), drives), -3.0, 1.0), strict=True))
    assert diagnosis.mounting(replace(ROBOT, parameters=claims), motion) == plain


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_friction_brakes_whatever_rotors_and_offsets_do(sign):
    """A motion that speeds up: rotors and offsets take much power, and give it where it slows down."""
    rng = np.random.default_rng(0)
    q, dq = rng.uniform(-1.5, 1.5, (2, 400, 3))
    for ahead in (3.0, -3.0):
        moved = dq + 0.5
        ddq = ahead * moved + rng.normal(size=dq.shape)
        chi = standard_vector(ROBOT)
        for j in (1, 2, 3):
            for part, value in (("Ia", 5.0), ("off", 4.0 * ahead), ("Fv", sign), ("Fc", sign)):
                chi[NAMES.index(f"{part}{j}")] = value
        tau = inverse_dynamics(ROBOT, chi, q, moved, ddq)
        assert diagnosis.mounting(ROBOT, SampledMotion(q, moved, ddq, tau)).brakes == (sign > 0.0)


def test_errors_are_shares_of_what_drives_leave():
    """By one stacked least-squares problem: gravity along three axes, the motion, and the columns of each joint."""
    q, dq, ddq = slow_motion(3, 400)
    rng = np.random.default_rng(0)
    chi = only_bodies(standard_vector(ROBOT))
    chi[[k for k, name in enumerate(NAMES) if name[:2] == "Ia"]] = 0.0
    tau = inverse_dynamics(with_gravity(ROBOT, (0.0, 9.81, 0.0)), rubbing(), q, dq, ddq)
    tau = tau + 0.3 * tau.std(axis=0) * rng.normal(size=tau.shape)
    found = diagnosis.mounting(ROBOT, SampledMotion(q, dq, ddq, tau))
    still = np.zeros_like(q)
    G = [inverse_dynamics(replace(ROBOT, gravity=axis), chi, q, still, still).ravel() for axis in np.eye(3)]
    D = inverse_dynamics(replace(ROBOT, gravity=np.zeros(3)), chi, q, dq, ddq).ravel()
    own = []
    for j in range(3):
        for column in (np.tanh(50.0 * dq / np.abs(dq).max(axis=0)), dq, ddq, np.ones_like(dq)):
            own.append(np.where(np.arange(3) == j, column, 0.0).ravel())

    def left(columns):
        A = np.column_stack(columns)
        return np.linalg.norm(tau.ravel() - A @ np.linalg.lstsq(A, tau.ravel(), rcond=None)[0])

    there = left(own)
    assert found.error == pytest.approx(left([*own, *G, D]) / there, rel=1e-6)
    g = np.column_stack(G) @ ROBOT.gravity
    assert found.described == pytest.approx(min(left([*own, g, D]), left([*own, D])) / there, rel=1e-6)
    value = np.linalg.lstsq(np.column_stack([*own, *G, D]), tau.ravel(), rcond=None)[0][-4:-1]
    angle = np.degrees(np.arccos(value @ ROBOT.gravity / np.linalg.norm(value) / np.linalg.norm(ROBOT.gravity)))
    assert found.angle == pytest.approx(angle, rel=1e-6)


# --- evidence


def test_springs_are_felt_by_their_outer_joint():
    """Of a spring between two joints the outer one counts, whatever the number of the spring."""
    forces = (
        Force("between", ForceKind.SPRING, (1,), {1: 1.0, 3: -1.0}),
        Force("own", ForceKind.SPRING, (1,), {2: 1.0}),
    )
    robot = replace(ROBOT, forces=forces)
    base = base_parameters(robot)
    rng = np.random.default_rng(0)
    q, dq, ddq, tau = rng.normal(size=(4, 300, 3)) * np.array([1.0, 2.0, 3.0])
    information = build_information(robot, base, [as_prepared(robot, q, dq, ddq, tau)])
    found = wls(information)
    fit = torque_errors(robot.active_names, information, found.value)
    seen = {one.name: one for one in verdict.evidence_of(robot, base, information, found, fit, HeldOut()).parameters}
    for name, joint in (("Ks1", 2), ("Ks2", 1)):
        one = seen[name]
        assert (one.joint, one.kind, one.group) == (robot.active_names[joint], "Ks", "force")
        assert one.noise == found.sigma[joint]
    assert seen["Ks2"].effect == pytest.approx(np.sqrt(np.mean(q[:, 1] ** 2)))
    assert seen["Ks1"].effect == pytest.approx(np.sqrt(np.mean((q[:, 0] - q[:, 2]) ** 2)))
    odd = replace(found, sigma=np.ones(5))  # of rows that are not those of the joints
    again = verdict.evidence_of(robot, base, information, odd, fit, HeldOut()).parameters
    own = own_errors(information)
    assert {one.name: one.noise for one in again}["Ks2"] == own[1] != found.sigma[1]


def test_only_rows_in_motion_are_judged():
    """Rows of joints that stand still are fitted to, but no model predicts their friction."""
    still, moving = (build_information(ROBOT, BASE, [recorded(seed=0, noise=noise)]) for noise in (0.1, 0.02))
    fewer = tuple(replace(block, rows=block.rows // 2 + np.arange(3)) for block in moving.blocks)
    moving = replace(moving, blocks=fewer)  # than there are at rest and in motion
    both = replace(still, motion=moving.blocks)
    names = ROBOT.active_names
    value = wls(still).value
    assert torque_errors(names, both, value) == torque_errors(names, moving, value)
    fit = torque_errors(names, moving, value)
    seen, wanted = (verdict.evidence_of(ROBOT, BASE, one, wls(still), fit, HeldOut()).joints for one in (both, moving))
    assert seen == wanted

    def fitted(blocks):
        return wls(still.take(blocks))

    found = cross_validate(names, both, 3, fitted)
    errors, torques = np.zeros(3), np.zeros(3)
    for fold in folds(still, 3):
        rest = [b for b in range(len(still.blocks)) if b not in fold]
        x = fitted(rest).value
        for k in fold:
            for j, (R, columns) in enumerate(zip(moving.blocks[k].R, still.columns, strict=True)):
                errors[j] += np.sum((R[:, -1] - R[:, :-1] @ x[columns]) ** 2)
                torques[j] += np.sum(R[:, -1] ** 2)
    for j, name in enumerate(names):
        assert found[name].relative == pytest.approx(np.sqrt(errors[j] / torques[j]))
        assert found[name].rms == pytest.approx(np.sqrt(errors[j] / moving.rows[j]))


def test_folds_need_rows_in_as_many_blocks():
    rows = [10, 0, 10, 10, 0, 10]
    blocks = tuple(
        Block((np.random.default_rng(k).normal(size=(max(n, 1), 3)),), np.array([n]), float(k), k + 1.0)
        for k, n in enumerate(rows)
    )
    information = Information(blocks, (np.arange(2),), ColumnLayout(2))
    assert len(folds(information, 4)) == 4
    with pytest.raises(InputError, match=r"5 folds.*choose 2 to 4"):
        folds(information, 5)
    none = held_out_in_folds(["a"], information, None, lambda blocks: wls(information.take(blocks)))
    assert none == HeldOut() and none.folds == 0 and dict(none.errors) == {}
    with pytest.raises(InputError, match="5 folds"):
        held_out_in_folds(["a"], information, 5, lambda blocks: wls(information.take(blocks)))
    assert held_out_in_folds(["a"], information, 0, lambda blocks: None) == HeldOut(switched_off=True)
