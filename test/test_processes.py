# SPDX-License-Identifier: Apache-2.0

"""Processes that end together, and the process of a job: signals, ends, codes and what is said of them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ended import has_ended
from ros2_dynid import job_process, processes
from ros2_dynid.errors import InputError
from ros2_dynid.processes import ProcessError, Processes, ignored_interrupts, own_domain, short_interrupts

LIGHT = [sys.executable, "-S", "-E", "-c"]
TOP = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); "


# --- several that end together


@pytest.fixture
def modules(tmp_path):
    """Return the environment in which `python -m` finds the modules that are written into the folder."""
    for name, body in {
        "echo": "import os, sys\nfor line in sys.stdin: print(os.environ['COLOUR'], line.strip(), flush=True)",
        "fails": "import sys\nprint('begun')\nprint('it is torn', file=sys.stderr)\nsys.exit(3)",
        "silent": "import sys\nsys.exit(4)",
        "done": "print('well')",
        "deaf": "import signal, subprocess, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\ntime.sleep(600)",
        "polite": "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        "print('ready', flush=True)\ntime.sleep(600)",
    }.items():
        (tmp_path / f"{name}.py").write_text(body)
    return {"PYTHONPATH": str(tmp_path), "COLOUR": "red"}


def test_a_process_is_talked_to_and_its_words_are_kept(tmp_path, modules):
    with Processes(tmp_path, modules) as all_:
        one = all_.start("one", ["echo"], talk=True)
        one.stdin.write("hello\n")
        one.stdin.flush()
        assert one.stdout.readline() == "red hello\n"
        assert os.getsid(one.pid) == one.pid, "Ctrl-C in the terminal is ours alone"
        other = all_.start("other", ["done"])
        assert other.wait(20.0) == 0 and (tmp_path / "other.log").read_text() == "well\n"
        all_.check()  # one that is done has not failed
    assert one.poll() is not None and one.stdin.closed and one.stdout.closed


@pytest.mark.parametrize(("module", "why"), [("fails", "it is torn"), ("silent", "code 4")])
def test_one_that_fails_is_told_with_its_last_words(tmp_path, modules, module, why):
    with Processes(tmp_path, modules) as all_:
        all_.start("echo", ["echo"], talk=True)
        all_.start("node", [module]).wait(20.0)
        with pytest.raises(ProcessError, match=f"node ended: {why}; its output is in ") as caught:
            all_.check()
        assert str(tmp_path / "node.log") in str(caught.value)


def test_all_are_asked_to_end_and_those_that_do_not_are_killed_with_their_children(tmp_path, modules, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 60.0)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(RuntimeError), Processes(tmp_path, modules) as all_:
        deaf, polite = (all_.start(name, [name], talk=True) for name in ("deaf", "polite"))
        child = int(deaf.stdout.readline())
        assert polite.stdout.readline() == "ready\n"
        gone = all_.start("gone", ["done"])
        gone.wait(20.0)
        monkeypatch.setattr(deaf, "wait", partial(_impatient, deaf.wait))
        raise RuntimeError
    assert polite.returncode == 7 and deaf.returncode == -signal.SIGKILL and gone.returncode == 0
    assert has_ended(child) and signal.getsignal(signal.SIGINT) is before


def test_they_are_gone_with_us_whatever_ends_us(tmp_path, modules):
    code = TOP + "from ros2_dynid.processes import Processes; from pathlib import Path; import time; "
    code += f"all_ = Processes(Path({str(tmp_path)!r}), {modules!r}); one = all_.start('one', ['polite'], talk=True); "
    code += "one.stdout.readline(); print(one.pid, flush=True); time.sleep(600)"
    with subprocess.Popen([*LIGHT, code], stdout=subprocess.PIPE) as us:
        pid = int(us.stdout.readline())
        us.kill()
    assert has_ended(pid)


def _impatient(wait, timeout=None):
    if timeout is not None:
        raise subprocess.TimeoutExpired("deaf", timeout)
    return wait()


def test_nothing_outlives_its_parent():
    child = TOP + "from ros2_dynid.processes import end_with_parent; import os, time; "
    child += "end_with_parent(os.getppid()); print(os.getpid(), flush=True); time.sleep(600)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-E', '-c', {child!r}]); "
    with subprocess.Popen([*LIGHT, parent + "time.sleep(600)"], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
    assert has_ended(pid)
    late = TOP + "from ros2_dynid.processes import end_with_parent; end_with_parent(1 << 22); print('goes on')"
    done = subprocess.run([*LIGHT, late], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, ""), "its parent had gone before it asked"


def test_an_end_that_nothing_holds_comes_with_its_code():
    code = TOP + "from ros2_dynid.processes import exit_after; import time; exit_after({}, 5); time.sleep({})"
    for seconds, sleeps, ends in ((0.05, 600, 5), (3600.5, 0, 0)):
        assert subprocess.run([*LIGHT, code.format(seconds, sleeps)], check=False, timeout=60).returncode == ends


# --- signals


def interrupted(block: str) -> tuple[int, str]:
    """Return the code and the words of a process that gets SIGINT inside a block."""
    code = f"{TOP}from ros2_dynid import processes; import os, signal; signal.signal(2, signal.default_int_handler)\n"
    code += f"with {block}:\n    os.kill(os.getpid(), 2)\n"
    code += "print(signal.getsignal(2) is signal.default_int_handler)"
    done = subprocess.run([*LIGHT, code], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr + done.stdout


@pytest.fixture
def interruptible():
    """Let SIGINT interrupt, however the tests were started: in the background a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupts_are_short_or_ignored_while_a_block_runs():
    assert interrupted("processes.short_interrupts('dynid')") == (130, "dynid: interrupted\n")
    assert interrupted("processes.ignored_interrupts()") == (0, "True\n")
    for block in (short_interrupts("x"), ignored_interrupts()):
        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(RuntimeError), block:
            assert signal.getsignal(signal.SIGINT) is not before
            raise RuntimeError
        assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_processes_are_ended_changes_nothing(tmp_path, monkeypatch):
    ended = []
    with Processes(tmp_path, {}) as all_:
        monkeypatch.setattr(all_, "_close", lambda: signal.raise_signal(signal.SIGINT) or ended.append(True))
    assert ended == [True]


def test_an_interrupt_that_is_short_says_so_and_ends_with_its_code(monkeypatch):
    calls = []
    monkeypatch.setattr(processes.os, "write", lambda handle, data: calls.append((handle, data)))
    monkeypatch.setattr(processes.os, "_exit", lambda code: calls.append(code))
    with short_interrupts("dynid"):
        signal.raise_signal(signal.SIGINT)
    assert calls == [(2, b"dynid: interrupted\n"), 130]


def test_signals_that_pile_up_block_nobody(monkeypatch):
    pipes, before = [], {number: signal.getsignal(number) for number in processes.ENDING}
    make = os.pipe
    monkeypatch.setattr(processes.os, "pipe", lambda: pipes.append(make()) or pipes[0])
    try:
        wait, end = processes.first_signal()
        ((reader, writer),) = pipes
        assert os.get_blocking(reader) and not os.get_blocking(writer)
        for number in processes.ENDING:
            signal.raise_signal(number)
            wait()  # each of them is heard, and ends nothing by itself
        end()
        wait()
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
        for handle in pipes[0]:
            os.close(handle)


@pytest.mark.parametrize("number", ["signal.SIGINT", "signal.SIGTERM", "signal.SIGHUP", ""])
def test_the_first_signal_ends_a_wait(number):
    code = TOP + "from ros2_dynid.processes import first_signal; import os, signal; wait, end = first_signal(); "
    code += (f"os.kill(os.getpid(), {number}); " if number else "end(); ") + "wait(); print('ends')"
    done = subprocess.run([*LIGHT, code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ends\n")


# --- domains


@pytest.mark.parametrize("pid", [6000, 6001, 6002])
def test_no_two_have_the_same_domain_and_all_in_use_is_told(monkeypatch, tmp_path, pid):
    monkeypatch.setattr(processes.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(processes.os, "getpid", lambda: pid)
    monkeypatch.setattr(processes, "DOMAINS", range(20, 23))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(own_domain()) for _ in range(3)]
        assert held[0]["ROS_DOMAIN_ID"] == str(20 + pid % 3), "those that cannot see each other's locks hardly meet"
        assert {one["ROS_DOMAIN_ID"] for one in held} == {"20", "21", "22"}
        assert {one["ROS_AUTOMATIC_DISCOVERY_RANGE"] for one in held} == {"LOCALHOST"}
        with pytest.raises(ProcessError, match="all ROS domains 20 to 22 are in use"), own_domain():
            pass
    with pytest.raises(RuntimeError), own_domain():
        raise RuntimeError
    with contextlib.ExitStack() as stack:
        assert len({stack.enter_context(own_domain())["ROS_DOMAIN_ID"] for _ in range(3)}) == 3, "they are free again"
    (tmp_path / "ros2_dynid-domain-21.lock").unlink()
    (tmp_path / "ros2_dynid-domain-21.lock").mkdir()  # of somebody else: it cannot be opened
    with own_domain() as one, own_domain() as other:
        assert {one["ROS_DOMAIN_ID"], other["ROS_DOMAIN_ID"]} == {"20", "22"}


# --- the process of a job


@pytest.fixture
def job(monkeypatch):
    """Return what runs the process of a job here, without its effects on us: its code, what it told, and its calls."""

    def run(request, do, told=None):
        calls = []
        for name in ("end_with_parent", "one_blas_thread"):
            monkeypatch.setattr(job_process, name, lambda *args, name=name: calls.append((name, *args)))
        monkeypatch.setattr(job_process.signal, "signal", lambda number, what: calls.append((number, what)))
        monkeypatch.setattr(job_process.faulthandler, "enable", lambda: calls.append(("faulthandler",)))
        for name in ("killpg", "kill", "_exit"):  # each of them would end the tests
            monkeypatch.setattr(job_process.os, name, lambda *args, name=name: calls.append((name, *args)))
        monkeypatch.setattr("ros2_dynid.jobs.DOERS", {"odd": do})
        monkeypatch.setattr(sys, "stdin", io.StringIO(request if isinstance(request, str) else json.dumps(request)))
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        monkeypatch.setattr(sys, "argv", ["job_process", str(writer), "4321"])
        if told is not None:
            os.close(reader)
        code = job_process.main()
        assert not os.get_inheritable(writer), "what it starts does not hold the pipe"
        os.close(writer)
        if told is not None:
            return code, [], calls
        with os.fdopen(reader) as stream:
            return code, [json.loads(line) for line in stream], calls

    return run


def test_a_job_tells_its_progress_and_its_result(job):
    def do(plain, progress):
        progress("half", 1 / 2)
        progress("whole", 1)
        return {"twice": 2 * plain["number"]}

    code, told, calls = job({"use_case": "odd", "request": {"number": 7}}, do)
    assert code == 0
    assert told == [
        {"stage": "starting", "progress": 0.0},
        {"stage": "half", "progress": 0.5},
        {"stage": "whole", "progress": 1.0},
        {"result": {"twice": 14}},
    ]
    names = [call[0] for call in calls]
    assert (signal.SIGINT, signal.SIG_IGN) in calls, "Ctrl-C is for whoever waits for it"
    assert ("end_with_parent", 4321) in calls and names.index("end_with_parent") < names.index("one_blas_thread")
    (end,) = [what for number, what in (call for call in calls if len(call) == 2) if number == signal.SIGTERM]
    end(signal.SIGTERM, None)
    assert calls[-1] == ("killpg", 0, signal.SIGKILL), "with all that it has started"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("it is\ntorn", "record again", "a.mcap"), "a.mcap: it is torn; record again"),
        (FileNotFoundError(2, "No such file", "a.csv"), "[Errno 2] No such file: 'a.csv'"),
        (MemoryError(), "there is not enough memory; take shorter recordings"),
        (ZeroDivisionError("division\nby zero"), "ZeroDivisionError: division by zero; the log has the details"),
    ],
)
def test_a_job_that_fails_says_why_in_one_line(job, capsys, error, words):
    def do(plain, progress):
        raise error

    code, told, _ = job({"use_case": "odd", "request": {}}, do)
    assert (code, told[1:]) == (0, [{"error": words}])
    assert ("Traceback" in capsys.readouterr().err) is isinstance(error, ZeroDivisionError)


def test_a_request_that_is_none_is_answered_too(job):
    for request, kind in (("{", "JSONDecodeError"), ({"use_case": "other", "request": {}}, "KeyError")):
        assert job(request, None)[1][1]["error"].startswith(f"{kind}: ")


def test_a_job_that_nobody_waits_for_ends(job):
    assert job({"use_case": "odd", "request": {}}, lambda plain, progress: {}, told=False)[0] == 1
