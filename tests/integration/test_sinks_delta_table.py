"""A Delta table beside processes that are killed, writers that race, and a disk that is full."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import delta_app
import pytest
from deltalake import DeltaTable as Library

from headrace.connectors.delta.upkeep import kept_in
from own_disk import may
from zombies import Zombies

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
    upkeep = kept_in(tmp_path, "visits")
    merged = 0
    while any(one.poll() is None for one in writing):
        merged += sum(upkeep.merge(crowd).before for crowd in upkeep.crowds())
        threading.Event().wait(0.2)
    for one in writing:
        assert json.loads(one.communicate()[0]) == [None] * 40
    assert merged > 10
    every = {(tenant, value) for tenant in tenants for value in range(200)}
    assert found(tmp_path) == Counter(every)


def attempted(folder, seed, *, fenced):
    """All waves, with zombies."""

    def write(wave_id, pieces, store):
        there = replace(
            delta_app.site(folder, wave_id), positions=store, fence="fence" if fenced else ""
        )
        return delta_app.SINK.open(there).write([effect_of(piece) for piece in pieces])

    run = Zombies(write, seed, lanes=5)
    run.until_over(15)
    return run


def effect_of(piece):
    rows = piece.until_offset - piece.from_offset
    return replace(delta_app.effect(piece.lane.tenant, piece.from_offset, rows), slices=(piece,))


@pytest.mark.parametrize("seed", [1, 2])
def test_each_record_has_its_row_once_whoever_wakes_up_when(prepared, tmp_path, seed):
    run = attempted(tmp_path, seed, fenced=True)
    assert run.wrong(found(tmp_path), least=50) == []
    assert run.refused > 10, run.outcomes


def test_without_marks_this_test_would_tell(prepared, tmp_path):
    run = attempted(tmp_path, 3, fenced=False)
    assert run.wrong(found(tmp_path), least=50)


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
