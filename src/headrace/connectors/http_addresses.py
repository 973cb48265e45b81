"""Where servers are that speak HTTP, as the YAML file says it: ``https://host1,host2:9200``.

One that has no port has that of the last. The user stands apart: before the hosts it would be a
password that some tools show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from headrace.connectors.tls_files import FILES, files_of, options_of
from headrace.errors import ConfigError
from headrace.ports import Server


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL such as ``https://a,b:9200`` says."""

    hosts: tuple[tuple[str, int], ...]
    tls: bool
    files: tuple[tuple[str, str], ...] = ()
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


class Form(NamedTuple):
    """What addresses of one kind of server are like."""

    #: what people call it
    of: str
    #: how one is written
    told: str
    #: where none is said
    port: int
    #: what may stand behind the hosts
    path: str = ""


def http_address(server: Server, name: str, form: Form) -> Address:
    """Read the address of a connection.

    Raises:
        ConfigError: it is none of such; nothing of it is quoted but names of options.
    """
    wrong = ConfigError(f"connection {name} is no {form.of}: {form.told}")
    try:
        split = urlsplit(server.url)
    except ValueError:
        raise wrong from None
    path = split.path.strip("/")
    if split.scheme not in ("http", "https") or path not in ("", form.path) or "@" in split.netloc:
        raise wrong
    given = options_of(split.query, FILES, name)
    pairs = [host.partition(":") for host in split.netloc.split(",")]
    last = pairs[-1][2] or str(form.port)
    hosts = [(host, port or last) for host, _, port in pairs]
    if not all(host and port.isascii() and port.isdigit() for host, port in hosts):
        raise wrong
    return Address(
        tuple((host, int(port)) for host, port in hosts),
        split.scheme == "https",
        files_of(given),
        server.user,
        server.password,
    )
