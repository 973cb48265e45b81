"""Who lives and who is ready, and what a supervisor makes of it."""

import json
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError
from headrace.fleet import health
from headrace.fleet.health import LIVE_S, START_S, HealthAnswer, Pulse, answering, ask
from headrace.fleet.probe import SILENT_S, TIMES, ProbedProcess
from headrace.fleet.states import Lacks, Ready, Unhealthy
from headrace.model.statistics import Missing
from headrace.testing.clock import FakeClock

READY, NOT_READY = HealthAnswer(200, {"missing": []}), HealthAnswer(503, {"missing": []})


def pulse_and_clock():
    clock = FakeClock()
    return Pulse("d-0", clock.monotonic_s), clock


def test_one_that_starts_is_live_for_long_and_not_ready():
    pulse, clock = pulse_and_clock()
    clock.move(START_S - 1)
    assert pulse.live()[0]
    assert not pulse.ready()[0]
    clock.move(1)
    assert not pulse.live()[0]


def test_one_that_turned_has_a_minute_for_the_next_turn():
    pulse, clock = pulse_and_clock()
    pulse.turned(ready=True)
    clock.move(LIVE_S - 1)
    assert pulse.live()[0]
    assert pulse.ready()[0]
    clock.move(1)
    assert not pulse.live()[0]
    assert not pulse.ready()[0]


def test_one_that_drains_is_live_and_not_ready():
    pulse, _ = pulse_and_clock()
    pulse.turned(ready=True)
    pulse.turned(ready=False)
    assert pulse.live()[0]
    assert not pulse.ready()[0]


def test_whoever_asks_by_http_is_told():
    pulse, _ = pulse_and_clock()
    (port,) = free_ports(1)
    with answering(pulse, port):
        statuses = [ask(port, path).status for path in ("/livez", "/readyz", "/")]
        assert statuses == [200, 503, 404]
        pulse.turned(ready=True, facts={"drivers": {"d-0": "ready"}})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            told = json.load(answer)
        assert ask(port, "/readyz") == (200, told)
    assert told == {
        "name": "d-0",
        "turned_s_ago": 0.0,
        "drivers": {"d-0": "ready"},
        "ready": True,
    }
    assert ask(port, "/livez") is None


def test_however_many_connect_there_are_few_threads_and_a_probe_is_answered():
    pulse, _ = pulse_and_clock()
    (port,) = free_ports(1)
    threads, before = [], threading.active_count()
    with answering(pulse, port), ExitStack() as stack:
        for _ in range(100):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10.0))
            slow.sendall(b"GET /livez HTTP/1.1\r\nX-A: ")
            threads.append(threading.active_count())
        assert ask(port, "/livez").status == 200
    assert max(threads) - before <= 1 + 32


def test_a_connection_that_drips_is_closed_when_its_time_is_over(monkeypatch):
    monkeypatch.setattr(health, "_REQUEST_S", 0.3)
    pulse, _ = pulse_and_clock()
    (port,) = free_ports(1)
    with answering(pulse, port), socket.create_connection(("127.0.0.1", port), 10.0) as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nX-A: ")
        until_s = time.monotonic() + 10
        with suppress(OSError):
            while time.monotonic() < until_s:
                slow.sendall(b"a")
                time.sleep(0.05)
        assert time.monotonic() < until_s


def test_a_port_that_is_taken_is_named():
    pulse, _ = pulse_and_clock()
    (port,) = free_ports(1)
    with (
        answering(pulse, port),
        pytest.raises(ServerError, match=f"127.0.0.1:{port}.*--health-port"),
        answering(pulse, port),
    ):
        pass


def watched():
    return ProbedProcess(index=0, pid=7, port=1, since_s=0.0)


def test_ready_is_told_once():
    driver = watched()
    assert driver.heard(None, None, 1) is None
    assert driver.heard(NOT_READY, 200, 2) is None
    assert driver.heard(READY, None, 3) == Ready(0)
    assert driver.heard(READY, None, 4) is None


def test_what_a_driver_is_without_is_told_once_and_so_is_its_return():
    driver, store = watched(), Missing("store", 5.0)
    assert driver.heard(READY, None, 1) == Ready(0)
    lacking = HealthAnswer(503, {"missing": [{"what": "store", "since_s": 5}]})
    assert driver.heard(lacking, 200, 2) == Lacks(0, (store,))
    assert driver.heard(lacking, 200, 3) is None
    both = [*lacking.facts["missing"], {"what": "kafka", "since_s": 9}]
    found = driver.heard(HealthAnswer(503, {"missing": both}), 200, 4)
    assert found == Lacks(0, (store, Missing("kafka", 9.0)))
    assert driver.heard(READY, None, 5) == Ready(0)
    assert driver.heard(READY, None, 6) is None


def test_one_that_starts_says_what_it_is_without_and_is_ready_later():
    driver = watched()
    lacking = HealthAnswer(503, {"missing": [{"what": "kafka", "since_s": 5}]})
    assert driver.heard(lacking, 200, 1) == Lacks(0, (Missing("kafka", 5.0),))
    assert driver.heard(NOT_READY, 200, 2) == Lacks(0, ())
    assert driver.heard(READY, None, 3) == Ready(0)


@pytest.mark.parametrize("said", [None, 7, "store", [7], [{"what": "store"}], [{"since_s": "x"}]])
def test_of_an_answer_that_cannot_be_understood_the_status_counts(said):
    driver = watched()
    assert driver.heard(READY, None, 1) == Ready(0)
    assert driver.heard(HealthAnswer(503, {"missing": said}), 200, 2) is None


def test_one_whose_loop_hangs_is_unhealthy_when_it_says_so_several_times():
    driver = watched()
    driver.heard(READY, None, 1)
    found = [driver.heard(NOT_READY, 503, 1 + turn) for turn in range(1, TIMES + 1)]
    assert found[:-1] == [None] * (TIMES - 1)
    assert isinstance(found[-1], Unhealthy)


def test_one_that_answers_again_in_between_is_healthy():
    driver = watched()
    for turn in range(10):
        assert driver.heard(NOT_READY, 503, turn) is None
        assert driver.heard(NOT_READY, 503, turn) is None
        assert driver.heard(NOT_READY, 200, turn) is None


def test_silence_is_forgiven_for_a_while():
    driver = watched()
    driver.heard(READY, None, 10)
    for second in range(11, 10 + int(SILENT_S)):
        assert driver.heard(None, None, second) is None
    assert isinstance(driver.heard(None, None, 10 + SILENT_S), Unhealthy)


def test_after_a_sleep_of_the_machine_one_missed_answer_is_no_death():
    driver = watched()
    driver.heard(READY, None, 10)
    assert driver.heard(None, None, 10_000) is None
    assert driver.heard(READY, None, 10_001) is None
    assert driver.heard(None, None, 20_000) is None
