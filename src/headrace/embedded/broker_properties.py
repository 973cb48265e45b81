"""The configuration of a one-machine broker.

Kafka's defaults are for a cluster of big machines: three copies of everything, seconds of patience,
128 MB for the log cleaner, data deleted after a week. Here one process is broker and controller,
there may be thousands of small topics, and nothing is deleted unless somebody asks.

Not for production: one copy, no password.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.embedded.addresses import HOST

_FIXED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # there is one copy of everything
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
    # internal topics come at first use, and each partition costs a moment
    "num.partitions": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # a mistyped topic must be an error, and a group of one needs no waiting for others
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # nothing is deleted unless a topic says so
    "log.retention.ms": "-1",
    # many small topics: a small index each, and a small cleaner
    "log.index.size.max.bytes": "262144",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "num.network.threads": "2",
    "num.io.threads": "4",
    # after a crash the controller waits this long for the dead broker; the default is 9 s
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def broker_properties(
    data: Path, port: int, controller_port: int, more: Mapping[str, str]
) -> dict[str, str]:
    """The whole configuration; ``more`` overrides what is chosen here."""
    return {
        **_FIXED,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "log.dirs": str(data),
        **more,
    }


def as_text(properties: Mapping[str, str]) -> str:
    """A Java properties file."""
    lines = (f"{_escaped(key)}={_escaped(value)}" for key, value in properties.items())
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    # the file is read as ISO 8859-1, where a backslash escapes and \uXXXX is any UTF-16 unit
    units = text.encode("utf-16-be")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(
        chr(code) if 32 <= (code := int.from_bytes(pair)) < 127 and code != 92 else f"\\u{code:04x}"
        for pair in pairs
    )
