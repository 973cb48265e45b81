"""What is sent of effects, in which requests, and what becomes of rows that are not taken."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from thriftpy2.transport import TTransportException

from headrace.connectors.hbase import table as sinks
from headrace.connectors.hbase.frames import most_bytes
from headrace.connectors.hbase.library import library, translated
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import HBaseTable
from headrace.spark.refused_rows import as_a_whole

HBASE = library().hbase
TOO_LARGE = HBASE.IllegalArgument(b"x.IllegalArgumentException: KeyValue size too large")
BUSY = HBASE.IOError(b"x.RegionTooBusyException: of a row")
HUNG_UP = TTransportException(4, "read 0 bytes")
COLUMNS = {"id": "text", "city": "text", "gone": "boolean", "changed": "version"}
#: what a server takes that nobody told otherwise
FRAME = 2 * 2**20


class Fake:
    """A cluster that keeps cells as HBase does; ``says`` tells what it answers to rows."""

    where = "connection entities"

    def __init__(self, says=lambda *keys: None, transport="buffered"):
        self.says, self.transport = says, transport
        self.most_bytes = most_bytes(transport)
        self.tables = {"leads": ["d"]}
        self.calls, self.cells, self.gone = [], {}, {}

    def asked(self, ask, until_s):
        families = {name.encode(): {"time_to_live": 1} for name in self.tables.get("leads", ())}
        table = SimpleNamespace(families=lambda: families)
        names = [name.encode() for name in self.tables]
        return ask(SimpleNamespace(tables=lambda: names, table=lambda _: table))

    def done(self, requests, until_s):
        if requests:
            self.calls.append([[row.row.decode() for row in one.rows] for one in requests])
        return [self._answer(request) for request in requests]

    @property
    def requests(self):
        return [keys for call in self.calls for keys in call]

    def _answer(self, request):
        error = self.says(*(row.row.decode() for row in request.rows))
        if self.transport == "framed" and _bytes(request) > FRAME:
            error = HUNG_UP
        if error is HUNG_UP:
            raise translated(error, self.where) from error
        for row in request.rows if error is None else ():
            for told in row.mutations:
                self._keep((row.row, told.column), told, request.timestamp)
        return error

    def _keep(self, cell, told, timestamp):
        if told.isDelete:
            self.gone[cell] = max(timestamp, self.gone.get(cell, -1))
        elif timestamp >= self.cells.get(cell, (-1,))[0]:
            self.cells[cell] = timestamp, told.value

    def city(self, key):
        """What a reader finds."""
        row, column = key.encode(), b"d:city"
        timestamp, value = self.cells.get((row, column), (-1, b""))
        hidden = (self.gone.get((row, name), -1) for name in (column, b"d"))
        return value.decode() if timestamp > max(hidden) else None


def _bytes(request):
    return sum(len(cell.value or b"") for row in request.rows for cell in row.mutations)


def rows(*found):
    ids, cities, versions, gone = zip(*found, strict=True)
    return pa.table(
        {"id": ids, "city": pa.array(cities, pa.string()), "gone": gone, "changed": versions}
    )


def leads(ids, version=7, city="x"):
    return rows(*((key, city, version, False) for key in ids))


@pytest.fixture
def written(monkeypatch):
    """Writes tables through a cluster that is played, each as an effect of a tenant."""

    def write(fake, *tables, tenants=("acme", "bolt"), prefix=""):
        monkeypatch.setattr(sinks, "cluster_of", lambda *_, **__: fake)
        sink = HBaseTable(
            "leads",
            COLUMNS,
            key=("id",),
            newest_by="changed",
            key_in_one_lane=True,
            delete_by="gone",
            at="entities",
            prefix=prefix,
        )
        effects = [
            Effect((Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1),), (9,), table)
            for tenant, table in zip(tenants, tables, strict=False)
        ]
        site = Site(Connections({}, "", servers={"entities": Server("")}), None)
        return sink.open(site).write(effects)

    return write


def named(outcome):
    assert outcome.error is None
    return [(row.row, row.error.code) for row in outcome.refused]


def code(outcome):
    error = as_a_whole(outcome).error
    return error and error.code


# --- requests


def test_the_first_row_goes_alone_and_then_rows_of_one_timestamp_are_one_request(written):
    fake = Fake()
    told = written(fake, leads("abc", 5), rows(("d", "x", 6, False), ("e", "x", 5, False)))
    assert [code(one) for one in told] == [None, None]
    assert fake.calls == [[["a"]], [["b", "c", "e"], ["d"]]]


def test_two_tenants_have_no_row_in_common(written):
    fake = Fake()
    written(fake, leads("a"), leads("a"), prefix="{tenant}:")
    assert sorted(key for keys in fake.requests for key in keys) == ["acme:a", "bolt:a"]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)])
def test_a_null_and_a_delete_hide_what_is_older_whenever_it_comes(written, order):
    steps = [
        rows(("a", "Rome", 1, False), ("b", "Rome", 1, False)),
        rows(("a", None, 3, False), ("b", None, 3, True)),
        rows(("a", "Bonn", 2, False), ("b", "Bonn", 2, False)),
        rows(("a", "Oslo", 3, False), ("b", "Oslo", 4, False)),
    ]
    fake = Fake()
    for step in order:
        [told] = written(fake, steps[step])
        assert code(told) is None
    assert (fake.city("a"), fake.city("b")) == (None, "Oslo")


# --- what is not taken


def test_a_request_that_is_refused_for_a_row_is_halved_down_to_it_and_none_is_sent_twice(written):
    fake = Fake(lambda *keys: TOO_LARGE if "k5" in keys else None)
    [told] = written(fake, leads([f"k{n}" for n in range(20)]))
    assert named(told) == [(5, "SinkRefused")]
    assert {key for (key, _) in fake.cells} == {f"k{n}".encode() for n in range(20) if n != 5}
    assert len({tuple(keys) for keys in fake.requests}) == len(fake.requests)


def test_halves_of_all_that_are_refused_are_on_their_way_at_once(written):
    bad = {"k40", "k80"}
    fake = Fake(lambda *keys: TOO_LARGE if bad & set(keys) else None)
    of_two = rows(*((f"k{n}", "x", n % 2, False) for n in range(100)))
    [told] = written(fake, of_two)
    assert named(told) == [(40, "SinkRefused"), (80, "SinkRefused")]
    assert len(fake.calls) <= 1 + 7


def test_in_place_of_a_row_that_is_refused_the_one_of_its_key_before_it_is_there(written):
    fake = Fake()
    sizes = iter([TOO_LARGE])
    fake.says = lambda *keys: next(sizes, None) if "a" in keys else None
    [told] = written(fake, rows(("a", "Rome", 1, False), ("a", "Oslo", 2, False)))
    assert (named(told), fake.city("a")) == ([(1, "SinkRefused")], "Rome")


def test_rows_that_are_not_taken_now_wait_and_the_others_are_there(written):
    fake = Fake(lambda *keys: BUSY if "c" in keys else None)
    [told] = written(fake, rows(*((key, "x", n, False) for n, key in enumerate("abcd"))))
    assert named(told) == [(2, "SinkUnavailable")]
    assert fake.city("d") == "x"


@pytest.mark.parametrize(
    ("tables", "said"),
    [({}, "there is no such table"), ({"leads": ["other"]}, "no such column family")],
)
def test_of_a_table_that_is_gone_no_row_is_to_blame_and_no_more_is_offered(written, tables, said):
    fake = Fake(lambda *_: BUSY)
    fake.tables = tables
    [told] = written(fake, leads("abc"))
    assert (told.error.code, said in told.error.message) == ("TargetMissing", True)
    assert fake.requests == [["a"]]


def test_when_nobody_answers_no_more_is_offered(written):
    fake = Fake(lambda *_: HUNG_UP)
    [told] = written(fake, leads("abc"))
    assert (told.error.code, fake.requests) == ("SinkUnavailable", [["a"]])


# --- frames


def test_over_framed_connections_requests_are_cut_and_all_rows_are_there(written):
    ids = [f"k{n}" for n in range(40)]
    usual, framed = Fake(), Fake(transport="framed")
    for fake in (usual, framed):
        [told] = written(fake, leads(ids, city="x" * 300_000))
        assert code(told) is None
        assert all(fake.city(key) for key in ids)
    assert max(map(len, framed.requests)) == 3
    assert max(map(len, usual.requests)) > FRAME / 300_000


def test_a_row_that_fits_into_no_frame_is_named_and_the_others_are_there(written):
    fake = Fake(transport="framed")
    cities = {"a": "x", "b": "x" * 1_500_000, "c": "x" * 3_000_000, "d": "x"}
    [told] = written(fake, rows(*((key, city, 7, False) for key, city in cities.items())))
    assert named(told) == [(2, "SinkRefused")]
    assert "max_frame_size_in_mb" in told.refused[0].error.message
    assert [bool(fake.city(key)) for key in cities] == [True, True, False, True]


def test_a_line_that_broke_once_says_nothing_of_a_large_row(written):
    breaks = iter([HUNG_UP])
    fake = Fake(lambda *_: next(breaks, None), "framed")
    [told] = written(fake, leads("a", city="x" * 1_500_000))
    assert code(told) is None
    assert fake.city("a")


def test_nor_does_a_server_that_is_away(written, monkeypatch):
    def away(*_):
        raise translated(ConnectionRefusedError(111, "refused"), Fake.where)

    fake = Fake(transport="framed")
    monkeypatch.setattr(fake, "asked", away)
    [told] = written(fake, leads("a", city="x" * 3_000_000))
    assert told.error.code == "SinkUnavailable"
