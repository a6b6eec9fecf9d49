# SPDX-License-Identifier: Apache-2.0

"""No command destroys a file: one rule for every output, tried on every command that writes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from motions import recorded_motion
from ros2_dynid.atomic import write_text
from ros2_dynid.cli import main
from ros2_dynid.errors import InputError
from ros2_dynid.model.load import load_robot
from ros2_dynid.output_files import check_folder, check_outputs, locked_folder

EXCITE = ["excite", "demo3", "--method", "ramps"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with a robot, a recording, a motion, a trajectory and two results."""
    folder = tmp_path_factory.mktemp("site")
    recorded_motion(folder, load_robot("demo3"))
    names = load_robot("demo3").active_names
    kinds = ("position", "velocity", "acceleration")
    header = ",".join(["time", *(f"{name}.{kind}" for name in names for kind in kinds)])
    (folder / "motion.csv").write_text(header + "\n" + ",".join(["0"] * (1 + 9)) + "\n")
    assert main([*EXCITE, "-o", str(folder / "plan.yaml")]) == 0
    for name in ("one", "two"):
        assert (
            main(["identify", "demo3", str(folder / "motion.npz"), "-o", str(folder / name), "--cross-validate", "0"])
            == 0
        )
    return folder


@dataclass(frozen=True)
class Writer:
    """A command line that writes `file`, of arguments in the folder of `site`."""

    line: str
    file: str = "out.bin"

    def run(self, site, folder, *more) -> int:
        """Run it with outputs in `folder`."""
        return main([*(word.format(site=site, out=folder) for word in self.line.split()), *more])


WRITERS = {
    "torque": Writer("torque demo3 {site}/motion.csv {out}/out.bin"),
    "convert csv": Writer("convert {site}/motion.npz {out}/out.csv", "out.csv"),
    "convert bag": Writer("convert {site}/motion.npz {out}/out.mcap", "out.mcap"),
    "excite": Writer("excite demo3 --method ramps -o {out}/out.bin"),
    "excite csv": Writer("excite demo3 --method ramps -o {out}/plan.yaml --csv {out}/out.csv", "out.csv"),
    "rehearsal": Writer("excite demo3 --method ramps -o {out}/plan.yaml --rehearsal {out}/out.bin"),
    "figures": Writer("excite demo3 --method ramps -o {out}/plan.yaml --figures {out}/fig.png", "fig_motion.png"),
    "excite preview": Writer("excite demo3 --method ramps -o {out}/plan.yaml --save-preview {out}/out.bin"),
    "preview": Writer("preview {site}/plan.yaml demo3 --save {out}/out.bin"),
    "screenshot": Writer("preview {site}/plan.yaml demo3 --screenshot {out}/out.bin"),
    "export": Writer("export demo3 --to numpy --name out -o {out}", "out.py"),
    "runtime": Writer("export demo3 --to runtime --name out -o {out}", "out.dynid"),
    "mjcf": Writer("export demo3 --to mjcf --name out -o {out}", "out.xml"),
    "comparison": Writer("report {site}/one {site}/two -o {out}/out.bin"),
    "identify": Writer("identify demo3 {site}/motion.npz --cross-validate 0 -o {out}", "summary.json"),
}
QUICK = [name for name in WRITERS if name not in ("figures", "screenshot")]
"""Those that write the file: ramps have no figures, and a picture needs Chromium."""


@pytest.mark.parametrize("name", WRITERS)
def test_what_exists_stays_unless_overwrite_and_what_is_no_file_stays_anyway(site, tmp_path, capsys, name):
    writer = WRITERS[name]
    target = tmp_path / writer.file
    target.write_text("precious")
    assert writer.run(site, tmp_path) == 2 and "this exists already; " in capsys.readouterr().err
    assert target.read_text() == "precious"
    if name in QUICK:
        assert writer.run(site, tmp_path, "--overwrite") == 0
        assert target.read_text(errors="replace") != "precious"
    target.unlink()
    other = tmp_path / "other"
    other.write_text("precious")
    target.symlink_to(other)
    assert writer.run(site, tmp_path, "--overwrite") == 2 and "a symbolic link" in capsys.readouterr().err
    assert target.is_symlink() and other.read_text() == "precious"
    target.unlink()
    os.mkfifo(target)
    assert writer.run(site, tmp_path, "--overwrite") == 2 and "a FIFO" in capsys.readouterr().err
    assert stat.S_ISFIFO(target.stat().st_mode)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "no temporary file is left"


def test_a_device_is_no_output(site, capsys):
    for path in ("/dev/full", "/dev/null"):
        assert main(["torque", "demo3", str(site / "motion.csv"), path, "--overwrite"]) == 2
        assert "a device" in capsys.readouterr().err
        assert stat.S_ISCHR(Path(path).stat().st_mode)


def test_no_output_is_an_input_whatever_it_is_called_there(site, tmp_path, monkeypatch, capsys):
    motion, robot = (site / "motion.csv").read_text(), tmp_path / "model.yaml"
    (tmp_path / "motion.csv").write_text(motion)
    os.link(tmp_path / "motion.csv", tmp_path / "hard.csv")
    monkeypatch.chdir(tmp_path)
    model = (site / "one/model.yaml").read_text()
    robot.write_text(model)
    (site / "run").mkdir(exist_ok=True)
    assert main(["convert", str(site / "motion.npz"), "bag"]) == 0
    digests = {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()}
    for line in (
        "torque demo3 motion.csv motion.csv",
        "torque demo3 motion.csv hard.csv",
        f"torque demo3 motion.csv ../{tmp_path.name}/motion.csv",
        f"torque {robot} motion.csv model.yaml",
        "convert motion.csv hard.csv",
        "convert bag bag",
        "convert bag bag/bag_0.mcap",
        f"identify model.yaml {site}/motion.npz -o .",
        f"identify demo3 {site}/motion.npz --prior model.yaml -o .",
        "preview motion.csv demo3 --save motion.csv",
        f"report {site}/one {site}/two -o {site}/one/model.yaml",
    ):
        assert main([*line.split(), "--overwrite"]) == 2, line
        assert "this is an input of the command" in capsys.readouterr().err, line
    assert (tmp_path / "motion.csv").read_text() == motion and robot.read_text() == model
    assert {path.name: path.read_bytes() for path in (tmp_path / "bag").iterdir()} == digests
    assert (site / "one/model.yaml").read_text() == model


def test_two_outputs_of_one_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="two outputs"):
        check_outputs(["a", None, tmp_path / "a"], overwrite=True)
    with pytest.raises(InputError, match="no folder"):
        check_outputs(["none/a"], overwrite=True)
    check_outputs(["a", "b"], inputs=[None, "c", tmp_path / "a"], overwrite=False)


def test_a_result_folder_has_one_writer(tmp_path):
    folder, entered, leave = tmp_path / "deep" / "result", threading.Event(), threading.Event()

    def hold() -> None:
        with locked_folder(folder):
            entered.set()
            leave.wait(30.0)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(30.0)
        with pytest.raises(InputError, match="another run is writing"), locked_folder(folder):
            raise AssertionError("two writers")
        assert folder.is_dir(), "who is refused removes nothing"
    finally:
        leave.set()
        thread.join(30.0)
    assert not list(tmp_path.iterdir()), "a folder that nothing came into is gone, with those around it"
    with locked_folder(folder):
        (folder / "model.yaml").touch()
    assert (folder / "model.yaml").exists()
    for wrong in (folder / "model.yaml", tmp_path / "dangling"):
        if not wrong.exists():
            wrong.symlink_to(tmp_path / "nowhere")
        with pytest.raises(InputError, match="the output is a file; name a folder"), locked_folder(wrong):
            pass
        with pytest.raises(InputError, match="the output is a file; name a folder"):
            check_folder(wrong, ["a"], overwrite=True)


def test_two_identifications_at_once_do_not_both_say_written(site, tmp_path):
    line = [
        sys.executable,
        "-m",
        "ros2_dynid.cli",
        "identify",
        "demo3",
        str(site / "motion.npz"),
        "-o",
        str(tmp_path / "r"),
    ]
    processes = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outcomes = sorted((process.communicate(timeout=120), process.returncode) for process in processes)
    assert sorted(code for _, code in outcomes) == [0, 2]
    (refused,) = (err for (_, err), code in outcomes if code == 2)
    assert "another run is writing into this folder" in refused or "this exists already" in refused


def test_a_full_disk_names_the_file_that_was_to_be_written(site, tmp_path):
    """A limit on file sizes stands for the disk."""
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000));"
        "from ros2_dynid.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    for line, name in (
        (["convert", str(site / "motion.npz"), str(tmp_path / "out.csv")], "out.csv"),
        (["convert", str(site / "motion.npz"), str(tmp_path / "out.mcap")], "out.mcap"),
        (["identify", "demo3", str(site / "motion.npz"), "-o", str(tmp_path / "r")], "r"),
        ([*EXCITE, "-o", str(tmp_path / "plan.yaml")], "plan.yaml"),
    ):
        run = subprocess.run(
            [sys.executable, "-c", code, *line], capture_output=True, text=True, timeout=120, check=False
        )
        assert run.returncode == 2 and run.stderr.count("\n") == 1, run.stderr
        assert f"{tmp_path / name}" in run.stderr and "/." not in run.stderr.replace("/../", ""), run.stderr
    assert not list(tmp_path.iterdir()), "neither a part nor a temporary file is left"


def test_a_link_that_comes_while_the_file_is_written_stays(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match="a symbolic link"):
        write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--duration 1e9", "--duration is 1e+09 s; give at most 3600 s"),
        ("--rate 1e7", "--rate is 1e+07 Hz; give at most 10000 Hz"),
        ("--rate 1000 --duration 3000", "3e+06 points; at most 500000 can be written: shorten it, or lower the --rate"),
        ("--periods 100000", "--periods is 100000; give at most 1000"),
        ("--harmonics 1000000", "--harmonics is 1e+06; give at most 100"),
        ("--method static --poses 100000000", "--poses is 1e+08"),
        ("--method static --hold-time 1e9", "--hold-time is 1e+09 s"),
        ("--method points --rows 1000000000", "--rows is 1e+09"),
        ("--duration nan", "--duration is nan s"),
    ],
)
def test_a_plan_without_bounds_is_refused_at_once(tmp_path, capsys, option, said):
    assert main(["excite", "demo3", *option.split(), "-o", str(tmp_path / "plan.yaml")]) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_slow_rehearsal_is_no_larger_than_its_trajectory(tmp_path):
    assert (
        main(
            [
                *EXCITE,
                "-o",
                str(tmp_path / "a.yaml"),
                "--rehearsal",
                str(tmp_path / "b.yaml"),
                "--rehearsal-speed",
                "0.01",
            ]
        )
        == 0
    )
    sizes = [Path(tmp_path / name).stat().st_size for name in ("a.yaml", "b.yaml")]
    assert sizes[1] < 1.5 * sizes[0]


def test_a_folder_is_locked_by_one_and_a_file_is_no_folder(tmp_path):
    with (
        locked_folder(tmp_path / "a/b"),
        pytest.raises(InputError, match="another run"),
        locked_folder(tmp_path / "a/b"),
    ):
        pass
    with locked_folder(tmp_path / "a/b"):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the output is a file"), locked_folder(tmp_path / "file"):
        pass
