"""Records of a stream in Kinesis. Guarantee: at-least-once; records of a key keep their order.

A stream keeps no positions and cannot be asked whether it has a record, and a record has no headers
for the name of its effect. So a killed task's records come again, in their order, and nothing but
their data tells a reader: put the record's own partition and offset into it where that matters.

Columns: ``key`` (text, or bytes that are a text), by which the service chooses the shard, and
``value`` (bytes or text). How records are sent, and what becomes of those that are not taken, is in
``put.py``. Streams are not made here, nor are their shards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.columns import check_columns
from headrace.connectors.kinesis.clients import address_of, client_of
from headrace.connectors.kinesis.not_taken import not_taken
from headrace.connectors.kinesis.put import ALONE_S, IN_COMPANY_S, KinesisWriter
from headrace.connectors.own_servers import (
    OwnServers,
    is_met_later,
    is_one_for_each_tenant,
    name_problem,
)
from headrace.connectors.tenants import TenantsWriter
from headrace.errors import ConfigError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.patterns import TENANT, has_other_braces
from headrace.model.topic_names import within
from headrace.ports import Effect, Server, Site

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_COLUMNS: Final = {"key": "bytes or text", "value": "bytes or text"}
_MOST_CHARACTERS: Final = 256
_MIB: Final = 2**20


@dataclass(frozen=True)
class KinesisStream:
    """A stream of Kinesis.

    Args:
        name: of the stream, which has to be there; ``{tenant}`` in it becomes the tenant.
        at: name of the service under ``connections`` in the YAML file. With ``{tenant}`` in it, or
            in the URL or user that it stands for, each tenant has its own.
        most_bytes: of a record, its key included; as much as the stream was set to take, 1 to
            10 MiB.

    Raises:
        ConfigError: a name is none, or no stream takes records of so many bytes.
    """

    keeps_newest: ClassVar[bool] = False
    exactly_once: ClassVar[None] = None

    name: str
    at: str
    most_bytes: int = field(default=_MIB, repr=False)

    def __post_init__(self) -> None:
        problem = name_problem(self.at) if self.at else "at names no connection"
        if has_other_braces(self.name) or not _NAME.fullmatch(self.name.replace(TENANT, "tenant")):
            problem = "the name has 1 to 128 letters, digits, '.', '_' and '-', and {tenant}"
        if not _MIB <= self.most_bytes <= 10 * _MIB:
            problem = f"most_bytes is 1 to 10 MiB, not {self.most_bytes}"
        if problem:
            raise ConfigError(f"Kinesis stream {self.name!r}: {problem}")

    @property
    def writes_topic(self) -> str:
        """What use cases call the stream."""
        return within(self.at, self.name)

    def prepare(self, site: Site) -> None:
        """See that the stream is there; that of a tenant shows when it is first written to.

        Raises:
            ConfigError: it is not, or the YAML file names no such connection.
            SinkUnavailable: the service does not answer.
        """
        if is_met_later(site.connections, self.at, address_of):
            return
        service = service_of(site.connections, self.at)
        if TENANT in self.name:
            return
        where = f"{service.where}: stream {self.name}"
        try:
            service.asked("describe_stream_summary", {"StreamName": self.name})
        except Exception as error:
            refused = not_taken(error, where)
            if isinstance(refused, SinkUnavailable):
                raise refused from error
            raise ConfigError(str(refused)) from error

    def check(self, output: pa.Table) -> None:
        """See that every row of a handler's table can be a record.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a row has no key or no value, or is too large; the message names it.
        """
        _records(output, f"Kinesis stream {self.name}", self.most_bytes)

    def open(self, site: Site) -> KinesisWriter | TenantsWriter[KinesisWriter]:
        """Open the writer of a bin; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        if TENANT in self.name or is_one_for_each_tenant(site.connections, self.at):
            return TenantsWriter(partial(self._opened, site), lambda _: None, site.in_company)
        return self._writer(site)

    def _opened(self, site: Site, tenant: str, until_s: float) -> KinesisWriter:
        return self._writer(site, tenant, until_s=until_s)

    def _writer(self, site: Site, tenant: str = "", **until: float) -> KinesisWriter:
        service = service_of(site.connections, self.at, tenant, in_company=site.in_company)
        stream = self.name.replace(TENANT, tenant)
        if not _NAME.fullmatch(stream):
            raise TargetMissing(f"Kinesis stream {self.name}: {stream!r} is no name of a stream")
        patience_s = IN_COMPANY_S if site.in_company else ALONE_S
        return KinesisWriter(self._made, service, stream, patience_s, **until)

    def _made(self, effect: Effect) -> list[tuple[str, bytes]]:
        return _records(effect.output, f"Kinesis stream {self.name}", self.most_bytes)


def _records(table: pa.Table, where: str, most_bytes: int) -> list[tuple[str, bytes]]:
    """Key and data of each row."""
    check_columns(table.schema, _COLUMNS, where)
    columns = (table.column(name).to_pylist() for name in _COLUMNS)
    made = []
    for row, (given, value) in enumerate(zip(*columns, strict=True)):
        key, data = _text(given), value.encode() if isinstance(value, str) else value
        if key is None or data is None or not 0 < len(key) <= _MOST_CHARACTERS:
            raise SinkRefused(
                f"{where}: row {row} needs a key of 1 to {_MOST_CHARACTERS} characters, which is a "
                "text, and a value"
            )
        if (size := len(key.encode()) + len(data)) > most_bytes:
            raise SinkRefused(
                f"{where}: row {row} has {size} bytes with its key, most_bytes allows {most_bytes}"
            )
        made.append((key, data))
    return made


def _text(key: str | bytes | None) -> str | None:
    try:
        return key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError:
        return None


def _service(name: str, server: Server, waits: tuple[float, float]) -> AmazonService:
    address, where = address_of(server, name), f"connection {name}"
    return AmazonService(where, partial(client_of, address, where, waits), waits)


_services = OwnServers[AmazonService](_service, lambda given_up: given_up.close())
#: that of a connection's name
service_of = _services.of
