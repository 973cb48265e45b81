"""The Kinesis that `up` can start: its streams, its errors and its end."""

import re
import time
from contextlib import closing
from pathlib import Path

import boto3
import pytest
from owner_killed import answers_without_its_owner

import kinesis_server
from headrace.cli.servers import folder_of, remember
from headrace.connectors.by_topic import open_log
from headrace.embedded import EmbeddedKinesis
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError
from headrace.ports import Connections, Server


@pytest.fixture(autouse=True)
def program():
    return kinesis_server.needed()


def client_of(server):
    return boto3.client(
        "kinesis",
        region_name="eu-central-1",
        endpoint_url=server.endpoint,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def until_written(folder, name):
    """It writes what it has every second."""
    deadline_s = time.monotonic() + 60
    while not any(name in path.read_text() for path in folder.iterdir()):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_streams_are_kept_over_a_stop_and_a_connection_finds_them(tmp_path):
    server = EmbeddedKinesis(tmp_path / "kinesis", *free_ports(1))
    try:
        server.start()
        url = server.url
        client = client_of(server)
        client.create_stream(StreamName="acme.visits", ShardCount=2)
        client.get_waiter("stream_exists").wait(StreamName="acme.visits", WaiterConfig={"Delay": 1})
        until_written(tmp_path / "kinesis" / "data", "acme.visits")
        server.stop()
        assert not server.running
        server.start()
        assert server.url == url
        connections = Connections(
            {"bootstrap.servers": "127.0.0.1:1"},
            "",
            servers={"here": Server(url, "local", "local")},
        )
        with closing(open_log(connections, asks_once=True)) as log:
            found = log.topics(["here:acme.visits"])
        assert found["here:acme.visits"].lanes == ("here:acme.visits[0]", "here:acme.visits[1]")
    finally:
        server.stop()


def test_the_pages_program_puts_its_record(kinesis, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "kinesis.md").read_text()
    program = re.search(r"```python\n(# put\.py\n.*?)```", page, re.DOTALL)[1]
    assert program.count("acme.visits") == 3
    monkeypatch.chdir(tmp_path)
    remember(folder_of(tmp_path), {"kinesis_url": kinesis.embedded.url})
    stream = f"put-{tmp_path.name}"
    exec(program.replace("acme.visits", stream), {})
    client = client_of(kinesis.embedded)
    shards = client.list_shards(StreamName=stream)["Shards"]
    assert [one["Data"] for shard in shards for one in _records(client, stream, shard)] == [b"/a"]
    client.delete_stream(StreamName=stream)


def _records(client, stream, shard):
    begin = {"ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    at = client.get_shard_iterator(StreamName=stream, **begin)["ShardIterator"]
    return client.get_records(ShardIterator=at)["Records"]


def test_a_taken_port_is_refused(kinesis, tmp_path):
    with pytest.raises(ServerError, match=r"Kinesis cannot listen on"):
        EmbeddedKinesis(tmp_path, port=kinesis.embedded.port).start()


def test_it_ends_with_who_started_it(tmp_path):
    assert not answers_without_its_owner(EmbeddedKinesis, tmp_path)
