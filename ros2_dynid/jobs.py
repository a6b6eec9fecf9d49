# SPDX-License-Identifier: Apache-2.0

"""Use cases in a process of their own (job_process), so that a node keeps answering and a cancelled one really ends."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ros2_dynid.codec import Plain, decode, encode
from ros2_dynid.errors import DynidError, InputError
from ros2_dynid.progress import Progress
from ros2_dynid.usecases.identify import IdentifyOutcome, IdentifyRequest, identify
from ros2_dynid.usecases.payload import PayloadOutcome, PayloadRequest, payload
from ros2_dynid.usecases.plan import PlanOutcome, PlanRequest, plan

LOOK_SECONDS = 0.2
"""How often a silent job is looked at [s]: one that was killed may leave its pipe open in a child."""
PATIENCE = 2.0
"""Time [s] that a job has to end by itself once its answer is there."""
SECONDS = (1.0, 600.0)
"""Shortest and longest plan that a request may ask for [s]."""
Request = TypeVar("Request")
AnyOutcome = TypeVar("AnyOutcome")
RequestIn = TypeVar("RequestIn", contravariant=True)
OutcomeOut = TypeVar("OutcomeOut", covariant=True)


class Work(Protocol[RequestIn, OutcomeOut]):
    """A use case."""

    def __call__(self, request: RequestIn, progress: Progress | None = None, /) -> OutcomeOut:
        """Return the outcome of a request."""


@dataclass(frozen=True)
class UseCase(Generic[Request, AnyOutcome]):
    """What a job can do: its name, the types of request and outcome, the work, and what refuses a request."""

    name: str
    request: type[Request]
    outcome: type[AnyOutcome]
    work: Work[Request, AnyOutcome]
    check: Callable[[Request], None]


def _check_identify(request: IdentifyRequest) -> None:
    _check_given("recordings", request.recordings)


def _check_payload(request: PayloadRequest) -> None:
    _check_given("empty", request.empty)
    _check_given("loaded", request.loaded)


def _check_given(field: str, recordings: tuple[str, ...]) -> None:
    if not recordings:
        raise InputError(f"{field} is empty", "name at least one recording")


def _check_plan(request: PlanRequest) -> None:
    if request.seed < 0:
        raise InputError(f"seed is {request.seed}", "give a whole number from 0 on")
    if not SECONDS[0] <= request.duration <= SECONDS[1]:  # false for NaN, too
        raise InputError(f"duration is {request.duration:g} s", f"give {SECONDS[0]:g} to {SECONDS[1]:g} s")


IDENTIFY = UseCase("identify", IdentifyRequest, IdentifyOutcome, identify, _check_identify)
PAYLOAD = UseCase("payload", PayloadRequest, PayloadOutcome, payload, _check_payload)
PLAN = UseCase("plan", PlanRequest, PlanOutcome, plan, _check_plan)


class JobError(DynidError):
    """A job failed or was cancelled; the text says why."""


class Job(Generic[Request, AnyOutcome]):
    """A request being worked on; `wait` from one thread, `cancel` from any."""

    def __init__(self, use_case: UseCase[Request, AnyOutcome], request: Request) -> None:
        """Check the request, which names a field that cannot be, and start the process."""
        use_case.check(request)
        self._use_case, self.cancelled = use_case, False
        environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        self._reader, writer = os.pipe()
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, writer)
            request_file = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8"))
            # a file: a pipe could make us wait for a process that does not read
            json.dump({"use_case": use_case.name, "request": encode(request)}, request_file)
            request_file.seek(0)
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "ros2_dynid.job_process", str(writer), str(os.getpid())],
                    stdin=request_file,
                    stdout=2,  # whatever is printed goes where our own messages go
                    env=environment,
                    start_new_session=True,
                    pass_fds=(writer,),
                )
            except OSError as error:
                os.close(self._reader)
                raise JobError(f"the computation could not be started: {error.strerror}; try again") from None

    def cancel(self) -> None:
        """End the process and what it has started, such as a compiler; `wait` raises."""
        self.cancelled = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self, progress: Progress | None = None) -> AnyOutcome:
        """Pass progress on until the end and return the outcome, or raise JobError."""
        answer: Mapping[str, object] = {}
        try:
            for message in self._messages():
                if "result" in message or "error" in message:
                    answer = message
                    break
                if progress is not None:
                    _pass_on(message, progress)
        finally:
            code = self._end(at_once=not answer)
        if "result" in answer:
            return decode(self._use_case.outcome, answer["result"])
        if self.cancelled:
            raise JobError("cancelled; nothing was written")
        raise JobError(str(answer["error"]) if answer else _ending(code))

    def _messages(self) -> Iterator[Mapping[str, object]]:
        """Yield what the process says until it ends, however it ends."""
        waiting, ready = b"", select.poll()
        ready.register(self._reader, select.POLLIN)
        while True:
            ended = self.process.poll() is not None  # asked first: all that it said is in the pipe by then
            if not ready.poll(1e3 * LOOK_SECONDS):
                if ended:
                    return
                continue
            data = os.read(self._reader, 1 << 16)
            if not data:
                return
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):  # not one of ours
                    if isinstance(message := json.loads(line), dict):
                        yield message

    def _end(self, *, at_once: bool) -> int:
        """Return the process's code, with nothing left of it."""
        os.close(self._reader)
        try:
            return self.process.wait(0.1 if at_once else PATIENCE)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()


def _pass_on(message: Mapping[str, object], progress: Progress) -> None:
    stage, fraction = message.get("stage"), message.get("progress")
    if isinstance(stage, str) and isinstance(fraction, float | int):
        progress(stage, float(fraction))


def _ending(code: int) -> str:
    """Return in words how a process ended that gave no answer."""
    if code < 0:
        name = signal.Signals(-code).name
        return f"the computation was ended by {name}; if memory ran out, take shorter recordings, else see the log"
    return f"the computation ended with code {code} and no answer; see the log"


def doer_of(use_case: UseCase[Request, AnyOutcome]) -> Callable[[object, Progress], Plain]:
    def do(plain: object, progress: Progress) -> Plain:
        request = decode(use_case.request, plain)
        use_case.check(request)
        return encode(use_case.work(request, progress))

    return do


DOERS = {IDENTIFY.name: doer_of(IDENTIFY), PAYLOAD.name: doer_of(PAYLOAD), PLAN.name: doer_of(PLAN)}
"""By name, what returns the outcome of a request, both as plain data."""
