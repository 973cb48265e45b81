"""A log that can not count its records is read as any other, and nobody is told of a number."""

import pytest
from uncounted import UNCOUNTED

from headrace.cli import asking
from headrace.errors import HandlerHung
from headrace.model.streams import StreamId
from headrace.operating.again import consequences, is_more
from headrace.operating.seeking import planned
from headrace.testing.wide_log import WideLog, wide

ACME = StreamId("keep", "acme")
LANE = "acme.visits[0]"
BAD = 30


class Uncounted(WideLog):
    """Where a record is tells nothing of how many are before it, or after."""

    @property
    def places(self):
        return UNCOUNTED


@pytest.fixture
def uncounted(world):
    world.log = Uncounted()
    world.tenant("acme")
    world.log.hide_end("acme.visits", 0)
    return world


class Handler:
    """Calls one record bad, and hangs at many that come before it if they are a slice of their own.

    As is done with what has to be whole, which is cut short before a bad record.
    """

    def __init__(self, world, *, hangs=False):
        self.world, self.hangs, self.calls = world, hangs, []

    def __call__(self, table, context):
        offsets = table["offset"].to_pylist()
        self.calls.append(offsets)
        if BAD in offsets:
            raise context.bad_record(offsets.index(BAD), "bad")
        if self.hangs and len(offsets) > 4 and not all(piece.is_open for piece in self.pieces):
            raise HandlerHung("hangs")
        return table.select(["offset"])

    @property
    def pieces(self):
        return [piece for wave in self.world.engine.started for piece in wave.slices]


def read_until_it_stops(world, *, hangs=False):
    """The slices that were read, of which the first that is not open ends before the bad one."""
    handler = Handler(world, hangs=hangs)
    world.use_cases = [world.make(handler, guarantee="exactly-once")]
    world.deploy()
    world.send("acme", 40)
    world.start()
    world.turns(200, 1.0)
    (failure,) = world.store.failures.every()
    assert failure.error.code == "BadRecord"
    assert world.positions() == {("acme", 0): wide(BAD)}
    return handler.pieces


def test_what_comes_before_a_bad_record_says_no_fewer_records_than_there_are(uncounted):
    pieces = read_until_it_stops(uncounted)
    before = next(piece for piece in pieces if not piece.is_open)
    assert before.until_offset == wide(BAD)
    assert before.records >= BAD - before.ordinal


def test_what_comes_before_it_is_narrowed_when_that_hangs(uncounted):
    pieces = read_until_it_stops(uncounted, hangs=True)
    whole = next(piece for piece in pieces if not piece.is_open)
    parts = [piece for piece in pieces if piece.ordinal == whole.ordinal and piece.is_open]
    assert parts[-1].records < whole.records // 8


def test_a_seek_says_that_nobody_knows_how_much_it_is(uncounted):
    uncounted.deploy()
    uncounted.send("acme", 5)
    uncounted.start()
    uncounted.turns(20)
    back = planned(uncounted.store, uncounted.log, ACME, "earliest")
    assert (back.again, back.passed) == (None, 0)
    assert "effects of records that nobody can count" in consequences([back])[0]
    assert "nobody knows how many offsets read again" in asking._told(*back.shifts.values())
    stays = planned(uncounted.store, uncounted.log, ACME, {LANE: uncounted.positions()["acme", 0]})
    assert not stays.does_something
    assert is_more(back, stays)
    assert not is_more(back, back)
