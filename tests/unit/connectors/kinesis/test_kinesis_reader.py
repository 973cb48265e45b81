"""What readers make of empty answers, budgets, expired iterators, retention and wholes."""

import threading
from contextlib import closing
from dataclasses import replace

import pytest

from headrace.connectors.kinesis import KinesisLog
from headrace.connectors.kinesis.aggregated import (
    MAGIC,
    Part,
    hash_key_of,
    put_together,
    taken_apart,
)
from headrace.connectors.kinesis.reader import KinesisReader
from headrace.connectors.kinesis.spots import END, before, passed, spot_of
from headrace.model.places import OPEN
from headrace.model.streams import LaneId, Slice
from headrace.spark.row_places import place_of_row
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis
from headrace.testing.kinesis.state import cursor_of

DAY_S = 86_400


class Counting:
    """A client that counts what it is asked."""

    def __init__(self, kinesis):
        self._kinesis = kinesis
        self.calls = []

    def __getattr__(self, name):
        call = getattr(self._kinesis, name)

        def counted(**request):
            self.calls.append(name)
            return call(**request)

        return counted


class World:
    """A stream, and a reader that goes on from where it came to."""

    def __init__(self, shards=1):
        self.clock = FakeClock()
        self.kinesis = FakeKinesis(self.clock)
        self.client = Counting(self.kinesis)
        self.service = Service(self.kinesis, self.clock.move)
        self.stream = self.service.make(shards)
        with closing(KinesisLog(self.kinesis, self.clock)) as log:
            lane = f"{self.stream}[0]"
            begin = log.start_offsets([lane])[lane]
        self.slice = Slice(
            LaneId("keep", "acme", lane),
            self.stream,
            begin,
            OPEN,
            1,
            records=1000,
            most_bytes=10**7,
        )
        self.another_worker()

    def another_worker(self):
        self.reader = KinesisReader(self.client, self.clock, self.clock.move)

    def put(self, *values, **where):
        return self.service.put(self.stream, *values, **where)

    def read(self, piece=None, batch_records=10_000):
        return list(self.reader.read([piece or self.slice], batch_records))

    def visit(self, seconds=0.25, **changes):
        """Visit once, a moment later; the next visit begins where this one came to."""
        self.clock.move(seconds)
        self.slice = replace(self.slice, **changes)
        *_, last = batches = self.read()
        if last.error is None:
            self.slice = replace(self.slice, from_offset=last.reached, note=last.behind.note)
        return [value for batch in batches for value in batch.records["value"].to_pylist()], last


@pytest.fixture
def world():
    return World()


def test_a_visit_says_what_is_behind_it(world):
    world.put(b"0", b"1", b"2")
    values, last = world.visit(records=2)
    assert (values, last.behind.caught_up) == ([b"0", b"1"], False)
    values, last = world.visit(records=9)
    assert (values, last.behind.caught_up) == ([b"2"], True)


def test_who_goes_on_where_a_visit_came_to_needs_one_request_in_whatever_worker(world):
    world.put(b"0")
    world.visit()
    for value in (b"1", b"2"):
        world.client.calls.clear()
        world.put(value)
        assert world.visit()[0] == [value]
        assert world.client.calls == ["get_records"]
        world.another_worker()


def test_a_note_of_another_place_or_one_that_is_no_iterator_is_not_gone_by(world):
    world.put(b"0", b"1")
    at = world.slice.from_offset
    _, last = world.visit()
    assert world.visit(from_offset=at, note=last.behind.note)[0] == [b"0", b"1"]
    assert world.visit(from_offset=at, note=f"{at} of-somebody-else")[0] == [b"0", b"1"]


def test_an_iterator_that_expired_is_asked_for_anew(world):
    world.put(b"0")
    world.visit()
    world.put(b"1")
    assert world.visit(seconds=301)[0] == [b"1"]
    assert world.client.calls.count("get_records") == 3


def test_the_place_of_a_quiet_shard_stays_and_moves_after_minutes(world):
    world.put(b"0")
    world.visit()
    at = world.slice.from_offset
    for _ in range(100):
        _, last = world.visit(seconds=2.0)
        assert (last.reached, last.behind.caught_up) == (at, True)
    moved = sum(world.visit(seconds=2.0)[1].reached != at for _ in range(300))
    assert moved > 0
    assert spot_of(world.slice.from_offset).number == spot_of(at).number


def test_a_quiet_shard_whose_records_are_all_too_old_lost_nothing(world):
    """Its place is younger than what retention took, though the number in it is gone."""
    world.put(b"0")
    for _ in range(300):
        world.visit(seconds=360)
        world.another_worker()
    world.put(b"1")
    values, last = world.visit()
    assert (values, last.error) == ([b"1"], None)


def test_a_stretch_without_records_is_gone_through_visit_by_visit(world):
    world.put(b"0")
    world.visit()
    world.clock.move(20 * 3600)
    world.put(b"1")
    found, visits = [], 0
    while not found:
        found, last = world.visit(seconds=1.0)
        world.another_worker()
        visits += 1
        assert last.error is None
    assert (found, visits > 20, visits < 200) == ([b"1"], True, True)


def test_a_shard_that_gives_no_more_for_now_ends_a_visit_and_is_no_trouble(world):
    world.put(b"0")
    shard = world.kinesis.streams[world.stream].shards[0]
    for _ in range(5):
        shard.spend(world.clock.now_s(), 10)
    (batch,) = world.read()
    assert (batch.error, batch.reached, batch.records.num_rows) == (
        None,
        world.slice.from_offset,
        0,
    )
    assert not batch.behind.caught_up
    assert world.visit(seconds=1.0)[0] == [b"0"]


def test_what_was_read_before_is_read_again_whatever_the_shard_gives(world):
    world.put(*[b"x" * 2**20] * 25)
    found, piece = [], world.slice
    while len(found) < 25:
        values, _ = world.visit(seconds=6.0, records=100, most_bytes=10**9)
        found += values
    world.another_worker()
    again = world.read(replace(piece, until_offset=world.slice.from_offset))
    assert sum(batch.records.num_rows for batch in again) == 25
    assert (again[-1].reached, again[-1].error) == (world.slice.from_offset, None)


def test_what_was_read_before_and_is_not_there_is_waited_for(world):
    (number,) = world.put(b"0")
    piece = replace(world.slice, until_offset=passed(number + 1))
    world.clock.move(1)
    (*_, last) = world.read(piece)
    assert (last.error.code, last.error.temporary) == ("Temporary", True)


def test_records_that_retention_took_are_told_by_their_numbers(world):
    first, *_ = world.put(b"0", b"1")
    world.clock.move(600)
    (third,) = world.put(b"2")
    world.slice = replace(world.slice, from_offset=before(first))
    _, last = world.visit(seconds=DAY_S - 300)
    assert (last.error.code, last.error.goes_on_at) == ("OffsetOutOfRange", before(third))
    assert last.reached == before(first)
    assert world.visit(from_offset=last.error.goes_on_at)[0] == [b"2"]


def test_what_was_read_and_is_still_there_lost_nothing_however_old(world):
    world.put(b"0")
    world.visit()
    world.clock.move(DAY_S - 10)
    world.put(b"1")
    assert world.visit()[0] == [b"1"]


def test_who_was_away_for_longer_than_records_are_kept_may_have_lost_some(world):
    world.put(b"0")
    world.visit()
    (number,) = {spot_of(world.slice.from_offset).number}
    world.put(b"1")
    world.another_worker()
    _, last = world.visit(seconds=3 * DAY_S)
    assert last.error.code == "OffsetOutOfRange"
    on_at = spot_of(last.error.goes_on_at)
    assert (on_at.number, on_at.part) == (number, None)
    world.put(b"2")
    found = []
    world.slice = replace(world.slice, from_offset=last.error.goes_on_at)
    for _ in range(200):
        values, last = world.visit()
        found += values
        assert last.error is None
        if last.behind.caught_up:
            break
    assert found == [b"2"]


def test_who_still_waits_for_what_may_be_gone_leaves_that_to_the_next_visit(world):
    """Its iterator was past all that tells of a loss, so the next visit went on as if none was."""
    world.put(b"0")
    world.visit()
    world.put(b"1")
    world.clock.move(25 * 3600)
    world.put(b"2")
    world.kinesis.span_s = 60.0
    world.slice = replace(world.slice, note="")
    values, last = world.visit()
    visits = 1
    while last.error is None and visits < 100:
        assert values == []
        values, last = world.visit()
        visits += 1
    assert visits > 2
    assert (last.error.code, last.reached) == ("OffsetOutOfRange", world.slice.from_offset)


def test_who_is_overtaken_by_retention_from_visit_to_visit_is_told(world):
    """An iterator goes on with what is left, and says nothing of what is not."""
    for number in range(60):
        world.put(b"%d" % number)
        world.clock.move(60)
    world.clock.move(DAY_S - 3600 - 900)
    found, last = [], None
    while last is None or (last.error is None and len(found) < 30):
        values, last = world.visit(seconds=120, records=1)
        found += values
    assert found == [b"%d" % number for number in range(len(found))]
    assert (len(found) > 5, last.error.code) == (True, "OffsetOutOfRange")


def test_what_it_takes_to_take_a_whole_apart_is_not_spent_waiting(world, monkeypatch):
    """A sender of large ones would have paid a sixteenth of what they cost."""

    def slow(data):
        world.clock.move(8.0)
        return taken_apart(data)

    monkeypatch.setattr("headrace.connectors.kinesis.visit.taken_apart", slow)
    world.put(put_together((Part("k", b"0"),)))
    assert world.visit()[1].behind.idle_s < 1.0


def test_a_shard_that_was_emptied_and_closed_meanwhile_goes_on_at_its_end(world):
    world.put(b"0")
    world.clock.move(3600)
    world.service.split(world.stream)
    _, last = world.visit(seconds=DAY_S - 600)
    assert (last.error.code, last.error.goes_on_at) == ("OffsetOutOfRange", END)


def test_or_where_it_was_found_to_have_nothing_left(world):
    world.put(b"0")
    world.clock.move(12 * 3600)
    world.service.split(world.stream)
    _, last = world.visit(seconds=DAY_S - 6 * 3600)
    assert (last.error.code, last.error.goes_on_at < END) == ("OffsetOutOfRange", True)
    world.slice = replace(world.slice, from_offset=last.error.goes_on_at)
    for _ in range(200):
        values, last = world.visit()
        assert (values, last.error) == ([], None)
        if last.behind.sealed:
            return
    raise AssertionError("it never comes to the end")


def test_who_begins_where_a_young_shard_began_lost_nothing(world):
    world.slice = replace(world.slice, from_offset=began(world))
    world.put(b"0")
    world.clock.move(20 * 3600)
    world.put(b"1")
    found = []
    while len(found) < 2:
        values, last = world.visit(seconds=1.0)
        found += values
        assert last.error is None
    assert found == [b"0", b"1"]


def test_who_begins_where_an_old_one_began_may_have_lost_records(world):
    world.slice = replace(world.slice, from_offset=began(world))
    world.put(b"0")
    world.clock.move(1800)
    (number,) = world.put(b"1")
    _, last = world.visit(seconds=DAY_S - 900)
    assert (last.error.code, last.error.goes_on_at) == ("OffsetOutOfRange", before(number))


def began(world):
    """Where the shard of a world began, as its log tells of lanes that come later."""
    with closing(KinesisLog(world.kinesis, world.clock)) as log:
        (place,) = log.topics([world.stream])[world.stream].beginnings.values()
    return place


def test_who_is_at_the_end_of_a_closed_shard_stays_there(world):
    world.service.split(world.stream)
    _, last = world.visit()
    assert (last.reached, last.behind.sealed) == (END, True)
    _, last = world.visit()
    assert (last.reached, last.behind.sealed) == (END, True)


def test_a_shard_that_does_not_answer_holds_up_no_other_of_its_task():
    world, others_came = World(3), threading.Event()
    get_records = world.kinesis.get_records

    def slow(**request):
        if cursor_of(request["ShardIterator"]).shard == 0:
            others_came.wait(5)
        return get_records(**request)

    world.kinesis.get_records = slow
    lanes = [f"{world.stream}[{number}]" for number in range(3)]
    with closing(KinesisLog(world.kinesis, world.clock)) as log:
        begin = log.topics([world.stream])[world.stream].beginnings
    pieces = [
        replace(world.slice, lane=LaneId("keep", "acme", lane), from_offset=begin[lane])
        for lane in lanes
    ]
    came = []
    for batch in world.reader.read(pieces, 10):
        came.append(batch.slice.lane.name)
        if len(came) == 2:
            others_came.set()
    assert sorted(came[:2]) == lanes[1:]
    assert came[2] == lanes[0]


def test_a_stream_that_is_gone_is_missing(world):
    world.kinesis.delete_stream(StreamName=world.stream)
    _, last = world.visit()
    assert (last.error.code, last.error.temporary) == ("TopicMissing", False)


def test_what_a_person_has_to_mend_waits(world):
    world.kinesis.refusals.append("UnrecognizedClientException")
    _, last = world.visit()
    assert (last.error.code, last.error.temporary) == ("BrokerUnavailable", True)
    assert "credentials" in last.error.message


def test_who_is_away_waits(world):
    def away(**_):
        raise ConnectionError("no route to host")

    world.kinesis.get_shard_iterator = away
    _, last = world.visit()
    assert (last.error.code, last.error.temporary) == ("BrokerUnavailable", True)


def test_records_of_a_whole_are_read_one_by_one_and_gone_on_with_in_the_middle(world):
    parts = tuple(Part(f"k{number}", b"%d" % number) for number in range(5))
    (number,) = world.put(put_together(parts))
    world.put(b"after")
    values, last = world.visit(records=2)
    assert (values, last.reached) == ([b"0", b"1"], before(number, 2))
    world.another_worker()
    values, last = world.visit(records=2, ordinal=2)
    assert values == [b"2", b"3"]
    assert last.records["key"].to_pylist() == [b"k2", b"k3"]
    assert last.records["offset"].to_pylist() == [2, 3]
    assert place_of_row(last.records, 0) == before(number, 2)
    assert world.visit(records=9)[0] == [b"4", b"after"]


def test_a_slice_may_end_in_the_middle_of_a_whole(world):
    parts = tuple(Part("k", b"%d" % number) for number in range(5))
    (number,) = world.put(put_together(parts))
    piece = replace(
        world.slice, from_offset=before(number, 1), until_offset=before(number, 3), records=2
    )
    world.clock.move(1)
    (batch,) = world.read(piece)
    assert batch.records["value"].to_pylist() == [b"1", b"2"]
    assert (batch.reached, batch.error) == (before(number, 3), None)


def test_a_broken_whole_is_a_bad_record_with_its_bytes(world):
    broken = MAGIC + b"x" * 40
    world.put(b"0")
    (number,) = world.put(broken, key="k")
    world.put(b"1")
    values, last = world.visit()
    assert values == [b"0"]
    assert (last.error.code, last.error.temporary) == ("RecordUnreadable", False)
    assert "checksum" in last.error.message
    assert (last.error.raw_key, last.error.raw_value) == (b"k", broken)
    assert (last.reached, last.error.offset, last.past) == (
        before(number),
        before(number),
        passed(number),
    )
    assert world.visit(from_offset=last.past)[0] == [b"1"]


def test_a_broken_whole_ends_no_slice_that_does_not_come_to_it(world):
    world.put(b"0", MAGIC)
    values, last = world.visit(records=1)
    assert (values, last.error) == ([b"0"], None)


def test_a_whole_with_a_record_of_another_shard_is_passed_over():
    world = World(shards=2)
    low, high = world.service.shards(world.stream)
    keys = [f"k{number}" for number in range(20)]
    mine = next(key for key in keys if hash_key_of(key) in low.keys)
    others = next(key for key in keys if hash_key_of(key) in high.keys)
    world.put(put_together((Part(mine, b"0"), Part(others, b"1"))))
    world.put(put_together((Part(mine, b"2"),)))
    assert world.visit()[0] == [b"2"]


def test_many_shards_are_read_in_the_order_they_are_given():
    world = World(shards=40)
    pieces = []
    with closing(KinesisLog(world.kinesis, world.clock)) as log:
        lanes = log.topics([world.stream])[world.stream].lanes
        starts = log.start_offsets(lanes)
    for shard, lane in zip(world.service.shards(world.stream), lanes, strict=True):
        world.put(b"%d" % shard.number, hash_key=shard.keys.first)
        place = world.slice.lane._replace(name=lane)
        pieces.append(replace(world.slice, lane=place, from_offset=starts[lane]))
    world.clock.move(1)
    batches = list(world.reader.read(pieces, 10))
    assert [batch.slice for batch in batches] == pieces
    values = [value for batch in batches for value in batch.records["value"].to_pylist()]
    assert values == [b"%d" % number for number in range(40)]
    partitions = [batch.records["partition"][0].as_py() for batch in batches]
    assert partitions == list(range(40))
