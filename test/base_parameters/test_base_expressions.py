# SPDX-License-Identifier: Apache-2.0

"""Expressions that people can read, the geometry's symbols, and the table of identifiability."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ros2_dynid.base_parameters import base_parameters
from ros2_dynid.base_parameters.expressions import align, combination, expression
from ros2_dynid.base_parameters.identifiability import identifiability
from ros2_dynid.base_parameters.minimal_combinations import minimal_combinations
from ros2_dynid.base_parameters.symbols import Polynomial, length_symbols, set_lengths, symbolic_terms
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.model.robot import Joint, Robot

SYMBOLS = {3: {"d": "D3", "r": "R3"}, 4: {"d": "D4", "r": "R4"}}


@pytest.fixture(scope="module")
def puma():
    robot = load_robot("puma560")
    joints = tuple(replace(joint, symbols=SYMBOLS.get(j, {})) for j, joint in enumerate(robot.joints, start=1))
    return replace(robot, joints=joints)


@pytest.fixture(scope="module")
def base(puma):
    return base_parameters(puma, groups=("inertial", "rotor"))


def named(base, name, symbolic=None, **options):
    return expression(base, base.names.index(name), symbolic, **options)


def test_numbers_as_the_paper_writes_them(base):
    assert named(base, "ZZR1") == "ZZR1 = ZZ1 + YY2 + YY3 + 0.4 MZ3 + 0.2904 (M4 + M5 + M6) + 0.29 M3 + Ia1"
    assert named(base, "XXR2") == "XXR2 = XX2 - YY2 - 0.25 (M3 + M4 + M5 + M6)"
    assert named(base, "XZR2") == "XZR2 = XZ2 - 0.5 MZ3 - 0.1 (M3 + M4 + M5 + M6)"
    assert named(base, "Ia6") == "Ia6 = Ia6"


def test_symbols_as_in_table_v(puma, base):
    symbolic = symbolic_terms(puma, base)
    assert (
        named(base, "ZZR1", symbolic)
        == "ZZR1 = ZZ1 + YY2 + YY3 + 2 R3 MZ3 + (D3^2 + D4^2 + R3^2) (M4 + M5 + M6) + (D3^2 + R3^2) M3 + Ia1"
    )
    assert named(base, "XXR2", symbolic) == "XXR2 = XX2 - YY2 - D3^2 (M3 + M4 + M5 + M6)"
    assert named(base, "XZR2", symbolic) == "XZR2 = XZ2 - D3 MZ3 - D3 R3 (M3 + M4 + M5 + M6)"
    assert named(base, "XXR3", symbolic) == "XXR3 = XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4^2 - D4^2) (M4 + M5 + M6)"
    assert named(base, "MYR5", symbolic) == "MYR5 = MY5 + MZ6"


def test_latex(puma, base):
    text = named(base, "XXR2", symbolic_terms(puma, base), latex=True)
    assert text == (r"\mathit{XXR}_{2} = \mathit{XX}_{2} - \mathit{YY}_{2} - D_{3}^2 (M_{3} + M_{4} + M_{5} + M_{6})")
    assert align([text]).startswith("\\begin{align}\n\\mathit{XXR}_{2} &= ")


def test_symbols_hold_at_other_lengths(puma, base):
    """The polynomials, evaluated at lengths that no fit has seen, are the coefficients computed there."""
    lengths = {"D3": 0.41, "R3": -0.13, "D4": 0.07, "R4": 0.33}
    there = base_parameters(set_lengths(puma, lengths), groups=("inertial", "rotor"))
    polynomials = symbolic_terms(puma, base)
    assert len(polynomials) > 30
    for (row, column), polynomial in polynomials.items():
        value = sum(c * np.prod([lengths[s] for s in monomial]) for monomial, c in polynomial.terms.items())
        assert there.M[row, column] == pytest.approx(value, abs=1e-12)


def test_robots_without_symbols_or_with_loops_keep_numbers():
    plain = load_robot("demo6")
    assert length_symbols(plain) == {} and symbolic_terms(plain, base_parameters(plain)) == {}
    loop = load_robot("hitachi_hpr")
    assert symbolic_terms(loop, base_parameters(loop)) == {}


def test_combinations_read_well():
    assert combination({"ZZ1": 1.0, "M2": -1.0, "M3": -1.0}) == "ZZ1 - M2 - M3"
    assert combination({"MX1": -0.5, "M2": 1e-7}) == "-0.5 MX1 + 1e-07 M2"
    assert combination({}) == "0"
    minus = Polynomial({("D3", "D3"): -1.0, ("R3",): -2.0})
    assert combination({"XX2": 1.0, "M3": -3.0}, {"M3": minus}) == "XX2 - (D3^2 + 2 R3) M3"


def test_a_minus_sign_before_a_symbol_is_the_negative_length():
    robot = Robot("r", (Joint("j1", 0, symbols={}), Joint("j2", 1, alpha=1.5, d=-0.3, symbols={"d": "-L"})))
    assert length_symbols(robot) == {"L": 0.3}
    assert set_lengths(robot, {"L": 0.5}).joints[1].d == -0.5


def test_identifiability_covers_every_parameter_once(puma, base):
    table = {entry.name: entry for entry in identifiability(puma, base)}
    assert tuple(table) == base.standard_names
    assert {name for name, entry in table.items() if entry.status == "not"} == set(base.eliminated)
    alone = {name for name, entry in table.items() if entry.status == "alone"}
    assert len(alone) == 23 and "Ia6" in alone  # Gautier 1991: 23 are not changed by the regrouping
    assert table["YY2"].reason.startswith("acts as ZZ1 - XX2")
    assert table["ZZ1"].base == ("ZZR1",) and "Ia1" in table["ZZ1"].reason
    assert table["XX1"].reason == "link 1 only turns about one direction, and XX1 is not a moment about it"
    assert table["M2"].reason == "the origin of frame 2 never moves"
    assert "gravity does no work on MZ2" in table["MZ2"].reason
    assert all(entry.reason for entry in table.values())


def test_identifiability_of_links_that_never_turn():
    lift = Robot("lift", (Joint("j1", 0, 1),))
    table = {e.name: e for e in identifiability(lift, base_parameters(lift, groups=("inertial",)))}
    assert table["XX1"].reason == table["MX1"].reason == "link 1 never turns, so only its mass has an effect"


def test_lins_set_for_the_stanford_arm():
    robot = load_robot("stanford")
    paper = {c.name: c.terms for c in minimal_combinations(robot)}
    assert len(paper) == 33
    assert paper["m_3"] == {"M3": 1.0, "M4": 1.0, "M5": 1.0, "M6": 1.0}
    assert paper["kz_3"] == {"MZ3": 1.0, "MZ4": 1.0}
    # k_2 holds k_3, which is itself in the set: not in reduced form.
    assert paper["kx_2"] == {"MX2": 1.0, "MX3": 1.0} and paper["kx_3"] == {"MX3": 1.0}


def test_the_set_of_theorem_2_for_the_puma_is_that_of_table_v():
    found = {c.name: c.terms for c in minimal_combinations(load_robot("puma560"))}
    masses = {"M4": 0.2904, "M5": 0.2904, "M6": 0.2904}
    assert found["U33_1"] == {"ZZ1": 1.0, "YY2": 1.0, "YY3": 1.0, "MZ3": 0.4, "M3": 0.29} | masses
    assert found["U11-U22_2"] == {"XX2": 1.0, "YY2": -1.0, "M3": -0.25, "M4": -0.25, "M5": -0.25, "M6": -0.25}
    assert found["U11-U22_6"] == {"XX6": 1.0, "YY6": -1.0} and found["ky_5"] == {"MY5": 1.0, "MZ6": 1.0}


def test_the_set_of_theorem_2_has_numbers_without_rounding_noise():
    for name in ("puma560", "stanford", "puma260"):
        for found in minimal_combinations(load_robot(name)):
            assert all(value == float(f"{value:.9g}") and abs(value) > 1e-9 for value in found.terms.values())


def test_theorem_2_refuses_what_it_does_not_cover():
    with pytest.raises(InputError, match="loops"):
        minimal_combinations(load_robot("hitachi_hpr"))
    with pytest.raises(InputError, match="gravity"):
        minimal_combinations(replace(load_robot("puma3"), gravity=np.zeros(3)))
