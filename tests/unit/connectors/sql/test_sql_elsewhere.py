"""Who may write to a database that is not the store's, by what stands there and in the store."""

from dataclasses import replace

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace.errors import ConfigError, SinkRefused, StoreUnavailable, WrongSchema
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

SUMS = SqlTable(
    "sums",
    {"lead": "text", "total": "bigint"},
    key=("lead",),
    update={"total": "sums.total + excluded.total"},
    at="history",
)


class Store:
    """Where lanes of the store are, and under which epochs."""

    def __init__(self):
        self.at = {}
        self.asked = 0
        self.error = None

    def advance(self, moves):
        self.asked += 1
        if self.error is not None:
            raise self.error
        here = (0, 1)
        return [
            self.at.get(move.lane.tenant, here) == (move.from_offset, move.epoch) for move in moves
        ]


class World:
    def __init__(self, folder):
        self.url = f"sqlite:///{folder}/history.db"
        servers = {"history": Server(self.url)}
        self.connections = Connections({}, f"sqlite:///{folder}/store.db", servers=servers)
        self.store, self.records = Store(), True
        SUMS.prepare(self.site("w-1"))

    def site(self, wave_id):
        return Site(self.connections, self.store, wave_id, fence="run-0" if self.records else "")

    def write(self, wave_id, *effects):
        return SUMS.open(self.site(wave_id)).write(effects)

    def total(self, lead="a"):
        return self.asked(f"SELECT total FROM sums WHERE lead = '{lead}'")

    def asked(self, query):
        engine = create_engine(self.url)
        with engine.begin() as connection:
            found = connection.execute(text(query))
            value = found.scalar() if found.returns_rows else None
        engine.dispose()
        return value


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def effect(first=0, until=10, *, epoch=1, tenant="acme", lead="a", rows=1, lanes=(0,)):
    """Adds one to a total."""
    table = pa.table({"lead": pa.array([lead] * rows, pa.string()), "total": [1] * rows})
    pieces = tuple(
        Slice(LaneId("keep", tenant, lane), f"{tenant}.visits", first, until, epoch)
        for lane in lanes
    )
    return Effect(pieces, (until,) * len(pieces), table)


def told(written):
    """What became of an effect, in a word."""
    if written.error is not None:
        return written.error.code
    if written.superseded:
        return "superseded"
    return written.reached or "written"


@pytest.mark.parametrize("again", ["w-1", "w-1.0", "w-1.stopped"])
@pytest.mark.parametrize("epoch", [1, 5])
def test_what_a_wave_has_written_is_not_written_again_by_any_part_or_holder(world, again, epoch):
    world.write("w-1", effect())
    world.store.at["acme"] = (0, epoch)
    (once_more,) = world.write(again, effect(epoch=epoch))
    assert told(once_more) == (10,)
    assert world.total() == 1


def test_a_replay_that_comes_less_far_is_told_how_far_the_first_came(world):
    world.write("w-1", effect(until=10))
    (again,) = world.write("w-1", effect(until=7))
    assert told(again) == (10,)
    assert world.total() == 1


def test_a_lane_that_was_sent_back_has_its_records_written_again(world):
    world.write("w-1", effect())
    world.store.at["acme"] = (3, 2)
    (anew,) = world.write("w-2", effect(3, 10, epoch=2))
    assert told(anew) == "written"
    assert world.total() == 2


def test_a_zombie_of_an_earlier_holder_is_refused(world):
    world.store.at["acme"] = (0, 2)
    world.write("w-2", effect(epoch=2))
    (late,) = world.write("w-1", effect(epoch=1))
    assert told(late) == "superseded"
    assert world.total() == 1


@pytest.mark.parametrize(
    ("offset", "epoch", "what"), [(10, 1, "settled"), (0, 2, "another's"), (90, 2, "sought")]
)
def test_one_whose_lane_went_on_leaves_nothing_and_its_neighbours_are_written(
    world, offset, epoch, what
):
    world.store.at["bolt"] = (offset, epoch)
    written = world.write(
        "w-1", effect(), effect(tenant="bolt", lead="b"), effect(tenant="cove", lead="c")
    )
    assert list(map(told, written)) == ["written", "superseded", "written"], what
    assert (world.total("a"), world.total("b"), world.total("c")) == (1, None, 1)
    assert world.asked("SELECT count(*) FROM headrace_written WHERE tenant = 'bolt'") == 0


def test_a_store_that_forgot_its_epochs_is_told_to_people_and_blames_no_record(world):
    world.store.at["acme"] = (0, 9)
    world.write("w-9", effect(epoch=9))
    world.store.at["acme"] = (0, 2)
    (stopped,) = world.write("w-2", effect(epoch=2))
    assert told(stopped) == "TargetMissing"
    assert "acme/keep/0 under epoch 9" in stopped.error.message
    assert "restored from a backup" in stopped.error.message
    assert world.total() == 1
    world.asked("DELETE FROM headrace_written WHERE tenant = 'acme'")
    assert told(world.write("w-2", effect(epoch=2))[0]) == "written"


def test_lanes_that_are_merged_are_done_together(world):
    world.write("w-1", effect(lanes=(0, 1)))
    (again,) = world.write("w-1", effect(until=4, lanes=(0, 1)))
    assert told(again) == (10, 10)
    assert world.total() == 1


def test_a_refused_effect_leaves_no_mark(world):
    bad = effect(tenant="bolt")
    bad = replace(bad, output=pa.table({"lead": pa.array([None], pa.string()), "total": [1]}))
    written = world.write("w-1", effect(), bad, effect(tenant="cove", lead="c"))
    assert list(map(told, written)) == ["written", "SinkRefused", "written"]
    (mended,) = world.write("w-1", effect(tenant="bolt", lead="b"))
    assert told(mended) == "written"
    assert world.total("b") == 1


def test_an_effect_is_looked_at_by_the_database_itself_and_nothing_of_it_is_kept(world):
    writer = SUMS.open(world.site("w-1"))
    writer.check_effect(effect())
    world.asked("CREATE UNIQUE INDEX totals ON sums (total)")
    bad = replace(effect(), output=pa.table({"lead": ["b", "c"], "total": [1, 1]}))
    with pytest.raises(SinkRefused, match="UNIQUE"):
        writer.check_effect(bad)
    with pytest.raises(WrongSchema, match="'total'"):
        writer.check_effect(replace(effect(), output=pa.table({"lead": ["a"]})))
    assert world.total() is None
    assert told(writer.write([effect()])[0]) == "written"


def test_nothing_is_kept_while_the_store_does_not_answer(world):
    world.store.error = StoreUnavailable("away")
    (waits,) = world.write("w-1", effect())
    assert waits.error.temporary
    assert world.total() is None
    world.store.error = None
    assert told(world.write("w-1", effect())[0]) == "written"


def test_the_store_is_asked_once_for_a_group_and_not_at_all_for_nothing(world):
    world.write("w-1", *(effect(tenant=f"t{number}") for number in range(50)))
    assert world.store.asked == 1
    assert told(world.write("w-1", effect(tenant="empty", rows=0))[0]) == "written"
    assert world.store.asked == 1


def test_without_a_recorded_wave_nobody_is_asked_and_rows_come_again(world):
    world.records = False
    world.store.error = StoreUnavailable("away")
    for _ in range(2):
        assert told(world.write("w-1", effect())[0]) == "written"
    assert world.total() == 2
    assert world.asked("SELECT count(*) FROM headrace_written") == 0


def test_two_installations_in_one_database_do_not_meet(world):
    world.write("w-1", effect())
    world.connections = replace(world.connections, seal_key=b"another store's")
    assert told(world.write("w-1", effect())[0]) == "written"
    assert world.total() == 2


@pytest.mark.parametrize("gone", ["sums", "headrace_written"])
def test_for_a_table_that_is_gone_no_record_is_to_blame(world, gone):
    world.asked(f"DROP TABLE {gone}")
    (stopped,) = world.write("w-1", effect())
    assert told(stopped) == "TargetMissing"
    assert gone in stopped.error.message
    SUMS.prepare(world.site("w-1"))
    assert told(world.write("w-1", effect())[0]) == "written"


# places of any width

WIDE = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898


@pytest.mark.parametrize("first", [0, 2**62, 2**63 - 2, 2**64, WIDE])
def test_a_note_holds_any_place(world, first):
    world.store.at["acme"] = (first, 1)
    given = effect(first, first + 10)
    assert told(world.write("w-1", given)[0]) == "written"
    assert told(world.write("w-1", given)[0]) == (first + 10,)
    assert world.total() == 1


def test_notes_that_an_earlier_version_made_hold_no_wide_place_and_blame_no_record(world):
    world.asked("DROP TABLE headrace_written")
    world.asked(
        "CREATE TABLE headrace_written (installation TEXT, use_case TEXT, tenant TEXT, lane TEXT,"
        " epoch BIGINT NOT NULL, wave TEXT NOT NULL, from_offset BIGINT NOT NULL,"
        " reached BIGINT NOT NULL, PRIMARY KEY (installation, use_case, tenant, lane))"
    )
    SUMS.prepare(world.site("w-1"))
    assert told(world.write("w-1", effect())[0]) == "written"
    assert told(world.write("w-1", effect())[0]) == (10,)
    world.store.at["acme"] = (WIDE, 1)
    (stopped,) = world.write("w-2", effect(WIDE, WIDE + 1))
    assert told(stopped) == "TargetMissing"
    assert "headrace_written" in stopped.error.message
    assert world.total() == 1


# where it is


def test_an_unknown_connection_is_named_with_those_that_there_are(world):
    elsewhere = replace(SUMS, at="histroy")
    with pytest.raises(ConfigError, match=r"no connection 'histroy': .* names history;"):
        elsewhere.prepare(world.site(""))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite:///{folder}/store.db", "the store's own file: leave out at='history'"),
        ("oracle://u:hunter2@db/x", "connection history is of kind oracle"),
        ("hunter2", "connection history's URL cannot be read"),
    ],
)
def test_a_connection_that_is_no_other_database_is_refused_without_its_password(
    tmp_path, url, told
):
    servers = {"history": Server(url.format(folder=tmp_path))}
    connections = Connections({}, f"sqlite:///{tmp_path}/store.db", servers=servers)
    with pytest.raises(ConfigError, match=told) as refused:
        SUMS.prepare(Site(connections, Store()))
    assert "hunter2" not in str(refused.value)


def test_where_rows_go_is_part_of_what_a_recorded_wave_knows_its_sink_by():
    assert "at='history'" in repr(SUMS)
    assert SUMS.exactly_once == "intent"
    assert replace(SUMS, at=None).exactly_once == "transaction"
