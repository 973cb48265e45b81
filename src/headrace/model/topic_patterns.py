"""Topics by a pattern: those that there are now, and those that come.

Where topics come and go, nobody lists them. So a use case may say a regular expression, and a
stream reads what it matches from end to end. The group ``tenant`` of it, if it has one, is whose a
topic is: the stream of a tenant reads those in which that group is its name.

What a stream reads is kept where the name of a topic is: ``acme of (?P<tenant>[a-z]+)[.]visits``,
and ``all of clicks-.*`` without a tenant. No topic has a blank in its name.

Topics of Kafka's own, of dead letters and of parked records are never matched, whatever a pattern
says: who wants to read these names them. Which topics there are, only a log says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from headrace.model.patterns import TENANT

#: the group of a pattern that is whose a topic is
GROUP: Final = "tenant"
#: names that tenants may have, to try a pattern with
ANY_TENANTS: Final = ("acme", "a", "7", "a-7")
_OF = " of "
_ALL = "all"
_INTERNAL = "__"
_ASIDE = (".dlq", ".parked")


def pattern_text(pattern: str) -> str:
    """A pattern as it is kept, for all tenants.

    Raises:
        ValueError: it is none, or could not be kept; says why.
    """
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if strange := sorted(groups.keys() - {GROUP}):
        raise ValueError(f"has a group {strange[0]}; the only one with a name is {GROUP}")
    if TENANT in pattern:
        raise ValueError(f"has {TENANT} in it; say (?P<{GROUP}>...) where the tenant is")
    return f"{TENANT if groups else _ALL}{_OF}{pattern}"


def is_pattern(text: str) -> bool:
    """Whether a stream, or a use case, reads what a pattern matches."""
    return _OF in text


def is_kept(template: str) -> bool:
    """Whether this is what `pattern_text` makes of some pattern."""
    try:
        return pattern_text(template.partition(_OF)[2]) == template
    except ValueError:
        return False


def matching(text: str, names: Iterable[str]) -> list[str]:
    """The topics that a stream reads of those that there are, in order."""
    whose, _, pattern = text.partition(_OF)
    mine = (whose, "") if whose == _ALL else (whose,)
    return sorted(name for name in names if _whose(pattern, name) in mine)


def tenant_in(template: str, topic: str) -> str | None:
    """Whose a topic is as a use case reads it; None: it does not match; empty: nobody's."""
    return _whose(template.partition(_OF)[2], topic)


def _whose(pattern: str, topic: str) -> str | None:
    if topic.startswith(_INTERNAL) or topic.endswith(_ASIDE):
        return None
    found = _compiled(pattern).fullmatch(topic)
    return None if found is None else found.groupdict().get(GROUP, "")


@lru_cache(1 << 10)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
