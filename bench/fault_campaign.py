# SPDX-License-Identifier: Apache-2.0

"""The fault campaign for longer: missions of a simulated robot, each met by two faults at random moments.

    ./dynid python bench/fault_campaign.py [RUNS] [--pairs SHARE] [--seed N] [--lane LANE] [--fault NAME] [--run K]
                                           [--keep FOLDER]

RUNS missions (default 1000) are shared among the lanes: motion (robot from a file), description (robot from
robot_description, time from /clock) and effort (streamed torques), each with real nodes in a ROS domain of its own. A
watchdog reads the plant's truth. Every run that passed a limit, did not end at rest or lost what was recorded is
printed with the seed that makes it again: --pairs SHARE --lane LANE --seed N --run K, as far as real time allows.
--fault makes runs of one fault only.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "test" / "support"))

from fault_campaign import LANES, Run, campaign, described, fault_names, plan_of


def main(runs: int, pairs: float, seed: int, lanes: list[str], fault: str, index: int | None, folder: Path) -> int:
    """Make the runs, print those with a violation and a summary; return the number of the former."""
    share = -(-runs // len(lanes))
    plans = {kind: plan_of(kind, max(share, (index or 0) + 1), seed, pairs) for kind in lanes}
    if fault:
        plans = {kind: [(k, fault) for k, _ in plan] for kind, plan in plans.items() if fault in fault_names(kind)}
    if index is not None:
        plans = {kind: [plan[index]] for kind, plan in plans.items()}
    total, done, began = sum(map(len, plans.values())), Counter[str](), time.monotonic()

    def saw(run: Run) -> None:
        done["spoilt" if run.spoilt else "bad" if run.violations else "good"] += 1
        if run.violations or total < 100:
            print("\r" + described(run), flush=True)
        elif sys.stderr.isatty():
            print(f"\r{done.total()} of {total} runs, {done['bad']} with a violation", end="", file=sys.stderr)

    found = campaign(plans, seed, folder, saw)
    bad = [run for run in found if run.violations and not run.spoilt]
    spoilt = sum(run.spoilt for run in found)
    ends = Counter(run.ended.split(":")[0] for run in found)
    print(f"\n{len(found)} runs in {time.monotonic() - began:.0f} s, seed {seed}: {len(bad)} with a violation")
    print(f"not judged, since a busy machine paused a process in every try: {spoilt}")
    print("ended: " + ", ".join(f"{count} {end or 'otherwise'}" for end, count in ends.most_common()))
    print(f"highest speed: {max(run.peak_speed for run in found):.2f} of the limit")
    for name, count in Counter(run.fault for run in bad).most_common():
        print(f"  {count} x {name}")
    return len(bad)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=1000, help="how many in all (default: 1000)")
    parser.add_argument("--pairs", type=float, default=1.0, help="share of runs with two faults (default: 1)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of faults and moments (default: the time)")
    parser.add_argument("--lane", choices=sorted(LANES), action="append", help="only this lane; may be repeated")
    parser.add_argument("--fault", default="", help="only this fault")
    parser.add_argument("--run", type=int, help="only the run of this number")
    parser.add_argument("--keep", type=Path, help="folder for logs and bags, which are kept (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        where = args.keep or Path(name)
        where.mkdir(parents=True, exist_ok=True)
        sys.exit(
            1 if main(args.runs, args.pairs, args.seed, args.lane or list(LANES), args.fault, args.run, where) else 0
        )
