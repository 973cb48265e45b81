"""What a task is tried on: a store of two tenants, and sinks and readers from memory."""

from dataclasses import dataclass, field

import pyarrow as pa

from headrace.errors import SinkRefused, SinkUnavailable
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin
from headrace.ports import Connections, Written
from headrace.sinks import SqlTable
from headrace.spark.slice_errors import error_of
from headrace.spark.task import Work, run_bin
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader
from headrace.testing.schemas_fake import MemorySchemas
from headrace.use_cases import use_case

TENANTS = ("acme", "bolt")
LOG_END = 10
VISITS = SqlTable("visits", columns={"tenant": "text", "value": "bytes"})


@dataclass
class ListSink:
    """Keeps what it is given in this process; refuses or fails as told."""

    written: list[tuple[str, int, int, list[bytes]]] = field(default_factory=list)
    refuses: bytes | None = None
    down: bool = False
    exactly_once = None

    def prepare(self, _site: object) -> None:
        pass

    def open(self, _site: object) -> "ListSink":
        return self

    def write(self, effects):
        return [self._write(effect) for effect in effects]

    def _write(self, effect):
        values = effect.output["value"].to_pylist() if effect.output.num_columns else []
        if self.down:
            return Written(error=error_of(SinkUnavailable("down")))
        if self.refuses in values:
            return Written(error=error_of(SinkRefused("value not allowed")))
        first = effect.slices[0]
        self.written.append((first.lane.tenant, first.from_offset, effect.reached[0], values))
        return Written()

    def close(self) -> None:
        pass


class Bench:
    """A store with two tenants at position 0, and a way to run a bin."""

    def __init__(self, folder) -> None:
        self.url = f"sqlite:///{folder / 'store.db'}"
        self.dead_letters = MemoryDeadLetters()
        self.limits = {}
        self.schemas = MemorySchemas()
        self.store = open_store(self.url)
        self.store.registry.deploy(Deployment("keep", "m.py", "0" * 64, "{tenant}.visits"))
        for name in TENANTS:
            self.store.registry.add_tenant(Tenant(name))
        streams = [StreamId("keep", name) for name in TENANTS]
        self.epochs = self.store.membership.hold(streams)
        for stream in streams:
            self.store.progress.start_lanes(
                [
                    LaneStart(
                        stream,
                        "id",
                        {f"{stream.tenant}.visits[0]": 0, f"{stream.tenant}.visits[1]": 0},
                    )
                ]
            )

    def slices(self, *, partitions=(0,), until=LOG_END):
        return tuple(
            Slice(
                LaneId("keep", name, f"{name}.visits[{partition}]"),
                f"{name}.visits",
                0,
                until,
                self.epochs[StreamId("keep", name)],
            )
            for name in TENANTS
            for partition in partitions
        )

    def run(
        self,
        sink,
        *,
        reader=None,
        budget_s=60.0,
        slices=None,
        handler=None,
        markers=None,
        hurried=False,
        **options,
    ):
        keep = use_case(topic="{tenant}.visits", sink=sink, name="keep", **options)(
            handler or with_tenant
        )
        connections = Connections(kafka={}, database_url=self.url)
        work = Work(
            b"",
            (),
            connections,
            reader or NumbersReader(),
            SqlPositionsFactory(),
            self.dead_letters,
            self.schemas,
            **self.limits,
        )
        # Same process: the sink must be the one the test looks at, so nothing is pickled.
        object.__setattr__(work, "load", lambda: keep)
        planned = Bin(slices or self.slices(), 1.0, hurried=hurried)
        return run_bin(work, planned, budget_s, markers=markers)

    def position(self, tenant, partition=0):
        positions = {
            position.lane: position.next_offset for position in self.store.progress.load_positions()
        }
        return positions[LaneId("keep", tenant, f"{tenant}.visits[{partition}]")]


def with_tenant(table, context):
    tenants = pa.array([context.tenant] * table.num_rows, pa.string())
    return pa.table({"tenant": tenants, "value": table["value"]})


def by_tenant(receipts):
    return {receipt.slice.lane.tenant: receipt for receipt in receipts}


def of_acme(sink):
    return [value for tenant, *_, values in sink.written if tenant == "acme" for value in values]
