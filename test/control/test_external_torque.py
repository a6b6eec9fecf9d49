# SPDX-License-Identifier: Apache-2.0

"""External torques, contacts and wrenches in Python alone, against figures of their own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.control.contact import ContactDetector, ContactEvent, ContactOptions
from ros2_dynid.control.external_wrench import external_wrench
from ros2_dynid.control.feedforward import FeedforwardModel
from ros2_dynid.control.momentum_observer import MomentumObserver, ObserverOptions
from ros2_dynid.control.smooth_friction import smooth_friction
from ros2_dynid.dynamics.kinematics import jacobian
from ros2_dynid.dynamics.newton_euler import gravity_torque, inverse_dynamics
from ros2_dynid.errors import InputError
from ros2_dynid.model.efforts import ErrorBars
from ros2_dynid.model.friction_kinds import FrictionKind, FrictionTerm
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector
from ros2_dynid.model.robot import Coupling

ROBOT = load_robot("demo3")
CHI = standard_vector(ROBOT)
HERE, STILL = np.array([0.2, -0.8, 0.4]), np.zeros(3)
PUSH = np.array([3.0, -5.0, 2.0])
Fc, OFF = CHI.reshape(3, 14)[:, 12], CHI.reshape(3, 14)[:, 13]
HELD = gravity_torque(ROBOT, CHI, HERE[None])[0] + OFF
"""Motor torque that holds the robot where it is."""


@pytest.mark.parametrize(("bandwidth", "dt"), [(100.0, 1e-3), (20.0, 0.004), (100.0, 0.04)])
def test_a_push_is_followed_with_the_time_constant_of_the_bandwidth(bandwidth, dt):
    observer = MomentumObserver(ROBOT, CHI, ObserverOptions(bandwidth=bandwidth))
    assert not observer.update(HERE, STILL, HELD, dt), "the first sample begins a step"
    for _ in range(20):
        assert observer.update(HERE, STILL, HELD, dt)
    np.testing.assert_allclose(observer.external, 0.0, atol=1e-9)
    seen = []
    for _ in range(30):
        observer.update(HERE, STILL, HELD - PUSH, dt)  # the robot stays, since somebody holds it
        seen.append(observer.external)
    k = np.arange(30)[:, None]  # the first of these steps has half of the push, by the mean of its ends
    a = np.exp(-bandwidth * dt)
    np.testing.assert_allclose(seen, PUSH * (1 - a ** (k + 1) - 0.5 * (1 - a) * a**k), rtol=1e-9, atol=1e-9)


def test_a_motion_alone_is_no_push():
    t = np.arange(0.0, 1.0, 1e-3)[:, None]
    w = np.array([3.0, 4.0, 5.0])
    q, dq, ddq = 0.4 * np.sin(w * t), 0.4 * w * np.cos(w * t), -0.4 * w**2 * np.sin(w * t)
    tau = inverse_dynamics(ROBOT, CHI, q, dq, ddq)
    rough = np.abs(dq).min(axis=1) > 0.2  # where smoothed friction is that of the model
    observer = MomentumObserver(ROBOT, CHI, ObserverOptions(smoothing=1e-3))
    found = observer.take(q, dq, tau, np.full(len(q), 1e-3))
    assert found.used[1:].all() and not found.used[0]
    settled = np.convolve(rough, np.ones(60), mode="full")[: len(q)] >= 60
    assert settled.sum() > 50
    assert np.abs(found.external[settled]).max() < 0.02 * np.abs(tau).max()
    pushed = MomentumObserver(ROBOT, CHI, ObserverOptions(smoothing=1e-3)).take(
        q, dq, tau - PUSH, np.full(len(q), 1e-3)
    )
    np.testing.assert_allclose((pushed.external - found.external)[100:], np.broadcast_to(PUSH, (900, 3)), rtol=1e-4)


def test_friction_whose_sign_is_in_doubt_is_told_at_rest_and_fades():
    observer = MomentumObserver(ROBOT, CHI)
    observer.update(HERE, STILL, HELD, 1e-3)
    np.testing.assert_allclose(observer.undecided, Fc)
    fast = np.full(3, 5.0)
    for k in range(1, 6):
        observer.update(HERE, fast, HELD, 1e-3)
        np.testing.assert_allclose(observer.undecided, Fc * np.exp(-0.1 * k), rtol=1e-6)
    slow = np.array([0.05, -0.05, 0.0])
    observer.restart()
    assert np.all(observer.undecided == 0) and np.all(observer.external == 0)
    observer.update(HERE, slow, HELD, 1e-3)
    np.testing.assert_allclose(observer.undecided, Fc * (1 - np.tanh([1.0, 1.0, 0.0])))


@pytest.mark.parametrize("push", [-50.0, 50.0])
def test_friction_of_the_load_and_at_standstill_is_in_doubt_too(push):
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.2), FrictionTerm(3, FrictionKind.STRIBECK, 1.5, speed=0.1))
    observer = MomentumObserver(replace(ROBOT, friction=(*terms, FrictionTerm(1, FrictionKind.CUBIC, 9.0))), CHI)
    carried = HELD - OFF + np.array([0.0, push, 0.0])
    observer.update(HERE, STILL, HELD + np.array([0.0, push, 0.0]), 1e-3)
    np.testing.assert_allclose(observer.undecided, Fc + np.array([0.0, 0.2 * abs(carried[1]), 1.5]))


def test_friction_that_vanishes_at_standstill_is_in_no_doubt():
    shapes = {
        FrictionKind.POWER: {"exponent": 0.5},
        **{kind: {"reference": 20.0} for kind in FrictionKind if kind.thermal},
    }
    kinds = [kind for kind in FrictionKind if kind not in (FrictionKind.STRIBECK, FrictionKind.LOAD)]
    terms = tuple(FrictionTerm(1 + k % 3, kind, 2.0, **shapes.get(kind, {})) for k, kind in enumerate(kinds))
    observer = MomentumObserver(replace(ROBOT, friction=terms), CHI)
    observer.update(HERE, STILL, HELD, 1e-3)
    np.testing.assert_allclose(observer.undecided, Fc)


def test_coulomb_friction_of_either_sign_is_in_doubt_by_its_size():
    chi = CHI.reshape(3, 14).copy()
    chi[1, 12] *= -1.0
    observer = MomentumObserver(ROBOT, chi.ravel())
    observer.update(HERE, STILL, HELD, 1e-3)
    np.testing.assert_allclose(observer.undecided, Fc)


@pytest.mark.parametrize("speed", [0.01, 0.5])
def test_friction_at_any_speed_is_that_of_the_feedforward(speed):
    """A steady motion by the feedforward's own torque is no push, load-dependent friction included."""
    terms = (FrictionTerm(2, FrictionKind.LOAD, 0.2), FrictionTerm(3, FrictionKind.STRIBECK, 1.5, speed=0.1))
    robot = replace(ROBOT, friction=terms)
    dq, dt = speed * np.array([0.0, -1.0, 1.0]), 1e-5
    q = HERE + np.arange(200)[:, None] * dt * dq
    model = FeedforwardModel(robot, CHI)
    rigid = [model.rigid(x, dq, STILL) for x in q]
    for smoothing in (0.02, 0.1):
        tau = np.array([x + model.friction(at, dq, smoothing, x) for at, x in zip(q, rigid, strict=True)])
        options = ObserverOptions() if smoothing == 0.02 else ObserverOptions(smoothing=smoothing)
        found = MomentumObserver(robot, CHI, options).take(q, np.tile(dq, (200, 1)), tau, np.full(200, dt))
        np.testing.assert_allclose(found.external, 0.0, atol=1e-4)


@pytest.mark.parametrize("name", ["tx40", "hitachi_hpr"])
def test_friction_of_coupled_motors_and_closed_loops_is_no_push(name):
    robot = load_robot(name)
    n, dt = len(robot.active), 1e-5
    chi = np.random.default_rng(5).uniform(0.1, 1.0, len(standard_vector(robot)))
    dq = np.linspace(0.5, -0.3, n)
    q = np.arange(100)[:, None] * dt * dq
    model = FeedforwardModel(robot, chi)
    tau = np.array([model.rigid(x, dq, 0 * dq) + model.friction(x, dq, 0.02, 0 * dq) for x in q])
    found = MomentumObserver(robot, chi).take(q, np.tile(dq, (100, 1)), tau, np.full(100, dt))
    np.testing.assert_allclose(found.external, 0.0, atol=1e-4)
    assert np.abs(model.friction(q[0], dq, 0.02, 0 * dq)).min() > 1e-2


def test_a_late_sample_and_a_restart_forget_what_was_in_doubt():
    observer = MomentumObserver(ROBOT, CHI)
    fast = np.full(3, 5.0)
    observer.update(HERE, STILL, HELD, 1e-3)
    observer.update(HERE, fast, HELD, 0.041)
    np.testing.assert_allclose(observer.undecided, 0.0, atol=1e-9)
    assert observer.update(HERE, fast, HELD, 1e-3)
    observer.restart()
    assert not observer.update(HERE, fast, HELD, 1e-3), "nothing to compare with"


def test_samples_taken_at_once_are_those_taken_one_by_one():
    rng = np.random.default_rng(4)
    q, dq, tau = HERE + rng.normal(0, 0.1, (60, 3)), rng.normal(0, 0.1, (60, 3)), HELD + rng.normal(0, 2, (60, 3))
    dt = rng.choice([1e-3, 2e-3, 0.01, 0.0, 0.05], 60)
    dq[::9, 1] = np.nan
    found, single = MomentumObserver(ROBOT, CHI).take(q, dq, tau, dt), MomentumObserver(ROBOT, CHI)
    for k in range(60):
        assert single.update(q[k], dq[k], tau[k], dt[k]) == found.used[k]
        np.testing.assert_allclose(single.external, found.external[k], atol=1e-9)
        np.testing.assert_allclose(single.undecided, found.undecided[k], atol=1e-12)
    assert 20 < found.used.sum() < 50


def test_numbers_too_large_for_the_momentum_are_not_used():
    observer = MomentumObserver(ROBOT, CHI)
    for _ in range(2):
        observer.update(HERE, STILL, HELD, 1e-3)
    for dq in (np.full(3, 1e200), np.full(3, 1.7e308)):
        assert not observer.update(HERE, dq, HELD, 1e-3)
        np.testing.assert_allclose(observer.external, 0.0, atol=1e-9)
        assert np.isfinite(observer.undecided).all()
        assert not observer.update(HERE, STILL, HELD, 1e-3) and observer.update(HERE, STILL, HELD, 1e-3)


@pytest.mark.parametrize("name", ["bandwidth", "smoothing", "undecided_speed", "longest_step"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_options_of_the_observer_are_positive(name, value):
    with pytest.raises(InputError, match="an option of the observer"):
        MomentumObserver(ROBOT, CHI, ObserverOptions(**{name: value}))


def test_parameters_of_another_robot_or_none_are_refused():
    observer = MomentumObserver(ROBOT, CHI)
    for chi in (CHI[:-1], np.where(np.arange(len(CHI)) == 7, np.nan, CHI), CHI[None]):
        with pytest.raises(InputError, match="standard parameter is missing"):
            observer.set_model(ROBOT, chi)
    other = load_robot("demo6")
    with pytest.raises(InputError, match="the model has 6 joints; give 3"):
        observer.set_model(other, standard_vector(other))


@pytest.mark.parametrize("name", ["tx40", "hitachi_hpr", "opposed"])
def test_friction_in_doubt_of_coupled_motors_and_closed_loops(name):
    """Whatever rubs may rub either way at rest: the doubt is the largest friction that the signs can give."""
    robot = load_robot("tx40" if name == "opposed" else name)
    if name == "opposed":  # a motor that turns against one of its joints
        robot = replace(
            robot,
            coupling=tuple(replace(c, weights={j: -2.0 * w for j, w in c.weights.items()}) for c in robot.coupling),
        )
    rng = np.random.default_rng(3)
    chi = rng.uniform(0.1, 1.0, len(standard_vector(robot)))
    observer = MomentumObserver(robot, chi)
    n = len(robot.active)
    observer.update(np.zeros(n), np.zeros(n), np.zeros(n), 1e-3)
    law = smooth_friction(robot, chi)
    largest = np.zeros(n)
    for signs in itertools.product((-1, 1), repeat=len(law.Fc)):
        largest = np.maximum(largest, (law.Fc * signs) @ law.S)
    if not robot.passive:
        np.testing.assert_allclose(observer.undecided, largest)
    assert np.all(observer.undecided >= largest - 1e-9) and np.all(observer.undecided <= 3 * largest)


def test_friction_in_doubt_of_motors_that_turn_joints_of_closed_loops():
    """Each motor rubs at each of its joints by the size of its weight, and so does what a joint moves."""
    motors = (Coupling(4, {2: 1.5, 4: -0.5}), Coupling(3, {3: 2.0, 5: -3.0}, independent_inertia=True))
    robot = replace(load_robot("hitachi_hpr"), coupling=motors)
    n, active = robot.n, robot.active
    chi = np.random.default_rng(3).uniform(0.1, 1.0, len(standard_vector(robot)))
    rubs = [[int(j == k) for k in range(1, n + 1)] for j in range(1, n + 1)]
    rubs += [[motor.weights.get(j, 0.0) for j in range(1, n + 1)] for motor in motors]
    size = [*chi[: 14 * n].reshape(n, 14)[:, 12], chi[14 * n + 1], chi[14 * n + 4]]  # Fvm4, Fcm4, Iam3, Fvm3, Fcm3
    moves = {j: {j: 1.0} for j in active} | {passive.joint: passive.terms for passive in robot.passive}
    wanted = [
        sum(f * abs(row[j - 1] * moves[j].get(a, 0.0)) for f, row in zip(size, rubs, strict=True) for j in moves)
        for a in active
    ]
    observer = MomentumObserver(robot, chi)
    still = np.zeros(len(active))
    observer.update(still, still, still, 1e-3)
    np.testing.assert_allclose(observer.undecided, wanted)


def test_samples_that_cannot_be_used_begin_again():
    def fresh():
        observer = MomentumObserver(ROBOT, CHI)
        observer.update(HERE, STILL, HELD, 1e-3)
        assert observer.update(HERE, STILL, HELD - PUSH, 1e-3)
        return observer

    nan = np.array([np.nan, 0.0, 0.0])
    for q, dq, tau, dt in (
        (HERE + nan, STILL, HELD, 1e-3), (HERE, STILL + nan, HELD, 1e-3), (HERE, STILL, HELD + nan, 1e-3),
        (HERE, STILL, HELD, np.nan), (HERE, STILL, HELD, -1e-3), (HERE, STILL, HELD, 0.041),
    ):  # fmt: skip
        observer = fresh()
        before = observer.external
        assert not observer.update(q, dq, tau, dt) and observer.external is before
        late = dt == 0.041
        assert observer.update(HERE, STILL, HELD, 1e-3) == late, "a late sample is good for the next step"
    same = fresh()
    assert not same.update(HERE, STILL, HELD, 0.0) and same.update(HERE, STILL, HELD, 1e-3), "told twice"
    other = fresh()
    other.set_model(ROBOT, 1.1 * CHI)
    assert not other.update(HERE, STILL, HELD, 1e-3), "the momentum jumps with the model"


# --- contacts

BARS = ErrorBars(np.array([0.3, 0.6]), np.array([0.4, 0.8]))
LEVEL = 6.0 * np.array([0.5, 1.0])


def warmed(*given, bars=BARS, **options):
    """A detector that has seen a second of nothing."""
    contacts = ContactDetector(bars, given, ContactOptions(**options))
    for _ in range(1000):
        assert contacts.update(np.zeros(2), np.zeros(2), 1e-3) is ContactEvent.NONE
    return contacts


def test_thresholds_are_the_error_bars_and_the_friction_in_doubt():
    contacts = warmed()
    np.testing.assert_allclose(contacts.thresholds, LEVEL)
    contacts.update(np.zeros(2), np.array([0.7, 0.0]), 1e-3)
    np.testing.assert_allclose(contacts.thresholds, LEVEL + np.array([0.7, 0.0]))
    np.testing.assert_allclose(warmed(2.0).thresholds, 2.0)
    np.testing.assert_allclose(warmed(2.0, 0.0).thresholds, [2.0, LEVEL[1]])
    np.testing.assert_allclose(warmed(2.0, 0.0, width=3.0).thresholds, [2.0, LEVEL[1] / 2])
    np.testing.assert_allclose(warmed(width=3.0).thresholds, LEVEL / 2)
    blind = warmed(bars=ErrorBars(np.array([np.nan, 0.6]), np.array([0.4, 0.8])))
    assert np.isinf(blind.thresholds[0]) and blind.thresholds[1] == pytest.approx(LEVEL[1]) and blind.usable


@pytest.mark.parametrize(("joint", "side"), list(itertools.product((0, 1), (-1, 1))))
def test_a_contact_begins_and_ends_once(joint, side):
    contacts = warmed()
    push = np.zeros(2)
    push[joint] = side * 0.99 * LEVEL[joint]
    assert contacts.update(push, np.zeros(2), 1e-3) is ContactEvent.NONE
    push[joint] = side * 1.01 * LEVEL[joint]
    events = [contacts.update(push, np.zeros(2), 0.9e-3) for _ in range(5)]
    assert events == [ContactEvent.NONE, ContactEvent.BEGINS, *[ContactEvent.NONE] * 3]
    assert contacts.contact and list(contacts.beyond) == [joint == 0, joint == 1]
    push[joint] = side * 0.51 * contacts.thresholds[joint]
    assert {contacts.update(push, np.zeros(2), 1e-3) for _ in range(100)} == {ContactEvent.NONE}, "not yet released"
    push[joint] = side * 0.49 * contacts.thresholds[joint]
    events = [contacts.update(push, np.zeros(2), 1e-3) for _ in range(53)]
    assert events.index(ContactEvent.ENDS) in (49, 50, 51) and events.count(ContactEvent.ENDS) == 1
    assert not contacts.contact and not contacts.beyond.any()
    short = warmed()
    for size in (1.2, 0.0, 1.2, 0.0):  # never longer than 1 ms
        push[joint] = side * size * LEVEL[joint]
        assert short.update(push, np.zeros(2), 1e-3) is ContactEvent.NONE


def test_nothing_is_said_before_the_noise_is_known_nor_without_time():
    contacts = ContactDetector(BARS)
    big = 50.0 * LEVEL
    for _ in range(325):  # 5 and 3 and 25 times 10 ms
        assert contacts.update(big, np.zeros(2), 1e-3) is ContactEvent.NONE
    events = [contacts.update(big, np.zeros(2), 1e-3) for _ in range(30)]
    assert events.count(ContactEvent.BEGINS) == 1
    contacts = warmed()
    for dt in (0.0, -1.0, np.nan, np.inf):
        assert [contacts.update(big, np.zeros(2), dt) for _ in range(5)] == [ContactEvent.NONE] * 5
    np.testing.assert_array_equal(contacts.thresholds, warmed().thresholds)
    events = [contacts.update(big, np.zeros(2), 0.9e-3) for _ in range(3)]
    assert events == [ContactEvent.NONE, ContactEvent.BEGINS, ContactEvent.NONE], "as if they had not come"


@pytest.mark.parametrize(("bandwidth", "dt"), [(10.0, 0.01), (100.0, 0.001), (50.0, 0.002)])
def test_periods_that_make_up_the_time_constant_but_for_rounding_are_enough(bandwidth, dt):
    """The noise is looked at each 1/K, ten periods here, though ten times 0.01 s add up to a little less than 0.1 s."""
    contacts = ContactDetector(BARS, options=ContactOptions(bandwidth=bandwidth))
    events = [contacts.update(50.0 * LEVEL, np.zeros(2), dt) for _ in range(340)]
    assert events.index(ContactEvent.BEGINS) + 1 == 10 * (5 + 3 + 25)


def coloured(count, size, rng):
    """Noise as the observer's filter leaves it, a sample each 1/K: correlated by exp(-1) from one to the next."""
    a, x, out = np.exp(-1.0), np.zeros(2), []
    for _ in range(count):
        x = a * x + np.sqrt(1 - a**2) * rng.standard_normal(2)
        out.append(size * x)
    return np.array(out)


def test_noise_is_measured_slow_torques_are_none_and_pushes_hardly():
    rng = np.random.default_rng(0)
    size = np.array([1.0, 0.2])
    contacts = ContactDetector(ErrorBars(np.zeros(2), np.zeros(2)), options=ContactOptions(width=1e6))
    for k, x in enumerate(coloured(6000, size, rng)):
        contacts.update(x + 30.0 * np.sin(0.005 * k), np.zeros(2), 0.01)
    np.testing.assert_allclose(contacts.thresholds, 1e6 * size, rtol=0.12)
    before = contacts.thresholds.copy()
    contacts.update(np.array([1e4, 1e4]), np.zeros(2), 0.01)
    assert np.all(contacts.thresholds < 1.02 * before), "one sample counts for little, however large"


def test_the_noise_is_averaged_over_five_seconds():
    rng = np.random.default_rng(1)
    contacts = ContactDetector(ErrorBars(np.zeros(2), np.zeros(2)), options=ContactOptions(width=1e9))
    for x in coloured(2000, 1.0, rng):
        contacts.update(x, np.zeros(2), 0.01)
    loud = (contacts.thresholds / 1e9) ** 2
    for _ in range(500):  # five seconds of silence
        contacts.update(np.zeros(2), np.zeros(2), 0.01)
    np.testing.assert_allclose((contacts.thresholds / 1e9) ** 2 / loud, np.exp(-1.0), rtol=0.05)


class PlainContacts:
    """The rule of contacts as it is written down, joint by joint, with numbers of its own."""

    def __init__(self, bars, width, release, hold, confirm, bandwidth):
        self.n, self.bars = len(bars.sigma), bars
        self.width, self.release, self.hold, self.confirm, self.bandwidth = width, release, hold, confirm, bandwidth
        self.noise, self.over, self.under = [0.0] * self.n, [0.0] * self.n, [0.0] * self.n
        self.beyond, self.rows, self.squares, self.tick, self.passed = [False] * self.n, [], 0, 0.0, 0

    def update(self, external, undecided, dt):
        self.tick += dt
        if self.tick >= (1 - 1e-9) / self.bandwidth:
            spent, self.tick, self.passed = self.tick, 0.0, self.passed + 1
            if self.passed > 5 and not any(self.beyond):
                if len(self.rows) == 3:
                    self.squares += 1
                    gain = max(spent / 5.0, 1.0 / self.squares)
                    for j in range(self.n):
                        c, b, a = (row[j] for row in self.rows)
                        e = 0.36787944117144233
                        square = (external[j] - 3 * a + 3 * b - c) ** 2 / (20 - 30 * e + 12 * e * e - 2 * e**3)
                        if self.squares > 25:
                            square = min(square, 9 * self.noise[j])
                        self.noise[j] += gain * (square - self.noise[j])
                self.rows = [*self.rows, list(external)][-3:]
        thresholds = []
        for j in range(self.n):
            variance = self.bars.sigma[j] ** 2 + self.bars.torque_std[j] ** 2 + self.noise[j]
            thresholds.append(self.width * variance**0.5 + undecided[j])
            self.over[j] = self.over[j] + dt if abs(external[j]) > thresholds[j] else 0.0
            self.under[j] = self.under[j] + dt if abs(external[j]) < self.release * thresholds[j] else 0.0
            if self.beyond[j]:
                self.beyond[j] = self.under[j] <= self.hold
            else:
                self.beyond[j] = self.over[j] > self.confirm and self.squares >= 25
        if any(self.beyond):
            self.rows = []
        return thresholds


@pytest.mark.parametrize("seed", range(6))
def test_contacts_follow_the_rule_as_it_is_written_down(seed):
    """Noise, slow torques and pushes of any size and length, at uneven times."""
    rng = np.random.default_rng(seed)
    options = ContactOptions() if seed < 2 else ContactOptions(
        rng.uniform(40, 200), rng.uniform(3, 8), rng.uniform(0.3, 0.9), rng.uniform(0.01, 0.1), rng.uniform(0, 0.01)
    )  # fmt: skip
    contacts = ContactDetector(BARS, options=options)
    plain = PlainContacts(
        BARS, options.width, options.release, options.hold, options.confirm, options.bandwidth
    )  # fmt: skip
    n, steps = 2, rng.uniform(0.5e-3, 3e-3, 2000) if seed % 2 else np.full(2000, 1e-3)
    noise = rng.uniform(0.05, 0.6) * rng.standard_normal((2000, n))
    external = noise + 0.5 * np.sin(0.01 * np.arange(2000))[:, None]
    for _ in range(12):
        begin, length = rng.integers(0, 1900), int(10 ** rng.uniform(0, 2.3))
        external[begin : begin + length, rng.integers(n)] += rng.choice((-1, 1)) * rng.uniform(2, 30)
    undecided = np.abs(rng.standard_normal((2000, n))) * (rng.random((2000, 1)) < 0.3)
    begun = ended = False
    for k in range(2000):
        was = any(plain.beyond)
        event = contacts.update(external[k], undecided[k], float(steps[k]))
        wanted = plain.update(external[k], undecided[k], steps[k])
        assert all(abs(a - b) <= 1e-9 * b for a, b in zip(contacts.thresholds, wanted, strict=True))
        assert list(contacts.beyond) == plain.beyond and contacts.contact == any(plain.beyond)
        changes = {(False, True): ContactEvent.BEGINS, (True, False): ContactEvent.ENDS}
        assert event is changes.get((was, contacts.contact), ContactEvent.NONE)
        begun, ended = begun or event is ContactEvent.BEGINS, ended or event is ContactEvent.ENDS
    assert begun and ended
    contacts.restart()
    again = ContactDetector(BARS, options=options)
    for k in range(600):
        event = contacts.update(external[k], undecided[k], float(steps[k]))
        assert event is again.update(external[k], undecided[k], float(steps[k]))
        np.testing.assert_array_equal(contacts.thresholds, again.thresholds)


@pytest.mark.parametrize("given", [(-1.0,), (np.nan,), (1.0, -1.0), (1.0, 2.0, 3.0)])
def test_thresholds_that_are_none_are_refused(given):
    with pytest.raises(InputError, match="contact thresholds"):
        ContactDetector(BARS, given)


@pytest.mark.parametrize("name", ["bandwidth", "width", "release"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_options_out_of_range_are_refused(name, value):
    with pytest.raises(InputError, match="out of range"):
        ContactDetector(BARS, options=ContactOptions(**{name: value}))


def test_a_contact_ends_at_its_threshold_at_the_latest():
    with pytest.raises(InputError, match="at most 1"):
        ContactDetector(BARS, options=ContactOptions(release=1.01))
    assert ContactDetector(BARS, options=ContactOptions(release=1.0)).usable
    none = ErrorBars(np.array([np.nan, np.inf]), np.array([0.4, 0.8]))
    assert not ContactDetector(none).usable and not ContactDetector(none, (0.0, 0.0)).usable
    assert ContactDetector(none, (0.0, 2.0)).usable


# --- wrenches


def test_a_wrench_is_that_of_the_damped_formula():
    robot = load_robot("demo6")
    link = list(robot.tools)[-1]
    rng = np.random.default_rng(2)
    q, external = rng.uniform(-1.5, 1.5, (2, 8, 6))
    J = jacobian(robot, q, link)
    for damping in (0.02, 0.3):
        found = external_wrench(robot, q, external, link, damping)
        for k in range(8):
            wanted = np.linalg.solve(J[k] @ J[k].T + damping**2 * np.eye(6), J[k] @ external[k])
            np.testing.assert_allclose(found[k], wanted, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        external_wrench(robot, q, external, link), external_wrench(robot, q, external, link, 0.02)
    )
    F = rng.uniform(-5.0, 5.0, (8, 6))
    again = external_wrench(robot, q, np.einsum("tij,ti->tj", J, F), link, 1e-7)
    regular = np.linalg.svd(J, compute_uv=False)[:, -1] > 0.05
    np.testing.assert_allclose(again[regular], F[regular], atol=1e-4)
    assert regular.sum() >= 3
