"""Random schedules of what befalls a stream and its driver: splits, merges, kills and expiries.

A run is named by its seed, and is the same again by that. A few seeds are among the tests; many are
run by hand, and what they found is kept::

    PYTHONPATH=src python tests/kinesis_schedules.py --seeds 1000 --results FILE

What several runs have found is added up in one file by ``--add``.
"""

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from kinesis_world import DAY_S, STREAM, KinesisWorld

KEYS = [f"k{number}" for number in range(12)]
_EVERY = 50
#: how it is told that records, or a whole shard that was not at its end, are gone
_LOST = ("to retention before they were read", "is not listed by its log any more")


class Schedule:
    """What happens to a stream and its driver, by chance."""

    def __init__(self, world, seed):
        self.world, self.chance = world, random.Random(seed)
        self.counts = Counter()
        self.deeds = [
            (30, self.write),
            (30, self.turn),
            (6, self.split),
            (5, self.merge),
            (4, self.kill),
            (4, self.kill_after_writing),
            (4, self.lose_a_wave),
            (4, self.others_read),
            (3, self.iterators_expire),
            (2, self.list_late),
            (0.2, self.a_day_passes),
        ]

    def play(self, steps=60):
        """Play it to its end."""
        self.world.begin(self.chance.choice([1, 2, 3]))
        weights = [weight for weight, _ in self.deeds]
        for _ in range(steps):
            ((_, deed),) = self.chance.choices(self.deeds, weights)
            deed()
        self.world.settle()

    def write(self):
        for _ in range(self.chance.randint(1, 8)):
            self.world.put(self.chance.choice(KEYS), self.chance.randint(1, 4))

    def turn(self):
        self.world.turns(self.chance.randint(1, 6), self.chance.choice([0.0, 0.1, 0.3, 2.0]))

    def split(self):
        if 0 < len(self.world.shards) < 8:
            self.counts["splits"] += 1
            self.world.split(self.chance.choice(self.world.shards).number)

    def merge(self):
        shards = self.world.shards
        place = self.chance.randrange(8)
        pair = shards[place : place + 2]
        if len(pair) == 2 and pair[0].keys.last + 1 == pair[1].keys.first:
            self.counts["merges"] += 1
            self.world.service.merge(STREAM, *(one.number for one in pair))

    def kill(self):
        self.counts["drivers killed"] += 1
        self.world.start()

    def kill_after_writing(self):
        self.counts["drivers killed after writing"] += 1
        self.world.killed_after_writing()
        self.world.start()

    def lose_a_wave(self):
        self.counts["waves lost"] += 1
        self.world.engine.accidents.append(self.chance.choice(["before", "after"]))

    def others_read(self):
        self.counts["shards spent by others"] += 1
        stream = self.world.kinesis.streams[STREAM]
        shard = self.chance.choice(list(stream.shards.values()))
        for _ in range(5):
            shard.spend(self.world.clock.now_s(), self.chance.choice([0, 10**6, 10**7]))

    def iterators_expire(self):
        self.counts["times iterators expired"] += 1
        self.world.clock.move(301)

    def list_late(self):
        self.world.kinesis.listed_after_s = self.chance.choice([0, 0, 5, 60])

    def a_day_passes(self):
        """All was read by then: records expire, and with them shards that are closed."""
        self.counts["days that pass"] += 1
        self.world.settle()
        for _ in range(27):
            # An answer goes through ten minutes in which nothing came.
            self.world.clock.move(3600)
            self.world.turns(8, 0.5)

    def expire_unread(self):
        """Nobody runs for days, and something was not read; whether that is told."""
        self.world.put(KEYS[0])
        self.world.clock.move(3 * DAY_S)
        self.world.put(KEYS[0])
        self.world.turns(200, 1.0)
        (stream,) = self.world.store.registry.streams()
        return any(words in (stream.reason or "") for words in _LOST)


@dataclass
class Outcome:
    """What a schedule came to."""

    lost: int
    twice: int
    inverted: int
    #: in words, all that is not as it ought to be
    wrong: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)


def outcome(seed, folder):
    """Play the schedule of a seed in an empty folder, and judge it."""
    folder.mkdir(exist_ok=True)
    world = KinesisWorld(folder)
    try:
        return _judged(world, Schedule(world, seed))
    finally:
        world.log.close()
        world.store.close()


def _judged(world, schedule):
    schedule.play()
    lost, twice, inverted = world.judge()
    found = Outcome(len(lost), len(twice), len(inverted), counts=schedule.counts)
    found.counts["records"] = sum(world.written.values())
    found.counts["shards"] = world.kinesis.streams[STREAM].numbers
    named = {"lost": lost, "twice": twice, "out of order": inverted}
    found.wrong += [f"{what}: {sorted(which)}" for what, which in named.items() if which]
    if not world.is_well():
        found.wrong.append("it stopped, or something failed")
    if not found.wrong and schedule.chance.random() < 0.25:
        found.counts["losses told"] += 1
        if not schedule.expire_unread():
            found.wrong.append("what expired unread is not told")
    return found


def main(words=None):
    """Return 0 if nothing was wrong, else 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--results", type=Path, help="a file for what was found, as JSON")
    parser.add_argument("--add", action="store_true", help="to what that file has")
    given = parser.parse_args(words)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    told = _many(range(given.first, given.first + given.seeds))
    if given.add and given.results.exists():
        before = json.loads(given.results.read_text())
        counts = Counter(before.pop("counts")) + Counter(told.pop("counts"))
        told = {what: before[what] + found for what, found in told.items()}
        told["counts"] = dict(sorted(counts.items()))
    if given.results is not None:
        given.results.write_text(json.dumps(told, indent=1) + "\n")
    _say(json.dumps(told))
    return 1 if told["failed"] else 0


def _many(seeds):
    began, sums, counts, failed = time.monotonic(), Counter(), Counter(), []
    for done, seed in enumerate(seeds, 1):
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(seed, Path(folder))
        sums.update({"lost": found.lost, "twice": found.twice, "out of order": found.inverted})
        counts += found.counts
        if found.wrong:
            failed.append(seed)
            _say(f"seed {seed}: {found.wrong}")
        if done % _EVERY == 0:
            _say(f"{done} of {len(seeds)}, {len(failed)} failed, {time.monotonic() - began:.0f} s")
    took_s = round(time.monotonic() - began)
    return {
        "schedules": len(seeds),
        "failed": failed,
        **sums,
        "took_s": took_s,
        "counts": dict(sorted(counts.items())),
    }


def _say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
