"""Whatever mix of trouble a slice is full of, no lane goes on past what was not done."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import BrokerUnavailable, LeaderUnknown, SinkRefused, SinkUnavailable
from headrace.model.lane_names import number_of
from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin
from headrace.ports import Connections, SliceBatch, Written, advance_groups
from headrace.spark.slice_errors import error_of
from headrace.spark.task import Work, WorkerClients, run_bin
from headrace.testing.records import records
from headrace.use_cases import use_case

#: what a record's value says of it: the handler raises, calls it bad, or meets something that is
#: down; the sink refuses it, is down, or raises; the reader ends before it
FATES = (b"raises", b"bad", b"down", b"refused", b"sink-down", b"sink-raises", b"unreadable")
FINE = b"fine"
ROWS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
EPOCH = 1


@dataclass
class Lanes:
    """Positions in memory."""

    at: dict = field(default_factory=dict)

    @contextmanager
    def begin(self):
        yield None

    def advance_in(self, _connection, moves):
        return self.advance(moves)

    def advance(self, moves):
        return [self._advance(move) for move in moves]

    def advance_groups(self, groups, states=()):
        return advance_groups(self, groups)

    def _advance(self, move):
        ours = self.at.get(move.lane, 0) == move.from_offset and move.epoch == EPOCH
        if ours:
            self.at[move.lane] = move.to_offset
        return ours


@dataclass
class Places:
    """A sink that keeps places, and minds what records say; moves positions where it is asked."""

    lanes: Lanes
    exactly_once: str | None
    written: list = field(default_factory=list)

    def open(self, _site):
        return self

    def write(self, effects):
        if any(b"sink-raises" in values_of(effect) for effect in effects):
            raise OverflowError("too large for a column")
        return [self._write(effect) for effect in effects]

    def _write(self, effect):
        values = values_of(effect)
        if b"sink-down" in values:
            return Written(error=error_of(SinkUnavailable("down")))
        if b"refused" in values:
            return Written(error=error_of(SinkRefused("not allowed")))
        if effect.move_positions and not all(self.lanes.advance(effect.moves)):
            return Written(superseded=True)
        if values:
            rows = zip(
                effect.output["partition"].to_pylist(),
                effect.output["offset"].to_pylist(),
                strict=True,
            )
            self.written += rows
        return Written(committed=effect.move_positions)

    def close(self):
        pass


class Looks(Places):
    """The same, where one can ask what it would refuse."""

    def check(self, output):
        if b"refused" in output["value"].to_pylist():
            raise SinkRefused("not allowed")


def values_of(effect):
    return effect.output["value"].to_pylist() if effect.output.num_columns else []


@dataclass
class Fates:
    """A reader whose records are named by what is to become of them."""

    lanes: dict
    batch: int

    def read(self, slices, _batch_records):
        for piece in slices:
            yield from self._read(piece, self.lanes[number_of(piece.lane.name)])

    def _read(self, piece, fates):
        end = fates.index(b"unreadable") if b"unreadable" in fates else len(fates)
        error = None if end == len(fates) else error_of(LeaderUnknown("no leader"))
        for start in range(0, max(end, 1), self.batch):
            upto = min(start + self.batch, end)
            last = upto == end
            yield SliceBatch(
                piece, self._table(piece, start, upto), upto, last, error if last else None
            )

    def _table(self, piece, start, upto):
        lane = number_of(piece.lane.name)
        return records(self.lanes[lane][start:upto], partition=lane, first_offset=start)


@dataclass
class Letters:
    """Dead letters that are kept or lost, as is said of the first few calls."""

    lost: list
    letters: list = field(default_factory=list)

    def keep(self, letters):
        if self.lost and self.lost.pop(0):
            raise BrokerUnavailable("no broker")
        self.letters += letters

    def ready(self, _topic):
        return True


def one_by_one(table, context):
    for row, value in enumerate(table["value"].to_pylist()):
        complain(value, row, context)
    return table.select(["partition", "offset", "value"])


def kind_by_kind(table, context):
    values = table["value"].to_pylist()
    for kind in (b"bad", b"raises", b"down"):
        if kind in values:
            complain(kind, values.index(kind), context)
    return table.select(["partition", "offset", "value"])


async def each_awaited(record, context):
    complain(record["value"], 0, context)
    return {name: record[name] for name in ROWS.names}


def complain(value, row, context):
    if value == b"raises":
        raise ValueError("no")
    if value == b"bad":
        raise context.bad_record(row, "no")
    if value == b"down":
        raise SinkUnavailable("the CRM is down")


@dataclass
class Mix:
    """One run of a bin, and what it left."""

    lanes: dict
    guarantee: str = "at-least-once"
    exactly_once: str | None = None
    order: str = "lane"
    bad_record: str = "dead-letter"
    handler: object = one_by_one
    batch: int = 3
    budget_s: float = 60.0
    letters_lost: tuple = ()
    sinks: type = Places

    def run(self):
        self.positions, self.letters = Lanes(), Letters(list(self.letters_lost))
        self.sink = self.sinks(self.positions, self.exactly_once)
        made = use_case(
            topic="{tenant}.visits",
            sink=self.sink,
            name="keep",
            guarantee=self.guarantee,
            order=self.order,
            bad_record=self.bad_record,
            output=ROWS if self.handler is each_awaited else None,
        )(self.handler)
        work = Work(b"", (), Connections({}, ""), None, None, None)
        object.__setattr__(work, "load", lambda: made)
        slices = tuple(
            Slice(
                LaneId("keep", "acme", f"acme.visits[{lane}]"), "acme.visits", 0, len(fates), EPOCH
            )
            for lane, fates in self.lanes.items()
        )
        clients = WorkerClients(Fates(self.lanes, self.batch), self.positions, self.letters)
        self.receipts = run_bin(work, Bin(slices, 1.0), self.budget_s, clients=clients)
        return self

    @property
    def kept(self):
        return [
            (number_of(letter.slice.lane.name), letter.error.offset)
            for letter in self.letters.letters
        ]


def check(mix):
    done = Counter(mix.sink.written)
    assert all(count == 1 for count in done.values()), "an effect is there twice"
    assert all(count == 1 for count in Counter(mix.kept).values()), "a letter is there twice"
    assert not set(done) & set(mix.kept), "a dead letter has an effect as well"
    failed = any(receipt.error is not None for receipt in mix.receipts)
    for receipt in mix.receipts:
        check_lane(mix, receipt, set(done) | set(mix.kept), failed)


def check_lane(mix, receipt, done, failed):
    lane, fates = number_of(receipt.slice.lane.name), mix.lanes[number_of(receipt.slice.lane.name)]
    before = [(lane, offset) for offset in range(receipt.reached)]
    undone = [place for place in before if place not in done]
    told = receipt.reached if receipt.lost_from is None else receipt.lost_from
    if mix.guarantee == "at-most-once":
        assert receipt.error is not None or failed or not undone, "lost, and nobody is told"
        assert all(offset >= told for _, offset in undone), "lost before what is told as lost"
    else:
        assert not undone, "passed over, and nowhere"
        beyond = {place for place in mix.sink.written if place[0] == lane} - set(before)
        assert not beyond, "an effect beyond where the lane came to"
    if mix.budget_s > 0 and not (failed if mix.order == "stream" else receipt.error):
        assert receipt.reached == len(fates), "an error was swallowed"
    if receipt.error is not None and receipt.error.offset is not None:
        assert fates[receipt.error.offset] != FINE, "an innocent record is blamed"
    assert receipt.records == len([place for place in before[:told] if place in done])
    letters = [place for place in mix.kept if place in before]
    assert receipt.dead_letters == len(letters)
    own = {offset / 1000 for _, offset in before[:told]}
    assert set(receipt.timestamps_s) <= own
    assert bool(receipt.timestamps_s) == bool(receipt.records) == bool(receipt.bytes)


@pytest.mark.parametrize("other", [b"raises", b"down", b"sink-down", b"sink-raises", b"unreadable"])
def test_a_record_set_aside_does_not_hide_the_trouble_behind_it(other):
    fates = [FINE, b"refused", other, *[FINE] * 7]
    mix = Mix({0: fates}, batch=5).run()
    assert mix.receipts[0].reached <= 2
    assert mix.receipts[0].error is not None
    check(mix)


recipes = st.sampled_from(
    [
        ("at-most-once", None),
        ("at-least-once", None),
        ("exactly-once", "transaction"),
        ("exactly-once", "intent"),
    ]
)
fates = st.lists(
    st.one_of(st.just(FINE), st.just(FINE), st.sampled_from(FATES)), min_size=1, max_size=14
)


@settings(max_examples=400, deadline=None)
@given(
    lanes=st.lists(fates, min_size=1, max_size=3),
    recipe=recipes,
    order=st.sampled_from(["lane", "stream"]),
    bad_record=st.sampled_from(["dead-letter", "suspend"]),
    handler=st.sampled_from([one_by_one, kind_by_kind, each_awaited]),
    batch=st.integers(1, 6),
    budget_s=st.sampled_from([60.0, 60.0, 0.0]),
    letters_lost=st.lists(st.booleans(), max_size=4),
    sinks=st.sampled_from([Places, Looks]),
)
def test_no_mix_of_trouble_loses_a_record_or_swallows_an_error(lanes, recipe, **more):
    guarantee, exactly_once = recipe
    mix = Mix(dict(enumerate(lanes)), guarantee, exactly_once, **more)
    check(mix.run())
