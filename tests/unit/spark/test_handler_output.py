# ruff: noqa: T201 - what handlers print and log is what is looked at
"""A handler's lines say whose records they are about, and none of it is without a bound."""

import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress

import pytest

from headrace.model.streams import LaneId, Slice
from headrace.spark import handler_output
from headrace.spark.handler_output import HandlerOutput, shape_of
from headrace.telemetry.log_fields import FIELDS


def piece(tenant="acme", partition=0):
    return Slice(
        LaneId("score", tenant, f"{tenant}.visits[{partition}]"), f"{tenant}.visits", 3, 9, 1
    )


class Spoken:
    """An output of its own, what it sent, and what passed by it."""

    def __init__(self):
        self.sent, self.now_s = [], 0.0
        self.out, self.err = io.StringIO(), io.StringIO()
        self.output = HandlerOutput(self.sent.append, lambda: self.now_s)

    def rows(self):
        return [json.loads(line) for line in self.sent]

    @contextmanager
    def installed(self):
        with redirect_stdout(self.out), redirect_stderr(self.err):
            self.output.install()
            yield

    def call(self, handler, *slices):
        with self.installed():
            return self.output.during(slices or (piece(),), handler)


@pytest.fixture
def spoken(monkeypatch):
    monkeypatch.delenv("HEADRACE_WORKER_LOGS", raising=False)
    monkeypatch.delenv("LOG_FORMAT", raising=False)
    monkeypatch.delenv("LOG_LEVEL", raising=False)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)
    monkeypatch.setattr(logging.getLogger("httpx"), "level", logging.NOTSET)
    monkeypatch.setattr(logging.getLogger("httpx2"), "level", logging.NOTSET)
    logging.Logger.manager._clear_cache()
    yield Spoken()
    logging.Logger.manager._clear_cache()


def test_prints_and_logs_of_a_handler_carry_tenant_use_case_and_slice(spoken):
    def handler():
        print("seen", 3)
        print("to stderr", file=sys.stderr)
        logging.getLogger("rules").info("rule %d", 7)
        logging.warning("odd")
        return "done"

    assert spoken.call(handler) == "done"
    said = [(row["logger"], row["event"], row["level"]) for row in spoken.rows()]
    assert said == [
        ("stdout", "seen 3", "info"),
        ("stderr", "to stderr", "warning"),
        ("rules", "rule 7", "info"),
        ("root", "odd", "warning"),
    ]
    for row in spoken.rows():
        assert (row["tenant"], row["use_case"], row["stream"]) == ("acme", "score", "acme/score")
        assert row["slice"] == "acme.visits[0] 3..9"
        assert row.keys() - FIELDS.keys() == {"event", "level", "timestamp"}


def test_of_a_call_with_all_lanes_of_a_tenant_the_stream_is_told(spoken):
    spoken.call(lambda: print("x"), piece(), piece(partition=1))
    (row,) = spoken.rows()
    assert (row["stream"], "slice" in row) == ("acme/score", False)


def test_a_line_is_sent_when_it_is_whole_and_its_rest_with_the_call(spoken):
    def handler():
        print("begun", end=" ")
        assert spoken.sent == []
        print("ended")
        assert len(spoken.sent) == 1
        print("a rest", end="")

    spoken.call(handler)
    assert [row["event"] for row in spoken.rows()] == ["begun ended", "a rest"]


def test_a_call_that_raises_leaves_nothing_to_the_next(spoken):
    def handler():
        print("half", end="")
        raise KeyError

    with pytest.raises(KeyError):
        spoken.call(handler)
    spoken.call(lambda: print("whole"), piece("bolt"))
    assert [(row["tenant"], row["event"]) for row in spoken.rows()] == [
        ("acme", "half"),
        ("bolt", "whole"),
    ]


def test_a_call_is_bounded_and_says_how_much_is_left_out(spoken):
    def handler():
        for number in range(10_000):
            print(number)

    spoken.call(handler)
    assert len(spoken.sent) == handler_output.MOST_LINES_OF_A_CALL + 1
    last = spoken.rows()[-1]
    assert last["event"] == "9900 more lines of this call are left out"
    assert last["tenant"] == "acme"


def test_many_calls_together_are_bounded_and_a_quiet_time_gives_room_again(spoken):
    def handler():
        for number in range(50):
            print(number)

    def said(calls):
        before = len(spoken.sent)
        for _ in range(calls):
            spoken.call(handler)
        events = [json.loads(line)["event"] for line in spoken.sent[before:]]
        return sum(event.isdigit() for event in events)

    assert said(100) == handler_output.MOST_LINES_AT_ONCE
    assert said(10) == 0
    spoken.now_s += 2.0
    assert said(10) == 2 * handler_output.LINES_PER_S


def test_a_line_without_an_end_fills_no_memory(spoken):
    def handler():
        for _ in range(1_000):
            print("x" * 10_000, end="")

    spoken.call(handler)
    (row,) = spoken.rows()
    assert len(row["event"]) < 3_000
    assert "characters left out" in row["event"]


def test_what_is_written_between_calls_passes_as_it_is(spoken):
    with spoken.installed():
        print("by a sink")
        logging.warning("between")
        logging.info("chatter")
    assert (spoken.out.getvalue(), spoken.err.getvalue()) == ("by a sink\n", "between\n")
    assert spoken.sent == []


def test_a_thread_that_outlives_its_call_does_not_speak_for_the_next(spoken):
    later, said = threading.Event(), threading.Event()

    def leaves_a_thread_behind():
        def speaks():
            later.wait(60)
            print("of acme")
            logging.getLogger("crm").warning("of acme too")
            said.set()

        threading.Thread(target=speaks, daemon=True).start()

    def waits_for_a_thread_of_its_own():
        own = threading.Thread(target=print, args=("of bolt",))
        own.start()
        own.join()
        later.set()
        assert said.wait(60)

    spoken.call(leaves_a_thread_behind, piece("acme"))
    spoken.call(waits_for_a_thread_of_its_own, piece("bolt"))
    assert [(row["tenant"], row["event"]) for row in spoken.rows()] == [("bolt", "of bolt")]
    assert "of acme\n" in spoken.out.getvalue()


def test_to_take_over_twice_says_nothing_twice(spoken):
    def handler():
        spoken.output.install()
        print("once")
        logging.warning("once")

    spoken.call(handler)
    assert len(spoken.sent) == 2


def test_a_module_that_sets_up_logging_makes_no_line_double(spoken):
    def handler():
        logging.basicConfig()
        logging.warning("once")

    spoken.call(handler)
    assert [row["event"] for row in spoken.rows()] == ["once"]


@pytest.mark.parametrize(
    ("level", "own", "said"),
    [("INFO", logging.NOTSET, []), ("INFO", logging.INFO, ["asked"]), ("DEBUG", 0, ["asked"])],
)
def test_a_client_that_says_each_request_is_heard_by_who_asks_for_it(
    spoken, monkeypatch, level, own, said
):
    monkeypatch.setenv("LOG_LEVEL", level)
    monkeypatch.setattr(logging.getLogger("httpx"), "level", own)
    heard = Spoken()
    heard.call(lambda: logging.getLogger("httpx").info("asked"))
    assert [row["event"] for row in heard.rows()] == said


def test_where_nothing_is_taken_over_a_call_is_a_call(capsys):
    HandlerOutput().during((piece(),), lambda: print("as ever"))
    assert capsys.readouterr().out == "as ever\n"


def test_for_people_a_line_has_its_text_first_and_obeys_no_terminal(monkeypatch, spoken):
    monkeypatch.setattr(spoken.output, "_pretty", True)
    spoken.call(lambda: print("\x1b[2Jseen"))
    (line,) = spoken.sent
    assert "[info    ] ?[2Jseen  tenant=acme use_case=score slice=acme.visits[0] 3..9" in line


@pytest.mark.parametrize(
    ("environment", "shape"),
    [
        ({}, (False, 20)),
        ({"HEADRACE_WORKER_LOGS": "pretty WARNING"}, (True, 30)),
        ({"HEADRACE_WORKER_LOGS": "json INFO", "LOG_FORMAT": "pretty"}, (False, 20)),
        ({"LOG_FORMAT": "pretty", "LOG_LEVEL": "debug"}, (True, 10)),
        ({"LOG_LEVEL": "loud"}, (False, 20)),
    ],
)
def test_lines_look_as_the_drivers_do_or_as_executors_are_told(environment, shape):
    assert shape_of(environment) == shape


def test_a_line_that_cannot_be_written_is_lost_and_not_the_call_that_says_it(spoken, monkeypatch):
    """A handler may have closed the file for all who come after it in its worker."""

    def closed(*_):
        raise OSError(9, "Bad file descriptor")

    spoken.output = HandlerOutput(clock=lambda: 0.0)
    with spoken.installed():
        monkeypatch.setattr(handler_output.os, "write", closed)
        assert spoken.output.during((piece(),), lambda: print("seen") or 3) == 3
    assert not spoken.output.is_of_a_call


def test_what_is_said_later_is_nobodys_where_the_end_of_a_call_fails(spoken):
    def stuck(_line):
        raise RuntimeError("whatever takes the lines")

    spoken.output = HandlerOutput(stuck, lambda: 0.0)
    with spoken.installed(), pytest.raises(RuntimeError):
        spoken.output.during((piece(),), lambda: sys.stdout.write("half a line") and None)
    assert not spoken.output.is_of_a_call


def put_a_closed_file_there():
    sys.stdout = io.StringIO()
    print("mine")
    sys.stdout.close()


def put_nothing_there():
    sys.stdout = sys.stderr = None


def leave_their_own_there():
    sys.stdout = sys.stderr = io.StringIO()


def close_them():
    sys.stdout.close()
    sys.stderr.close()


def close_what_is_behind():
    sys.stdout.buffer.close()
    with suppress(ValueError):
        sys.stderr.buffer.close()
        sys.stderr.flush()


def end_a_block_with_them():
    with sys.stdout, sys.stderr:
        print("mine")


def all_that_is_done_with_them():
    print("seen", flush=True)
    sys.stdout.writelines(["a\n", "b\n"])
    with sys.stderr:
        assert not sys.stderr.isatty()
        print("to stderr", file=sys.stderr)
    assert not sys.stdout.closed


@pytest.mark.parametrize("form", ["slice", "async"])
@pytest.mark.parametrize(
    "act",
    [
        put_a_closed_file_there,
        put_nothing_there,
        leave_their_own_there,
        close_them,
        close_what_is_behind,
        end_a_block_with_them,
    ],
)
def test_who_replaces_or_closes_the_two_does_so_for_its_own_call_alone(spoken, act, form):
    async def waits():
        act()

    spoken.out, spoken.err = (io.TextIOWrapper(io.BytesIO()) for _ in range(2))
    with spoken.installed():
        spoken.output.during((piece(),), act if form == "slice" else lambda: asyncio.run(waits()))
        before = len(spoken.sent)
        spoken.output.during((piece("bolt"),), all_that_is_done_with_them)
        spoken.output.install()
        print("by a sink", flush=True)
        spoken.output.during((piece("bolt"),), all_that_is_done_with_them)
    said = [(row["tenant"], row["event"]) for row in spoken.rows()[before:]]
    assert said == [("bolt", text) for text in ("seen", "a", "b", "to stderr")] * 2


def test_what_is_written_between_calls_is_heard_after_a_file_was_closed():
    """The process's own, whose number is set right after the call (`spark/standard_files.py`)."""
    script = """
import sys
from headrace.model.streams import LaneId, Slice
from headrace.spark.handler_output import HandlerOutput
output = HandlerOutput()
output.install()
piece = Slice(LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, 1)
def act():
    import os
    kept = os.dup(1)
    sys.stdout.buffer.close()
    os.dup2(kept, 1)
output.during((piece,), act)
print("by a sink", flush=True)
sys.stdout.buffer.write(b"bytes")
"""
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("by a sink\nbytes", "")
