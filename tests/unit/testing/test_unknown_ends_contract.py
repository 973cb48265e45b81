"""The suite of logs whose ends only reading tells is shown faults, and finds each."""

import inspect
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from fake_topics import HiddenTopics
from headrace.errors import HeadraceError
from headrace.model.places import number_at, place_at
from headrace.model.receipts import Behind
from headrace.ports import Connections
from headrace.ports.reading import PLACE_COLUMN
from headrace.spark.row_places import place_of_row
from headrace.testing.log_contract import SEAL_KEY, unknown_ends
from headrace.testing.log_fake import MemoryReader
from headrace.testing.wide_log import STEP, WideLog, WideReader

#: and what a law meets that reads the wrong thing
FOUND = (AssertionError, HeadraceError, KeyError, StopIteration, ValueError)


@dataclass(frozen=True)
class Opens:
    """Opens readers of a kind, as tasks do."""

    log: WideLog
    kind: type[WideReader]

    def open(self, connections):
        return self.kind(MemoryReader(self.log, connections.seal_key))


def broken_laws(log, kind=WideReader):
    """The names of the laws that a log and its readers break."""
    found = []
    for laws in (unknown_ends.TestUnknownEnds, unknown_ends.TestOpenRecords):
        for name, law in inspect.getmembers(laws, inspect.isfunction):
            if name.startswith("test_") and not _keeps(law, log, kind):
                found.append(name)
    return found


def _keeps(law, log, kind):
    known = {"topics": HiddenTopics(log()), "connections": Connections({}, "", seal_key=SEAL_KEY)}
    known["log"] = known["topics"].log
    known["reader_factory"] = Opens(known["log"], kind)
    for fixture in (unknown_ends.open_reader, unknown_ends.read, unknown_ends.visit):
        make = inspect.unwrap(fixture)
        known[make.__name__] = make(**_of(make, known))
    try:
        law(None, **_of(law, known))
    except FOUND:
        return False
    return True


def _of(call, known):
    return {name: known[name] for name in inspect.signature(call).parameters if name in known}


class OneId(WideLog):
    """It tells topics apart by their names alone."""

    def topics(self, names):
        return {name: replace(of, topic_id="same") for name, of in super().topics(names).items()}


class NoTimes(WideLog):
    """It knows no times."""

    def offsets_at(self, _lanes, _timestamp_s):
        return {}


class EndsAtTimes(WideLog):
    """It says where a lane ends, to whoever asks for a time."""

    def offsets_at(self, lanes, timestamp_s):
        found = super().offsets_at(lanes, min(timestamp_s, 1e12))
        return {lane: min(at, place_at(10**56)) for lane, at in found.items()}


class NoParents(WideLog):
    """The lanes that follow others do not come with what they follow."""

    def topics(self, names):
        return {name: replace(of, parents={}) for name, of in super().topics(names).items()}


@pytest.mark.parametrize("log", [OneId, NoTimes, EndsAtTimes, NoParents])
def test_a_log_with_a_fault_breaks_a_law(log):
    assert broken_laws(log)


class Gaps(WideLog):
    """Its starts do not say what is lost."""

    def __init__(self):
        super().__init__()
        self.tells_starts = False


def test_a_log_whose_readers_tell_what_is_lost_breaks_none():
    assert broken_laws(Gaps) == []


class Changed(WideReader):
    """A reader that hands out something else than is there."""

    def read(self, slices, batch_records):
        for batch in super().read(slices, batch_records):
            yield self.changed(batch)

    def changed(self, batch):
        return replace(batch, records=self.table(batch.records))

    def table(self, records):
        return records


def with_column(records, name, values):
    at = records.schema.get_field_index(name)
    field = records.schema.field(at)
    return records.set_column(at, field, pa.array(values(records.num_rows), field.type))


class NoPlaces(Changed):
    def table(self, records):
        return records.drop_columns([PLACE_COLUMN])


class WrongPlaces(Changed):
    def table(self, records):
        return with_column(records, PLACE_COLUMN, lambda rows: ["0"] * rows)


class OneOrdinal(Changed):
    def table(self, records):
        return with_column(records, "offset", lambda rows: [7] * rows)


class NoKeys(Changed):
    def table(self, records):
        return with_column(records, "key", lambda rows: [None] * rows)


class NoTimestamps(Changed):
    def table(self, records):
        return with_column(records, "timestamp", lambda rows: [0] * rows)


class FewerColumns(Changed):
    def table(self, records):
        return records.drop_columns(["topic", "partition"])


class CameLess(Changed):
    """What a batch before the last has is not behind it."""

    def changed(self, batch):
        return batch if batch.last else replace(batch, reached=batch.slice.from_offset)


class CameFurther(Changed):
    """A batch before the last passes what is still to come."""

    def changed(self, batch):
        far = place_at(number_at(batch.reached) + 3 * STEP)
        return batch if batch.last else replace(batch, reached=far)


class LeavesOut(Changed):
    """The first record of a batch is not in it."""

    def table(self, records):
        return records.slice(1)


class ReadsOnce(WideReader):
    """Whoever asks again is given nothing."""

    used = False

    def read(self, slices, batch_records):
        if not self.used:
            self.used = True
            yield from super().read(slices, batch_records)


class ForgetsEmpty(WideReader):
    """Slices in which nothing is are not answered."""

    def read(self, slices, batch_records):
        yield from super().read([piece for piece in slices if not piece.is_empty], batch_records)


class StuckInGaps(Changed):
    """Where nothing is for long it says that there is more, and does not come further."""

    def changed(self, batch):
        piece, nothing = batch.slice, batch.records.slice(0, 0)
        nearby = place_at(number_at(piece.from_offset) + 20 * STEP)
        first = place_of_row(batch.records, 0) if batch.records.num_rows else batch.reached
        if not batch.last or not piece.is_open or first <= nearby:
            return batch
        return replace(batch, records=nothing, reached=piece.from_offset, behind=Behind(3600.0))


class NeverAtTheEnd(Changed):
    def changed(self, batch):
        return replace(batch, behind=Behind(None)) if batch.behind else batch


class ReadsTooMuch(WideReader):
    """What is asked of open slices it does not hold."""

    def read(self, slices, batch_records):
        for piece in slices:
            open_ = replace(piece, records=10**6, most_bytes=10**9) if piece.is_open else piece
            for batch in super().read([open_], batch_records):
                yield replace(batch, slice=piece)


class Unsealed(Changed):
    def changed(self, batch):
        return replace(batch, behind=batch.behind and batch.behind._replace(sealed=False))


KINDS = [
    NoPlaces,
    WrongPlaces,
    OneOrdinal,
    NoKeys,
    NoTimestamps,
    FewerColumns,
    CameLess,
    CameFurther,
    LeavesOut,
    ReadsOnce,
    ForgetsEmpty,
    StuckInGaps,
    NeverAtTheEnd,
    ReadsTooMuch,
    Unsealed,
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_with_a_fault_breaks_a_law(kind):
    assert broken_laws(WideLog, kind)


class GoesOnNowhere(Changed):
    """Nobody says where to go on behind what is lost."""

    def changed(self, batch):
        error = batch.error and replace(batch.error, goes_on_at=None)
        return replace(batch, error=error)


class GoesOnThere(Changed):
    """It says to go on where all is lost."""

    def changed(self, batch):
        error = batch.error and replace(batch.error, goes_on_at=batch.slice.from_offset)
        return replace(batch, error=error)


@pytest.mark.parametrize("kind", [GoesOnNowhere, GoesOnThere])
def test_where_readers_tell_what_is_lost_one_with_a_fault_breaks_a_law(kind):
    assert broken_laws(Gaps, kind)


def test_one_without_any_breaks_none():
    assert broken_laws(WideLog) == []
