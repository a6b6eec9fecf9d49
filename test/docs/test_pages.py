# SPDX-License-Identifier: Apache-2.0

"""The documentation is true: links resolve, every command shown runs, every snippet runs, nothing private is in it.

Blocks marked bash run from top to bottom in a folder of the page's own, as a reader would run them. A line that ends in
`# refused` must end with exit code 2. Commands in other blocks run one by one, placeholders filled in. What is not
run is named in NOT_RUN, with the reason. A block marked as output holds lines that the commands above it printed, but
for the numbers, since searches are shorter here: `DYNID_WRITE_OUTPUT=1 pytest test/docs/test_pages.py` runs them as
they are and writes the lines with their numbers into the pages.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pages import COMMANDS, ROOT, anchors, blocks, inline_code, links, logical_lines, pages
from ros2_dynid.cli import build_parser, command_names
from urdf_oracle import example_urdfs
from zygote import CLIENT

NOT_RUN = {
    "./dynid demo": "takes minutes and starts ROS nodes; test/nodes runs it",
    "dynid demo": "the same",
    "./dynid test": "runs this very test",
    "dynid identify robot.urdf multisine.csv": "takes a minute; test/identification/servo runs it",
    "dynid rollout": "needs the model of that; the same",
    "dynid export result --to": "needs the model of that; test/codegen/test_servo_export.py runs it",
    "dynid identify go2.urdf": "needs a robot on legs; test/identification/test_floating_base.py runs it",
    "dynid bench": "takes minutes and needs peers; what it measures is tested elsewhere",
    "dynid replay": "needs ROS nodes that listen; test/nodes runs it",
    "dynid fleet": "needs a cluster; the page runs it on this machine",
    "./dynid python -m sphinx": "test_site.py builds the site",
}
ROS_OR_SYSTEM = ("ros2 ", "cd ", "colcon ", "pip ", "python3 -m venv", "rosdep ", "git ", ". ", "pre-commit ")
"""Commands of blocks marked text: they need a ROS installation, a network or hardware."""
FILLED_IN = {
    "MODEL|ROBOT": "demo6", "ROBOT.urdf": "robot.urdf", "MODEL.yaml": "result/model.yaml", "MODEL": "result/model.yaml",
    "ROBOT": "robot.urdf", "BAG...": "recording", "BAG": "recording", "DIR": "folder", "[...]": "",
}  # fmt: skip
WRITE_OUTPUT = bool(os.environ.get("DYNID_WRITE_OUTPUT"))
SEARCH_SECONDS = 0.5
"""Time that a search for a trajectory takes here, whatever the page says: it is the same search, only shorter."""
LISTED = ("demo", "test", "python")
"""Commands that the script ./dynid knows beside those of the command line."""
PREPARED = {  # what a page takes for granted, as {name there: file of the shelf}; the others find EVERYTHING
    "README.md": {name: name for name in ("robot.urdf", "recording", "motion.csv")},
    "docs/tutorial_from_urdf.md": {},
    "docs/tutorial_from_bag.md": {},
    "docs/robot_files.md": {"robot.urdf": "two_arms.urdf"},
    "docs/excitation.md": {name: name for name in ("robot.urdf", "robot.yaml", "shapes.yaml")},
    "docs/floating_base.md": {"go2.urdf": "go2.urdf"},
    "docs/recordings.md": {
        "arm.urdf": "robot.urdf",
        "log.csv": "log.csv",
        "log.npz": "log.npz",
        "log.txt": "log.txt",
        "two_arms.urdf": "two_arms.urdf",
        "run.mcap": "recording/recording_0.mcap",
    },
    "docs/identification.md": {
        "ur5.urdf": "robot.urdf",
        "run.mcap": "recording/recording_0.mcap",
        "tx40.yaml": "tx40.yaml",
        "run.npz": "tx40.npz",
    },
}
EVERYTHING = {name: name for name in ("robot.urdf", "recording", "validation", "motion.csv", "result")}
TWO_ARMS = """<robot name="two_arms"><link name="base"/><link name="left_shoulder"/><link name="left_hand"/>
<joint name="waist" type="revolute"><parent link="base"/><child link="left_shoulder"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="100" velocity="2"/></joint>
<joint name="left_elbow" type="revolute"><parent link="left_shoulder"/><child link="left_hand"/><axis xyz="0 1 0"/>
<origin xyz="0 0.2 0.4"/><limit lower="-2" upper="2" effort="50" velocity="2"/></joint></robot>
"""
PAGES = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages()]
WITH_CODE = [
    param
    for param, page in zip(PAGES, pages(), strict=True)
    if page.parent.name != "reproduction"  # test_reproduction.py runs these
    and any(b.language in ("bash", "python") or b.text.startswith(COMMANDS) for b in blocks(page.read_text()))
]
PRIVATE = re.compile(r"/work/|/tmp/|/root\b|/home/\w|pypi\.org|pythonhosted|localhost:\d")


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page):
    broken = []
    for target in links(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there.read_text())):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES)
def test_nothing_private_is_in_it(page):
    assert not PRIVATE.findall(page.read_text())


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_the_prose_exist(page):
    for code in inline_code(page.read_text()):
        words = code.removeprefix("./").split()
        if len(words) > 1 and words[0] == "dynid":
            check_command(words[1:], code)


def check_command(words: list[str], code: str) -> None:
    """Fail unless the command and all its options exist."""
    name = words[0]
    if name.isupper() or name.startswith("-") or name in LISTED or name == "...":
        return
    assert name in command_names(), code
    known = build_parser()._subparsers._group_actions[0].choices[name]._option_string_actions
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0].strip("[],;|") not in known]
    assert not unknown, f"{code}: {unknown}"


@pytest.fixture(scope="session")
def shelf(tmp_path_factory, worker_id):
    """Return the folder of what readers have; processes that run tests side by side share it."""
    if worker_id == "master":
        return fill(tmp_path_factory.mktemp("shelf"))
    shared = tmp_path_factory.getbasetemp().parent
    with (shared / "shelf.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = shared / "shelf"
        if not (folder / "full").exists():
            folder.mkdir(exist_ok=True)
            fill(folder)
            (folder / "full").touch()
    return folder


def fill(folder: Path) -> Path:
    """Make a URDF, two recordings of the arm, a motion, an identified model."""
    from ros2_dynid.excitation.plan import PlanOptions, plan
    from ros2_dynid.excitation.trajectory import save_trajectory
    from ros2_dynid.model.load import load_robot

    shutil.copy(ROOT / "config/robots/demo6.urdf", folder / "robot.urdf")
    robot = load_robot("demo6")
    for seed, name in ((1, "recording"), (2, "validation")):
        found = plan(robot, PlanOptions(method="fourier", seed=seed, time_budget_s=SEARCH_SECONDS, duration_s=12.0))
        save_trajectory(folder / f"{name}.yaml", found.trajectory)
        script = ROOT / "docs/examples/record_simulation.py"
        run([sys.executable, script, "demo6", f"{name}.yaml", name], folder)
    motion = found.trajectory.sample(20.0)
    parts = {"position": motion.q, "velocity": motion.dq, "acceleration": motion.ddq}
    head = ["time", *(f"{joint}.{part}" for part in parts for joint in robot.active_names)]
    table = np.column_stack((motion.t, *parts.values()))
    np.savetxt(folder / "motion.csv", table, delimiter=",", header=",".join(head), comments="")
    arguments = "identify robot.urdf recording --validate validation --standard -o result"
    run([sys.executable, "-m", "ros2_dynid.cli", *arguments.split()], folder)
    (folder / "two_arms.urdf").write_text(TWO_ARMS)
    shutil.copy(next(path for path in example_urdfs() if path.name == "go2.urdf"), folder / "go2.urdf")
    log_files(folder)
    lifted = "base: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1.2], [0, 0, 0, 1]]\n"
    (folder / "robot.yaml").write_text((ROOT / "config/robots/demo3.yaml").read_text() + lifted)
    shown = [block.text for block in blocks((ROOT / "docs/excitation.md").read_text()) if block.language == "yaml"]
    (folder / "shapes.yaml").write_text(next((text for text in shown if text.startswith("shapes:")), ""))
    shutil.copy(ROOT / "config/robots/tx40.yaml", folder)
    reproduction = (
        "import sys; sys.path.insert(0, sys.argv[1]); from gautier_venture_2013 import load_robot, simulated; "
        "from ros2_dynid.recording.save import save_samples; save_samples(simulated(load_robot('tx40')), 'tx40.npz')"
    )
    run([sys.executable, "-c", reproduction, ROOT / "docs/reproduction"], folder)
    return folder


def log_files(folder: Path) -> None:
    """Write the recording as other tools would: columns q_0 [deg], tau_0 [N.m] over stamp [ms], as npz, and two joints
    without a header with the numbers of the samples between positions and efforts."""
    from ros2_dynid.recording.read import load_samples

    samples = load_samples(folder / "recording")
    names = range(len(samples.joint_names))
    head = ",".join(["stamp", *(f"q_{k}" for k in names), *(f"tau_{k}" for k in names)])
    table = np.column_stack((1000.0 * samples.t, np.degrees(samples.q), samples.tau))
    np.savetxt(folder / "log.csv", table, delimiter=",", header=head, comments="")
    arrays = {"t": samples.t, "q": samples.q, "tau": samples.tau}
    np.savez(folder / "log.npz", joint_names=np.array(samples.joint_names), **arrays)
    numbers = np.arange(len(samples.t))
    np.savetxt(
        folder / "log.txt", np.column_stack((samples.t, samples.q[:, :2], numbers, samples.tau[:, :2])), delimiter=","
    )


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    """Return a program that runs the words it gets as a dynid command, without the time that imports take."""
    folder = tmp_path_factory.mktemp("commands")
    line = [sys.executable, str(ROOT / "test/support/zygote.py"), str(folder / "socket")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as there:
        assert there.stdin is not None and there.stdout is not None
        assert there.stdout.readline() == "ready\n"
        client = folder / "client.py"
        client.write_text(CLIENT.format(address=str(folder / "socket")))
        yield client
        there.stdin.close()


@pytest.fixture
def place(tmp_path, request, commands):
    """Make the folder that a page's commands run in: the checkout's docs and config, ./dynid, and prepared files."""
    page = str(request.node.callspec.params["page"].relative_to(ROOT))
    for name in ("docs", "config"):
        (tmp_path / name).symlink_to(ROOT / name)
    script = tmp_path / "dynid"
    python, client = shlex.quote(sys.executable), shlex.quote(str(commands))
    script.write_text(
        f'#!/bin/sh\nif [ "$1" = python ]; then shift; exec {python} "$@"; fi\nexec {python} -ES {client} "$@"\n'
    )
    script.chmod(0o755)
    wanted = PREPARED.get(page, EVERYTHING)
    shelf = request.getfixturevalue("shelf") if wanted else tmp_path
    for name, source in wanted.items():
        copy = shutil.copytree if (shelf / source).is_dir() else shutil.copy
        copy(shelf / source, tmp_path / name)
    return tmp_path


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", WITH_CODE)
def test_what_is_shown_runs(page, place):
    printed: list[str] = []
    for block in blocks(page.read_text()):
        where = f"{page.name}, line {block.line}"
        if block.quoted:
            compare_output(block.text, printed, page, where)
        elif block.language == "bash":
            printed += run(["bash", "-c", script_of(block.text)], place, where).splitlines()
        elif block.language == "python":
            text = re.sub(r"time_budget_s=[\d.]+", f"time_budget_s={SEARCH_SECONDS}", block.text)
            run([sys.executable, "-c", text], place, where)
        elif block.language != "text":
            for line in logical_lines(block.text):
                if line.startswith(COMMANDS) and not is_left_out(line):
                    forget_output(filled_in(line), place)
                    run(["bash", "-c", script_of(filled_in(line))], place, f"{where}: {line}")


def compare_output(text: str, printed: list[str], page: Path, where: str) -> None:
    """Fail unless every line that a page quotes was printed, but for the numbers; write the numbers if asked to."""
    lines = {masked(line): " ".join(line.split()) if line[:1].strip() else line for line in printed}
    missing = [line for line in text.splitlines() if masked(line) not in lines]
    assert not missing, f"{where}: not printed: {missing}; but: {[line for line in printed if line.strip()][-30:]}"
    if WRITE_OUTPUT:
        new = "\n".join(lines[masked(line)].rstrip() for line in text.splitlines())
        page.write_text(page.read_text().replace(text, new))


def masked(line: str) -> str:
    """Return a line of output without its numbers and without the blanks that align it."""
    return " ".join(re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "#", line).split())


@pytest.mark.parametrize("page", PAGES)
def test_text_blocks_hold_only_what_cannot_run_here(page):
    """A command in a block marked text is either of ROS or the system, or named in NOT_RUN."""
    for block in blocks(page.read_text()):
        if block.language != "text" or block.quoted:
            continue
        for line in logical_lines(block.text):
            if re.match(r"(\./)?dynid \w+( |$)", line):  # not `dynid check: message`, which is output
                assert is_left_out(line), f"line {block.line}: {line}: mark the block as bash, or name it in NOT_RUN"
            if line.startswith("ros2 "):
                check_ros_command(line)


def check_ros_command(line: str) -> None:
    """Fail if a ros2 command names a launch file, a node or an interface of ours that is not there."""
    for name in re.findall(r"\bros2_dynid/(msg|srv|action)/(\w+)", line):
        assert (ROOT / name[0] / f"{name[1]}.{name[0]}").is_file(), line
    for name in re.findall(r"ros2 launch ros2_dynid (\S+)", line):
        assert (ROOT / "launch" / name).is_file(), line
        for argument in re.findall(r"(\w+):=", line):
            assert f'"{argument}":' in (ROOT / "launch" / name).read_text(), line
    for name in re.findall(r"ros2 run ros2_dynid (\w+)", line):
        assert name == "dynid" or (ROOT / "ros2_dynid/nodes" / name / "__main__.py").is_file(), line


def forget_output(line: str, place: Path) -> None:
    """Remove the folder that a command is to write: single commands of a page may name the same one."""
    words = shlex.split(line, comments=True)
    if words[1:2] == ["export"]:  # the files of several exports belong together
        return
    flags = ("-o", "--csv", "--rehearsal", "--save", "--screenshot", "--save-preview")
    outputs = [words[k + 1] for k, word in enumerate(words[:-1]) if word in flags]
    if words[1:2] in (["convert"], ["torque"]):
        outputs.append(words[3] if words[1] == "convert" else words[4])
    for output in (place / name for name in outputs):
        if output.is_dir():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)


def is_left_out(line: str) -> bool:
    words = line.removeprefix("./").split()
    return any(words[: len(left.removeprefix("./").split())] == left.removeprefix("./").split() for left in NOT_RUN)


def filled_in(line: str) -> str:
    """Return the command with placeholders replaced by files of the shelf."""
    for placeholder, value in FILLED_IN.items():
        line = re.sub(rf"(?<![\w|]){re.escape(placeholder)}(?![\w|])", value, line)
    return line


def script_of(text: str) -> str:
    """Return the shell script of a block: commands left out are skipped, `# refused` must end with 2."""
    script = ["set -eu"]
    for line in logical_lines(text):
        if is_left_out(line):
            continue
        if line.startswith("ros2 "):  # needs a ROS installation
            check_ros_command(line)
            continue
        if "dynid excite " in line and not WRITE_OUTPUT:
            line = re.sub(r" --time-budget \S+", "", line)
            line = line.replace("dynid excite ", f"dynid excite --time-budget {SEARCH_SECONDS} ")
        if line.endswith("# refused"):
            command = line.removesuffix("# refused").rstrip()
            script += ["code=0", f"{command} || code=$?", "test $code -eq 2"]
        else:
            script.append(line)
    return "\n".join(script)


def run(command: list[object], folder: Path, where: str = "") -> str:
    """Run a command in the folder, dynid being on the path; fail unless it ends well, and return what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH", ""))))
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{where}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr
