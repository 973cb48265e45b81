"""A tenant has its rate and its part of the memory, and none of another's."""

import contextlib
from types import SimpleNamespace

import pytest

from headrace.gateway.events import RequestRefused
from headrace.gateway.rates import Rate, Rates, RequestRoom, TooMuch


@pytest.fixture
def rates(monkeypatch):
    clock = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: clock[0])
    made = Rates(Rate(records_per_s=10, bytes_per_s=100), {"big": Rate(None, 1000)})
    made.clock = clock
    return made


def test_beyond_its_rate_a_tenant_is_told_when_to_come_again(rates):
    rates.spend_records("acme", 10)
    with pytest.raises(TooMuch) as caught:
        rates.spend_records("acme", 1)
    assert caught.value.fault.status == 429
    assert 1 <= caught.value.retry_after_s <= 2


def test_a_rate_is_a_tenants_own(rates):
    rates.spend_records("acme", 10)
    rates.spend_records("bolt", 10)


def test_records_and_bytes_are_counted_apart(rates):
    rates.spend_records("acme", 10)
    rates.spend_bytes("acme", 100)
    with pytest.raises(TooMuch, match="bytes"):
        rates.spend_bytes("acme", 1)


def test_a_quiet_time_gives_it_back(rates):
    rates.spend_records("acme", 10)
    rates.clock[0] += 2.0
    rates.spend_records("acme", 10)


def test_what_can_never_pass_is_not_told_to_wait(rates):
    with pytest.raises(RequestRefused) as caught:
        rates.spend_records("acme", 11)
    assert not isinstance(caught.value, TooMuch)
    assert caught.value.fault.status == 413


def test_a_tenant_may_have_a_rate_of_its_own_or_none(rates):
    rates.spend_records("big", 1_000_000)
    rates.spend_bytes("big", 1000)


def test_when_the_room_is_full_all_are_told_at_once():
    room = RequestRoom(100)
    with room.taken("a", 25), room.taken("b", 25), room.taken("c", 25), room.taken("d", 6):
        assert room.taken_bytes == 81
        with pytest.raises(TooMuch) as caught, room.taken("e", 5):
            pass
    assert caught.value.fault.status == 503
    assert room.taken_bytes == 0


@pytest.mark.parametrize("bytes_", [1, 2000])
def test_tenants_whose_requests_go_on_for_days_leave_room_for_the_others(bytes_):
    room = RequestRoom(10_000, most_requests=1_000_000)
    silent = SimpleNamespace(done=lambda: False, add_done_callback=lambda _: None)
    for number in range(12):
        with contextlib.suppress(TooMuch):
            while True:
                with room.taken(f"stuck{number}", bytes_) as share:
                    share.keep_until(silent)
    with room.taken("acme", 60), room.taken("bolt", 60):
        pass


def test_a_tenant_has_a_quarter_of_the_room():
    room = RequestRoom(100)
    with room.taken("a", 20), pytest.raises(TooMuch), room.taken("a", 20):
        pass
    with room.taken("a", 20), room.taken("b", 20):
        pass


def test_one_large_request_finds_room_when_nothing_else_is_there():
    room = RequestRoom(100)
    with room.taken("a", 1000), pytest.raises(TooMuch), room.taken("b", 1):
        pass
    assert room.taken_bytes == 0


def test_a_body_of_unknown_length_takes_room_as_it_comes():
    room = RequestRoom(100)
    with room.taken("a", 0) as share, room.taken("b", 10):
        share.grow(60)
        with pytest.raises(TooMuch):
            share.grow(60)
        assert room.taken_bytes == 70
    assert room.taken_bytes == 0


def test_room_is_given_back_whatever_happens():
    room = RequestRoom(100)
    with pytest.raises(ValueError, match="x"), room.taken("a", 10):
        raise ValueError("x")
    assert room.taken_bytes == 0


def test_a_tenant_has_a_quarter_of_the_places_however_small_its_requests_are():
    room = RequestRoom(1_000_000, most_requests=8)
    with room.taken("a", 1), room.taken("a", 1):
        with pytest.raises(TooMuch) as caught, room.taken("a", 1):
            pass
        with room.taken("b", 1), room.taken("c", 1):
            pass
    assert caught.value.fault.kind == "busy"
    with room.taken("a", 1), room.taken("a", 1):
        pass


def test_tenants_that_wait_for_answers_leave_places_to_the_others():
    """Whoever lets requests in has as many places as the room, and would refuse all the others."""
    room = RequestRoom(1_000_000, most_requests=100)
    with contextlib.ExitStack() as waiting:
        for number in range(8):
            with contextlib.suppress(TooMuch):
                for _ in range(25):
                    waiting.enter_context(room.taken(f"slow{number}", 1))
        assert room._asked_by_all < 100
        with room.taken("acme", 1), room.taken("bolt", 1):
            pass
    assert room._asked == {}


def test_however_few_places_there_are_a_tenant_has_one():
    room = RequestRoom(100, most_requests=1)
    with room.taken("a", 1), pytest.raises(TooMuch), room.taken("a", 1):
        pass
