"""One topic with the records of all customers becomes a topic for each of them.

In a shared topic one customer's storm is everybody's backlog, and who reads it can hold none of
them back. So a use case that comes with Headrace divides it, and what follows reads a topic for
each tenant, fairly::

    by_tenant, parked = split(
        topic="{tenant}.all", operator="shared", to="{tenant}.visits", tenant=ByField("/customer")
    )

It gives two use cases, for a module to have both. The first divides: exactly once, each partition
in its order. What one tenant's topic refuses it parks in a topic beside it, and the second brings
it from there, or waits there alone, with the reason (`connectors/kafka/tenant_topics.py`).

*Whose a record is* says its key, a header, or a field of its JSON, and a record may say anything.
So nothing becomes the name of a topic that an operator did not add as a tenant. That a record is
its tenant's own nobody checks here: whoever may write to the shared topic may write as any tenant.

Key, value, headers and time pass on as they are; where a record was is added in two headers, which
no sender can forge. What is in a value is not changed, and no record is left out. The shared topic
may be a stream of Kinesis; those of tenants are in Kafka.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.kafka.parked_topics import MOST_BYTES
from headrace.connectors.kafka.sink import KafkaTopic
from headrace.connectors.kafka.tenant_topics import TenantTopics
from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.errors import ConfigError
from headrace.model.everyone import EVERYONE
from headrace.model.parked import brings, topic_of_parked
from headrace.model.patterns import TENANT
from headrace.model.streams import TENANT_NAME
from headrace.model.topic_names import connection_of
from headrace.payload.json_pointers import pointed
from headrace.ports import RECORD_SCHEMA
from headrace.use_cases import SliceContext, UseCase, use_case

#: of a name in a record, what is told
_TOLD = 80
_PASSED_ON = ["key", "value", "headers", "timestamp"]
#: what names may be; of nothing but records of nobody it may have no type
_NAMES = (pa.binary(), pa.large_binary(), pa.null())


class SaysTenant(Protocol):
    """What says whose a record is."""

    def of(self, records: pa.Table) -> pa.Array[Any]:
        """A name for each record, as bytes; null where it has none, or more than one."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """The record's key is the name of its tenant."""

    def of(self, records: pa.Table) -> pa.Array[Any]:
        """A name for each record, as bytes; null where it has none."""
        return records["key"].combine_chunks()


@dataclass(frozen=True, slots=True)
class ByHeader:
    """A header has it; a record that has this header twice is nobody's."""

    name: str

    def of(self, records: pa.Table) -> pa.Array[Any]:
        """A name for each record, as bytes; null where it has none, or more than one."""
        headers = records["headers"].combine_chunks()
        is_it = pc.equal(pc.struct_field(pc.list_flatten(headers), "key"), pa.scalar(self.name))
        rows = pc.list_parent_indices(headers).filter(is_it).to_numpy(zero_copy_only=False)
        values = pc.struct_field(pc.list_flatten(headers), "value").filter(is_it)
        counts = np.bincount(rows, minlength=records.num_rows)
        at = np.zeros(records.num_rows, np.int64)
        at[rows] = np.arange(len(rows))
        found: pa.Array[Any] = values.take(pa.array(at, mask=counts != 1))
        return found


@dataclass(frozen=True, slots=True)
class ByField:
    """A field of its value has it, which is JSON.

    Args:
        pointer: where it is, as a JSON pointer (RFC 6901), such as ``/customer``.

    Raises:
        ConfigError: this is no JSON pointer.
    """

    pointer: str

    def __post_init__(self) -> None:
        if not self.pointer.startswith("/"):
            raise ConfigError(f"field {self.pointer!r} is no JSON pointer; write it like '/tenant'")

    def of(self, records: pa.Table) -> pa.Array[Any]:
        """A name for each record, as bytes; null where it has none, or more than one."""
        return pa.array([self._told(value) for value in records["value"].to_pylist()], pa.binary())

    def _told(self, value: bytes | None) -> bytes | None:
        try:
            told = pointed(json.loads(value or b"", object_pairs_hook=_named_once), self.pointer)
            return told.encode() if isinstance(told, str) else None
        # Records may hold anything; one that names no tenant is an unknown tenant's.
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; nothing stands under a name that is there twice, as readers take either one."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    times = Counter(name for name, _ in pairs)
    return {name: value for name, value in pairs if times[name] == 1}


@dataclass(frozen=True, slots=True)
class Topic:
    """Where records of unknown tenants go: a topic of the operator's."""

    name: str


class Split(NamedTuple):
    """The two use cases that divide a topic."""

    by_tenant: UseCase
    parked: UseCase


@dataclass(frozen=True, slots=True)
class _Divides:
    """Says of each record whose it is."""

    tenant: SaysTenant
    operator: str | None
    passes_unknown: bool

    def __call__(self, records: pa.Table, context: SliceContext) -> pa.Table:
        if self.operator is not None and context.tenant != self.operator:
            raise ConfigError(
                f"tenant {context.tenant}: only the topic of {self.operator} is divided; suspend "
                f"this stream, or remove the topic"
            )
        said = _names(self.tenant, self.tenant.of(records), records.num_rows)
        named = said.dictionary_encode()
        names = [_text(name) for name in named.dictionary.to_pylist()]
        there = context.tenants.there([name for name in names if name is not None])
        there -= {context.tenant}  # whose records these are is nobody's customer
        known = pa.array([name if name in there else None for name in names], pa.string())
        tenants = known.take(named.indices)
        if tenants.null_count and not self.passes_unknown:
            row = pc.index(tenants.is_null(), pa.scalar(value=True)).as_py()
            raise context.bad_record(row, _why(named[row].as_py()))
        passed = records.select(_PASSED_ON).append_column("tenant", tenants)
        return passed.append_column("place", records["offset"])


def _names(tenant: SaysTenant, said: object, records: int) -> pa.Array[Any]:
    """What says whose records are, seen to be what it must: a class of one's own may say anything.

    Raises:
        ConfigError: it is no column of bytes, or not of as many.
    """
    if not isinstance(said, pa.Array):
        what = f"a {type(said).__name__}"
    elif said.type not in _NAMES:
        what = f"a column of {said.type}"
    elif len(said) != records:
        what = f"{len(said)} names for {records} records"
    else:
        return said
    raise ConfigError(
        f"tenant {tenant!r}: of() gives {what}; it has to give a name for each record, in bytes, "
        "as pa.array([b'acme', None], pa.binary())"
    )


def _text(name: bytes | None) -> str | None:
    try:
        return None if name is None else name.decode("ascii")
    except UnicodeDecodeError:
        return None


def _why(name: bytes | None) -> str:
    if name is None:
        return "it does not say whose it is, or says it twice"
    return f"it is of {name[:_TOLD]!r}, which is no tenant; 'headrace tenants add' adds one"


def _is_of_a_tenant(topic: str, pattern: str) -> bool:
    """Whether a topic is what a pattern gives for some tenant."""
    return (
        re.fullmatch(TENANT_NAME.pattern.join(map(re.escape, pattern.split(TENANT))), topic)
        is not None
    )


def _as_it_is(records: pa.Table, _context: SliceContext) -> pa.Table:
    return records.select(_PASSED_ON)


def operator_of(use_case: UseCase) -> str | None:
    """The tenant whose topic a use case divides; None: it divides none, or one of no tenant."""
    handler = use_case.handler
    return handler.operator if isinstance(handler, _Divides) else None


def brings_parked(use_case: UseCase) -> bool:
    """Whether a use case brings what a splitter parked, in topics that nobody else makes."""
    return use_case.handler is _as_it_is


def makes_input_of(use_case: UseCase, tenants: list[str]) -> list[str]:
    """Of these tenants those for whom an operator makes the topic that a use case reads.

    One that is divided is of one tenant alone, and topics of parked records are made when they are
    needed, so that they keep all.
    """
    if brings_parked(use_case):
        return []
    operator = operator_of(use_case)
    return tenants if operator is None else [tenant for tenant in tenants if tenant == operator]


def _check_words(topic: object, tenant: SaysTenant, operator: str | None) -> None:
    if not isinstance(topic, str):
        raise ConfigError(f"topic {topic!r}: one topic is divided; split each by itself")
    if TENANT in topic and operator is None:
        raise ConfigError(
            f"topic {topic!r} has {{tenant}} in it: say whose topic it is, operator='NAME'; what "
            "other tenants write there must not go to topics of all"
        )
    if TENANT not in topic and operator is not None:
        raise ConfigError(
            f"operator {operator!r}: topic {topic!r} is nobody's, without {{tenant}} in it; leave "
            "operator out"
        )
    if operator is not None and (not TENANT_NAME.fullmatch(operator) or operator == EVERYONE):
        raise ConfigError(f"operator {operator!r}: no tenant can be called so")
    if isinstance(tenant, type) or not callable(getattr(tenant, "of", None)):
        raise ConfigError(
            f"tenant {tenant!r}: say what tells whose a record is, as ByKey(), "
            "ByHeader('customer') or ByField('/customer')"
        )
    # One that cannot do with no records is judged at the first that come.
    said: object = pa.nulls(0)
    with suppress(Exception):
        said = tenant.of(RECORD_SCHEMA.empty_table())
    _names(tenant, said, 0)
    if isinstance(tenant, ByHeader) and connection_of(topic) is not None:
        raise ConfigError(
            f"topic {topic!r} is a stream, whose records have no headers; take ByKey() or "
            "ByField('/customer')"
        )


def split(  # noqa: PLR0913 - all that can be said of it is said in one place
    *,
    topic: str,
    to: str,
    tenant: SaysTenant,
    operator: str | None = None,
    unknown: Literal["refuse", "dead-letter"] | Topic = "refuse",
    name: str = "split",
    partitions: int | None = None,
    replication: int | None = None,
    retention: str | None = None,
) -> Split:
    """Divide a topic of all customers among topics of theirs.

    Args:
        topic: the shared topic, as a use case has it.
        to: the topic of a tenant, with ``{tenant}``. What is parked of it is in
            ``<to>.<name>.parked``, so several may have one ``to``.
        tenant: what says whose a record is: ``ByKey()``, ``ByHeader(name)``, ``ByField(pointer)``.
        operator: whose topic it is, where ``topic`` has ``{tenant}``: no other tenant's is divided.
        unknown: what becomes of a record of nobody who is a tenant: ``refuse`` stops its lane,
            ``dead-letter`` keeps it in ``<topic>.dlq``, and a ``Topic`` takes it.
        name: of the first use case; the second has ``-parked`` behind it.
        partitions: make a tenant's topic that is missing, with so many. None: it must be there, and
            until it is the tenant's records are parked.
        replication: copies of each partition of such a topic; None: the brokers' default.
        retention: how long it keeps messages, as ``7d``; None: the brokers' default.

    Raises:
        ConfigError: a name is none, or the combination makes no sense.
    """
    _check_words(topic, tenant, operator)
    if isinstance(unknown, str) and unknown not in ("refuse", "dead-letter"):
        raise ConfigError(f"unknown {unknown!r} is none of refuse, dead-letter, Topic(name)")
    # Of another splitter's topic its second use case would bring all once more.
    aside = topic_of_parked(to, name)
    takes = unknown.name if isinstance(unknown, Topic) else ""
    shape = TopicShape(partitions, replication, retention)
    sink = TenantTopics(to, aside, brings(name), takes, shape)
    for read, kind in ((topic.replace(TENANT, operator or ""), "divided"), (takes, "of nobody")):
        if any(_is_of_a_tenant(read, pattern) for pattern in (to, aside)):
            raise ConfigError(f"topic {read!r} is {kind}, and would be a tenant's by {to!r}")
    if takes == topic.replace(TENANT, operator or ""):
        raise ConfigError(f"topic {takes!r} is divided into itself")
    back = KafkaTopic(
        to,
        transactional=True,
        partitions=partitions,
        replication=replication,
        retention=retention,
        most_bytes=MOST_BYTES,
    )
    by_tenant = use_case(
        topic=topic,
        sink=sink,
        guarantee="exactly-once",
        name=name,
        bad_record="dead-letter" if unknown == "dead-letter" else "suspend",
    )(_Divides(tenant, operator, bool(takes)))
    parked = use_case(topic=aside, sink=back, guarantee="exactly-once", name=brings(name))
    return Split(by_tenant, parked(_as_it_is))
