# SPDX-License-Identifier: Apache-2.0

"""The public Python interface: its names, where they lead, and the page that lists them."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ros2_dynid as dynid
from ros2_dynid import api

PAGE = (Path(__file__).parents[1] / "docs/python.md").read_text()


def test_the_package_passes_on_what_the_api_has() -> None:
    assert sorted(dynid.__all__) == sorted([*api.__all__, "__version__"])
    for name in api.__all__:
        assert getattr(dynid, name) is getattr(api, name)
        assert inspect.getdoc(getattr(dynid, name)), name
    assert set(dynid.__all__) <= set(dir(dynid))
    with pytest.raises(AttributeError, match="has no attribute 'identfy'"):
        _ = dynid.identfy


def test_the_page_lists_every_name_with_its_arguments() -> None:
    functions = dict(re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE, re.MULTILINE))
    types = {name for row in re.findall(r"^\| (`[A-Z].*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"\w+", row)}
    assert {*functions, *types} == set(api.__all__)
    for name, arguments in functions.items():
        parameters = inspect.signature(getattr(dynid, name)).parameters
        required = [key for key, one in parameters.items() if one.default is inspect.Parameter.empty]
        listed = arguments.split(", ")
        assert listed[: len(required)] == required and set(listed) <= set(parameters), name


def test_the_package_alone_imports_nothing_heavy() -> None:
    code = "import sys, ros2_dynid; sys.exit('numpy' in sys.modules or 'ros2_dynid.api' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_torques_of_a_robot_are_those_of_its_regressor() -> None:
    robot = dynid.load_robot("demo3")
    q, dq, ddq = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 20, 3))
    chi = np.array([robot.parameters.get(name, 0.0) for name in dynid.compute_base_parameters(robot).standard_names])
    tau = dynid.compute_torque(robot, q, dq, ddq)
    np.testing.assert_allclose(tau, dynid.compute_regressor(robot, q, dq, ddq) @ chi, atol=1e-10)
    one_by_one = [dynid.make_torque_function(robot).torque(*sample) for sample in zip(q, dq, ddq, strict=True)]
    np.testing.assert_allclose(one_by_one, tau, atol=1e-10)
    still = dynid.compute_torque(robot, q, dq, ddq, friction=False)
    friction = [[robot.parameters[f"{kind}{j}"] for j in (1, 2, 3)] for kind in ("Fv", "Fc", "off")]
    expected = friction[0] * dq + friction[1] * np.sign(dq) + friction[2]
    np.testing.assert_allclose(tau - still, expected, atol=1e-10)


def test_a_payload_needs_one_account_of_the_robot_without_it() -> None:
    robot = dynid.load_robot("demo3")
    with pytest.raises(dynid.DynidError, match="no recordings without the load; give them"):
        dynid.identify_payload(robot, ["loaded"])
