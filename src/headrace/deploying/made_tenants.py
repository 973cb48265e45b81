"""That topics can make tenants where a YAML file says so.

Whoever sets ``creates_tenants`` relies on it: customers come with their topics, and nobody adds
them. Of a use case that finds nobody's name in topics nothing would come of it, and the first
customer who waits in vain would tell. So that is refused where the use case is deployed.

Whether a name that is found is one that a tenant may have, topics say when they are there.
"""

from __future__ import annotations

from headrace.errors import ConfigError
from headrace.model.everyone import is_plain
from headrace.model.topic_patterns import GROUP, is_pattern, pattern_of


def refuse_idle(use_case: str, topic: str, *, all_tenants: bool) -> None:
    """Raise ``ConfigError`` if no topic can make a tenant of a use case.

    Args:
        use_case: its name; its ``creates_tenants`` is true.
        topic: what it reads.
        all_tenants: whether tenants get a stream of it.
    """
    why = _why_idle(topic, all_tenants=all_tenants)
    if why is not None:
        raise ConfigError(
            f"use_cases: {use_case}: creates_tenants is true, and no topic can make a tenant: {why}"
        )


def _why_idle(topic: str, *, all_tenants: bool) -> str | None:
    if not is_pattern(topic):
        return (
            f"it reads {topic}, and only topics that a pattern finds are new to it; say topic= as "
            f"re.compile with the group (?P<{GROUP}>...), or leave creates_tenants out"
        )
    if is_plain(topic):
        return (
            f"its pattern {pattern_of(topic)} has no group (?P<{GROUP}>...) that is whose a topic "
            "is; add it, or leave creates_tenants out"
        )
    if not all_tenants:
        return (
            "with all_tenants false none that is added gets a stream of it; leave one of the two "
            "out"
        )
    return None
