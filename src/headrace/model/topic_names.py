"""In which log a topic is, told by its name.

A topic of Kafka has its own name alone, such as ``acme.visits``. One of another log has the name of
the connection in front of it that says where that log is: ``clicks:acme.visits`` is the stream
``acme.visits`` of the connection ``clicks``. Kafka has no colon in a name, so the two are never
one, nor are those of two connections; and whoever knows topics by name (store, lanes, sinks) tells
them apart without knowing of logs.

Which connections there are, and of which kind, the YAML file says (``settings/connections.py``).
"""

from __future__ import annotations

import re
from typing import Final

from headrace.model.patterns import TENANT

#: what a topic can be called in its own log
TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
#: what a connection can be called
CONNECTION_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_CONNECTION: Final = re.compile(CONNECTION_NAME)
_BETWEEN: Final = ":"


def connection_of(topic: str) -> str | None:
    """The connection that a topic, as it is called or as a use case says it, is in; None: Kafka's.

    Of the name of a lane it says the same; of a list, whose topics are all in Kafka or all not, it
    says one of its connections. Patterns are of Kafka's topics.
    """
    if _BETWEEN not in topic:
        return None
    connection = topic.partition(_BETWEEN)[0]
    return connection if _CONNECTION.fullmatch(connection) else None


def own_name(topic: str) -> str:
    """What a topic is called in its own log."""
    return topic if connection_of(topic) is None else topic.partition(_BETWEEN)[2]


def within(connection: str, name: str) -> str:
    """What a topic of a connection is called here."""
    return f"{connection}{_BETWEEN}{name}"


def dead_letters_topic(topic: str) -> str:
    """The name of Kafka's topic that has the dead letters of another, whichever log that is in."""
    connection = connection_of(topic)
    return f"{topic}.dlq" if connection is None else f"{connection}--{own_name(topic)}.dlq"


def may_be_one(one: str, other: str) -> bool:
    """Whether two topics, as use cases say them, are one topic for some tenant."""
    return _is_among(one, other) or _is_among(other, one)


def _is_among(topic: str, pattern: str) -> bool:
    anyone = re.escape(pattern).replace(re.escape(TENANT), "[a-z0-9-]+")
    return re.fullmatch(anyone, topic.replace(TENANT, "t")) is not None


def problem_of(topic: str) -> str | None:
    """Why no topic can be called so, as a use case says it; None if one can."""
    if _BETWEEN in topic and connection_of(topic) is None:
        return "before ':' stands the name of a connection, the same one for all tenants"
    if not TOPIC_NAME.fullmatch(own_name(topic).replace(TENANT, "t")):
        return "a name is 1 to 249 letters, digits, '.', '_' and '-'"
    return None
