"""Decisions on either side of their thresholds: evidence of efforts, agreement about a load, which estimator suits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ros2_dynid.errors import InputError
from ros2_dynid.identification.choices import Method
from ros2_dynid.identification.estimators.column_layout import ColumnLayout
from ros2_dynid.identification.estimators.information import Block, Information
from ros2_dynid.identification.loads.joint_agreement import agreement
from ros2_dynid.identification.options import IdentifyOptions
from ros2_dynid.identification.preparation.preparation_options import PreparationOptions
from ros2_dynid.identification.validation import effort_evidence, method_choice, sensor_side
from ros2_dynid.identification.validation.effort_scale import refuse_contradictions
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.robot import DRIVE

COUNT = 4000


def independent(columns, seed=0):
    """Return columns without mean and orthogonal to each other, of norm 1."""
    x = np.random.default_rng(seed).normal(size=(COUNT, columns))
    return np.linalg.qr(x - x.mean(axis=0))[0]


# --- what an effort shows


@pytest.mark.parametrize(("friction", "found"), [
    (0.2, 0.2 / np.hypot(0.2, 0.5)), (-0.2, -0.2 / np.hypot(0.2, 0.5)), (0.12, 0.12 / np.hypot(0.12, 0.5)),
    (0.08, np.nan), (-0.08, np.nan),  # less than a tenth of the effort
])  # fmt: skip
def test_friction_counts_where_it_makes_up_a_part_of_the_effort(friction, found):
    x = independent(5)
    Y, dq, rest = x[:, :2], x[:, 2], x[:, 3]
    columns = np.column_stack((np.tanh(20.0 * dq / np.abs(dq).max()), dq))
    effort = np.sqrt(1.0 - 0.25 - friction**2) * Y[:, 0] + friction * dq + 0.5 * rest
    np.testing.assert_allclose(effort_evidence._friction(Y, columns, dq, effort), found, atol=0.02)


@pytest.mark.parametrize(("own", "seen"), [(0.4, True), (0.2, False)])
def test_friction_that_other_torques_explain_says_nothing(own, seen):
    x = independent(4)
    dq = x[:, 0]
    Y = np.column_stack((np.sqrt(1.0 - own**2) * x[:, 0] + own * x[:, 1], x[:, 2]))  # nearly that of the speed
    found = effort_evidence._friction(Y, dq[:, None], dq, dq + 0.1 * x[:, 3])
    assert np.isfinite(found) == seen and not found < 0.5


@pytest.mark.parametrize(("scale", "own", "r"), [
    (0.5, 1.0, 0.5 / np.hypot(0.5, 0.3)), (-0.5, 1.0, -0.5 / np.hypot(0.5, 0.3)),
    (0.03, 1.0, np.nan), (-0.03, 1.0, np.nan),  # hardly any of the effort is weight
    (0.5, 0.4, 0.2 / np.hypot(0.2, 0.3)), (0.5, 0.2, np.nan),  # hardly any of the weight is its own
])  # fmt: skip
def test_gravity_counts_where_it_is_told_apart_and_matters(scale, own, r):
    x = independent(4)
    others = np.column_stack((np.ones(COUNT), x[:, 0]))
    Q = own * x[:, 1] + np.sqrt(1.0 - own**2) * x[:, 0] + 7.0
    effort = scale * (Q - 7.0) + 0.3 * x[:, 2] + 0.2 * x[:, 0]
    found = effort_evidence._gravity(Q, others, effort)
    np.testing.assert_allclose(found, (r, np.nan if np.isnan(r) else scale), atol=1e-9)


@pytest.mark.parametrize(("positive", "sign"), [
    (1.0, 1.0), (0.97, 1.0), (0.93, np.nan), (0.5, np.nan), (0.07, np.nan), (0.03, -1.0), (0.0, -1.0),
])  # fmt: skip
def test_an_inertia_is_of_one_sign_nearly_everywhere(positive, sign):
    x = independent(4)
    own = np.zeros((COUNT, 2))
    own[:, 0] = np.where(np.arange(COUNT) < positive * COUNT, 1.0, -1.0)
    own[:, 0] += 1e-3  # not zero on average
    effort = x[:, 0] + 0.1 * x[:, 1]
    found = effort_evidence._inertia_sign(x[:, :2], x[:, 2:], own, x[:, 0], effort)
    np.testing.assert_equal(found, sign)


# --- do joints agree about a load?


@pytest.mark.parametrize(("spread", "asked"), [(0.3, True), (0.45, True), (0.55, False), (0.9, False)])
def test_a_joint_that_hardly_knows_the_mass_is_not_asked(spread, asked):
    """Four blocks with the same weight and a scatter made to measure: the jackknife of a mean has a closed form."""
    scatter = np.array([1.0, -1.0, 1.0, -1.0])
    size = spread * 3.0 / 2.0  # sum of (size scatter / 3)^2 over four blocks is spread^2
    blocks = tuple(
        Block((np.array([[1.0, 2.0 * (1.1 + size * s)]]),), np.array([1]), float(k), k + 1.0)
        for k, s in enumerate(scatter)
    )
    loaded = Information(blocks, (np.array([0]),), ColumnLayout(1))
    load_map, load = np.zeros((1, 10)), np.zeros(10)
    load_map[0, -1], load[-1] = 1.0, 2.0
    found = agreement(loaded, np.zeros(1), np.zeros((1, 1)), 0.0, load_map, load, np.zeros((10, 10)))
    np.testing.assert_allclose(found.scale, [1.1 if asked else np.nan])
    np.testing.assert_allclose(found.std, [spread if asked else np.nan])
    wider = agreement(loaded, np.zeros(1), np.array([[0.04]]), 0.0, load_map, load, np.zeros((10, 10)))
    if spread == 0.3:
        assert wider.std[0] == pytest.approx(np.hypot(0.3, 0.2 / 2.0)), "the robot's own doubt, over the mass"


# --- which estimator


def recording(shares, cutoff=4.0, known=True, elsewhere=None):
    return SimpleNamespace(
        shares=np.array(shares), elsewhere=elsewhere, known=True if known else None,
        filter=SimpleNamespace(row_cutoff=cutoff),
    )  # fmt: skip


@pytest.mark.parametrize(("recordings", "noise"), [
    ([recording((0.1, 0.3)), recording((0.2, 0.05), 5.0)], 1.2),
    ([recording((0.1, 0.3)), recording((0.9, 0.9), None)], 1.2),
    ([recording((0.1, 0.3)), recording((0.9, 0.9), known=False)], 1.2),
    ([recording((0.1, 0.3)), recording((0.9, 0.9), elsewhere=1)], 1.2),
    ([recording((0.9,), None)], None),
])  # fmt: skip
def test_the_noise_is_that_of_the_worst_joint_of_recordings_that_tell_it(monkeypatch, recordings, noise):
    monkeypatch.setattr(method_choice, "noise_share", lambda prepared, cutoff: prepared.shares * cutoff)
    found = method_choice._noise(SimpleNamespace(prepared=recordings))
    assert found == (None if noise is None else pytest.approx(noise))


@pytest.mark.parametrize(("ours", "told"), [(0.104, False), (0.106, True), (0.09, False), (None, False)])
def test_least_squares_is_named_where_it_predicts_better(monkeypatch, ours, told):
    errors = {"mine": ours, "plain": 0.1}

    def held_out(names, information, count, fit):
        found = errors[fit]
        return SimpleNamespace(errors={} if found is None else {"all": SimpleNamespace(relative=found)})

    monkeypatch.setattr(method_choice, "held_out_in_folds", held_out)
    monkeypatch.setattr(method_choice, "fitter", lambda method, problem, bars: "plain")
    problem = SimpleNamespace(robot=SimpleNamespace(active_names=("a",)), information=None)
    found = SimpleNamespace(method=Method.IV)
    choice = method_choice._nothing_to_correct(problem, found, "mine", 0.01)
    assert choice.method is Method.WLS and choice.noise == 0.01 and (choice.reason is not None) == told
    if told:
        assert "10.6 %, least squares 10.0 %" in str(choice.reason)
    assert method_choice._nothing_to_correct(problem, found, None, 0.01).reason is None


# --- recordings that contradict each other


@pytest.mark.parametrize(("changes", "named"), [
    ((1.0, 1.0, 1.0), None),
    ((1.0, 1.0, 1.6), "c"),
    ((0.3, 1.0, 1.0), "a"),
    ((1.0, 1.08, 1.0), None),  # less than a tenth of the torque
])  # fmt: skip
def test_the_recording_that_contradicts_the_others_most_is_named(changes, named):
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.5])
    blocks = []
    for k in range(12):
        A = rng.normal(size=(20, 3))
        y = A @ truth * changes[k // 4] + 0.02 * rng.normal(size=20)
        blocks.append(Block((np.column_stack((A, y)),), np.array([20]), float(k), k + 1.0, k // 4))
    information = Information(tuple(blocks), (np.arange(3),), ColumnLayout(3))
    if named is None:
        refuse_contradictions(information, truth, "abc")
        return
    with pytest.raises(InputError, match=f"{named}: torque error .* together with the other recordings"):
        refuse_contradictions(information, truth, "abc")
    noisy = tuple(
        Block((block.R[0] + np.column_stack((np.zeros((20, 3)), rng.normal(size=20))),), block.rows, 0.0, 1.0,
              block.recording)
        for block in blocks
    )  # fmt: skip
    refuse_contradictions(Information(noisy, information.columns, information.layout), truth, "abc")
    refuse_contradictions(information.take(range(4, 8)), truth, "abc")


# --- where efforts are measured


@pytest.mark.parametrize(("deviations", "term", "sure"), [
    (6.0, 0.0, True), (4.0, 0.0, False), (4.0, 6.0, True), (4.0, 4.0, False), (-9.0, 0.0, False),
])  # fmt: skip
def test_a_drive_that_certainly_has_friction_needs_no_comparison(monkeypatch, deviations, term, sure):
    value = np.array([1.0, 0.1 * deviations, 3.0, 0.1 * term])
    found = SimpleNamespace(value=value, std=np.full(4, 0.1), base=value[:3], base_std=np.full(3, 0.1))
    layout = ColumnLayout(3, 0, 0, 1)
    R = np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    information = Information((Block((R,), np.array([5]), 0.0, 1.0),), (np.arange(4),), layout)
    joint = SimpleNamespace(felt=DRIVE)
    robot = SimpleNamespace(active=(1,), active_names=("a",), joints=(joint,))
    base = SimpleNamespace(leaders=("Ia1", "Fv1", "Fc1"))
    terms = (FrictionTerm(1, FrictionKind.ROOT),)
    problem = SimpleNamespace(robot=robot, information=information, base=base, terms=terms)
    asked = []

    def compared(folds, columns, laws, share):
        asked.append((columns, laws))
        return sensor_side.SensorSide((), True, share)

    monkeypatch.setattr(sensor_side, "_folds", lambda *_: [])
    monkeypatch.setattr(sensor_side, "_compared", compared)
    side = sensor_side.sensor_sides(problem, found)["a"]
    assert (side.felt == DRIVE and side.clear) == sure and bool(asked) != sure
    assert side.share == pytest.approx((abs(value[1]) + 0.2) * 2.0 / 5.0)
    if asked:
        columns, laws = asked[0]
        assert columns == {"Ia": [0], "Fv": [1, 3], "Fc": [2]}
        # Fc is certain, so it is in every law; Fv is looked for where it is likely
        assert laws == ([("Fc",), ("Fv", "Fc"), DRIVE] if deviations > 2.0 else [("Fc",)])


def test_a_joint_is_judged_by_its_own_terms_and_by_none_where_it_never_moves(monkeypatch):
    """Joint b has a term that is certain, joint a has not; the column of b's viscous friction is zero."""
    value = np.array([0.1, 3.0, 0.1, 3.0, 0.0, 9.0])
    std = np.array([0.1, 0.1, np.inf, 0.1, 0.1, 0.1])
    found = SimpleNamespace(value=value, std=std, base=value[:4], base_std=std[:4])
    R = np.diag([1.0, 2.0, 3.0, 4.0])
    other = R.copy()
    other[:, 0] = 0.0
    columns = (np.array([0, 1, 4]), np.array([2, 3, 5]))
    information = Information((Block((R, other), np.array([4, 4]), 0.0, 1.0),), columns, ColumnLayout(4, 0, 0, 2))
    robot = SimpleNamespace(active=(1, 2), active_names=("a", "b"), joints=(SimpleNamespace(felt=DRIVE),) * 2)
    base = SimpleNamespace(leaders=("Fv1", "Fc1", "Fv2", "Fc2"))
    terms = (FrictionTerm(1, FrictionKind.ROOT), FrictionTerm(2, FrictionKind.ROOT))
    problem = SimpleNamespace(robot=robot, information=information, base=base, terms=terms)
    asked = []
    monkeypatch.setattr(sensor_side, "_folds", lambda *_: [])
    monkeypatch.setattr(sensor_side, "_compared", lambda folds, columns, laws, share: asked.append(columns))
    sides = sensor_side.sensor_sides(problem, found)
    assert asked == [{"Fv": [0, 4], "Fc": [1]}]
    assert sides["b"] == sensor_side.SensorSide(DRIVE, True, np.inf), "its own term is certain, its share is not known"


@pytest.mark.parametrize(
    ("rotor", "viscous", "dry", "laws"),
    [
        (9.0, 3.0, 1.9, [()]),  # dry friction may well be zero
        (9.0, 3.0, -9.0, [()]),
        (9.0, 1.9, 2.1, [(), ("Fc",)]),
        (1.9, 2.1, 2.1, [(), ("Fc",), ("Fv", "Fc")]),
        (2.1, 4.9, 4.9, [(), ("Fc",), ("Fv", "Fc"), DRIVE]),
        (2.1, 4.9, 5.1, [("Fc",), ("Fv", "Fc"), DRIVE]),  # dry friction is certain
        (2.1, -9.0, 5.1, [("Fc",)]),
    ],
)
def test_laws_of_a_sensor_have_the_parts_that_may_be_there(monkeypatch, rotor, viscous, dry, laws):
    value = 0.1 * np.array([rotor, viscous, dry])
    found = SimpleNamespace(value=value, std=np.full(3, 0.1), base=value, base_std=np.full(3, 0.1))
    block = Block((np.diag([1.0, 2.0, 3.0, 5.0]),), np.array([5]), 0.0, 1.0)
    information = Information((block,), (np.arange(3),), ColumnLayout(3))
    robot = SimpleNamespace(active=(1,), active_names=("a",), joints=(SimpleNamespace(felt=DRIVE),))
    base = SimpleNamespace(leaders=("Ia1", "Fv1", "Fc1"))
    problem = SimpleNamespace(robot=robot, information=information, base=base, terms=())
    asked = []
    monkeypatch.setattr(sensor_side, "_folds", lambda *_: [])
    monkeypatch.setattr(sensor_side, "_compared", lambda folds, columns, laws, share: asked.append(list(laws)))
    sensor_side.sensor_sides(problem, found)
    assert asked == [laws]


def test_a_rotor_that_is_no_parameter_of_its_own_may_be_there(monkeypatch):
    """Where its inertia is part of a link's, nothing says that there is none."""
    value = np.array([0.3, 0.3])
    found = SimpleNamespace(value=value, std=np.full(2, 0.1), base=value, base_std=np.full(2, 0.1))
    block = Block((np.diag([2.0, 3.0, 5.0]),), np.array([5]), 0.0, 1.0)
    information = Information((block,), (np.arange(2),), ColumnLayout(2))
    robot = SimpleNamespace(active=(1,), active_names=("a",), joints=(SimpleNamespace(felt=DRIVE),))
    problem = SimpleNamespace(
        robot=robot, information=information, base=SimpleNamespace(leaders=("Fv1", "Fc1")), terms=()
    )
    asked = []
    monkeypatch.setattr(sensor_side, "_folds", lambda *_: [])
    monkeypatch.setattr(sensor_side, "_compared", lambda folds, columns, laws, share: asked.append(list(laws)))
    sensor_side.sensor_sides(problem, found)
    assert asked == [[(), ("Fc",), ("Fv", "Fc"), DRIVE]]


def test_folds_of_a_comparison_are_weighted_rows_left_out_and_all_others():
    rng = np.random.default_rng(0)
    blocks = tuple(
        Block((rng.normal(size=(6, 3)), rng.normal(size=(6, 3))), np.array([6, 6]), float(k), k + 1.0)
        for k in range(10)
    )
    information = Information(blocks, (np.arange(2), np.array([1, 2])), ColumnLayout(3))
    sigma = np.array([0.5, 4.0])
    folds = sensor_side._folds(information, SimpleNamespace(sigma=sigma))
    assert len(folds) == 5
    for f, fold in enumerate(folds):
        for R, chosen in ((fold.tested, (2 * f, 2 * f + 1)), (fold.others, set(range(10)) - {2 * f, 2 * f + 1})):
            wanted = np.zeros((4, 4))
            for k in chosen:
                for j, places in enumerate(([0, 1, 3], [1, 2, 3])):
                    rows = blocks[k].R[j] / sigma[j]
                    wanted[np.ix_(places, places)] += rows.T @ rows
            np.testing.assert_allclose(R.T @ R, wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"method": "wls"}, "unknown method"),
        ({"method": Method.TLS}, None),
        *(({"cross_validate": k}, "cross_validate is") for k in (-1, 1)),
        *(({"cross_validate": k}, None) for k in (None, 0, 2, 7)),
        ({"torque_sensor": "motor"}, "at the motor"),
        ({"torque_sensor": "link+Fc"}, None),
        ({"prior": "sister.yml"}, None),
        ({"prior": "sister.yaml"}, None),
        ({"prior": "sister.txt"}, "prior is"),
        ({"prior": "urdf"}, None),
        *(({"prior": prior, "essential": True}, None) for prior in ("auto", "none")),
        *(({"prior": prior, "essential": True}, "with essential parameters") for prior in ("urdf", "a.yaml")),
        ({"distance": "euclidean"}, None),
        ({"distance": "far"}, "distance is"),
        *(({"essential_std": x}, "essential_std is") for x in (0.0, 1.0, -0.1, np.nan)),
        *(({"essential_std": x}, None) for x in (0.01, 0.99)),
        ({"sensor": "found"}, None),
        ({"sensor": "nose"}, "nose"),
        ({"friction": "glue"}, "glue"),
    ],
)
def test_choices_that_there_are_and_those_that_there_are_not(options, refused):
    if refused is None:
        assert all(getattr(IdentifyOptions(**options), key) == value for key, value in options.items())
    else:
        with pytest.raises(InputError, match=refused):
            IdentifyOptions(**options)


@pytest.mark.parametrize(
    ("options", "good"),
    [
        *(({name: x}, x == 0.5) for name in ("position_cutoff", "row_cutoff", "row_rate") for x in (0.5, 0.0, -1.0)),
        *(({name: np.inf}, False) for name in ("position_cutoff", "row_cutoff", "row_rate")),
        *(({"slow": x}, x in (0.0, 0.5)) for x in (0.0, 0.5, 1.0, -0.1, np.nan)),
        *(({"delay": x}, abs(x) == 0.1) for x in (0.1, -0.1, np.nan, np.inf)),
        ({"velocity": "measured"}, False),
    ],
)
def test_settings_of_a_preparation(options, good):
    if good:
        assert all(getattr(PreparationOptions(**options), key) == value for key, value in options.items())
    else:
        with pytest.raises(InputError):
            PreparationOptions(**options)


def test_cut_offs_of_other_recordings_are_taken_as_far_as_the_data_carry_them():
    plain = PreparationOptions()
    assert plain.with_filters(None, 3.0, 10.0) is plain.with_filters(5.0, None, 10.0) is plain
    for position, row, highest in ((20.0, 4.0, 30.0), (20.0, 4.0, 10.0), (20.0, 15.0, 10.0)):
        found = plain.with_filters(position, row, highest)
        assert (found.position_cutoff, found.row_cutoff) == (min(position, highest), min(row, highest))
    asked = PreparationOptions(position_cutoff=7.0).with_filters(20.0, 4.0, 30.0)
    assert (asked.position_cutoff, asked.row_cutoff) == (7.0, 4.0)
    asked = PreparationOptions(row_cutoff=7.0).with_filters(20.0, 4.0, 30.0)
    assert (asked.position_cutoff, asked.row_cutoff) == (20.0, 7.0)
