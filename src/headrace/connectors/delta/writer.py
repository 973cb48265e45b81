"""Effects into a Delta table: the files first, then one commit that has them and the lanes' marks.

*What was done* is told by the marks of the snapshot that the commit will follow: an effect that an
earlier attempt at the same wave has written is left out, and what comes out of it is how far that
one came. A seek makes a new wave, of which no mark is there: its rows come again, as they should.

*Who is kept out* follows from the commit, which is the next one after the snapshot or none
(`client.py`). Two attempts that both found nothing cannot both commit: the second is beaten, looks
at the new snapshot, and finds the first one's marks. The store is asked last of all whether the
lanes still stand where the slices begin, under their epochs; so one that wakes up after its wave
was settled, or its stream was sought, writes nothing. What is left open is the moment between that
answer and the commit: a stream that is sought in it may have the effect of its old slice as well.

Files are written while the library reads the newest commits, since to read of these our marks alone
takes next to nothing. Whoever is beaten waits for a random while, and commits the same files again.
Without recorded waves no marks are left or looked at.

Who slept for long may wake up after a vacuum: just before the commit it is looked whether the files
are there, and they are written anew if one is not. A vacuum in the moment between is not seen.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.connectors.delta.client import TableClient
from headrace.connectors.delta.data_files import DataFile, paths_of, written
from headrace.connectors.delta.fitting import Target, fitting
from headrace.connectors.delta.homes import Home
from headrace.connectors.delta.library import BeatenError, HalfSeenError
from headrace.connectors.delta.marks import MarkIds, mark_ids
from headrace.connectors.outcomes import failed
from headrace.connectors.standing import gone
from headrace.connectors.wave_marks import done_before, leaves_a_mark
from headrace.errors import ConfigError, HeadraceError, SinkUnavailable, TargetMissing
from headrace.model.streams import Slice
from headrace.ports import Effect, Site, Written
from headrace.process.crash_points import reached

_TRIES = 30
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5

Effects = Mapping[int, Effect]
Outcomes = dict[int, Written]

#: tables of this process for its next bins; a forked child must not use a parent's
_kept: dict[tuple[int, Home], TableClient] = {}


@dataclass
class _Batch:
    """Effects whose rows are in files that no commit has yet."""

    effects: dict[int, Effect] = field(default_factory=dict)
    files: list[DataFile] = field(default_factory=list)


class DeltaWriter:
    """Writes the effects of each call in one commit."""

    def __init__(self, target: Target, site: Site) -> None:
        """Take a table and where the bin runs."""
        self._target = target
        self._positions = site.positions
        # Only what was written down before it runs has a fence.
        self._once = bool(site.fence)
        self._wave_id = site.wave_id
        self._installation = site.connections.installation
        self._table: TableClient | None = None

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        given = dict(enumerate(effects))
        asked = {i: e for i, e in given.items() if e.output.num_rows or self._leaves_a_mark(e)}
        outcomes: Outcomes = {}
        self._ready({i: given[i] for i in given.keys() - asked.keys()}, outcomes)
        if asked:
            try:
                self._write(asked, outcomes)
            except HeadraceError as error:
                self._table = None
                outcomes = dict.fromkeys(asked, failed(error)) | outcomes
        return [outcomes.get(index, Written()) for index in given]

    def close(self) -> None:
        """Keep what was read of the table for the next bin."""
        if self._table is not None:
            _kept[os.getpid(), self._target.home] = self._table

    def _write(self, effects: Effects, outcomes: Outcomes) -> None:
        """Commit all that is left of effects; what was told meanwhile stands in ``outcomes``.

        Raises:
            HeadraceError: nothing of the rest was written, or nobody knows.
        """
        table, batch = None, _Batch()
        for pause_s in _pauses():
            try:
                table = table or self._opened()
                batch = self._due(table, effects, outcomes, batch)
                if not batch.effects:
                    return
                reached("mid-write", next(iter(batch.effects.values())).slices[0].lane.use_case)
                if not self._has_all(batch):
                    self._target.home.remove(paths_of(batch.files))
                    batch = _Batch()
                    continue
                table.commit(batch.files, self._ids(batch.effects, table))
            except (BeatenError, HalfSeenError):
                time.sleep(pause_s)
                continue
            outcomes |= dict.fromkeys(batch.effects, Written())
            return
        raise SinkUnavailable(f"{self._target.where}: others commit to it all the time")

    def _due(
        self, table: TableClient, effects: Effects, outcomes: Outcomes, batch: _Batch
    ) -> _Batch:
        """What is to be committed after the newest commit; the rest is told in ``outcomes``."""
        if batch.effects:
            table.refresh()
            outcomes |= self._done(table, effects, outcomes)
        else:
            batch = self._begun(table, effects, outcomes)
        try:
            self._demand_columns(table)
            batch = self._batch(effects, outcomes, batch)
            outcomes |= self._gone(batch)
        except HeadraceError:
            self._target.home.remove(paths_of(batch.files))
            raise
        return self._batch(effects, outcomes, batch)

    def _begun(self, table: TableClient, effects: Effects, outcomes: Outcomes) -> _Batch:
        """The files of what is not done as far as the log tells by now.

        They are written while the library reads the newest commits, which takes it as long.
        """
        looked = table.look() if self._once else -1
        outcomes |= self._done(table, effects, outcomes)
        with ThreadPoolExecutor(1) as beside:
            reading = beside.submit(table.refresh)
            batch = self._batch(effects, outcomes, _Batch())
        try:
            reading.result()
            if table.version != looked:
                outcomes |= self._done(table, effects, outcomes)
        except Exception:
            self._target.home.remove(paths_of(batch.files))
            raise
        return batch

    def _opened(self) -> TableClient:
        home = self._target.home
        if self._table is None:
            self._table = _kept.pop((os.getpid(), home), None)
        if self._table is None or not self._table.is_there():
            home.demand_ready()
            self._table = TableClient(home)
        return self._table

    def _demand_columns(self, table: TableClient) -> None:
        """See that the table still has the columns, before a file is in it that lacks them."""
        try:
            lacking = table.lacking(self._target.schema, self._target.partition_by)
        except ConfigError as error:
            raise TargetMissing(str(error)) from error
        if lacking:
            raise TargetMissing(
                f"{self._target.where}: the table has no column {lacking[0]!r}; "
                "'headrace use-cases deploy' adds it"
            )

    def _batch(self, effects: Effects, outcomes: Outcomes, batch: _Batch) -> _Batch:
        """The files of all effects of which nothing is told yet: those there are, or new ones."""
        left = {index: effects[index] for index in effects.keys() - outcomes.keys()}
        if left.keys() == batch.effects.keys():
            return batch
        target = self._target
        target.home.remove(paths_of(batch.files))
        indexes, rows = self._ready(left, outcomes)
        files = written(rows, target.home, target.partition_by) if rows.num_rows else []
        return _Batch({index: left[index] for index in indexes}, files)

    def _has_all(self, batch: _Batch) -> bool:
        """Whether no file was taken away meanwhile, as vacuum does with what seems left over."""
        home = self._target.home
        with home.told():
            return home.has_all(paths_of(batch.files))

    def _ready(self, effects: Effects, outcomes: Outcomes) -> tuple[list[int], pa.Table]:
        """Which effects fit, and all of their rows; what is refused stands in ``outcomes``."""
        indexes, rows, refused = fitting(effects, self._target)
        outcomes |= refused
        return indexes, rows

    def _done(self, table: TableClient, effects: Effects, outcomes: Outcomes) -> Outcomes:
        """Effects that an earlier attempt at this wave has written."""
        if not self._once:
            return {}
        ids, found = table.ids(), dict[int, Written]()
        for index in effects.keys() - outcomes.keys():
            effect = effects[index]
            lanes = (self._mark_ids(piece) for piece in effect.slices)
            marks = [of_lane.mark(ids, self._wave_id) for of_lane in lanes]
            done = done_before(marks, effect, self._wave_id)
            if done is not None:
                found[index] = Written(reached=done)
        return found

    def _gone(self, batch: _Batch) -> Outcomes:
        """Effects that are another's by now."""
        return gone(self._positions, batch.effects) if self._once else {}

    def _ids(self, effects: Effects, table: TableClient) -> dict[str, int]:
        if not self._once:
            return {}
        ids, known = dict[str, int](), table.ids()
        for effect in effects.values():
            for piece, place in zip(effect.slices, effect.reached, strict=True):
                ids |= self._mark_ids(piece).numbers(place, self._wave_id, known)
        return ids

    def _mark_ids(self, piece: Slice) -> MarkIds:
        return mark_ids(self._installation, piece.lane)

    def _leaves_a_mark(self, effect: Effect) -> bool:
        return self._once and leaves_a_mark(effect)


def _pauses() -> Iterator[float]:
    """How long to wait each time that somebody else was first: none waits as long as another."""
    for number in range(_TRIES):
        longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**number)
        yield random.uniform(0.0, longest)  # noqa: S311 - no secret is made of it
