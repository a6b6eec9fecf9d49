# SPDX-License-Identifier: Apache-2.0

"""An estimate: base parameters, delay of the effort and load by name, with covariance.

The columns of W by name: base parameters, friction terms, the delay of the effort, a load, a second sensor. This is the
only place that knows their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ros2_dynid.identification.friction_columns import change_shape
from ros2_dynid.identification.options import Method
from ros2_dynid.model.friction_kinds import FrictionTerm, law_columns
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
        return np.arange(self.size) < self.n_base

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


Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What was estimated, one value for each column of W: value, covariance, in the order of the layout.

    identified: False where the data do not determine a value. sigma: standard deviation of each joint's error [N.m or
    N]; cond: condition number of the weighted W with columns scaled to unit norm; rank: its numerical rank; dof:
    degrees of freedom of the error bars.
    """

    layout: ColumnLayout
    value: Array
    covariance: Array
    identified: Mask
    sigma: Array
    cond: float
    rank: int
    method: Method
    dof: float = np.inf

    def with_base(self, base: Array) -> Estimate:
        """Return the same with other values of the base parameters, shape (b,)."""
        value = self.value.copy()
        value[self.layout.base] = base
        return replace(self, value=value)

    @property
    def std(self) -> Array:
        """Standard deviations, infinite where a value is not identified."""
        return np.where(self.identified, np.sqrt(np.maximum(np.diag(self.covariance), 0.0)), np.inf)

    @property
    def base(self) -> Array:
        """Values of the base parameters, shape (b,)."""
        return self.value[self.layout.base]

    @property
    def base_std(self) -> Array:
        """Their standard deviations."""
        return self.std[self.layout.base]

    @property
    def base_covariance(self) -> Array:
        """Their covariance, shape (b, b)."""
        return self.covariance[self.layout.base, self.layout.base]

    @property
    def base_identified(self) -> Mask:
        """Which of them the data determine."""
        return self.identified[self.layout.base]

    @property
    def friction(self) -> Array:
        """Coefficients of the friction terms, shape (f,)."""
        return self.value[self.layout.friction]

    @property
    def friction_std(self) -> Array:
        """Their standard deviations."""
        return self.std[self.layout.friction]

    @property
    def delay(self) -> float:
        """How late the effort was recorded [s]; 0 if it was not estimated."""
        return float(self.value[self.layout.delay].sum())

    @property
    def delay_std(self) -> float:
        """Standard deviation of the delay [s]."""
        return float(self.std[self.layout.delay].sum())

    @property
    def load(self) -> Array:
        """Parameters of the load, shape (10,), or (0,) if there is none."""
        return self.value[self.layout.load]

    @property
    def load_covariance(self) -> Array:
        """Their covariance."""
        return self.covariance[self.layout.load, self.layout.load]

    @property
    def load_identified(self) -> Mask:
        """Which of them the data determine."""
        return self.identified[self.layout.load]


def identified_terms(terms: Sequence[FrictionTerm], estimate: Estimate) -> tuple[FrictionTerm, ...]:
    """Return the friction terms with what was estimated; a coefficient that cannot be negative is at least zero."""
    estimated = [
        replace(
            term,
            coefficient=max(float(value), 0.0) if term.positive else float(value),
            std=float(std) if np.isfinite(std) else None,
        )
        for term, value, std in zip(terms, estimate.friction, estimate.friction_std, strict=True)
    ]
    shapes = {(term.joint, term.kind): term for term in estimated if term.of_shape}
    return tuple(_with_shape(term, shapes.get((term.joint, term.kind))) for term in estimated if not term.of_shape)


def friction_covariance(terms: Sequence[FrictionTerm], estimate: Estimate) -> Array | None:
    """Return the covariance of the f columns of the identified law with base parameters and each other, (f, b + f).

    terms: those of the estimate; the columns are those of `law_columns`. None where the data do not determine one.
    """
    first = estimate.layout.friction.start
    place = {(term.joint, term.kind, term.of_shape): first + k for k, term in enumerate(terms)}
    columns = law_columns(identified_terms(terms, estimate))
    at = [place[term.joint, term.kind, term.of_shape] for term in columns]
    C = estimate.covariance[np.ix_(at, [*range(estimate.layout.n_base), *at])]
    return C if at and np.all(estimate.identified[at]) and np.all(np.isfinite(C)) else None


def _with_shape(term: FrictionTerm, shape: FrictionTerm | None) -> FrictionTerm:
    """Return a term with the change of its shape that was estimated beside it."""
    if shape is None or term.coefficient <= 0.0:
        return term
    std = None if shape.std is None else shape.std / term.coefficient
    changed, kind = change_shape(term, shape.coefficient / term.coefficient), term.kind.shape
    assert kind is not None
    return changed.with_shape(changed.shape, std if std is None or not kind.logarithmic else term.shape * std)
