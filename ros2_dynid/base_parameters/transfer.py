# SPDX-License-Identifier: Apache-2.0

"""The ten parameters of a link as linear algebra: moved to another frame, and felt through velocities.

With the pseudo-inertia P = [[tr(J)/2 I - J, m], [m^T, M]] (4, 4) of a link and the homogeneous transform T of its frame
in another one, P becomes T P T^T there, and two twists U, V of the link, as 4x4 matrices, give U . I V = tr(U P V^T).
"""

from __future__ import annotations

import numpy as np

from ros2_dynid.model.forces import SYMBOLS
from ros2_dynid.model.parameters import FIRST_MOMENT, INERTIA
from ros2_dynid.model.robot import PRISMATIC, Array, Robot


def _unit_pseudo_inertias() -> Array:
    """Return P of a unit XX, XY, ... M, shape (10, 4, 4)."""
    P = np.zeros((10, 4, 4))
    for k, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        J = np.zeros((3, 3))
        J[a, b] = J[b, a] = 1.0
        P[k, :3, :3] = 0.5 * np.trace(J) * np.eye(3) - J
    for k in range(3):
        P[6 + k, k, 3] = P[6 + k, 3, k] = 1.0
    P[9, 3, 3] = 1.0
    return P


def _parameter_reader() -> Array:
    """Return the matrix (16, 10) that reads the ten parameters from a flattened P: J = tr(S) I - S."""
    read = np.zeros((4, 4, 10))
    for k, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        read[a, b, k] -= 1.0
        if a == b:
            read[range(3), range(3), k] += 1.0
    for k in range(3):
        read[k, 3, 6 + k] = 1.0
    read[3, 3, 9] = 1.0
    return read.reshape(16, 10)


def _twist_matrices() -> Array:
    """Return the 4x4 matrices of the unit twists (w_x w_y w_z v_x v_y v_z), shape (6, 4, 4)."""
    X = np.zeros((6, 4, 4))
    for k, (a, b) in enumerate(((2, 1), (0, 2), (1, 0))):
        X[k, a, b], X[k, b, a] = 1.0, -1.0
        X[3 + k, k, 3] = 1.0
    return X


UNIT, PARAMETER_READER, TWIST = _unit_pseudo_inertias(), _parameter_reader(), _twist_matrices()
SPATIAL_INERTIA: Array = np.einsum("aij,kjl,bil->abk", TWIST, UNIT, TWIST)
"""FELT[a, b] . chi = e_a . I(chi) e_b: the spatial inertia's elements as rows over the ten parameters (6, 6, 10)."""
AXIS = (TWIST[2], TWIST[5])
"""The twist of a joint in its own frame, by sigma: a turn about z, a shift along z."""


def _flow(X: Array) -> Array:
    """Return d/dq, shape (10, 10), of the ten parameters moved along the twist X: chi(q) = exp(q flow) chi."""
    return np.asarray(((X @ UNIT + UNIT @ X.T).reshape(10, 16) @ PARAMETER_READER).T)


def _drift(X: Array) -> Array:
    """Return the Lie brackets of the twist X with the unit twists as rows, shape (6, 6)."""
    brackets = X @ TWIST - TWIST @ X
    return np.stack([brackets[:, a, b] for a, b in ((2, 1), (0, 2), (1, 0), (0, 3), (1, 3), (2, 3))], axis=1)


FLOW = (_flow(AXIS[0]), _flow(AXIS[1]))
DRIFT = (_drift(AXIS[0]), _drift(AXIS[1]))
"""How parameters, and twists seen from the link, change along a revolute and along a prismatic joint."""


def placements(robot: Robot, length: float = 1.0) -> Array:
    """Return the transforms a(j) -> j at q = 0, shape (n, 4, 4), lengths in units of `length` [m]."""
    table = np.array([(j.gamma, j.alpha, j.theta, j.b, j.d, j.r) for j in robot.joints]).T
    (cg, ca, ct), (sg, sa, st) = _cos_sin(table[:3])
    b, d, r = table[3:] / length
    T = np.zeros((4, 4, robot.n))
    T[0] = cg * ct - sg * ca * st, -cg * st - sg * ca * ct, sg * sa, cg * d + sg * sa * r
    T[1] = sg * ct + cg * ca * st, -sg * st + cg * ca * ct, -cg * sa, sg * d - cg * sa * r
    T[2] = sa * st, sa * ct, ca, b + ca * r
    T[3, 3] = 1.0
    return np.ascontiguousarray(T.transpose(2, 0, 1))


def _cos_sin(angle: Array) -> tuple[Array, Array]:
    """Return cosines and sines, exact at multiples of pi/2, where rounding errors would hide that axes are aligned."""
    quarters = angle / (np.pi / 2)
    nearest = np.round(quarters)
    exact = np.abs(quarters - nearest) < 1e-14 * np.maximum(1.0, np.abs(quarters))
    step = nearest.astype(int) % 4
    c = np.where(exact, np.array([1.0, 0.0, -1.0, 0.0])[step], np.cos(angle))
    s = np.where(exact, np.array([0.0, 1.0, 0.0, -1.0])[step], np.sin(angle))
    return c, s


def transfer_matrix(T: Array) -> Array:
    """Return A, shape (..., 10, 10): the parameters given in a frame placed at T are A chi in the frame T refers to."""
    P = T[..., None, :, :] @ UNIT @ np.swapaxes(T, -1, -2)[..., None, :, :]
    return np.swapaxes(P.reshape(*P.shape[:-2], 16) @ PARAMETER_READER, -1, -2)


def twists_to_child(T: Array, V: Array) -> Array:
    """Return twists, rows (w, v) given in the frame that T refers to, as rows in the frame placed at T."""
    R, (x, y, z) = T[:3, :3], T[:3, 3]
    w, v = V[:, :3], V[:, 3:]
    arm = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])  # w @ arm = w x p
    return np.hstack((w @ R, (v + w @ arm) @ R))


def typical_length(robot: Robot) -> float:
    """Return the root mean square of the robot's lengths that are not zero [m], 1 if it has none."""
    lengths = np.array([x for joint in robot.joints for x in (joint.b, joint.d, joint.r) if x != 0.0])
    scale = float(np.max(np.abs(lengths), initial=0.0))
    return scale * float(np.sqrt(np.mean((lengths / scale) ** 2))) if scale > 0.0 else 1.0


def units(robot: Robot, names: tuple[str, ...], length: float, gravity: float) -> Array:
    """Return the size of each parameter when mass 1 kg, `length` [m] and `gravity` [m/s^2] are the units.

    In these units the columns of a regressor are of like size whatever the robot's own size; time is measured in
    sqrt(length / gravity).
    """
    second = np.sqrt(length / gravity)
    force = (gravity * length, gravity)
    drive: dict[str, tuple[float, float]] = {  # of a revolute joint, of a prismatic one
        **dict.fromkeys(("Ia", "Iam"), (length**2, 1.0)),
        **dict.fromkeys(("Fv", "Fvm"), (force[0] * second, force[1] * second / length)),
        **dict.fromkeys(("Fc", "Fcm", "off"), force),
    }
    link = {**dict.fromkeys(INERTIA, length**2), **dict.fromkeys(FIRST_MOMENT, length), "M": 1.0}
    size = np.empty(len(names))
    for k, name in enumerate(names):
        kind = name.rstrip("0123456789")
        if kind in SYMBOLS:
            element, power = robot.forces[int(name[len(kind) :]) - 1], SYMBOLS.index(kind)
            linear = bool(element.pivots) or robot.joints[min(element.weights) - 1].sigma == PRISMATIC
            size[k] = force[linear] / (length**power if linear else 1.0)
            continue
        size[k] = link[kind] if kind in link else drive[kind][robot.joints[int(name[len(kind) :]) - 1].sigma]
    return size
