# SPDX-License-Identifier: Apache-2.0

"""Random events at random times at the excitation's state machine, for as many steps as asked, on one core.

    ./dynid python bench/excitation_fuzz.py [STEPS] [SEED] [MISSIONS]

The same as test/control/test_random_events.py and test_faulty_missions.py, for longer: 2000000 steps of 4 ms take about
ten minutes, 1000 missions of each fault about an hour. An invariant that breaks ends it with the seed that shows it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "support"))

from faulty_missions import FAULTS, fly
from random_events import play
from ros2_dynid.model.load import load_robot


def main() -> None:
    """Play seed after seed, then fly MISSIONS with each fault."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    robot, steps, events, sent, begin = load_robot("demo3"), 0, 0, 0, time.monotonic()
    while steps < wanted:
        try:
            seen = play(robot, seed, 20.0)
        except AssertionError as error:
            sys.exit(f"seed {seed}: {error}")
        steps, events, sent, seed = steps + seen.steps, events + seen.events, sent + seen.sent, seed + 1
    print(f"{steps} steps, {events} events, {sent} commands, {time.monotonic() - begin:.0f} s: every invariant holds")
    missions, begin = int(sys.argv[3]) if len(sys.argv) > 3 else 0, time.monotonic()
    flown = [fly(robot, seed + k, fault) for k in range(missions) for fault in FAULTS]
    if wrong := [outcome for outcome in flown if outcome.wrong]:
        sys.exit("\n".join(map(str, wrong)))
    print(f"{len(flown)} missions with faults, {time.monotonic() - begin:.0f} s: no limit was passed")


if __name__ == "__main__":
    main()
