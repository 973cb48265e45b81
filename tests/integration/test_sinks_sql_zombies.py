"""Attempts at the same recorded slices, at once and late, in a database elsewhere."""

from collections import Counter

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace.databases.addresses import parse_elsewhere
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import SqlTable
from zombies import Zombies

SEEN = SqlTable("seen", {"tenant": "text", "place": "bigint"}, at="history")
WAVES = 25


def effect_of(piece):
    places = list(range(piece.from_offset, piece.until_offset))
    table = pa.table({"tenant": [piece.lane.tenant] * len(places), "place": places})
    return Effect((piece,), (piece.until_offset,), table)


def attempted(url, seed, *, fenced):
    """All waves, with zombies."""
    servers = {"history": Server(url)}
    connections = Connections({}, "sqlite:////nowhere/store.db", servers=servers)
    fence = "run-0" if fenced else ""

    def write(wave_id, pieces, store):
        there = Site(connections, store, wave_id, fence)
        return SEEN.open(there).write([effect_of(piece) for piece in pieces])

    run = Zombies(write, seed, lanes=6)
    SEEN.prepare(Site(connections, run.store, "w", fence))
    run.until_over(WAVES)
    return run


def rows(url):
    engine = create_engine(parse_elsewhere(url, "history").url)
    with engine.connect() as connection:
        found = Counter(map(tuple, connection.execute(text("SELECT tenant, place FROM seen"))))
    engine.dispose()
    return found


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    return request.getfixturevalue(f"empty_{request.param}")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_record_has_its_row_once_whoever_wakes_up_when(url, seed):
    run = attempted(url, seed, fenced=True)
    assert run.wrong(rows(url), least=100) == []
    assert run.refused > 10, run.outcomes


def test_without_notes_this_test_would_tell(url):
    run = attempted(url, 3, fenced=False)
    assert run.wrong(rows(url), least=100)
