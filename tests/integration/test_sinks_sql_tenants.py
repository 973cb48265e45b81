"""Databases of tenants on real servers: several write at once, and one is slow for others."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, make_url, text

from headrace.databases.addresses import parse_elsewhere
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable

SINK = SqlTable("leads", {"lead": "text"}, at="history")
AT_ONCE = 6


class Store:
    """Every lane stands where a slice of it begins."""

    def advance(self, moves):
        return [True] * len(moves)


@pytest.fixture(params=["postgres", "mariadb"])
def url(request):
    return make_url(request.getfixturevalue(f"empty_{request.param}"))


class Tenant:
    """One whose database is called as it is."""

    def __init__(self, url):
        self.name, whole = url.database, url.render_as_string(hide_password=False)
        address = whole.replace(self.name, "{tenant}")
        servers_ = {"history": Server(address)}
        self.connections = Connections({}, "sqlite:////no/store.db", servers=servers_)
        self.engine = create_engine(parse_elsewhere(whole, "history").url)
        self.is_mysql = url.get_backend_name() != "postgresql"

    def site(self, *, in_company=False):
        return Site(self.connections, Store(), "w-1", "run-0", in_company=in_company)

    def write(self, lead, first, *, in_company):
        piece = Slice(
            LaneId("keep", self.name, 0), f"{self.name}.visits", first, first + 9, epoch=1
        )
        effect = Effect((piece,), (first + 9,), pa.table({"lead": [lead]}))
        (told,) = SINK.open(self.site(in_company=in_company)).write([effect])
        return told.error

    def asked(self, *statements):
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))

    def leads(self):
        with self.engine.connect() as connection:
            return connection.execute(text("SELECT lead FROM leads ORDER BY lead")).scalars().all()

    @contextmanager
    def locked(self):
        lock = "LOCK TABLES {} WRITE" if self.is_mysql else "LOCK TABLE {} IN EXCLUSIVE MODE"
        with self.engine.connect() as connection:
            connection.execute(text(lock.format("leads")))
            yield
            connection.execute(text("UNLOCK TABLES" if self.is_mysql else "ROLLBACK"))

    def slowed(self, table, seconds):
        if self.is_mysql:
            slow = f"CREATE TRIGGER s_{table} BEFORE INSERT ON {table} FOR EACH ROW"
            self.asked(f"{slow} SET @slept = SLEEP({seconds})")
            return
        self.asked(
            f"CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END $$",
            f"CREATE TRIGGER s_{table} BEFORE INSERT OR UPDATE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION slow()",
        )


@pytest.fixture
def tenant(url):
    made = Tenant(url)
    yield made
    made.engine.dispose()


def test_in_company_a_lock_is_waited_for_a_moment_and_nothing_is_left_of_it(tenant):
    assert tenant.write("a", 0, in_company=True) is None
    with tenant.locked():
        began_s = time.monotonic()
        error = tenant.write("b", 9, in_company=True)
        # Alone it has ten seconds and more.
        assert 1.0 < time.monotonic() - began_s < 8.0
    assert (error.code, error.temporary) == ("TenantsSinkSlow", True)
    assert tenant.write("b", 9, in_company=False) is None
    assert tenant.write("c", 18, in_company=True) is None
    assert tenant.leads() == ["a", "b", "c"]


def test_in_company_all_statements_of_a_write_end_in_a_moment(tenant):
    """Each of them would have come to its end in its own time."""
    assert tenant.write("a", 0, in_company=True) is None
    for table in ("leads", "headrace_written"):
        tenant.slowed(table, 1.4)
    error = tenant.write("b", 9, in_company=True)
    assert error.code == "TenantsSinkSlow"
    assert tenant.leads() == ["a"]
    assert tenant.write("b", 9, in_company=False) is None
    assert tenant.leads() == ["a", "b"]


def test_of_many_that_make_a_tenants_table_at_once_all_write_to_it(tenant):
    site = tenant.site()
    SINK.prepare(site)

    def write(number):
        piece = Slice(LaneId("keep", tenant.name, number), f"{tenant.name}.visits", 0, 9, epoch=1)
        effect = Effect((piece,), (9,), pa.table({"lead": [str(number)]}))
        return SINK.open(site).write([effect])[0].error

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert list(threads.map(write, range(AT_ONCE))) == [None] * AT_ONCE
    assert tenant.leads() == [str(number) for number in range(AT_ONCE)]
