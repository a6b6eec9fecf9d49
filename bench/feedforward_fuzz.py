# SPDX-License-Identifier: Apache-2.0

"""Random events at the feedforward's state machine for as long as you like; what must hold is checked at every step.

    ./dynid python bench/feedforward_fuzz.py [STEPS] [--seed N]

The test of the same name runs some thousand steps; this is for millions of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "support"))

from rich.progress import Progress

from feedforward_fuzz import fuzz

PIECE = 2500
"""Steps of one machine before the next one starts anew."""


def main(steps: int, seed: int) -> str:
    """Fire `steps` events at machines from `seed` on and return what was seen."""
    torques = endings = 0
    met: set[object] = set()
    with Progress() as progress:
        for k in progress.track(range(-(-steps // PIECE)), description="firing"):
            made = fuzz(seed + k, PIECE)
            torques, endings, met = torques + made.torques, endings + made.endings, met | made.seen
    return f"{steps} events, {torques} torques, {endings} endings in gravity, {len(met)} pairs of state and event"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Random events at the feedforward's state machine.")
    parser.add_argument("steps", nargs="?", type=int, default=1_000_000, help="events to fire")
    parser.add_argument("--seed", type=int, default=0, help="of the first machine")
    args = parser.parse_args()
    print(main(args.steps, args.seed))
