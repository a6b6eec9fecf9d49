# SPDX-License-Identifier: Apache-2.0

"""The files of continuous integration: YAML that GitHub takes, shell that parses, commands and files that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
DISTRIBUTIONS = ["jazzy", "kilted", "lyrical", "rolling"]
RUNNERS = ["ubuntu-latest", "ubuntu-24.04-arm"]


class Unique(yaml.SafeLoader):
    """A loader that refuses a key given twice, of which YAML would keep the last one only."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"given twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def load(file: Path) -> dict[Any, Any]:
    content = yaml.load(file.read_text(), Loader=Unique)
    assert isinstance(content, dict)
    return content


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in load(file)["jobs"].values() for step in job["steps"]]


def test_every_supported_distribution_is_tested() -> None:
    jobs = [job for file in FILES for job in load(file)["jobs"].values()]
    (ros,) = (job for job in jobs if str(job.get("container", "")).startswith("ros:"))
    assert ros["strategy"]["matrix"] == {"distribution": DISTRIBUTIONS, "runner": RUNNERS}
    assert ros["strategy"]["fail-fast"] is False
    (install,) = re.findall(r"\| distributions \| (.*?) \|", (ROOT / "README.md").read_text())
    assert all(name.capitalize() in install for name in DISTRIBUTIONS[:-1])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_workflow_has_what_github_needs(file: Path) -> None:
    workflow = load(file)
    assert True in workflow, "`on` is missing (YAML reads the word as true)"
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        assert job["runs-on"] == ("${{ matrix.runner }}" if "runner" in matrix else "ubuntu-latest")
        assert job["timeout-minutes"] <= 60
        used = set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", yaml.safe_dump(job)))
        assert used == set(matrix)
    for step in steps(file):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_shell_of_a_workflow_parses_and_its_files_exist(file: Path) -> None:
    scripts = [re.sub(r"\$\{\{.*?\}\}", "x", step["run"]) for step in steps(file) if "run" in step]
    for text in scripts:
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for name in re.findall(r"(?:^|\s)(\.ci/\w+|\./\w+)", text):
            assert (ROOT / name).stat().st_mode & 0o111, name
    if any("test" in name for name in load(file)["jobs"]):
        assert any(".ci/run" in text for text in scripts)


def test_continuous_integration_runs_the_test_command() -> None:
    assert "exec ./dynid test" in (ROOT / ".ci/run").read_text()


def test_pixi_installs_the_python_packages_of_the_project() -> None:
    """RoboStack's Python of Lyrical is 3.14; that of the older ones wants what is marked for Pythons before it."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = ["bags", "data", "sim", "collision", "fleet", "preview", "panel"]
    wanted = [item for name in extras for item in project["optional-dependencies"][name]] + project["dependencies"]
    pixi = tomllib.loads((ROOT / "pixi.toml").read_text())
    assert set(pixi["environments"]) == set(DISTRIBUTIONS) - {"rolling"}
    for name, (feature,) in pixi["environments"].items():
        assert feature == name
        own = pixi["feature"][name]
        assert own["channels"][0]["channel"].endswith(f"robostack-{name}")
        listed = {**pixi["dependencies"], **pixi["pypi-dependencies"], **own.get("pypi-dependencies", {})}
        listed["matplotlib"] = listed.pop("matplotlib-base")
        for item in wanted:
            parts = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?([^;]*)(; .*)?", item)
            assert parts is not None
            package, bounds, marker = parts.groups()
            assert (listed.get(package.lower()) == bounds) == (not marker or name != "lyrical"), (name, item)
        assert listed["distributed"] == listed["dask"]
