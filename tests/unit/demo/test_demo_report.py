"""What makes a report fail, and what it only shows."""

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from headrace.demo.report import Check
from headrace.demo.run import _by_schema, show
from headrace.demo.scenario import REMOVED
from headrace.demo.visits import GUEST
from headrace.model.receipts import Writer, WrittenBy
from headrace.model.streams import StreamId
from headrace.telemetry.report import Reporter
from headrace.telemetry.writers import SeenWriters


@pytest.mark.parametrize(
    ("check", "met", "passed"),
    [
        (Check("orders", "5", "5"), True, True),
        (Check("orders", "5", "4"), False, False),
        (Check("orders", "5", "5", faults=("acme 3 arrived 2 times",)), False, False),
        (Check("delay", "p99 under 2 s", "p99 2.48 s", speed=True), False, True),
    ],
)
def test_what_differs_fails_and_what_is_slow_is_shown(check, met, passed):
    assert (check.met, check.passed) == (met, passed)


@pytest.mark.parametrize(
    ("repeats", "told"),
    [
        (0, "nothing lost, nothing twice, 40 s in all"),
        (3, "nothing lost, nothing twice but mails, 3 with the same Message-ID, 40 s in all"),
    ],
)
def test_mails_that_came_twice_are_no_fault_and_are_said_in_the_last_line(repeats, told):
    shown = io.StringIO()
    show([Check("mails to sales", "9", "9", repeats=repeats)], Console(file=shown), 40.0)
    assert shown.getvalue().splitlines()[-1] == told


def test_the_drivers_own_count_is_without_whom_it_forgets_at_some_moment():
    reporter = Reporter()
    for tenant, records in ((REMOVED, 200), (GUEST, 1), ("home", 7)):
        writers = SeenWriters()
        writers.add([WrittenBy(Writer("value", "1"), records)], time.time())
        reporter.meter(StreamId("replicate", tenant)).writers = writers
    assert _by_schema(SimpleNamespace(reporter=reporter)) == {"1": 7}
