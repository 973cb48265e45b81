"""How far the reading of one slice has come.

Kafka gives a lane's messages in order, but not only those of the slice: it may begin again after a
reconnect, and goes on past the end. And the record before the end may never come, when compaction,
an aborted transaction or a control record left a gap there. So a slice is complete when something
proves that the log went past it: a record at or past ``until``, or the end of the partition there.
A record whose headers the client cannot tell ends the reading before it. Where a header's name is
not UTF-8, the client (2.16) leaves an exception behind that it does not report, and to ask twice
can end the process. So each message is asked once, here, in a way that looks for it.

This module judges messages; it talks to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import KafkaError

from headrace.connectors.kafka.faults import ErrorKind, kind_of
from headrace.connectors.kafka.partitions import partition_of
from headrace.errors import HeadraceError, RecordUnreadable
from headrace.model.places import number_at
from headrace.model.streams import Slice

#: a ``confluent_kafka.Message``; its stub lets every field be None, which only holds for errors
Received = Any
Headers = Sequence[tuple[str, bytes | None]]
#: in C, where an exception that was left behind is looked for after every call
_ask_headers = methodcaller("headers")


class LaneRead:
    """The reading of one slice."""

    __slots__ = (
        "eof",
        "error",
        "fault",
        "header_bytes",
        "held",
        "key",
        "next_offset",
        "passed",
        "slice",
        "strikes",
        "until",
    )

    def __init__(self, piece: Slice) -> None:
        self.slice = piece
        self.key = partition_of(piece)
        self.next_offset = number_at(piece.from_offset)
        self.until = number_at(piece.until_offset)
        #: messages of the slice not handed out yet
        self.held: list[Received] = []
        #: of headers of all messages that were held, their names and values
        self.header_bytes = 0
        #: the log is known to have gone past the slice
        self.passed = False
        #: why it cannot be read
        self.error: HeadraceError | None = None
        #: an error Kafka sent in place of a message, not judged yet
        self.fault: KafkaError | None = None
        #: where the readable log ended when last heard of
        self.eof: int | None = None
        #: how often in a row a look at the cluster found something wrong with it
        self.strikes = 0

    @property
    def open(self) -> bool:
        """Whether more is to come."""
        return not self.passed and self.error is None

    @property
    def missing_records(self) -> int:
        """The most records still to come."""
        return self.until - self.next_offset if self.open else 0

    def take(self, run: Sequence[Received]) -> int:
        """Keep what belongs to the slice; return how many messages did not.

        Args:
            run: consecutive messages of this lane, one at least.
        """
        if not self.open:
            return len(run)
        good = [message for message in run if message.error() is None]
        if len(good) < len(run):
            self._hear([message for message in run if message.error() is not None])
        if not good:
            # An error that comes again and again is no progress, or nobody would ever give up.
            return 0 if self.passed else len(run)
        last, until = good[-1].offset(), self.until
        kept = good
        if good[0].offset() < self.next_offset or last >= until:
            kept = [message for message in good if self.next_offset <= message.offset() < until]
        readable = self._readable(kept)
        self.held += readable
        if self.error is None:
            self.next_offset = max(self.next_offset, min(last + 1, until))
            self.passed = self.passed or last >= until - 1
        return len(good) - len(kept)

    def _readable(self, run: Sequence[Received]) -> Sequence[Received]:
        """The messages before the first one whose headers cannot be told."""
        told: list[Headers | None] = []
        try:
            told.extend(map(_ask_headers, run))
        except (SystemError, UnicodeDecodeError):
            bad = run[len(told)]
            self.next_offset = bad.offset()
            self.error = RecordUnreadable(
                f"{self.key[0]}[{self.key[1]}] offset {bad.offset()}: the Kafka client cannot tell "
                "its headers, of which one has a name that is not UTF-8",
                bad.offset(),
                bad.key(),
                bad.value(),
                bad.timestamp()[1],
            )
            run = run[: len(told)]
        self.header_bytes += sum(_bytes_of(headers) for headers in told if headers)
        return run

    def _hear(self, faults: Sequence[Received]) -> None:
        for fault in faults:
            if fault.topic() is None:
                # About the client, such as no right to see the group that it never joins.
                continue
            error = fault.error()
            if kind_of(error) is not ErrorKind.END:
                self.fault = error
                continue
            self.eof = fault.offset()
            if self.eof >= self.until:
                self.passed = True


def _bytes_of(headers: Headers) -> int:
    """A header's name counts as its value does: whoever sends may choose both."""
    return sum(
        (len(name) if name.isascii() else len(name.encode())) + len(value or b"")
        for name, value in headers
    )
