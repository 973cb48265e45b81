"""Those who look at schemas, in processes of their own."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry import judges as judges_module
from headrace.schema_registry.judges import JudgesApart
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.texts import BadSchema, Compared
from headrace.schema_registry.turns import JudgesBusy, Looked, Turns

GOOD, BAD = WrittenSchema(SchemaKind.AVRO, '"int"'), WrittenSchema(SchemaKind.AVRO, "{")


def slow(numbers):
    reserved = ",".join(str(2 * number + 1) for number in range(numbers))
    text = f'syntax="proto3"; message M {{ reserved {reserved}; }}'
    return WrittenSchema(SchemaKind.PROTOBUF, text)


#: takes protoc several seconds, and all the time that it may have
SLOW, SLOWEST = slow(60_000), slow(120_000)


def test_a_judge_that_takes_too_long_is_ended_and_another_one_goes_on():
    judges = JudgesApart(1, wait_s=30.0)
    try:
        assert judges.form(GOOD).canonical == '"int"'
        with pytest.raises(BadSchema, match="not JSON"):
            judges.form(BAD)
        assert judges.faults(GOOD, [Compared(1, GOOD)], Level.FULL) == []
        judges._deadline_s = 0.2
        with pytest.raises(BadSchema, match="longer than"):
            judges.form(SLOW)
        judges._deadline_s = 10.0
        assert judges.form(GOOD).canonical == '"int"'
        assert judges.form(GOOD).canonical == '"int"'
    finally:
        judges.close()


def test_the_deadline_of_a_judge_that_was_just_started_is_no_other():
    judges = JudgesApart(1, deadline_s=0.5, wait_s=60.0)
    try:
        for _ in range(2):
            with judges._judge(60.0) as judge:
                since = time.monotonic()
                with pytest.raises(BadSchema, match="longer than"):
                    judge.ask("form_of", [SLOW], 0.5)
                assert time.monotonic() - since < 15.0
    finally:
        judges.close()


def test_what_a_judge_runs_ends_with_it_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    judges = JudgesApart(1, deadline_s=0.5)
    group = judges._free.queue[-1]._process.pid
    folder = judges._free.queue[-1]._folder.path
    assert os.path.dirname(folder) == str(tmp_path)
    with pytest.raises(BadSchema, match="longer than"):
        judges.form(SLOW)
    assert until(lambda: processes_of(group) == [])
    assert not os.path.exists(folder)
    judges.close()
    assert until(lambda: list(tmp_path.glob("headrace-*")) == [])


def test_a_judge_that_cannot_be_started_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(judges_module, "_AGAIN_S", 0.01)
    kind = multiprocessing.get_context("spawn").Process
    start, tries = kind.start, []

    def short_of_processes(process):
        tries.append(len(os.listdir("/proc/self/fd")))
        if len(tries) < 6:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return start(process)

    monkeypatch.setattr(kind, "start", short_of_processes)
    judges = JudgesApart(1)
    try:
        assert tries[-1] <= tries[0]  # garbage of others may have been closed meanwhile
        assert len(list(tmp_path.glob("headrace-*"))) == 1
    finally:
        judges.close()


SERVER = """
import sys
from headrace.schema_registry.judges import JudgesApart
from test_registry_judges import SLOWEST
if __name__ == "__main__":
    judges = JudgesApart(1, deadline_s=60.0)
    print(judges._free.queue[-1]._process.pid, flush=True)
    judges.form(SLOWEST)
"""


def test_judges_do_not_outlive_a_registry_that_was_killed(tmp_path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    paths = [os.path.dirname(__file__), *sys.path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env
    ) as server:
        group = int(server.stdout.readline())
        # the judge, and protoc that it waits for
        assert until(lambda: len(processes_of(group)) == 2)
        server.kill()
    # protoc by itself ends when it has had its five seconds, and the judge behind it
    assert until(lambda: processes_of(group) == [], 4.0)


def processes_of(group):
    """The living processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == group and words[0] not in "ZX":
            found.append(int(stat.parent.name))
    return found


def until(holds, seconds=60.0):
    """Whether it holds within some seconds."""
    give_up = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def test_a_tenant_has_one_judge_at_a_time():
    judges = JudgesApart(2, wait_s=0.01)
    try:
        with judges._turns.of("acme"), pytest.raises(JudgesBusy, match="acme"):
            judges.form(GOOD, "acme")
        with judges._judge(60.0), judges._judge(60.0), pytest.raises(JudgesBusy):
            judges.form(GOOD, "bolt")
        judges.form(GOOD, "acme")
    finally:
        judges.close()


def test_a_second_schema_of_a_tenant_waits_for_its_turn():
    judges = JudgesApart(2, wait_s=60.0)
    found = []
    try:
        with judges._turns.of("acme"):
            waiting = threading.Thread(target=lambda: found.append(judges.form(GOOD, "acme")))
            waiting.start()
            assert until(lambda: judges._turns.waiting == 1)
            assert judges.form(GOOD, "bolt").canonical == '"int"'
            assert not found
        waiting.join(60.0)
        assert [form.canonical for form in found] == ['"int"']
    finally:
        judges.close()


def test_turns_of_a_tenant_come_in_the_order_in_which_they_were_asked_for():
    turns, order = Turns(judges=2, wait_s=60.0, rest_s=10.0), []

    def take(number):
        with turns.of("acme"):
            order.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(3)]
    with turns.of("acme"):
        for number, thread in enumerate(threads):
            thread.start()
            assert until(lambda wanted=number + 1: turns.waiting == wanted)
    for thread in threads:
        thread.join(60.0)
    assert (order, turns.waiting) == ([0, 1, 2], 0)


def test_where_many_wait_for_their_turn_the_next_one_is_told_at_once():
    turns = Turns(judges=2, wait_s=60.0, rest_s=10.0, most_waiting=0)
    since = time.monotonic()
    with turns.of("acme"):
        with pytest.raises(JudgesBusy, match="another schema of acme"), turns.of("acme"):
            pass
        with turns.of("bolt"):
            pass
    assert time.monotonic() - since < 30.0


def test_who_waited_for_its_turn_waits_for_a_judge_what_is_left():
    judges = JudgesApart(1, wait_s=1.0)
    try:
        with judges._judge(60.0), judges._turns.of("acme"):
            since = time.monotonic()
            with pytest.raises(JudgesBusy):
                judges.form(GOOD, "acme")
        with judges._judge(60.0), pytest.raises(JudgesBusy):
            judges.form(GOOD, "acme")
        assert time.monotonic() - since < 30.0
    finally:
        judges.close()


def test_a_tenant_whose_schema_was_ended_rests_and_others_do_not():
    judges = JudgesApart(1, deadline_s=0.2, rest_s=60.0, wait_s=60.0)
    try:
        with pytest.raises(BadSchema, match="longer than"):
            judges.form(SLOW, "acme")
        judges._deadline_s = 10.0
        with pytest.raises(JudgesBusy, match=r"acme took .* in 60 s"):
            judges.form(GOOD, "acme")
        judges.form(GOOD, "bolt")
        judges.form(GOOD)
    finally:
        judges.close()


def test_tenants_whose_schemas_take_long_leave_one_judge_to_others():
    now = [0.0]
    turns = Turns(judges=2, wait_s=0.01, rest_s=10.0, clock=lambda: now[0])
    turns.took("acme", 9.0, ended=False)
    turns.took("bolt", 10.0, ended=True)
    turns.took("corp", 0.5, ended=False)
    now[0] = 11.0
    with turns.of("acme"):
        with pytest.raises(JudgesBusy, match="take long"), turns.of("bolt"):
            pass
        with turns.of("corp"), turns.of(None):
            pass
    with turns.of("bolt"):
        pass
    now[0] = 70.1
    with turns.of("acme"), turns.of("bolt"):
        pass


def test_what_was_looked_at_before_for_a_request_is_of_its_deadline():
    judges = JudgesApart(1, deadline_s=60.0, wait_s=60.0)
    try:
        assert judges.form(GOOD, looked=Looked(1.0)).canonical == '"int"'
        with pytest.raises(BadSchema, match="longer than 60 s"):
            judges.form(SLOW, looked=Looked(59.5))
        # Nothing of the time is left for this one, which says nothing about it.
        with pytest.raises(JudgesBusy, match="all 60 s"):
            judges.faults(GOOD, [Compared(1, GOOD)], Level.FULL, looked=Looked(61.0))
    finally:
        judges.close()


def test_to_wait_for_a_judge_is_no_part_of_the_time_that_one_may_look():
    judges, looked = JudgesApart(1, deadline_s=60.0, wait_s=60.0), Looked()
    try:
        with judges._judge(60.0):
            waiting = threading.Thread(target=judges.form, args=(GOOD,), kwargs={"looked": looked})
            waiting.start()
            time.sleep(2.0)
        waiting.join()
        assert 0.0 < looked.seconds < 1.9
    finally:
        judges.close()
