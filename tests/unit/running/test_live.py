"""One line for all streams, where there is no terminal to draw a table on."""

import io
from types import SimpleNamespace

import pytest
import structlog
from rich.console import Console

from headrace.cli.console import configure_logs
from headrace.model.streams import StreamId
from headrace.running.live import LiveTable, line_of, table_of
from headrace.spark.handler_output import WORKER_LOGS
from headrace.telemetry.report import StreamRow


def rows(count):
    return [row("acme")] * count


def row(tenant, p99_s=0.2):
    given = {"state": "active", "p99_s": p99_s, "lag_records": 3, "records_total": 7}
    return SimpleNamespace(stream=StreamId("score", tenant), rate_per_s=1.0, **given)


@pytest.mark.parametrize(("count", "told"), [(1, "1 stream (1 active)"), (2, "2 streams (2 ")])
def test_one_stream_is_one_stream(count, told):
    assert line_of(rows(count)).startswith(told)


def test_a_delay_says_over_which_time_it_is():
    told = line_of([row("a", 0.1), row("b", 0.2), row("c", 9.0), row("d", None)])
    assert told.endswith("p99 delay of the last minute: typical 200 ms, worst 9.0 s")


def test_who_was_made_to_wait_is_named_and_does_not_count_as_the_worst():
    told = line_of([row("acme"), row("blog", 8.6)], {"blog": "suspended", "files": "removed"})
    assert told.endswith("typical 200 ms, worst 200 ms; without blog, held on purpose")
    driver = SimpleNamespace(
        rows=lambda: [
            StreamRow(StreamId("score", name), "active", 1, 0, 0.0, None, 8.6, "", 0, note)
            for name, note in (("blog", ""), ("shop", ""), ("wiki", "a real note"))
        ]
    )
    shown = LiveTable(driver, Console(file=io.StringIO()), held={"blog": "why", "wiki": "why"})
    assert [row.note for row in shown._rows()] == ["why", "", "a real note"]


@pytest.fixture
def logs(monkeypatch):
    """Logs as commands write them; what is said of them elsewhere is put back."""
    before = structlog.get_config()
    monkeypatch.setenv(WORKER_LOGS, "")
    configure_logs()
    yield structlog.get_logger()
    structlog.configure(**before)


def test_a_log_line_stands_above_the_table_and_not_in_it(logs):
    made = StreamRow(StreamId("score", "acme"), "active", 1, 0, 0.0, None, 8.6, "", 0, "")
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    with LiveTable(SimpleNamespace(rows=lambda: [made]), console) as table:
        table.refresh()
        logs.warning("seen it")
        table.refresh()
    (line,) = (line for line in shown.getvalue().split("\n") if "seen it" in line)
    erased, log_line = line.rsplit("\x1b[2K", 1)
    assert erased.endswith("\x1b[1A"), "the table was taken away before"
    assert log_line.startswith('{"event": "seen it"')
    assert shown.getvalue().count("acme/score") >= 2, "and was drawn again below"


def shown_of(driver, **options):
    shown = io.StringIO()
    with LiveTable(driver, Console(file=shown, width=200, **options)) as table:
        table.refresh()
    return shown.getvalue()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_without_streams_it_says_how_to_get_some(is_terminal):
    driver = SimpleNamespace(rows=list, deployed={"score": "as it was deployed"})
    assert "headrace tenants add" in shown_of(driver, force_terminal=is_terminal)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_where_no_use_case_runs_no_tenant_is_asked_for(is_terminal):
    told = shown_of(SimpleNamespace(rows=list, deployed={}), force_terminal=is_terminal)
    assert "no use case runs here" in told
    assert "'headrace use-cases list'" in told
    assert "'headrace use-cases deploy'" in told
    assert "tenants add" not in told


@pytest.mark.parametrize("sent", ["no [/red] page", "a [link=http://x]b", "\x1b[2J\r\ud800"])
def test_what_a_note_quotes_is_shown_and_never_obeyed(sent):
    """It may hold any words of a tenant's record, and a driver must not end by them."""
    row = StreamRow(
        StreamId("score", "acme"), "retrying", 1, 0, 0.0, None, None, "", 0, f"bad: {sent}"
    )
    shown = io.StringIO()
    Console(file=shown, width=200).print(table_of([row]))
    kept = "".join(character if character.isprintable() else "?" for character in sent)
    assert f"bad: {kept}" in shown.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_long_note_takes_no_room_from_what_stands_before_it(width):
    told = "partition 0: TargetMissing: its compatibility refuses the schema; " * 4
    row = StreamRow(StreamId("score", "acme"), "suspended", 4, 18, 0.0, 1.2, 1.2, "", 0, told)
    shown = io.StringIO()
    Console(file=shown, width=width).print(table_of([row]))
    heads, line = shown.getvalue().splitlines()
    assert heads.split() == [
        "stream",
        "state",
        "lag",
        "done",
        "rate/s",
        "p50",
        "p99",
        "wave",
        "note",
    ]
    assert line.startswith("acme/score  suspended    4    18       0  1.2 s  1.2 s")
    assert "partition 0" in line


def test_one_suspended_lane_is_as_red_as_all_of_them():
    row = StreamRow(StreamId("score", "acme"), "suspended 1/4", 1, 0, 0.0, None, None, "", 0, "bad")
    shown = io.StringIO()
    Console(file=shown, width=200, force_terminal=True).print(table_of([row]))
    assert "\x1b[31msuspended 1/4" in shown.getvalue()


def test_a_line_that_stays_is_shown_and_never_obeyed():
    shown = io.StringIO()
    told = "see [/red]\x1b[2J\nor cat [b]/key"
    LiveTable(None, Console(file=shown, width=200)).note(told)
    assert shown.getvalue() == "see [/red]?[2J\nor cat [b]/key\n"
