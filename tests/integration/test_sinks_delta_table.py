"""A Delta table beside processes that are killed, writers that race, and a disk that is full."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import delta_app
import pytest
from deltalake import DeltaTable as Library

from headrace.connectors.delta.upkeep import Upkeep
from headrace.model.streams import LaneId, Slice
from headrace.process.crash_points import PlayedKill

APP = Path(delta_app.__file__)
STEPS = ("files-half-written", "files-written", "committed", "told")


def found(folder):
    table = Library(str(folder / "visits")).to_pyarrow_table(columns=["tenant", "value"])
    return Counter(zip(table["tenant"].to_pylist(), table["value"].to_pylist(), strict=True))


@pytest.fixture
def prepared(tmp_path):
    delta_app.SINK.prepare(delta_app.site(tmp_path, "w"))
    return tmp_path


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_is_killed_in_the_write_leaves_each_row_once(prepared, tmp_path, step):
    mark = tmp_path / "stopped"
    with subprocess.Popen([sys.executable, APP, tmp_path, "killed", step, mark]) as writing:
        deadline = time.monotonic() + 60
        while not mark.exists():
            assert writing.poll() is None
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)
        writing.kill()
    there = step in ("committed", "told")
    assert bool(found(tmp_path)) == there
    opened = delta_app.SINK.open(delta_app.site(tmp_path, "w"))
    outcomes = opened.write(delta_app.wave())
    assert [outcome.reached for outcome in outcomes] == [(100,) if there else None] * 2
    every = {(tenant, value) for tenant in ("acme", "bolt") for value in range(100)}
    assert found(tmp_path) == Counter(every)


def test_processes_that_write_at_once_leave_every_row_once_also_beside_a_merge(prepared, tmp_path):
    tenants = ("acme", "bolt", "corp")
    writing = [
        subprocess.Popen([sys.executable, APP, tmp_path, "many", name], stdout=subprocess.PIPE)
        for name in tenants
    ]
    upkeep = Upkeep(tmp_path, "visits")
    merged = 0
    while any(one.poll() is None for one in writing):
        merged += sum(upkeep.merge(crowd).before for crowd in upkeep.crowds())
        threading.Event().wait(0.2)
    for one in writing:
        assert json.loads(one.communicate()[0]) == [None] * 40
    assert merged > 10
    every = {(tenant, value) for tenant in tenants for value in range(200)}
    assert found(tmp_path) == Counter(every)


LANES = [LaneId("keep", f"t{number}", "t[0]") for number in range(5)]


class Store:
    """Positions with their epochs; slow at times, and some who ask die of the answer."""

    def __init__(self, chance):
        self.at = dict.fromkeys(LANES, (0, 1))
        self._chance = chance
        self._lock = threading.Lock()

    def advance(self, moves):
        threading.Event().wait(self._chance.choice([0, 0, 0.01, 0.1]))
        with self._lock:
            answers = [self.at[move.lane] == (move.from_offset, move.epoch) for move in moves]
        threading.Event().wait(self._chance.choice([0, 0, 0.02]))
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


class Run:
    """A driver that starts too many attempts at each wave, and believes the first."""

    def __init__(self, folder, seed, *, fenced):
        self.chance = random.Random(seed)
        self.store = Store(self.chance)
        self.folder, self.fence = folder, "fence" if fenced else ""
        self.outcomes = Counter()

    def attempt(self, wave_id, pieces, sleep_s):
        threading.Event().wait(sleep_s)
        there = replace(
            delta_app.site(self.folder, wave_id), positions=self.store, fence=self.fence
        )
        effects = [
            delta_app.effect(
                piece.lane.tenant, piece.from_offset, piece.until_offset - piece.from_offset
            )
            for piece in pieces
        ]
        effects = [replace(e, slices=(p,)) for e, p in zip(effects, pieces, strict=True)]
        written = delta_app.SINK.open(there).write(effects)
        for one in written:
            self.outcomes[(one.error and one.error.code, one.superseded, bool(one.reached))] += 1
        return [
            (piece, (one.reached or (piece.until_offset,))[0])
            for piece, one in zip(pieces, written, strict=True)
            if one.error is None and not one.superseded
        ]

    def until_over(self, waves=15):
        with ThreadPoolExecutor(64) as threads:
            for number in range(waves):
                self.wave(
                    threads,
                    f"w-{number}",
                    [
                        Slice(lane, "t", offset, offset + self.chance.randint(1, 4), epoch)
                        for lane, (offset, epoch) in self.store.at.items()
                    ],
                )

    def wave(self, threads, wave_id, pieces):
        while pieces:
            tries = [
                threads.submit(
                    self.attempt,
                    wave_id,
                    self.chance.sample(pieces, len(pieces)),
                    self.chance.choice([0, 0, 0.02, 0.3]),
                )
                for _ in range(self.chance.choice([1, 2, 3]))
            ]
            first = next(iter(wait(tries, 60, FIRST_COMPLETED)[0]))
            for piece, reached in first.result() if first.exception() is None else ():
                self.store.moved(piece, reached)
            if self.chance.random() < 0.2:
                self.store.taken_over()
            left = [
                replace(piece, epoch=self.store.at[piece.lane][1])
                for piece in pieces
                if self.store.at[piece.lane][0] == piece.from_offset
            ]
            wave_id += ".left" if len(left) < len(pieces) else ""
            pieces = left

    def wrong(self):
        """Records that have no row, or several."""
        seen = found(self.folder)
        due = {(lane.tenant, at) for lane in LANES for at in range(self.store.at[lane][0])}
        assert len(due) > 50
        return [place for place in due | set(seen) if (place in due, seen[place]) != (True, 1)]


@pytest.mark.parametrize("seed", [1, 2])
def test_each_record_has_its_row_once_whoever_wakes_up_when(prepared, tmp_path, seed):
    run = Run(tmp_path, seed, fenced=True)
    run.until_over()
    assert run.wrong() == []
    assert run.outcomes[None, True, False] + run.outcomes[None, False, True] > 10, run.outcomes


def test_without_marks_this_test_would_tell(prepared, tmp_path):
    run = Run(tmp_path, 3, fenced=False)
    run.until_over()
    assert run.wrong()


def may(*command):
    """Whether this machine lets us do that."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_full_disk_is_waited_for_and_a_read_only_one_stops_the_lanes(tmp_path):
    mount = f'mount -t tmpfs -o size=1m none "{tmp_path}"'
    if not may("unshare", "-rm", "sh", "-c", mount):
        pytest.skip("no disk of one's own may be mounted here")
    script = f'{mount} && exec "{sys.executable}" "{APP}" "{tmp_path}" disk'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    told = json.loads(done.stdout)
    assert told["full"][0] == "SinkUnavailable"
    assert set(told["full"]) <= {"SinkUnavailable", None}
    assert told["full"][-1] is None
    assert told["read-only"] == "TargetMissing"
    assert told["rows"] == 200
