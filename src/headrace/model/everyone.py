"""The tenant of topics that name none, and whose streams a use case has.

Most use cases read a topic of each tenant, such as ``{tenant}.visits``. One that reads a *plain*
topic, such as ``impressions``, has one stream for all customers together. That stream needs a
tenant as any other does: it is weighed, throttled, suspended and shown by it. So there is one of a
reserved name, `EVERYONE`, who is no customer: it comes with the first such use case, has the
streams of these and no others, and nobody holds a credential of it.

An earlier version let a customer have that name. Whether a tenant is the reserved one is therefore
kept with it, and not told by its name alone.
"""

from __future__ import annotations

from typing import Final

from headrace.model.patterns import TENANT
from headrace.model.streams import State, Tenant

EVERYONE: Final = "everyone"


def is_plain(topic: str) -> bool:
    """Whether a topic, as a use case says it, is one for all customers together."""
    return TENANT not in topic


def has_stream(topic: str, *, reserved: bool) -> bool:
    """Whether a tenant has a stream of a use case that reads this topic.

    Args:
        topic: as the use case says it.
        reserved: whether the tenant is the reserved one, and no customer.
    """
    return is_plain(topic) == reserved


def may_be_added(name: str, known: Tenant | None) -> bool:
    """Whether somebody may add a tenant of this name, by what the store knows of it.

    The reserved one comes by itself. Only where somebody removed it, it has to be added again.
    """
    return name != EVERYONE or (known is not None and known.reserved)


def may_be_customer(name: str, known: Tenant | None) -> bool:
    """Whether a credential can be of this name, by what the store knows of it.

    Of other names nothing is said: whoever signs tokens may know a customer before the store does.
    """
    if name != EVERYONE:
        return True
    return known is not None and not known.reserved and known.state is not State.REMOVED
