"""Whose a subject is: that of the tenant whose topic it is named after.

A tenant is to change its own schemas and to see no others, and a subject says nothing of tenants.
But subjects are named after topics: ``<topic>-key`` and ``<topic>-value`` (Confluent's
TopicNameStrategy), or ``<topic>-<record>`` (TopicRecordNameStrategy). Topics are known: those that
use cases read for a tenant, and those that the gateway writes for it. A subject of such a topic is
the tenant's; all others, also those that are named after a record alone (RecordNameStrategy), are
nobody's, and operators' alone. A topic that two tenants read is neither's.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence

from headrace.model.streams import State
from headrace.ports import Store

_RECORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_KNOWN_S = 2.0


class Owners:
    """Knows tenants by topics, as of two seconds ago at most. Safe in several threads."""

    def __init__(self, store: Store, gateway_topics: Sequence[str] = ()) -> None:
        """Take where streams are, and topics of the gateway without their tenant."""
        self._store = store
        self._gateway_topics = gateway_topics
        self._lock = threading.Lock()
        self._known: dict[str, str | None] = {}
        self._revision = -1
        self._asked_s = -_KNOWN_S

    def owner(self, subject: str) -> str | None:
        """The tenant whose subject it is; None: nobody's.

        Raises:
            StoreUnavailable: nobody can say.
        """
        topic, dash, rest = subject.rpartition("-")
        if not dash or not _RECORD.fullmatch(rest):
            return None
        return self._topics().get(topic)

    def _topics(self) -> dict[str, str | None]:
        with self._lock:
            now_s = time.monotonic()
            if now_s - self._asked_s >= _KNOWN_S:
                revision = self._store.revision()
                if revision != self._revision:
                    self._known, self._revision = self._read(), revision
                self._asked_s = now_s
            return self._known

    def _read(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        registry = self._store.registry
        alive = [t.name for t in registry.tenants() if t.state is not State.REMOVED]
        pairs = [
            *((f"{tenant}.{topic}", tenant) for tenant in alive for topic in self._gateway_topics),
            *(
                (stream.topic, stream.id.tenant)
                for stream in registry.streams()
                if stream.state is not State.REMOVED
            ),
        ]
        for topic, tenant in pairs:
            found[topic] = tenant if found.get(topic, tenant) == tenant else None
        return found
