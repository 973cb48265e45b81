"""From the text a user gives to the address of a database, without showing the password.

A database's URL holds a password, and URLs are easily shown: in a log, a ``repr``, an error. So the
URL is read here once, and everything shown to people is ``Address.shown``, which is built from
host, port and name alone; hiding what looks like a password would miss one in the query part.

Nothing here connects to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from headrace.errors import ConfigError

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_SQLITE = ("sqlite", "sqlite+pysqlite")
_MYSQL = ("mariadb", "mysql", "mariadb+pymysql", "mysql+pymysql")
_EXAMPLES = "sqlite:////var/lib/headrace/store.db or postgresql://user:password@host/database"
#: longer names of databases and users PostgreSQL cuts without a word; of databases MariaDB has none
#: with more letters, and a tenant's have one byte each
_MOST_BYTES = {"postgresql": 63, "mysql": 64}
_LOCAL = frozenset({"", "localhost", "::1"})
#: how a query says the name of the database
_DATABASE = {"postgresql": "dbname", "mysql": "database"}
_PORTS = {"postgresql": "5432", "mysql": "3306"}
#: the one server of a query, as SQLAlchemy takes it
_WITH_PORT = re.compile(r"[a-zA-Z0-9.-]+:\d*")
_MORE_EXAMPLES = f"{_EXAMPLES} or mariadb://user:password@host/database"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is."""

    url: URL = field(repr=False)
    #: safe to show to anybody
    shown: str

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file on this machine."""
        return self.url.drivername.startswith("sqlite")

    @property
    def is_mysql(self) -> bool:
        """Whether it is a MariaDB or a MySQL."""
        return self.url.drivername.startswith("mysql")

    @property
    def places(self) -> frozenset[tuple[str, str, str, str]]:
        """Kind, host, port and database of each server that the client may go to.

        What is left out of the URL is as the client takes it.
        """
        kind = self.url.get_backend_name()
        name = self._said(_DATABASE.get(kind, ""), self.url.database) or self._user
        port = _PORTS.get(kind, "")
        found = [*self._servers("hostaddr", None), *self._servers("host", self.url.host or "")]
        return frozenset((kind, _host(host), own or port, name) for host, own in found)

    def _servers(self, key: str, of_url: str | None) -> Iterator[tuple[str, str]]:
        """Hosts with their ports, as the URL lists them: by commas, or one after the other."""
        said = self.url.query.get(key, of_url)
        if key in self.url.query and isinstance(said, str) and _WITH_PORT.fullmatch(said):
            said = (said,)
        if isinstance(said, tuple):
            for server in said:
                name, _, port = server.partition(":")
                yield name, port
            return
        hosts = [] if said is None else said.split(",")
        ports = self._said("port", self.url.port).split(",")
        for number, host in enumerate(hosts):
            yield host, ports[number] if len(ports) == len(hosts) else ports[0]

    def refuse_long_names(self, whose: str) -> None:
        """See that the server takes the names whole: two that it cuts would be one database.

        Raises:
            ConfigError: it does not.
        """
        kind = self.url.get_backend_name()
        most = _MOST_BYTES.get(kind)
        names = {"database": self._said(_DATABASE.get(kind, ""), self.url.database)}
        if kind == "postgresql":
            names["user"] = self._user
        for what, name in names.items():
            if most is not None and len(name.encode()) > most:
                raise ConfigError(
                    f"{whose}: the name of its {what} takes {len(name.encode())} bytes, and its "
                    f"server takes {most}: of a longer one only the beginning would count"
                )

    @property
    def _user(self) -> str:
        return self._said("user", self.url.username)

    def _said(self, key: str, of_url: str | int | None) -> str:
        """What the client takes: its query says it last."""
        said = self.url.query.get(key, of_url)
        return "" if said is None else str(said)

    def without_password(self, text: str) -> str:
        """The text with the password blotted out, should a driver have quoted it."""
        secrets = [self.url.password, self.url.query.get("password")]
        for secret in secrets:
            if isinstance(secret, str) and secret:
                text = text.replace(secret, "***")
        return text


def _host(name: str) -> str:
    """A host by one name; empty is this machine, also through a socket in a folder."""
    name = name.lower().rstrip(".")
    is_here = name in _LOCAL or name.startswith(("127.", "/", "@"))
    return "" if is_here else name


def parse(url: str, whose: str = "the store") -> Address:
    """Read a SQLAlchemy URL of a SQLite file or a PostgreSQL database, where a store can be.

    Args:
        url: the text.
        whose: what the messages call the database.

    Raises:
        ConfigError: it is neither; the message does not repeat the URL.
    """
    return _read(url, whose, with_mysql=False)


def parse_elsewhere(url: str, whose: str) -> Address:
    """Read the same, or the URL of a MariaDB or MySQL database, where a sink can write.

    Raises:
        ConfigError: it is none of them; the message does not repeat the URL.
    """
    return _read(url, whose, with_mysql=True)


def _read(url: str, whose: str, *, with_mysql: bool) -> Address:
    examples = _MORE_EXAMPLES if with_mysql else _EXAMPLES
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # The cause would quote the URL, password and all.
        raise ConfigError(f"{whose}'s URL cannot be read; write it as {examples}") from None
    if parsed.drivername in _SQLITE:
        return _sqlite(parsed, whose)
    if parsed.drivername in _POSTGRESQL:
        return _on_a_server(parsed, whose, "postgresql", "postgresql+psycopg")
    if parsed.drivername in _MYSQL and with_mysql:
        if not parsed.database:
            raise ConfigError(f"{whose}'s URL names no database; write it as {examples}")
        kind = parsed.get_backend_name()
        # One name for both: which of them it is tells the server itself.
        return _on_a_server(parsed, whose, kind, "mysql+pymysql")
    raise ConfigError(
        f"{whose} is of kind {parsed.drivername}, which is not known; write its URL as {examples}"
    )


def _sqlite(url: URL, whose: str) -> Address:
    if not url.database or url.database == ":memory:":
        raise ConfigError(
            f"{whose} in memory would be another one for every process; "
            "name a file, such as sqlite:////var/lib/headrace/store.db"
        )
    return Address(url.set(drivername="sqlite+pysqlite"), f"sqlite:///{url.database}")


def _on_a_server(url: URL, whose: str, kind: str, driver: str) -> Address:
    # An unescaped "@" in a password ends up in what looks like the host, and would be shown.
    if "@" in (url.host or ""):
        raise ConfigError(
            f"{whose}'s URL has more than one @; write special characters of the password "
            "percent-encoded (@ is %40, / is %2F)"
        )
    host = url.host or "localhost"
    port = f":{url.port}" if url.port else ""
    shown = f"{kind}://{host}{port}/{url.database or ''}"
    return Address(url.set(drivername=driver), shown)
