"""Answers of a broker that has not heard yet what became of a topic.

It lists one partition less than there are, or tells the id of the topic that had the name before.
Whoever asks again, asks another broker: two such answers in a row get neither a driver nor a
person. So whatever is done by one of them was done too soon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.ports import TopicInfo
from headrace.testing.simulation.actors import Stage
from headrace.testing.simulation.topics import WorldTopics


@dataclass(eq=False, slots=True)
class Unheard:
    """What is told of topics, and to whom it was not the truth."""

    topics: WorldTopics
    counts: Counter[str]
    #: who was told something else the last time, by topic
    _told: set[tuple[object, str]] = field(default_factory=set)
    #: when somebody was told of the topic before the last time, in monotonic seconds
    _misled_s: dict[tuple[object, str], float] = field(default_factory=dict)

    def told(self, who: object, known: dict[str, TopicInfo]) -> dict[str, TopicInfo]:
        """What somebody is told of what there is."""
        return {name: self._told_of(who, name, info) for name, info in known.items()}

    def told_names(self, who: object, names: Collection[str]) -> Collection[str]:
        """Which topics somebody is told of: at times one is left out."""
        rng = self.topics.rng
        if not names or rng.random() >= self.topics.odds.unheard:
            return names
        missing = rng.choice(sorted(names))
        self.counts["topics left out of all"] += 1
        self._misled_s[who, missing] = self.topics.clock.monotonic_s()
        return [name for name in names if name != missing]

    def unaware_since_s(self, who: object, name: str) -> float:
        """Since when somebody may not know of a topic, for all that it was told."""
        return max(self.topics.made_at_s[name], self._misled_s.get((who, name), -math.inf))

    def _told_of(self, who: object, name: str, info: TopicInfo) -> TopicInfo:
        if (who, name) in self._told:
            self._told.discard((who, name))
            return info
        rng = self.topics.rng
        if rng.random() >= self.topics.odds.unheard:
            return info
        before = self.topics.ids_before.get(name)
        if before is not None and rng.random() < 0.5:
            self.counts["topics told of before"] += 1
            self._misled_s[who, name] = self.topics.clock.monotonic_s()
            info = replace(info, topic_id=before)
        elif len(info.lanes) > 1:
            self.counts["lists without a lane"] += 1
            missing = rng.choice(info.lanes)
            info = replace(info, lanes=tuple(one for one in info.lanes if one != missing))
        else:
            return info
        self._told.add((who, name))
        return info


class PersonsLog:
    """The log as people's commands ask it."""

    def __init__(self, log: Any, stage: Stage) -> None:
        self._log, self._stage = log, stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """What is told of them."""
        return self._stage.told_topics("a person", self._log.topics(names))
