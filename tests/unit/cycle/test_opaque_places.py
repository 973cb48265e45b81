"""A driver, its store and its tasks run on places that let nobody but their log count with them."""

import pytest

from headrace.model import places
from headrace.model.streams import StreamId
from headrace.operating.seeking import seek
from headrace.testing import log_fake, wide_log
from headrace.testing.wide_log import WideLog, wide

ACME = StreamId("keep", "acme")
COUNTS = ("add", "sub", "mul", "floordiv", "truediv", "mod", "lshift", "rshift", "divmod", "pow")


class Opaque(int):
    """A place that only compares, is written and is passed on."""


def _refused(*_given):
    raise AssertionError("somebody counts with a place")


for name in COUNTS:
    setattr(Opaque, f"__{name}__", _refused)
    setattr(Opaque, f"__r{name}__", _refused)
for name in ("neg", "abs", "round"):
    setattr(Opaque, f"__{name}__", _refused)


@pytest.fixture
def opaque(world, monkeypatch):
    """A world in which whatever is a place is opaque: of the log, and out of the store."""
    monkeypatch.setattr(places, "place_at", Opaque)
    for log in (log_fake, wide_log):
        monkeypatch.setattr(log, "place_at", Opaque)
        monkeypatch.setattr(log, "number_at", int)
    world.log = WideLog()
    return world


@pytest.mark.parametrize("order", ["lane", "stream"])
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once", "exactly-once"])
def test_nobody_counts_with_places_whatever_happens(opaque, guarantee, order):
    world = opaque
    world.use_cases = [world.make(guarantee=guarantee, order=order, bad_record="dead-letter")]
    world.deploy(retries=1)
    world.tenant("acme", 5, partitions=2)
    world.start()
    world.turns(10)
    world.send("acme", 3)
    world.killed_after_writing()
    world.start()
    world.turns(10)
    seek(world.store, world.log, ACME, "earliest")
    world.turns(20, seconds=1.0)
    first, _ = world.log.split("acme.visits", 0)
    world.send("acme", 2, first)
    world.turns(80, seconds=1.0)
    assert world.positions()["acme", 0] == wide(8)
    assert world.positions()["acme", first] == wide(2)
    held = world.driver.board.streams[ACME]
    assert {type(lane.position) for lane in held.lanes.values()} == {Opaque}
    assert held.lag_records == 0


def test_lanes_that_tell_no_end_are_read_and_failures_decided_without_counting(opaque):
    world = opaque

    def picky(table, context):
        if b"bad" in table["value"].to_pylist():
            raise ValueError("the handler cannot take this one")
        return table.select(["offset"])

    world.use_cases = [world.make(picky)]
    world.deploy(retries=1)
    world.tenant("acme")
    world.log.hide_end("acme.visits", 0)
    world.send("acme", 5)
    world.log.append("acme.visits", 0, [log_fake.Row(b"bad")])
    world.send("acme", 2)
    world.start()
    world.turns(100, seconds=1.0)
    (failure,) = world.store.failures.every(only_open=True)
    world.store.failures.skip(failure.id)
    world.turns(40, seconds=1.0)
    assert world.positions() == {("acme", 0): wide(8)}
    assert type(world.driver.board.streams[ACME].lanes["acme.visits[0]"].position) is Opaque


def test_one_who_counts_is_found(opaque):
    with pytest.raises(AssertionError, match="counts with a place"):
        wide(3) - wide(2)
