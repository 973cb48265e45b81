"""What every mirror of positions must do, as tests.

A subclass says how to make one and how to see what other tools see::

    class TestMyMirror(MirrorContract):
        def make_topic(self, partitions): ...    # a name nobody else uses
        def mirror(self): ...                    # a new PositionsMirror
        def unreachable(self): ...               # one whose cluster is down
        def seen(self, use_case): ...            # dict of lane to next offset

Places are numbered from 0 up; whose log has others says so by ``place``.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import ClassVar

import pytest

from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named
from headrace.model.places import Place, place_at
from headrace.ports import PositionsMirror


class MirrorContract:
    """The promises of ``headrace.ports.PositionsMirror``."""

    #: more lanes than one request takes
    many: ClassVar[int] = 1200

    def make_topic(self, partitions: int) -> str:
        raise NotImplementedError

    def mirror(self) -> PositionsMirror:
        raise NotImplementedError

    def unreachable(self) -> PositionsMirror:
        raise NotImplementedError

    def seen(self, use_case: str) -> dict[str, Place]:
        raise NotImplementedError

    def place(self, number: int) -> Place:
        """One of the places that others can be shown, a later one for a higher number."""
        return place_at(number)

    def places(self, numbers: Mapping[str, int]) -> dict[str, Place]:
        """Places of lanes, by their numbers."""
        return {lane: self.place(number) for lane, number in numbers.items()}

    @pytest.fixture
    def use_case(self) -> str:
        return f"case-{uuid.uuid4().hex[:12]}"

    def test_what_is_shown_can_be_seen_and_moves_either_way(self, use_case: str) -> None:
        topic = self.make_topic(3)
        one, two, three = (named(topic, number) for number in range(3))
        mirror = self.mirror()
        mirror.show(use_case, self.places({one: 5, two: 0}))
        mirror.show(use_case, self.places({one: 9, three: 4}))
        assert self.seen(use_case) == self.places({one: 9, two: 0, three: 4})
        mirror.show(use_case, self.places({one: 2}))
        assert self.seen(use_case) == self.places({one: 2, two: 0, three: 4})
        mirror.close()

    def test_use_cases_on_one_topic_are_seen_apart(self, use_case: str) -> None:
        lane, other = named(self.make_topic(1), 0), f"{use_case}-2"
        mirror = self.mirror()
        mirror.show(use_case, self.places({lane: 5}))
        mirror.show(other, self.places({lane: 7}))
        seen = [self.seen(use_case), self.seen(other)]
        assert seen == [self.places({lane: 5}), self.places({lane: 7})]
        mirror.close()

    def test_more_lanes_than_one_request_takes_are_all_seen(self, use_case: str) -> None:
        topic = self.make_topic(self.many)
        offsets = self.places({named(topic, number): number for number in range(self.many)})
        mirror = self.mirror()
        mirror.show(use_case, offsets)
        assert self.seen(use_case) == offsets
        mirror.close()

    def test_a_partition_that_is_not_there_takes_no_other_with_it(self, use_case: str) -> None:
        topic = self.make_topic(2)
        there = self.places({named(topic, number): 3 for number in range(2)})
        mirror = self.mirror()
        mirror.show(use_case, {**there, self.gone(): self.place(4)})
        assert self.seen(use_case) == there
        mirror.close()

    def gone(self) -> str:
        """A partition that is not there."""
        return named(f"gone-{uuid.uuid4().hex}", 0)

    def test_it_sees_what_is_shown_and_no_lane_that_is_not(self, use_case: str) -> None:
        topic = self.make_topic(3)
        one, two, three = (named(topic, number) for number in range(3))
        mirror = self.mirror()
        assert mirror.look(use_case, [one, two]) == {}
        mirror.show(use_case, self.places({one: 5, two: 0}))
        assert mirror.look(use_case, [one, two, three]) == self.places({one: 5, two: 0})
        mirror.show(use_case, self.places({one: 2}))
        assert mirror.look(use_case, [one, self.gone()]) == self.places({one: 2})
        mirror.close()

    def test_more_lanes_than_one_request_takes_are_all_looked_at(self, use_case: str) -> None:
        topic = self.make_topic(self.many)
        offsets = self.places({named(topic, number): number for number in range(self.many)})
        mirror = self.mirror()
        mirror.show(use_case, offsets)
        assert mirror.look(use_case, offsets) == offsets
        mirror.close()

    def test_nothing_to_show_is_no_trouble(self, use_case: str) -> None:
        self.mirror().show(use_case, {})

    def test_a_cluster_that_is_down_is_told_in_time(self) -> None:
        with pytest.raises(BrokerUnavailable):
            self.unreachable().show("case", {named("a", 0): self.place(1)})

    def test_a_cluster_that_is_down_is_told_to_whoever_looks(self) -> None:
        with pytest.raises(BrokerUnavailable):
            self.unreachable().look("case", [named("a", 0)])
