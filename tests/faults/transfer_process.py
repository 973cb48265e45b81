"""A worker that sends what is next of three lanes from Kafka to Kafka, until it is killed.

The store is a table of SQLite: where the lanes are, and which wave is due. Of several such workers
each takes the others for dead, so that every attempt has its zombies. It is slow in each step of a
transaction, and dies at times when the broker has committed and nobody else knows.

Arguments: the broker, the table's file, the topic of the lanes, that of the messages, a seed.
"""

import contextlib
import os
import random
import sqlite3
import sys
import time

import pyarrow as pa

from headrace.connectors.kafka import sink_transaction_line
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import KafkaTopic

SLICE_RECORDS, LANES, FENCES = 5, 3, 3
STEPS = ("begin_transaction", "send_offsets_to_transaction", "commit_transaction")


class Table:
    """The positions, as a store has them."""

    def __init__(self, path):
        self._path = path

    def make(self):
        with self._open() as table:
            table.execute("CREATE TABLE lanes (place INTEGER, wave INTEGER)")
            table.execute("INSERT INTO lanes VALUES (0, 0)")

    def due(self):
        """Where all lanes are, and the number of the wave that begins there."""
        with self._open() as table:
            return table.execute("SELECT place, wave FROM lanes").fetchone()

    def advance(self, moves):
        place, _ = self.due()
        return [move.from_offset == place for move in moves]

    def done(self, wave):
        with self._open() as table:
            table.execute(
                "UPDATE lanes SET place = place + ?, wave = wave + 1 WHERE wave = ?",
                (SLICE_RECORDS, wave),
            )

    @contextlib.contextmanager
    def _open(self):
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as table, table:
            yield table


class Frail:
    """A producer that is slow, and whose process may die behind a commit."""

    def __init__(self, producer):
        self._producer = producer

    def __len__(self):
        return len(self._producer)

    def __getattr__(self, name):
        call = getattr(self._producer, name)
        return (lambda *given: self._slowly(name, call, *given)) if name in STEPS else call

    def _slowly(self, name, call, *given):
        if random.random() < 0.2:
            time.sleep(random.random() * 0.6)
        answer = call(*given)
        if name == "commit_transaction" and random.random() < 0.05:
            os._exit(9)
        return answer


class FrailLine(sink_transaction_line.TransactionLine):
    """A line with a frail producer."""

    def __init__(self, settings):
        super().__init__(settings)
        self.sender.producer = Frail(self.sender.producer)


def effect(topic, lane, place):
    until = place + SLICE_RECORDS
    piece = Slice(LaneId("copy", "acme", f"{topic}[{lane}]"), topic, place, until, epoch=1)
    values = [f"{lane}:{offset}" for offset in range(place, until)]
    return Effect((piece,), (until,), pa.table({"value": values}))


def main(servers, path, source, output, seed):
    random.seed(int(seed))
    sink_transaction_line.TransactionLine = FrailLine
    table = Table(path)
    connections = Connections({"bootstrap.servers": servers}, "")
    while True:
        place, wave = table.due()
        site = Site(connections, table, f"run-{wave}", f"a-{wave % FENCES}")
        writer = KafkaTopic(output, transactional=True).open(site)
        written = writer.write([effect(source, lane, place) for lane in range(LANES)])
        if all(outcome.error is None and not outcome.superseded for outcome in written):
            table.done(wave)


if __name__ == "__main__":
    main(*sys.argv[1:])
