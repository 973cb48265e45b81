"""Standard error holds nobody up, and what was said is there however a process ends."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from headrace.process import standard_error
from headrace.process.standard_error import written_by_a_thread

DEADLINE_S = 60

BEGIN = """
import os, signal, sys, threading, time
import structlog
from headrace.cli.console import LogFormat, configure_logs
from headrace.process.standard_error import END_S, written_by_a_thread
configure_logs("INFO", LogFormat.JSON)
log = structlog.get_logger()

def fill():
    "Leave no room in the pipe."
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4095 + b"\\n")
    except BlockingIOError:
        os.set_blocking(2, True)
"""


@contextmanager
def begun(body):
    """A process whose standard error is a pipe that nobody reads yet."""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + body],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def answer_of(process):
    """The next line of its output, which comes in time."""
    ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
    assert ready, "it stands still"
    said = process.stdout.readline()
    assert said, "it has ended"
    return said.strip()


def logged(text):
    """The lines of the log in what was read."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


TURNS = """
with written_by_a_thread(50_000):
    fill()
    for turn in range({turns}):
        log.warning("waiting for a server", waves=turn)
        if turn % 100 == 0:
            print("beat", turn, flush=True)
    print("turned", flush=True)
    sys.stdin.readline()
    log.info("read again")
"""


def test_who_logs_goes_on_while_nobody_reads_and_then_all_is_there_and_counted():
    turns = 1000  # some 100 characters each
    with begun(TURNS.format(turns=turns)) as process:
        beats = []
        while (said := answer_of(process)) != "turned":
            beats.append(said)
        assert len(beats) == turns / 100
        _, told = process.communicate("\n", timeout=DEADLINE_S)
    lines = logged(told)
    seen = [line["waves"] for line in lines if "waves" in line]
    left_out = [line["left_out"] for line in lines if "left_out" in line]
    assert seen == list(range(len(seen)))
    read_again = [line for line in lines if line["event"] == "read again"]
    assert len(seen) + len(read_again) + sum(left_out) == turns + 1
    assert sum(left_out) > 100
    assert process.returncode == 0


ENDS = {
    "by an error": ("raise ValueError('the reason')", 1),
    "by SystemExit": ("raise SystemExit(3)", 3),
    "at once": ("os._exit(4)", 4),
    "by being killed": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "by being asked to": (
        "signal.signal(15, lambda *_: sys.exit(5)); signal.raise_signal(15)",
        5,
    ),
    "in C that lets no thread run": ("import ctypes; ctypes.PyDLL(None)._exit(6)", 6),
    "well": ("pass", 0),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_last_words_are_there_however_it_ends(how):
    end, code = ENDS[how]
    body = f"""
with written_by_a_thread():
    for line in range(20):
        log.info("said", waves=line)
    print("and in plain words", file=sys.stderr)
    {end}
"""
    with begun(body) as process:
        _, told = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    assert [line["waves"] for line in logged(told)] == list(range(20))
    assert "and in plain words" in told
    if how == "by an error":
        # Its reason is the last thing that is said: a supervisor shows that.
        assert told.splitlines()[-1] == "ValueError: the reason"


@pytest.mark.parametrize("how", ["by an error", "by SystemExit", "by being asked to", "well"])
def test_a_reader_who_never_reads_holds_up_no_end(how):
    end, code = ENDS[how]
    body = f"""
with written_by_a_thread():
    fill()
    log.info("nobody reads this")
    {end}
print("drained", file=sys.stderr, flush=True)
"""
    with begun(body) as process:
        assert process.wait(DEADLINE_S) == code


def test_what_is_written_is_seen_at_once_also_where_no_line_ends():
    body = """
with written_by_a_thread():
    sys.stderr.write("12 %\\r")
    sys.stderr.flush()
    print("written", flush=True)
    sys.stdin.readline()
"""
    with begun(body) as process:
        assert answer_of(process) == "written"
        ready, _, _ = select.select([process.stderr], [], [], 0)
        assert ready
        assert os.read(process.stderr.fileno(), 100) == b"12 %\r"
        process.communicate("\n", timeout=DEADLINE_S)


def test_a_forked_child_writes_by_itself_and_nothing_twice():
    body = """
with written_by_a_thread():
    fill()
    log.info("of the parent")
    child = os.fork()
    if child == 0:
        print("forked", flush=True)
        sys.stdin.readline()
        log.info("of the child")
        os._exit(0)
    os.waitpid(child, 0)
"""
    with begun(body) as process:
        assert answer_of(process) == "forked"
        _, told = process.communicate("\n", timeout=DEADLINE_S)
    said = [line["event"] for line in logged(told)]
    assert sorted(said) == ["of the child", "of the parent"]


def test_what_cannot_be_written_at_all_ends_nobody():
    body = """
with written_by_a_thread():
    print("begun", flush=True)
    sys.stdin.readline()
    for _ in range(3):
        log.info("into a pipe that was closed")
    print("goes on", flush=True)
"""
    with begun(body) as process:
        assert answer_of(process) == "begun"
        process.stderr.close()
        process.stdin.write("\n")
        process.stdin.flush()
        assert answer_of(process) == "goes on"
        assert process.wait(DEADLINE_S) == 0


def test_a_full_pipe_costs_its_writers_one_wait():
    # By the clock of the machine, with much room: a wait of each would be two minutes.
    body = """
with written_by_a_thread():
    fill()
    began = time.monotonic()
    for line in range(500):
        log.info("said", waves=line)
    print(time.monotonic() - began, flush=True)
    sys.stdin.readline()
"""
    with begun(body) as process:
        assert float(answer_of(process)) < 5
        process.communicate("\n", timeout=DEADLINE_S)


def test_afterwards_standard_error_is_what_it_was(capsys):
    before = sys.stderr
    with written_by_a_thread():
        assert sys.stderr is not before
        assert (sys.stderr.isatty(), sys.stderr.encoding) == (before.isatty(), before.encoding)
        sys.stderr.write("meanwhile\n")
    assert sys.stderr is before
    assert capsys.readouterr().err == "meanwhile\n"


FLOODS = """
import subprocess
FLOOD = "import sys; [sys.stderr.write('%099d\\\\n' % n) for n in range({lines})]"
with written_by_a_thread(50_000):
    fill()
    with sys.stderr.for_a_program() as number:
        program = subprocess.Popen([sys.executable, "-c", FLOOD], stderr=number)
    print("ended with", program.wait(), flush=True)
    sys.stdin.readline()
    log.info("read again")
"""


def test_a_program_that_writes_more_than_a_pipe_holds_while_nobody_reads_goes_on():
    lines = 5_000  # of 100 characters each
    with begun(FLOODS.format(lines=lines)) as process:
        assert answer_of(process) == "ended with 0"
        _, told = process.communicate("\n", timeout=DEADLINE_S)
    said = [int(line) for line in told.splitlines() if line.startswith("0")]
    assert said[:100] == list(range(100))
    left_out = sum(line["left_out"] for line in logged(told) if "left_out" in line)
    assert len(said) + left_out == lines
    assert [line["event"] for line in logged(told)].count("read again") == 1


FLOODED = """
import subprocess
FLOOD = "import sys\\nwhile True: sys.stderr.write('%099d\\\\n' % 0)"

def is_flooded():
    "Some of it was left out."
    return sys.stderr._left_out or sys.stderr._told_s
"""


def test_a_programs_flood_neither_pushes_out_nor_delays_what_the_process_says_itself():
    body = """
with written_by_a_thread(400_000):
    fill()
    with sys.stderr.for_a_program() as number:
        program = subprocess.Popen([sys.executable, "-c", FLOOD], stderr=number)
    while not is_flooded():
        time.sleep(0.01)
    for line in range(100):
        log.warning("the lane stopped", waves=line)
    program.kill()
    program.wait()
    print("said", flush=True)
    sys.stdin.readline()
"""
    with begun(FLOODED + body) as process:
        assert answer_of(process) == "said"
        _, told = process.communicate("\n", timeout=DEADLINE_S)
    after_the_pipe = [line for line in told.splitlines() if not line.startswith("x")]
    # One text of the program was on its way, and one may have been taken before; 2,000 lines wait.
    most = 2 * standard_error._AT_ONCE // 100
    first = [line for line in after_the_pipe if "left_out" not in line][: 100 + most]
    assert [line["waves"] for line in logged("\n".join(first))] == list(range(100))


def test_what_a_process_says_before_it_ends_at_once_is_there_though_a_program_floods_the_pipe():
    body = """
import headrace.process.standard_error as own
# A reader on a machine that does much else may stand still for a second.
own.WRITER_WAIT_S = own._WAITS_AT_ONCE_S = 4
with written_by_a_thread(50_000):
    with sys.stderr.for_a_program() as number:
        program = subprocess.Popen(
            [sys.executable, "-c", FLOOD], stderr=number, stdout=subprocess.DEVNULL)
    while not is_flooded():
        time.sleep(0.01)
    time.sleep(4.5)  # longer than anybody would wait for the program's lines
    for line in range(3):
        log.warning("why it ends", waves=line)
    os._exit(4)
"""
    told = b""
    with begun(FLOODED + body) as process:
        # As a shipper of logs reads: some 400 KB/s.
        while read := os.read(process.stderr.fileno(), 8192):
            told += read
            time.sleep(0.02)
        assert process.wait(DEADLINE_S) == 4
    lines = logged(told.decode())
    assert [line["waves"] for line in lines if "waves" in line] == list(range(3))


def test_what_a_program_says_last_is_there_when_its_starter_has_ended_its_thread():
    body = """
import subprocess
with written_by_a_thread():
    with sys.stderr.for_a_program() as number:
        program = subprocess.Popen(
            [sys.executable, "-c", "import sys; input(); sys.stderr.write('its last words\\n')"],
            stdin=subprocess.PIPE, stderr=number)
program.communicate(b"\\n")
for thread in threading.enumerate():
    if thread.name == "headrace-stderr-pipe":
        thread.join()
"""
    with begun(body) as process:
        _, told = process.communicate(timeout=DEADLINE_S)
    assert "its last words" in told
