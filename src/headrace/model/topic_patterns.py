"""Topics by a pattern: those that there are now, and those that come.

Where topics come and go, nobody lists them. So a use case may say a regular expression, and a
stream reads what it matches from end to end. The group ``tenant`` of it, if it has one, is whose a
topic is: the stream of a tenant reads those in which that group is its name.

What a stream reads is kept where the name of a topic is: ``acme of (?P<tenant>[a-z]+)[.]visits``,
and ``all of clicks-.*`` without a tenant. No topic has a blank in its name. What the use case
itself writes stands behind it, as ``but *.scores``, with a star for the tenant: that it would else
read for ever.

Anybody's topic is matched, and a pattern that goes back and forth in a name may take minutes for
one of sixty letters. So patterns are matched by RE2, which Arrow has: in time that grows with the
letters, without looking around or back (R. Cox, "Regular expression matching can be simple and
fast", 2007). What a pattern may match is seen by Python's reading of it, before there are topics
(``deploying/sent_patterns.py``). So what RE2 reads as something else is no pattern here.

Topics of Kafka's own, of dead letters and of parked records are never matched, whatever a pattern
says: who wants to read these names them. Which topics there are, only a log says.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.patterns import TENANT

#: the group of a pattern that is whose a topic is
GROUP: Final = "tenant"
_OF = " of "
_BUT = " but "
_ANY = "*"
_ALL = "all"
_INTERNAL = "__"
_ASIDE = (".dlq", ".parked")
#: what RE2 can be asked for
_MOST_GROUPS = 9


def pattern_text(pattern: str, but: str | None = None) -> str:
    """A pattern as it is kept, for all tenants.

    Args:
        pattern: a regular expression.
        but: the topic that the use case writes, with a place for the tenant, or a star there.

    Raises:
        ValueError: it is none, or could not be kept; says why.
    """
    # Python reads these as single letters, or as two signs.
    if "[:" in pattern:
        raise ValueError(
            "has [: in it, as in [[:alpha:]]; say its letters, as [A-Za-z]; no topic has a : in "
            "its name"
        )
    # Which is {0,3} to Python, and the letters as they stand to RE2, which no topic has.
    if "{," in pattern:
        raise ValueError("has {, in it, as a{,3}; say {0, in its place")
    # Some of them RE2 takes for letters of a topic, where case is ignored.
    if not pattern.isascii():
        raise ValueError("has a letter beyond ASCII in it, which no topic has in its name")
    try:
        groups = re.compile(pattern).groupindex
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if strange := sorted(groups.keys() - {GROUP}):
        raise ValueError(f"has a group {strange[0]}; the only one with a name is {GROUP}")
    if TENANT in pattern:
        raise ValueError(f"has {TENANT} in it; say (?P<{GROUP}>...) where the tenant is")
    if " " in pattern:
        raise ValueError("has a blank in it, which no topic has in its name")
    if groups.get(GROUP, 0) > _MOST_GROUPS:
        raise ValueError(
            f"has {groups[GROUP] - 1} groups before {GROUP}; write (?:...) for those that are only "
            "brackets"
        )
    try:
        by_tenant(pattern, ["a"])
    except pa.ArrowInvalid as error:
        told = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(
            f"cannot be matched in time that grows with the letters alone, as RE2 does: {told}; "
            "without looking ahead or back say what it matches, as a|b, or list the topics"
        ) from None
    without = "" if but is None else f"{_BUT}{but.replace(TENANT, _ANY)}"
    return f"{TENANT if groups else _ALL}{_OF}{pattern}{without}"


def is_pattern(text: str) -> bool:
    """Whether a stream, or a use case, reads what a pattern matches."""
    return _OF in text


def is_kept(template: str) -> bool:
    """Whether this is what `pattern_text` makes of some pattern."""
    _, pattern, but = _parts(template)
    try:
        return pattern_text(pattern, but or None) == template
    except ValueError:
        return False


def pattern_of(text: str) -> str:
    """The regular expression of what a stream, or a use case, reads."""
    return _parts(text)[1]


def matched_by(text: str) -> str:
    """Which topics a stream reads, as the end of a sentence for people: that *match* ...."""
    whose, pattern, _ = _parts(text)
    return pattern if _group(pattern) is None else f"{pattern} with {whose} as its tenant"


def matching(text: str, found: Mapping[str, Collection[str]]) -> list[str]:
    """The topics that a stream reads, in order.

    Args:
        text: what it reads.
        found: what its pattern found, as `by_tenant` has it.
    """
    whose, _, but = _parts(text)
    # A pattern without tenants finds topics of nobody, and one with them none of nobody.
    mine = found.get(whose, found.get("", ()))
    return sorted(name for name in mine if not _is_own(but, name))


def is_aside(topic: str) -> bool:
    """Whether a topic is of dead letters, or of parked records."""
    return topic.endswith(_ASIDE)


def by_tenant(pattern: str, topics: Iterable[str]) -> dict[str, list[str]]:
    """What a regular expression matches, by whose it is; of one without tenants under no name."""
    names = [name for name in topics if not (name.startswith(_INTERNAL) or is_aside(name))]
    whole = rf"\A(?:{pattern})\z"
    does = pc.match_substring_regex(pa.array(names, pa.string()), whole).to_pylist()
    matched = [name for name, matches in zip(names, does, strict=True) if matches]
    group = _group(pattern)
    if group is None:
        return {"": matched} if matched else {}
    found: dict[str, list[str]] = {}
    tenants = pc.replace_substring_regex(pa.array(matched, pa.string()), whole, rf"\{group}")
    for name, tenant in zip(matched, tenants.to_pylist(), strict=True):
        if tenant:
            found.setdefault(tenant, []).append(name)
    return found


def tenants_in(template: str, topics: Iterable[str]) -> dict[str, str]:
    """Whose topics are as a use case reads them, by topic; empty: nobody's.

    One that does not match is left out.
    """
    _, pattern, but = _parts(template)
    others = [topic for topic in topics if not _is_own(but, topic)]
    found = by_tenant(pattern, others)
    return {topic: tenant for tenant, those in found.items() for topic in those}


def _parts(text: str) -> tuple[str, str, str]:
    """Whose, by what pattern, but not which topic."""
    whose, _, pattern = text.partition(_OF)
    pattern, _, but = pattern.partition(_BUT)
    return whose, pattern, but


def _is_own(but: str, topic: str) -> bool:
    """Whether the use case itself writes a topic, for whatever tenant."""
    return bool(but) and _written(but).fullmatch(topic) is not None


@lru_cache(1 << 10)
def _written(but: str) -> re.Pattern[str]:
    return re.compile("[a-z0-9-]+".join(map(re.escape, but.split(_ANY))))


@lru_cache(1 << 10)
def _group(pattern: str) -> int | None:
    return re.compile(pattern).groupindex.get(GROUP)
