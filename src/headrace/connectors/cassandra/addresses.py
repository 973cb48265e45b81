"""Where a cluster is, and who one is there: what the URL of a connection says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.connectors.own_servers import filled
from headrace.connectors.tls_files import FILES, files_of, options_of
from headrace.errors import ConfigError
from headrace.model.patterns import TENANT
from headrace.ports import Server

_PORT: Final = 9042
_OPTIONS: Final = ("datacenter", "tls", *FILES)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``cassandra://a,b:9042/history?datacenter=dc1`` says."""

    hosts: tuple[tuple[str, int], ...]
    keyspace: str
    datacenter: str
    tls: bool
    files: tuple[tuple[str, str], ...] = ()
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


def address_of(server: Server, name: str, tenant: str = "") -> Address:
    """Read the address of a connection, with a tenant's name in it where each has its own.

    A keyspace takes no hyphen, and a tenant's name no underscore: so the one stands for the other.

    Raises:
        ConfigError: it is none of a cluster; nothing of it is quoted but names of options.
    """
    form = "write it as cassandra://host1,host2:9042/keyspace?datacenter=dc1"
    own = filled(server, tenant)
    try:
        split, whole = urlsplit(server.url), urlsplit(own.url)
    except ValueError:
        raise ConfigError(f"connection {name} is no Cassandra: {form}") from None
    if split.scheme != "cassandra":
        raise ConfigError(f"connection {name} is no Cassandra: {form}")
    given = options_of(whole.query, _OPTIONS, name)
    user, _, hosts = whole.netloc.rpartition("@")
    keyspace = split.path.strip("/").replace(TENANT, tenant.replace("-", "_"))
    if not hosts or not _NAME.fullmatch(keyspace) or not given.get("datacenter"):
        raise ConfigError(
            f"connection {name}: hosts, datacenter or a keyspace (a letter, then 47 letters, "
            f"digits and underscores at most) are missing: {form}"
        )
    if given.get("tls", "on") not in ("on", "off"):
        raise ConfigError(f"connection {name}: tls is on or off")
    files = files_of(given)
    name_in_url, _, password_in_url = user.partition(":")
    return Address(
        _hosts(hosts, name, form),
        keyspace,
        given["datacenter"],
        given.get("tls", "on" if files else "off") == "on",
        files,
        own.user if own.user is not None else unquote(name_in_url) or None,
        own.password if own.password is not None else unquote(password_in_url) or None,
    )


def _hosts(said: str, name: str, form: str) -> tuple[tuple[str, int], ...]:
    pairs = [host.rpartition(":") if ":" in host else (host, "", "") for host in said.split(",")]
    last = pairs[-1][2]
    made = [(host, port or last or str(_PORT)) for host, _, port in pairs]
    if not all(host and port.isdigit() and 0 < int(port) < 65536 for host, port in made):
        raise ConfigError(f"connection {name}: a host or a port is wrong: {form}")
    return tuple((host, int(port)) for host, port in made)
