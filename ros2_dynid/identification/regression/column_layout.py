# SPDX-License-Identifier: Apache-2.0

"""The columns of W by name: base parameters, friction terms, the delay of the effort, a load, a second sensor.

This is the only place that knows their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ros2_dynid.model.robot import Array


@dataclass(frozen=True)
class ColumnLayout:
    """How many columns W has of each kind: base parameters, friction terms, delay (0 or 1), load (0 or 10).

    n_sensor: delay and biases of a second sensor.
    """

    n_base: int
    n_delay: int = 0
    n_load: int = 0
    n_friction: int = 0
    n_sensor: int = 0

    @property
    def size(self) -> int:
        """Number of columns."""
        return self.n_base + self.n_friction + self.n_delay + self.n_load + self.n_sensor

    @property
    def base(self) -> slice:
        """Columns of the base parameters."""
        return slice(0, self.n_base)

    @property
    def friction(self) -> slice:
        """Columns of friction terms beyond Fv, Fc and off; empty without them."""
        return slice(self.n_base, self.n_base + self.n_friction)

    @property
    def delay(self) -> slice:
        """Column of the delay; empty without one."""
        return slice(self.friction.stop, self.friction.stop + self.n_delay)

    @property
    def load(self) -> slice:
        """Columns of the load; empty without one."""
        return slice(self.delay.stop, self.delay.stop + self.n_load)

    @property
    def sensor(self) -> slice:
        """Columns of a second sensor, its delay first; empty without one."""
        return slice(self.load.stop, self.size)

    @property
    def is_base(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """True for the columns of base parameters, shape (size,)."""
        mask = np.zeros(self.size, dtype=bool)
        mask[self.base] = True
        return mask

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
    layout: ColumnLayout

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

    def tau_of_base(self, value: Array) -> Array:
        """Return what the base parameters have to explain: the torque less all other columns times `value` (size,)."""
        others = ~self.layout.is_base
        return np.asarray(self.tau - self.W[:, others] @ value[others])
