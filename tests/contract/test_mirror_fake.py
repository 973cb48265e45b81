"""The fake keeps the laws of a mirror."""

import uuid

from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named
from headrace.testing.mirror_contract import MirrorContract
from headrace.testing.mirror_fake import MemoryMirror


class TestMemoryMirror(MirrorContract):
    def make_topic(self, partitions):
        del partitions
        return f"test-{uuid.uuid4().hex}"

    def mirror(self):
        self.made = MemoryMirror(missing={self.gone()})
        return self.made

    def gone(self):
        return named("gone", 0)

    def unreachable(self):
        return MemoryMirror(troubles={"case": BrokerUnavailable("down")})

    def seen(self, use_case):
        return self.made.shown.get(use_case, {})
