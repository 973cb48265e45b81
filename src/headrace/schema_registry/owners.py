"""Whose a subject is: that of the tenant whose topic it is named after.

A tenant is to change its own schemas and to see no others, and a subject says nothing of tenants.
But subjects are named after topics: ``<topic>-key`` and ``<topic>-value`` (Confluent's
TopicNameStrategy), or ``<topic>-<record>`` (TopicRecordNameStrategy). Topics are known: those that
use cases read for a tenant, those that the gateway writes for it, and those that sinks write for
it, as far as their name says for whom. A tenant changes subjects of the first two; of what sinks
write it reads the schemas, and no more: the service registers there, and would be stopped by a
schema that somebody else put before its own.

A topic of two tenants is neither's, and so is one that a sink writes for all of them, also while
there is only one. All other subjects, also those that are named after a record alone
(RecordNameStrategy), are nobody's. Topics that rows name are not known here.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headrace.model.patterns import TENANT
from headrace.model.streams import State, Stream
from headrace.model.topic_lists import topics_read
from headrace.model.topic_patterns import is_pattern
from headrace.ports import Store
from headrace.ports.sink import plain_fields

_RECORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_KNOWN_S = 2.0
_PATTERNS_KNOWN_S = 10.0


class _Topic(NamedTuple):
    """Whose a topic is."""

    #: who sees its schemas; None: nobody
    tenant: str | None
    #: whether this tenant sends there, and so may change them
    is_sent: bool

    def beside(self, other: _Topic) -> _Topic:
        """What it is if it is this and another as well."""
        if self.tenant != other.tenant:
            return _NOBODYS
        return _Topic(self.tenant, self.is_sent or other.is_sent)


_NOBODYS = _Topic(None, is_sent=False)


class Owners:
    """Knows tenants by topics, as of two seconds ago at most. Safe in several threads.

    Topics that come to a pattern raise no revision: nobody decided anything, and who is added waits
    for whoever raises one. So where there is a pattern all is read again, as of ten seconds ago.
    """

    def __init__(self, store: Store, gateway_topics: Sequence[str] = ()) -> None:
        """Take where streams are, and topics of the gateway without their tenant."""
        self._store = store
        self._gateway_topics = gateway_topics
        self._lock = threading.Lock()
        self._known: dict[str, _Topic] = {}
        self._revision = -1
        self._asked_s = -_KNOWN_S
        self._has_patterns = False
        self._read_s = -_PATTERNS_KNOWN_S

    def owner(self, subject: str) -> str | None:
        """The tenant who sees a subject; None: nobody's.

        Raises:
            StoreUnavailable: nobody can say.
        """
        return self._topic(subject).tenant

    def changer(self, subject: str) -> str | None:
        """The tenant who also changes it; None: it is nobody's, or a sink alone writes there.

        Raises:
            StoreUnavailable: nobody can say.
        """
        topic = self._topic(subject)
        return topic.tenant if topic.is_sent else None

    def seen(self, tenant: str) -> frozenset[str]:
        """The topics after which subjects are named that a tenant sees."""
        return frozenset(name for name, topic in self._topics().items() if topic.tenant == tenant)

    def sent(self, tenant: str) -> frozenset[str]:
        """Those of them under which it also registers."""
        topics = self._topics().items()
        return frozenset(name for name, topic in topics if topic == _Topic(tenant, is_sent=True))

    def _topic(self, subject: str) -> _Topic:
        topic, dash, rest = subject.rpartition("-")
        if not dash or not _RECORD.fullmatch(rest):
            return _NOBODYS
        return self._topics().get(topic, _NOBODYS)

    def _topics(self) -> dict[str, _Topic]:
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._asked_s >= _KNOWN_S:
                revision = self._store.revision()
                may_grow = self._has_patterns and now_s - self._read_s >= _PATTERNS_KNOWN_S
                if revision != self._revision or may_grow:
                    self._known, self._revision = self._read(), revision
                    self._read_s = now_s
                self._asked_s = now_s
            return self._known

    def _read(self) -> dict[str, _Topic]:
        registry = self._store.registry
        alive = [t.name for t in registry.tenants() if t.state is not State.REMOVED]
        streams = [s for s in registry.streams() if s.state is not State.REMOVED]
        self._has_patterns = any(is_pattern(stream.topic) for stream in streams)
        found: dict[str, _Topic] = {}
        for name, topic in [
            *self._sent(alive, streams),
            *_written(self._patterns(), streams),
        ]:
            found[name] = topic.beside(found.get(name, topic))
        return found

    def _sent(
        self, tenants: Sequence[str], streams: Sequence[Stream]
    ) -> Iterator[tuple[str, _Topic]]:
        for tenant in tenants:
            for topic in self._gateway_topics:
                yield f"{tenant}.{topic}", _Topic(tenant, is_sent=True)
        for stream in streams:
            for topic in topics_read(stream.topic, stream.topic_id):
                yield topic, _Topic(stream.id.tenant, is_sent=True)

    def _patterns(self) -> dict[str, str]:
        """By use case, the topic that its sink writes."""
        told = {d.use_case: plain_fields(d.sink) for d in self._store.registry.deployments()}
        return {
            use_case: str(fields["topic"])
            for use_case, (kind, fields) in told.items()
            if kind == "KafkaTopic" and "topic" in fields
        }


def _written(
    patterns: Mapping[str, str], streams: Sequence[Stream]
) -> Iterator[tuple[str, _Topic]]:
    for pattern in patterns.values():
        if TENANT not in pattern:
            yield pattern, _NOBODYS
    for stream in streams:
        pattern = patterns.get(stream.id.use_case, "")
        if TENANT in pattern:
            tenant = stream.id.tenant
            yield pattern.replace(TENANT, tenant), _Topic(tenant, is_sent=False)
