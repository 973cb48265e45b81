"""Nobody who was let in before waits for a store that hangs, nor in a line with strangers."""

import asyncio
import threading

import pytest
from anyio.to_thread import current_default_thread_limiter
from fastapi import Request

from headrace.doors.key_ring import REMEMBERED_S, USABLE_S
from headrace.doors.problems import Problem
from headrace.doors.renewals import PATIENCE_S
from headrace.errors import StoreUnavailable

#: more than there are threads
MANY = 60


@pytest.fixture
def hang(keys, monkeypatch):
    """From now on the store answers nobody; what is called ends that, with a refusal."""
    released = threading.Event()
    find = keys.find

    def hung(prefix):
        find(prefix)
        assert released.wait(60)
        raise StoreUnavailable

    def begin():
        monkeypatch.setattr(keys, "find", hung)
        return released.set

    yield begin
    released.set()


def asked(guard, text):
    header = (b"authorization", f"Bearer {text}".encode())
    return guard.of(Request({"type": "http", "method": "POST", "headers": [header]}))


async def all_asked(keys, count):
    """Wait until so many looks have begun, and hang."""
    async with asyncio.timeout(60):
        while len(keys.looked_up) < count:
            await asyncio.sleep(0.01)


def test_who_was_let_in_does_not_wait_in_a_line_with_strangers(guard, give, keys, clock, hang):
    text, key = give()
    guard.caller(f"Bearer {text}")

    async def play():
        clock.now_s += REMEMBERED_S
        release, known = hang(), len(keys.looked_up)
        strangers = [
            asyncio.create_task(asked(guard, f"hr_guess{number:03}_" + "a" * 43))
            for number in range(MANY)
        ]
        looks = known + int(current_default_thread_limiter().total_tokens)
        await all_asked(keys, looks)
        # The store answers nobody for longer than this.
        await asyncio.wait_for(asked(guard, text), PATIENCE_S + 30)
        again = asyncio.create_task(asked(guard, text))
        for _ in range(10):
            await asyncio.sleep(0)
        assert again.done(), "one request waits for a look, and no other"
        asked_for = keys.looked_up[looks:]
        release()
        await asyncio.gather(*strangers, return_exceptions=True)
        return asked_for

    assert asyncio.run(play()) == [key.prefix]


def test_beyond_a_number_strangers_are_told_to_come_again(guard, hang):
    guard.most_strangers = MANY

    async def play():
        release = hang()
        made_up = [f"hr_guess{number:03}_" + "a" * 43 for number in range(MANY + 1)]
        waiting = [asyncio.create_task(asked(guard, text)) for text in made_up[:-1]]
        await asyncio.sleep(0.1)
        with pytest.raises(Problem) as refused:
            await asyncio.wait_for(asked(guard, made_up[-1]), 30)
        release()
        await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(StoreUnavailable):
            await asked(guard, made_up[-1])
        return refused.value

    problem = asyncio.run(play())
    assert (problem.status_code, problem.headers["Retry-After"]) == (503, "1")


def test_who_was_let_in_long_ago_waits_for_the_store(guard, give, clock, hang):
    text, _ = give()
    guard.caller(f"Bearer {text}")

    async def play():
        clock.now_s += USABLE_S
        release = hang()
        task = asyncio.create_task(asked(guard, text))
        await asyncio.sleep(PATIENCE_S + 0.2)
        assert not task.done()
        release()
        with pytest.raises(StoreUnavailable):
            await task

    asyncio.run(play())


def test_a_key_that_was_revoked_opens_nothing_where_the_store_answers(guard, give, store, clock):
    text, key = give()
    guard.caller(f"Bearer {text}")
    store.keys.revoke(key.prefix, clock())
    clock.now_s += REMEMBERED_S

    async def play():
        for _ in range(2):
            with pytest.raises(Problem) as refused:
                await asked(guard, text)
            assert refused.value.status_code == 401

    asyncio.run(play())
