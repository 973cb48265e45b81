"""Two things at once that rarely meet: what one of them leaves is not taken for the other's."""

import sqlite3

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import BrokerUnavailable, HandlerSlow, SinkUnavailable, WorkerKilled
from headrace.model.receipts import Receipt
from headrace.model.streams import State, StreamId, Tenant
from headrace.operating.quarantine import check_skip
from headrace.operating.seeking import seek
from headrace.policies.quarantine import NARROWING
from headrace.ports import Site, WaveResult
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import Row

ACME = StreamId("keep", "acme")


def offsets(table, _context):
    return pa.table({"offset": table["offset"]})


def in_files(world):
    paths = sorted((world.folder / "out").rglob("*.parquet"))
    return sorted(o for path in paths for o in pq.ParquetFile(path).read()["offset"].to_pylist())


def serving(world, handler=offsets, **options):
    world.use_cases = [world.make(handler, **{"guarantee": "exactly-once", **options})]
    world.deploy()
    return world


def in_rows(world, handler, **options):
    """Serve by transaction; what is to be called for the rows that are there."""
    sink = SqlTable("seen", columns={"offset": "bigint", "value": "bytes"})
    serving(world, handler, sink=sink, **options)
    sink.prepare(Site(world.connections, world.store.positions))

    def rows():
        with sqlite3.connect(f"{world.folder}/store.db") as connection:
            return connection.execute('SELECT value, "offset" FROM seen ORDER BY rowid').fetchall()

    return rows


def test_a_wave_that_the_one_before_wrote_down_while_it_was_replaced_runs_again(world, monkeypatch):
    serving(world).tenant("acme")
    old = world.start(name="x", lease_s=15.0)
    world.turns(3)
    world.send("acme", 5)
    new = world.start(name="x", lease_s=15.0)
    look = world.store.progress.pending_intents

    def slow(driver=None):
        found = look(driver)
        monkeypatch.setattr(world.store.progress, "pending_intents", look)
        # The new one has looked and holds nothing yet; the old one beats later.
        world.clock.move(0.3)
        old.turn()
        world.send("acme", 2)
        return found

    monkeypatch.setattr(world.store.progress, "pending_intents", slow)
    new.turn()
    old.parts.engine.finished(0)
    world.turns(8)
    assert world.positions() == {("acme", 0): 7}
    assert in_files(world) == list(range(7))


def test_what_a_dead_driver_recorded_of_a_tenant_since_added_again_is_not_run(world):
    serving(world, order="stream").tenant("acme", 6, partitions=2)
    world.start(name="dead")
    world.driver.turn()
    added_again(world)
    world.send("acme", 6, partition=1)
    world.killed_after_writing(name="other")
    # Its last beat made it the heir.
    number = world.driver.leases.number
    (dead, _) = world.store.membership.beat("other", number)
    assert world.store.membership.adopt("other", number, dead)
    world.start(name="other")
    world.turns(40, 1.0)
    assert world.positions() == {("acme", 0): 6, ("acme", 1): 6}
    assert in_files(world) == sorted([*range(6), *range(6)])
    assert world.store.progress.pending_intents() == []


def test_what_waits_to_run_again_of_a_tenant_since_added_again_is_cut_anew(world):
    down = ["the sink"]

    def handler(table, context):
        if down:
            raise SinkUnavailable("away")
        return offsets(table, context)

    serving(world, handler).tenant("acme", 6)
    world.tenant("bolt", 6)
    world.start()
    world.turns(2)
    waiting = [
        piece.lane.tenant for _, wave in world.driver.recorded.waiting for piece in wave.slices
    ]
    assert sorted(waiting) == ["acme", "bolt"]
    assert not world.driver.board.flights
    added_again(world)
    world.send("acme", 6)
    down.clear()
    world.clock.move(60.0)
    world.driver.turn()
    # It writes, and does not live to commit it.
    world.engine.finished(0)
    world.start()
    world.turns(12, 1.0)
    assert world.positions() == {("acme", 0): 12, ("bolt", 0): 6}
    assert in_files(world) == sorted([*range(12), *range(6)])


def added_again(world):
    world.store.registry.set_tenant_state("acme", State.REMOVED)
    world.store.registry.add_tenant(Tenant("acme"))


def test_a_bad_record_behind_a_seek_lets_nobody_skip_what_is_before_it(world):
    sought = []

    def handler(table, context):
        if not sought:
            sought.append(world.store.progress.seek(ACME, {"acme.visits[0]": 4}))
        values = table["offset"].to_pylist()
        if 7 in values:
            raise context.bad_record(values.index(7), "bad")
        return pa.table({"offset": table["offset"], "value": table["value"]})

    rows = in_rows(world, handler)
    world.tenant("acme", 10)
    world.start()
    world.turns(10)
    (failure,) = world.store.failures.every(only_open=True)
    assert (failure.slice.from_offset, failure.error.offset) == (7, 7)
    check_skip(world.store, failure, whole_slice=False)
    world.store.failures.skip(failure.id)
    world.turns(10)
    assert [offset for _, offset in rows()] == [4, 5, 6, 8, 9]


def test_a_merged_lane_that_passes_a_gap_writes_nothing_for_one_whose_letter_is_not_kept(world):
    def handler(table, context):
        values = table["offset"].to_pylist()
        if 1 in values:
            raise context.bad_record(values.index(1), "bad")
        return pa.table({"offset": table["offset"], "value": table["value"]})

    rows = in_rows(world, handler, order="stream", bad_record="dead-letter")
    world.tenant("acme", partitions=2)
    world.log.append_gap("acme.visits", 0, 1)
    world.send("acme", 3, partition=1)
    world.dead_letters.fail_next(BrokerUnavailable("no broker"))
    world.start()
    world.turns(20, 1.0)
    assert world.positions() == {("acme", 0): 1, ("acme", 1): 3}
    assert [offset for _, offset in rows()] == [0, 2]
    assert len(world.dead_letters.letters) == 1


def test_what_ran_of_an_old_topic_does_not_commit_where_a_person_sent_the_lane(world):
    made_again = []

    def handler(table, _context):
        if not made_again:
            world.log.delete_topic("acme.visits")
            world.log.create_topic("acme.visits", 1)
            world.log.append("acme.visits", 0, [Row(b"new")] * 20)
            made_again.append(seek(world.store, world.log, ACME, "earliest"))
        return pa.table({"offset": table["offset"], "value": table["value"]})

    rows = in_rows(world, handler)
    world.tenant("acme", 5)
    world.start()
    world.turns(20, 5.0)
    assert rows() == [(b"new", offset) for offset in range(20)]
    assert world.positions() == {("acme", 0): 20}


def killing(monkeypatch, times, trouble=WorkerKilled):
    """Waves of which so many come back with a word about each slice that its worker died at."""
    run, left = InProcessEngine._run, [None] * times

    def killed(engine, wave):
        if not left:
            return run(engine, wave)
        left.pop()
        engine._taken.pop(wave.id, None)
        error = error_of(trouble("a worker died here"))
        told = (Receipt(piece, piece.from_offset, False, error=error) for piece in wave.slices)
        return WaveResult(wave, tuple(told), 0.0)

    monkeypatch.setattr(InProcessEngine, "_run", killed)


def test_a_recorded_slice_whose_worker_is_killed_runs_again_as_it_was(world, monkeypatch):
    serving(world).tenant("acme", 16)
    world.start()
    world.driver.turn()
    world.engine.finished(0)  # written, and killed before the commit
    world.start()
    killing(monkeypatch, 2)
    world.turns(40, 1.0)
    assert world.positions() == {("acme", 0): 16}
    assert in_files(world) == list(range(16))


def test_a_recorded_slice_that_kills_each_time_is_looked_at_more_closely(world, monkeypatch):
    serving(world).tenant("acme", 16)
    world.start()
    retries = next(iter(world.store.registry.deployments())).retries
    killing(monkeypatch, retries + 1)
    world.turns(60, 5.0)
    tried = [[piece.records for piece in wave.slices] for wave in world.engine.started]
    assert tried[: retries + 1] == [[16]] * (retries + 1)
    assert tried[retries + 1] == [2]
    assert in_files(world) == list(range(16))


def test_a_recorded_slice_that_only_took_too_long_does_not_make_the_next_ones_tiny(
    world, monkeypatch
):
    serving(world).tenant("acme", 160)
    world.start()
    killing(monkeypatch, 1, HandlerSlow)
    world.driver.turn()
    world.turns(1)
    (lane,) = world.driver.board.streams[ACME].lanes.values()
    assert lane.most_records == 160 // NARROWING


def test_merged_lanes_keep_their_order_where_one_has_only_a_gap(world):
    seen, down = [], [True]

    def handler(table, _context):
        if down:
            raise SinkUnavailable(f"{down.pop()}: the next slices are small ones")
        seen.extend(table["timestamp"].cast(pa.int64()).to_pylist())
        return offsets(table, _context)

    serving(world, handler, guarantee="at-least-once", order="stream")
    world.tenant("acme", partitions=2)
    topic = "acme.visits"
    for number in range(8):
        world.log.append_gap(topic, 0, 1)
        world.log.append(topic, 0, [Row(b"x", timestamp_ms=10 + number * 10)])
    rows = [Row(b"x", timestamp_ms=15 + number * 10) for number in range(8)]
    world.log.append(topic, 1, rows)
    world.start()
    world.turns(60, 1.0)
    assert len(seen) == 16
    assert seen == sorted(seen)
