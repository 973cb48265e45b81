"""Places of live views, and what a client gets while time passes."""

import asyncio
import time
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from headrace.console import live as module
from headrace.console.live import Live
from headrace.console.watcher import Watcher
from headrace.doors.problems import Problem
from headrace.errors import StoreUnavailable
from headrace.model.streams import State, Tenant


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Seconds pass in milliseconds."""
    monkeypatch.setattr(module, "EVERY_S", 0.001)


class Clock:
    """A millisecond is a second."""

    def now_s(self):
        return time.monotonic() * 1000

    monotonic_s = now_s


def played(store, play, most_clients=10):
    """Run a coroutine beside the task that looks."""

    async def run():
        live = Live(Watcher(store, Clock()), most_clients)
        task = asyncio.create_task(live.run())
        try:
            async with asyncio.timeout(60):
                return await play(live)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return asyncio.run(run())


async def fine():
    return None


async def next_with(events, word):
    async for data in events:
        if word in data:
            return data
    raise AssertionError("the stream ended")


def test_a_client_gets_everything_and_then_what_changes(store):
    async def play(live):
        live.take_place(None)
        events = live.events(None, fine)
        first = await next_with(events, b'"whole":true')
        assert b"acme" in first
        store.registry.set_weight("bolt", 2.5)
        changed = await next_with(events, b"event: tenants")
        assert b"bolt" in changed
        assert b"acme" not in changed

    played(store, play)


def test_there_are_only_so_many_places_and_they_come_free(store):
    async def play(live):
        live.take_place(None)
        live.take_place("acme")
        with pytest.raises(Problem) as refused:
            live.take_place(None)
        assert refused.value.status_code == 503
        assert refused.value.headers["Retry-After"]
        live.leave_place("acme")
        live.take_place(None)
        assert live.clients == 2

    played(store, play, most_clients=2)


def test_one_tenant_cannot_take_all_places(store, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_ONE", 2)

    async def play(live):
        live.take_place("acme")
        live.take_place("acme")
        with pytest.raises(Problem):
            live.take_place("acme")
        live.take_place("bolt")

    played(store, play)


def test_large_events_leave_in_small_pieces(store, monkeypatch):
    monkeypatch.setattr(module, "PIECE_BYTES", 50)

    async def play(live):
        live.take_place(None)
        events = live.events(None, fine)
        pieces = [await anext(events) for _ in range(8)]
        assert max(map(len, pieces)) == 50
        assert b"".join(pieces).startswith(b"event: drivers\ndata: {")

    played(store, play)


def test_a_view_ends_when_its_credential_does(store):
    async def play(live):
        asked = []

        async def check():
            asked.append(1)
            if len(asked) == 3:
                raise Problem(401, "unauthorized", "revoked")

        live.take_place(None)
        async for _ in live.events(None, check):
            pass
        assert len(asked) == 3

    played(store, play)


def test_a_view_shows_nothing_after_its_credential_has_ended(store):
    async def play(live):
        revoked = []

        async def check():
            if revoked:
                raise Problem(401, "unauthorized", "revoked")

        live.take_place(None)
        events = live.events(None, check)
        await next_with(events, b"acme")
        revoked.append(1)
        store.registry.set_weight("bolt", 2.5)
        assert b'"weight":2.5' not in b"".join([event async for event in events])

    played(store, play)


@pytest.mark.parametrize("looks", ["between", "after"])
def test_a_view_shows_nothing_of_the_next_tenant_of_its_name(store, looks):
    async def play(live):
        live.take_place("acme")
        events = live.events("acme", fine)
        await next_with(events, b'"generation":0')
        store.registry.set_tenant_state("acme", State.REMOVED)
        if looks == "between":
            await next_with(events, b'"gone":["acme"]')
        store.registry.add_tenant(Tenant("acme"))
        assert b'"generation"' not in b"".join([event async for event in events])

    played(store, play)


def test_a_view_that_was_opened_while_the_tenant_was_gone_shows_nothing_of_the_next(store):
    store.registry.set_tenant_state("acme", State.REMOVED)

    async def play(live):
        live.take_place("acme")
        events = live.events("acme", fine)
        shown = await next_with(events, b"event: tenants")
        store.registry.add_tenant(Tenant("acme"))
        shown += b"".join([event async for event in events])
        assert b'"generation"' not in shown

    played(store, play)


def test_views_end_when_the_service_does(store):
    async def play(live):
        live.take_place(None)
        events = live.events(None, fine)
        await anext(events)
        await asyncio.to_thread(live.end)
        async for _ in events:
            pass
        with pytest.raises(Problem):
            live.take_place(None)

    played(store, play)


def test_who_comes_after_a_quiet_time_sees_how_it_is_now(store):
    async def play(live):
        live.take_place(None)
        await next_with(live.events(None, fine), b"acme")
        live.leave_place(None)
        while live._fresh:  # until the task comes to rest
            await asyncio.sleep(0)
        store.registry.set_weight("acme", 7.5)
        live._watcher.changed()
        live.take_place(None)
        first = await next_with(live.events(None, fine), b"event: tenants")
        assert b'"weight":7.5' in first

    played(store, play)


def test_a_store_that_is_away_for_a_while_ends_no_view(store):
    async def play(live):
        live.take_place(None)
        events = live.events(None, fine)
        await next_with(events, b"acme")
        real, asked = store.revision, []

        def away():
            asked.append(1)
            raise StoreUnavailable

        store.revision = away
        while len(asked) < 2:
            await asyncio.sleep(0)
        store.revision = real
        store.registry.set_weight("bolt", 2.5)
        await next_with(events, b"bolt")

    played(store, play)


def test_a_store_that_does_not_answer_is_told_of_once_and_once_when_it_does(store, monkeypatch):
    monkeypatch.setattr(module, "IDLE_S", 0.001)
    answers = [StoreUnavailable("gone"), StoreUnavailable("gone"), None]

    def look(_):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is not None:
            raise answer

    monkeypatch.setattr(Watcher, "view", look)

    async def play(_):
        while "the store answers again" not in [line["event"] for line in logs]:
            await asyncio.sleep(0.001)

    with capture_logs() as logs:
        played(store, play)
    assert [line["event"] for line in logs] == [
        "the store does not answer, the live view stands still",
        "the store answers again",
    ]
    assert logs[0]["meanwhile"] == "what is asked of it is refused with 503"
