"""After the report: the service stays up, so that somebody can look around and try things.

Visits keep coming at a walking pace, each of a line of the file, to whichever tenant it is of.
Nothing is checked any more: whoever looks may suspend, throttle and seek as they like.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from headrace.cycle.driver import Driver
from headrace.demo.avro_visits import AvroVisits
from headrace.demo.doors import doors
from headrace.demo.guest import GuestBook
from headrace.demo.logs import VisitsLog
from headrace.demo.visits import read_visits
from headrace.process.signals import stopping_on_signals
from headrace.running.assembly import assembled
from headrace.running.live import LiveTable
from headrace.settings import Settings

RATE_PER_S = 20.0


def stay(
    settings: Settings, folder: Path, console: Console, log: VisitsLog, written: AvroVisits
) -> None:
    """Run the first act's service again, until Ctrl-C."""
    console.print("\nThe service stays up for you to look around; Ctrl-C ends it. Starting ...")
    with (
        assembled(settings, folder, "headrace demo") as made,
        doors(made, settings, folder, with_gateway=bool(log.posted)) as at,
        _visits_coming(log, written),
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
def _visits_coming(log: VisitsLog, written: AvroVisits) -> Iterator[None]:
    """Send the file's visits again and again, meanwhile."""
    over = threading.Event()

    def send() -> None:
        visits = list(read_visits())
        written.prepare(visits)
        for visit in itertools.cycle(visits):
            if over.wait(1 / RATE_PER_S):
                break
            value = written.value(visit, over)
            if value is None:
                break
            log.send(visit, value, lambda _: None)
        log.flush()

    thread = threading.Thread(target=send, name="visits", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(15)
