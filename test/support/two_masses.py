# SPDX-License-Identifier: Apache-2.0

"""A drive with elasticity: a motor and a pendulum on a spring, integrated by SciPy under the motor's controller."""

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

from ros2_dynid.recording.samples import Samples

ROTOR, VISCOUS, COULOMB, DAMPING, INERTIA, WEIGHT = 1.2, 3.0, 4.0, 4.0, 2.5, 40.0
STEP = 2e-6
"""Of both encoders [rad]."""


@cache
def recording(seed: int, k: float = 4000.0, seconds: float = 20.0) -> tuple[Samples, np.ndarray]:
    """Return a recording of one joint with 2 % of noise in the effort, and the true torque between the masses."""
    rng = np.random.default_rng(seed)
    order = np.arange(1, 6)
    w, size, phase = 2 * np.pi * order / 10, rng.normal(size=5) * 0.25 / np.sqrt(order), rng.uniform(0, 6.3, 5)

    def effort(t, state):
        q_r, dq_r = size @ np.sin(w * t + phase), (size * w) @ np.cos(w * t + phase)
        return 3000.0 * (q_r - state[0]) + 200.0 * (dq_r - state[2])

    def passed(state):
        return k * (state[0] - state[1]) + DAMPING * (state[2] - state[3])

    def change(t, state):
        friction = VISCOUS * state[2] + COULOMB * np.tanh(state[2] / 0.01)
        motor = (effort(t, state) - passed(state) - friction) / ROTOR
        return [state[2], state[3], motor, (passed(state) - WEIGHT * np.cos(state[1])) / INERTIA]

    t, start = np.arange(0.0, seconds, 1e-3), size @ np.sin(phase)
    solution = solve_ivp(
        change, (0.0, seconds), [start, start - 0.01, 0.0, 0.0], "LSODA", t, rtol=1e-8, atol=1e-10, max_step=5e-3
    )
    tau = np.array([effort(*row) for row in zip(t, solution.y.T, strict=True)])
    tau += 0.02 * tau.std() * rng.normal(size=len(t))
    q_m, q = (np.round(x / STEP) * STEP for x in solution.y[:2])
    return Samples(t, ("j",), q[:, None], tau=tau[:, None], q_m=q_m[:, None]), passed(solution.y)
