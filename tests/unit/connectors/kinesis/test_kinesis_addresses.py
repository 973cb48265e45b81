"""What may be said of a Kinesis, and that nothing secret of it shows."""

import pickle

import pytest

from headrace.connectors.kinesis import KinesisLog, KinesisReaderFactory
from headrace.connectors.kinesis.clients import Address, KinesisClients, address_of, client_of
from headrace.errors import ConfigError
from headrace.ports import Connections, Server

SECRET = "wJalrXUtnFEMI"


def connections(url="kinesis://eu-central-1", user="AKIA", password=SECRET):
    return Connections({}, "", servers={"stream": Server(url, user, password)})


def test_an_address_is_a_region_and_what_else_is_said():
    url = "kinesis://eu-central-1?endpoint=http%3A%2F%2F127.0.0.1%3A4568"
    found = address_of(Server(url, "AKIA", SECRET), "stream")
    assert found == Address("eu-central-1", "http://127.0.0.1:4568", None, None, "AKIA", SECRET)


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("dynamodb://eu-central-1", None, None),
        ("kinesis://", None, None),
        ("kinesis://eu-central-1/stream", None, None),
        ("kinesis://AKIA:secret@eu-central-1", None, None),
        ("kinesis://eu-central-1?endpoint=ftp%3A%2F%2Fhost", None, None),
        ("kinesis://eu-central-1?endpoint=http%3A%2F%2Fme%3Asecret%40host", None, None),
        ("kinesis://eu-central-1?role=headrace", None, None),
        ("kinesis://eu-central-1?role=arn:aws:iam::1:user/secret", None, None),
        ("kinesis://eu-central-1?role=arn:aws:iam::123456789012:role/{tenant}", None, None),
        ("kinesis://eu-central-1", "AKIA", None),
        ("kinesis://eu-central-1", None, "secret"),
    ],
)
def test_another_is_refused_and_not_quoted(url, user, password):
    with pytest.raises(ConfigError, match="connection stream is no Kinesis") as caught:
        address_of(Server(url, user, password), "stream")
    assert "secret" not in str(caught.value)


def test_a_client_is_made_where_it_is_needed_and_asks_nobody():
    clients = pickle.loads(pickle.dumps(KinesisClients("stream")))
    clients(connections()).close()
    client = client_of(address_of(connections().server("stream"), "stream"), "here")
    assert client.meta.region_name == "eu-central-1"
    client.close()
    with pytest.raises(ConfigError, match="no connection 'nowhere'"):
        KinesisClients("nowhere")(connections())


def test_the_environment_may_say_where_it_is(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    client = client_of(address_of(connections().server("stream"), "stream"), "here")
    assert client.meta.endpoint_url == "http://127.0.0.1:9"
    client.close()


def test_nothing_secret_shows():
    clients = KinesisClients("stream")
    client = clients(connections())
    shown = [
        repr(KinesisLog(client)),
        repr(KinesisReaderFactory(clients)),
        repr(KinesisReaderFactory(clients).open(connections())),
        repr(address_of(connections().server("stream"), "stream")),
    ]
    assert not any(SECRET in text or "AKIA" in text for text in shown)
    client.close()
