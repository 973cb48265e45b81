"""Whose a record is, what becomes of one that is nobody's, and what passes on."""

import pyarrow as pa
import pytest

from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.errors import BadRecord, ConfigError
from headrace.model.everyone import EVERYONE
from headrace.model.streams import LaneId, Slice, Stream, StreamId
from headrace.operating.repeats import repeated
from headrace.operating.topics import wanted_topics
from headrace.ports import RECORD_SCHEMA, NoTenants
from headrace.sinks import KafkaTopic
from headrace.splitting import ByField, ByHeader, ByKey, Topic, split
from headrace.use_cases import SliceContext, use_case

TENANTS = {"acme", "bolt", "shared"}


class Known(NoTenants):
    """Some tenants."""

    asked = ()

    def there(self, names):
        Known.asked = list(names)
        return frozenset(names) & TENANTS


def _pair(tenant, **more):
    given = {"topic": "{tenant}.all", "operator": "shared", "to": "{tenant}.visits"}
    return split(**given | {"tenant": tenant} | more)


def _records(*rows):
    """Records by key, value and headers."""
    return pa.Table.from_pylist(
        [
            {
                "topic": "shared.all",
                "partition": 0,
                "offset": 40 + at,
                "timestamp": 1_000 + at,
                "key": key,
                "value": value,
                "headers": [{"key": name, "value": text} for name, text in headers],
            }
            for at, (key, value, headers) in enumerate(rows)
        ],
        RECORD_SCHEMA,
    )


def _divided(made, records, tenant="shared"):
    piece = Slice(LaneId("split", tenant, "shared.all[0]"), "shared.all", 40, 50, epoch=1)
    return made.by_tenant(records, SliceContext("split", tenant, (piece,), tenants=Known()))


def _by(tenant, *rows):
    made = _pair(tenant, unknown=Topic("strangers"))
    return _divided(made, _records(*rows))["tenant"].to_pylist()


def test_a_key_a_header_or_a_field_says_whose_a_record_is():
    assert _by(ByKey(), (b"acme", b"", []), (b"bolt", b"", [])) == ["acme", "bolt"]
    header = [("trace", b"1"), ("of", b"bolt")]
    assert _by(ByHeader("of"), (None, b"", header), (None, b"", [("of", b"acme")])) == [
        "bolt",
        "acme",
    ]
    values = [b'{"to": {"who": "acme"}, "n": 1, "n": 2}', b'{"to": {"who": "bolt"}}']
    assert _by(ByField("/to/who"), *((None, value, []) for value in values)) == ["acme", "bolt"]


@pytest.mark.parametrize(
    ("tenant", "record"),
    [
        (ByKey(), (None, b"", [])),
        (ByKey(), (b"../x", b"", [])),
        (ByKey(), (b"shared", b"", [])),
        (ByKey(), (b"\xff\x00", b"", [])),
        (ByKey(), (b"acme\n", b"", [])),
        (ByKey(), (b"a" * 10_000_000, b"", [])),
        (ByHeader("of"), (b"acme", b"", [])),
        (ByHeader("of"), (b"", b"", [("of", None)])),
        (ByHeader("of"), (b"", b"", [("of", b"acme"), ("of", b"bolt")])),
        (ByField("/who"), (b"acme", b"", [])),
        (ByField("/who"), (b"acme", None, [])),
        (ByField("/who"), (b"", b'{"who": ["acme"]}', [])),
        (ByField("/who"), (b"", b'{"who": 7}', [])),
        (ByField("/who"), (b"", b'{"who": "acme", "who": "bolt"}', [])),
        (ByField("/to/who"), (b"", b'{"to": {"who": "bolt", "wh\\u006f": "bolt"}}', [])),
        (ByField("/to/who"), (b"", b'{"to": 1, "to": {"who": "bolt"}}', [])),
        (ByField("/who"), (b"", b"[" * 100_000, [])),
        (ByField("/who"), (b"", b'{"who": "\\ud800"}', [])),
    ],
)
def test_a_record_that_names_no_tenant_becomes_no_name_of_a_topic(tenant, record):
    assert _by(tenant, record) == [None]
    for unknown in ("refuse", "dead-letter"):
        with pytest.raises(BadRecord) as told:
            _divided(_pair(tenant, unknown=unknown), _records(record))
        assert told.value.row == 0
        assert len(str(told.value)) < 500


def test_the_first_record_of_a_stranger_is_named():
    rows = [(b"acme", b"", []), (b"evil", b"", []), (b"bolt", b"", []), (b"else", b"", [])]
    with pytest.raises(BadRecord, match="evil") as told:
        _divided(_pair(ByKey()), _records(*rows))
    assert told.value.row == 1


def test_strangers_are_refused_or_kept_as_the_use_case_says():
    assert _pair(ByKey()).by_tenant.bad_record == "suspend"
    assert _pair(ByKey(), unknown="dead-letter").by_tenant.bad_record == "dead-letter"


def test_all_of_a_record_passes_on_and_its_place_with_it():
    records = _records((b"acme", b"one", [("trace", b"1")]), (b"bolt", None, []))
    found = _divided(_pair(ByKey()), records)
    for name in ("key", "value", "headers", "timestamp"):
        assert found[name].equals(records[name])
    assert found["place"].to_pylist() == [40, 41]


def test_each_name_is_asked_for_once_and_only_names():
    rows = [(b"acme", b"", []), (b"acme", b"", []), (b"\xff", b"", []), (None, b"", [])]
    _by(ByKey(), *rows)
    assert Known.asked == ["acme"]


def test_no_customer_writes_to_others_by_a_topic_of_that_name():
    with pytest.raises(ConfigError, match="only the topic of shared"):
        _divided(_pair(ByKey()), _records((b"bolt", b"", [])), tenant="acme")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"operator": None}, "say whose topic it is, operator="),
        ({"topic": "all-events"}, "is nobody's, without"),
        ({"topic": ["{tenant}.all"]}, "one topic is divided"),
        ({"operator": "Shared_1"}, "no tenant can be called so"),
        ({"operator": "everyone"}, "no tenant can be called so"),
        ({"tenant": ByKey}, "what tells whose a record is"),
        ({"tenant": "customer"}, "what tells whose a record is"),
        ({"topic": "s:{tenant}.all", "tenant": ByHeader("customer")}, "records have no headers"),
        ({"to": "visits"}, "needs {tenant}"),
        ({"to": "{tenant}.{what}"}, "no other braces"),
        ({"to": "{tenant}.all"}, "would be a tenant's"),
        ({"unknown": Topic("shared.all")}, "into itself"),
        ({"unknown": Topic("acme.visits")}, "would be a tenant's"),
        ({"unknown": Topic("acme.visits.split.parked")}, "would be a tenant's"),
        ({"unknown": Topic("{tenant}.x")}, "has no braces"),
        ({"unknown": "drop"}, "none of refuse"),
        ({"retention": "7 days"}, "retention"),
        ({"name": "Split"}, "lower-case"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_said(more, told):
    with pytest.raises(ConfigError, match=told):
        _pair(**{"tenant": ByKey()} | more)


class Own:
    """Somebody's own class that says whose a record is."""

    def __init__(self, of, name="Own"):
        self.of, self.name = of, name

    def __repr__(self):
        return f"{self.name}()"


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (lambda records: records["key"].combine_chunks().cast(pa.string()), "column of string"),
        (lambda records: records["key"], "a ChunkedArray"),
        (lambda records: [b"acme"] * records.num_rows, "a list"),
        (lambda records: pa.array([b"acme"] * (records.num_rows + 1)), "names for"),
    ],
)
def test_a_class_of_ones_own_that_gives_no_bytes_is_refused_and_named(of, told):
    with pytest.raises(ConfigError, match=rf"tenant Own\(\): of\(\) gives .*{told}.*in bytes"):
        _pair(Own(of))


def test_what_it_gives_is_seen_at_records_where_none_tell_it():
    text = Own(lambda records: pa.array([key.decode() for key in records["key"].to_pylist()]))
    with pytest.raises(ConfigError, match=r"tenant Own\(\).*column of string"):
        _divided(_pair(text), _records((b"acme", b"", [])))
    only_some = Own(lambda records: records["key"].chunk(records.num_rows - 1))
    assert _by(only_some, (b"acme", b"", [])) == ["acme"]


def test_a_field_is_a_json_pointer():
    with pytest.raises(ConfigError, match="JSON pointer"):
        ByField("customer")


def test_records_of_a_stream_are_divided_by_key_or_by_a_field():
    by_field = (ByField("/of"), (b"", b'{"of": "acme"}', []))
    for tenant, record in ((ByKey(), (b"acme", b"", [])), by_field):
        made = split(topic="clicks:all", to="{tenant}.visits", tenant=tenant)
        headers = RECORD_SCHEMA.field("headers")
        at = RECORD_SCHEMA.get_field_index("headers")
        records = _records(record).set_column(at, headers, pa.nulls(1, headers.type))
        lane = LaneId("split", EVERYONE, "clicks:all[0]")
        piece = Slice(lane, "clicks:all", 40, 50, epoch=1)
        context = SliceContext("split", EVERYONE, (piece,), tenants=Known())
        assert made.by_tenant(records, context)["tenant"].to_pylist() == ["acme"]


def test_what_was_parked_passes_on_as_it_is():
    records = _records((b"k", b"v", [("headrace.split.place", b"7")]))
    found = _pair(ByKey()).parked(records, SliceContext("split-parked", "acme", ()))
    assert found.equals(records.select(["key", "value", "headers", "timestamp"]))


def test_two_splits_with_one_topic_of_a_tenant_bring_only_what_they_parked_themselves():
    topics = {}
    for name in ("split-eu", "split-us"):
        made = _pair(ByKey(), name=name)
        topics[name] = made.parked.topic
        assert (made.by_tenant.sink.parked, made.by_tenant.sink.topic) == (
            made.parked.topic,
            "{tenant}.visits",
        )
    assert topics == {
        "split-eu": "{tenant}.visits.split-eu.parked",
        "split-us": "{tenant}.visits.split-us.parked",
    }


def test_both_use_cases_do_it_exactly_once_and_in_order_of_lanes():
    for made in _pair(ByKey()):
        assert (made.guarantee, made.order, made.intends) == ("exactly-once", "lane", True)
        assert repeated(made.sink) == "messages: they are sent a second time"


def test_topics_that_headrace_makes_itself_are_left_to_it():
    made = _pair(ByKey())
    streams = [
        Stream(StreamId(use_case.name, tenant), "", "active")
        for use_case in made
        for tenant in ("acme", "shared")
    ]
    found = wanted_topics(made, streams, TopicShape(), inputs=True)
    assert [wanted.topic for wanted in found] == ["shared.all", "acme.visits", "shared.visits"]


def test_of_a_list_of_topics_each_is_made_once():
    made = use_case(
        topic=["{tenant}.clicks", "{tenant}.visits[0]", "{tenant}.visits[2]"],
        sink=KafkaTopic("{tenant}.seen"),
        name="seen",
    )(lambda table, context: table)
    streams = [Stream(StreamId("seen", "acme"), "", "active")]
    found = wanted_topics([made], streams, TopicShape(), inputs=True)
    assert [wanted.topic for wanted in found] == ["acme.clicks", "acme.seen", "acme.visits"]
