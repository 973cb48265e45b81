"""A Delta table: drivers killed in the write, and the table merged while drivers write.

Afterwards each record has its row there, once, in the order of its lane.
"""

import json

import pyarrow.parquet as pq
from deltalake import DeltaTable
from matrix import FULL, SERVICE, note
from rig import NAMES, Rig, until

from headrace.testing.ledger import Found, Place

pytestmark = SERVICE
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


def rows_in(folder):
    """What was written to the table, in the order of commits; nothing if it is not there yet."""
    found = []
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            add = json.loads(line).get("add")
            if add is not None and add["dataChange"]:
                rows = pq.ParquetFile(folder / add["path"]).read().to_pylist()
                found += [(add["partitionValues"]["tenant"], row) for row in rows]
    return [Found(who, Place(row["topic"], row["part"], row["record"])) for who, row in found]


def test_in_a_delta_table_each_row_is_there_once_whatever_is_killed_or_merged(kafka, tmp_path):
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, more=KEPT)
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
    names = (*NAMES, "keeps")
    with rig.start() as driver:
        until(lambda: not rig.behind(names), lambda: (rig.behind(names), driver.tail()), 300.0)
        driver.drain()
    row = "killed in writes to a Delta table, which is merged meanwhile"
    rig.judge(row)
    written = rows_in(table)
    verdict = rig.ledger.judge(written)
    note(f"{row}: its rows", {"intends": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not any((verdict.lost, verdict.twice, verdict.foreign, verdict.out_of_order)), verdict
    assert DeltaTable(str(table)).to_pyarrow_dataset().count_rows() == len(written)
