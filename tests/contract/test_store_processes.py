"""What the store promises when several processes use it, and when one is killed."""

import os
import signal
import subprocess
import sys

import pytest

from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, StreamId, Tenant
from headrace.store import open_store

STREAM = StreamId("score", "acme")
LANES = 20

COMMON = """
import sys
from headrace.model.records import Move
from headrace.model.streams import LaneId
from headrace.ports import Connections
from headrace.store import SqlPositionsFactory, open_store

url, epoch = sys.argv[1], int(sys.argv[2])
positions = SqlPositionsFactory().open(Connections(kafka={}, database_url=url))

def say(*words):
    print(*words, flush=True)

def moves(at, lanes=20):
    places = (LaneId("score", "acme", f"acme.visits[{p}]") for p in range(lanes))
    return [Move(place, at, at + 1, epoch) for place in places]
"""
RACE = """
say("ready")
sys.stdin.readline()
for at in range(10):
    say(*(int(yes) for yes in positions.advance(moves(at))))
"""
STALL = """
with positions.begin() as transaction:
    assert all(positions.advance_in(transaction, moves(0, lanes=10)))
    say("ready")
    sys.stdin.readline()
"""
OPEN_AND_CLOSE = """
say("ready")
sys.stdin.readline()
store = open_store(url)
say(store.revision())
store.close()
"""


@pytest.fixture
def store(store_url):
    store = open_store(store_url)
    store.registry.deploy(Deployment("score", "cases/score.py", "ab12", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    store.progress.start_lanes(
        [LaneStart(STREAM, "id", {f"acme.visits[{p}]": 0 for p in range(LANES)})]
    )
    yield store
    store.close()


@pytest.fixture
def spawn(store_url):
    """Starts a process that runs a script against the store and has said that it is ready."""
    started = []

    def start(script, epoch):
        command = [sys.executable, "-c", COMMON + script, store_url, str(epoch)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def offsets(store):
    return [position.next_offset for position in store.progress.load_positions()]


def test_of_processes_that_advance_the_same_lanes_one_wins_each_move(store, spawn):
    epoch = store.membership.hold([STREAM])[STREAM]
    rivals = [spawn(RACE, epoch) for _ in range(3)]
    outputs = []
    for rival in rivals:
        rival.stdin.write("\n")
        rival.stdin.flush()
    for rival in rivals:
        lines = rival.stdout.read().splitlines()
        outputs.append([[int(word) for word in line.split()] for line in lines])
    wins = [
        sum(answers[step][lane] for answers in outputs)
        for step in range(10)
        for lane in range(LANES)
    ]
    assert wins == [1] * (10 * LANES)
    assert offsets(store) == [10] * LANES


def test_a_process_killed_inside_a_transaction_leaves_nothing_behind(store, spawn):
    epoch = store.membership.hold([STREAM])[STREAM]
    victim = spawn(STALL, epoch)
    assert offsets(store) == [0] * LANES
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    assert offsets(store) == [0] * LANES
    every = [Move(LaneId(*STREAM, f"acme.visits[{p}]"), 0, 7, epoch) for p in range(LANES)]
    assert store.positions.advance(every) == [True] * LANES
    assert offsets(store) == [7] * LANES


def test_a_holder_fences_a_process_that_still_believes_it_holds(store, spawn):
    zombie = spawn(RACE, store.membership.hold([STREAM])[STREAM])
    store.membership.hold([STREAM])
    answers, _ = zombie.communicate("\n")
    assert set(answers.split()) == {"0"}
    assert offsets(store) == [0] * LANES


def test_processes_that_open_an_empty_store_at_once_make_it_once(spawn):
    openers = [spawn(OPEN_AND_CLOSE, 0) for _ in range(4)]
    for opener in openers:
        opener.stdin.write("\n")
        opener.stdin.flush()
    assert [opener.stdout.read() for opener in openers] == ["0\n"] * 4
