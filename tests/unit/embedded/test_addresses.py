"""Ports: free ones, taken ones."""

import socket

import pytest

from headrace.embedded.addresses import HOST, answers, free_ports, refuse_taken_port
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
