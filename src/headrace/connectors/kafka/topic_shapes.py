"""How a topic is made that a sink writes to: partitions, copies, and how long it keeps records.

Whoever writes a use case knows how wide its output has to be, and nobody wants to make a topic by
hand for each tenant. So a sink may say it, and ``headrace topics create`` takes the same words.
What is not said is the brokers' own default. A topic that is there is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.connectors.kafka.topics import unmakable_topics
from headrace.errors import BrokerUnavailable, ConfigError, HeadraceError, SinkUnavailable

FOREVER = "forever"
_RETENTION = re.compile(r"([1-9]\d*)\s*(m|h|d)")
_MINUTES = {"m": 1, "h": 60, "d": 1440}
#: within a call of a handler's bin: whoever shares the bin waits as well
_MAKE_S = 5.0


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What is said of a topic that is to be made.

    Raises:
        ConfigError: it cannot be made so.
    """

    #: None: as many as the brokers' ``num.partitions``
    partitions: int | None = None
    #: copies of each partition; None: the brokers' ``default.replication.factor``
    replication: int | None = None
    #: ``7d``, ``12h``, ``30m`` or ``forever``; None: the brokers' ``log.retention``
    retention: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no broker takes."""
        for name, amount in (("partitions", self.partitions), ("replication", self.replication)):
            if amount is not None and not 0 < amount <= 32_767:
                raise ConfigError(f"{name} {amount} is not a number from 1 to 32767")
        _ = self.properties

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the new topic.

        Raises:
            ConfigError: the retention is none.
        """
        if self.retention is None:
            return {}
        if self.retention == FOREVER:
            return {"retention.ms": "-1"}
        match = _RETENTION.fullmatch(self.retention)
        if match is None:
            raise ConfigError(f"retention {self.retention!r}: write 7d, 12h, 30m or {FOREVER}")
        return {"retention.ms": str(int(match[1]) * _MINUTES[match[2]] * 60_000)}

    def make(
        self, config: Mapping[str, str], names: Collection[str], timeout_s: float
    ) -> dict[str, HeadraceError]:
        """Make the topics that are not there yet; return why, for each that cannot be made."""
        return unmakable_topics(
            config,
            dict.fromkeys(names, self.partitions or -1),
            timeout_s,
            replicas=self.replication or -1,
            topic_config=self.properties,
        )


@dataclass(frozen=True, slots=True)
class TopicMaker:
    """Makes topics of one shape in one cluster, for a sink that writes to them now."""

    config: Mapping[str, str]
    shape: TopicShape

    def __call__(self, names: Collection[str]) -> dict[str, HeadraceError]:
        """Make them; why, for each that cannot be made. Of a broker that is away that passes."""
        return as_of_a_sink(self.shape.make(self.config, names, _MAKE_S))


def as_of_a_sink(refused: Mapping[str, HeadraceError]) -> dict[str, HeadraceError]:
    """Why topics could not be made, as a sink says it."""
    return {
        name: SinkUnavailable(f"topic {name}: {error}")
        if isinstance(error, BrokerUnavailable)
        else error
        for name, error in refused.items()
    }
