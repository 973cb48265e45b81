"""What was sent with a key is answered from memory, of bounded size and age."""

import pytest

from headrace.gateway.events import Fault, Refused, Request
from headrace.gateway.remembering import Memory, fingerprint_of
from headrace.kafka.ingest import Stored

SCOPE = ("acme", "visit", "k1")


def refusal(memory, *args):
    with pytest.raises(Refused) as caught:
        memory.begin(*args)
    return caught.value.fault


@pytest.fixture
def memory():
    return Memory(window_s=60.0, most_bytes=10_000)


def test_what_was_stored_is_known_the_second_time(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5), None])
    assert memory.begin(SCOPE, b"a", 59.0).results == [Stored(0, 5), None]


def test_a_running_request_is_a_conflict(memory):
    memory.begin(SCOPE, b"a", 0.0)
    assert refusal(memory, SCOPE, b"a", 1.0).status == 409


def test_another_request_with_the_key_is_refused(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5)])
    assert refusal(memory, SCOPE, b"b", 1.0).status == 422


def test_a_key_is_of_a_tenant_and_a_type(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5)])
    for other in (("bolt", "visit", "k1"), ("acme", "form", "k1")):
        assert memory.begin(other, b"b", 1.0).results == []


def test_it_ends_with_its_window(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5)])
    assert memory.begin(SCOPE, b"b", 60.0).results == []


def test_a_request_of_which_nothing_is_settled_is_as_if_it_had_not_been(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [None])
    assert len(memory) == 0
    memory.begin(SCOPE, b"b", 1.0)


def test_it_never_grows_beyond_its_size(memory):
    for number in range(1000):
        scope = ("acme", "visit", str(number))
        memory.end(scope, memory.begin(scope, b"a", 0.0), [Fault(422, "x", "y")] * 5)
    assert len(memory) <= 10_000 / 1600 + 1
    assert memory.begin(("acme", "visit", "999"), b"a", 0.0).results


def test_a_request_differs_by_all_that_shows_in_records():
    def of(body=b"{}", key=None, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return fingerprint_of(Request({"content-type": "application/json", **named}, body, key))

    assert of() == of(user_agent="other", idempotency_key="other", traceparent="other")
    assert len({of(), of(b"[]"), of(key="k"), of(ce_id="1"), of(x_partition_key="k")}) == 5
