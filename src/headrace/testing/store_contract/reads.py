"""What every store must do about what was read of open slices, as tests; for ``Positions``.

All attempts at a slice whose end only reading tells are to read the same, whoever makes them and
in whichever order they come.
"""

# The names of the tests are the promises.
# ruff: noqa: D102

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.model.places import FIRST, OPEN, place_at
from headrace.model.records import LaneStart, Move, ReadRange
from headrace.model.streams import LaneId, Slice, State
from headrace.model.waves import Bin, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import ACME, by_lane, lane, started

#: as wide as the places of logs are
_WIDE = place_at(49590338271490256608559692538361571095921575989136588898)


def _piece(epoch: int, begin: int = 0, of: LaneId | None = None) -> Slice:
    """An open slice."""
    where = of or lane(0)
    topic = f"{where.tenant}.visits"
    return Slice(where, topic, place_at(begin), OPEN, epoch, more=True, records=9, most_bytes=5)


def _read(epoch: int, until: int = 7, begin: int = 0, number: int = 0) -> ReadRange:
    return ReadRange(lane(number), place_at(begin), place_at(until), epoch, until - begin)


def _recorded(store: Store, piece: Slice) -> Wave:
    wave = Wave("w1", "score", (Bin((piece,), 1.0),), 1.0)
    store.progress.record_intent(wave)
    return wave


class TestReads:
    """The promises of what was read."""

    def test_what_was_read_first_is_what_everybody_is_told(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0)
        assert store.positions.reads_of([_piece(epoch)]) == [None]
        first = _read(epoch, 7)
        assert store.positions.record_reads([first]) == [first]
        assert store.positions.record_reads([_read(epoch, 9)]) == [first]
        again = open_again()
        assert again.positions.reads_of([_piece(epoch)]) == [first]
        again.close()

    def test_a_later_holder_is_told_what_an_earlier_one_read(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        later = store.membership.hold([ACME])[ACME]
        assert store.positions.reads_of([_piece(later)]) == [_read(later, 7)]
        assert store.positions.record_reads([_read(later, 9)]) == [_read(later, 7)]

    def test_who_lost_the_lane_writes_nothing_down(self, store: Store) -> None:
        old = started(store, 0)
        epoch = store.membership.hold([ACME])[ACME]
        assert store.positions.record_reads([_read(old, 7)]) == [None]
        assert store.positions.reads_of([_piece(epoch)]) == [None]

    def test_where_the_lane_is_not_any_more_nothing_is_written_down(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.positions.advance([Move(lane(0), FIRST, place_at(7), epoch)])
        assert store.positions.record_reads([_read(epoch, 7)]) == [None]
        assert store.positions.record_reads([_read(epoch, 9, 7)]) == [_read(epoch, 9, 7)]
        assert store.positions.reads_of([_piece(epoch, 7)]) == [_read(epoch, 9, 7)]
        assert store.positions.reads_of([_piece(epoch, 0)]) == [None]

    def test_each_of_many_is_answered_in_order(self, store: Store) -> None:
        epoch = started(store, *([0] * 700))
        reads = [_read(epoch, 7 + n, n % 2, n) for n in range(699, -1, -1)]
        told = store.positions.record_reads(reads)
        assert told == [read if read.from_offset == FIRST else None for read in reads]
        pieces = [_piece(epoch, 0, lane(n)) for n in range(700)]
        known = {read.lane: read for read in told if read is not None}
        assert store.positions.reads_of(pieces) == [known.get(piece.lane) for piece in pieces]
        assert store.positions.reads_of([]) == []
        assert store.positions.record_reads([]) == []

    def test_places_of_any_width_come_back(self, store: Store) -> None:
        epoch = started(store, 0)
        store.progress.seek(ACME, {lane(0).name: _WIDE})
        until = place_at(10**56 - 1)
        read = ReadRange(lane(0), _WIDE, until, epoch + 1, 3)
        assert store.positions.record_reads([read]) == [read]
        piece = replace(_piece(epoch + 1), from_offset=_WIDE)
        assert store.positions.reads_of([piece]) == [read]

    def test_of_several_who_read_at_once_one_is_believed(
        self, store: Store, open_again: Callable[[], Store]
    ) -> None:
        epoch = started(store, 0)
        told: list[ReadRange | None] = []

        def read(until: int) -> None:
            mine = open_again()
            told.extend(mine.positions.record_reads([_read(epoch, until)]))
            mine.close()

        threads = [threading.Thread(target=read, args=(until,)) for until in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) == 8
        assert len(set(told)) == 1

    def test_a_slice_that_came_to_nothing_may_be_read_otherwise(self, store: Store) -> None:
        epoch = started(store, 0)
        piece = _piece(epoch)
        _recorded(store, piece)
        store.positions.record_reads([_read(epoch, 7)])
        store.progress.finish_intent("w1", [], over=[piece])
        assert store.progress.pending_intents() == []
        assert store.positions.reads_of([piece]) == [None]
        assert store.positions.record_reads([_read(epoch, 3)]) == [_read(epoch, 3)]

    def test_who_lost_the_lane_forgets_nothing(self, store: Store) -> None:
        old = started(store, 0)
        wave = _recorded(store, _piece(old))
        store.positions.record_reads([_read(old, 7)])
        epoch = store.membership.hold([ACME])[ACME]
        assert store.progress.finish_intent("w1", [], over=[_piece(old)]).left == [wave]
        assert store.positions.reads_of([_piece(epoch)]) == [_read(epoch, 7)]

    def test_that_nothing_was_there_forgets_the_slice_and_not_what_another_found(
        self, store: Store
    ) -> None:
        epoch = started(store, 0)
        piece = _piece(epoch)
        _recorded(store, piece)
        store.positions.record_reads([_read(epoch, 7)])
        assert store.progress.finish_intent("w1", [], nothing=[piece]).left == []
        assert store.progress.pending_intents() == []
        assert store.positions.reads_of([piece]) == [_read(epoch, 7)]

    def test_a_recorded_open_slice_comes_back_equal(self, store: Store) -> None:
        wave = _recorded(store, _piece(started(store, 0)))
        assert store.progress.pending_intents() == [wave]

    def test_a_seek_to_the_same_place_leaves_what_was_read(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.progress.seek(ACME, by_lane({0: 0}), "id-1")
        assert store.positions.reads_of([_piece(epoch + 1)]) == [_read(epoch + 1, 7)]

    def test_a_seek_elsewhere_forgets_what_was_read(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.progress.seek(ACME, by_lane({0: 3}), "id-1")
        store.progress.seek(ACME, by_lane({0: 0}), "id-1")
        assert store.positions.reads_of([_piece(epoch + 2)]) == [None]

    @pytest.mark.parametrize("way", ["seek", "skip"])
    def test_a_lane_that_moved_on_and_is_sent_back_reads_anew(self, store: Store, way: str) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.positions.advance([Move(lane(0), FIRST, place_at(7), epoch)])
        if way == "seek":
            store.progress.seek(ACME, by_lane({0: 0}), "id-1")
        else:
            back = Move(lane(0), place_at(7), FIRST, epoch)
            assert store.progress.skip_lost(ACME, [back], [], "id-1") == epoch + 1
        assert store.positions.reads_of([_piece(epoch + 1)]) == [None]
        assert store.positions.record_reads([_read(epoch + 1, 3)]) == [_read(epoch + 1, 3)]

    def test_of_another_topic_nothing_was_read(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.progress.seek(ACME, by_lane({0: 0}), "id-2")
        assert store.positions.reads_of([_piece(epoch + 1)]) == [None]

    def test_of_a_stream_that_begins_anew_nothing_was_read(self, store: Store) -> None:
        epoch = started(store, 0)
        store.positions.record_reads([_read(epoch, 7)])
        store.registry.set_stream_state(ACME, State.REMOVED)
        store.registry.add_stream(ACME)
        store.progress.start_lanes([LaneStart(ACME, "id-1", by_lane({0: 0}))])
        assert store.positions.reads_of([_piece(epoch)]) == [None]

    def test_of_a_lane_that_is_forgotten_nothing_was_read(self, store: Store) -> None:
        epoch = started(store, 0, 0)
        store.positions.record_reads([_read(epoch, 7)])
        assert store.progress.forget_lanes(ACME, [lane(0).name], epoch)
        assert store.positions.reads_of([_piece(epoch)]) == [None]
