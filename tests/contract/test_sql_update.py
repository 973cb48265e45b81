"""What stands in ``update`` is read by the database before anything is written with it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sqlalchemy import make_url

from headrace.connectors.sql.servers import target_of
from headrace.errors import ConfigError
from headrace.ports import Connections, Server, Site
from headrace.sinks import SqlTable
from headrace.store import open_store

PAGES = SqlTable(
    "pages",
    {"page": "text", "visits": "bigint", "last": "bigint"},
    key=("page",),
    update={"last": "pages.last % 2 + excluded.last", "visits": "pages.visits + 1"},
)
WRONG = ["pages.vists + 1", "excluded.vists", "pages.visits +", "page.visits + 1", "f(visits)"]


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def elsewhere(request, tmp_path):
    """The same table in a database of each kind that is not the store's, and its site."""
    names = {"postgresql": "postgres_url", "mariadb": "empty_mariadb"}
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    if request.param in names:
        url = request.getfixturevalue(names[request.param])
    made = make_url(url)
    server = Server(made.render_as_string(hide_password=False), made.username, made.password)
    connections = Connections({}, f"sqlite:///{tmp_path}/store.db", servers={"pages": server})
    yield replace(PAGES, at="pages"), Site(connections, None)
    target_of(connections, "pages").close()


@pytest.fixture
def beside(made_store_url):
    """The table in the store's database, and its site."""
    store = open_store(made_store_url)
    yield PAGES, Site(Connections({}, made_store_url), store.positions)
    store.close()


@pytest.mark.parametrize("wrong", WRONG)
def test_what_the_stores_database_does_not_take_is_refused(beside, wrong):
    refuses(*beside, wrong)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_another_database_does_not_take_is_refused(elsewhere, wrong):
    refuses(*elsewhere, wrong)


def refuses(sink, site, wrong):
    sink.prepare(site)
    with pytest.raises(ConfigError, match=re.escape(f"update of 'visits', {wrong!r}: ")):
        replace(sink, update={**sink.update, "visits": wrong}).prepare(site)
