# SPDX-License-Identifier: Apache-2.0

"""Base parameters as data: which standard parameters lead, what they absorb, in reduced form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.base_parameters.numeric import Dependence
from ros2_dynid.errors import InputError, Option, Text
from ros2_dynid.model.parameters import GROUPS, KINDS, group_of, select_groups, split_name, standard_names
from ros2_dynid.model.robot import Array, Robot


@dataclass(frozen=True, eq=False)
class BaseParameters:
    """The base parameters M chi of a robot in reduced form: W chi = W[:, leaders] (M chi) for every sample.

    names: of the base parameters; leaders: the standard parameter that each keeps with coefficient 1 and that no other
    holds; standard_names: the standard parameters taken part in, the columns of M, shape (b, len(standard_names)).
    eliminated have no effect at all; regrouped act only through base parameters led by others.
    cond, S: condition number and scaling max|W| / min|W| of the sampled W[:, leaders] (None where nothing was sampled);
    gap: last diagonal element or singular value kept over the first one dropped (infinite if none was dropped).
    """

    names: tuple[str, ...]
    leaders: tuple[str, ...]
    standard_names: tuple[str, ...]
    M: Array
    eliminated: tuple[str, ...]
    regrouped: tuple[str, ...]
    source: str
    method: str
    cond: float | None = None
    S: float | None = None
    gap: float = np.inf
    warnings: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        """Return b, the number of base parameters."""
        return len(self.names)

    def columns(self, robot: Robot) -> list[int]:
        """Return the places of the leaders in the robot's full chi: W_base = W[..., columns]."""
        place = {name: k for k, name in enumerate(standard_names(robot))}
        return [place[name] for name in self.leaders]

    def full_map(self, robot: Robot) -> Array:
        """Return M, shape (b, n_standard), over all standard parameters of the robot: base = M chi."""
        place = {name: k for k, name in enumerate(standard_names(robot))}
        M = np.zeros((len(self), len(place)))
        M[:, [place[name] for name in self.standard_names]] = self.M
        return M

    def values(self, robot: Robot, chi: Array) -> Array:
        """Return M chi, shape (b,), from the robot's full standard parameters chi, shape (n_standard,)."""
        every = standard_names(robot)
        if np.shape(chi) != (len(every),):
            raise InputError(f"chi has shape {np.shape(chi)}", f"give all {len(every)} standard parameters")
        place = {name: k for k, name in enumerate(every)}
        return np.asarray(self.M @ np.asarray(chi, dtype=float)[[place[name] for name in self.standard_names]])

    def terms(self, k: int) -> dict[str, float]:
        """Return the coefficients of base parameter number k (from 0) that are not zero, its leader first."""
        leader = self.standard_names.index(self.leaders[k])
        order = [leader, *(int(i) for i in np.flatnonzero(self.M[k]) if i != leader)]
        return {self.standard_names[i]: float(self.M[k, i]) for i in order}


def base_name(leader: str, absorbed: bool) -> str:
    """Return the name of a base parameter: "ZZR1" if it absorbed others, "ZZ1" if not."""
    if not absorbed:
        return leader
    kind, number = split_name(leader)
    return f"{kind}R{number}"


DISSIPATIVE = ("friction", "offset")
"""Groups that only the torque model has: at rest and in the energy they do not show."""


def chosen_names(robot: Robot, source: str, groups: Sequence[str] | None) -> tuple[tuple[str, ...], str | None]:
    """Return the standard parameters that take part, and a note if the model itself left some out."""
    if source == "torque":
        return select_groups(robot, groups), None
    if groups is None:
        elastic = ("force",) if robot.forces else ()
        note = f"friction and offset left out: not in the {source} model"
        return select_groups(robot, ("inertial", "rotor", *elastic)), note
    wrong = [group for group in groups if group in DISSIPATIVE]
    if wrong:
        raise InputError(
            f"{' and '.join(wrong)} cannot be identified from the {source} model",
            Text("use ", Option("source", "torque"), ", or ", Option("groups", ("inertial", "rotor"))),
        )
    return select_groups(robot, groups), None


def preference(names: Sequence[str], order: Sequence[str] | None) -> list[int]:
    """Return the columns in order of preference: those that `order` names, then the rest as they come.

    An item is a parameter (ZZ1), a kind (Ia: of all joints), a group (rotor) or a joint's number (6: all that it has).
    Earlier columns lead before later ones.
    """
    if order is None:
        return list(range(len(names)))
    place = {name: k for k, name in enumerate(names)}
    preferred: dict[int, None] = {}
    for item in order:
        matches = [place[name] for name in _match_parameters(item, names) if name in place]
        if not matches:
            raise InputError(
                Text(Option("order"), f" names {item!r}, which matches no parameter that takes part"),
                "use a name (ZZ1), a kind (Ia), a group (rotor) or a joint's number (6)",
            )
        preferred.update(dict.fromkeys(matches))
    return [*preferred, *(k for k in range(len(names)) if k not in preferred)]


def _match_parameters(item: str, names: Sequence[str]) -> list[str]:
    """Return the parameters that an item of the order stands for."""
    item = item.strip()
    if item in names:
        return [item]
    if item in GROUPS:
        return [name for name in names if group_of(name) == item]
    if item in KINDS:
        return [name for name in names if split_name(name)[0] == item]
    if item.isascii() and item.isdigit():
        return [name for name in names if split_name(name)[1] == int(item) and group_of(name) != "force"]
    return []


def noise_level(kept: float) -> float:
    """Return the rounding error to expect in coefficients when the smallest relative pivot was `kept`."""
    return float(min(max(1e-13, 20.0 * np.finfo(float).eps / kept), 1e-11))


def tidy(beta: Array, size: Array, leaders: Sequence[int], noise: float) -> Array:
    """Return beta with rounding noise removed, judged in the robot's own units, `size` of each parameter.

    Below `noise`: exactly zero. Within `noise` of a number of nine digits: that number, so 0.2904 and not
    0.29040000000000005; nothing moves by more than the noise that it carries.
    """
    unit = size[None, :] / size[list(leaders), None]
    own = np.abs(beta * unit)
    beta = np.where(own < noise, 0.0, beta)
    i, k = np.nonzero((beta != 0.0) & (np.abs(beta) != 1.0))
    exact, own, unit = beta[i, k], own[i, k], unit[i, k]
    digits = 10.0 ** (8.0 - np.floor(np.log10(np.abs(exact))))
    nearest = np.round(exact * digits) / digits
    beta[i, k] = np.where(np.abs(nearest - exact) * unit <= noise * np.maximum(0.01, own), nearest, exact)
    return beta


def si_coefficients(dependence: Dependence, size: Array, kept: float) -> Array:
    """Return beta, shape (b, c), in SI units and free of noise, from a factorisation in natural units.

    size: of each of the c parameters in natural units; kept: the smallest relative pivot that counted.
    """
    leaders = dependence.leaders
    return tidy(dependence.beta / size[None, :] * size[leaders, None], size, leaders, noise_level(kept))


def build(
    standard_names: Sequence[str],
    leaders: Sequence[int],
    beta: Array,
    *,
    source: str,
    method: str,
    gap: float,
    cond: float | None = None,
    S: float | None = None,
    warnings: Sequence[str] = (),
) -> BaseParameters:
    """Return the result for leaders (columns) and beta, shape (b, c): M = beta, ordered as chi."""
    order = np.argsort(list(leaders), kind="stable")
    leaders = [int(leaders[k]) for k in order]
    M = np.ascontiguousarray(beta[order])
    M[np.arange(len(leaders)), leaders] = 1.0
    M.setflags(write=False)
    nonzero = M != 0.0
    has_effect, absorbs_others, leader_set = nonzero.any(axis=0), nonzero.sum(axis=1) > 1, set(leaders)
    return BaseParameters(
        names=tuple(base_name(standard_names[k], more) for k, more in zip(leaders, absorbs_others, strict=True)),
        leaders=tuple(standard_names[k] for k in leaders),
        standard_names=tuple(standard_names),
        M=M,
        eliminated=tuple(name for k, name in enumerate(standard_names) if not has_effect[k]),
        regrouped=tuple(name for k, name in enumerate(standard_names) if has_effect[k] and k not in leader_set),
        source=source,
        method=method,
        gap=gap,
        cond=cond,
        S=S,
        warnings=tuple(warnings),
    )
