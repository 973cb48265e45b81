"""A recorded wave is run and judged by what it began under, however its use case is deployed since.

By intent a wave has to run again as it was: merged otherwise, cut anew or sent elsewhere, its
records would have effects beside those that it may have left already.
"""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from with_parts import WithParts

from headrace.cycle.versions import SPARE_TERMS
from headrace.errors import SinkUnavailable
from headrace.model.streams import Order, State, StreamId
from headrace.sinks import ParquetFiles, SqlTable

TABLE = SqlTable("taken", columns={"offset": "bigint"})
#: a folder with the columns that it takes, which may become more
FILES = ParquetFiles("out", schema=pa.schema([("offset", pa.int64())]))


def offsets(table, _context):
    return pa.table({"offset": table["offset"]})


def effects(world, tenant, folder="out"):
    """Offsets that the tenant's files have."""
    paths = sorted((world.folder / folder).rglob("*.parquet"))
    mine = [path for path in paths if f"tenant={tenant}" in path.parts]
    return sorted(o for path in mine for o in pq.ParquetFile(path).read()["offset"].to_pylist())


def deploy(world, handler=offsets, guarantee="exactly-once", **options):
    """The use case as it is from now on, for a driver that runs and for those to come."""
    world.use_cases = [world.make(handler, guarantee=guarantee, **options)]
    world.deploy()
    if world.driver is not None:
        (use_case,) = world.use_cases
        (deployment,) = world.store.registry.deployments()
        world.engine.take(use_case, deployment)
        world.driver.take(use_case, deployment)


def recorded(world, tenants="ab", partitions=1, **options):
    """A running driver whose wave has left its effects, and nobody heard of it."""
    deploy(world, **options)
    for name in tenants:
        world.tenant(name, 5, partitions)
        for number in range(1, partitions):
            world.send(name, 5, number)
    world.start()
    world.engine.accidents = ["after"]
    world.turns(1)
    assert world.driver.board.flights
    world.engine.paused = True
    more(world, tenants, partitions)
    return world


def more(world, tenants="ab", partitions=1):
    for name in tenants:
        for number in range(partitions):
            world.send(name, 7, number)


#: what becomes of the driver while the use case is deployed otherwise
@pytest.fixture(params=["runs on", "is started anew"])
def go_on(request):
    def go(world, turns=40):
        if request.param == "runs on":
            world.engine.paused = False
        else:
            world.engine.paused = False
            world.engine.finished(0)
            world.start()
        world.turns(turns, 1.0)

    return go


CHANGES = {
    "order": ({}, {"order": "stream"}),
    "order, back": ({"order": "stream"}, {}),
    "guarantee": ({}, {"guarantee": "at-least-once"}),
    "guarantee, to the least": ({}, {"guarantee": "at-most-once"}),
    "both": ({"order": "stream"}, {"guarantee": "at-least-once"}),
    "columns": ({"sink": FILES}, {"sink": replace(FILES, schema=None)}),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_what_was_recorded_runs_as_it_was_where_the_sink_is_the_same(world, go_on, before, after):
    recorded(world, partitions=2, **before)
    deploy(world, **after)
    go_on(world)
    assert set(world.positions().values()) == {12}
    assert all(effects(world, name) == sorted([*range(12), *range(12)]) for name in "ab")
    assert world.store.progress.pending_intents() == []


def but_the_third(table, context):
    for row, offset in enumerate(table["offset"].to_pylist()):
        if offset == 2:
            raise context.bad_record(row, "no")
    return offsets(table, context)


@pytest.mark.parametrize("after", ["suspend", "fail", "dead-letter"])
def test_a_bad_record_of_what_was_recorded_becomes_what_it_was_to_become(world, go_on, after):
    """Its effect is there without the record; that of a slice cut before it would be beside it."""
    recorded(world, handler=but_the_third, bad_record="dead-letter")
    deploy(world, handler=but_the_third, bad_record=after)
    go_on(world)
    assert set(world.positions().values()) == {12}
    assert all(effects(world, name) == [0, 1, *range(3, 12)] for name in "ab")
    assert world.store.failures.every() == []


def none_of_them(table, context):
    raise context.bad_record(0, "no")


def test_what_is_set_aside_in_the_end_is_not_in_a_file_of_the_lost_attempt_as_well(world, go_on):
    """Its letter may be sent back, and would have its effect once more."""
    recorded(world, bad_record="dead-letter")
    deploy(world, handler=none_of_them, bad_record="dead-letter")
    go_on(world)
    letters = [letter.slice.lane.tenant for letter in world.dead_letters.letters]
    assert (letters.count("a"), letters.count("b")) == (12, 12)
    assert effects(world, "a") == effects(world, "b") == []


def test_a_record_that_does_not_tell_of_bad_records_runs_as_its_use_case_is_now(world):
    recorded(world)
    world.engine.paused = False
    world.engine.finished(0)
    silent = Earlier(world.store.progress, lambda terms: replace(terms, bad_record=None))
    world.store = WithParts(world.store, progress=silent)
    deploy(world, bad_record="dead-letter")
    world.start()
    world.turns(20, 1.0)
    assert all(effects(world, name) == list(range(12)) for name in "ab")
    assert world.store.progress.pending_intents() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_wave_in_flight_is_judged_by_what_it_began_under(world, when):
    """It was not written down, so nothing waits for a record of it."""
    recorded(world, guarantee="at-least-once")
    world.engine.accidents = [when]
    deploy(world)
    world.engine.paused = False
    world.turns(20, 1.0)
    twice = [*range(5), *range(12)] if when == "after" else list(range(12))
    assert all(effects(world, name) == sorted(twice) for name in "ab")


def test_a_driver_that_had_the_other_sink_ends_there_what_it_began_there(world):
    recorded(world)
    deploy(world, sink=ParquetFiles("other"))
    world.engine.paused = False
    world.turns(40, 1.0)
    for name in "ab":
        assert effects(world, name) == list(range(5))
        assert effects(world, name, "other") == list(range(5, 12))
    assert world.store.progress.pending_intents() == []


def test_a_sink_that_moves_positions_itself_does_not_get_what_was_recorded(world):
    recorded(world, tenants="a")
    deploy(world, sink=TABLE)
    world.engine.paused = False
    TABLE.prepare(world.site())
    world.turns(40, 1.0)
    assert world.positions() == {("a", 0): 12}
    assert effects(world, "a") == list(range(5))
    assert world.store.progress.pending_intents() == []


def test_a_suspended_tenant_keeps_its_version_and_holds_up_nobody(world):
    recorded(world)
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.SUSPENDED)
    deploy(world, sink=ParquetFiles("other"))
    world.engine.paused = False
    world.turns(40, 1.0)
    more(world)
    world.turns(40, 1.0)
    assert world.positions() == {("a", 0): 0, ("b", 0): 19}
    assert effects(world, "b", "other") == list(range(5, 19))
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.ACTIVE)
    world.turns(40, 1.0)
    assert effects(world, "a") == list(range(5))
    assert effects(world, "a", "other") == list(range(5, 19))


def test_versions_that_nothing_needs_are_let_go(world):
    recorded(world)
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.SUSPENDED)
    world.engine.paused = False
    for number in range(20):
        deploy(world, sink=ParquetFiles(f"out-{number}"))
        world.turns(1, 1.0)
    kept = [terms for _, terms in world.engine._works if terms is not None]
    # What a's record needs, and the last few.
    assert {version_terms.sink for version_terms in kept} == {
        "ParquetFiles(folder='out')",
        *(f"ParquetFiles(folder='out-{number}')" for number in range(20 - SPARE_TERMS, 20)),
    }
    assert len(world.driver.versions._under) == len(kept) == SPARE_TERMS + 1
    world.store.registry.set_stream_state(StreamId("keep", "a"), State.ACTIVE)
    world.turns(40, 1.0)
    assert effects(world, "a") == list(range(5))
    assert effects(world, "a", "out-19") == list(range(5, 12))


def test_what_another_drivers_record_needs_is_kept(world):
    """It is inherited should that driver die."""
    recorded(world)
    (wave,) = world.store.progress.pending_intents()
    others = [replace(wave, id="other", terms=replace(wave.terms, order=Order.STREAM))]
    world.store = WithParts(world.store, progress=Also(world.store.progress, others))
    world.driver.parts = replace(world.driver.parts, store=world.store)
    deploy(world, order="stream", sink=FILES)
    for number in range(10):
        deploy(world, sink=ParquetFiles(f"out-{number}"))
        world.turns(1, 1.0)
    orders = {
        version_terms.order
        for _, version_terms in world.driver.versions._under
        if "'out'" in version_terms.sink
    }
    assert orders == {Order.LANE, Order.STREAM}


class Also:
    """Progress of a store in which somebody else has waves written down too."""

    def __init__(self, progress, waves):
        self._progress, self._waves = progress, waves

    def __getattr__(self, name):
        return getattr(self._progress, name)

    def pending_intents(self, driver=None):
        found = self._progress.pending_intents(driver)
        return found if driver is not None else found + self._waves


def elsewhere(world, **options):
    """A new driver, of a use case that has another sink than what was recorded."""
    recorded(world, tenants="a")
    world.engine.paused = False
    world.engine.finished(0)
    deploy(world, sink=ParquetFiles("other"), **options)
    world.tenant("b", 5)
    world.start()
    world.turns(20, 1.0)
    return world


def test_who_never_had_the_other_sink_waits_and_says_why_and_nobody_else_does(world):
    elsewhere(world)
    row = world.row("a")
    assert row.state == "waiting"
    for told in ("folder='out'", "folder='other'", "deploy keep again", "streams seek a/keep"):
        assert told in row.note
    assert world.row("b").state == "active"
    assert world.positions() == {("a", 0): 0, ("b", 0): 5}
    assert effects(world, "a", "other") == []
    assert world.driver.idle


def test_who_did_not_take_what_is_deployed_says_so_and_not_to_deploy_it_as_it_was(world):
    recorded(world, tenants="a")
    world.engine.paused = False
    world.engine.finished(0)
    (wave,) = world.store.progress.pending_intents()
    deploy(world, sink=ParquetFiles("other"))
    world.start()
    (runs,) = world.store.registry.deployments()
    told = {"guarantee": wave.terms.guarantee.value, "sink": wave.terms.sink}
    world.store.registry.deploy(replace(runs, digest="2" * 64, **told))
    world.turns(3, 1.0)
    for words in (
        "keep is deployed as it was, as 222222222222, which this driver has not taken",
        "'headrace use-cases list' says why",
        "'headrace use-cases deploy keep'",
        "streams seek a/keep",
    ):
        assert words in world.row("a").note
    assert "deploy keep again" not in world.row("a").note
    world.store.registry.deploy(runs)
    world.turns(3, 1.0)
    assert "deploy keep again" in world.row("a").note


def test_what_waits_for_its_version_is_done_when_that_is_deployed_again(world):
    elsewhere(world)
    deploy(world)
    world.turns(3)
    deploy(world, sink=ParquetFiles("other"))
    world.turns(20, 1.0)
    assert effects(world, "a") + effects(world, "a", "other") == list(range(12))
    assert world.row("a").state == "active"
    assert world.store.progress.pending_intents() == []


def test_what_waits_for_its_version_is_given_up_by_a_seek_to_another_place(world):
    elsewhere(world)
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 0})
    world.turns(3)
    assert world.row("a").state == "waiting"
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 5})
    world.turns(20, 1.0)
    assert effects(world, "a", "other") == list(range(5, 12))
    assert world.store.progress.pending_intents() == []


def test_what_a_seek_has_given_up_holds_no_lane_that_comes_by_again(world):
    """Its neighbour waits still, and keeps the wave."""
    deploy(world)
    for name in "ab":
        world.tenant(name, 5)
    world.start()
    world.turns(10)
    more(world)
    world.engine.paused = True
    world.turns(2)
    world.engine.paused = False
    world.engine.finished(0)
    deploy(world, sink=ParquetFiles("other"))
    world.start()
    world.driver.limits = replace(world.driver.limits, slice_records=5)
    world.turns(10, 1.0)
    assert [world.row(name).state for name in "ab"] == ["waiting", "waiting"]
    world.store.progress.seek(StreamId("keep", "a"), {"a.visits[0]": 0})
    world.turns(20, 1.0)
    assert effects(world, "a", "other") == list(range(12))
    assert [world.row(name).state for name in "ab"] == ["active", "waiting"]
    (left,) = world.store.progress.pending_intents()
    assert {piece.lane.tenant for piece in left.slices} == {"b"}


def in_warehouse(world, folder):
    """A driver to come has another warehouse; its use cases are as they were."""
    world.connections = replace(world.connections, warehouse=str(folder))
    deploy(world)


def with_another_warehouse(world):
    """A new driver whose warehouse is not the one that was written to before the kill."""
    recorded(world, tenants="a")
    world.engine.paused = False
    world.engine.finished(0)
    world.driver, before = None, world.folder
    in_warehouse(world, world.folder / "moved")
    return before


def test_a_recorded_wave_is_not_run_into_another_warehouse(world):
    before = with_another_warehouse(world)
    world.start()
    world.turns(20, 1.0)
    assert world.row("a").state == "waiting"
    assert f"with warehouse {before}, until" in world.row("a").note
    assert f"in warehouse {before}/moved" in world.row("a").note
    assert not (before / "moved" / "out").exists()
    world.driver = None
    in_warehouse(world, before)
    world.start()
    world.turns(20, 1.0)
    assert effects(world, "a") == list(range(12))
    assert world.store.progress.pending_intents() == []


def test_a_record_that_tells_no_warehouse_runs_in_the_one_there_is(world):
    with_another_warehouse(world)
    placeless = Earlier(world.store.progress, lambda terms: replace(terms, place=""))
    world.store = WithParts(world.store, progress=placeless)
    world.start()
    world.turns(20, 1.0)
    assert effects(world, "a", "moved/out") == list(range(12))
    assert world.store.progress.pending_intents() == []


def test_a_record_that_may_not_tell_how_files_are_divided_waits_and_says_what_helps(world):
    recorded(world, tenants="a", sink=FILES)
    world.engine.paused = False
    world.engine.finished(0)
    by_day = pa.schema([("offset", pa.int64()), ("day", pa.string())])
    deploy(world, sink=replace(FILES, schema=by_day, partition_by=("day",)))
    world.start()
    world.turns(20, 1.0)
    note = world.row("a").note
    assert "deploy keep again as it was until this is done" in note
    assert (
        "if it was with divided_by='day' then too, an earlier version of Headrace recorded it "
        "and did not write that down: let that version finish it, or give it up: 'headrace streams "
        "seek a/keep --to' another place"
    ) in note
    assert world.positions() == {("a", 0): 0}


def test_a_handler_that_was_mended_is_what_runs_again(world):
    def broken(_table, _context):
        raise SinkUnavailable("down")

    deploy(world, broken)
    world.tenant("a", 5)
    world.start()
    world.turns(3)
    deploy(world, order="stream")
    world.turns(40, 1.0)
    assert effects(world, "a") == list(range(5))


class Earlier:
    """Progress whose records were written by a version that wrote no terms down, or not all."""

    def __init__(self, progress, of=lambda _terms: None):
        self._progress, self._of = progress, of

    def __getattr__(self, name):
        return getattr(self._progress, name)

    def pending_intents(self, driver=None):
        found = self._progress.pending_intents(driver)
        return [replace(wave, terms=self._of(wave.terms)) for wave in found]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_a_record_of_an_earlier_version_runs_exactly_once_as_its_use_case_is_now(world, guarantee):
    recorded(world)
    world.engine.paused = False
    world.engine.finished(0)
    deploy(world, guarantee=guarantee)
    world.store = WithParts(world.store, progress=Earlier(world.store.progress))
    world.start()
    world.turns(20, 1.0)
    assert all(effects(world, name) == list(range(12)) for name in "ab")
    assert world.store.progress.pending_intents() == []


def test_a_record_of_an_earlier_version_waits_where_its_use_case_can_not_be_exact_now(world):
    recorded(world, tenants="a")
    world.engine.paused = False
    world.engine.finished(0)
    deploy(world, sink=TABLE)
    world.store = WithParts(world.store, progress=Earlier(world.store.progress))
    world.start()
    world.turns(20, 1.0)
    assert "earlier version" in world.row("a").note
    assert world.positions() == {("a", 0): 0}
