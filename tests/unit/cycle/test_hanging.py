"""Whoever hangs, a driver beats, and the waves of all others go on."""

import threading
from concurrent.futures import Future

import pytest

from headrace.cycle.beside import one_thread
from headrace.cycle.leases import BEATS
from headrace.model.plans import Limits
from headrace.model.streams import DataLossPolicy
from headrace.policies.elasticity import SlotLimits
from headrace.spark import polling
from headrace.spark.engine import SparkEngine
from headrace.testing.mirror_fake import MemoryMirror

LEASE_S = 15.0
#: a driver that turns so often beats in each turn
BEAT_S = LEASE_S / BEATS + 0.5
TURNS = 24
RECORDS = 200


class Hangs:
    """Somebody of whom some calls do not answer before they are released."""

    def __init__(self, whole):
        self.whole, self.hanging, self.asked = whole, (), []
        self.released = threading.Event()

    def __getattr__(self, name):
        method = getattr(self.whole, name)

        def called(*args, **options):
            if name in self.hanging:
                self.asked.append(name)
                assert self.released.wait(20), "nobody released it"
            return method(*args, **options)

        return called if callable(method) else method


@pytest.fixture
def beats(world, monkeypatch):
    """Each sign of life that the driver gave."""
    beat, seen = world.store.membership.beat, []

    def counted(*args):
        seen.append(world.clock.monotonic_s())
        return beat(*args)

    monkeypatch.setattr(world.store.membership, "beat", counted)
    return seen


@pytest.fixture
def hang(world):
    """Puts somebody who hangs in the place of a part, and lets the test end whatever comes."""
    made = []

    def hanging(part, *names):
        made.append(Hangs(part))
        made[-1].hanging = names
        return made[-1]

    yield hanging
    for hung in made:
        hung.released.set()
    if world.driver is not None:
        world.driver.close()


def picky(table, context):
    """The driver, and no task, sets aside what a handler raises at."""
    if context.tenant == "acme" and 3 in table["offset"].to_pylist():
        raise ValueError("no")
    return table.select(["offset"])


def begin(world):
    """A driver with threads of its own, and a backlog of bolt that lasts for many waves."""
    world.use_cases = [world.make(picky, bad_record="dead-letter")]
    world.deploy(retries=0, data_loss=DataLossPolicy.SKIP)
    world.tenant("bolt", RECORDS)
    world.tenant("acme", 2)
    world.start(threads=one_thread, lease_s=LEASE_S)
    world.driver.limits = Limits(slice_records=2)


def go_on(world, beats):
    """Turn for some leases; nothing may be missing but what hangs."""
    before, seen = world.positions().get(("bolt", 0), 0), len(beats)
    world.turns(TURNS, seconds=BEAT_S)
    assert len(beats) - seen >= TURNS - 1
    assert world.positions()["bolt", 0] - before >= 2 * (TURNS - 2)


@pytest.mark.parametrize("call", ["topics", "start_offsets", "end_offsets", "doubt"])
def test_a_log_that_does_not_answer(world, beats, hang, call):
    world.log = hang(world.log)
    begin(world)
    world.turns(4)
    assert world.positions()["acme", 0] == 2
    world.log.hanging = (call,)
    # Whatever is asked of it is asked now.
    held = world.driver.board.streams["keep", "acme"]
    world.log.truncate("acme.visits", 0, 1)
    world.driver.observer.doubt(held, held.lanes["acme.visits[0]"], "somebody said so")
    go_on(world, beats)
    assert world.log.asked[0] == call
    assert world.row("acme").state == "waiting"
    world.log.released.set()
    world.log.hanging = ()
    while world.row("acme").state != "active":  # a cut is believed after a while
        world.turns(1, seconds=1.0)
    assert world.positions()["acme", 0] == 1


def test_a_stream_that_woke_up_is_not_read_before_its_topic_was_looked_at(
    world, beats, hang, monkeypatch
):
    world.log = hang(world.log)
    begin(world)
    world.turns(4)
    world.clock.move(60.0)
    # With more topics it would not be acme's turn.
    monkeypatch.setattr(world.driver.observer._topics._sweep, "_moved_s", float("inf"))
    world.log.hanging = ("topics",)
    world.send("acme", 1)
    go_on(world, beats)
    assert world.positions()["acme", 0] == 2
    assert "looked at before" in world.row("acme").note
    world.log.released.set()
    world.log.hanging = ()
    while world.positions()["acme", 0] != 3:
        world.turns(1)


def test_brokers_that_do_not_take_dead_letters(world, beats, hang):
    world.dead_letters = hang(world.dead_letters, "keep")
    begin(world)
    world.send("acme", 4)
    go_on(world, beats)
    assert (world.positions()["acme", 0], world.dead_letters.letters) == (3, [])
    row = world.row("acme")
    assert (row.state, row.dead_letters) == ("retrying", 0)
    assert row.note == "partition 0: offset 3 waits until its dead letter is kept"
    world.driver.drain()
    world.turns(3)
    assert not world.driver.drained
    world.dead_letters.released.set()
    while not world.driver.drained:
        world.turns(1)
    assert [letter.error.offset for letter in world.dead_letters.letters] == [3]
    assert world.positions()["acme", 0] == 4


@pytest.mark.parametrize(
    ("part", "calls"),
    [
        ("mirror", ["show"]),
        ("mirror", ["look"]),
        ("statistics", ["publish", "keep", "thin"]),
    ],
)
def test_who_shows_figures_hangs(world, beats, hang, part, calls):
    whole = MemoryMirror() if part == "mirror" else world.store.statistics
    setattr(world, part, hang(whole, *calls))
    begin(world)
    go_on(world, beats)
    assert getattr(world, part).asked


class JvmThatHangs:
    """A session of which every question to the JVM hangs."""

    def __init__(self):
        self.released, self.asked = threading.Event(), []

    def ask(self, *_):
        self.asked.append(True)
        assert self.released.wait(20), "nobody released it"
        return 7

    @property
    def sparkContext(self):  # noqa: N802
        self.ask()
        raise OSError("gone")


def test_a_spark_that_does_not_answer_is_waited_for_once_however_many_waves_are_late(monkeypatch):
    session, waited = JvmThatHangs(), []
    engine = SparkEngine(session, tools=None)
    waits = Future.exception
    monkeypatch.setattr(Future, "exception", lambda asked, s: waited.append(s) or waits(asked, s))
    engine._groups.update({f"w{number}": f"w{number} group" for number in range(100)})
    for _ in range(2):
        assert [engine.began(name) for name in engine._groups] == [None] * 100
    assert sum(waited) == pytest.approx(0.1)
    session.released.set()
    engine._groups.clear()
    engine.close()


def test_a_spark_that_does_not_answer(world, beats, monkeypatch):
    session = JvmThatHangs()
    monkeypatch.setattr(polling, "known_slots", session.ask)
    monkeypatch.setattr(polling, "live_executors", session.ask)
    world.use_cases = []
    limits = SlotLimits(1, 4, target_delay_s=2.0, bin_s=1.0)
    world.start(threads=one_thread, lease_s=LEASE_S, slot_limits=limits)
    engine = SparkEngine(session, tools=None)
    object.__setattr__(world.driver.parts, "engine", engine)
    world.driver.capacity.engine = engine
    engine._groups["w1"] = "w1 group"
    assert (engine.slots, engine.executors, engine.ui_url) == (1, 1, "")
    assert engine.began("w1") is None
    engine.cancel("w1")
    engine.resize(3)
    seen = len(beats)
    world.turns(TURNS, seconds=BEAT_S)
    assert len(beats) - seen >= TURNS - 1
    assert len(session.asked) >= 5
    session.released.set()
    while engine.slots != 7:
        session.released.wait()
    engine._groups.clear()
    engine.close()
    # The last answers stand.
    assert [engine.executors for _ in range(3)] == [7, 7, 7]
