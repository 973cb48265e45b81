"""Run many seeds, or one with its trace.

python -m headrace.testing.simulation --seeds 10000 --jobs 2 --results docs/simulation-results.json
python -m headrace.testing.simulation --seeds 2500 --odds hides=0.7,reads_less=0.3
python -m headrace.testing.simulation --seed 123 --trace

What several runs have counted is added up in one file: ``--results FILE --add``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.testing.simulation.many import RunOptions, outcomes
from headrace.testing.simulation.odds import odds_text, read_odds
from headrace.testing.simulation.run import ACTIONS, MEMORY, SQLITE, Outcome

#: seeds between two lines of progress
_EVERY = 500
_SHOWN = 10


def main(words: list[str] | None = None) -> int:
    """Return 0 if nothing was wrong, else 1."""
    given = _parser().parse_args(words)
    asked = RunOptions(given.store == SQLITE, given.actions, given.odds)
    if given.seed is None:
        seeds = range(given.first, given.first + given.seeds)
        told, failed = _many(seeds, given.jobs, asked)
        if given.results is not None:
            _write(given.results, told, add=given.add)
        return 1 if failed else 0
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
    parser.add_argument("--store", choices=[MEMORY, SQLITE], default=MEMORY)
    parser.add_argument("--results", type=Path, help="a file for what was counted, as JSON")
    parser.add_argument("--add", action="store_true", help="to what that file has")
    parser.add_argument(
        "--odds", type=read_odds, default={}, help="how often faults come: hides=0.7,splits=0.1"
    )
    parser.add_argument("--actions", type=int, default=ACTIONS, help="how much happens in a run")
    return parser


def _many(seeds: range, jobs: int, asked: RunOptions) -> tuple[dict[str, Any], list[Outcome]]:
    """What was counted, and the runs with which anything is wrong."""
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
    if failed:
        _say(f"first failing seed:\n    {min(failed, key=lambda run: run.seed).command}")
    given = {odds_text(asked.odds): len(seeds)} if asked.odds else {}
    told = {"seeds": len(seeds), "failed": len(failed), "took_s": took_s, "odds": given}
    return {**told, "jobs": jobs, "counts": dict(counts)}, failed


def _write(path: Path, told: dict[str, Any], *, add: bool) -> None:
    """Write what was counted, or add it to what the file has."""
    if add and path.exists():
        before = json.loads(path.read_text())
        for what in ("seeds", "failed", "took_s"):
            told[what] += before[what]
        for what in ("odds", "counts"):
            told[what] = Counter(before[what]) + Counter(told[what])
    told["counts"] = dict(sorted(told["counts"].items()))
    path.write_text(json.dumps(told, indent=1))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
