"""Failures by HTTP: the record as it came, and each way to go on."""

import base64
from dataclasses import replace

import pytest

from headrace.console import failures
from headrace.console.rows import failure_row
from headrace.console.watcher import Watcher
from headrace.cycle.restarts import PASSED_OVER
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import number_of
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, FailureState, Move
from headrace.model.streams import LaneId, Slice, State, StreamId

ACME = StreamId("score", "acme")
SHARD = LaneId("score", "acme", "clicks:acme.visits/shardId-000000000000")


def state(store, number):
    return store.failures.one(number).state


def at(store, partition=0):
    found = store.progress.load_positions([ACME])
    return next(
        position.next_offset for position in found if number_of(position.lane.name) == partition
    )


def test_a_failure_is_shown_with_its_record_byte_for_byte(api, fail):
    shown = api.get(f"/v1/failures/{fail()}", "tenant").json()
    assert shown["traceback"] == "Traceback ..."
    assert shown["record"] == {
        "key": {"text": "k", "base64": "aw=="},
        "value": {"text": None, "base64": "/3s="},
        "headers": [
            {"name": "h", "text": "1", "base64": "MQ=="},
            {"name": "n", "text": None, "base64": None},
        ],
    }


def test_a_viewer_does_not_see_the_record(api, fail):
    shown = api.get(f"/v1/failures/{fail()}", "viewer").json()
    assert shown["record"] is None
    assert shown["offset"] == "3"


def test_of_a_slice_without_a_record_none_is_kept(api, fail):
    shown = api.get(f"/v1/failures/{fail(offset=None)}").json()
    assert (shown["record"], shown["record_kept"]) == (None, False)
    assert api.get(f"/v1/failures/{fail(partition=1)}").json()["record_kept"] is True


def test_a_failure_says_where_its_record_goes_whichever_log_it_came_from(api, fail, store):
    number = fail()
    assert api.get(f"/v1/failures/{number}").json()["dead_letters"] == "acme.visits.dlq"
    failure = store.failures.one(number)
    elsewhere = replace(failure.slice, topic="clicks:acme.visits", lane=SHARD)
    row = failure_row(replace(failure, slice=elsewhere), 0)
    assert row["dead_letters"] == "clicks--acme.visits.dlq"


def test_a_failure_without_a_record_has_none(api, fail):
    assert api.get(f"/v1/failures/{fail(offset=None)}").json()["record"] is None


@pytest.mark.parametrize("path", ["/v1/failures", "/v1/streams", "/v1/streams/acme/score"])
@pytest.mark.parametrize("who", ["operator", "tenant"])
def test_a_message_with_half_a_character_hides_nothing_from_anybody(api, fail, path, who):
    r"""As in a record that says "\ud800", which is JSON, and text that no answer may hold."""
    number = fail(message="no page \ud800", traceback="of \udfff")
    assert "no page \\ud800" in api.get(f"/v1/failures/{number}", who).json()["message"]
    shown = api.get(path, who)
    assert shown.status_code == 200
    assert r"no page \\ud800" in shown.text


def test_a_foreign_failure_reads_like_one_that_is_not_there(api, fail):
    number = fail("bolt")
    for path in ("", "/retry", "/skip"):
        method = "POST" if path else "GET"
        foreign = api(method, f"/v1/failures/{number}{path}", "tenant")
        missing = api(method, f"/v1/failures/{number + 1}{path}", "tenant")
        assert foreign.status_code == missing.status_code == 404
        assert foreign.text.replace(str(number), "*") == missing.text.replace(str(number + 1), "*")


def test_a_list_goes_on_behind_its_cursor_and_knows_states(api, store, fail):
    first, second = fail(), fail("bolt")
    store.failures.retry(first)
    third = fail(offset=4)
    page = api.get("/v1/failures?limit=2").json()
    assert [item["id"] for item in page["items"]] == [first, second]
    rest = api.get(f"/v1/failures?cursor={page['next']}").json()
    assert [item["id"] for item in rest["items"]] == [third]
    assert [item["id"] for item in api.items("/v1/failures?state=open")] == [second, third]
    assert [item["id"] for item in api.items("/v1/failures?state=retried")] == [first]
    assert [item["id"] for item in api.items("/v1/failures?tenant=bolt")] == [second]
    assert api.items("/v1/failures?use_case=none") == []


def test_ranges_that_nobody_reads_any_more_are_asked_for_alone(api, store, fail):
    failed, lane = fail("bolt"), LaneId("score", "acme", "acme.visits[0]")
    (at,) = [one for one in store.progress.load_positions([ACME]) if one.lane == lane]
    move = Move(lane, at.next_offset, at.next_offset + 6, at.epoch)
    piece = Slice(lane, "acme.visits", move.from_offset, move.to_offset, at.epoch)
    error = SliceError(False, PASSED_OVER, "its last driver did not give it back")
    note = Failure(piece, error, 1.0, 0, FailureState.SKIPPED)
    assert store.progress.pass_over(ACME, [move], [note])
    (shown,) = api.items("/v1/failures?unread=true")
    assert (shown["code"], shown["state"], shown["attempts"]) == (PASSED_OVER, "skipped", 0)
    assert (shown["from_offset"], shown["until_offset"]) == (
        str(move.from_offset),
        str(move.to_offset),
    )
    assert shown["record_kept"] is False, "nothing of it was read"
    assert (shown["state"], shown["became"]) == ("skipped", "passed over"), "as the terminal has it"
    assert [item["id"] for item in api.items("/v1/failures?unread=false")] == [failed]
    assert api.items("/v1/failures?unread=true&tenant=bolt") == []


def test_a_page_of_failures_takes_one_look(api, fail, monkeypatch):
    looks, look = [], Watcher.view

    def counted(watcher):
        looks.append(watcher)
        return look(watcher)

    numbers = [fail(), fail("bolt"), fail(partition=1)]
    monkeypatch.setattr(Watcher, "view", counted)
    assert [item["id"] for item in api.get("/v1/failures").json()["items"]] == numbers
    assert len(looks) == 1


@pytest.mark.parametrize("path", ["/v1/failures", "/v1/audit"])
def test_a_cursor_with_a_number_that_no_database_has_is_refused(api, path):
    for number, status in ((2**63 - 1, 200), (2**63, 422), (-(2**63) - 1, 422)):
        cursor = base64.urlsafe_b64encode(f"[{number}]".encode()).decode()
        assert api.get(f"{path}?cursor={cursor}").status_code == status


def test_failures_of_others_are_not_read_to_find_those_of_one_tenant(api, store, fail, monkeypatch):
    numbers = [fail(), fail("bolt"), fail(partition=1)]
    asked, real = [], store.failures.every

    def noted(stream=None, **more):
        asked.append(stream)
        return real(stream, **more)

    api.items("/v1/tenants")
    monkeypatch.setattr(store.failures, "every", noted)
    listed = [item["id"] for item in api.items("/v1/failures", "tenant")]
    assert listed == [numbers[0], numbers[2]]
    assert api.items("/v1/failures?tenant=bolt", "tenant") == []
    assert set(asked) == {ACME}


def test_a_long_list_is_read_in_parts(api, store, fail, monkeypatch):
    monkeypatch.setattr(failures, "_AT_ONCE", 2)
    numbers = []
    for offset in range(3, 8):
        numbers.append(fail(offset=offset))
        store.failures.retry(numbers[-1])
    assert [item["id"] for item in api.items("/v1/failures")] == numbers


def test_a_retry_lets_the_lane_go_on_at_the_record(api, store, fail):
    number = fail()
    answer = api("POST", f"/v1/failures/{number}/retry", "tenant").json()
    assert answer["failure"]["state"] == "retried"
    assert (answer["next_offset"], answer["suspended"]) == ("3", None)
    assert state(store, number) is FailureState.RETRIED
    again = api("POST", f"/v1/failures/{number}/retry")
    assert again.status_code == 409
    assert "not open any more" in again.json()["detail"]


def test_a_skip_keeps_the_record_first_and_then_moves_the_lane(api, store, tools, fail):
    number = fail()
    answer = api("POST", f"/v1/failures/{number}/skip", "tenant").json()
    assert (answer["next_offset"], at(store)) == ("4", 4)
    (letter,) = tools.kept.letters
    assert (letter.error.offset, letter.error.raw_value, letter.attempts) == (3, b"\xff{", 4)
    assert state(store, number) is FailureState.SKIPPED


@pytest.mark.parametrize("role", ["operator", "tenant"])
def test_what_stops_a_removed_stream_is_listed_and_skipped_too(api, store, tools, fail, role):
    number = fail()
    store.registry.set_stream_state(ACME, State.REMOVED)
    assert [item["id"] for item in api.items("/v1/failures?state=open", role)] == [number]
    answer = api("POST", f"/v1/failures/{number}/skip", role).json()
    assert (answer["next_offset"], at(store)) == ("4", 4)
    assert len(tools.kept.letters) == 1
    assert state(store, number) is FailureState.SKIPPED


def test_a_record_that_is_not_safe_is_not_skipped(api, store, tools, fail):
    number = fail()
    tools.kept.fail_next(BrokerUnavailable("down"))
    assert api("POST", f"/v1/failures/{number}/skip").status_code == 503
    assert (at(store), state(store, number)) == (3, FailureState.OPEN)


def test_a_whole_slice_is_skipped_only_if_that_is_meant(api, store, tools, fail):
    number = fail(offset=None)
    refused = api("POST", f"/v1/failures/{number}/skip")
    assert refused.status_code == 409
    assert at(store) == 3
    answer = api("POST", f"/v1/failures/{number}/skip", json={"whole_slice": True})
    assert answer.json()["next_offset"] == "9"
    assert tools.kept.letters == []


def test_a_skip_from_elsewhere_leaves_nothing_behind(api, store, tools, fail):
    number = fail()
    lanes = store.data.positions[ACME]
    lanes["acme.visits[0]"] = lanes["acme.visits[1]"]
    store.data.positions[ACME].pop("acme.visits[0]")
    assert api("POST", f"/v1/failures/{number}/skip").status_code == 409
    assert tools.kept.letters == []


def test_who_goes_on_is_told_that_the_stream_stands_still_all_the_same(api, store, fail):
    number = fail()
    store.registry.set_stream_state(ACME, State.SUSPENDED, "use case stopped")
    answer = api("POST", f"/v1/failures/{number}/retry").json()
    assert answer["suspended"] == "use case stopped"


@pytest.mark.parametrize("number", ["0", "-1", "x", str(2**63)])
def test_a_number_that_is_none_is_refused(api, number):
    assert api.get(f"/v1/failures/{number}").status_code == 422
