"""Tenants whose topics a pattern matches, and whom nobody added.

Where a use case reads topics by a pattern, a topic of a new customer is there one day, and nobody
told Headrace. Whether that makes the customer a tenant is the operator's to say: whoever may make a
topic could else have its own weight, keys and bills. So such names are told in the log, once, and
only where a use case says ``creates_tenants`` they are added, as ``headrace tenants add`` does it.
Of several drivers each may do so; the store has a tenant once.

A tenant that was removed stays so, whatever topics there are. Names that none can have are told as
well, and never added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from headrace.cycle.talks import Talk
from headrace.errors import ConfigError
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.records import Deployment
from headrace.model.streams import TENANT_NAME, Tenant
from headrace.model.topic_patterns import is_pattern, tenant_in
from headrace.ports import Log, Registry

log = structlog.get_logger(__name__)

#: between two looks at all topics
LOOK_EVERY_S: Final = 10.0
#: most that one look adds: each is a transaction
_MOST = 50


@dataclass(slots=True)
class Newcomers:
    """Looks for them, of use cases that a driver has loaded."""

    registry: Registry
    _patterns: dict[str, bool] = field(default_factory=dict)
    _next_s: float = float("-inf")
    #: names that were told, so that they are told once
    _told: set[str] = field(default_factory=set)

    def follow(self, deployments: Iterable[Deployment]) -> None:
        """Look by the patterns of these from now on."""
        self._patterns = {}
        for one in deployments:
            if is_pattern(one.topic) and not is_plain(one.topic) and one.all_tenants:
                creates = self._patterns.get(one.topic, False) or one.creates_tenants
                self._patterns[one.topic] = creates

    def ask(self, now_s: float) -> Talk[None]:
        """Look at all topics that there are, if that is due.

        Raises:
            BrokerUnavailable: nothing was learned; it is asked again.
            StoreUnavailable: the same.
        """
        if not self._patterns or now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_EVERY_S
        patterns = dict(self._patterns)
        found: Mapping[str, _Found] = yield partial(_found, list(patterns))
        known = {tenant.name for tenant in self.registry.tenants()}
        new = {name: one for name, one in found.items() if name not in known}
        self._told &= new.keys()
        created = [name for name, one in new.items() if any(map(patterns.get, one.patterns))]
        added = sum(self._add(name, new[name].topic) for name in sorted(created)[:_MOST])
        for name in sorted(new.keys() - set(created)):
            self._tell(name, new[name].topic, f"'headrace tenants add {name}' adds it")
        if added:
            log.info("tenants added, whose topics a pattern matches", tenants=added)

    def _add(self, name: str, topic: str) -> bool:
        try:
            return bool(self.registry.add_tenants([Tenant(name)], skip_there=True))
        except ConfigError as error:
            self._tell(name, topic, str(error))
            return False

    def _tell(self, name: str, topic: str, what: str) -> None:
        if not TENANT_NAME.fullmatch(name) or name == EVERYONE:
            what = "no tenant can be called so; give the topic another name, or the pattern"
        if name not in self._told:
            self._told.add(name)
            log.warning("topic of no tenant", topic=topic, name=name, why=what)


@dataclass(slots=True)
class _Found:
    """A name that patterns find in topics."""

    #: one of these, the first
    topic: str
    patterns: set[str] = field(default_factory=set)


def _found(patterns: Collection[str], log: Log) -> Mapping[str, _Found]:
    """Asked in a thread."""
    found: dict[str, _Found] = {}
    for topic in sorted(log.all_topics()):
        for pattern in patterns:
            name = tenant_in(pattern, topic)
            if name is not None:
                found.setdefault(name, _Found(topic)).patterns.add(pattern)
    return found
