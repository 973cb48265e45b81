"""Where servers are that speak HTTP, as the YAML file says it: ``https://host1,host2:9200``.

One that has no port has that of the last; an IPv6 address stands in brackets. The user stands
apart: before the hosts it would be a password that some tools show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from headrace.connectors.tls_files import FILES, files_of, options_of
from headrace.errors import ConfigError
from headrace.ports import Server

#: scheme, hosts, path and options: Python takes no list apart in which an address has brackets
_URL: Final = re.compile(r"(https?)://([^/?#@]+)(/[^?#]*)?(?:\?([^#]*))?", re.IGNORECASE)


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
    found = _URL.fullmatch(server.url)
    if found is None or (found[3] or "").strip("/") not in ("", form.path):
        raise wrong
    given = options_of(found[4] or "", FILES, name)
    try:
        pairs = [_host_and_port(host) for host in found[2].split(",")]
    except ValueError:
        raise wrong from None
    last = pairs[-1][1] or form.port
    return Address(
        tuple((host, port or last) for host, port in pairs),
        found[1].lower() == "https",
        files_of(given),
        server.user,
        server.password,
    )


def _host_and_port(text: str) -> tuple[str, int | None]:
    split = urlsplit(f"//{text}")
    if not split.hostname:
        raise ValueError("no host")
    return split.hostname, split.port
