"""That no topic for all is one that the gateway sends a customer's events to.

The gateway writes events of type ``visit`` to ``<tenant>.visits``. A use case that reads
``acme.visits`` as a topic for all would be given what acme sends as if it were nobody's: its
results, failures and dead letters would be of the tenant ``everyone``, and acme could neither see
nor stop any of it. So would one that reads by a pattern without tenants which matches such a topic
(`sent_patterns.py`). Whoever deploys such a use case has both in one YAML file, and is told there.

A gateway that is started with another YAML file is not known here, nor what others send.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.deploying.sent_patterns import tenant_sent_to
from headrace.errors import ConfigError
from headrace.model.everyone import is_plain
from headrace.model.patterns import TENANT
from headrace.model.streams import TENANT_NAME
from headrace.model.topic_lists import topics_of
from headrace.model.topic_patterns import GROUP, is_pattern, pattern_of


def refuse_sent(topics: Mapping[str, str], types: Mapping[str, str]) -> None:
    """Raise ``ConfigError`` if a plain topic is one that the gateway sends to for a tenant.

    Args:
        topics: that use cases read, by their names.
        types: of events, with their topics, both without the tenant.
    """
    read = [
        (use_case, topic) for use_case, text in sorted(topics.items()) for topic in topics_of(text)
    ]
    for use_case, topic in read:
        for kind, sent in sorted(types.items()):
            tenant = topic.removesuffix(f".{sent}")
            if is_plain(topic) and tenant != topic and TENANT_NAME.fullmatch(tenant):
                raise ConfigError(
                    f"use case {use_case}: topic {topic} is where the gateway sends events {kind} "
                    f"of tenant {tenant}, which would be read as everyone's; read "
                    f"{TENANT}.{sent}, or give the events another topic in gateway: types"
                )
    for use_case, text in sorted(topics.items()):
        if is_pattern(text) and is_plain(text):
            _refuse_pattern(use_case, text, types)


def _refuse_pattern(use_case: str, text: str, types: Mapping[str, str]) -> None:
    for kind, sent in sorted(types.items()):
        if (tenant := tenant_sent_to(text, sent)) is not None:
            raise ConfigError(
                f"use case {use_case}: its pattern {pattern_of(text)} is for all customers, and "
                f"matches {tenant}.{sent}, where the gateway would send events {kind} of a tenant "
                f"{tenant}: they would be read as everyone's. Say it so that it matches no "
                f"name of a tenant with .{sent} behind it, or with the group (?P<{GROUP}>...), or "
                "give the events another topic in gateway: types"
            )
