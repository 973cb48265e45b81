"""Wall clocks of real processes that jump: nobody is taken for dead by them, and nothing is lost.

Two drivers share the streams, each with its JVM and its workers on a clock of its own, which jumps
an hour ahead and an hour behind while records keep coming; one of them is killed while their clocks
are two hours apart, and comes back. That the clocks did jump is told by each kind of process
itself: the driver by its report, the workers by the time stamps of the messages they send, the JVM
by a dump of its threads.
"""

import re
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import datetime

from driver_process import until
from matrix import ROW
from rig import Rig
from wall_clock import HOUR_S, WallClock, built

from headrace.cycle.leases import BEATS
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = ROW
#: of five streams a use case
SHARES = {"a": 10, "b": 15}
LEASE = "10s"
#: how old what a process says may be
SLACK_S = 300
DUMPED = re.compile(r"^(\S+ \S+)\nFull thread dump", re.MULTILINE)


class Member:
    """One of the two drivers, and its clock."""

    def __init__(self, rig, name, library):
        self.rig, self.name = rig, name
        self.clock = WallClock(library, rig.folder / f"clock.{name}")
        self.driver = None

    def start(self):
        self.driver = self.rig.start("", "--name", self.name, environment=self.clock.environment)
        return self.driver

    def jump(self, ahead_s):
        """Set its clock, and wait until all its processes go by it."""
        self.clock.jump(ahead_s)
        for tells in (self.report, self.message, self.dump):
            until(lambda tells=tells: self.is_right(tells()), self.driver.tail)

    def is_right(self, told_s):
        return told_s is not None and abs(told_s - time.time() - self.clock.ahead_s) < SLACK_S

    def report(self):
        """When it is, by the driver."""
        with self.rig.store() as store:
            told = {report.driver: report.at_s for report in store.statistics.reports()}
        return told.get(self.name)

    def message(self):
        """When it is, by a worker: that of the newest message of a stream it holds."""
        tenant = next(
            stream.tenant
            for stream, (holder, _) in streams(self.rig).items()
            if stream.use_case == "transfers" and holder == self.name
        )
        sent = KafkaTopics(self.rig.bootstrap_servers).messages(f"{self.rig.topic(tenant)}.out")
        return sent[-1].timestamp()[1] / 1000 if sent else None

    def dump(self):
        """When it is, by the JVM."""
        before = len(self.dumps())
        java = next(process for process in self.driver.tree() if process.name() == "java")
        java.send_signal(signal.SIGQUIT)
        until(lambda: len(self.dumps()) > before, self.driver.tail)
        return datetime.fromisoformat(self.dumps()[-1]).timestamp()

    def dumps(self):
        return DUMPED.findall(self.driver.log.read_text())


def streams(rig):
    """Who holds each stream, and under which epoch."""
    with rig.store() as store:
        return {stream.id: (stream.holder, stream.epoch) for stream in store.registry.streams()}


def lives(rig):
    """Which life of each driver it is, and its beats."""
    with closing(sqlite3.connect(f"{rig.folder}/store.db", timeout=60)) as store:
        rows = store.execute("SELECT name, number, beats FROM headrace_drivers").fetchall()
    return {name: (number, beats) for name, number, beats in rows}


def shared(rig, shares):
    return Counter(holder for holder, _ in streams(rig).values()) == shares


def nothing_changes_hands(rig, change):
    """Do something, and see that for more than a lease after that all streams stay where they are.

    A driver that joins again gets another number, and a stream that is taken over another epoch.
    """
    rig.progressing()
    held, before = streams(rig), lives(rig)
    change()
    changed = lives(rig)

    def beaten():
        now = lives(rig)
        return all(now[name][1] >= changed[name][1] + BEATS + 2 for name in now)

    until(beaten, lambda: lives(rig))
    rig.progressing()
    assert streams(rig) == held
    assert {name: number for name, (number, _) in lives(rig).items()} == {
        name: number for name, (number, _) in before.items()
    }


def test_clocks_that_jump_an_hour_ahead_and_back_change_nothing(kafka, tmp_path):
    library = built(tmp_path)
    settings = {"driver": {"lease": LEASE}}
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings)
    a, b = (Member(rig, name, library) for name in SHARES)
    with rig.sending(), a.start() as first:
        with b.start() as second:
            until(lambda: shared(rig, SHARES), second.tail)
            for of_a, of_b in ((HOUR_S, HOUR_S), (-HOUR_S, -HOUR_S), (HOUR_S, -HOUR_S)):
                nothing_changes_hands(rig, lambda by=(of_a, of_b): (a.jump(by[0]), b.jump(by[1])))
            second.kill()
        until(lambda: shared(rig, {"a": sum(SHARES.values())}), first.tail)
        rig.progressing()
        with b.start() as second:
            until(lambda: shared(rig, SHARES), second.tail)
            nothing_changes_hands(rig, lambda: (a.jump(-HOUR_S), b.jump(HOUR_S)))
            first.kill()
            until(lambda: shared(rig, {"b": sum(SHARES.values())}), second.tail)
            rig.progressing()
            second.drain()
    rig.settle()
    rig.judge("clocks of all processes an hour ahead and behind, two drivers, each killed once")
