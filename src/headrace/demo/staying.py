"""After the report: the service stays up, so that somebody can look around and try things.

Visits keep coming at a walking pace, each of a line of the file, to whichever tenant it is of.
Nothing is checked any more: whoever looks may suspend, throttle and seek as they like.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from headrace.connectors.kafka import make_producer
from headrace.cycle.driver import Driver
from headrace.demo.avro_visits import AvroVisits
from headrace.demo.doors import doors
from headrace.demo.guest import GuestBook
from headrace.demo.visits import read_visits
from headrace.process.signals import stopping_on_signals
from headrace.running.assembly import assembled
from headrace.running.live import LiveTable
from headrace.settings import Settings

RATE_PER_S = 20.0


def stay(settings: Settings, folder: Path, console: Console, written: AvroVisits) -> None:
    """Run the first act's service again, until Ctrl-C."""
    console.print("\nThe service stays up for you to look around; Ctrl-C ends it. Starting ...")
    with (
        assembled(settings, folder, "headrace demo") as made,
        doors(made, settings, folder) as at,
        _visits_coming(settings.kafka, written),
        stopping_on_signals(made.stop),
        LiveTable(made.driver, console) as live,
    ):
        live.note(at.invitation)
        guest = GuestBook(made, live.note)

        def on_turn(_: Driver) -> None:
            guest.poll()
            live.refresh()

        made.run(on_turn)


@contextmanager
def _visits_coming(config: Mapping[str, str], written: AvroVisits) -> Iterator[None]:
    """Send the file's visits again and again, meanwhile."""
    over = threading.Event()

    def send() -> None:
        producer = make_producer(config)
        visits = list(read_visits())
        written.prepare(visits)
        for visit in itertools.cycle(visits):
            if over.wait(1 / RATE_PER_S):
                break
            value = written.value(visit, over)
            if value is None:
                break
            producer.produce(visit.topic, value, visit.lead.encode(), partition=visit.partition)
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=send, name="visits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(15)
