"""The laws of dead letters, as a suite to run on own ones.

A record is put aside once in months, and then its bytes are all that is left of it. So that nothing
of it is lost, and that a lane never goes on over a letter that was not kept, are tests here. Derive
a class whose name starts with ``Test`` and say how to look at what was kept::

    class TestMyDeadLetters(DeadLettersContract):
        def new_topic(self) -> str: ...
        def factory(self) -> DeadLettersFactory: ...
        def connections(self) -> Connections: ...
        def unreachable(self) -> DeadLetters: ...
        def kept(self, topic) -> list[DeadLetter]: ...

How a letter is written down (header names, topics) is each implementation's own.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named
from headrace.model.places import Place, place_at
from headrace.model.receipts import SliceError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, DeadLetter, DeadLetters, DeadLettersFactory


def letter(  # noqa: PLR0913  (each is a fact of a letter that some test is about)
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    use_case: str = "pages",
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: tuple[tuple[str, bytes | None], ...] = (),
    message: str = "HandlerError: no page",
    traceback: str = "Traceback: no page",
    timestamp_ms: int | None = 1_700_000_000_123,
    epoch: int = 1,
) -> DeadLetter:
    """A dead letter of tenant acme, tried twice."""
    error = SliceError(
        False,
        "HandlerError",
        message,
        traceback,
        offset=place_at(offset),
        raw_key=key,
        raw_value=value,
        raw_headers=headers,
        timestamp_ms=timestamp_ms,
    )
    lane = LaneId(use_case, "acme", named(topic, partition))
    piece = Slice(lane, topic, place_at(0), place_at(offset + 10), epoch)
    return DeadLetter(piece, error, attempts=2)


class DeadLettersContract(ABC):
    """The laws of ``headrace.ports.DeadLetters``."""

    @abstractmethod
    def new_topic(self) -> str:
        """The name of a topic with three partitions of which nothing was kept."""

    @abstractmethod
    def factory(self) -> DeadLettersFactory:
        """The dead letters under test."""

    @abstractmethod
    def connections(self) -> Connections:
        """Where they are kept."""

    @abstractmethod
    def unreachable(self) -> DeadLetters:
        """Dead letters that cannot be kept, since nobody answers."""

    @abstractmethod
    def kept(self, topic: str) -> list[DeadLetter]:
        """Everything kept of a topic, in order within each partition.

        What is not written down may be anything: the bounds and the epoch of the slice.
        """

    @contextmanager
    def letters(self) -> Iterator[DeadLetters]:
        with closing(self.factory().open(self.connections())) as opened:
            yield opened

    def offsets(self, topic: str, partition: int = 0) -> list[Place | None]:
        kept = self.kept(topic)
        return [
            kept_letter.error.offset
            for kept_letter in kept
            if kept_letter.slice.lane.name == named(topic, partition)
        ]

    def test_a_record_is_kept_as_it_came(self) -> None:
        topic = self.new_topic()
        headers = (("trace", b"\xfe"), ("trace", None), ("", b""))
        with self.letters() as letters:
            letters.keep([letter(topic, 7, key=b"\x00k", value=b"\xff", headers=headers)])
        (kept,) = self.kept(topic)
        error = kept.error
        assert (error.raw_key, error.raw_value, error.raw_headers) == (b"\x00k", b"\xff", headers)
        assert error.timestamp_ms == 1_700_000_000_123

    @pytest.mark.parametrize("stamp_ms", [-1, -62_135_596_800_000])
    def test_a_record_from_before_1970_keeps_its_time(self, stamp_ms: int) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 7, timestamp_ms=stamp_ms)])
        (kept,) = self.kept(topic)
        assert kept.error.timestamp_ms == stamp_ms

    def test_null_and_empty_are_kept_apart(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 1, key=None, value=b""), letter(topic, 2, value=None)])
        first, second = self.kept(topic)
        assert (first.error.raw_key, first.error.raw_value) == (None, b"")
        assert (second.error.raw_key, second.error.raw_value) == (b"key", None)

    def test_it_says_whose_which_and_why(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 7, partition=2, message="Zürich", traceback="line 1\n")])
        (kept,) = self.kept(topic)
        assert kept.slice.topic == topic
        assert kept.slice.lane == LaneId("pages", "acme", named(topic, 2))
        assert (kept.error.offset, kept.attempts) == (place_at(7), 2)
        assert kept.error.code == "HandlerError"
        assert (kept.error.message, kept.error.traceback) == ("Zürich", "line 1\n")

    def test_letters_of_a_lane_keep_their_order(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, number, partition=1) for number in range(50)])
            letters.keep([letter(topic, number, partition=1) for number in range(50, 60)])
        assert self.offsets(topic, partition=1) == list(range(60))

    def test_letters_of_many_topics_are_kept_at_once(self) -> None:
        topics = [self.new_topic() for _ in range(3)]
        with self.letters() as letters:
            letters.keep([letter(topic, number) for number in range(4) for topic in topics])
        assert [self.offsets(topic) for topic in topics] == [[0, 1, 2, 3]] * 3

    def test_after_the_first_letter_of_a_topic_the_next_is_kept_at_once(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 1)])
            assert letters.ready(topic)

    def test_no_letters_are_no_work(self) -> None:
        self.unreachable().keep([])

    def test_what_was_kept_outlives_whoever_kept_it(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 1)])
        with self.letters() as letters:
            letters.keep([letter(topic, 2)])
        assert self.offsets(topic) == [1, 2]

    def test_a_letter_that_a_later_try_brings_again_is_there_once(self) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            for attempt in range(5):
                again = letter(topic, 1, message=f"attempt {attempt}")
                letters.keep([again, letter(topic, 2 + attempt)])
        assert self.offsets(topic) == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize(
        "other",
        [
            {"epoch": 2},
            {"value": b"of a log that was cut and went on"},
            {"timestamp_ms": 1},
            {"use_case": "bills"},
            {"partition": 1},
        ],
    )
    def test_another_record_or_a_lane_that_begins_again_has_a_letter_of_its_own(
        self, other: dict[str, Any]
    ) -> None:
        topic = self.new_topic()
        with self.letters() as letters:
            letters.keep([letter(topic, 1)])
            letters.keep([letter(topic, 1, **other)])
        assert len(self.kept(topic)) == 2

    def test_what_cannot_be_kept_is_an_error_to_try_again(self) -> None:
        topic = self.new_topic()
        with pytest.raises(BrokerUnavailable), closing(self.unreachable()) as letters:
            letters.keep([letter(topic, 1)])
        assert self.kept(topic) == []

    def test_the_factory_travels_and_opens_without_contact(self) -> None:
        factory = pickle.loads(pickle.dumps(self.factory()))  # noqa: S301
        nowhere = Connections({"bootstrap.servers": "127.0.0.1:1"}, database_url="")
        factory.open(nowhere).close()
