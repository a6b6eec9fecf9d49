"""Random events at random times at the excitation's state machine, for as many steps as asked, on one core.

    ./dynid python bench/excitation_fuzz.py [STEPS] [SEED]

The same as test/control/test_random_events.py, for longer: 2000000 steps of 4 ms take about ten minutes. An invariant
that breaks ends it with the seed that shows it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "support"))

from random_events import play
from ros2_dynid.model.load import load_robot


def main() -> None:
    """Play seed after seed."""
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


if __name__ == "__main__":
    main()
