"""Where the Thrift server of an HBase is: what the URL of a connection says.

It knows no users: who reaches it may do what it may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from headrace.connectors.tls_files import FILES, files_of, options_of
from headrace.errors import ConfigError
from headrace.ports import Server

_PORT: Final = 9090
#: scheme -> whether it is TLS
_SCHEMES: Final = {"hbase": False, "hbases": True}
_TRANSPORTS, _PROTOCOLS = ("buffered", "framed"), ("binary", "compact")
_FORM: Final = "write it as hbase://host:9090, which is where its Thrift server is"


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``hbase://thrift.example.org:9090?transport=framed`` says."""

    host: str
    port: int
    tls: bool
    files: tuple[tuple[str, str], ...] = ()
    transport: str = _TRANSPORTS[0]
    protocol: str = _PROTOCOLS[0]


def address_of(server: Server, name: str) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of such a server; nothing of it is quoted but names of options.
    """
    wrong = ConfigError(f"connection {name} is no HBase: {_FORM}")
    try:
        split = urlsplit(server.url)
        host, port = split.hostname, split.port
    except ValueError:
        raise wrong from None
    if split.scheme not in _SCHEMES or not host or split.path.strip("/"):
        raise wrong
    if server.user is not None or server.password is not None or "@" in split.netloc:
        raise ConfigError(f"connection {name}: a Thrift server of HBase knows no user: take it out")
    given = options_of(split.query, ("transport", "protocol", *FILES), name)
    tls, files = _SCHEMES[split.scheme], files_of(given)
    if files and not tls:
        raise ConfigError(f"connection {name}: files of TLS need hbases:// in place of hbase://")
    return Address(
        host,
        port or _PORT,
        tls,
        files,
        _one_of(_TRANSPORTS, given, "transport", name),
        _one_of(_PROTOCOLS, given, "protocol", name),
    )


def _one_of(known: Sequence[str], given: Mapping[str, str], option: str, name: str) -> str:
    said = given.get(option, known[0])
    if said not in known:
        raise ConfigError(f"connection {name}: {option} is {' or '.join(known)}")
    return said
