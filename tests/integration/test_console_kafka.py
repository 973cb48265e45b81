"""Decisions by HTTP on a real broker: skip, redrive and seek do what they say."""

import time
import uuid
from contextlib import closing
from dataclasses import replace

import httpx
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from headrace.connectors.kafka import create_topics
from headrace.console.api import ApiParts, create_app
from headrace.console.opening import console_serving
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.doors.serving import Listening
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.topic_names import dead_letters_topic
from headrace.operating.tools import KafkaTools
from headrace.ports import Connections
from headrace.process.clock import SystemClock
from headrace.store import open_store
from headrace.testing.log_fake import Row

pytestmark = pytest.mark.kafka
SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def tenant(topics):
    """A tenant with five records in its topic."""
    name = f"acme-{uuid.uuid4().hex[:8]}"
    create_topics(topics.config, {f"{name}.visits": 1})
    topics.write(f"{name}.visits", 0, [Row(b"%d" % number) for number in range(5)])
    return name


@pytest.fixture
def store(tenant, tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
        store.registry.add_tenant(Tenant(tenant))
        store.progress.start_lanes(
            [LaneStart(StreamId("score", tenant), "id", {f"{tenant}.visits[0]": 3})]
        )
        yield store


@pytest.fixture
def api(store, topics):
    text, key = new_key(Role.OPERATOR, None, "", SECRET, time.time())
    store.keys.add(key)
    tools = KafkaTools(Connections(topics.config, "", seal_key=store.seal_key()))
    app = create_app(ApiParts(store, tools, Guard(store.keys, SECRET), SECRET, SystemClock()))
    headers = {"Authorization": f"Bearer {text}"}
    with (
        console_serving(app, Listening("127.0.0.1", 0)) as url,
        httpx.Client(base_url=url, headers=headers, timeout=60) as client,
    ):
        yield client


def failed(store, tenant):
    error = SliceError(False, "HandlerError", "no", offset=3, raw_value=b"3", raw_key=b"k")
    error = replace(error, timestamp_ms=1_700_000_000_123)
    piece = Slice(LaneId("score", tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 3, 5, 1)
    return store.failures.keep([Failure(piece, error, 5.0, behind=4)])[0]


def position(store, tenant):
    (found,) = store.progress.load_positions([StreamId("score", tenant)])
    return found.next_offset


def test_a_skipped_record_is_kept_and_a_redrive_sends_it_back_once(api, store, topics, tenant):
    skipped = api.post(f"/v1/failures/{failed(store, tenant)}/skip")
    assert (skipped.json()["next_offset"], position(store, tenant)) == ("4", 4)
    (letter,) = topics.messages(dead_letters_topic(f"{tenant}.visits"))
    assert (letter.key(), letter.value()) == (b"k", b"3")
    assert letter.timestamp() == (TIMESTAMP_CREATE_TIME, 1_700_000_000_123)
    path = f"/v1/streams/{tenant}/score/redrive"
    assert api.post(path, json={"dry_run": True}).json()["sent"] == 1
    assert api.post(path).json() == {
        "sent": 1,
        "refused": [],
        "left": 0,
        "topics": [f"{tenant}.visits"],
        "dead_letters": [dead_letters_topic(f"{tenant}.visits")],
    }
    assert api.post(path).json()["sent"] == 0
    values = [message.value() for message in topics.messages(f"{tenant}.visits")]
    assert values == [b"0", b"1", b"2", b"3", b"4", b"3"]


def test_a_seek_goes_where_the_topic_is_and_nowhere_else(api, store, tenant):
    path = f"/v1/streams/{tenant}/score/positions"
    assert api.put(path, json={"offsets": {"0": 1}}).json()["offsets"] == {"0": "1"}
    assert position(store, tenant) == 1
    refused = api.put(path, json={"offsets": {"0": 6}})
    assert refused.status_code == 409
    assert "holds offsets 0 to 5" in refused.json()["detail"]
    assert position(store, tenant) == 1


def test_a_seek_in_a_topic_that_is_gone_is_refused(api, store, topics, tenant):
    topics.delete(f"{tenant}.visits")
    answer = api.put(f"/v1/streams/{tenant}/score/positions", json={"offsets": {"0": 1}})
    assert answer.status_code == 409
    assert position(store, tenant) == 3
