"""Buckets are given what is their own, whatever is read for several of them at once."""

from contextlib import closing
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from headrace.model.buckets import bucket_of, divided
from headrace.model.streams import LaneId, Slice
from headrace.spark import bucket_reading
from headrace.spark.bucket_reading import BucketReader
from headrace.spark.key_hash import bucket_of_key
from headrace.spark.place_hash import bucket_of_place
from headrace.spark.row_places import places_of_rows
from headrace.testing.log_fake import MemoryLog, MemoryReader, Row
from headrace.testing.wide_log import WideReader, wide

KEYS = [None, *(b"k%d" % number for number in range(6))]


class Counting:
    """A reader that notes what it is asked."""

    def __init__(self, log):
        self.reader, self.asked = MemoryReader(log), []

    def read(self, slices, batch_records):
        self.asked.append([str(piece) for piece in slices])
        yield from self.reader.read(slices, batch_records)

    def close(self):
        """Nothing to give up."""


def piece(name, start, until):
    return Slice(LaneId("keep", "acme", name), "t", start, until, 1, records=until - start)


def filled(records, unreadable=(), partitions=1, value=b"v"):
    log = MemoryLog()
    log.create_topic("t", partitions)
    for number in range(records):
        row = Row(value, key=KEYS[number % len(KEYS)], readable=number not in unreadable)
        log.append("t", 0, [row])
    return log


def offsets(batches):
    found = {}
    for batch in batches:
        found.setdefault(batch.slice.lane.name, []).extend(batch.records["offset"].to_pylist())
    return found


def own(name, start, until):
    bucket = bucket_of(name)
    return [at for at in range(start, until) if has(bucket, at, KEYS[at % len(KEYS)])]


def has(bucket, at, key):
    number = bucket_of_place(at, bucket.of) if bucket.by_place else bucket_of_key(key, bucket.of)
    return number == bucket.number


def test_a_range_is_read_once_for_all_of_its_buckets():
    reader = Counting(filled(40))
    slices = [piece(name, 0, 40) for name in divided("t[0]", 4)]
    found = offsets(BucketReader(reader).read(slices, 100))
    assert reader.asked == [["t[0] 0..40"]]
    assert found == {name: own(name, 0, 40) for name in divided("t[0]", 4)}


def test_a_range_is_read_once_for_all_that_have_some_of_its_places():
    reader = Counting(filled(40))
    names = divided("t[0]", 4, by_place=True)
    found = offsets(BucketReader(reader).read([piece(name, 0, 40) for name in names], 100))
    assert reader.asked == [["t[0] 0..40"]]
    assert found == {name: own(name, 0, 40) for name in names}
    assert sorted(at for of in found.values() for at in of) == list(range(40))


def test_wide_places_say_which_bucket_a_record_is_in():
    log, places = filled(40), [wide(at) for at in range(41)]
    names = divided("t[0]", 4, by_place=True)
    slices = [piece(name, places[0], places[40]) for name in names]
    slices = [replace(one, records=40) for one in slices]
    found = {name: [] for name in names}
    for batch in BucketReader(WideReader(MemoryReader(log))).read(slices, 100):
        found[batch.slice.lane.name] += places_of_rows(batch.records).tolist()
    assert found == {
        name: [at for at in places[:40] if bucket_of_place(at, 4) == number]
        for number, name in enumerate(names)
    }


@pytest.mark.parametrize("by_place", [True, False])
@pytest.mark.parametrize("held", [1, 10**9])
def test_where_records_have_ordinals_each_bucket_counts_its_own(by_place, held, monkeypatch):
    """As its place counts what it passed: else numbers would come again, and newest be older."""
    monkeypatch.setattr(bucket_reading, "HELD_BYTES", held)
    log, names = filled(40), divided("t[0]", 4, by_place=by_place)
    found = {name: [] for name in names}
    for start, until in ((0, 20), (20, 40)):
        slices = [replace(piece(name, wide(start), wide(until)), records=20) for name in names]
        slices = [replace(one, ordinal=len(found[one.lane.name])) for one in slices]
        for batch in BucketReader(WideReader(MemoryReader(log))).read(slices, 7):
            found[batch.slice.lane.name] += batch.records["offset"].to_pylist()
    assert found == {name: list(range(len(of))) for name, of in found.items()}
    assert sum(map(len, found.values())) == 40


def test_buckets_of_keys_and_of_places_are_told_apart():
    names = [divided("t[0]", 4)[1], divided("t[0]", 4, by_place=True)[1]]
    slices = [piece(name, 0, 40) for name in names]
    found = offsets(BucketReader(Counting(filled(40))).read(slices, 100))
    assert found == {name: own(name, 0, 40) for name in names}


def test_ranges_that_do_not_meet_are_read_by_themselves():
    reader = Counting(filled(60))
    names = divided("t[0]", 3)
    slices = [piece(names[0], 0, 20), piece(names[1], 40, 60), piece(names[2], 10, 30)]
    found = offsets(BucketReader(reader).read(slices, 100))
    assert reader.asked == [["t[0] 0..30"], ["t[0] 40..60"]]
    assert found[names[2]] == own(names[2], 10, 30)


def test_whole_lanes_are_read_as_ever():
    reader = Counting(filled(9))
    (batch,) = BucketReader(reader).read([piece("t[0]", 0, 9)], 100)
    assert (reader.asked, batch.records.num_rows) == ([["t[0] 0..9"]], 9)


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(bucket_reading, "HELD_BYTES", 500)
    reader = Counting(filled(100))
    slices = [piece(name, 0, 100) for name in divided("t[0]", 2)]
    found = offsets(BucketReader(reader).read(slices, 10))
    assert found == {name: own(name, 0, 100) for name in divided("t[0]", 2)}
    # What was read for both is not read again; the rest is, by each of them.
    assert len(reader.asked) == 3
    assert all(asked[0] != "t[0] 0..100" for asked in reader.asked[1:])


class Once:
    """A reader of large records that keeps nothing of what it gives."""

    def __init__(self, log):
        self._reader = MemoryReader(log)

    def read(self, slices, batch_records):
        return map(as_it_is, self._reader.read(slices, batch_records))

    def close(self):
        """Nothing to give up."""


def as_it_is(batch):
    return batch


def test_of_what_is_read_for_several_buckets_each_record_is_held_once():
    log, names = filled(40, value=b"v" * 1_000_000), divided("t[0]", 4)
    before = pa.total_allocated_bytes()
    held = [
        pa.total_allocated_bytes() - before
        for _ in BucketReader(Once(log)).read([piece(name, 0, 40) for name in names], 100)
    ]
    assert len(held) == 4
    assert max(held) < 1.5 * 40 * 1_000_000


@pytest.mark.parametrize("by_place", [True, False])
def test_a_record_that_no_reader_hands_out_stops_its_own_bucket(by_place):
    log = filled(30, unreadable={11})
    names = divided("t[0]", 4, by_place=by_place)
    batches = list(BucketReader(MemoryReader(log)).read([piece(n, 0, 30) for n in names], 100))
    ended = {batch.slice.lane.name: batch for batch in batches if batch.last}
    (stopped,) = [n for n in names if has(bucket_of(n), 11, KEYS[11 % len(KEYS)])]
    assert {name for name, batch in ended.items() if batch.error} == {stopped}
    assert (ended[stopped].reached, ended[stopped].error.offset) == (11, 11)
    for name in set(names) - {stopped}:
        assert ended[name].reached == 30
        assert offsets(batches)[name] == own(name, 0, 30)


def test_what_stops_a_reader_stops_all_that_it_reads_together():
    log = filled(30)
    log.set_leader("t", 0, False)
    names = divided("t[0]", 2)
    found = list(BucketReader(MemoryReader(log)).read([piece(n, 0, 30) for n in names], 100))
    assert [(batch.slice.lane.name, batch.reached, batch.error.code) for batch in found] == [
        (name, 0, "LeaderUnknown") for name in names
    ]


def test_to_close_it_early_leaves_it_usable():
    reader = BucketReader(MemoryReader(filled(30)))
    slices = [piece(name, 0, 30) for name in divided("t[0]", 2)]
    with closing(reader.read(slices, 3)) as batches:
        next(batches)
    assert offsets(reader.read(slices, 3)) == {n: own(n, 0, 30) for n in divided("t[0]", 2)}


@pytest.mark.parametrize("seed", range(150))
def test_whatever_is_read_each_bucket_has_its_own_in_order(seed, monkeypatch):
    random = Random(seed)
    monkeypatch.setattr(bucket_reading, "HELD_BYTES", random.choice([1, 2_000, 10**9]))
    log, slices = _drawn(random)
    batch_records = random.choice([1, 3, 1000])
    found, ended, running = {}, {}, None
    for batch in BucketReader(MemoryReader(log)).read(slices, batch_records):
        assert running in (None, batch.slice)
        assert batch.slice not in ended
        assert batch.records.num_rows <= batch_records
        running = None if batch.last else batch.slice
        rows = found.setdefault(batch.slice, [])
        rows += batch.records["offset"].to_pylist()
        assert all(at < batch.reached for at in rows)
        if batch.last:
            ended[batch.slice] = (batch.reached, batch.error and batch.error.offset)
    assert set(ended) == set(slices)
    for one in slices:
        wanted, stop = _wanted(log, one)
        assert found[one] == wanted
        assert ended[one] == ((one.until_offset, None) if stop is None else (stop, stop))


def _drawn(random):
    log = MemoryLog()
    log.create_topic("t", 2)
    slices, buckets = [], random.choice([2, 3, 5])
    for partition in range(2):
        for _ in range(random.randint(0, 60)):
            if random.random() < 0.1:
                log.append_gap("t", partition, 1)
            else:
                row = Row(b"v", key=random.choice(KEYS), readable=random.random() > 0.04)
                log.append("t", partition, [row])
        end = log.edges("t", partition).stop
        for name in divided(f"t[{partition}]", buckets, by_place=random.random() < 0.5):
            start = random.randint(0, end)
            bounds = (0, end) if random.random() < 0.3 else (start, random.randint(start, end))
            slices.append(piece(name, *bounds))
    random.shuffle(slices)
    return log, slices


def _wanted(log, one):
    """The offsets of a bucket's slice, and the record that stops it."""
    bucket, found = bucket_of(one.lane.name), []
    whole = piece(bucket.lane, one.from_offset, one.until_offset)
    for at, row in log.rows(whole) if not whole.is_empty else ():
        if has(bucket, at, row.key):
            if not row.readable:
                return found, at
            found.append(at)
    return found, None
