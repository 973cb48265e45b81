"""Whoever started the console is told what does not answer, though nobody asks it anything."""

import asyncio

from structlog.testing import capture_logs

from headrace.errors import BrokerUnavailable


def test_kafka_that_does_not_answer_is_told_of(app, tools, monkeypatch):
    def gone(_):
        raise BrokerUnavailable

    monkeypatch.setattr(tools.kafka, "topics", gone)

    async def told():
        with capture_logs() as logs:
            async with app.router.lifespan_context(app), asyncio.timeout(30):
                while not logs:
                    await asyncio.sleep(0.01)
        return logs

    (line,) = asyncio.run(told())
    assert line["event"] == "what stands behind a door does not answer"
    assert line["server"] == "Kafka"
    assert line["meanwhile"] == "decisions that need it are refused with 503, the rest goes on"
