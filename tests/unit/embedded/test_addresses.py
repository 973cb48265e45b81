"""Ports: free ones, taken ones."""

import os
import socket

import pytest

from headrace.embedded.addresses import (
    HOST,
    answers,
    free_ports,
    lasting_port,
    refuse_taken_port,
    taken_by,
)
from headrace.errors import ServerError


@pytest.fixture
def listener():
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_free_ports_are_different_and_free():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        refuse_taken_port(port, "test")


def test_a_taken_port_is_refused_with_server_and_port(listener):
    with pytest.raises(ServerError, match=f"the test cannot listen on {HOST}:{listener}"):
        refuse_taken_port(listener, "the test")


def test_a_port_that_cannot_be_is_refused():
    with pytest.raises(ServerError, match="70000"):
        refuse_taken_port(70000, "the test")


def test_a_port_answers_while_somebody_listens(listener):
    assert answers(listener)
    assert not answers(free_ports(1)[0])


def test_who_has_a_port_is_told_without_what_stands_on_his_command_line(listener):
    told = taken_by(listener)
    assert told.startswith(f"process {os.getpid()} (")
    assert told.endswith(f" in {os.getcwd()})")
    assert "pytest -" not in told


def test_of_a_port_that_nobody_has_nobody_is_named():
    assert taken_by(free_ports(1)[0]) == "a process that is not ours to see"


def test_a_port_that_lasts_is_free_and_the_same_for_the_same_seed():
    port = lasting_port("seed")
    assert lasting_port("seed") == port
    with socket.create_server((HOST, port)):
        assert lasting_port("seed") != port
