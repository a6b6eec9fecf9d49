# SPDX-License-Identifier: Apache-2.0

"""Base parameters as data: which standard parameters lead, what they absorb, and how sure the count is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ros2_dynid.errors import InputError
from ros2_dynid.model.parameters import split_name, standard_names
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
