# SPDX-License-Identifier: Apache-2.0

"""The choices that a caller of identification has, as enums; this module loads nothing heavy."""

from __future__ import annotations

from enum import Enum


class Method(str, Enum):
    """The estimators."""

    OLS = "ols"
    """Ordinary least squares: every row counts alike."""
    WLS = "wls"
    """Weighted by the standard deviation of each joint's error."""
    IRLS = "irls"
    """Robust: rows that fit badly count less."""
    TLS = "tls"
    """Total least squares: encoder noise in the regressor too."""
    IV = "iv"
    """Instrumental variables."""
    IDIM_IV = "idim-iv"
    """Instrumental variables from a simulated closed loop."""
    DIDIM = "didim"
    """Closed-loop output error: simulated against measured torque."""
    ENERGY = "energy"
    """The energy model: no accelerations."""
    SEQUENTIAL = "sequential"
    """The square-root information filter."""
    RECURSIVE = "recursive"
    """From the last joint to the first."""

    def __str__(self) -> str:
        """Return the name that callers use."""
        return self.value


class VelocitySource(str, Enum):
    """Where velocities come from."""

    AUTO = "auto"
    """Whichever is better for each joint."""
    POSITION = "position"
    """Differentiated positions."""
    MEASURED = "measured"
    """As recorded."""

    def __str__(self) -> str:
        """Return the name that callers use."""
        return self.value


DISTANCES = ("scaled", "euclidean")
"""How a change of standard parameters is measured: in each link's own units, or in SI units as seed 002 prints it."""
RELATIVE_STD = 0.1
"""Base parameters with a larger relative standard deviation are candidates to leave the essential ones."""
