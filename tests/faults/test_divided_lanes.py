"""Partitions divided by keys, or by places: drivers killed in slices of buckets.

Each heir divides otherwise. Afterwards the records of each key have their effects in order, as each
guarantee has it, whatever bucket of which division they were in. Without an order none of them is
lost or there twice, but for what was in flight, of each bucket once.
"""

from bisect import bisect_left
from collections import Counter, defaultdict

import pytest
from matrix import FULL, ROW, note
from rig import NAMES, Rig

from headrace.model.buckets import whole_lane
from headrace.model.places import place_at
from headrace.spark.place_hash import bucket_of_place
from headrace.testing.in_flight import Made, slices_again, slices_never
from headrace.testing.ledger import Found

pytestmark = ROW
PER_S = 50.0
FINEST = 16
#: what each use case is called in the rig's own five
GUARANTEES = {
    "divided_once": "transacts",
    "divided_files": "intends",
    "divided_again": "repeats",
    "divided_claims": "claims",
}
DIVIDED = """
DIVIDED = dict(topic=TOPIC, order="lane")

@use_case(sink=SqlTable("divided_once", columns=COLUMNS), guarantee="exactly-once", **DIVIDED)
def divided_once(table, context):
    return places(table, context)

@use_case(sink=ParquetFiles("divided_files"), guarantee="exactly-once", **DIVIDED)
def divided_files(table, context):
    return places(table, context)

@use_case(sink=SqlTable("divided_again", columns=COLUMNS), guarantee="at-least-once", **DIVIDED)
def divided_again(table, context):
    return places(table, context)

@use_case(sink=SqlTable("divided_claims", columns=COLUMNS), guarantee="at-most-once", **DIVIDED)
def divided_claims(table, context):
    return places(table, context)
"""
KILLED = (
    "mid-commit@divided-once:3",
    "sink-written@divided-again:2",
    "mid-slice@divided-files:2",
    "claimed@divided-claims:2",
    "mid-commit@divided-files:2",
)
#: what drivers that are killed there find their use cases deployed with; of those by places each
#: has buckets that are made of whole ones of the finest
LIVES = {
    "key": (4, 7, 1, 3, 8),
    "none": (4, FINEST, 1, 2, 8),
}


class DividedRig(Rig):
    """A rig with use cases whose partitions are divided."""

    def __init__(self, order, *args, **more):
        self.order = order
        super().__init__(*args, more=DIVIDED, **more)

    def deploy(self, buckets):
        order = 'order="lane"' if buckets == 1 else f'order="{self.order}", buckets={buckets}'
        path = self.folder / "use_cases.py"
        lines = path.read_text().splitlines()
        at = next(row for row, line in enumerate(lines) if line.startswith("DIVIDED = "))
        lines[at] = f"DIVIDED = dict(topic=TOPIC, {order})"
        path.write_text("\n".join(lines))
        # The driver before was killed, and the next one is still to start.
        self.headrace("use-cases", "deploy", "--no-wait")

    def behind(self, names=NAMES):
        """The same, and what waits of partitions that are divided."""
        return super().behind((*names, *(name.replace("_", "-") for name in GUARANTEES)))

    def part_of(self, place):
        """What is in at most one slice: a key of a partition, or what one bucket has of it."""
        if self.order == "key":
            return self.keys[place]
        return bucket_of_place(place_at(place.offset), FINEST)

    def judge_parts(self, row):
        """Hold what was done by key, or by place, against what was sent."""
        of_part = self.parts(self.part_of)
        ledger = self.ledger_of(of_part)
        effects = {name: self.made(name) for name in GUARANTEES if name != "divided_files"}
        made = {
            name: [(who, Made(of_part[done.place], done.begin, done.end)) for who, _, done in of]
            for name, of in effects.items()
        }
        found = {name: [Found(who, one.place) for who, one in of] for name, of in made.items()}
        files = self.files("divided_files")
        found["divided_files"] = [one._replace(place=of_part[one.place]) for one in files]
        verdicts = {name: ledger.judge(of) for name, of in found.items()}
        told = {GUARANTEES[name]: verdict for name, verdict in verdicts.items()}
        note(row, told, faults=self.kills, records=len(ledger))
        unordered = set(GUARANTEES) if self.order == "none" else {"divided_files"}
        for name, verdict in verdicts.items():
            assert not verdict.foreign, (name, str(verdict))
            assert name in unordered or not verdict.out_of_order, (name, str(verdict))
            assert name == "divided_claims" or not verdict.lost, (name, str(verdict))
            assert name == "divided_again" or not verdict.twice, (name, str(verdict))
        again = slices_again(one for _, one in made["divided_again"])
        span = max(one.end - one.begin for _, one in made["divided_claims"])
        never = slices_never(verdicts["divided_claims"].lost, most_within(span, of_part))
        for lane, times in (again | never).items():
            assert times <= self.kills, (lane, times)


def most_within(span, of_part):
    """How many records of a part there are at most in so many places."""
    offsets = defaultdict(list)
    for place, part in sorted(of_part.items()):
        offsets[part[:2]].append(place.offset)
    return max(
        bisect_left(found, at + span) - row
        for found in offsets.values()
        for row, at in enumerate(found)
    )


@pytest.mark.parametrize("order", ["key", "none"])
@pytest.mark.parametrize("turn", range(3 if FULL else 1))
def test_all_is_as_promised_whoever_is_killed_and_however_partitions_are_divided(
    kafka, tmp_path, turn, order
):
    rig = DividedRig(order, tmp_path / "service", kafka.bootstrap_servers)
    lives = [*zip(KILLED, LIVES[order], strict=True)]
    with rig.sending(PER_S):
        for step, buckets in lives if FULL else (lives[0], lives[-1]):
            rig.deploy(buckets)
            with rig.start(step) as driver:
                driver.until_stopped()
                driver.kill()
        with rig.start() as driver:
            rig.progressing(driver)
            driver.drain()
    rig.settle(300.0)
    rig.judge(f"killed in slices of buckets by {order}, and divided otherwise ({turn + 1})")
    rig.judge_parts(f"killed in slices of buckets, and divided otherwise ({turn + 1}): by {order}")
    with rig.store() as store:
        kept = Counter(whole_lane(one.lane.name) for one in store.progress.load_positions())
    assert max(kept.values()) >= 8
