"""The twin keeps the laws of a mirror."""

import uuid

from headrace.errors import BrokerUnavailable
from headrace.ports import TopicPartition
from headrace.testing.mirror_contract import MirrorContract
from headrace.testing.mirror_twin import MirrorTwin


class TestMirrorTwin(MirrorContract):
    def make_topic(self, partitions):
        del partitions
        return f"test-{uuid.uuid4().hex}"

    def mirror(self):
        self.made = MirrorTwin(missing={self.gone()})
        return self.made

    def gone(self):
        return TopicPartition("gone", 0)

    def unreachable(self):
        return MirrorTwin(troubles={"case": BrokerUnavailable("down")})

    def seen(self, use_case):
        return self.made.shown.get(use_case, {})
