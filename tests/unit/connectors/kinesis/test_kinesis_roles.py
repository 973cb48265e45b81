"""Each tenant's stream is read as its own role, which moto's token service lends.

A role's account is what tells them apart: of one account nothing shows in another.
"""

import io
import logging
import threading
from contextlib import closing
from urllib.parse import parse_qs

import boto3
import pytest
from botocore.loaders import JSONFileLoader
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from headrace.connectors.kept_servers import MOST_OF_TENANTS
from headrace.connectors.kinesis import KinesisLog, by_connection
from headrace.connectors.kinesis.by_connection import KinesisByConnection
from headrace.connectors.kinesis.clients import address_of, client_of
from headrace.connectors.kinesis.sink import service_of
from headrace.errors import BrokerUnavailable
from headrace.ports import Connections, Server
from headrace.testing.clock import FakeClock
from headrace.testing.kinesis.service import FakeKinesis

SECRET = "wJalrXUtnFEMI"
ACME, BOLT = "111111111111", "222222222222"
DENIED = (
    b"<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>User: me is not "
    b"authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>"
)


class Aws:
    """Moto's Kinesis and token service on a port; a context manager."""

    def __init__(self):
        #: roles that were asked for
        self.asked = []
        #: roles that are not lent
        self.denied = set()
        self._app = DomainDispatcherApplication(create_backend_app)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._http = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._http.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._http.shutdown()
        self._http.server_close()

    def client(self, account):
        """A client for Kinesis of an account."""
        key = {"region_name": "eu-central-1", "endpoint_url": self.endpoint}
        me = {"aws_access_key_id": "me", "aws_secret_access_key": SECRET}
        with closing(boto3.client("sts", **key, **me)) as sts:
            lent = sts.assume_role(
                RoleArn=f"arn:aws:iam::{account}:role/setup", RoleSessionName="setup"
            )["Credentials"]
        self.asked.clear()
        return boto3.client(
            "kinesis",
            **key,
            aws_access_key_id=lent["AccessKeyId"],
            aws_secret_access_key=lent["SecretAccessKey"],
            aws_session_token=lent["SessionToken"],
        )

    def _answer(self, environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if b"Action=AssumeRole" in body:
            (role,) = parse_qs(body.decode())["RoleArn"]
            self.asked.append(role)
            if role in self.denied:
                start("403 No", [("Content-Type", "text/xml")])
                return [DENIED]
        return self._app(environ, start)


@pytest.fixture(scope="module")
def aws():
    with Aws() as made:
        for account in (ACME, BOLT):
            with closing(made.client(account)) as client:
                client.create_stream(StreamName=f"{account}.visits", ShardCount=1)
                client.put_record(
                    StreamName=f"{account}.visits", Data=account.encode(), PartitionKey="k"
                )
        yield made


@pytest.fixture(autouse=True)
def _here(aws, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint)
    aws.asked.clear()
    aws.denied.clear()


def role_of(tenant):
    return f"arn:aws:iam::{tenant}:role/headrace"


def connections():
    return Connections(
        {},
        "",
        servers={
            "clicks": Server(f"kinesis://eu-central-1?role={role_of('{tenant}')}", "AKIA", SECRET),
            "ours": Server("kinesis://eu-central-1", "AKIA", SECRET),
            "acme": Server(f"kinesis://eu-central-1?role={role_of(ACME)}", "AKIA", SECRET),
        },
    )


@pytest.fixture
def client():
    with closing(KinesisByConnection(connections())) as made:
        yield made


def first_of(client, stream):
    """The first record of a stream."""
    begin = {"ShardId": "shardId-000000000000", "ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(StreamName=stream, **begin)["ShardIterator"]
    answer = client.get_records(ShardIterator=iterator, Limit=1)
    again = client.get_records(ShardIterator=answer["NextShardIterator"], Limit=1)
    assert again["Records"] == []
    return answer["Records"][0]["Data"]


def test_each_tenants_stream_is_read_as_its_own_role(client, aws):
    for tenant in (ACME, BOLT):
        assert first_of(client, f"clicks:{tenant}.visits") == tenant.encode()
    assert aws.asked == [role_of(ACME), role_of(BOLT)]


def test_a_role_may_be_one_for_all(client, aws):
    with closing(KinesisLog(client, FakeClock())) as log:
        found = log.topics([f"acme:{ACME}.visits", f"acme:{BOLT}.visits", f"ours:{ACME}.visits"])
    assert found.keys() == {f"acme:{ACME}.visits"}
    assert aws.asked == [role_of(ACME)]


def test_a_log_lists_streams_of_several_accounts(client):
    topics = [f"clicks:{tenant}.visits" for tenant in (ACME, BOLT)]
    with closing(KinesisLog(client, FakeClock())) as log:
        found = log.topics(topics)
    accounts = [found[topic].topic_id.split(":")[4] for topic in topics]
    assert accounts == [ACME, BOLT]


def test_who_may_not_have_its_role_waits_and_the_others_do_not(client, aws, caplog):
    aws.denied.add(role_of(ACME))
    with closing(KinesisLog(client, FakeClock())) as log:
        topics = [f"clicks:{tenant}.visits" for tenant in (ACME, BOLT)]
        assert log.topics(topics).keys() == {topics[1]}
        with pytest.raises(BrokerUnavailable, match=r"a right is missing: .* sts:AssumeRole") as no:
            log.topics(topics[:1])
        aws.denied.clear()
        assert log.topics(topics).keys() == set(topics)
    for told in (str(no.value), caplog.text, repr(client), repr(log)):
        assert not any(word in told for word in (SECRET, "AKIA", "Token"))


def test_a_token_service_that_is_away_is_told(client, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    with (
        closing(KinesisLog(client, FakeClock())) as log,
        pytest.raises(BrokerUnavailable, match="Kinesis does not answer"),
    ):
        log.topics([f"clicks:{ACME}.visits"])


def test_who_has_nothing_to_show_is_told(monkeypatch, aws):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    server = Server(f"kinesis://eu-central-1?role={role_of(ACME)}")
    with (
        closing(KinesisByConnection(Connections({}, "", servers={"acme": server}))) as client,
        closing(KinesisLog(client, FakeClock())) as log,
        pytest.raises(BrokerUnavailable, match="Unable to locate credentials"),
    ):
        log.topics([f"acme:{ACME}.visits"])
    assert aws.asked == []


def test_a_sink_writes_to_each_tenants_stream_as_its_role(aws):
    given = connections()
    for tenant in (ACME, BOLT):
        service = service_of(given, "clicks", tenant)
        told = service.asked("describe_stream_summary", {"StreamName": f"{tenant}.visits"})
        assert told["StreamDescriptionSummary"]["StreamARN"].split(":")[4] == tenant
    assert aws.asked == [role_of(ACME), role_of(BOLT)]


def test_of_many_tenants_some_clients_are_given_up(monkeypatch):
    made, closed = [], []

    class Client(FakeKinesis):
        def close(self):
            closed.append(self)

    def opened(address, where):
        made.append(address.role)
        client = Client(FakeClock(), page=1)
        for number in range(MOST_OF_TENANTS + 10):
            client.create_stream(StreamName=f"t{number}.visits", ShardCount=2)
        return client

    monkeypatch.setattr(by_connection, "in_time", opened)
    url = "kinesis://eu-central-1?role=arn:aws:iam::123456789012:role/headrace-{tenant}"
    with closing(KinesisByConnection(Connections({}, "", servers={"c": Server(url)}))) as client:
        for number in range(MOST_OF_TENANTS + 10):
            page = client.list_shards(StreamName=f"c:t{number}.visits")
            more = client.list_shards(NextToken=page["NextToken"])
            shards = [shard["ShardId"] for shard in (*page["Shards"], *more["Shards"])]
            assert shards == ["shardId-000000000000", "shardId-000000000001"]
        assert len(made) - len(closed) == MOST_OF_TENANTS
    assert made[:2] == [f"arn:aws:iam::123456789012:role/headrace-t{number}" for number in range(2)]
    assert len(closed) == len(made)


def test_what_clients_know_of_the_service_is_read_once(monkeypatch):
    given, read = connections(), []
    addresses = [address_of(given.server(name), name) for name in ("ours", "acme", "acme")]
    client_of(addresses[0], "ours").close()
    load = JSONFileLoader.load_file
    monkeypatch.setattr(JSONFileLoader, "load_file", lambda *what: read.append(what) or load(*what))
    for address in addresses:
        client_of(address, "one of them").close()
    assert read == []
