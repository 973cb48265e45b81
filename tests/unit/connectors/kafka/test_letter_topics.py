"""Topics that were made and cannot be seen yet."""

import pytest

from headrace.connectors.kafka.letter_topics import _seen
from headrace.errors import BrokerUnavailable
from headrace.ports import TopicInfo


class Slow:
    """A cluster that shows a topic one partition more at each look."""

    def __init__(self):
        self.looks = 0

    def topics(self, names):
        self.looks += 1
        return {name: TopicInfo("id", tuple(range(self.looks))) for name in names}


def test_what_was_made_is_waited_for_until_it_is_seen_in_full():
    log = Slow()
    assert _seen(log, {"t.dlq": 3}, timeout_s=5) == {"t.dlq": 3}
    assert log.looks == 3


def test_what_is_not_seen_in_time_is_tried_again_later():
    with pytest.raises(BrokerUnavailable, match=r"t\.dlq was made and is not there yet"):
        _seen(Slow(), {"t.dlq": 1000}, timeout_s=0.05)


def test_nothing_made_is_not_looked_for():
    log = Slow()
    assert _seen(log, {}, timeout_s=5) == {}
    assert log.looks == 0
