"""Connections of which each tenant may have its own: where ``{tenant}`` stands, its name goes.

In a sink's ``at``, and in URL and user of a connection. How long others of a bin wait for those of
one tenant is here too, for whatever stands behind them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.model.patterns import TENANT, has_other_braces
from headrace.ports import Connections, Server

#: seconds of a write that came to nothing which neighbours do not have to bear again
LONG_S: Final = 0.5
#: how long the servers of a bin's tenants are begun with where others wait
ALL_S: Final = 4.0


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


def filled(server: Server, tenant: str) -> Server:
    """The server of one tenant."""
    user = server.user
    return replace(
        server,
        url=server.url.replace(TENANT, tenant),
        user=user.replace(TENANT, tenant) if user is not None else None,
    )
