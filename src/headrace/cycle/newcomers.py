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

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from headrace.cycle.described import KeptList, Listed
from headrace.cycle.talks import Talk
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.everyone import EVERYONE, is_plain
from headrace.model.records import Deployment
from headrace.model.streams import TENANT_NAME, Tenant
from headrace.model.topic_patterns import by_tenant, is_pattern, pattern_of
from headrace.ports import Log, Registry

log = structlog.get_logger(__name__)

#: between two looks at all topics
LOOK_EVERY_S: Final = 10.0
#: most that one look adds
_MOST = 50
#: transactions of one look, which a turn waits for: each reads all tenants
_MOST_CHANGES = 8
#: for a name that was refused
_AGAIN_AFTER_S: Final = 600.0
_IMPOSSIBLE = "no tenant can be called so; give the topic another name, or the pattern"


@dataclass(slots=True)
class Newcomers:
    """Looks for them, of use cases that a driver has loaded."""

    registry: Registry
    #: what it asks for is for all others who look for topics by patterns
    listed: KeptList
    _patterns: dict[str, bool] = field(default_factory=dict)
    _next_s: float = float("-inf")
    #: names that were told, so that they are told once
    _told: set[str] = field(default_factory=set)
    #: names that could not be added, and when that was tried
    _refused: dict[str, float] = field(default_factory=dict)
    #: how many are added in one transaction
    _together: int = _MOST

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
            StoreUnavailable: nothing was learned; it is asked again.
        """
        if not self._patterns or now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_EVERY_S
        patterns = dict(self._patterns)
        try:
            listed = self.listed.within(0.0, now_s)
            found: Mapping[str, _Found] = yield partial(_found, list(patterns), listed)
        except BrokerUnavailable as error:
            # Who is there already is no matter of theirs.
            log.warning("topics are not listed; newcomers are looked for later", error=str(error))
            return
        known = {tenant.name for tenant in self.registry.tenants()}
        new = {name: one for name, one in found.items() if name not in known}
        self._told &= new.keys()
        self._refused = {name: at_s for name, at_s in self._refused.items() if name in new}
        to_add: list[str] = []
        for name, one in new.items():
            if not TENANT_NAME.fullmatch(name) or name == EVERYONE:
                self._tell(name, one.topic, _IMPOSSIBLE)
            elif any(map(patterns.get, one.patterns)):
                to_add.append(name)
            else:
                self._tell(name, one.topic, f"'headrace tenants add {name}' adds it")
        # Those that were refused come again after a while, and behind all others.
        tried_s = {name: self._refused.get(name, -math.inf) for name in to_add}
        to_add = [name for name in to_add if now_s - tried_s[name] >= _AGAIN_AFTER_S]
        to_add.sort(key=lambda name: (tried_s[name], name))
        if added := self._add(to_add[:_MOST], new, now_s):
            log.info("tenants added, whose topics a pattern matches", tenants=added)

    def _add(self, names: Sequence[str], found: Mapping[str, _Found], now_s: float) -> int:
        """Add them, in fewer at a time after a refusal; what a look has no time for waits."""
        added, left = 0, list(names)
        for _ in range(_MOST_CHANGES):
            some, left = left[: self._together], left[self._together :]
            if not some:
                break
            try:
                added += len(self.registry.add_tenants([*map(Tenant, some)], skip_there=True))
                self._together = min(2 * self._together, _MOST)
            except ConfigError as error:
                if len(some) > 1:
                    self._together, left = len(some) // 2, some + left
                    continue
                self._refused[some[0]] = now_s
                self._tell(some[0], found[some[0]].topic, str(error))
        return added

    def _tell(self, name: str, topic: str, why: str) -> None:
        if name not in self._told:
            self._told.add(name)
            log.warning("topic of no tenant", topic=topic, name=name, why=why)


@dataclass(slots=True)
class _Found:
    """A name that patterns find in topics."""

    #: one of these, the first
    topic: str
    patterns: set[str] = field(default_factory=set)


def _found(patterns: Collection[str], listed: Listed, log: Log) -> Mapping[str, _Found]:
    """Asked in a thread."""
    found: dict[str, _Found] = {}
    there = sorted(listed(log))
    for template in patterns:
        for name, topics in by_tenant(pattern_of(template), there).items():
            found.setdefault(name, _Found(topics[0])).patterns.add(template)
    return found
