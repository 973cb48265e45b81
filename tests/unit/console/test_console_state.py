"""State of keys by HTTP: figures for who may look, rows for whose they are."""

import base64
import json

import pytest

from headrace.model.records import Move
from headrace.model.state import StateChanges, StateKey, StateSize, number_key
from headrace.model.streams import LaneId, StreamId

PATH = "/v1/streams/acme/score/state"
LARGE = b'{"who":"ada","n":9007199254740993}'


@pytest.fixture(autouse=True)
def kept(store):
    """Rows of both tenants; acme has a key that is a number, and one that is no text."""
    for tenant in ("acme", "bolt"):
        stream = StreamId("score", tenant)
        epoch = store.membership.hold([stream])[stream]
        lane = LaneId(*stream, f"{tenant}.visits[0]")
        rows = {StateKey("seen", b"ada"): LARGE, StateKey("seen", number_key(7)): b'{"n":7}'}
        if tenant == "acme":
            rows[StateKey("other", b"\xff")] = b'{"who":"/w=="}'
        changes = StateChanges(lane, rows, StateSize(len(rows), 10))
        assert store.positions.advance_groups([[Move(lane, 3, 4, epoch)]], [changes]) == [True]


def rows(api, query="", who="operator", table="seen"):
    return api.items(f"{PATH}/{table}{query}", who)


def test_how_much_there_is_by_stream_and_a_tenant_sees_its_own(api):
    acme = {"tenant": "acme", "use_case": "score", "rows": 3, "bytes": 10}
    bolt = {"tenant": "bolt", "use_case": "score", "rows": 2, "bytes": 10}
    for who in ("operator", "viewer"):
        assert api.items("/v1/state", who) == [acme, bolt]
    assert api.items("/v1/state", "tenant") == [acme]
    assert api.items("/v1/state?tenant=bolt", "tenant") == []
    assert api.items("/v1/state?tenant=bolt") == [bolt]
    first = api.get("/v1/state?limit=1").json()
    assert api.items(f"/v1/state?limit=1&cursor={first['next']}") == [bolt]


def test_how_much_is_in_each_table(api):
    tables = api.items(PATH, "viewer")
    assert [(table["table"], table["rows"]) for table in tables] == [("other", 1), ("seen", 2)]
    assert api.get("/v1/streams/acme/none/state").status_code == 404


def test_a_row_is_shown_with_every_digit_of_its_numbers(api):
    answer = api.get(f"{PATH}/seen?key=ada", "tenant")
    assert b"9007199254740993" in answer.content
    row = {"part": "acme.visits[0]", "key_hex": "616461"}
    assert answer.json()["items"] == [{**row, "row": {"who": "ada", "n": 2**53 + 1}}]


def test_a_key_is_typed_as_text_as_a_number_or_as_digits(api):
    assert [row["row"] for row in rows(api, "?key=7")] == [{"n": 7}]
    assert [row["row"] for row in rows(api, "?key_hex=FF", table="other")] == [{"who": "/w=="}]
    assert len(rows(api, "?key=ada&key=7")) == 2
    assert rows(api, "?key=bo") == []
    refused = api.get(f"{PATH}/seen?key_hex=f")
    assert (refused.status_code, "hexadecimal" in refused.json()["detail"]) == (409, True)


def test_rows_come_in_pages(api):
    first = api.get(f"{PATH}/seen?limit=1").json()
    rest = api.get(f"{PATH}/seen?limit=1&cursor={first['next']}").json()
    assert [page["items"][0]["row"].get("who") for page in (first, rest)] == [None, "ada"]
    assert rest["next"] is None


@pytest.mark.parametrize("last", [["acme\0", "61"], ["\udc80", "61"], ["acme.visits[0]", "6"]])
def test_a_cursor_that_no_database_takes_is_refused(api, last):
    made = base64.urlsafe_b64encode(json.dumps(last).encode()).decode().rstrip("=")
    assert api.get(f"{PATH}/seen?cursor={made}").status_code == 422
    assert api.get(f"{PATH}/seen?cursor=nonsense").status_code == 422


def test_who_may_only_look_does_not_see_what_is_in_a_row(api):
    assert api.get(f"{PATH}/seen", "viewer").status_code == 403
    assert api.get(f"{PATH}/seen", "bolt").status_code == 404
