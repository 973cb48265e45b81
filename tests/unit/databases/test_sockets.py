"""Connections whose waits end with the time of their thread."""

import http.client
import socket
import threading
import time

import pytest

from headrace.databases.deadline import Deadline
from headrace.databases.sockets import connecting_in_time


@pytest.fixture
def nobody_answers(monkeypatch):
    """A name server that is silent."""
    answered = threading.Event()

    def asked(*_, **__):
        answered.wait(30)
        raise socket.gaierror("answered at last")

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    yield
    answered.set()


def test_a_silent_name_server_is_waited_for_no_longer_than_there_is_time(nobody_answers):
    deadline = Deadline()
    connection = connecting_in_time(http.client.HTTPConnection, deadline)("search.example", 80)
    with deadline.until(time.monotonic() + 0.1), pytest.raises(TimeoutError):
        connection.connect()
