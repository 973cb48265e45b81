"""Servers that `headrace up` starts where it is asked to: use cases know them as ``connections``.

Who has such a server names it in the YAML file, and what is named there wins. Once one has
started, it comes with every later `up` of the folder, since use cases of yesterday write to it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import Final

from headrace.cli.console import err, say
from headrace.cli.ending import told_at_its_end
from headrace.cli.kept_ports import KeptPorts
from headrace.cli.servers import Extra, remember, remembered, with_addresses
from headrace.embedded import (
    EmbeddedCassandra,
    EmbeddedHBase,
    EmbeddedKinesis,
    EmbeddedOpenSearch,
    EmbeddedSolr,
    EmbeddedValkey,
)
from headrace.settings import Settings

#: in the folder of one that has started; one that never did has nothing that anybody wrote
_STARTED = "started"


_Server = (
    EmbeddedCassandra
    | EmbeddedValkey
    | EmbeddedOpenSearch
    | EmbeddedSolr
    | EmbeddedHBase
    | EmbeddedKinesis
)
_TITLES: Final = {
    Extra.CASSANDRA: "Cassandra",
    Extra.VALKEY: "Valkey",
    Extra.OPENSEARCH: "OpenSearch",
    Extra.SOLR: "Solr",
    Extra.HBASE: "HBase",
    Extra.KINESIS: "Kinesis",
}


class DemoExtra(Enum):
    """What `demo --with` may start."""

    CASSANDRA = "cassandra"


class DemoLog(Enum):
    """What the demo's visits may go through."""

    KAFKA = "kafka"
    KINESIS = "kinesis"


def with_extras(
    settings: Settings,
    folder: Path,
    asked: Collection[Extra],
    stack: ExitStack,
    ports: KeptPorts,
) -> Settings:
    """The settings, completed with servers that were asked for today or before.

    Args:
        settings: as they are with the servers that every `up` has.
        folder: where `up` keeps everything.
        asked: those that were typed.
        stack: ends them.
        ports: of this folder.

    Raises:
        ServerError: one does not start.
    """
    for extra in Extra:
        if extra in asked or (folder / extra.value / _STARTED).exists():
            settings = _with_extra(settings, folder, extra, stack, ports)
    return settings


def _with_extra(
    settings: Settings, folder: Path, extra: Extra, stack: ExitStack, ports: KeptPorts
) -> Settings:
    name, title, data = extra.value, _TITLES[extra], folder / extra.value
    if name in settings.connections:
        say(f"{title} is not started: the YAML file says where {name!r} is", err)
        return settings
    say(f"starting {title} ...", err)
    server = _made(extra, data, ports.take(title, data))
    stack.enter_context(told_at_its_end(title, server))
    (data / _STARTED).touch()
    say(f"{title}  {server.url}, as connection {name!r}, kept in {data}", err)
    found = {f"{name}_url": server.url}
    remember(folder, {**remembered(folder), **found})
    return with_addresses(settings, found)


def _made(extra: Extra, data: Path, port: int) -> _Server:
    match extra:
        case Extra.CASSANDRA:
            return EmbeddedCassandra(data, port)
        case Extra.VALKEY:
            return EmbeddedValkey(data, port)
        case Extra.OPENSEARCH:
            return EmbeddedOpenSearch(data, port)
        case Extra.SOLR:
            return EmbeddedSolr(data, port)
        case Extra.HBASE:
            return EmbeddedHBase(data, port)
        case Extra.KINESIS:
            return EmbeddedKinesis(data, port)
