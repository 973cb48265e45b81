"""Any number of attempts at the same recorded slices, at once and late, in a database elsewhere.

The first that comes back is believed, as a driver believes it; the others live on as zombies. Some
are killed in the write, epochs are raised in between, and waves divided. In the end each record has
its row once.
"""

import random
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.process.crash_points import PlayedKill
from headrace.sinks import SqlTable

SEEN = SqlTable("seen", {"tenant": "text", "place": "bigint"}, at="history")
LANES = [LaneId("keep", f"t{number}", 0) for number in range(6)]
WAVES = 25
MOST_SLICE = 4


class Store:
    """Positions with their epochs; slow at times, and some who ask die of the answer."""

    def __init__(self, chance):
        self.at = dict.fromkeys(LANES, (0, 1))
        self._chance = chance
        self._lock = threading.Lock()

    def advance(self, moves):
        time.sleep(self._chance.choice([0, 0, 0.01, 0.2]))
        with self._lock:
            answers = [self.at[move.lane] == (move.from_offset, move.epoch) for move in moves]
        time.sleep(self._chance.choice([0, 0, 0.02]))
        if self._chance.random() < 0.1:
            raise PlayedKill
        return answers

    def moved(self, piece, reached):
        with self._lock:
            if self.at[piece.lane] == (piece.from_offset, piece.epoch):
                self.at[piece.lane] = (reached, piece.epoch)

    def taken_over(self):
        with self._lock:
            self.at = {lane: (offset, epoch + 1) for lane, (offset, epoch) in self.at.items()}


def effect_of(piece):
    places = list(range(piece.from_offset, piece.until_offset))
    table = pa.table({"tenant": [piece.lane.tenant] * len(places), "place": places})
    return Effect((piece,), (piece.until_offset,), table)


class Run:
    """A driver that starts too many attempts, and believes the first."""

    def __init__(self, url, seed, *, fenced):
        self.chance = random.Random(seed)
        self.store = Store(self.chance)
        servers = {"history": Server(url)}
        self.connections = Connections({}, "sqlite:////nowhere/store.db", servers=servers)
        self.fence = "run-0" if fenced else ""
        self.outcomes = Counter()
        SEEN.prepare(self.site("w"))

    def site(self, wave_id):
        return Site(self.connections, self.store, wave_id, self.fence)

    def attempt(self, wave_id, pieces, sleep_s):
        time.sleep(sleep_s)
        written = SEEN.open(self.site(wave_id)).write([effect_of(piece) for piece in pieces])
        for one in written:
            self.outcomes[(one.error and one.error.code, one.superseded, bool(one.reached))] += 1
        return [
            (piece, (one.reached or (piece.until_offset,))[0])
            for piece, one in zip(pieces, written, strict=True)
            if one.error is None and not one.superseded
        ]

    def until_over(self):
        with ThreadPoolExecutor(64) as threads:
            for number in range(WAVES):
                pieces = [
                    Slice(lane, "t", offset, offset + self.chance.randint(1, MOST_SLICE), epoch)
                    for lane, (offset, epoch) in self.store.at.items()
                ]
                self.wave(threads, f"w-{number}", pieces)

    def wave(self, threads, wave_id, pieces):
        while pieces:
            tries = [
                threads.submit(
                    self.attempt,
                    wave_id,
                    self.chance.sample(pieces, len(pieces)),
                    self.chance.choice([0, 0, 0.02, 0.5]),
                )
                for _ in range(self.chance.choice([1, 1, 2, 3]))
            ]
            done, _ = wait(tries, 60, FIRST_COMPLETED)
            first = next(iter(done))
            for piece, reached in first.result() if first.exception() is None else ():
                self.store.moved(piece, reached)
            if self.chance.random() < 0.2:
                self.store.taken_over()
            left = [
                replace(piece, epoch=self.store.at[piece.lane][1])
                for piece in pieces
                if self.store.at[piece.lane][0] == piece.from_offset
            ]
            if len(left) < len(pieces):
                wave_id += ".left"
            pieces = left

    def wrong(self, url):
        """Records that have no row, or several."""
        engine = create_engine(url)
        with engine.connect() as connection:
            found = Counter(map(tuple, connection.execute(text("SELECT tenant, place FROM seen"))))
        engine.dispose()
        due = {(lane.tenant, at) for lane in LANES for at in range(self.store.at[lane][0])}
        assert len(due) > 100
        return [place for place in due | set(found) if (place in due, found[place]) != (True, 1)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    return request.getfixturevalue("empty_postgres")


@pytest.mark.parametrize("seed", [1, 2])
def test_each_record_has_its_row_once_whoever_wakes_up_when(url, seed):
    run = Run(url, seed, fenced=True)
    run.until_over()
    assert run.wrong(url) == []
    zombies = run.outcomes[None, True, False] + run.outcomes[None, False, True]
    assert zombies > 10, run.outcomes


def test_without_notes_this_test_would_tell(url):
    run = Run(url, 3, fenced=False)
    run.until_over()
    assert run.wrong(url)
