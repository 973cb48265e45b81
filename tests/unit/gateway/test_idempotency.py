"""What was sent with a key is answered from memory, of bounded size and age."""

from contextlib import suppress
from types import SimpleNamespace

import pytest

from headrace.connectors.kafka.ingest import Stored
from headrace.gateway.events import EventFault, Request, RequestRefused
from headrace.gateway.idempotency import IdempotencyMemory, fingerprint_of

SCOPE = ("acme", "visit", "k1", 0)


def refusal(memory, *args):
    with pytest.raises(RequestRefused) as caught:
        memory.begin(*args)
    return caught.value.fault


@pytest.fixture
def clock():
    return SimpleNamespace(now_s=0.0)


@pytest.fixture
def memory(clock):
    return IdempotencyMemory(window_s=60.0, most_bytes=10_000, steady=lambda: clock.now_s)


def test_what_was_stored_is_known_the_second_time(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5), None])
    assert memory.begin(SCOPE, b"a", 59.0).results == [Stored(0, 5), None]


def test_a_running_request_is_a_conflict(memory):
    memory.begin(SCOPE, b"a", 0.0)
    assert refusal(memory, SCOPE, b"a", 1.0).status == 409


def test_another_request_with_the_key_is_refused(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5)])
    assert refusal(memory, SCOPE, b"b", 1.0).status == 422


def test_a_key_is_of_a_tenant_a_generation_and_a_type(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 5)])
    for other in (
        ("bolt", "visit", "k1", 0),
        ("acme", "form", "k1", 0),
        ("acme", "visit", "k1", 7),
    ):
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
        scope = ("acme", "visit", str(number), 0)
        memory.end(scope, memory.begin(scope, b"a", 0.0, 5), [EventFault(422, "x", "y")] * 5)
    assert len(memory) <= 10_000 / 1600 + 1
    assert memory.begin(("acme", "visit", "999", 0), b"a", 0.0).results


def test_a_tenant_that_sends_much_takes_no_answer_from_another(memory):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 1)])
    for number in range(1000):
        scope = ("bolt", "visit", str(number), 0)
        memory.end(scope, memory.begin(scope, b"b", 1.0, 5), [Stored(0, 2)] * 5)
    assert memory.begin(SCOPE, b"a", 2.0).results == [Stored(0, 1)]
    assert memory.begin(("bolt", "visit", "999", 0), b"b", 2.0).results
    assert len(memory) <= 10_000 / 1600 + 1


class Silent:
    """Records on their way of which nobody hears, until somebody says so."""

    def __init__(self):
        self.known, self.callbacks = False, []
        self.fates = SimpleNamespace(
            done=lambda: self.known, add_done_callback=self.callbacks.append
        )

    def come_to_an_end(self):
        self.known = True
        for callback in self.callbacks:
            callback(self.fates)


def goes_on(memory, scope, now_s=0.0, items=1):
    entry = memory.begin(scope, b"a", now_s, items)
    entry.sending = entry.sending or Silent()
    memory.end(scope, entry, [None] * items)
    return entry


def test_a_request_that_goes_on_is_remembered_until_its_fate_is_known(memory, clock):
    entry = goes_on(memory, SCOPE)
    memory.end(("a", "b", "c"), memory.begin(("a", "b", "c"), b"b", 1.0), [Stored(0, 5)])
    assert refusal(memory, SCOPE, b"other", 1000.0).kind == "idempotency-key-reused"
    assert len(memory) == 1  # what came after it is forgotten in its time
    clock.now_s = 1000.0
    entry.sending.come_to_an_end()
    assert refusal(memory, SCOPE, b"other", 1059.0).kind == "idempotency-key-reused"
    assert memory.begin(SCOPE, b"other", 1060.0).results == []


def test_what_was_stored_after_a_window_is_told_to_who_sends_it_again(memory, clock):
    """A broker was away for longer than answers are kept, and each repeat was told so."""
    for now_s in (0.0, 30.0, 59.0, 90.0):
        entry = goes_on(memory, SCOPE, now_s)
    clock.now_s = 100.0
    entry.sending.come_to_an_end()
    assert memory.begin(SCOPE, b"a", 110.0) is entry


def test_what_was_stored_at_a_second_try_is_known_for_a_window_from_then_on(memory, clock):
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0, 2), [Stored(0, 5), None])
    clock.now_s = 59.0
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 59.0, 2), [Stored(0, 5), Stored(0, 6)])
    assert memory.begin(SCOPE, b"a", 70.0, 2).results == [Stored(0, 5), Stored(0, 6)]


def test_what_nobody_will_ever_know_is_forgotten_however_often_it_is_asked_for(memory):
    unknown = EventFault(503, "not-acknowledged", "nobody knows")
    for now_s in range(0, 60, 10):
        memory.end(SCOPE, memory.begin(SCOPE, b"a", now_s), [unknown])
    assert memory.begin(SCOPE, b"a", 60.0).results == []


def test_when_all_of_it_goes_on_new_keys_are_told_to_come_again(memory):
    for number in range(100):
        try:
            goes_on(memory, ("acme", "visit", str(number), 0))
        except RequestRefused as refused:
            fault = refused.fault
    assert len(memory) <= 10_000 / 800 / 4
    assert (fault.status, fault.kind) == (503, "busy")
    assert memory.begin(("acme", "visit", "0", 0), b"a", 1.0).is_open


@pytest.mark.parametrize("items", [1, 100])
def test_tenants_whose_requests_go_on_for_days_cost_the_others_nothing(items):
    memory = IdempotencyMemory(window_s=60.0, most_bytes=1_000_000)
    memory.end(SCOPE, memory.begin(SCOPE, b"a", 0.0), [Stored(0, 1)])
    for tenant in range(8):
        with suppress(RequestRefused):
            for number in range(2000):
                goes_on(memory, (f"stuck{tenant}", "visit", str(number), 0), 1.0, items)
    for number in range(2000):
        scope = ("bolt", "visit", str(number), 0)
        memory.end(scope, memory.begin(scope, b"b", 2.0), [Stored(0, 2)])
    assert memory.begin(("bolt", "visit", "1999", 0), b"b", 3.0).results == [Stored(0, 2)]
    assert memory._bytes <= 1_000_000 + 1000


def test_a_request_that_goes_on_is_waited_for_once_however_often_it_is_sent_again(memory):
    for _ in range(5):
        entry = goes_on(memory, SCOPE)
    assert len(entry.sending.callbacks) == 1
    entry.sending.come_to_an_end()
    memory.begin(("b", "visit", "k", 0), b"b", 100.0)
    assert len(memory) == 1


def test_a_request_differs_by_all_that_shows_in_records():
    def of(body=b"{}", key=None, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return fingerprint_of(Request({"content-type": "application/json", **named}, body, key))

    assert of() == of(user_agent="other", idempotency_key="other", traceparent="other")
    assert len({of(), of(b"[]"), of(key="k"), of(ce_id="1"), of(x_partition_key="k")}) == 5


def test_no_request_is_taken_for_another_by_what_its_parts_come_to_together():
    kind, lines = {"content-type": "application/x-ndjson"}, b'{"a":1}'
    tail = "\ncontent-type:application/x-ndjson\n"
    long = fingerprint_of(Request(kind, lines + tail.encode() + b'{"b":2}'))
    assert long != fingerprint_of(Request(kind, lines, '{"b":2}' + tail + "None"))
    assert fingerprint_of(Request(kind, lines)) != fingerprint_of(Request(kind, lines, "None"))
    assert fingerprint_of(Request(kind, lines)) == fingerprint_of(Request(kind, lines, ""))
