"""Visits as the site's producers write them: Avro, by a schema that changes in the middle.

A producer registers the schema that it writes by, under the subject of the topic, and puts the id
that it is given before each record. In the middle of the file it begins to write the method of each
request as well: a field more, with a default, so the registry takes it as the next version, and the
use cases go on. Which version a visit is written by depends on its line alone, so a demo that was
killed goes on with the same bytes, and the report can say which version each visit came by.

The gateway writes all tenants' visits by the newest version of one subject, which is no tenant's.
It has the same two versions, and they have the same ids, since a registry knows a schema once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import pyarrow as pa

from headrace.demo.visits import Visit
from headrace.errors import RegistryUnavailable
from headrace.formats import AvroOutput
from headrace.formats.framing import prefix_of
from headrace.ports import SchemaIds

#: lines of the file up to this one are written by the first version
FIRST_LINES = 5_000
VERSIONS = (1, 2)
#: what the gateway writes by
POSTED_SUBJECT = "visits-value"
#: a registry on a busy machine may be slow to look at its first schema
_REGISTERED_WITHIN_S = 60.0


def version_of(visit: Visit) -> int:
    """The version of the schema that a visit is written by."""
    return 1 if visit.line <= FIRST_LINES else 2


def encoding_of(version: int) -> AvroOutput:
    """How visits of a version are written."""
    file = resources.files("headrace.demo") / "data" / f"visit-{version}.avsc"
    return AvroOutput(file.read_text("utf-8"))


@dataclass(slots=True)
class AvroVisits:
    """Makes the bytes of visits. Used by one thread at a time."""

    ids: SchemaIds
    #: tenants whose producers write by the newest version from the beginning
    newest: Collection[str] = ()
    #: Avro by line of the file, without the id in front
    _bodies: dict[int, bytes] = field(default_factory=dict)
    #: by subject and version, as registered
    _prefixes: dict[tuple[str, int], bytes] = field(default_factory=dict)

    def register_posted(self) -> None:
        """Have what the gateway writes by in the registry.

        Raises:
            RegistryUnavailable: it could not be registered for a minute.
        """
        for version in VERSIONS:
            self._registered(POSTED_SUBJECT, version, threading.Event())

    def prepare(self, visits: Iterable[Visit]) -> None:
        """Encode them beforehand: there are thousands, and later each has its moment."""
        given = list(visits)
        for version in VERSIONS:
            its = [visit for visit in given if self._version_of(visit) == version]
            encoding = encoding_of(version)
            made = encoding.encode(_table(its).select(list(encoding.takes("value"))), None)
            assert not made.unencoded, made.unencoded[:1]
            for visit, body in zip(its, made.payloads, strict=True):
                self._bodies[visit.line] = body or b""

    def value(self, visit: Visit, stop: threading.Event) -> bytes | None:
        """What goes to Kafka; None: nobody wants it any more.

        Raises:
            RegistryUnavailable: its schema could not be registered for a minute.
        """
        key = (f"{visit.topic}-value", self._version_of(visit))
        if key not in self._prefixes:
            id_ = self._registered(*key, stop)
            if id_ is None:
                return None
            self._prefixes[key] = prefix_of(id_)
        return self._prefixes[key] + self._bodies[visit.line]

    def _version_of(self, visit: Visit) -> int:
        return VERSIONS[-1] if visit.tenant in self.newest else version_of(visit)

    def _registered(self, subject: str, version: int, stop: threading.Event) -> int | None:
        registers = encoding_of(version).registers
        until_s = time.monotonic() + _REGISTERED_WITHIN_S
        while True:
            try:
                return self.ids.registered(subject, registers.schema, registers.how).id
            except RegistryUnavailable as trouble:
                if time.monotonic() > until_s:
                    raise
                if stop.wait(trouble.retry_after_s or 0.1):
                    return None


def _table(visits: list[Visit]) -> pa.Table:
    columns: dict[str, pa.Array[Any]] = {
        "line": pa.array([visit.line for visit in visits], pa.int64()),
        "lead": pa.array([visit.lead for visit in visits], pa.string()),
        "at": pa.array([visit.at for visit in visits], pa.string()),
        "path": pa.array([visit.path for visit in visits], pa.string()),
        "status": pa.array([visit.status for visit in visits], pa.int32()),
        "bytes": pa.array([visit.size_bytes for visit in visits], pa.int64()),
        "method": pa.array([visit.method for visit in visits], pa.string()),
    }
    return pa.table(columns)
