"""The laws of a sink, on streams of Kinesis: a fake, and a server that plays the service."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar

import pyarrow as pa
import pytest

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.kinesis import sink as sinks
from headrace.ports import Connections, Server, Sink, Site
from headrace.sinks import KinesisStream
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.contract import Service
from headrace.testing.kinesis.service import FakeKinesis
from headrace.testing.sink_contract import InBuckets, Seen, SinkContract

TENANTS = ["acme", "bolt", "cern", *(f"bad{number}" for number in range(6))]
_runs = itertools.count()


class OnKinesis(SinkContract):
    """All records have one key, so they have one order."""

    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "a stream is not asked what it has",
    }
    #: of the streams, where ``{run}`` becomes one of a test
    name = "visits-{run}"

    def make_sink(self) -> Sink:
        return KinesisStream(self.name.replace("{run}", self.run), at="there")

    def begin(self, service):
        """Make the streams."""
        self.service, self.run = service, f"{next(_runs)}-{id(self)}"
        name = self.make_sink().name
        self.streams = sorted({name.replace("{tenant}", tenant) for tenant in TENANTS})
        for stream in self.streams:
            service.client.create_stream(StreamName=stream, ShardCount=1)
            service.settle(stream)

    def table(self, values):
        columns = {"key": ["k"] * len(values), "value": list(values)}
        return pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))

    def refused_table(self):
        return self.table(["x" * 2**20])

    def wrong_table(self):
        return self.table(["a"]).drop_columns(["value"])

    def odd_tables(self):
        odd = self.table(["odd", "even"])
        keys = {"no": "", "a long": "k" * 257, "a binary": b"\xff"}
        return {
            f"{what} key": odd.set_column(0, "key", pa.array(["k", key], type=kind))
            for what, key in keys.items()
            for kind in [pa.binary() if isinstance(key, bytes) else pa.string()]
        }

    @contextmanager
    def losing_an_answer(self):
        ask, lost = AmazonService.asked, []

        def asked(service, operation, request, *until):
            told = ask(service, operation, request, *until)
            if operation == "put_records" and not lost:
                lost.append(request)
                raise TimeoutError("no answer")
            return told

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AmazonService, "asked", asked)
            yield
        assert lost, "nothing was written"

    @contextmanager
    def refusing_for_now(self):
        def refuses(*_):
            raise ConnectionError("connection refused")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AmazonService, "asked", refuses)
            yield

    def read_back(self):
        found = []
        for stream in self.streams:
            told = self.service.client.get_records(
                ShardIterator=self.service.iterator(stream, "TRIM_HORIZON"), Limit=10_000
            )
            assert told["MillisBehindLatest"] == 0
            found += [record["Data"].decode() for record in told["Records"]]
        return [Seen(value, value) for value in found]


class Fake(AmazonService):
    """The fake, as a sink comes to it; it waits for nobody."""

    def __init__(self, kinesis):
        super().__init__("connection there", lambda: kinesis)

    def _client(self):
        return self._new()


class TestKinesisStream(OnKinesis, SinkContract):
    """On a fake of the service."""

    @pytest.fixture(autouse=True)
    def _fake(self, monkeypatch):
        clock = FakeClock()
        self.kinesis = FakeKinesis(clock, throttles=False)
        monkeypatch.setattr(sinks, "service_of", lambda *_, **__: Fake(self.kinesis))
        self.begin(Service(self.kinesis, clock.move))

    def site(self) -> Site:
        return Site(Connections({}, "", servers={"there": Server("")}), None)


class TestKinesisStreamInBuckets(InBuckets, TestKinesisStream):
    """The same from lanes that are buckets."""


class TestKinesisStreamOfEachTenant(TestKinesisStream):
    """A stream for each tenant."""

    name = "{tenant}.{run}"


class TestKinesisStreamOnAServer(OnKinesis):
    """On a server, which answers in real time."""

    @pytest.fixture(autouse=True)
    def _server(self, kinesis):
        self.connections = Connections({}, "", servers={"there": kinesis.server})
        self.begin(kinesis.service())
        yield
        for stream in self.streams:
            kinesis.client.delete_stream(StreamName=stream)

    def site(self) -> Site:
        return Site(self.connections, None)


@pytest.mark.slow
class TestKinesisStreamOfEachTenantOnAServer(TestKinesisStreamOnAServer):
    """A stream for each tenant."""

    name = "{tenant}.{run}"
