"""Databases of tenants on real servers, first written to by several tasks at once."""

from concurrent.futures import ThreadPoolExecutor

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


def test_of_many_that_make_a_tenants_table_at_once_all_write_to_it(url):
    # The tenant is called as its database is.
    tenant, whole = url.database, url.render_as_string(hide_password=False)
    address = whole.replace(tenant, "{tenant}")
    connections = Connections({}, "sqlite:////no/store.db", servers={"history": Server(address)})
    site = Site(connections, Store(), "w-1", "run-0")
    SINK.prepare(site)

    def write(number):
        piece = Slice(LaneId("keep", tenant, number), f"{tenant}.visits", 0, 9, epoch=1)
        effect = Effect((piece,), (9,), pa.table({"lead": [str(number)]}))
        return SINK.open(site).write([effect])[0].error

    with ThreadPoolExecutor(AT_ONCE) as threads:
        assert list(threads.map(write, range(AT_ONCE))) == [None] * AT_ONCE
    engine = create_engine(parse_elsewhere(whole, "history").url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT lead FROM leads ORDER BY lead")).scalars().all()
    engine.dispose()
    assert found == [str(number) for number in range(AT_ONCE)]
