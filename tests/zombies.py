"""Attempts at the same recorded slices, at once and late, as a driver never makes so many.

The first that comes back is believed, as a driver believes it; the others live on as zombies. Some
are killed in the write, epochs are raised in between, and waves divided. In the end each record has
to have its row once, whatever the sink.
"""

import random
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace

from headrace.model.streams import LaneId, Slice
from headrace.process.crash_points import PlayedKill

MOST_SLICE = 4


class Store:
    """Positions with their epochs; slow at times, and some who ask die of the answer."""

    def __init__(self, lanes, chance):
        self.at = dict.fromkeys(lanes, (0, 1))
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


class Zombies:
    """A driver that starts too many attempts at each wave, and believes the first.

    ``write`` is given the name of a wave, its slices and the store, and says what became of each.
    """

    def __init__(self, write, seed, *, lanes):
        self.lanes = [LaneId("keep", f"t{number}", "t[0]") for number in range(lanes)]
        self.chance = random.Random(seed)
        self.store = Store(self.lanes, self.chance)
        self.outcomes = Counter()
        self._write = write

    @property
    def refused(self):
        """Attempts that came too late: overtaken, or told how far another one had come."""
        return self.outcomes[None, True, False] + self.outcomes[None, False, True]

    def until_over(self, waves):
        with ThreadPoolExecutor(64) as threads:
            for number in range(waves):
                pieces = [
                    Slice(lane, "t", offset, offset + self.chance.randint(1, MOST_SLICE), epoch)
                    for lane, (offset, epoch) in self.store.at.items()
                ]
                self._wave(threads, f"w-{number}", pieces)

    def _wave(self, threads, wave_id, pieces):
        while pieces:
            tries = [
                threads.submit(
                    self._attempt,
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

    def _attempt(self, wave_id, pieces, sleep_s):
        time.sleep(sleep_s)
        written = self._write(wave_id, pieces, self.store)
        for one in written:
            self.outcomes[(one.error and one.error.code, one.superseded, bool(one.reached))] += 1
        return [
            (piece, (one.reached or (piece.until_offset,))[0])
            for piece, one in zip(pieces, written, strict=True)
            if one.error is None and not one.superseded
        ]

    def wrong(self, found, *, least):
        """Records that have no row, or several, of what was found: rows by tenant and place."""
        due = {(lane.tenant, at) for lane in self.lanes for at in range(self.store.at[lane][0])}
        assert len(due) > least
        return [place for place in due | set(found) if (place in due, found[place]) != (True, 1)]
