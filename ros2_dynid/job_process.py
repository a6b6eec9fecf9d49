# SPDX-License-Identifier: Apache-2.0

"""The process of a job: `python -m ros2_dynid.job_process FD PARENT`.

It reads one request as JSON from its input and writes lines of JSON to the pipe FD: {"stage", "progress"} while it
works, then {"result"} or {"error"}. Its standard output is its log: libraries may print what they like. It ends when
its parent does, which it asks for before anything heavy is loaded.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping

from ros2_dynid.blas import one_blas_thread
from ros2_dynid.errors import DynidError, one_line
from ros2_dynid.processes import end_with_parent

Tell = Callable[[Mapping[str, object]], None]


def main() -> int:
    """Work on the request on standard input; arguments: the pipe for answers and the parent's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))  # with a compiler that may be running
    answers, parent = (int(text) for text in sys.argv[1:3])
    end_with_parent(parent)
    one_blas_thread()
    os.set_inheritable(answers, False)
    faulthandler.enable()

    def tell(message: Mapping[str, object]) -> None:
        os.write(answers, json.dumps(message).encode() + b"\n")

    try:
        tell({"stage": "starting", "progress": 0.0})
        tell(_answer(tell))
    except BrokenPipeError:  # nobody waits any more
        return 1
    return 0


def _answer(tell: Tell) -> dict[str, object]:
    """Return {"result"}, or {"error"} with one line, whatever happens; what we did not foresee is in the log."""
    try:
        from ros2_dynid.jobs import DOERS

        request = json.load(sys.stdin)
        do = DOERS[request["use_case"]]
        return {
            "result": do(
                request["request"], lambda stage, fraction: tell({"stage": stage, "progress": float(fraction)})
            )
        }
    except BrokenPipeError:
        raise
    except (DynidError, OSError) as error:
        return {"error": one_line(str(error))}
    except MemoryError:
        return {"error": "there is not enough memory; take shorter recordings"}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {one_line(str(error))}; the log has the details"}


if __name__ == "__main__":
    sys.exit(main())
