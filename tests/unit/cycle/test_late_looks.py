"""What brokers tell of topics may come late: until then nothing runs that it may forbid."""

from collections import deque
from concurrent.futures import Executor
from functools import partial

import pytest

from headrace.cycle.ends import LIVELY_S
from headrace.cycle.observe import Observer
from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.model.streams import State, StreamId
from headrace.testing.at_once import at_once
from headrace.testing.log_fake import Row
from headrace.testing.simulation.beside import LateAnswer

ACME = StreamId("keep", "acme")


class Late(Executor):
    """A thread that does one call after the other, from some moment on not before it is told."""

    def __init__(self):
        self.calls, self.hangs = deque(), True

    def submit(self, fn, /, *args):
        answer = LateAnswer()
        self.calls.append((answer, partial(fn, *args)))
        if not self.hangs:
            self.answer()
        return answer

    def answer(self, calls=None):
        """Make so many of its calls, or all."""
        for _ in range(len(self.calls) if calls is None else calls):
            answer, call = self.calls.popleft()
            answer.set_result(call())

    def goes_on(self):
        self.hangs = False
        self.answer()


@pytest.fixture
def late(world):
    """The thread that asks the log, in a driver that is started on it."""
    thread = Late()

    def start():
        world.start(threads=lambda name: thread if name == "log" else at_once(name))
        return thread

    return start


def serving(world, **options):
    world.use_cases = [world.make(**options)]
    world.deploy()
    return world


def made_again(world):
    world.log.delete_topic("acme.visits")
    world.log.create_topic("acme.visits", 1)
    world.log.append("acme.visits", 0, [Row(b"another's")] * 9)


def started(world):
    return [piece.lane.tenant for wave in world.engine.started for piece in wave.slices]


@pytest.mark.parametrize("removed", [False, True])
def test_a_recorded_wave_is_not_run_again_before_a_new_driver_has_looked_at_its_topic(
    world, late, removed
):
    serving(world, guarantee="exactly-once").tenant("acme", 5)
    world.killed_after_writing()
    made_again(world)
    if removed:
        world.store.registry.set_stream_state(ACME, State.REMOVED)
    thread = late()
    world.turns(10, 10.0)
    assert started(world) == []
    thread.goes_on()
    world.turns(10, 10.0)
    assert started(world) == []
    assert bool(world.store.progress.pending_intents()) is not removed


@pytest.mark.parametrize("removed", [False, True])
def test_a_recorded_wave_runs_again_when_its_topic_was_looked_at(world, late, removed):
    serving(world, guarantee="exactly-once").tenant("acme", 5)
    world.killed_after_writing()
    if removed:
        world.store.registry.set_stream_state(ACME, State.REMOVED)
    thread = late()
    world.turns(10, 10.0)
    thread.goes_on()
    world.turns(10, 10.0)
    assert started(world) == ["acme"]
    assert world.store.progress.pending_intents() == []


def test_answers_that_come_in_the_middle_of_a_first_turn_let_nothing_run_before_its_topic(
    world, late, monkeypatch
):
    serving(world).tenant("acme", 5)
    world.start()
    world.turns(6)
    made_again(world)
    thread = late()
    world.turns(1)
    ends = Observer.ends

    def stalled(observer, now_s):
        """Somebody has looked for the one answer just before it came, and finds the other."""
        thread.answer(len(thread.calls))
        return ends(observer, now_s)

    monkeypatch.setattr(Observer, "ends", stalled)
    world.turns(1)
    assert started(world) == []
    monkeypatch.undo()
    thread.goes_on()
    world.turns(6)
    assert started(world) == []
    assert "made again" in world.row("acme").note


def test_a_stream_that_wakes_up_while_its_topic_is_asked_about_waits_for_the_answer(world, late):
    serving(world).tenant("acme", 5)
    thread = late()
    thread.goes_on()
    world.turns(6)
    before = len(started(world))
    world.turns(1, LIVELY_S + 1)
    world.turns(1)
    thread.hangs = True
    world.turns(1, TOPICS_EVERY_S + 1)
    made_again(world)
    world.turns(1)
    assert len(thread.calls) == 2
    thread.answer(1)  # about ends, which was asked first
    world.turns(3, 10.0)
    assert len(started(world)) == before
    thread.goes_on()
    world.turns(30, 1.0)
    assert len(started(world)) == before
    assert "made again" in world.row("acme").note
