"""Names of the topics in which a splitter parks what a tenant's topic does not take.

A splitter makes such a topic when it first parks something, and a use case brings from there what
is in it. So that the topic is not there is no trouble and nobody's to mend, as it is of every other
topic that is read: nothing is parked. Whoever tells of it has to know the one from the other, by
the names of topic and use case, for nothing else of a use case says it.

Nothing is asked or made here.
"""

from __future__ import annotations

from typing import Final

#: what the stream of such a topic shows as long as the topic is not there
NOTHING_PARKED: Final = "nothing is parked"
_BRINGS = "-parked"


def brings(splitter: str) -> str:
    """The use case that brings what a splitter parked."""
    return f"{splitter}{_BRINGS}"


def topic_of_parked(topic: str, splitter: str) -> str:
    """Where a splitter parks what a topic does not take; either may have ``{tenant}`` in it."""
    return f"{topic}.{splitter}.parked"


def is_of_parked(topic: str, use_case: str) -> bool:
    """Whether a use case brings from this topic what a splitter parked there."""
    splitter = use_case.removesuffix(_BRINGS)
    return use_case.endswith(_BRINGS) and topic.endswith(topic_of_parked("", splitter))
