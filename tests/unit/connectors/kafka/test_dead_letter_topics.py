"""Topics that were made and cannot be seen yet, and clients that never answer."""

from concurrent.futures import Future

import pytest

from headrace.connectors.kafka import dead_letter_topics, topics
from headrace.connectors.kafka.dead_letter_topics import _grow, _limits, _seen
from headrace.errors import BrokerUnavailable
from headrace.ports import TopicInfo


class Slow:
    """A cluster that shows a topic one partition more at each look."""

    def __init__(self):
        self.looks = 0

    def topics(self, names):
        self.looks += 1
        return {
            name: TopicInfo("id", tuple(f"{name}[{at}]" for at in range(self.looks)))
            for name in names
        }


def test_what_was_made_is_waited_for_until_it_is_seen_in_full():
    log = Slow()
    assert _seen(log, {"t.dlq": 3}, timeout_s=60) == {"t.dlq": 3}
    assert log.looks == 3


def test_what_is_not_seen_in_time_is_tried_again_later():
    with pytest.raises(BrokerUnavailable, match=r"t\.dlq was made and is not there yet"):
        _seen(Slow(), {"t.dlq": 1000}, timeout_s=0.05)


def test_nothing_made_is_not_looked_for():
    log = Slow()
    assert _seen(log, {}, timeout_s=60) == {}
    assert log.looks == 0


SERVERS = {"bootstrap.servers": "localhost:1"}


class Silent:
    """An admin client whose answers never come, in spite of its own time-out."""

    def describe_configs(self, asked, request_timeout):
        return {topic: Future() for topic in asked}

    def create_partitions(self, asked, request_timeout):
        return {"t.dlq": Future()}


@pytest.mark.parametrize(
    "ask", [lambda: _limits(SERVERS, ["t"], -5), lambda: _grow({"t": 3}, SERVERS, -5)]
)
def test_a_client_that_never_answers_is_as_brokers_that_do_not(monkeypatch, ask):
    """A letter is then kept later; anything else would end the driver in a turn."""
    for module in (dead_letter_topics, topics):
        monkeypatch.setattr(module, "opened", lambda *_: Silent())
    with pytest.raises(BrokerUnavailable):
        ask()
