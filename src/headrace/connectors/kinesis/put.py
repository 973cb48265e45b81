"""Records into a stream, many in a request, and those of a key one after the other.

A request may have 500 records, and the service takes some of them and not others; of two records of
a key it may refuse the first and take the second. So no request has two of a key: the next one goes
when the one before it is there. What came too soon for its shard is sent again after a wait that
grows and that chance shortens, while the records of other keys go on; what is not taken when the
patience is over, or is refused, holds back all of its key that is behind it, and is named.

Where nobody answers, or the stream is closed to us, nothing more is sent in that call.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, Final

from headrace.connectors import row_by_row
from headrace.connectors.amazon_clients import AmazonService
from headrace.connectors.changes import Change, puts
from headrace.connectors.in_parts import in_halves, sent
from headrace.connectors.kinesis.client import is_spent
from headrace.connectors.kinesis.not_taken import TooMuch, not_taken, too_much
from headrace.connectors.row_by_row import Waits
from headrace.errors import HeadraceError, SinkUnavailable, TargetMissing, Temporary
from headrace.policies.retry import Backoff
from headrace.ports import Effect, Written

#: records of a request, and bytes of their data and keys; one record alone may be more
MOST_RECORDS: Final = 500
MOST_BYTES: Final = 5 * 2**20
#: how long what came too soon is sent again: alone, and where others wait
ALONE_S, IN_COMPANY_S = 5.0, 0.5
_PAUSES: Final = Backoff(first_s=0.1, most_s=1.0)

#: what became of each record of a request, or raises what became of all
Put = Callable[[Sequence[Change]], Sequence[HeadraceError | None]]


class KinesisWriter:
    """Writes the effects of a bin to a stream."""

    def __init__(
        self,
        records: Callable[[Effect], list[tuple[str, bytes]]],
        service: AmazonService,
        stream: str,
        patience_s: float = ALONE_S,
        until_s: float = math.inf,
    ) -> None:
        """Take what makes keys and data of effects, and where they go.

        Args:
            records: makes keys and data of an effect, or raises what refuses it.
            service: where the stream is.
            stream: its name.
            patience_s: how long what came too soon is sent again.
            until_s: second of the steady clock until which others wait.
        """
        self._records, self._service, self._stream = records, service, stream
        self._patience_s, self._until_s = patience_s, until_s
        self._where = f"{service.where}: stream {stream}"

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all records that can be written; see ``SinkWriter.write``."""
        return row_by_row.write(effects, self._changes, self._sent, self._where)

    def close(self) -> None:
        """Nothing to give up: the client is kept for the next bin."""

    def _changes(self, effect: Effect) -> list[Change]:
        return puts(self._records(effect), repeat(0))

    def _sent(self, changes: Sequence[Change], use_case: str) -> list[HeadraceError | None]:
        call = _Call(self._put, self._where, self._patience_s)
        return sent(changes, use_case, call.asked, self._where, self._until_s)

    def _put(self, changes: Sequence[Change]) -> list[HeadraceError | None]:
        """Send a request; what became of each of its records."""
        records = [
            {"PartitionKey": key, "Data": data} for key, data in (one.values for one in changes)
        ]
        request = {"StreamName": self._stream, "Records": records}
        try:
            told = self._service.asked("put_records", request, self._until_s)
        except Exception as error:
            refused = not_taken(error, self._where)
            if isinstance(refused, TooMuch):
                return [refused] * len(changes)
            raise refused from error
        answers = told.get("Records") if isinstance(told, dict) else None
        if not isinstance(answers, list) or len(answers) != len(changes):
            raise SinkUnavailable(
                f"{self._where}: an answer that is not Kinesis's; it may be written or not"
            )
        return [self._judged(answer) for answer in answers]

    def _judged(self, answer: dict[str, Any]) -> HeadraceError | None:
        code = answer.get("ErrorCode")
        if code is None and answer.get("SequenceNumber"):
            return None
        if is_spent(str(code)):
            return too_much(self._where)
        return SinkUnavailable(f"{self._where}: a record was not taken now ({code})")


@dataclass(slots=True)
class _Call:
    """What became of the records of one call so far."""

    put: Put
    where: str
    #: how long what comes too soon may still be waited for
    patience_s: float
    taken: set[int] = field(default_factory=set)
    #: by key, the record that was not taken, and why: none behind it may be sent
    refused: dict[str, tuple[Change, HeadraceError]] = field(default_factory=dict)
    #: why nothing is sent any more
    over: HeadraceError | None = None

    def asked(self, part: Sequence[Change]) -> list[HeadraceError | None]:
        """Send records; what became of each."""
        if self.over is not None:
            raise self.over
        lines = deque(line for line in _lines(part) if _key(line[0]) not in self.refused)
        tries = 0
        while lines and self.over is None:
            before = len(self.taken)
            slow = self._sent_once(lines)
            tries = tries + 1 if len(self.taken) == before else 0
            if slow and self.over is None and not self._waited(tries):
                self.refused |= {_key(line[0]): (line[0], too_much(self.where)) for line in slow}
                break
            lines = slow
        return [self._became_of(change) for change in part]

    def _sent_once(self, lines: deque[deque[Change]]) -> deque[deque[Change]]:
        """Send lines record by record until each is at its end; those that came too soon."""
        slow: deque[deque[Change]] = deque()
        while lines:
            batch = _batch(lines)
            try:
                told = in_halves([line[0] for line in batch], self.put)
            except (Temporary, TargetMissing) as over:
                self.over = over
                break
            for line, error in zip(batch, told, strict=True):
                if isinstance(error, TooMuch):
                    slow.append(line)
                elif error is not None:
                    self.refused[_key(line[0])] = line[0], error
                else:
                    self.taken.add(id(line.popleft()))
                    if line:
                        lines.append(line)
        return slow

    def _waited(self, tries: int) -> bool:
        """Wait for what came too soon; False: the patience is over."""
        pause_s = _PAUSES.wait_s(tries, random.random())  # noqa: S311 - it spreads what waits
        if pause_s > self.patience_s:
            return False
        self.patience_s -= pause_s
        time.sleep(pause_s)
        return True

    def _became_of(self, change: Change) -> HeadraceError | None:
        if id(change) in self.taken:
            return None
        first, error = self.refused.get(_key(change), (change, self.over))
        if first is change and error is not None:
            return error
        waits = Waits if first.effect == change.effect else SinkUnavailable
        return waits(f"{self.where}: a record of its key before it was not taken")


def _lines(part: Sequence[Change]) -> list[deque[Change]]:
    """Records by their keys, those of each in their order."""
    found: dict[str, deque[Change]] = {}
    for change in part:
        found.setdefault(_key(change), deque()).append(change)
    return [*found.values()]


def _batch(lines: deque[deque[Change]]) -> list[deque[Change]]:
    """Lines of which the first records make a request; they are taken away."""
    batch: list[deque[Change]] = []
    size = 0
    while lines and len(batch) < MOST_RECORDS:
        key, data = lines[0][0].values
        size += len(key.encode()) + len(data)
        if batch and size > MOST_BYTES:
            break
        batch.append(lines.popleft())
    return batch


def _key(change: Change) -> str:
    return str(change.values[0])
