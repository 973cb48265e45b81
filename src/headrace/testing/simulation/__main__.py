"""Run many seeds, or one with its trace.

python -m headrace.testing.simulation --seeds 10000 --jobs 2 --results docs/simulation-results.json
python -m headrace.testing.simulation --seed 123 --trace
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from headrace.testing.simulation.many import RunOptions, outcomes
from headrace.testing.simulation.run import ACTIONS, Outcome

#: seeds between two lines of progress
_EVERY = 500
_SHOWN = 10


def main(words: list[str] | None = None) -> int:
    """Return 0 if nothing was wrong, else 1."""
    given = _parser().parse_args(words)
    asked = RunOptions(given.store == "sqlite", given.actions)
    if given.seed is None:
        seeds = range(given.first, given.first + given.seeds)
        return _many(seeds, given.jobs, asked, given.results)
    outcome = asked.one(given.seed, _say if given.trace else None)
    _say(str(outcome))
    return 1 if outcome.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m headrace.testing.simulation",
        description="Drivers, tasks, store and log with faults drawn from a seed, and checked.",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="tell everything that happens")
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--results", type=Path, help="a file for what was counted, as JSON")
    parser.add_argument("--actions", type=int, default=ACTIONS, help="how much happens in a run")
    return parser


def _many(seeds: range, jobs: int, asked: RunOptions, results: Path | None) -> int:
    began, counts, failed = time.monotonic(), Counter[str](), list[Outcome]()
    for done, outcome in enumerate(outcomes(seeds, jobs, asked), 1):
        counts += outcome.counts
        if outcome.wrong:
            failed.append(outcome)
            if len(failed) <= _SHOWN:
                _say(str(outcome))
        if done % _EVERY == 0:
            per_s = done / (time.monotonic() - began)
            _say(f"{done} of {len(seeds)} seeds, {len(failed)} failed, {per_s:.0f} a second")
    took_s = round(time.monotonic() - began)
    _say(f"{len(seeds)} seeds in {took_s} s")
    for name, count in sorted(counts.items()):
        _say(f"    {name:24}{count:>12,}")
    if results is not None:
        told = {"seeds": len(seeds), "failed": len(failed), "took_s": took_s, "jobs": jobs}
        results.write_text(json.dumps({**told, "counts": dict(sorted(counts.items()))}, indent=1))
    if failed:
        _say(f"first failing seed:\n    {min(failed, key=lambda run: run.seed).command}")
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
