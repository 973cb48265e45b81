"""What stands behind a door and does not answer is told of once, and once when it is back."""

import asyncio

import pytest
from structlog.testing import capture_logs

from headrace.doors.watch import Backend, watching
from headrace.errors import StoreUnavailable


async def told(answers):
    """What is logged while what stands behind a door answers so, then stays with the last."""
    left, over = list(answers), asyncio.Event()

    async def ask():
        answer = left.pop(0) if len(left) > 1 else left[0]
        if len(left) == 1:
            over.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    with capture_logs() as logs:
        async with watching(Backend("Kafka", ask, "events are refused"), every_s=0.001):
            await asyncio.wait_for(over.wait(), 60)
            await asyncio.sleep(0.02)
    return [(line["event"], line["server"], line.get("meanwhile")) for line in logs]


GONE = ("what stands behind a door does not answer", "Kafka", "events are refused")
BACK = ("what stands behind a door answers again", "Kafka", None)


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        ([True], []),
        ([False, False, False], [GONE]),
        ([True, StoreUnavailable(), False, True, True], [GONE, BACK]),
        ([False, True, False], [GONE, BACK, GONE]),
    ],
)
def test_an_outage_is_told_when_it_begins_and_when_it_is_over(answers, lines):
    assert asyncio.run(told(answers)) == lines


def test_nothing_asks_when_the_application_has_ended():
    async def run():
        before = asyncio.all_tasks()
        await told([False, True])
        assert asyncio.all_tasks() == before

    asyncio.run(run())
