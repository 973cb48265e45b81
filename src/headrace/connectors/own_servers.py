"""Connections of which each tenant may have its own: where ``{tenant}`` stands, its name goes.

In a sink's ``at``, and in URL and user of a connection. How long one of those is waited for, and
how long others of a bin bear that, is here too, for whatever stands behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from headrace.connectors.kept_servers import KeptServers, key_of
from headrace.model.patterns import TENANT, has_other_braces
from headrace.ports import Connections, Server

#: seconds of a write that came to nothing which neighbours do not have to bear again
LONG_S: Final = 0.5
#: how long the servers of a bin's tenants are begun with where others wait
ALL_S: Final = 4.0
#: seconds to connect, and for all of an answer: alone, and where others wait
ALONE, IN_COMPANY = (5.0, 10.0), (1.0, 2.0)

_S = TypeVar("_S")


def name_problem(at: str) -> str | None:
    """Why this cannot be the name of a connection, or of one for each tenant; None if it can."""
    if at == TENANT or has_other_braces(at):
        return f"at={at!r}: only {{tenant}} may stand in braces, and not alone"
    return None


def is_one_for_each_tenant(connections: Connections, at: str, *, telling: bool = False) -> bool:
    """Whether this is the name of a server for each tenant.

    Raises:
        ConfigError: there is no such connection; ``telling`` says which there are.
    """
    if TENANT in at:
        return True
    return connections.server(at, telling=telling).is_of_a_tenant


def is_met_later(
    connections: Connections, at: str, address_of: Callable[[Server, str], object]
) -> bool:
    """Whether each tenant has its own, so that a deploy looks at the address alone, and does it.

    Raises:
        ConfigError: there is no such connection, or its URL is none of such a server.
    """
    is_own = is_one_for_each_tenant(connections, at, telling=True)
    if is_own and TENANT not in at:
        address_of(filled(connections.server(at), "tenant"), at)
    return is_own


class OwnServers(KeptServers[_S]):
    """Servers of one kind, of which each tenant may have its own. Safe in several threads."""

    def __init__(
        self, make: Callable[[str, Server, tuple[float, float]], _S], give_up: Callable[[_S], None]
    ) -> None:
        """Keep none yet.

        Args:
            make: what a process has of a server, of a connection's name, what is said of it, and
                the seconds to connect and for an answer; contacts nobody.
            give_up: what is done with one that is given up.
        """
        super().__init__(give_up)
        self._make = make

    def of(
        self, connections: Connections, at: str, tenant: str = "", *, in_company: bool = False
    ) -> _S:
        """The server of this name; made at the first call in this process, which contacts nobody.

        Args:
            connections: all of them.
            at: as the sink says it.
            tenant: whose, where each has its own.
            in_company: others wait for what is done there.

        Raises:
            ConfigError: there is no such connection, or its URL is none of such a server.
        """
        name = at.replace(TENANT, tenant)
        server = filled(connections.server(name), tenant)
        # Tenants of whom all is the same share one.
        whose = tenant if server != connections.server(name) or name != at else ""
        return self.had(
            key_of(name, whose, server, in_company=in_company),
            lambda: self._make(name, server, IN_COMPANY if in_company else ALONE),
        )


def filled(server: Server, tenant: str) -> Server:
    """The server of one tenant."""
    user = server.user
    return replace(
        server,
        url=server.url.replace(TENANT, tenant),
        user=user.replace(TENANT, tenant) if user is not None else None,
    )
