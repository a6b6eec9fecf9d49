"""The columns of W by name: base parameters, then the delay of the effort, then the ten parameters of a load.

This is the only place that knows their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class Layout:
    """How many columns W has of each kind: base parameters, delay (0 or 1), parameters of a load (0 or 10)."""

    n_base: int
    n_delay: int = 0
    n_load: int = 0

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.n_base + self.n_delay + self.n_load

    @property
    def base(self) -> slice:
        """Columns of the base parameters."""
        return slice(0, self.n_base)

    @property
    def delay(self) -> slice:
        """Column of the delay; empty without one."""
        return slice(self.n_base, self.n_base + self.n_delay)

    @property
    def load(self) -> slice:
        """Columns of the load; empty without one."""
        return slice(self.n_base + self.n_delay, self.size)

    @property
    def is_delay(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """True for the column of the delay, shape (size,)."""
        mask = np.zeros(self.size, dtype=bool)
        mask[self.delay] = True
        return mask

    def vector(self, base: Array, delay: float = 0.0) -> Array:
        """Return a value for each column, shape (size,), from base parameters and delay [s]; a load's are zero."""
        value = np.zeros(self.size)
        value[self.base], value[self.delay] = base, delay
        return value


@dataclass(frozen=True, eq=False)
class Triangle:
    """R factor of [W tau], upper triangular with size + 1 columns."""

    R: Array
    layout: Layout

    @property
    def W(self) -> Array:
        """All columns of W."""
        return self.R[:, :-1]

    @property
    def tau(self) -> Array:
        """The torque."""
        return self.R[:, -1]

    @property
    def base(self) -> Array:
        """Columns of the base parameters."""
        return self.W[:, self.layout.base]

    def tau_at(self, delay: float) -> Array:
        """Return the torque with the effort's delay [s] put right."""
        return np.asarray(self.tau - self.W[:, self.layout.delay].sum(axis=1) * delay)
