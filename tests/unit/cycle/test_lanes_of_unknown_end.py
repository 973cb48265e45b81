"""A driver reads lanes whose log does not say where they end, on fakes alone."""

from dataclasses import replace

import pytest
from pyarrow.parquet import read_table

import driver_world
from headrace.cycle.first_places import NO_END
from headrace.cycle.lags import lags
from headrace.cycle.reruns import range_of
from headrace.cycle.seek_places import seek_target, stream_log
from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.deploying.needs import require_known_ends
from headrace.errors import ConfigError, SinkRefused, WorkerKilled
from headrace.model.places import OPEN, place_at
from headrace.model.receipts import Behind, SliceError
from headrace.model.records import Failure, Move
from headrace.model.restarts import Restart
from headrace.model.statistics import LagIs
from headrace.model.streams import StreamId, Throttle
from headrace.operating.quarantine import check_skip
from headrace.operating.seeking import seek
from headrace.policies.visits import SELDOM_S, SOON_S
from headrace.ports import RECORD_SCHEMA, SliceBatch, WaveResult, Written
from headrace.sinks import ParquetFiles
from headrace.spark.slice_errors import error_of
from headrace.testing.engine_fake import InProcessEngine

ACME = StreamId("keep", "acme")
GOES_ON = Behind(None)


@pytest.fixture
def hidden(world):
    """A world with a tenant whose one lane does not tell where it ends."""
    world.deploy()
    world.tenant("acme")
    world.log.hide_end("acme.visits", 0)
    return world


def test_what_is_there_and_what_comes_later_is_read(hidden):
    hidden.send("acme", 50)
    hidden.start()
    hidden.turns(20)
    assert hidden.positions() == {("acme", 0): 50}
    hidden.clock.move(60)
    hidden.turns(20)
    hidden.send("acme", 3)
    hidden.turns(20, seconds=SELDOM_S / 10)
    assert [offset for _, offset in hidden.seen] == list(range(53))


def test_slices_say_how_much_is_in_them_and_not_where_they_end(hidden):
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(3)
    piece = next(hidden.engine.started[0].slices)
    assert piece.until_offset == OPEN
    assert piece.records > 0
    assert piece.most_bytes > 0


def test_between_two_visits_a_driver_is_idle_and_rests(hidden):
    hidden.start()
    hidden.turns(20)
    assert hidden.driver.idle
    before = len(hidden.engine.started)
    hidden.turns(20, seconds=SELDOM_S / 20)
    assert 1 <= len(hidden.engine.started) - before <= 3


def test_an_answer_without_records_that_is_not_at_the_end_is_not_asked_as_fast_as_can_be(
    hidden, monkeypatch
):
    monkeypatch.setattr(driver_world, "MemoryReaderFactory", lambda _log: _Nothing())
    hidden.start()
    hidden.turns(20)
    before = len(hidden.engine.started)
    hidden.turns(100, seconds=SOON_S / 10)
    assert 8 <= len(hidden.engine.started) - before <= 11
    assert hidden.row("acme").lag_is is LagIs.UNKNOWN


def test_at_most_once_claims_what_was_read_and_nothing_where_nothing_was(hidden):
    hidden.use_cases = [hidden.make(guarantee="at-most-once")]
    hidden.deploy()
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(20)
    assert hidden.positions() == {("acme", 0): 5}


def test_an_empty_visit_leaves_no_recorded_wave_behind(hidden):
    hidden.use_cases = [hidden.make(guarantee="exactly-once")]
    hidden.deploy()
    hidden.start()
    hidden.turns(20)
    assert hidden.store.progress.pending_intents() == []
    hidden.send("acme", 5)
    hidden.turns(30)
    hidden.driver.drain()
    hidden.turns(2)
    assert hidden.positions() == {("acme", 0): 5}
    assert hidden.store.progress.pending_intents() == []


def test_a_recorded_slice_is_read_again_as_it_was_though_more_is_there_by_now(hidden):
    hidden.use_cases = [hidden.make(guarantee="exactly-once")]
    hidden.deploy()
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(1)
    hidden.driver.turn()
    hidden.engine.finished(0)  # read and written, and the driver dies
    hidden.send("acme", 4)
    hidden.start()
    hidden.turns(30)
    files = [read_table(path) for path in (hidden.folder / "out").rglob("*.parquet")]
    written = sorted(table["offset"].to_pylist() for table in files)
    assert hidden.positions() == {("acme", 0): 9}
    assert written == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_lag_is_told_as_a_guess_and_never_as_a_number_of_the_log(hidden):
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(1)
    assert hidden.row("acme").lag_is is LagIs.UNKNOWN
    hidden.turns(20)
    row = hidden.row("acme")
    assert row.lag_is.told(row.lag_records) == "about 0"
    (lag,) = lags(hidden.store, hidden.log)
    assert lag.lag_records is None
    assert lag.untold == ["acme.visits[0]"]


def test_a_seek_to_the_end_and_a_rerun_are_refused_and_a_time_and_a_place_are_not(hidden):
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(20)
    of = stream_log(hidden.store.registry, hidden.log, ACME)
    for text in ("latest", '{"acme.visits": {"0": -1}}', "2100-01-01T00:00:00+00:00"):
        with pytest.raises(ConfigError, match="only reading tells where acme"):
            seek_target(hidden.log, of, text)
    with pytest.raises(ConfigError, match="cannot be read once more"):
        range_of(hidden.store, hidden.log, ACME, "earliest", None)
    assert seek_target(hidden.log, of, "2") == {"acme.visits[0]": place_at(2)}
    assert seek_target(hidden.log, of, "1970-01-01T00:00:00+00:00") == {"acme.visits[0]": 0}


def test_a_stream_that_is_to_begin_at_the_end_says_why_it_waits(hidden):
    hidden.deploy(starting_offsets="latest")
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(5)
    assert hidden.positions() == {}
    assert hidden.row("acme").note == NO_END


@pytest.mark.parametrize(
    ("options", "deployed", "told"),
    [
        ({"order": "stream"}, {}, "order stream"),
        ({"order": "key"}, {}, "order key .* order lane, which keeps that of each key"),
        ({"order": "none", "buckets": 4}, {}, "order none with buckets"),
        ({}, {"restart": Restart(60.0)}, "restart latest"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name_where_ends_are_not_told(
    hidden, options, deployed, told
):
    use_case = hidden.make(**options)
    (deployment,) = hidden.store.registry.deployments()
    deployment = replace(deployment, **deployed)
    with pytest.raises(ConfigError, match=told):
        require_known_ends(use_case, deployment, hidden.log)
    hidden.log.tells_ends = True
    require_known_ends(use_case, deployment, hidden.log)


def test_merged_lanes_that_do_not_tell_their_ends_are_not_read_and_it_says_why(hidden):
    hidden.use_cases = [hidden.make(order="stream")]
    hidden.deploy()
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(10)
    assert hidden.seen == []
    assert "deploy the use case with order lane" in hidden.row("acme").note


def test_a_single_record_that_a_handler_gives_up_can_be_skipped(hidden):
    def stuck(table, context):
        if 2 in table["offset"].to_pylist():
            raise ValueError("the handler cannot take this one")
        return table.select(["offset"])

    hidden.use_cases = [hidden.make(stuck)]
    hidden.deploy()
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(400, seconds=1.0)
    (failure,) = hidden.store.failures.every()
    check_skip(hidden.store, failure, whole_slice=True)
    hidden.store.failures.skip(failure.id)
    assert hidden.positions() == {("acme", 0): 3}


def test_a_slice_of_which_nobody_knows_the_end_cannot_be_skipped(hidden):
    hidden.start()
    hidden.turns(3)
    (failure,) = _open_failure(hidden)
    with pytest.raises(ConfigError, match="only reading tells where"):
        check_skip(hidden.store, failure, whole_slice=True)
    with pytest.raises(ConfigError):
        hidden.store.failures.skip(failure.id)
    assert hidden.positions() == {("acme", 0): 0}


def test_a_single_record_that_nobody_came_to_read_can_be_skipped(hidden, monkeypatch):
    hidden.send("acme", 5)
    hidden.start()
    monkeypatch.setattr(InProcessEngine, "_run", _lost_with_its_worker)
    hidden.turns(400, seconds=1.0)
    (failure,) = hidden.store.failures.every()
    assert (failure.error.offset, str(failure.slice)) == (None, "acme.visits[0] 0..1")
    check_skip(hidden.store, failure, whole_slice=True)
    hidden.store.failures.skip(failure.id)
    assert hidden.positions() == {("acme", 0): 1}


def test_where_a_single_record_was_claimed_none_is_left_to_skip(hidden):
    class Full(ParquetFiles):
        def open(self, _site):
            return self

        def write(self, effects):
            return [Written(error=error_of(SinkRefused("full")))] * len(effects)

        def close(self):
            pass

    hidden.use_cases = [hidden.make(guarantee="at-most-once", sink=Full("out"))]
    hidden.deploy()
    hidden.send("acme", 1)
    hidden.store.registry.set_throttle("acme", Throttle(records_per_s=1.0))
    hidden.start()
    hidden.turns(10)
    (failure,) = hidden.store.failures.every(only_open=True)
    assert (failure.error.offset, failure.slice.is_open) == (None, False)
    check_skip(hidden.store, failure, whole_slice=True)
    hidden.store.failures.skip(failure.id)
    assert hidden.positions() == {("acme", 0): 1}


def test_where_nobody_can_count_to_the_next_record_it_cannot(hidden, monkeypatch):
    hidden.send("acme", 5)
    hidden.start()
    monkeypatch.setattr(InProcessEngine, "_run", _lost_with_its_worker)
    hidden.turns(2)
    held = hidden.driver.board.streams[ACME]
    held.measures = replace(held.measures, after=lambda place, records: OPEN)
    hidden.turns(400, seconds=1.0)
    (failure,) = hidden.store.failures.every()
    with pytest.raises(ConfigError, match="only reading tells where"):
        check_skip(hidden.store, failure, whole_slice=True)


def test_the_next_visit_is_given_the_note_of_the_last_one(hidden, monkeypatch):
    noting = _Nothing(Behind(0.0, note="here"))
    monkeypatch.setattr(driver_world, "MemoryReaderFactory", lambda _log: noting)
    hidden.start()
    hidden.turns(20)
    notes = [piece.note for wave in hidden.engine.started for piece in wave.slices]
    assert notes[-1] == "here"
    assert notes[0] == ""


def test_a_visit_that_failed_was_a_turn_too(hidden, monkeypatch):
    """The lane that is due longest goes first, which was always the one that made trouble."""
    failed = SliceError(temporary=True, code="Temporary", message="not now")
    monkeypatch.setattr(driver_world, "MemoryReaderFactory", lambda _log: _Nothing(None, failed))
    hidden.start()
    hidden.turns(20)
    (lane,) = hidden.driver.board.streams[ACME].lanes.values()
    assert lane.tries
    assert lane.visits.due_s > 0


class _Nothing:
    """Reads nothing, and does not come to the end, if it does not say so."""

    def __init__(self, behind=GOES_ON, error=None):
        self.behind, self.error = behind, error

    def open(self, _connections):
        return self

    def read(self, slices, _batch_records):
        for piece in slices:
            nothing = RECORD_SCHEMA.empty_table()
            end = {"error": self.error, "behind": self.behind}
            yield SliceBatch(piece, nothing, piece.from_offset, last=True, **end)

    def close(self):
        pass


def _lost_with_its_worker(_engine, wave):
    """Nobody came to read a record, and nobody knows at which one."""
    return WaveResult(wave, (), 0.0, error_of(WorkerKilled(f"wave {wave.id} lost its worker")))


def test_a_lane_that_is_done_and_not_listed_any_more_is_not_visited(hidden):
    hidden.start()
    hidden.engine.paused = True
    hidden.turns(2)  # its visit is planned, and does not come to it any more
    hidden.log.split("acme.visits", 0)
    hidden.clock.move(TOPICS_EVERY_S + 2)
    hidden.turns(2)
    hidden.log.drop_lane("acme.visits", 0)
    hidden.engine.paused = False
    hidden.turns(40, seconds=1.0)
    before = len(hidden.engine.started)
    hidden.turns(10, seconds=1.0)
    lanes = {piece.lane.name for wave in hidden.engine.started[before:] for piece in wave.slices}
    assert lanes == {"acme.visits[1]", "acme.visits[2]"}
    assert hidden.row("acme").state == "active"


def test_a_lane_that_is_done_is_not_visited_in_another_life(hidden):
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(20)
    first, _ = hidden.log.split("acme.visits", 0)
    hidden.turns(40, seconds=1.0)
    hidden.send("acme", 2, first)
    hidden.start()
    hidden.turns(20, seconds=1.0)
    lanes = {piece.lane.name for wave in hidden.engine.started for piece in wave.slices}
    assert lanes == {"acme.visits[1]", "acme.visits[2]"}
    assert hidden.positions()["acme", first] == 2


def test_one_that_is_done_and_sought_back_is(hidden):
    hidden.send("acme", 5)
    hidden.start()
    hidden.turns(20)
    hidden.log.split("acme.visits", 0)
    hidden.turns(40, seconds=1.0)
    hidden.start()
    hidden.turns(10, seconds=1.0)
    seek(hidden.store, hidden.log, ACME, "earliest")
    hidden.turns(20, seconds=1.0)
    assert hidden.positions()["acme", 0] == 5
    assert [offset for _, offset in hidden.seen] == [0, 1, 2, 3, 4] * 2


def test_what_is_recorded_of_a_lane_that_is_done_and_not_listed_any_more_is_over(hidden):
    hidden.use_cases = [hidden.make(guarantee="exactly-once")]
    hidden.deploy()
    first, _ = hidden.log.split("acme.visits", 0)
    hidden.start()
    hidden.driver.turn()  # its visit is written down, and the driver dies
    hidden.log.drop_lane("acme.visits", 0)
    hidden.send("acme", 2, first)
    hidden.start()
    hidden.turns(40, seconds=1.0)
    assert hidden.positions()["acme", first] == 2
    waves = hidden.store.progress.pending_intents()
    lanes = {piece.lane.name for wave in waves for piece in wave.slices}
    assert "acme.visits[0]" not in lanes
    assert hidden.row("acme").state == "active"
    assert hidden.store.failures.every() == []


def _open_failure(world):
    piece = next(world.engine.started[0].slices)
    world.store.failures.keep([Failure(piece, SliceError(False, "HandlerHung", "hangs"), 1.0)])[0]
    return world.store.failures.every(only_open=True)


def test_what_an_attempt_passed_that_died_counts_as_used(hidden):
    hidden.use_cases = [hidden.make(guarantee="at-most-once")]
    hidden.deploy()
    hidden.send("acme", 40)
    hidden.store.registry.set_throttle("acme", Throttle(records_per_s=0.001, burst_s=5000.0))
    hidden.start()
    hidden.engine.paused = True
    hidden.turns(2)
    (wave,) = hidden.engine.started
    (piece,) = wave.slices
    first = Move(piece.lane, piece.from_offset, place_at(3), piece.epoch)
    assert hidden.store.positions.advance([first]) == [True]
    hidden.engine.paused = False
    hidden.turns(400)
    # The burst is of five records: those that the slice paid for are not given back.
    assert piece.records == 5
    assert hidden.positions() == {("acme", 0): 3}
