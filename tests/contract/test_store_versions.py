"""Every version of the tables that there ever was, filled, brought up to the newest and down again.

The rows are made from the tables as they are found, so a new version is tested without a word here;
only columns in which not every value has a meaning are named below.
"""

import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from sqlalchemy import MetaData, insert, select, text

from headrace.errors import ConfigError
from headrace.model.credentials import Key, Role
from headrace.model.places import OPEN, text_of
from headrace.model.records import Deployment
from headrace.model.restarts import Restart
from headrace.model.streams import LaneId
from headrace.model.topic_lists import listed
from headrace.model.topic_patterns import pattern_text
from headrace.ports import SchemaReference
from headrace.store import open_store
from headrace.store.database import open_database
from headrace.store.migrations import (
    NOTHING,
    VERSION_TABLE,
    downgrade,
    every_version,
    newest_version,
    upgrade,
    version_of,
)
from headrace.testing.store_contract.everyone import COUNT, a_customer_called_everyone
from headrace.testing.store_contract.schema_subjects import COMPATIBILITY, new, put


def compact(wave):
    return json.dumps(wave, separators=(",", ":"))


WAVE = {
    "id": "wave",
    "bins": [
        {
            "slices": [
                {"lane": ["case-2", "name-2", 7], "topic": "topic-2", "from_offset": 2},
                {"lane": ["case-2", "name-3", 0], "topic": "topic-3", "from_offset": 0},
            ],
            "fence": "f",
        }
    ],
    "terms": None,
}
#: columns that a later version tells in another way; they are looked at on the way back
TOLD_OTHERWISE = {
    "partition",
    "ends_at",
    "wave",
    "next_offset",
    "from_offset",
    "until_offset",
    "record_offset",
}
#: a store in which there is some is not taken back; a test of its own sees that
STATE = {"headrace_state", "headrace_state_sizes"}
VERSIONS = [migration.version for migration in every_version()]
BEFORE_KEYS_OF_SUBJECTS = "0013"
#: columns, of some table or of all, with a value for each of the two rows
MEANINGFUL = {
    "headrace_streams.state": ("suspended", "removed"),
    # Earlier versions knew no other ones.
    "headrace_deployments.topic": ("{tenant}.one", "{tenant}.two"),
    "reserved": (False, False),
    "headrace_failures.state": ("retried", "open"),
    "headrace_audit.tenant": (None, b"name-2"),
    "headrace_keys.tenant": (None, "name-2"),
    # A key that has some is dropped on the way back.
    "headrace_keys.subjects": (None, None),
    # Nor is a store taken back in which a use case has one.
    "restart_after_s": (None, None),
    "moved_to": (None, "2"),
    "passed_from": (None, "1"),
    "passed_until": (None, "2"),
    "headrace_keys.prefix": ("prefix-1", "prefix-2"),
    "role": ("viewer", "sender"),
    "stopped_by": (None, "failure,tenant"),
    # of the second row's lane, which stands at 2, a failure may be open
    "from_offset": (0, 2),
    "until_offset": (5, 7),
    "record_offset": (None, 3),
    "state": ("active", "suspended"),
    "use_case": ("case-1", "case-2"),
    "tenant": ("name-1", "name-2"),
    "failure_id": (1, 2),
    "record_order": ("lane", "stream"),
    "starting_offsets": ("earliest", "latest"),
    "bad_record": ("suspend", "dead-letter"),
    "data_loss": ("fail", "skip"),
    "ends_at": (None, '{"0": 9}'),
    "wave": (compact({**WAVE, "bins": []}), compact(WAVE)),
    "options": ("{}", '{"a":"b"}'),
    "use_cases": ("[]", '["case-2"]'),
    "left_ids": ("[]", '["topic-0"]'),
    # one whose parent is not there waits for nothing
    "parents": (None, '[["topic-2[1]", "9"]]'),
}

NAMED_BIN = {
    "slices": [
        {"lane": ["case-2", "name-2", "topic-2[7]"], "topic": "topic-2", "from_offset": 2},
    ],
    "fence": "f",
}
SINCE_LANES_HAVE_NAMES = {
    "lane": ("topic-1[1]", "topic-2[2]"),
    "ends_at": (None, '{"topic-2[0]": 9}'),
    "wave": (compact({**WAVE, "bins": []}), compact({**WAVE, "bins": [NAMED_BIN]})),
}


#: since places are text
WIDE_BIN = {
    "slices": [{**NAMED_BIN["slices"][0], "from_offset": "2"}],
    "fence": "f",
}
SINCE_PLACES_ARE_TEXT = {
    "next_offset": ("1", "2"),
    "from_offset": ("0", "2"),
    "until_offset": ("5", "7"),
    "records": (5, 5),
    "record_offset": (None, "3"),
    "record_behind": (None, "4"),
    "ends_at": (None, '{"topic-2[0]": "9"}'),
    "wave": (compact({**WAVE, "bins": []}), compact({**WAVE, "bins": [WIDE_BIN]})),
}


@pytest.fixture
def store_url(request, database_kind):
    """Of a store that has its tables, but for who makes them."""
    params = request.node.callspec.params
    empty = "store_url" if params.get("version") == NOTHING else "made_store_url"
    return request.getfixturevalue(empty)


@pytest.fixture
def database(store_url):
    with closing(open_database(store_url)) as database:
        yield database


def tables_of(connection):
    found = MetaData()
    found.reflect(connection)
    return [
        sorted_table for sorted_table in found.sorted_tables if sorted_table.name != VERSION_TABLE
    ]


def value(column, row, version):
    """What stands in a column of the first or the second row; the first has NULLs."""
    if version >= "0014" and column.name in SINCE_PLACES_ARE_TEXT:
        return SINCE_PLACES_ARE_TEXT[column.name][row]
    if version >= "0012" and column.name in SINCE_LANES_HAVE_NAMES:
        return SINCE_LANES_HAVE_NAMES[column.name][row]
    for name in (f"{column.table.name}.{column.name}", column.name):
        if name in MEANINGFUL:
            return MEANINGFUL[name][row]
    if column.nullable and row == 0:
        return None
    kind = column.type.python_type
    texts = {"name": f"name-{row + 1}"}
    made = {
        str: texts.get(column.name, f"{column.name}-{row + 1}"),
        bytes: f"{column.name}-{row + 1}".encode(),
        bool: bool(row),
    }
    return made.get(kind, row + 1)


def fill(database, version):
    upgrade(database)
    if version != newest_version():
        downgrade(database, version)
    with database.write() as connection:
        for table in tables_of(connection):
            if table.name in {"headrace_revision", "headrace_schema_ids"} | STATE:
                continue
            rows = [
                {column.name: value(column, row, version) for column in table.columns}
                for row in (0, 1)
            ]
            connection.execute(insert(table), rows)


def content(database):
    """All rows: table to a list of columns with values."""
    with database.read() as connection:
        return {
            table.name: sorted(
                (dict(row) for row in connection.execute(select(table)).mappings()), key=repr
            )
            for table in tables_of(connection)
        }


def with_columns_of(old, new):
    return {
        table: sorted(
            ({name: row[name] for name in rows[0] if name in old[table][0]} for row in rows),
            key=repr,
        )
        for table, rows in new.items()
        if table in old
    }


def without_what_is_told_otherwise(found):
    return {
        table: sorted(
            ({name: row[name] for name in row if name not in TOLD_OTHERWISE} for row in rows),
            key=repr,
        )
        for table, rows in found.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_every_version_are_there_after_the_way_up_and_after_the_way_down(database, version):
    fill(database, version)
    before = content(database)
    assert {table for table, rows in before.items() if not rows} <= STATE
    upgrade(database)
    after = with_columns_of(before, content(database))
    assert without_what_is_told_otherwise(after) == without_what_is_told_otherwise(before)
    downgrade(database, version)
    assert content(database) == before
    with database.read() as connection:
        assert version_of(connection) == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_every_version_can_be_used_at_once(database, store_url, version):
    fill(database, version)
    with closing(open_store(store_url)) as store:
        assert [tenant.name for tenant in store.registry.tenants()] == ["name-1", "name-2"]
        assert len(store.registry.streams()) == len(store.registry.deployments()) == 2
        assert [position.next_offset for position in store.progress.load_positions()] == [1, 2]
        assert len(store.failures.every()) == 2
        assert store.membership.hold([stream.id for stream in store.registry.streams()])
        new = VERSIONS.index(version) < VERSIONS.index("0005")
        assert len(store.keys.every()) == len(store.audit.changes()) == (0 if new else 2)


def test_rows_of_the_newest_version_are_in_the_way_of_no_step_down_or_up_again(database):
    fill(database, newest_version())
    for version in reversed(VERSIONS[:-1]):
        downgrade(database, version)
        with database.read() as connection:
            assert version_of(connection) == version
    upgrade(database)
    assert content(database)["headrace_tenants"]


def test_schemas_and_keys_that_register_them_are_gone_below_the_registry_and_come_anew(
    database, store_url
):
    with closing(open_store(store_url)) as store:
        first = put(store.schema_subjects, "acme.visits-value", new("one"))
        refers = SchemaReference("Visit", "acme.visits-value", 1)
        put(store.schema_subjects, "acme.orders-value", new("two", [refers]))
        store.schema_subjects.set_for("acme.visits-value", {COMPATIBILITY: "FULL"})
        for role in (Role.SCHEMAS, Role.OPERATOR):
            store.keys.add(Key(role.value, b"1" * 32, role, None, "", 1.0))
    downgrade(database, "0010")
    upgrade(database)
    with closing(open_store(store_url)) as store:
        assert store.schema_subjects.versions() == []
        assert store.schema_subjects.seen("acme.visits-value").compatibility is None
        assert [key.role for key in store.keys.every()] == [Role.OPERATOR]
        assert put(store.schema_subjects, "acme.visits-value", new("one")) == first


def test_a_key_of_some_subjects_is_gone_where_it_would_see_all(database, store_url):
    with closing(open_store(store_url)) as store:
        for name, subjects in (("bound", "acme.*"), ("free", None)):
            key = Key(name, b"1" * 32, Role.SCHEMAS, None, "", 1.0, subjects=subjects)
            store.keys.add(key)
    downgrade(database, BEFORE_KEYS_OF_SUBJECTS)
    upgrade(database)
    with closing(open_store(store_url)) as store:
        assert [(key.prefix, key.subjects) for key in store.keys.every()] == [("free", None)]


UPGRADER = """
import sys
from headrace.store.database import open_database
from headrace.store.migrations import upgrade

for url in sys.stdin:
    database = open_database(url.strip())
    print("ready", flush=True)
    sys.stdin.readline()
    upgrade(database, lambda step: print(step.version, flush=True))
    database.close()
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def upgraders():
    """Two processes for all tests, since each imports for a second what it upgrades with."""
    made = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    yield made
    for process in made:
        process.communicate()
    assert [process.returncode for process in made] == [0, 0]


def tell(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def steps_of(process):
    """The versions that it went up to."""
    found = []
    while (line := process.stdout.readline().strip()) != "done":
        assert line, "it died"
        found.append(line)
    return found


@pytest.mark.parametrize("version", [NOTHING, *VERSIONS[:-1]])
def test_of_processes_that_upgrade_at_once_one_does_it(database, store_url, upgraders, version):
    if version != NOTHING:
        fill(database, version)
    for process in upgraders:
        tell(process, store_url)
        assert process.stdout.readline() == "ready\n"
    for process in upgraders:
        tell(process, "now")
    said = [steps_of(process) for process in upgraders]
    assert sorted(said) == [
        [],
        VERSIONS[VERSIONS.index(version) + 1 :] if version in VERSIONS else VERSIONS,
    ]
    with database.read() as connection:
        assert version_of(connection) == newest_version()


def test_there_is_no_way_back_to_a_version_that_is_not_below(database):
    upgrade(database)
    downgrade(database, VERSIONS[0])
    for wrong in (newest_version(), "0000", "x"):
        with pytest.raises(ConfigError, match=f"cannot go back to {wrong}; below it there is base"):
            downgrade(database, wrong)
    with database.read() as connection:
        assert version_of(connection) == VERSIONS[0]


def test_a_downgrade_that_fails_leaves_the_tables_as_they_were(database):
    fill(database, newest_version())
    before = content(database)
    with database.write() as connection:
        connection.exec_driver_sql(
            "CREATE VIEW in_the_way AS SELECT data_loss FROM headrace_deployments"
        )
    with pytest.raises(Exception, match=r"in_the_way|data_loss"):
        downgrade(database, VERSIONS[0])
    with database.write() as connection:
        connection.exec_driver_sql("DROP VIEW in_the_way")
    assert content(database) == before


def test_lanes_have_their_names_on_the_way_up_wherever_one_is_kept(database, store_url):
    fill(database, "0011")
    with database.write() as connection:
        # A wave as drivers of that version wrote it, and one that an even earlier one did.
        connection.execute(text("DELETE FROM headrace_intents"))
        for number, more in enumerate((1, 2)):
            values = {"id": f"w{number}", "wave": compact(_recorded(f"w{number}", more))}
            connection.execute(text(RECORDED), values)
    with closing(open_store(store_url)) as store:
        at = {position.lane: position.next_offset for position in store.progress.load_positions()}
        assert at == {
            LaneId("case-1", "name-1", "topic-1[1]"): 1,
            LaneId("case-2", "name-2", "topic-2[2]"): 2,
        }
        lanes = [failure.slice.lane.name for failure in store.failures.every()]
        assert lanes == ["topic-1[1]", "topic-2[2]"]
        assert [stopped.until for stopped in store.registry.deployments()] == [
            None,
            {"topic-2[0]": 9},
        ]
        waves = [wave for wave in store.progress.pending_intents() if wave.id.startswith("w")]
        assert [[piece.lane.name for piece in wave.slices] for wave in waves] == [
            ["topic-2[2]"],
            ["topic-2[2]", "topic-2[10]"],
        ]


@pytest.mark.parametrize(
    "lane", ["shard-1", "topic-3[1]", "topic-2[01]", "topic-2[2147483648]", ""]
)
@pytest.mark.parametrize(
    "kept",
    [
        "UPDATE headrace_positions SET lane = :lane WHERE tenant = 'name-2'",
        "UPDATE headrace_failures SET lane = :lane WHERE tenant = 'name-2'",
        """UPDATE headrace_intents SET wave = replace(wave, '"topic-2[7]"', '"' || :lane || '"')""",
        """UPDATE headrace_deployments SET ends_at = replace(ends_at, 'topic-2[0]', :lane)""",
    ],
)
def test_a_lane_that_no_number_tells_keeps_the_store_as_it_is(database, lane, kept):
    fill(database, "0011")
    upgrade(database)
    with database.write() as connection:
        connection.execute(text(kept), {"lane": lane})
    before = content(database)
    with pytest.raises(ConfigError, match=r"nothing was changed") as refused:
        downgrade(database, "0011")
    assert repr(lane) in str(refused.value)
    assert content(database) == before


@pytest.mark.parametrize(("end", "waits"), [("3", True), ("2", False), (None, False)])
def test_a_lane_that_waits_for_another_keeps_the_store_as_it_is(database, end, waits):
    fill(database, newest_version())
    follows = {"parents": json.dumps([["topic-2[2]", end]])}
    added = """
    INSERT INTO headrace_positions (use_case, tenant, lane, next_offset, epoch, parents)
    SELECT use_case, tenant, 'topic-2[3]', next_offset, epoch, :parents FROM headrace_positions
    WHERE tenant = 'name-2'
    """
    with database.write() as connection:
        connection.execute(text(added), follows)
    before = content(database)
    if not waits:
        downgrade(database, "0012")
        return
    with pytest.raises(ConfigError, match=r"nothing was changed") as refused:
        downgrade(database, "0012")
    assert "'topic-2[3]'" in str(refused.value)
    assert content(database) == before


RECORDED = "INSERT INTO headrace_intents (wave_id, wave, driver) VALUES (:id, :wave, NULL)"


def _recorded(name, lanes):
    piece = {"topic": "topic-2", "from_offset": 2, "until_offset": 5, "epoch": 2, "more": False}
    slices = [{"lane": ["case-2", "name-2", at], **piece} for at in (2, 10)[:lanes]]
    bins = [{"slices": slices, "predicted_s": 1.0, "fence": ""}]
    return {"id": name, "use_case": "case-2", "bins": bins, "budget_s": 1.0}


WIDE = "49590338271490256608559692538361571095921575989136588898"


def test_places_are_text_on_the_way_up_wherever_one_is_kept(database, store_url):
    fill(database, "0012")
    with database.write() as connection:
        connection.execute(text("DELETE FROM headrace_intents"))
        wave = _recorded("w0", 1)
        wave["bins"][0]["slices"][0]["lane"][2] = "topic-2[2]"
        connection.execute(text(RECORDED), {"id": "w0", "wave": compact(wave)})
        # Of the largest number that there was.
        last = {"at": 2**63 - 1}
        connection.execute(text("UPDATE headrace_positions SET next_offset = :at"), last)
    with closing(open_store(store_url)) as store:
        assert {position.next_offset for position in store.progress.load_positions()} == {2**63 - 1}
        unnamed, named = store.failures.every()
        assert (unnamed.slice.records, unnamed.skipped_to, unnamed.behind) == (5, 5, None)
        assert (named.slice.records, named.error.offset, named.skipped_to) == (5, 3, 4)
        assert store.registry.deployments()[1].until == {"topic-2[0]": 9}
        ((piece,),) = (tuple(wave.slices) for wave in store.progress.pending_intents())
        assert (piece.from_offset, piece.until_offset, piece.records) == (2, 5, 3)


@pytest.mark.parametrize(
    "kept",
    [
        "UPDATE headrace_positions SET next_offset = :at WHERE tenant = 'name-2'",
        "UPDATE headrace_failures SET until_offset = :at WHERE tenant = 'name-2'",
        "UPDATE headrace_failures SET record_offset = :at WHERE tenant = 'name-2'",
        """UPDATE headrace_intents SET wave = replace(wave, '"2"', '"' || :at || '"')""",
        """UPDATE headrace_deployments SET ends_at = replace(ends_at, '"9"', '"' || :at || '"')""",
    ],
)
@pytest.mark.parametrize("at", [WIDE, str(2**63)])
def test_a_place_that_no_number_holds_keeps_the_store_as_it_is(database, kept, at):
    fill(database, newest_version())
    with database.write() as connection:
        connection.execute(text(kept), {"at": at})
    before = content(database)
    with pytest.raises(ConfigError, match=r"nothing was changed") as refused:
        downgrade(database, "0012")
    assert at in str(refused.value)
    assert content(database) == before


@pytest.mark.parametrize("is_open", [True, False])
def test_a_recorded_slice_that_says_no_end_keeps_the_store_as_it_is(database, is_open):
    fill(database, newest_version())
    wave = _recorded("w-open", 1)
    for piece in wave["bins"][0]["slices"]:
        piece["lane"][2], piece["records"] = "topic-2[2]", 3
        piece["from_offset"], piece["until_offset"] = "2", text_of(OPEN) if is_open else "5"
    with database.write() as connection:
        kept = "UPDATE headrace_intents SET wave = :wave WHERE id = 2"
        connection.execute(text(kept), {"wave": compact(wave)})
    before = content(database)
    if not is_open:
        downgrade(database, "0015")
        assert "headrace_reads" not in content(database)
        return
    with pytest.raises(ConfigError, match=r"nothing was changed") as refused:
        downgrade(database, "0015")
    assert "'topic-2[2]'" in str(refused.value)
    assert content(database) == before


def test_no_version_that_was_counted_is_given_again_after_a_way_down_and_up(database, store_url):
    fill(database, newest_version())
    with database.write() as connection:
        connection.execute(
            text("UPDATE headrace_positions SET ordinal = 0 WHERE tenant = 'name-1'")
        )
        connection.execute(text("UPDATE headrace_positions SET depth = 9 WHERE tenant = 'name-2'"))
    downgrade(database, "0015")
    upgrade(database)
    with closing(open_store(store_url)) as store:
        positions = store.progress.load_positions()
        assert [(position.depth, position.ordinal) for position in positions] == [(1, 0), (17, 0)]
        streams = content(database)["headrace_streams"]
        assert sorted((row["tenant"], row["depth"]) for row in streams) == [
            ("name-1", 1),
            ("name-2", 10),
        ]


def test_a_rerun_is_never_newer_than_its_stream_after_a_way_down_and_up(database):
    fill(database, newest_version())
    there = content(database)
    before = {
        table: next(row for row in there[table] if row["tenant"] == "name-2")
        for table in ("headrace_streams", "headrace_positions")
    }
    use_case = before["headrace_streams"]["use_case"]
    deployed = next(row for row in there["headrace_deployments"] if row["use_case"] == use_case)
    rerun = {"use_case": f"{use_case}~0"}
    with database.write() as connection:
        for table in tables_of(connection):
            row = {"headrace_deployments": deployed, **before}.get(table.name)
            if row is not None:
                connection.execute(insert(table), row | rerun)
    downgrade(database, "0016")
    upgrade(database)
    found = content(database)
    for table, kept in before.items():
        depths = {
            row["use_case"]: row["depth"] for row in found[table] if row["tenant"] == "name-2"
        }
        assert depths[rerun["use_case"]] == kept["depth"]
        assert depths[use_case] > kept["depth"]


A_CUSTOMER = """
INSERT INTO headrace_tenants (name, state, weight, burst_s, generation)
VALUES ('everyone', 'active', 1, 1, 0)
"""


def test_a_customer_of_an_earlier_version_keeps_the_name_until_it_is_removed(database, store_url):
    upgrade(database)
    downgrade(database, "0019")
    with database.write() as connection:
        connection.execute(text(A_CUSTOMER))
    with closing(open_store(store_url)) as store:
        a_customer_called_everyone(store)


def test_nobody_goes_back_while_a_topic_is_for_all(database, store_url):
    with closing(open_store(store_url)) as store:
        store.registry.deploy(COUNT)
    before = content(database)
    with pytest.raises(ConfigError, match=r"count reads topic impressions, .*nothing was changed"):
        downgrade(database, "0019")
    assert content(database) == before


def test_nobody_goes_back_while_a_use_case_begins_at_a_time(database, store_url):
    with closing(open_store(store_url)) as store:
        deployment = Deployment("score", "m.py", "00", "{tenant}.visits")
        store.registry.deploy(replace(deployment, starting_offsets="2026-11-01T00:00:00Z"))
        before = content(database)
        with pytest.raises(
            ConfigError, match=r"score has startingOffsets 2026.*nothing was changed"
        ):
            downgrade(database, "0020")
        assert content(database) == before
        store.registry.deploy(deployment)
    downgrade(database, "0020")


def test_nobody_goes_back_while_a_use_case_passes_over_what_is_too_old(database, store_url):
    with closing(open_store(store_url)) as store:
        deployment = Deployment("score", "m.py", "00", "{tenant}.visits")
        store.registry.deploy(replace(deployment, restart=Restart(60.0)))
        before = content(database)
        with pytest.raises(ConfigError, match=r"score has restart latest.*nothing was changed"):
            downgrade(database, "0021")
        assert content(database) == before
        store.registry.deploy(deployment)
    downgrade(database, "0021")


@pytest.mark.parametrize(
    "topic",
    [
        listed(["{tenant}.clicks", "{tenant}.visits"]),
        listed(["{tenant}.visits[3]"]),
        pattern_text("visits-.*"),
    ],
)
def test_nobody_goes_back_while_a_use_case_reads_several_topics(database, store_url, topic):
    with closing(open_store(store_url)) as store:
        store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    downgrade(database, "0022")
    upgrade(database)
    with closing(open_store(store_url)) as store:
        store.registry.deploy(Deployment("both", "m.py", "00", topic))
    before = content(database)
    with pytest.raises(ConfigError, match=r"both reads topics .*nothing was changed"):
        downgrade(database, "0022")
    assert content(database) == before


def test_nobody_goes_back_while_there_is_state_of_keys(database):
    fill(database, newest_version())
    with database.write() as connection:
        for table in tables_of(connection):
            if table.name in STATE:
                row = {column.name: value(column, 1, newest_version()) for column in table.columns}
                connection.execute(insert(table), row)
    before = content(database)
    assert all(before[table] for table in STATE)
    with pytest.raises(ConfigError, match=r"name-2/case-2 keeps state.*nothing was changed"):
        downgrade(database, "0025")
    assert content(database) == before
    with database.write() as connection:
        for table in STATE:
            connection.execute(text(f"DELETE FROM {table}"))
    downgrade(database, "0025")
