# SPDX-License-Identifier: Apache-2.0

"""Jobs: what is refused before a process is started, and that whoever waits for one is answered, whatever it does."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from ended import has_ended
from light_jobs import ODD, Answer, Wish, light_job_process
from ros2_dynid import jobs
from ros2_dynid.errors import InputError
from ros2_dynid.jobs import DOERS, IDENTIFY, PAYLOAD, PLAN, Job, JobError
from ros2_dynid.usecases.identify import IdentifyRequest
from ros2_dynid.usecases.payload import PayloadRequest
from ros2_dynid.usecases.plan import PlanRequest
from ros2_dynid.usecases.robot_source import RobotSource

ROBOT = RobotSource("demo3")


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Return how to write the process that jobs start."""
    return light_job_process(tmp_path, monkeypatch)


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_job_is_told_its_request_and_tells_its_progress_and_outcome(process, monkeypatch, capfd):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    process("""
wanted = json.load(sys.stdin)
print("a library says hello", flush=True)
tell({"stage": "starting", "progress": 0})
for line in ("no JSON", "[1, 2]", '"text"', '{"stage": 3, "progress": 0.5}', '{"stage": "x", "progress": "half"}'):
    tell(line)
tell({"stage": "half", "progress": 0.5})
facts = [wanted, os.environ["OMP_NUM_THREADS"], os.getsid(0) == os.getpid(), parent == os.getppid()]
tell({"result": {"text": json.dumps(facts)}})
tell({"error": "nobody listens any more"})
""")
    seen = []
    job = Job(ODD, Wish(7))
    found = job.wait(lambda stage, done: seen.append((stage, done)))
    assert json.loads(found.text) == [{"use_case": "odd", "request": {"number": 7}}, "1", True, True]
    assert seen == [("starting", 0.0), ("half", 0.5)] and all(type(done) is float for _, done in seen)
    assert not job.cancelled and has_ended(job.process.pid)
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("a library says hello\n"), "its log is where ours is"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert json.loads(Job(ODD, Wish(7)).wait().text)[1] == "3", "as the user has it"


def test_a_refusal_starts_nothing_and_an_error_is_told(process):
    process("""tell({"error": "the file is torn; record again"}); sys.exit(1)""")
    with pytest.raises(InputError, match="number is -1"):
        Job(ODD, Wish(-1))
    with pytest.raises(JobError, match=r"^the file is torn; record again$"):
        Job(ODD, Wish(1)).wait()


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("sys.exit(3)", "ended with code 3 and no answer"),
        ("sys.exit(0)", "ended with code 0 and no answer"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL; if memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
    ],
)
def test_a_job_that_ends_without_an_answer_is_told_as_it_was(process, end, words):
    process(f"""tell({{"stage": "starting", "progress": 0.0}}); {end}""")
    with pytest.raises(JobError, match=words):
        Job(ODD, Wish(1)).wait()


def test_a_cancelled_job_is_gone_with_all_that_it_has_started(process):
    process("""
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
tell({"stage": str(child.pid), "progress": 0.0})
time.sleep(60)
""")
    job, child = Job(ODD, Wish(1)), []

    def cancel(stage: str, done: float) -> None:
        child.append(int(stage))
        job.cancel()

    with pytest.raises(JobError, match="cancelled; nothing was written"):
        job.wait(cancel)
    assert job.cancelled and job.process.returncode == -9 and has_ended(child[0])
    job.cancel()  # once more does no harm


def test_an_answer_counts_although_the_job_was_cancelled_too_late_or_does_not_end(process, monkeypatch):
    monkeypatch.setattr(jobs, "PATIENCE", 0.05)
    process("""tell({"result": {"text": "done"}}); time.sleep(60)""")
    job = Job(ODD, Wish(1))
    assert job.wait() == Answer("done")
    assert job.process.returncode == -9, "nothing is left of it"
    process("""tell({"result": {"text": "done"}})""")
    late = Job(ODD, Wish(1))
    late.cancelled = True
    assert late.wait() == Answer("done")


def test_an_answer_of_any_length_arrives_and_the_process_may_end_by_itself(process, monkeypatch):
    monkeypatch.setattr(jobs, "PATIENCE", 60.0)
    process("""
tell({"stage": "y" * 100000, "progress": 0.5})
tell({"result": {"text": "x" * 300000}})
time.sleep(0.1)
""")
    seen, before = [], handles()
    job = Job(ODD, Wish(1))
    assert job.wait(lambda stage, done: seen.append(len(stage))) == Answer("x" * 300000)
    assert seen == [100000] and job.process.returncode == 0, "it was not killed"
    assert handles() <= before, "no handle is left open"


@pytest.mark.timeout(60)
def test_a_child_that_holds_the_pipe_keeps_nobody_waiting(process, monkeypatch):
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.02)
    process("""
os.set_inheritable(pipe, True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
os._exit(4)
""")
    job = Job(ODD, Wish(1))
    try:
        with pytest.raises(JobError, match="ended with code 4"):
            job.wait()
    finally:
        os.killpg(job.process.pid, signal.SIGKILL)  # the child is still there, and was not waited for


def test_an_answer_is_not_lost_if_the_process_ends_just_after_it_was_silent(process, monkeypatch):
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.001)
    process("""time.sleep(0.02); tell({"result": {"text": "done"}})""")
    job = Job(ODD, Wish(1))
    look = job.process.poll

    def look_late() -> int | None:
        """Look at the process as a busy computer may: by then it has answered and ended."""
        job.process.wait()
        return look()

    monkeypatch.setattr(job.process, "poll", look_late)
    assert job.wait() == Answer("done")


def test_a_process_that_cannot_be_started_is_one_line(monkeypatch):
    monkeypatch.setattr(jobs.sys, "executable", "/nowhere/python")
    before = handles()
    with pytest.raises(JobError, match="could not be started: No such file or directory; try again"):
        Job(ODD, Wish(1))
    assert handles() <= before, "no handle is left open"


def test_requests_that_cannot_be_are_refused_by_the_name_of_their_field():
    for use_case, request, words in (
        (IDENTIFY, IdentifyRequest(ROBOT, ()), "recordings is empty"),
        (PAYLOAD, PayloadRequest(ROBOT, (), ("a",)), "empty is empty"),
        (PAYLOAD, PayloadRequest(ROBOT, ("a",), ()), "loaded is empty"),
        (PLAN, PlanRequest(ROBOT, "x", seed=-1), "seed is -1"),
        (PLAN, PlanRequest(ROBOT, "x", duration=0.99), "duration is 0.99 s; give 1 to 600 s"),
        (PLAN, PlanRequest(ROBOT, "x", duration=600.5), "duration is 600.5 s"),
        (PLAN, PlanRequest(ROBOT, "x", duration=float("nan")), "duration is nan s"),
    ):
        with pytest.raises(InputError, match=words):
            use_case.check(request)
    IDENTIFY.check(IdentifyRequest(ROBOT, ("a",)))
    PAYLOAD.check(PayloadRequest(ROBOT, ("a",), ("b",)))
    for duration in (1.0, 600.0):
        PLAN.check(PlanRequest(ROBOT, "x", duration=duration, seed=0))


def test_what_a_process_does_is_checked_there_too_and_comes_back_as_plain_data():
    assert list(DOERS) == ["identify", "payload", "plan"]
    with pytest.raises(InputError, match="seed is -1"):
        DOERS["plan"]({"robot": {"path": "demo3"}, "output": "x", "seed": -1}, lambda stage, done: None)
    with pytest.raises(InputError, match="empty is empty"):
        DOERS["payload"]({"robot": {"path": "demo3"}, "empty": [], "loaded": ["a"]}, lambda stage, done: None)
    with pytest.raises(InputError, match="'recordings' is missing"):
        DOERS["identify"]({"robot": {"path": "demo3"}}, lambda stage, done: None)
    told = []

    def work(wish: Wish, progress=None) -> Answer:
        progress("half", 0.5)
        return Answer(str(wish.number))

    do = jobs.doer_of(replace(ODD, work=work))
    with pytest.raises(InputError, match="number is -1"):
        do({"number": -1}, lambda *one: told.append(one))
    assert do({"number": 3}, lambda *one: told.append(one)) == {"text": "3"} and told == [("half", 0.5)]
