# SPDX-License-Identifier: Apache-2.0

"""The counts, coefficients and values that the papers print."""

from __future__ import annotations

import numpy as np
import pytest

from ros2_dynid.base_parameters import METHODS, SOURCES, base_parameters
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.parameters import standard_vector

INERTIAL_ROTOR = ("inertial", "rotor")

# Gautier 1991, Table III: the 40 base parameters of the PUMA 560.
TABLE_III = {
    "ZZR1": 5.0186, "XXR2": -2.05, "XY2": 0.7, "XZR2": -1.07, "YZ2": 0.65, "ZZR2": 6.55, "MXR2": 4.3, "MY2": 0.6,
    "XXR3": 0.7634, "XYR3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZR3": 0.9646, "MXR3": 0.528, "MYR3": 1.14, "Ia3": 1.0,
    "XXR4": -0.42, "XY4": 0.02, "XZ4": 0.02, "YZ4": 0.015, "ZZR4": 0.07, "MX4": 0.02, "MYR4": -0.07, "Ia4": 0.3,
    "XXR5": 0.02, "XY5": 0.01, "XZ5": 0.01, "YZ5": 0.01, "ZZR5": 0.06, "MX5": 0.02, "MYR5": 0.03, "Ia5": 0.3,
    "XXR6": 0.0, "XY6": 0.01, "XZ6": 0.01, "YZ6": 0.01, "ZZ6": 0.02, "MX6": 0.01, "MY6": 0.01, "Ia6": 0.3,
}  # fmt: skip
D3, R3, D4, R4 = 0.5, 0.2, 0.02, 0.6


def masses(first, coefficient):
    return {f"M{j}": coefficient for j in range(first, 7)}


# Gautier 1991, Table V: the 17 regrouping relations.
TABLE_V = {
    "ZZR1": {"ZZ1": 1, "YY2": 1, "YY3": 1, "MZ3": 2 * R3, **masses(4, R3**2 + D3**2 + D4**2), "M3": R3**2 + D3**2,
             "Ia1": 1},
    "XXR2": {"XX2": 1, "YY2": -1, **masses(3, -(D3**2))},
    "XZR2": {"XZ2": 1, "MZ3": -D3, **masses(3, -D3 * R3)},
    "ZZR2": {"ZZ2": 1, "Ia2": 1, **masses(3, D3**2)},
    "MXR2": {"MX2": 1, **masses(3, D3)},
    "XXR3": {"XX3": 1, "YY3": -1, "YY4": 1, "MZ4": 2 * R4, **masses(4, R4**2 - D4**2)},
    "XYR3": {"XY3": 1, "MZ4": -D4, **masses(4, -D4 * R4)},
    "ZZR3": {"ZZ3": 1, "YY4": 1, "MZ4": 2 * R4, **masses(4, D4**2 + R4**2)},
    "MXR3": {"MX3": 1, **masses(4, D4)},
    "MYR3": {"MY3": 1, "MZ4": 1, **masses(4, R4)},
    "XXR4": {"XX4": 1, "YY4": -1, "YY5": 1},
    "ZZR4": {"ZZ4": 1, "YY5": 1},
    "MYR4": {"MY4": 1, "MZ5": -1},
    "XXR5": {"XX5": 1, "YY5": -1, "YY6": 1},
    "ZZR5": {"ZZ5": 1, "YY6": 1},
    "MYR5": {"MY5": 1, "MZ6": 1},
    "XXR6": {"XX6": 1, "YY6": -1},
}  # fmt: skip
ELIMINATED = ("XX1", "XY1", "XZ1", "YY1", "YZ1", "MX1", "MY1", "MZ1", "M1", "MZ2", "M2")
REGROUPED = (
    "Ia1", "YY2", "Ia2", "YY3", "MZ3", "M3", "YY4", "MZ4", "M4", "YY5", "MZ5", "M5", "YY6", "MZ6", "M6",
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS)
def test_puma560_as_in_tables_iii_to_v(source, method):
    robot = load_robot("puma560")
    base = base_parameters(robot, source=source, method=method, groups=INERTIAL_ROTOR)
    assert len(base.standard_names) == 66
    assert base.eliminated == ELIMINATED
    assert base.regrouped == REGROUPED
    assert base.names == tuple(TABLE_III)
    absorbing = {name: base.terms(k) for k, name in enumerate(base.names) if len(base.terms(k)) > 1}
    assert set(absorbing) == set(TABLE_V)
    for name, terms in TABLE_V.items():
        assert set(absorbing[name]) == set(terms), name
        for parameter, coefficient in terms.items():
            assert absorbing[name][parameter] == pytest.approx(coefficient, abs=1e-13), (name, parameter)
    values = base.values(robot, standard_vector(robot))
    np.testing.assert_allclose(values, list(TABLE_III.values()), atol=0.5e-4 + 1e-12)
    assert base.gap > 1e6 and not base.warnings


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "groups", "standard", "expected"),
    [
        ("puma560", None, 84, 58),
        ("puma3", ("inertial",), 30, 15),  # Gautier and Khalil 1992
        ("puma260", ("inertial", "rotor", "friction"), 78, 52),  # Izaguirre et al. 1992
        ("stanford", ("inertial",), 60, 33),  # Lin 1995
        ("tx40", None, 86, 60),  # Gautier and Venture 2013, coupling inertia tied to Ia6
        ("tx40_iam6", None, 87, 61),  # the same with Iam6 on its own
    ],
)
def test_counts_of_the_papers(name, groups, standard, expected, method):
    base = base_parameters(load_robot(name), method=method, groups=groups)
    assert (len(base.standard_names), len(base)) == (standard, expected)


def test_puma260_with_rotors_first_then_links_6_to_1():
    """Two moments depend on the rotors 1 and 2, friction on nothing, and 34 moments are left (Izaguirre et al.)."""
    robot = load_robot("puma260")
    for method in METHODS:
        base = base_parameters(
            robot,
            method=method,
            groups=("inertial", "rotor", "friction"),
            order=["rotor", "6", "5", "4", "3", "2", "1"],
        )
        assert [name for name in base.names if name.startswith("Ia")] == ["IaR1", "IaR2", "Ia3", "Ia4", "Ia5", "Ia6"]
        assert {f"F{kind}{j}" for kind in "vc" for j in range(1, 7)} <= set(base.names)
        assert len(base) - 6 - 12 == 34
        assert "MR6" in base.names and "ZZ1" in base.regrouped


def test_the_paper_counts_tx40_with_iam6_apart():
    """86 standard parameters make 60 base ones; the 61 that the paper prints need the coupling inertia apart."""
    tied, apart = (base_parameters(load_robot(name), method="closed-form") for name in ("tx40", "tx40_iam6"))
    assert set(apart.standard_names) - set(tied.standard_names) == {"Iam6"}
    assert set(apart.leaders) - set(tied.leaders) == {"Iam6"}
