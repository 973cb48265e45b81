"""Finding many streams."""

from sqlalchemy import or_, select

from headrace.model.records import Deployment
from headrace.model.streams import StreamId, Tenant
from headrace.store import open_store
from headrace.store.pairs import matching
from headrace.store.schema import streams


def test_many_streams_are_found_with_few_statements():
    wanted = [StreamId(case, f"t{n}") for case in ("a", "b") for n in range(1001)]
    assert len(list(matching(streams, wanted + wanted))) == 6


def test_exactly_the_named_streams_match(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    for case in ("a", "b"):
        store.registry.deploy(Deployment(case, "m.py", "00", f"{{tenant}}.{case}"))
    for name in ("x", "y"):
        store.registry.add_tenant(Tenant(name))
    crossed = {StreamId("a", "x"), StreamId("b", "y")}
    with store._database.read() as connection:
        asked = select(streams).where(or_(*matching(streams, crossed)))
        assert {StreamId(row.use_case, row.tenant) for row in connection.execute(asked)} == crossed
    store.close()


def test_no_streams_are_no_conditions():
    assert list(matching(streams, [])) == []
