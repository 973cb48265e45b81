"""A log whose places no 64 bits hold: all of it is read, and versions of its records last."""

import random
from collections import defaultdict
from itertools import pairwise

import pyarrow as pa
import pytest

from headrace.model.record_versions import NUMBER_BITS
from headrace.model.records import FailureState
from headrace.model.streams import StreamId
from headrace.testing.log_fake import Row
from headrace.testing.wide_log import WideLog, wide

ACME = StreamId("keep", "acme")
GUARANTEES = ["at-least-once", "at-most-once", "exactly-once"]


class Seen:
    """What versions a handler was told for each record, and what it calls bad."""

    def __init__(self, world):
        self.world, self.bad, self.raises = world, set(), False
        self.versions = defaultdict(list)
        world.log = WideLog()

    def handler(self, table, context):
        for row, value in enumerate(table["value"].to_pylist()):
            if value in self.bad and self.raises:
                raise ValueError(value)
            if value in self.bad:
                raise context.bad_record(row, "bad")
        versions = context.versions(table)
        for value, version in zip(table["value"].to_pylist(), versions.to_pylist(), strict=True):
            self.versions[value].append(version)
        return pa.table({"version": versions})

    def begin(self, lanes=2, **options):
        self.world.use_cases = [self.world.make(self.handler, **options)]
        self.world.deploy(retries=1)
        self.world.tenant("acme", partitions=lanes)

    def send(self, lane, *numbers):
        rows = [
            Row(b"%d-%d" % (lane, number), timestamp_ms=int(self.world.clock.wall_s * 1000))
            for number in numbers
        ]
        self.world.log.append("acme.visits", lane, rows)

    def of_lane(self, lane):
        """The versions of a lane's records, in their order; of each record the only one."""
        mine = sorted(
            (int(value.split(b"-")[1]), versions)
            for value, versions in self.versions.items()
            if value.startswith(b"%d-" % lane)
        )
        assert all(len(set(versions)) == 1 for _, versions in mine), mine
        return [versions[0] for _, versions in mine]

    def positions(self):
        found = self.world.store.progress.load_positions([ACME])
        return [(position.next_offset, position.ordinal) for position in found]


@pytest.fixture
def seen(world):
    return Seen(world)


def rising(versions):
    return all(one < other for one, other in pairwise(versions))


@pytest.mark.parametrize("kind", ["lane", "stream", "ends are not told"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("seed", range(5))
def test_a_record_has_one_version_in_all_attempts_and_later_ones_have_larger(
    seen, guarantee, kind, seed
):
    chance, sent = random.Random(seed), [0, 0]
    seen.begin(guarantee=guarantee, order="stream" if kind == "stream" else "lane")
    for lane in (0, 1) if kind == "ends are not told" else ():
        seen.world.log.hide_end("acme.visits", lane)
    seen.world.start()
    for _ in range(12):
        lane, count = chance.randrange(2), chance.randrange(1, 4)
        seen.send(lane, *range(sent[lane], sent[lane] + count))
        sent[lane] += count
        if chance.random() < 0.3:
            seen.world.killed_after_writing()
            seen.world.start()
        seen.world.turns(chance.randrange(4))
    seen.world.turns(10)
    seen.world.turns(20, 2.0)  # where ends are not told, lanes are looked at now and then
    assert [at for at, _ in seen.positions()] == [wide(count) for count in sent]
    for lane, count in enumerate(sent):
        versions = seen.of_lane(lane)
        assert rising(versions)
        if guarantee != "at-most-once":
            assert len(versions) == count


@pytest.mark.parametrize("policy", ["skipped", "dead-letter", "dead-letter of the driver"])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_follows_a_record_that_was_passed_over_is_newer_than_that_was(seen, policy, guarantee):
    letters = {} if policy == "skipped" else {"bad_record": "dead-letter"}
    # What a handler raises is tried again, and given up where the answers of tasks are judged.
    seen.raises = policy == "dead-letter of the driver"
    seen.begin(lanes=1, guarantee=guarantee, **letters)
    seen.send(0, 0)
    seen.world.start()
    seen.world.turns()
    before = seen.of_lane(0)
    seen.bad = {b"0-1"}
    seen.send(0, 1, 2, 3)
    seen.world.turns(40, 1.0)
    for failure in seen.world.store.failures.every():
        if failure.state is FailureState.OPEN:
            # What was claimed is behind its lane already.
            claimed = guarantee == "at-most-once"
            decide = seen.world.store.failures.retry if claimed else seen.world.store.failures.skip
            decide(failure.id)
    seen.world.turns(10)
    versions = seen.of_lane(0)
    assert rising(versions)
    if guarantee != "at-most-once":
        assert len(versions) == 3
        assert versions[1] > before[0] + 1, "the bad one had a number of its own"
    ((at, ordinal),) = seen.positions()
    assert at == wide(4)
    assert ordinal >= 4 or guarantee == "at-most-once"


def test_after_a_seek_numbers_begin_again_under_a_greater_depth(seen):
    seen.begin(lanes=1)
    seen.send(0, *range(5))
    seen.world.start()
    seen.world.turns()
    before = dict(seen.versions)
    seen.versions.clear()
    to = {"acme.visits[0]": wide(2)}
    seen.world.store.progress.seek(ACME, to, seen.world.log.id_of("acme.visits"))
    seen.world.turns()
    again = seen.of_lane(0)
    assert [version % 2**NUMBER_BITS for version in again] == [0, 1, 2]
    assert again[0] > max(version for versions in before.values() for version in versions)
