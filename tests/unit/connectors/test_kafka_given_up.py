"""Kafka clients are ended beside whoever gives them up."""

import threading
import time

from headrace.connectors.kafka.clients import end_clients


class _Client:
    """One whose end may wait for brokers."""

    def __init__(self, free: threading.Event, ended: threading.Event) -> None:
        self.free, self.ended = free, ended

    def __del__(self) -> None:
        self.free.wait(30)
        self.ended.set()


def test_clients_are_ended_before_it_returns():
    free, ended = threading.Event(), threading.Event()
    free.set()
    clients = [_Client(free, ended)]
    assert end_clients(clients, 60.0)
    assert ended.is_set()
    assert clients == []


def test_one_that_waits_for_brokers_is_left_behind():
    free, ended = threading.Event(), threading.Event()
    began_s = time.monotonic()
    assert not end_clients([_Client(free, ended)], 0.05)
    assert time.monotonic() - began_s < 20.0
    assert not ended.is_set()
    free.set()
    assert ended.wait(60)
