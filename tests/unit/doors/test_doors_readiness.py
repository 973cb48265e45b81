"""Probes cost one question a second, however many come and however long it takes."""

import asyncio

import pytest

from headrace.doors import readiness
from headrace.doors.readiness import MOST_WAITING, Readiness
from headrace.errors import StoreUnavailable
from headrace.testing.clock import FakeClock


class Behind:
    """What stands behind a door; it answers when it may."""

    def __init__(self):
        self.asked, self.now, self.answer = 0, 0, True
        self.most, self.may = 0, asyncio.Event()
        self.may.set()

    async def __call__(self):
        self.asked, self.now = self.asked + 1, self.now + 1
        self.most = max(self.most, self.now)
        try:
            await self.may.wait()
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer
        finally:
            self.now -= 1


@pytest.fixture
def clock():
    return FakeClock()


def test_those_who_come_at_once_are_one_question_and_get_its_answer(clock):
    async def play():
        behind = Behind()
        behind.may.clear()
        ready = Readiness(behind, clock.monotonic_s)
        many = [asyncio.create_task(ready.now()) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        behind.may.set()
        assert await asyncio.gather(*many) == [True] * MOST_WAITING
        assert behind.asked == 1

    asyncio.run(play())


def test_few_wait_while_it_hangs_and_the_others_are_told_the_last_answer(clock):
    async def play():
        behind = Behind()
        ready = Readiness(behind, clock.monotonic_s)
        assert await ready.now()
        behind.may.clear()
        clock.move(1.0)
        waiting = [asyncio.create_task(ready.now()) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert [await ready.now() for _ in range(500)] == [True] * 500
        behind.answer = False
        behind.may.set()
        assert await asyncio.gather(*waiting) == [False] * MOST_WAITING
        assert not await ready.now()

    asyncio.run(play())


@pytest.mark.parametrize("answer", [True, False, StoreUnavailable("nobody there")])
def test_an_answer_yes_or_no_is_good_for_a_second(clock, answer):
    async def play():
        behind = Behind()
        behind.answer = answer
        ready = Readiness(behind, clock.monotonic_s)
        assert [await ready.now() for _ in range(9)] == [answer is True] * 9
        assert behind.asked == 1
        behind.answer = answer is not True
        clock.move(1.0)
        assert await ready.now() is (answer is not True)
        assert behind.asked == 2

    asyncio.run(play())


def test_one_that_does_not_answer_is_not_ready_and_is_asked_by_one_at_a_time(clock, monkeypatch):
    monkeypatch.setattr(readiness, "PATIENCE_S", 0.0)

    async def play():
        behind = Behind()
        ready = Readiness(behind, clock.monotonic_s)
        behind.may.clear()
        for _ in range(20):
            assert not await ready.now()
            clock.move(5.0)
        assert (behind.now, behind.most) == (1, 1)
        behind.may.set()
        await asyncio.wait([ready._asking])
        assert await ready.now()

    asyncio.run(play())
