"""How the suites of logs write to a fake."""

import itertools

from headrace.model.lane_names import number_of


class FakeTopics:
    """How the suites write to a fake."""

    def __init__(self, log):
        self.log = log
        self._numbers = itertools.count()

    def make(self, partitions=1):
        name = f"topic-{next(self._numbers)}"
        self.log.create_topic(name, partitions)
        return name

    def write(self, topic, partition, rows):
        self.log.append(topic, partition, rows)

    def abort(self, topic, partition, records):
        self.log.append_gap(topic, partition, records + 1)

    def expire(self, topic, partition, start):
        self.log.expire(topic, partition, start)

    def delete(self, name):
        self.log.delete_topic(name)


class HiddenTopics:
    """Topics of one lane, of which only reading tells where it ends."""

    def __init__(self, log):
        self.log = log
        self._numbers = itertools.count()

    def make(self):
        name = f"topic-{next(self._numbers)}"
        self.log.create_topic(name)
        self.log.hide_end(name, 0)
        return name

    def write(self, topic, lane, rows):
        self.log.append(topic, number_of(lane), rows)

    def leave_gap(self, topic, lane):
        self.log.append_gap(topic, number_of(lane), 50)

    def expire(self, topic, lane, records):
        start = self.log.edges(topic, number_of(lane)).start
        self.log.expire(topic, number_of(lane), start + records)

    def split(self, topic, lane):
        self.log.split(topic, number_of(lane))
