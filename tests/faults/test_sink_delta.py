"""A Delta table: drivers killed in the write, and the table merged while drivers write.

In an object store besides: the store away, and one that lets nobody in. On a disk and in a store: a
task that outlives its driver with its files written, and commits when another one has done so.
Afterwards each record has its row there, once, in the order of its lane.
"""

import contextlib
import json

import psutil
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from driver_process import gone, until
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, OUTLIVES, Rig

import s3_server
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
STEPS = ("mid-write", "sink-written", "mid-commit")
KEPT = """
from headrace.sinks import DeltaTable

SCHEMA = pa.schema([
    *((name, pa.string()) for name in NAMES), *((name, pa.int64()) for name in NUMBERS)
])

@use_case(
    topic=TOPIC, sink=DeltaTable("kept", SCHEMA, ("tenant",)), guarantee="exactly-once"
)
def keeps(table, context):
    return places(table, context)
"""
IN_STORE = KEPT.replace('("tenant",)', '("tenant",), at="lake"')


@pytest.fixture
def store(tmp_path):
    """A server of the test's own."""
    s3_server.needed()
    with s3_server.S3Server(tmp_path / "s3") as server:
        yield server


def lake(store):
    """The settings of a service that has a bucket there, and where its table will be."""
    bucket = store.make_bucket()
    at = store.at(bucket)
    told = {"url": at.url, "user": at.user, "password": at.password}
    return {"connections": {"lake": told}}, store.folder_of(bucket) / "lake" / "kept"


def adds_in(folder):
    """What commits added that is new, in their order; nothing if the table is not there yet."""
    commits = sorted((folder / "_delta_log").glob("*.json"))
    lines = [line for commit in commits for line in commit.read_text().splitlines()]
    adds = [json.loads(line).get("add") for line in lines]
    return [add for add in adds if add is not None and add["dataChange"]]


def rows_in(folder):
    """What was written to the table, in the order of commits."""
    found = []
    for add in adds_in(folder):
        rows = pq.ParquetFile(folder / add["path"]).read().to_pylist()
        found += [(add["partitionValues"]["tenant"], row) for row in rows]
    return [Found(who, Place(row["topic"], row["part"], row["record"])) for who, row in found]


def no_commits(folder):
    """Files that no commit has."""
    named = {folder / add["path"] for add in adds_in(folder)}
    return {path for path in folder.rglob("part-*.parquet") if path not in named}


def judge(rig, row, table, order="lane"):
    """All of the row's guarantees, and each record's row in the table."""
    rig.caught_up((*NAMES, "keeps"))
    rig.judge(row)
    written = rows_in(table)
    verdict = rig.judged(written, order)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign, verdict.out_of_order)), verdict
    return written


@pytest.mark.parametrize("order", ORDERS)
def test_in_a_delta_table_each_row_is_there_once_whatever_is_killed_or_merged(
    kafka, tmp_path, order
):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, more=in_order(KEPT, order))
    table = rig.folder / "files" / "kept"
    with rig.sending(PER_S):
        for step in STEPS * (3 if FULL else 1):
            with rig.start(f"{step}@keeps:2") as driver:
                driver.until_stopped()
                driver.kill()
                rig.kills += 1
        with rig.start() as driver:
            for _ in range(3):
                before = len(rows_in(table))
                until(lambda before=before: len(rows_in(table)) > before + 50, driver.tail)
                rig.headrace("tables", "optimize", "kept")
            driver.drain()
    row = row_of("killed in writes to a Delta table, which is merged meanwhile", order)
    written = judge(rig, row, table, order)
    assert DeltaTable(str(table)).to_pyarrow_dataset().count_rows() == len(written)


def test_in_a_store_each_row_is_there_once_whatever_is_killed_away_or_refusing(
    kafka, store, tmp_path
):
    settings, table = lake(store)
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=IN_STORE)

    def rows():
        return len(adds_in(table))

    def closed_to_us():
        store.stop()
        store.start("of somebody else")

    def open_again():
        store.stop()
        store.start()

    with rig.sending(PER_S):
        rig.killed_in_writes("keeps")
        with rig.start() as driver:
            rig.away(driver, rows, store.stop, store.start, DOWN_S)
            rig.away(driver, rows, closed_to_us, open_again, DOWN_S)
            assert "the secret is not that of the key" in driver.log.read_text()
            driver.drain()
    rig.kills += 4
    away = f"which is away, and then lets nobody in, for {DOWN_S:.0f} s each"
    judge(rig, f"killed in writes to a Delta table of an object store, {away}", table)


@pytest.mark.parametrize("home", ["store", pytest.param("disk", marks=pytest.mark.matrix)])
def test_a_task_that_commits_after_its_successor_leaves_nothing(home, request, kafka, tmp_path):
    settings, more, table = {}, KEPT, tmp_path / "service" / "files" / "kept"
    if home == "store":
        settings, table = lake(request.getfixturevalue("store"))
        more = IN_STORE
    settings |= {"driver": {"lease": "3s"}}
    more += OUTLIVES
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=more)
    with rig.sending(PER_S), rig.start("mid-write@keeps:3", "--name", "a") as first:
        worker = first.until_stopped(180.0)
        first.kill(but={worker.pid})
        held = no_commits(table)
        assert held, "it has its files written"
        try:
            with rig.start("", "--name", "b") as second:
                rig.progressing(second, by=500)
                before = len(adds_in(table))
                until(lambda: len(adds_in(table)) > before + 20, second.tail)
                assert not gone(worker)
                first.let_go()
                until(lambda: gone(worker), second.tail)
                rig.progressing(second)
                second.drain()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
    where = "in an object store" if home == "store" else "on a disk"
    judge(rig, f"task that outlives its driver, in a write to a Delta table {where}", table)
    left = no_commits(table)
    assert held - left, "it woke up, found that all was done, and took its files away"
