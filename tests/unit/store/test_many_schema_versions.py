"""More versions than one statement may name, and no statement for each of them."""

import pytest
from sqlalchemy import event

from headrace.store import open_store, pairs
from headrace.testing.store_contract.schema_subjects import new, put


@pytest.fixture
def store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    yield store
    store.close()


def registered(subjects, count):
    for number in range(count):
        put(subjects, "a", new(str(number)))
    return subjects.seen("a")


@pytest.mark.parametrize("permanent", [False, True])
def test_all_of_them_go_portion_by_portion(store, monkeypatch, permanent):
    monkeypatch.setattr(pairs, "AT_ONCE", 2)
    ours = store.schema_subjects
    put(ours, "b", new("3"))
    seen = registered(ours, 7)
    assert ours.delete(seen, range(1, 7), permanent=permanent)
    assert [version.version for version in ours.seen("a").alive] == [7]
    assert [bool(ours.schema(id_)) for id_ in (1, 2, 7)] == [True, not permanent, True]


def test_as_many_statements_are_made_for_many_as_for_few(store):
    ours, made = store.schema_subjects, []
    engine = store._database.engine
    event.listen(engine, "before_cursor_execute", lambda *told: made.append(told[2]))
    counts = []
    for count in (3, 60):
        seen = registered(ours, count)
        made.clear()
        ours.delete(seen, [one.version for one in seen.versions], permanent=True)
        counts.append(len(made))
    assert counts[0] == counts[1]
