"""The decorator: what it makes, and which combinations it refuses."""

import inspect
import pickle
import re

import pyarrow as pa
import pytest

from headrace import SliceContext, StateTable, use_case
from headrace.errors import ConfigError
from headrace.model.record_versions import version_of
from headrace.model.restarts import Restart
from headrace.model.state import MOST_STATE
from headrace.model.streams import Guarantee, LaneId, Order, Slice
from headrace.sinks import Email, KafkaTopic, KinesisStream, ParquetFiles, SqlTable
from headrace.testing.records import records

TOPIC = "{tenant}.visits"
TABLE = SqlTable("t", columns={"a": "text"})
VERSIONED = SqlTable(
    "t", columns={"a": "text", "v": "version"}, key=("a",), newest_by="v", key_in_one_lane=True
)
NEWEST = SqlTable(
    "t",
    columns={"id": "text", "at": "version"},
    key=("id",),
    newest_by="at",
    key_in_one_lane=True,
)


def handler(table, _context):
    return table


def test_a_function_becomes_a_use_case_and_can_still_be_called():
    decorate = use_case(topic=TOPIC, sink=TABLE, guarantee="exactly-once", order="stream")
    made = decorate(handler)
    assert made.name == "handler"
    assert (made.guarantee, made.order) == (Guarantee.EXACTLY_ONCE, Order.STREAM)
    assert made("table", "context") == "table"


def test_by_key_a_partition_has_buckets_and_without_order_if_it_is_said():
    def buckets(**options):
        return use_case(topic=TOPIC, sink=TABLE, **options)(handler).divides_by

    assert [buckets(order=order) for order in Order] == [1, 16, 1, 1]
    assert buckets(order="key", buckets=64) == 64
    assert buckets(order="none", buckets=8) == 8


@pytest.mark.parametrize(
    ("sink", "guarantee", "transacts", "intends"),
    [
        (TABLE, "exactly-once", True, False),
        (TABLE, "at-least-once", False, False),
        (ParquetFiles("x"), "exactly-once", False, True),
        (ParquetFiles("x"), "at-most-once", False, False),
    ],
)
def test_the_sink_decides_how_exactly_once_is_done(sink, guarantee, transacts, intends):
    made = use_case(topic=TOPIC, sink=sink, guarantee=guarantee)(handler)
    assert (made.transacts, made.intends) == (transacts, intends)


def test_a_warehouse_says_where_effects_go_only_if_the_sink_writes_there():
    def place(sink):
        return use_case(topic=TOPIC, sink=sink)(handler).within("/warehouse").terms.place

    assert (place(ParquetFiles("x")), place(TABLE)) == ("/warehouse", "")


def test_a_dataframe_use_case_is_exactly_once_by_intent():
    assert use_case(topic=TOPIC, form="wave", guarantee="exactly-once")(handler).intends


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topic": "", "sink": TABLE}, "1 to 249 letters"),
        ({"topic": "all visits", "sink": TABLE}, "1 to 249 letters"),
        ({"topic": None, "sink": TABLE}, "topic None is neither a text, nor a list"),
        ({"topic": [], "sink": TABLE}, "names no topic"),
        ({"topic": ["a", 3], "sink": TABLE}, "topic 3 is neither a text, nor a list"),
        ({"topic": ["a", "b", "a"], "sink": TABLE}, "names a twice"),
        ({"topic": [TOPIC, "b"], "sink": TABLE}, "of each tenant and some of all together"),
        ({"topic": "a,b", "sink": TABLE}, "1 to 249 letters"),
        ({"topic": "{tenant}.a,{tenant}.b", "sink": TABLE}, "1 to 249 letters"),
        ({"topic": ["{tenant}.a", "{tenant} b"], "sink": TABLE}, "1 to 249 letters"),
        ({"topic": "a[0]", "sink": TABLE}, "say a list, topic=['a[0]']"),
        ({"topic": "{tenant}:a", "sink": TABLE}, "before ':' stands the name of a connection"),
        (
            {"topic": ["s:a", "b"], "sink": TABLE},
            "some of its topics are in Kafka and some are not",
        ),
        ({"topic": ["s:a[0]", "s:b"], "sink": TABLE}, "'s:a[0]' is a shard, and shards are split"),
        ({"topic": ["s:a", "s:b"], "sink": TABLE, "order": "stream"}, "only reading tells"),
        (
            {"topic": ["s:a", "s:b"], "sink": KinesisStream("b", at="s")},
            "writes to s:b, which it reads itself",
        ),
        (
            {"topic": "s:a", "sink": TABLE, "order": "key"},
            "take order lane, which keeps that of each key",
        ),
        ({"topic": "s:a", "sink": TABLE, "order": "stream"}, "of s:a only reading tells"),
        ({"topic": "s:a", "form": "wave"}, "form wave needs a log that says where its lanes end"),
        (
            {"topic": "s:a", "sink": TABLE, "restart": "latest", "restart_after_s": 60},
            "restart latest needs a log",
        ),
        ({"topic": "a", "sink": KafkaTopic("a")}, "its results would come back without end"),
        ({"topic": ["a[1]", "b"], "sink": KafkaTopic("a")}, "writes to a, which it reads itself"),
        (
            {"topic": "{tenant}.a", "sink": KafkaTopic("{tenant}.a")},
            "writes to {tenant}.a, which it reads itself",
        ),
        ({"topic": ["a[0]", "a"], "sink": TABLE}, "names a, and a[0] besides"),
        ({"topic": ["a[0]", "a[0]"], "sink": TABLE}, "names a[0] twice"),
        ({"topic": ["a[00]"], "sink": TABLE}, "1 to 249 letters"),
        ({"topic": re.compile("(?P<who>a)"), "sink": TABLE}, "has a group who; the only one"),
        ({"topic": re.compile("a", re.IGNORECASE), "sink": TABLE}, "what it ignores stands in it"),
        ({"topic": re.compile(b"a"), "sink": TABLE}, "what it ignores stands in it"),
        ({"topic": re.compile("{tenant}"), "sink": TABLE}, "say (?P<tenant>...) where the ten"),
        ({"topic": ["a", "b"], "sink": VERSIONED}, "of several topics do not compare"),
        ({"topic": re.compile("a"), "sink": VERSIONED}, "of several topics do not compare"),
        ({"topic": "{tenat}.visits", "sink": TABLE}, "only {tenant} may stand in braces"),
        ({"topic": "{tenant}.{tenant:.2}", "sink": TABLE}, "only {tenant} may stand in braces"),
        ({"topic": "{tenant!r}.{tenant}", "sink": TABLE}, "only {tenant} may stand in braces"),
        ({"topic": TOPIC, "sink": TABLE, "guarantee": "twice"}, "at-most-once, at-least-once"),
        ({"topic": TOPIC, "sink": TABLE, "order": "any"}, "lane, key, stream, none"),
        ({"topic": TOPIC, "sink": TABLE, "buckets": 8}, "for order key and order none"),
        ({"topic": TOPIC, "sink": TABLE, "order": "none", "buckets": 1}, "2 to 64"),
        ({"topic": TOPIC, "sink": TABLE, "order": "none", "buckets": True}, "2 to 64"),
        ({"topic": TOPIC, "form": "wave", "order": "none", "buckets": 4}, "need form slice"),
        (
            {"topic": TOPIC, "sink": NEWEST, "order": "none", "buckets": 4},
            "take order key, or name a column of the data in newest_by",
        ),
        ({"topic": TOPIC, "sink": TABLE, "order": "key", "buckets": 1}, "2 to 64"),
        ({"topic": TOPIC, "sink": TABLE, "order": "key", "buckets": 65}, "2 to 64"),
        ({"topic": TOPIC, "sink": TABLE, "order": "key", "buckets": True}, "2 to 64"),
        ({"topic": TOPIC, "form": "wave", "order": "key"}, "a DataFrame has no order"),
        (
            {
                "topic": TOPIC,
                "sink": KafkaTopic("{tenant}.o", transactional=True),
                "guarantee": "exactly-once",
                "order": "key",
            },
            "by the offsets of partitions",
        ),
        (
            {
                "topic": TOPIC,
                "sink": KafkaTopic("{tenant}.o", transactional=True),
                "guarantee": "exactly-once",
                "order": "none",
                "buckets": 4,
            },
            "order none divides these",
        ),
        ({"topic": TOPIC}, "needs a sink"),
        ({"topic": TOPIC, "sink": TABLE, "form": "wave"}, "takes no sink"),
        ({"topic": TOPIC, "sink": TABLE, "form": "row"}, "slice, wave"),
        ({"topic": TOPIC, "sink": TABLE, "event_time": "/at"}, "such as json_time"),
        ({"topic": TOPIC, "sink": TABLE, "name": "No Name"}, "lower-case letters"),
        (
            {"topic": TOPIC, "sink": Email(sender="a@b.c"), "guarantee": "exactly-once"},
            "Email cannot do exactly-once",
        ),
        (
            {"topic": TOPIC, "sink": KafkaTopic("{tenant}.o"), "guarantee": "exactly-once"},
            "KafkaTopic cannot do exactly-once",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(options, told):
    with pytest.raises(ConfigError) as caught:
        use_case(**options)(handler)
    assert told in str(caught.value)


def test_a_word_that_it_does_not_know_is_refused_by_name():
    with pytest.raises(TypeError, match="nmae"):
        use_case(topic=TOPIC, sink=TABLE, nmae="x")


def test_what_becomes_of_streams_that_nobody_read_is_said_or_is_nothing():
    options = {"topic": TOPIC, "sink": TABLE}
    assert use_case(**options)(handler).restart is None
    made = use_case(**options, restart="latest", restart_after_s=300, max_age_s=60)(handler)
    assert made.restart == Restart(300.0, 60.0)
    for said, told in (
        ({"restart": "newest"}, "restart 'newest' is none of position, latest"),
        ({"restart": "latest"}, "it needs restart_after_s"),
        ({"restart_after_s": 5}, "restart_after_s is for restart latest"),
        ({"restart": "latest", "restart_after_s": "5m"}, "a number of seconds above 0, not '5m'"),
    ):
        with pytest.raises(ConfigError) as caught:
            use_case(**options, **said)(handler)
        assert told in str(caught.value)


def test_its_signature_names_everything_that_can_be_said():
    told = inspect.signature(use_case).parameters
    assert {parameter.kind for parameter in told.values()} == {inspect.Parameter.KEYWORD_ONLY}
    text = inspect.getdoc(use_case)
    assert [name for name in told if f"    {name}: " not in text] == []


@pytest.mark.parametrize("depths", [(0, 0), (3, 3), (1, 2)])
def test_records_have_versions_by_the_depth_of_their_lanes(depths):
    slices = tuple(
        Slice(LaneId("score", "acme", f"acme.visits[{at}]"), "acme.visits", 0, 9, 1, depth=depth)
        for at, depth in enumerate(depths)
    )
    rows = [(0, 5), (1, 0), (0, 8)]
    table = pa.table(
        {
            "topic": ["acme.visits"] * len(rows),
            "partition": pa.array([at for at, _ in rows], pa.int32()),
            "offset": pa.array([offset for _, offset in rows], pa.int64()),
        }
    )
    found = SliceContext("score", "acme", slices).versions(table)
    assert found.type == pa.int64()
    assert found.to_pylist() == [version_of(depths[at], offset) for at, offset in rows]


def test_lanes_without_numbers_have_versions_by_what_their_records_say():
    deep = {"shard-a": 0, "shard-b": 1}
    slices = tuple(
        Slice(LaneId("score", "acme", name), "acme.visits", 0, 9, 1, depth=depth)
        for name, depth in deep.items()
    )
    said = {("acme.visits", 4): "shard-a", ("acme.visits", 7): "shard-b"}
    table = pa.concat_tables([records([b"x"], partition=7), records([b"x"], partition=4)])
    found = SliceContext("score", "acme", slices, unnumbered=said).versions(table)
    assert found.to_pylist() == [version_of(1, 0), version_of(0, 0)]


def test_a_list_of_topics_is_one_text_whatever_the_order_and_one_topic_is_its_name():
    def read(*topics):
        return use_case(topic=topics, sink=TABLE)(handler).topic

    assert read("{tenant}.visits", "{tenant}.clicks") == "{tenant}.clicks,{tenant}.visits"
    assert read("{tenant}.clicks", "{tenant}.visits") == "{tenant}.clicks,{tenant}.visits"
    assert read("b[10]", "b[2]", "a") == "a,b[2],b[10]"
    assert read(TOPIC) == TOPIC


SEEN = StateTable("seen", pa.schema([("user", pa.string())]), key="user")
BY_LANE = StateTable("seen", SEEN.columns, key="user", scope="lane")


def stateful(**options):
    given = {"topic": "{tenant}.visits", "sink": TABLE, "order": "key", "state": [SEEN]}
    return use_case(**(given | options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": [SEEN, SEEN]}, "state names table seen twice"),
        ({"state": ["seen"]}, "state is a list of StateTable"),
        ({"max_state_rows": 0}, "max_state_rows is a whole number above 0, not 0"),
        ({"max_state_bytes": 1.5}, "max_state_bytes is a whole number above 0, not 1.5"),
        ({"max_state_rows": True}, "max_state_rows is a whole number above 0, not True"),
        ({"state": [], "max_state_rows": 9}, "are for a use case with state"),
        ({"order": "lane"}, 'scope="lane"'),
        ({"order": "key", "state": [BY_LANE]}, 'take scope="key", or order lane'),
        ({"order": "none"}, "order none has none whose records come one after the other"),
        ({"order": "stream"}, "order stream has none whose records come one after the other"),
        ({"form": "wave", "sink": None, "order": "lane"}, "state needs form slice"),
        ({"guarantee": "exactly-once", "sink": ParquetFiles("visits")}, "ParquetFiles cannot"),
        (
            {"guarantee": "exactly-once", "sink": SqlTable("v", {"user": "text"}, at="other")},
            "SqlTable of the store's database",
        ),
        (
            {"topic": "clicks:{tenant}.visits", "order": "lane", "state": [BY_LANE]},
            "state needs a log that says where its lanes end",
        ),
    ],
)
def test_state_that_would_race_or_be_wrong_is_refused_by_name(options, message):
    with pytest.raises(ConfigError) as refused:
        stateful(**options)(handler)
    assert message in str(refused.value)


def test_state_of_calls_beside_each_other_is_refused():
    async def waits(record, _context):
        return record

    with pytest.raises(ConfigError, match="an async def go on beside each other"):
        stateful(output=pa.schema([("user", pa.string())]))(waits)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"guarantee": "exactly-once"},
        {"order": "lane", "state": [BY_LANE]},
        {"guarantee": "at-most-once"},
        {"sink": ParquetFiles("visits"), "bad_record": "dead-letter"},
    ],
)
def test_state_that_can_be_had_is_taken(options):
    made = stateful(**options)(handler)
    assert made.state == tuple(options.get("state", [SEEN]))
    assert [made.commits, made.transacts, made.claims].count(True) == 1
    assert not made.claims_first
    again = pickle.loads(pickle.dumps(made.state))
    assert again == made.state


def test_a_tenant_may_have_as_much_state_as_its_use_case_says():
    assert stateful()(handler).most_state == MOST_STATE
    assert stateful(max_state_rows=5)(handler).most_state == (5, MOST_STATE.bytes)
    assert stateful(max_state_bytes=2**40)(handler).most_state == (MOST_STATE.rows, 2**40)
