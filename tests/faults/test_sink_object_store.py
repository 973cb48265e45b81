"""Files in an object store: drivers killed in the write, and the store away.

The others go on meanwhile; afterwards each record has its row there, once.
"""

import pyarrow.parquet as pq
import pytest
from matrix import FULL, ORDERS, SERVICE, in_order, note, row_of
from rig import NAMES, Rig

import s3_server
from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
DOWN_S = 60.0 if FULL else 10.0
PER_S = 50.0
KEPT = """
@use_case(topic=TOPIC, sink=ParquetFiles("stored", at="lake"), guarantee="exactly-once")
def stored(table, context):
    return places(table, context)
"""


@pytest.fixture
def store(tmp_path):
    """A server of the test's own."""
    s3_server.needed()
    with s3_server.S3Server(tmp_path / "s3") as server:
        yield server


def rows_in(folder):
    """What is in the files, by their names, which sort as the log does."""
    found = []
    for path in sorted(folder.rglob("*.parquet")):
        tenant = path.parent.name.removeprefix("tenant=")
        rows = pq.ParquetFile(path).read().to_pylist()
        found += [Found(tenant, Place(row["topic"], row["part"], row["record"])) for row in rows]
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_in_an_object_store_each_row_is_there_once_whatever_is_killed_or_away(
    kafka, store, tmp_path, order
):
    bucket = store.make_bucket()
    at, files = store.at(bucket), store.folder_of(bucket)
    lake = {"url": at.url, "user": at.user, "password": at.password}
    settings = {"connections": {"lake": lake}}
    rig = Rig(
        tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=in_order(KEPT, order)
    )
    with rig.sending(PER_S):
        rig.killed_and_away("stored", lambda: len(rows_in(files)), store.stop, store.start, DOWN_S)
    rig.kills += 4
    rig.caught_up((*NAMES, "stored"))
    row = row_of(
        f"killed in writes to an object store, which is then away for {DOWN_S:.0f} s", order
    )
    rig.judge(row)
    verdict = rig.judged(rows_in(files), order)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    found = (verdict.lost, verdict.twice, verdict.foreign, verdict.out_of_order)
    assert not any(found), str(verdict)
