"""Sinks, readers, positions and dead letters that raise where they are opened or closed."""

from dataclasses import dataclass

import pytest
from task_bench import ListSink, of_acme

from headrace.errors import SinkRefused
from headrace.model.waves import Bin
from headrace.ports import Connections
from headrace.process.crash_points import PlayedKill
from headrace.spark.jobs import WarmUp
from headrace.spark.task import Work, opened, run_bin
from headrace.store import SqlPositionsFactory
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader

RAISED = [OSError("no room"), SystemExit(3), KeyboardInterrupt(), BaseException("anything")]
GUARANTEES = ["at-most-once", "at-least-once"]


@dataclass
class Raising(ListSink):
    """Raises where it is opened, or closed."""

    at: str = "open"
    raised: BaseException | None = None

    def open(self, site):
        if self.at == "open":
            raise self.raised
        return super().open(site)

    def close(self):
        if self.at == "close":
            raise self.raised


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_a_sink_that_raises_anything_where_it_is_opened_stops_its_slices_and_not_the_job(
    bench, raised, guarantee
):
    receipts = bench.run(Raising(raised=raised), guarantee=guarantee)
    assert [(receipt.reached, receipt.committed) for receipt in receipts] == [(0, False)] * 2
    for receipt in receipts:
        assert (receipt.error.temporary, receipt.error.code) == (True, "SinkUnavailable")
        assert "the sink Raising of use case keep could not be opened" in receipt.error.message
        assert type(raised).__name__ in receipt.error.message
        assert "in open" in receipt.error.traceback
    assert bench.position("acme") == 0


def test_what_a_sink_says_in_words_of_ours_stays_as_it_is(bench):
    (receipt, _) = bench.run(Raising(raised=SinkRefused("never")))
    assert (receipt.error.code, receipt.error.message) == ("SinkRefused", "never")


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("raised", [*RAISED, SinkRefused("never")], ids=repr)
def test_what_was_written_counts_although_its_sink_raises_where_it_is_closed(
    bench, raised, guarantee
):
    sink = Raising(at="close", raised=raised)
    receipts = bench.run(sink, guarantee=guarantee)
    assert [receipt.reached for receipt in receipts] == [10, 10]
    assert [receipt.lost_from for receipt in receipts] == [None, None]
    assert len(of_acme(sink)) == 10
    for receipt in receipts:
        assert (receipt.error.temporary, receipt.error.code) == (True, "SinkUnavailable")
        assert "the sink Raising of use case keep could not be closed" in receipt.error.message


def test_an_error_from_before_is_not_hidden_by_that_of_closing(bench):
    sink = Raising(at="close", raised=OSError("no room"), down=True)
    assert [receipt.error.message for receipt in bench.run(sink)] == ["down", "down"]


def test_a_sink_that_returns_nothing_where_it_is_opened_stops_its_slices_alone(bench):
    """A forgotten ``return``."""
    sink = ListSink()
    sink.open = lambda _site: None
    assert all("NoneType" in receipt.error.message for receipt in bench.run(sink))


@pytest.mark.parametrize("at", ["open", "close"])
def test_a_kill_that_a_test_plays_is_no_error(bench, at):
    with pytest.raises(PlayedKill):
        bench.run(Raising(at=at, raised=PlayedKill()))


class NeverOpens:
    """A reader's, positions' or dead letters' factory."""

    def __init__(self, raised):
        self.raised = raised

    def open(self, _connections):
        raise self.raised


PARTS = {"reader": "BrokerUnavailable", "positions": "StoreUnavailable"}
PARTS["dead_letters"] = "BrokerUnavailable"


@pytest.mark.parametrize("raised", RAISED, ids=repr)
@pytest.mark.parametrize("part", PARTS)
def test_clients_that_raise_anything_where_they_are_opened_stop_their_slices(bench, part, raised):
    parts = {
        "reader": NumbersReader(),
        "positions": SqlPositionsFactory(),
        "dead_letters": MemoryDeadLetters(),
    }
    parts[part] = NeverOpens(raised)
    work = Work(b"", (), Connections(kafka={}, database_url=bench.url), **parts)
    object.__setattr__(work, "load", lambda: None)
    for receipt in run_bin(work, Bin(bench.slices(), 1.0), 60.0):
        assert (receipt.reached, receipt.error.code) == (0, PARTS[part])
        assert "NeverOpens could not be opened" in receipt.error.message
    (told,) = WarmUp(work, frozenset())(iter(()))
    assert "NeverOpens could not be opened" in told
    with pytest.raises(PlayedKill):
        opened(Work(b"", (), work.connections, **parts | {part: NeverOpens(PlayedKill())}))
