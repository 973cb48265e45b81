"""What a handler sees of its state in one call, and what becomes of it."""

import pyarrow as pa
import pytest

from headrace import StateTable
from headrace.errors import ConfigError, StateFull, StateRefused, StoreUnavailable, WrongSchema
from headrace.model.state import StateKey, StateLoaded, StateSize
from headrace.model.streams import LaneId
from headrace.state.copies import KnownState
from headrace.state.seen import PortionState, State

COLUMNS = pa.schema([("user", pa.string()), ("visits", pa.int64())])
SEEN = StateTable("seen", COLUMNS, key="user", scope="lane")
LANE = LaneId("score", "acme", "acme.visits[0]")
ADA = b'{"user":"ada","visits":3}'


class Kept:
    """Rows as a store has them, and what was asked of it."""

    def __init__(self, **rows):
        self.rows = {key.encode(): row for key, row in rows.items()}
        self.asked = []

    def __call__(self, table, keys):
        self.asked.append(list(keys))
        size = StateSize(len(self.rows), sum(map(len, [*self.rows, *self.rows.values()])))
        return StateLoaded({key: self.rows[key] for key in keys if key in self.rows}, size)


def portion(kept, **more):
    return PortionState({"seen": SEEN}, kept, **more)


def answered(of, call):
    of.answered(call)
    of.go_on()


def test_many_keys_are_one_question_and_none_is_asked_twice():
    kept = Kept(ada=ADA)
    of = portion(kept)
    seen = of.begin()["seen"]
    assert seen.load(pa.chunked_array([["ada", "bo", "ada"]])).to_pylist() == [
        {"user": "ada", "visits": 3}
    ]
    assert seen.get("ada") == {"user": "ada", "visits": 3}
    assert seen.get("bo") is None
    of.begin()["seen"].load(["bo", "cy"])
    assert kept.asked == [[b"ada", b"bo"], [b"cy"]]


def test_a_call_sees_its_own_changes_and_no_other_call_does_before_they_count():
    of = portion(Kept(ada=ADA))
    first = of.begin()
    first["seen"].put({"user": "ada", "visits": 4})
    first["seen"].delete(["bo"])
    assert first["seen"].get("ada") == {"user": "ada", "visits": 4}
    assert of.begin()["seen"].get("ada") == {"user": "ada", "visits": 3}
    answered(of, first)
    second = of.begin()
    assert second["seen"].get("ada") == {"user": "ada", "visits": 4}
    second["seen"].delete(["ada"])
    of.answered(second)
    assert of.changes(LANE).rows == {StateKey("seen", b"ada"): b'{"user":"ada","visits":4}'}
    of.go_on()
    changes = of.changes(LANE)
    assert (changes.rows, changes.part) == ({StateKey("seen", b"ada"): None}, LANE.name)
    assert changes.grows == StateSize(-1, -len(b"ada" + ADA))


def test_what_is_as_it_was_kept_is_not_written_again():
    of = portion(Kept(ada=ADA))
    call = of.begin()
    call["seen"].put({"user": "ada", "visits": 9})
    call["seen"].put({"user": "ada", "visits": 3})
    call["seen"].put({"user": "new", "visits": 1})
    call["seen"].delete(["new"])
    answered(of, call)
    assert of.changes(LANE).rows == {}
    assert of.changes(LANE).grows == StateSize()


def test_of_two_rows_of_a_key_the_last_counts():
    call = portion(Kept()).begin()
    call["seen"].save(pa.table({"user": ["ada", "ada"], "visits": [1, 2]}))
    assert call["seen"].get("ada") == {"user": "ada", "visits": 2}


def test_a_tenant_has_no_more_than_it_may_and_can_always_have_less():
    kept = Kept(ada=ADA, bo=b'{"user":"bo","visits":1}')
    of = portion(kept, most=StateSize(2, 1_000))
    call = of.begin()
    with pytest.raises(StateFull, match=r"has 3 rows and .* a tenant may have 2 and 1000"):
        call["seen"].put({"user": "cy", "visits": 1})
    call["seen"].put({"user": "ada", "visits": 2})
    call["seen"].delete(["bo"])
    call["seen"].put({"user": "cy", "visits": 1})
    answered(of, call)
    with pytest.raises(StateFull):
        of.begin()["seen"].put({"user": "dee", "visits": 1})
    full = portion(kept, most=StateSize(10, 10))
    full.begin()["seen"].delete(["ada"])
    with pytest.raises(StateFull):
        full.begin()["seen"].put({"user": "ada", "visits": 1_000_000})


def test_trouble_of_the_store_is_told_whatever_the_handler_makes_of_it():
    def away(table, keys):
        raise StoreUnavailable("no answer")

    of = portion(away)
    call = of.begin()
    with pytest.raises(StoreUnavailable):
        call["seen"].get("ada")
    with pytest.raises(StoreUnavailable):
        of.answered(call)
    with pytest.raises(StoreUnavailable):
        of.begin()["seen"].delete(["bo"])


def test_keys_of_other_lanes_are_refused_with_scope_key():
    table = StateTable("seen", COLUMNS, key="user")
    of = PortionState({"seen": table}, Kept(), owns=lambda key: key == b"ada")
    seen = of.begin()["seen"]
    seen.put({"user": "ada", "visits": 1})
    for use in (seen.load, seen.delete, lambda keys: seen.put({"user": keys[0], "visits": 1})):
        with pytest.raises(StateRefused, match="scope key"):
            use(["bo"])


def test_a_table_that_is_not_declared_is_named():
    with pytest.raises(ConfigError, match="no state table 'scores'; it has seen"):
        State.of(SEEN)["scores"]
    with pytest.raises(ConfigError, match="it has none"):
        State()["scores"]
    assert list(State.of(SEEN)) == ["seen"]


def test_a_test_of_a_handler_needs_no_store():
    state = State.of(SEEN)
    state["seen"].put({"user": "ada", "visits": 1})
    assert state["seen"].load(["ada", "bo"]).to_pylist() == [{"user": "ada", "visits": 1}]


def test_state_that_a_handler_kept_from_an_earlier_call_is_refused():
    portion = PortionState({SEEN.name: SEEN})
    earlier = portion.begin()
    portion.answered(earlier)
    for use in (lambda of: of.load(["k"]), lambda of: of.delete(["k"]), lambda of: of.get("k")):
        with pytest.raises(ConfigError, match="a call which is over"):
            use(earlier[SEEN.name])
    assert portion.begin()[SEEN.name].get("k") is None


@pytest.mark.parametrize(
    ("row", "named"),
    [({"user": "ada"}, "'visits' is missing"), ({"user": "ada", "visits": 1, "vists": 2}, "vists")],
)
def test_a_row_of_other_columns_is_refused_also_where_it_is_a_dict(row, named):
    seen = State.of(SEEN)["seen"]
    with pytest.raises(WrongSchema, match=named):
        seen.put(row)
    assert seen.get("ada") is None


def test_a_table_with_a_column_more_or_one_twice_is_refused():
    seen = State.of(SEEN)["seen"]
    columns = [pa.array(["ada"]), pa.array([1]), pa.array([2])]
    for last in ("vists", "visits"):
        with pytest.raises(WrongSchema, match="a row that is saved has"):
            seen.save(pa.Table.from_arrays(columns, names=["user", "visits", last]))


def test_a_row_that_cannot_be_read_is_not_overwritten_by_who_catches_that():
    kept = Kept(ada=b'{"user":"ada","visits":"three"}')
    of = portion(kept)
    call = of.begin()
    with pytest.raises(ConfigError, match="does not fit its columns"):
        call["seen"].get("ada")
    with pytest.raises(ConfigError, match="does not fit its columns"):
        call["seen"].put({"user": "ada", "visits": 1})
    with pytest.raises(ConfigError, match="does not fit its columns"):
        of.answered(call)
    assert of.changes(LANE).rows == {}


def test_a_row_of_another_key_is_trouble_of_its_portion():
    of = portion(Kept(ada=b'{"user":"YWRh","visits":1}'))
    call = of.begin()
    with pytest.raises(ConfigError, match="not kept by a key 'user' of type string"):
        call["seen"].load(["ada"])
    with pytest.raises(ConfigError):
        of.answered(call)


def test_what_a_copy_tells_of_other_lanes_is_asked_anew_before_anything_is_refused():
    """They let rows go since; what a lane is stopped at by mistake, a person has to look at."""
    kept, known = Kept(ada=ADA), KnownState()
    known.told({StateKey("seen", b"bo"): None}, StateSize(9, 900), 0.0)
    of = portion(kept, known=known, most=StateSize(2, 1_000))
    call = of.begin()
    call["seen"].put({"user": "bo", "visits": 1})
    with pytest.raises(StateFull, match="has 3 rows"):
        call["seen"].put({"user": "cy", "visits": 1})
    assert kept.asked == [[], [b"cy"]]
    answered(of, call)
    assert of.size().rows == 2
