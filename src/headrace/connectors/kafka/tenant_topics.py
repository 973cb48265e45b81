"""One effect's rows into the topics of many tenants, none of which holds up the others.

A use case that divides a topic of all customers among topics of theirs writes to hundreds of these
in one Kafka transaction. One that is missing, that we may not write to, or that takes no message so
large, would end the transaction for all: the lane would stand, and every customer of it with it. So
what one tenant's topic refuses is *parked*: it goes to a topic of the same tenant that Headrace
makes, in the same transaction, in its order. A use case of its own brings it from there, and waits
there with the reason, alone.

*Order.* Once a tenant has something parked of a lane, all that comes later in that lane follows it
there, until all of it was brought. Whether that is so is asked in Kafka before each transaction
(`parked_topics.py`), if the lane's mark says that it parks, or there is none. The mark moves in the
transaction that parks. So nothing passes by what is parked, whichever worker writes, and whenever
one dies.

*Who refuses* is known of topics that are missing before anything is sent, else by what brokers
say of a message, or of our rights: then the transaction is aborted and made anew without that
topic. Quotas of brokers are those of our client, and slow all tenants alike.

Columns: ``tenant`` (text; null: of nobody that is known), ``key``, ``value``, ``headers``,
``timestamp`` and ``place``. Which topic is whose says the tenant alone, never a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from headrace.connectors.kafka.parked_topics import MOST_BYTES
from headrace.connectors.kafka.tenant_topics_writer import TenantTopicsWriter, TopicNames
from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT, has_other_braces
from headrace.ports import Site


@dataclass(frozen=True)
class TenantTopics:
    """A topic for each tenant that a row names, and one for what it does not take.

    Args:
        topic: name of a tenant's topic, with ``{tenant}``.
        parked: name of its topic of parked records, with ``{tenant}``.
        parked_by: the use case that brings these.
        unknown: the topic of rows without a tenant; None: there are no such rows.
        shape: how a tenant's topic is made that is missing; without partitions it is not.

    Raises:
        ConfigError: a name has no ``{tenant}`` where it must, or other braces, or two are the same.
    """

    keeps_newest: ClassVar[bool] = False
    exactly_once: ClassVar[Literal["intent"]] = "intent"
    marks_partitions: ClassVar[bool] = True
    #: who is a tenant may be otherwise by the time that a slice runs again
    asks_first: ClassVar[bool] = True

    topic: str
    parked: str
    parked_by: str
    unknown: str = ""
    shape: TopicShape = field(default_factory=TopicShape, repr=False)

    def __post_init__(self) -> None:
        for name in (self.topic, self.parked):
            if TENANT not in name or has_other_braces(name):
                raise ConfigError(f"topic {name!r} needs {{tenant}} in it, and no other braces")
        if self.topic == self.parked:
            raise ConfigError(f"topic {self.topic!r}: parked records need a topic of their own")
        if set("{}") & set(self.unknown):
            raise ConfigError(f"topic {self.unknown!r} is one for all, and has no braces")

    def prepare(self, site: Site) -> None:
        """Nothing: topics are tenants', and made when the first record of one comes."""

    def open(self, site: Site) -> TenantTopicsWriter:
        """Open the writer of a bin; its producer is shared with other bins of the worker.

        Raises:
            ConfigError: the wave was not written down, so its guarantee is not exactly-once.
        """
        if not site.fence:
            raise ConfigError(f"topic {self.topic!r}: records are divided exactly once, or not")
        properties = {"message.max.bytes": str(MOST_BYTES), **site.connections.kafka}
        names = TopicNames(self.topic, self.parked, self.parked_by, self.unknown, self.shape)
        site = replace(site, connections=replace(site.connections, kafka=properties))
        return TenantTopicsWriter(names, site)
