"""A recorded wave is of many tenants: what becomes of one of them costs the others nothing.

By intent everything hangs on what stays written down: a slice that is forgotten too early leaves
its effects twice, one that is kept too long holds its lane for ever.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from with_parts import WithParts

from headrace.errors import (
    ConfigError,
    Fenced,
    OffsetOutOfRange,
    OutcomeUnknown,
    SinkUnavailable,
    StoreUnavailable,
    TopicMissing,
)
from headrace.model.streams import DataLossPolicy, LaneId, State, StreamId, Tenant
from headrace.model.waves import planned_id
from headrace.operating.seeking import seek
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import Row


class Stumbling:
    """A store that does not answer one call, made or not."""

    def __init__(self, whole, stumbles=None):
        self._whole = whole
        self.stumbles = {} if stumbles is None else stumbles

    def __getattr__(self, name):
        whole = getattr(self._whole, name)
        if name in ("failures", "progress"):
            return Stumbling(whole, self.stumbles)
        if name not in self.stumbles:
            return whole

        def call(*args, **options):
            when = self.stumbles.pop(name, None)
            if when == "before":
                raise StoreUnavailable("it does not answer")
            answer = whole(*args, **options)
            if when == "after":
                raise OutcomeUnknown("its answer was lost")
            return answer

        return call


def offsets(table, _context):
    return pa.table({"offset": table["offset"]})


def down_and_up(*tenants):
    """What makes a sink unavailable as long as something is in it, for some or for all."""
    down = [True]

    def handler(table, context):
        if down and (not tenants or context.tenant in tenants):
            raise SinkUnavailable("down")
        return offsets(table, context)

    return down, handler


def effects(world, tenant):
    """Offsets that the tenant's files have."""
    paths = sorted((world.folder / "out").rglob("*.parquet"))
    mine = [path for path in paths if f"tenant={tenant}" in path.parts]
    return sorted(o for path in mine for o in pq.ParquetFile(path).read()["offset"].to_pylist())


def values(table, _context):
    return pa.table({"value": table["value"]})


def written(world, tenant):
    """Values that the tenant's files have."""
    paths = sorted((world.folder / "out" / f"tenant={tenant}").glob("*.parquet"))
    return [value for path in paths for value in pq.ParquetFile(path).read()["value"].to_pylist()]


def serving(world, handler=offsets, tenants="abc", **options):
    world.use_cases = [world.make(handler, guarantee="exactly-once", **options)]
    world.deploy()
    for name in tenants:
        world.tenant(name, 5)
    return world


def is_free(world, tenant):
    return world.driver.board.lane(LaneId("keep", tenant, f"{tenant}.visits[0]")).wave is None


@pytest.mark.parametrize(
    ("call", "when"),
    [("keep", "before"), ("keep", "after"), ("finish_intent", "after")],
)
def test_a_tenant_that_stops_stops_nobody_else_when_the_store_stumbles(world, call, when):
    def handler(table, context):
        if context.tenant == "a":
            raise context.bad_record(0, "bad")
        return offsets(table, context)

    serving(world, handler)
    world.store = Stumbling(world.store)
    world.start()
    world.store.stumbles[call] = when
    world.turns(6)
    world.send("b", 20)
    world.turns(20, 1.0)
    assert world.positions() == {("a", 0): 0, ("b", 0): 25, ("c", 0): 5}


def test_a_lane_that_was_sought_while_its_wave_ran_holds_up_nobody(world):
    sought = []

    def handler(table, context):
        if context.tenant == "a":
            raise context.bad_record(0, "bad")
        if context.tenant == "c" and not sought:
            sought.append(world.store.progress.seek(StreamId("keep", "c"), {"c.visits[0]": 2}))
        return offsets(table, context)

    serving(world, handler).start()
    world.turns(6)
    for name in "bc":
        world.send(name, 20)
    world.turns(20, 1.0)
    assert world.positions() == {("a", 0): 0, ("b", 0): 25, ("c", 0): 25}
    assert world.store.progress.pending_intents() == []


def test_a_lane_sought_to_where_its_recorded_slice_begins_runs_that_slice_and_no_other(world):
    sought, calls = [], []

    def handler(table, context):
        calls.append((context.tenant, table["offset"].to_pylist()))
        if context.tenant == "c" and not sought:
            sought.append(world.store.progress.seek(StreamId("keep", "c"), {"c.visits[0]": 0}))
            world.send("c", 20)
        return offsets(table, context)

    serving(world, handler).start()
    world.turns(20, 1.0)
    assert [seen for tenant, seen in calls if tenant == "c"][:2] == [list(range(5))] * 2
    assert effects(world, "c") == list(range(25))
    assert world.store.progress.pending_intents() == []


def test_a_lane_that_a_replay_does_not_need_is_free(world):
    serving(world).killed_after_writing()
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 2})
    world.start()
    world.turns(5)
    assert is_free(world, "a")
    world.send("a", 20)
    world.turns(20, 1.0)
    assert world.positions()["a", 0] == 25


def test_who_was_replaced_takes_nothing_from_its_successors_record(world):
    down, handler = down_and_up()
    first = serving(world, handler).start()
    world.driver.turn()
    # Its wave came back, and then it slept.
    first._results += world.engine.finished(0)
    down.clear()
    world.killed_after_writing()
    with pytest.raises(Fenced):
        first.turn()
    for name in "abc":
        world.send(name, 7)
    world.start()
    world.turns(6)
    assert all(effects(world, name) == list(range(12)) for name in "abc")


def test_a_neighbour_that_is_added_again_makes_nobody_forget(world, monkeypatch):
    serving(world).killed_after_writing()
    monkeypatch.setattr("headrace.spark.task.GROUP_S", -1)
    seen, again = [], []

    def handler(table, context):
        seen.append(context.tenant)
        if len(seen) == 1:
            # Of the others one begins afresh, and the bin has no time for both.
            again.append(min(set("abc") - set(seen)))
            world.store.registry.set_tenant_state(again[0], State.REMOVED)
            world.store.registry.add_tenant(Tenant(again[0]))
            monkeypatch.setattr("headrace.spark.task.time", Hurried())
        return offsets(table, context)

    world.use_cases = [world.make(handler, guarantee="exactly-once")]
    for name in "abc":
        world.send(name, 7)
    world.start()
    world.turns(2)
    monkeypatch.undo()
    world.use_cases = [world.make(offsets, guarantee="exactly-once")]
    world.start()
    world.turns(12, 1.0)
    assert all(effects(world, name) == list(range(12)) for name in set("abc") - set(again))
    assert set(effects(world, again[0])) == set(range(12))


class Hurried:
    """A clock on which every look is ten seconds after the last."""

    def __init__(self):
        self._now_s = 10**9

    def monotonic(self):
        self._now_s += 10
        return self._now_s


def test_merged_lanes_keep_their_order_when_an_answer_is_lost(world):
    seen = []

    def handler(table, _context):
        seen.extend(table["timestamp"].cast(pa.int64()).to_pylist())
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(handler, guarantee="exactly-once", order="stream")]
    world.deploy()
    world.tenant("a", 0, partitions=2)
    for partition, first_ms in ((0, 1000), (1, 5000)):
        rows = [Row(b"x", timestamp_ms=first_ms + at) for at in range(600)]
        world.log.append("a.visits", partition, rows)
    world.store = Stumbling(world.store)
    world.start()
    world.store.stumbles["finish_intent"] = "after"
    world.turns(40)
    assert world.positions() == {("a", 0): 600, ("a", 1): 600}
    assert seen == sorted(seen)


def test_nothing_runs_on_a_topic_that_was_made_again_until_a_person_came(world):
    down, seen = [], []

    def handler(table, _context):
        if down:
            raise SinkUnavailable("down")
        seen.extend(table["value"].to_pylist())
        return pa.table({"offset": table["offset"]})

    serving(world, handler, tenants="").tenant("a", 0)
    world.log.append("a.visits", 0, [Row(b"old")] * 10)
    world.start()
    world.turns(6)
    down.append(True)
    world.log.append("a.visits", 0, [Row(b"old")] * 5)
    world.turns(3)
    world.log.delete_topic("a.visits")
    world.log.create_topic("a.visits", 1)
    world.log.append("a.visits", 0, [Row(b"new")] * 30)
    world.turns(40, 1.0)
    down.clear()
    world.turns(40, 1.0)
    assert world.row("a").state == "suspended"
    assert seen == [b"old"] * 10
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 0})
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.ACTIVE)
    world.turns(40, 1.0)
    assert seen == [b"old"] * 10 + [b"new"] * 30


def made_again(world, tenant, records):
    world.log.delete_topic(f"{tenant}.visits")
    world.log.create_topic(f"{tenant}.visits", 1)
    world.send(tenant, records)


def with_a_recorded_slice_of(world, data_loss, records, begins_at=0):
    """Recorded and not done, its sink being down, when the topic is made again."""
    down, handler = down_and_up("a")
    down.clear()
    world.use_cases = [world.make(handler, guarantee="exactly-once")]
    world.deploy(data_loss=data_loss)
    for name in "ab":
        world.tenant(name, begins_at)
    world.start()
    world.turns(8)
    down.append(True)
    world.send("a", 5)
    world.turns(3)
    assert len(world.store.progress.pending_intents()) == 1
    made_again(world, "a", records)
    world.turns(40, 1.0)
    down.clear()
    return world


def test_a_recorded_slice_that_a_new_topic_is_too_short_for_holds_its_lane_no_more(world):
    with_a_recorded_slice_of(world, DataLossPolicy.FAIL, 2)
    assert world.row("a").state == "suspended"
    seek(world.store, world.log, StreamId("keep", "a"), "earliest")
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.ACTIVE)
    world.turns(80, 1.0)
    assert world.positions()["a", 0] == 2
    assert world.store.progress.pending_intents() == []


def test_a_skip_does_not_wait_for_a_recorded_slice_that_waits_for_it(world):
    with_a_recorded_slice_of(world, DataLossPolicy.SKIP, 3, begins_at=4)
    world.turns(60, 1.0)
    assert world.positions()["a", 0] == 3
    assert world.store.progress.pending_intents() == []


def test_a_recorded_slice_that_waits_does_not_keep_a_tenant_from_beginning_afresh(world):
    down, handler = down_and_up()
    serving(world, handler, tenants="ab").start()
    world.turns(60)
    while world.driver.board.flights:
        world.turns(1)
    assert world.store.progress.pending_intents()
    assert not is_free(world, "a")
    world.store.registry.set_tenant_state("a", State.REMOVED)
    world.store.registry.add_tenant(Tenant("a"))
    world.turns(2)
    down.clear()
    world.turns(60, 1.0)
    assert world.positions() == {("a", 0): 5, ("b", 0): 5}
    assert effects(world, "a") == list(range(5))


@pytest.mark.parametrize("removed", ["before", "while no driver runs", "while it is suspended"])
def test_what_a_removed_stream_owes_is_not_taken_from_a_topic_that_was_made_again(world, removed):
    """Its file would be written over, with records of whoever has the name now."""
    stream = StreamId("keep", "a")
    serving(world, values, tenants="ab").killed_after_writing()
    if removed == "before":
        world.store.registry.set_stream_state(stream, State.REMOVED)
    world.log.delete_topic("a.visits")
    world.log.create_topic("a.visits", 1)
    world.log.append("a.visits", 0, [Row(b"another's")] * 9)
    if removed == "while no driver runs":
        world.store.registry.set_stream_state(stream, State.REMOVED)
    world.start()
    world.turns(40, 1.0)
    if removed == "while it is suspended":
        assert world.row("a").state == "suspended"
        world.store.registry.set_stream_state(stream, State.REMOVED)
        world.turns(10, 1.0)
    assert written(world, "a") == [b"x"] * 5
    assert world.store.progress.pending_intents() == []
    assert world.positions() == {("a", 0): 0, ("b", 0): 5}


def test_a_recorded_slice_is_not_run_on_the_topic_that_was_made_again(world):
    world.use_cases = [world.make(offsets, guarantee="exactly-once")]
    world.deploy(data_loss=DataLossPolicy.SKIP)
    for tenant in "ab":
        world.tenant(tenant, 5)
    world.killed_after_writing()
    (before,) = world.store.progress.pending_intents()
    made_again(world, "a", 9)
    world.start()
    world.turns(40, 1.0)
    again = [wave for wave in world.engine.started if planned_id(wave.id) == before.id]
    assert {piece.lane.tenant for wave in again for piece in wave.slices} == {"b"}
    assert (world.positions()["a", 0], world.positions()["b", 0]) == (9, 5)


def test_a_removed_tenant_waits_for_no_records_of_another_topic(world):
    def handler(table, context):
        raise SinkUnavailable("down")

    serving(world, handler, tenants="ab").start()
    world.turns(3)
    world.store.registry.set_tenant_state("a", State.REMOVED)
    made_again(world, "a", 2)
    world.use_cases = [world.make(offsets, guarantee="exactly-once")]
    world.start()
    world.turns(40, 1.0)
    assert world.store.progress.pending_intents() == []


def test_a_removed_tenant_that_was_to_change_hands_leaves_nothing_recorded(world):
    down, handler = down_and_up()
    serving(world, handler, tenants="ab").start()
    world.driver.turn()
    held = world.driver.board.streams[StreamId("keep", "a")]
    assert not world.driver.observer._let_go(held, "another driver is to have it")
    world.store.registry.set_tenant_state("a", State.REMOVED)
    world.turns(3)
    assert world.store.progress.pending_intents() != []
    down.clear()
    world.turns(40, 1.0)
    assert world.store.progress.pending_intents() == []


def test_a_slice_waits_as_it_was_for_what_only_a_person_mends(world):
    serving(world, tenants="a").killed_after_writing()
    locked = [True]

    def handler(table, context):
        if locked:
            raise ConfigError("the warehouse may not be written")
        return offsets(table, context)

    world.use_cases = [world.make(handler, guarantee="exactly-once")]
    world.start()
    world.turns(5)
    world.send("a", 7)
    (failure,) = world.store.failures.every(only_open=True)
    locked.clear()
    world.store.failures.retry(failure.id)
    world.turns(20, 1.0)
    assert effects(world, "a") == list(range(12))


class Late:
    """Progress whose first record of a wave is seen when somebody waits for its locks."""

    def __init__(self, progress):
        self._progress = progress
        self._asked, self._late = 0, None

    def __getattr__(self, name):
        return getattr(self._progress, name)

    def record_intent(self, wave, driver):
        self._asked += 1
        if self._asked == 1:
            self._late = wave
            raise OutcomeUnknown("its answer was lost, and its commit takes its time")
        if self._asked == 2:
            self._progress.record_intent(self._late, driver)
        return self._progress.record_intent(wave, driver)


def test_a_wave_whose_record_is_seen_late_is_the_only_one_of_its_lanes(world):
    serving(world, tenants="a")
    world.store = WithParts(world.store, progress=Late(world.store.progress))
    world.start()
    world.turns(1)
    world.send("a", 7)
    world.driver.turn()
    assert len(world.store.progress.pending_intents()) == 1
    world.turns(6)
    assert world.store.progress.pending_intents() == []
    assert effects(world, "a") == list(range(12))


def test_a_wave_that_is_divided_often_has_a_name_that_a_store_takes(world):
    """One tenant after the other is suspended while their common wave fails as a whole."""
    tenants = [f"t{number:02}" for number in range(30)]
    serving(world, tenants=tenants).start()
    world.engine.accidents = ["before"] * 1000
    world.turns(3)
    for name in tenants:
        world.store.registry.set_stream_state(StreamId("keep", name), State.SUSPENDED)
        world.turns(2, 1.0)
    names = {wave.id for wave in world.store.progress.pending_intents()}
    assert len(names) > 20
    assert max(map(len, names)) < 40
    world.engine.accidents.clear()
    for name in tenants:
        world.store.registry.set_stream_state(StreamId("keep", name), State.ACTIVE)
    world.turns(40, 1.0)
    assert all(effects(world, name) == list(range(5)) for name in tenants)
    assert world.store.progress.pending_intents() == []
    assert world.driver.recorded._known == {}


def test_a_tenant_that_takes_executors_with_it_does_not_hold_up_others_for_ever(world, monkeypatch):
    """An executor that dies blames nobody, so all that is known is that the wave is lost."""
    whole = InProcessEngine._run

    def run(engine, wave):
        if any(piece.lane.tenant == "a" for piece in wave.slices):
            engine.cancel(wave.id)
            engine._cancelled.add(wave.id)
        return whole(engine, wave)

    monkeypatch.setattr(InProcessEngine, "_run", run)
    serving(world, tenants="abcdefghijkl").start()
    world.turns(120, 1.0)
    positions = world.positions()
    assert positions.pop(("a", 0)) == 0
    assert set(positions.values()) == {5}


@pytest.mark.parametrize("end", [0, 3])
def test_a_leader_that_is_cut_off_makes_nobody_forget_what_was_recorded(world, end):
    serving(world, tenants="ab").killed_after_writing()
    world.log.cut_off("a.visits", 0, end, replaced=False)
    world.start()
    world.turns(15, 1.0)
    world.log.replace_leader("a.visits", 0)
    world.send("a", 7)
    world.turns(20, 1.0)
    assert effects(world, "a") == list(range(12))
    assert world.store.progress.pending_intents() == []


def test_a_log_that_stays_too_short_for_a_recorded_slice_holds_its_lane_no_more(world):
    serving(world, tenants="ab").killed_after_writing()
    world.log.truncate("a.visits", 0, 3)
    world.start()
    world.turns(15, 1.0)
    assert world.positions() == {("a", 0): 0, ("b", 0): 5}
    world.turns(15, 1.0)
    assert world.positions() == {("a", 0): 3, ("b", 0): 5}
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("loss", ["retention", "cut"])
def test_merged_lanes_keep_their_order_when_a_log_loses_some_of_a_recorded_slice(world, loss):
    seen, down = [], [True]

    def handler(table, _context):
        if down:
            raise SinkUnavailable("down")
        seen.extend(table["timestamp"].cast(pa.int64()).to_pylist())
        return pa.table({"offset": table["offset"]})

    world.use_cases = [world.make(handler, guarantee="exactly-once", order="stream")]
    world.deploy(data_loss=DataLossPolicy.SKIP)
    world.tenant("a", 0, partitions=2)
    for partition, first_ms in ((0, 1000), (1, 1005)):
        rows = [Row(b"x", timestamp_ms=first_ms + 10 * at) for at in range(5)]
        world.log.append("a.visits", partition, rows)
    world.start()
    world.turns(4)
    if loss == "retention":
        world.log.expire("a.visits", 0, 3)
    else:
        world.log.truncate("a.visits", 0, 3)
    world.start()
    down.clear()
    world.turns(60, 1.0)
    left = [1030, 1040] if loss == "retention" else [1000, 1010, 1020]
    assert seen == sorted([*left, 1005, 1015, 1025, 1035, 1045])
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("to", [0, 3, 7])
def test_merged_lanes_keep_their_order_when_one_of_them_is_sought(world, to):
    seen, down = [], []

    def handler(table, _context):
        if down:
            raise SinkUnavailable("down")
        seen.extend(table["timestamp"].cast(pa.int64()).to_pylist())
        return pa.table({"offset": table["offset"]})

    def send(first):
        for partition in (0, 1):
            stamps = [1000 + 10 * at + 5 * partition for at in range(first, first + 5)]
            world.log.append("a.visits", partition, [Row(b"x", timestamp_ms=ms) for ms in stamps])

    world.use_cases = [world.make(handler, guarantee="exactly-once", order="stream")]
    world.deploy()
    world.tenant("a", 0, partitions=2)
    send(0)
    world.start()
    world.turns(10)
    down.append(True)
    send(5)
    world.turns(4)
    assert world.store.progress.pending_intents()
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[1]": to})
    world.start()
    down.clear()
    seen.clear()
    world.turns(40, 1.0)
    assert seen == sorted([1050, 1060, 1070, 1080, 1090, *(1005 + 10 * at for at in range(to, 10))])


@pytest.mark.parametrize("error", [OffsetOutOfRange, TopicMissing])
def test_a_broker_that_lacks_a_recorded_slice_for_a_moment_makes_nobody_forget_it(
    world, monkeypatch, error
):
    serving(world, tenants="ab").killed_after_writing()
    world.start()
    whole = world.log.rows

    def rows(piece):
        if piece.lane.tenant == "a":
            raise error("a broker that is cut off does not have it")
        return whole(piece)

    monkeypatch.setattr(world.log, "rows", rows)
    world.turns(2)
    monkeypatch.undo()
    world.send("a", 7)
    world.turns(30, 1.0)
    assert effects(world, "a") == list(range(12))
    assert world.store.progress.pending_intents() == []
