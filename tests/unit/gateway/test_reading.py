"""Every form of a request, every limit; whatever is sent, nothing but a fault comes of it."""

import base64
import json
import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway import reading
from headrace.gateway.event_schemas import compiled
from headrace.gateway.event_types import EventType
from headrace.gateway.events import Event, EventFault, EventLimits, Request, RequestRefused
from headrace.gateway.reading import MEDIA_TYPES, read

VISIT = EventType("visit", "visits")
KEYED = EventType("visit", "visits", key="/lead")
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CLOUD = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "visit", "data": {"lead": 1}}

jsons = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc/~"), inner),
    max_leaves=12,
)


def request(body, content_type="application/json", key=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request({"content-type": content_type, **named}, body, key)


def test_no_header_of_a_request_becomes_one_of_headraces_own():
    name = "headrace.redrive.use-case"
    cloud = {f"ce_{key}": CLOUD[key] for key in ("specversion", "id", "source", "type")}
    (plain,) = items(b"{}", **{name: "pages"}, traceparent=PARENT)
    assert [kept for kept, _ in plain.headers] == ["traceparent"]
    (taken,) = items(b"{}", **cloud, **{name: "pages"})
    assert not [kept for kept, _ in taken.headers if kept.startswith("headrace")]
    with pytest.raises(RequestRefused, match="lower-case letters and digits"):
        items(b"{}", **cloud, **{f"ce_{name}": "pages"})


def items(body, content_type="application/json", kind=VISIT, limits=None, **more):
    return read(request(body, content_type, **more), kind, limits or EventLimits()).items


def refusal(body, content_type="application/json", kind=VISIT, limits=None, **more):
    with pytest.raises(RequestRefused) as caught:
        read(request(body, content_type, **more), kind, limits or EventLimits())
    return caught.value.fault


def outcomes(sent, kind=VISIT, limits=None):
    try:
        return read(sent, kind, limits or EventLimits()).items
    except RequestRefused as refused:
        return [refused.fault]


def cloud(**changes):
    return {name: value for name, value in {**CLOUD, **changes}.items() if value is not ...}


def test_one_event_is_kept_byte_by_byte():
    body = b' {"b": 1.10,\n"a": 12345678901234567890123} '
    batch = read(request(body), VISIT, EventLimits())
    assert batch.single
    assert batch.items == [Event(body, None, [])]


def test_a_line_is_kept_byte_by_byte_and_empty_lines_are_none():
    found = items(b'{"a": 1.10}\r\n\n{"a": 2}', "application/x-ndjson; charset=utf-8")
    assert [event.value for event in found] == [b'{"a": 1.10}', b'{"a": 2}']


def test_a_line_that_is_no_json_spoils_no_other():
    first, second, third = items(b"{}\n{\n[]", "application/jsonl")
    assert (first.value, third.value) == (b"{}", b"[]")
    assert (second.status, second.kind) == (400, "bad-json")


def test_an_array_is_a_batch():
    batch = read(request(b'[{"a": 1}, 2, [3]]'), VISIT, EventLimits())
    assert not batch.single
    assert [item.value for item in batch.items] == [b'{"a":1}', b"2", b"[3]"]


@pytest.mark.parametrize("number", ["123456789012345678901234567890", "0.12345678901234567890"])
@pytest.mark.parametrize("form", ["array", "cloudevent", "batch"])
def test_no_digit_of_a_long_number_is_lost(number, form):
    event = f'{{"n":{number}}}'
    envelope = json.dumps(cloud(data=...))[:-1] + f', "data": {event}}}'
    bodies = {
        "array": (f"[0, {event}]", "application/json"),
        "cloudevent": (envelope, "application/cloudevents+json"),
        "batch": (f"[{envelope}]", "application/cloudevents-batch+json"),
    }
    body, media = bodies[form]
    assert items(body.encode(), media)[-1].value == event.encode()


@given(st.lists(jsons, min_size=1, max_size=5))
def test_what_is_sent_in_an_array_is_what_is_stored(values):
    found = outcomes(Request({"content-type": "application/json"}, json.dumps(values).encode()))
    if any(isinstance(event, EventFault) for event in found):
        # A number too large for a double is no JSON to some, and refused.
        assert [event.kind for event in found] == ["bad-json"]
    else:
        assert [json.loads(event.value) for event in found] == values


@given(
    st.binary(max_size=80)
    | st.lists(jsons, max_size=4).map(lambda values: json.dumps(values).encode()),
    st.sampled_from([*MEDIA_TYPES, "text/plain", "", "application/vnd.x+json"]),
    st.dictionaries(
        st.sampled_from(
            [
                "ce-id",
                "ce-specversion",
                "ce-type",
                "ce-source",
                "ce-ü",
                "x-partition-key",
                "traceparent",
                "tracestate",
                "content-encoding",
            ]
        ),
        st.text(st.characters(max_codepoint=255), max_size=20),
    ),
    st.none() | st.text(max_size=5),
)
def test_whatever_comes_is_an_event_or_a_fault(body, media, headers, key):
    sent = Request({**headers, "content-type": media}, body, key)
    found = outcomes(sent, KEYED, EventLimits(items=3, item_bytes=60, depth=3))
    assert found
    for event in found:
        assert isinstance(event, Event) or 400 <= event.status < 500


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"NaN", b'"\\ud800"', b"\xef\xbb\xbf{}", b"[" * 2000 + b"]" * 2000]
)
def test_what_is_no_json_is_400(body):
    assert refusal(body).kind == "bad-json"


@pytest.mark.parametrize("body", [b"[[],[],[]]", b'[{"":1},[]]', b'{"a":1,"b":2,"c":3}'])
def test_what_is_made_of_too_much_is_refused_before_it_is_parsed(body, monkeypatch):
    assert items(body, limits=EventLimits(parts=4))
    monkeypatch.setattr("headrace.gateway.json_text.orjson.loads", None)
    assert refusal(body, limits=EventLimits(parts=3))[:2] == (413, "too-many-parts")
    for media in ("application/cloudevents+json", "application/cloudevents-batch+json"):
        assert refusal(body, media, limits=EventLimits(parts=3)).kind == "too-many-parts"


@pytest.mark.parametrize("kind", [VISIT, KEYED], ids=["plain", "keyed"])
def test_what_lines_are_made_of_is_counted_line_by_line(kind):
    body = b'{"lead":"a"}\n' * 3 + b'{"lead":[[[1]]]}\n'
    *taken, crowded = items(body, "application/x-ndjson", kind, EventLimits(parts=3))
    assert [event.value for event in taken] == [b'{"lead":"a"}'] * 3
    assert crowded.kind == "too-many-parts"


def test_a_line_that_is_too_large_is_not_parsed(monkeypatch):
    parsed = []
    loads = orjson.loads
    monkeypatch.setattr(
        "headrace.gateway.reading.orjson.loads", lambda text: parsed.append(text) or loads(text)
    )
    limits = EventLimits(item_bytes=20)
    large, small = items(b"[" + b"1," * 20 + b"1]\n[1]", "application/x-ndjson", limits=limits)
    assert (large.kind, small.value, parsed) == ("event-too-large", b"[1]", [b"[1]"])


def test_the_limits_hold():
    limits = EventLimits(items=2, item_bytes=10, depth=2)
    assert refusal(b"[1,2,3]", limits=limits).status == 413
    assert refusal(b'{"a": "12345678"}', limits=limits).kind == "event-too-large"
    assert refusal(b'{"":{"":[]}}', limits=EventLimits(depth=2)).kind == "too-deep"
    assert len(items(b'{"":[[]]}\n[[{}]]', "application/jsonl", limits=EventLimits(depth=3))) == 2
    first, second = items(b"[[[[]]],1]", limits=limits)
    assert first.kind == "too-deep"
    assert second.value == b"1"


@pytest.mark.parametrize("media", ["application/json", "application/cloudevents-batch+json"])
def test_events_are_counted_before_their_numbers_are_kept(media, monkeypatch):
    monkeypatch.setattr(reading, "faithful", lambda *_: pytest.fail("it was parsed again"))
    fault = refusal(b"[1,1,1,12345678901234567]", media, limits=EventLimits(items=3))
    assert (fault.status, fault.kind) == (413, "too-many-events")


def test_lines_beyond_the_limit_are_not_made():
    body = b"1\n" * 200_000
    tracemalloc.start()
    try:
        assert refusal(body, "application/x-ndjson").kind == "too-many-events"
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n \n"])
def test_as_many_lines_as_the_limit_are_taken_however_they_end(end):
    limits = EventLimits(items=3)
    assert len(items(b"1\n2\n3" + end, "application/x-ndjson", limits=limits)) == 3
    assert refusal(b"1\n2\n3\n4" + end, "application/x-ndjson", limits=limits).status == 413


def test_empty_lines_are_not_counted():
    found = items(
        b"\n \n\r\n1\n\n\n\t2 \r\n\n", "application/x-ndjson", limits=EventLimits(items=2)
    )
    assert [event.value for event in found] == [b"1", b"2"]


@pytest.mark.parametrize("number", [b"", b"12345678901234567"])
def test_an_event_deeper_than_can_be_written_is_too_deep_and_spoils_no_other(number):
    deep = b"[" * 300 + number + b"]" * 300
    envelope = orjson.dumps(cloud(data=...))[:-1] + b',"data":' + deep + b"}"
    first, second = items(b"[" + deep + b",1]", limits=EventLimits(depth=500))
    assert (first.status, first.kind, second.value) == (422, "too-deep", b"1")
    assert refusal(envelope, "application/cloudevents+json").kind == "too-deep"


def test_many_brackets_are_no_depth():
    assert items(orjson.dumps({"a": [[]] * 100}), limits=EventLimits(depth=3))[0].value


def test_an_empty_batch_is_refused():
    assert refusal(b"[]").kind == refusal(b"\n\n", "application/ndjson").kind == "no-events"


@pytest.mark.parametrize(
    ("media", "more"),
    [
        ("", {}),
        ("text/plain", {}),
        ("application/x-www-form-urlencoded", {}),
        ("application/json; charset=latin-1", {}),
        ("application/json", {"content_encoding": "gzip"}),
    ],
)
def test_another_form_is_415(media, more):
    assert refusal(b"{}", media, **more).status == 415


def test_keys_are_looked_for_in_their_order():
    body = orjson.dumps(cloud(partitionkey="of event", subject="about", data={"lead": "ada"}))
    structured = "application/cloudevents+json"
    plain = orjson.dumps(cloud(partitionkey=..., subject="about", data={"lead": "ada"}))
    assert items(body, structured, x_partition_key="of header", key="q")[0].key == b"of header"
    assert items(body, structured, key="of query")[0].key == b"of query"
    assert items(body, structured, KEYED)[0].key == b"of event"
    assert items(plain, structured, KEYED)[0].key == b"ada"
    assert items(plain, structured)[0].key == b"about"
    assert items(b"{}")[0].key is None


def test_a_key_in_a_header_keeps_its_bytes():
    assert items(b"{}", x_partition_key="ü".encode().decode("latin-1"))[0].key == "ü".encode()


@pytest.mark.parametrize(("lead", "key"), [(7, b"7"), (True, b"true"), ("ü", "ü".encode())])
def test_a_key_within_an_event_may_be_text_or_number(lead, key):
    assert items(orjson.dumps({"lead": lead}), kind=KEYED)[0].key == key


LINES = "application/x-ndjson"


@pytest.mark.parametrize(
    ("number", "key"),
    [
        (b"18446744073709551616", b"18446744073709551616"),
        (b"18446744073709551617", b"18446744073709551617"),
        (b"-9223372036854775809", b"-9223372036854775809"),
        (b"100000000000000000000", b"100000000000000000000"),
        (b"0.12345678901234567890", b"0.12345678901234567890"),
        (b"1e-400", b"1e-400"),
        (b"0.1", b"0.1"),
        (b"0.10000000000000000000", b"0.1"),
        (b"1e20", b"1e+20"),
        (b"1.00", b"1.0"),
    ],
)
def test_numbers_that_differ_are_different_keys(number, key):
    event = b'{"lead": ' + number + b', "more": [1]}'
    envelope = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": %s}' % event
    sent = [
        (event, "application/json"),
        (b"[%s]" % event, "application/json"),
        (b" %s \n" % event, LINES),
        (envelope, "application/cloudevents+json"),
        (b"[%s]" % envelope, "application/cloudevents-batch+json"),
    ]
    assert [items(body, media, KEYED)[0].key for body, media in sent] == [key] * len(sent)


@pytest.mark.parametrize("body", [b"{}", b'{"lead": null}', b'{"lead": {}}', b"7", b"[[1]]"])
def test_an_event_without_its_key_is_refused(body):
    fault = refusal(body, kind=KEYED) if body[:1] != b"[" else items(body, kind=KEYED)[0]
    assert (fault.status, fault.kind, fault.pointer) == (422, "no-key", "/lead")


def test_a_key_may_not_be_long():
    assert refusal(b"{}", x_partition_key="k" * 1025).kind == "bad-key"
    assert refusal(orjson.dumps({"lead": "k" * 1025}), kind=KEYED).kind == "bad-key"
    assert items(b'{"lead": %s}' % (b"7" * 300), kind=KEYED)[0].key == b"7" * 300
    assert refusal(b'{"lead": 0.%s}' % (b"7" * 1024), kind=KEYED).kind == "bad-key"


def test_a_schema_refuses_with_the_place_that_is_wrong():
    schema = {"properties": {"a/b": {"items": {"type": "integer"}}}, "required": ["id"]}
    kind = EventType("visit", "visits", schema=compiled(schema, "visit.json"))
    fault = refusal(b'{"a/b": [1, "x"]}', kind=kind)
    assert (fault.status, fault.kind) == (422, "not-valid")
    assert [at for at, _ in fault.errors] == ["", "/a~1b/1"]
    good, bad = items(b'[{"id": 1}, {}]', kind=kind)
    assert isinstance(good, Event)
    assert isinstance(bad, EventFault)


def test_faults_are_told_at_length_of_so_many_bytes_of_a_request():
    kind = EventType("visit", "visits", schema=compiled({"items": {"type": "integer"}}, "v"))
    sent = [["x", "y"], ["x" * 20_000], ["x" * 20_000], ["x", "y"]]
    found = items(orjson.dumps(sent), kind=kind)
    assert [len(fault.errors) for fault in found] == [2, 1, 1, 2]
    assert [fault.pointer for fault in found] == ["/0", "/0", "", "/0"]
    assert found[2].detail == "the event: it does not fit the schema of its type"


def test_faults_are_told_at_length_of_so_many_parts_of_a_schema_in_a_request():
    # Each value breaks each of them, and all of these faults are made to tell the first.
    wide = {"items": {"allOf": [{"type": "string"}] * 900}}
    kind = EventType("t", "t", schema=compiled(wide, "t.json"))
    found = items(b"[1" + b",1" * 198 + b"]\n" + b"[1]\n" * 40, "application/x-ndjson", kind)
    assert [len(fault.errors) for fault in found[:3]] == [1, 10, 10]
    assert {len(fault.errors) for fault in found[-10:]} == {1}


@pytest.mark.parametrize(
    "value", [["x"] * 1000, [{}] * 150, [[]] * 150], ids=["texts", "objects", "lists"]
)
def test_the_faults_of_an_event_of_many_values_are_not_told_at_length(value):
    # All of them are made in one go, nobody is answered meanwhile, and each value may have dozens.
    kind = EventType("visit", "visits", schema=compiled({"items": {"type": "integer"}}, "v"))
    found = items(orjson.dumps([value, value[:50]]), kind=kind)
    assert [len(fault.errors) for fault in found] == [1, 10]
    assert found[0].detail == "the event: it does not fit the schema of its type"


def test_the_trace_goes_with_the_record():
    (event,) = items(b"{}", traceparent=PARENT, tracestate="a=b")
    assert event.headers == [("traceparent", PARENT.encode()), ("tracestate", b"a=b")]
    assert items(b"{}", traceparent="nonsense", tracestate="a=b")[0].headers == []


def test_an_envelope_in_headers_becomes_headers_of_the_record():
    (event,) = items(
        b"[1.10]",
        ce_specversion="1.0",
        ce_id="7",
        ce_source="/sh%20op",
        ce_type="v",
        ce_ext="%C3%BC",
    )
    assert event.value == b"[1.10]"
    assert dict(event.headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"7",
        "ce_source": b"/sh op",
        "ce_type": b"v",
        "ce_ext": "ü".encode(),
    }


def test_a_structured_event_becomes_the_same_record():
    envelope = cloud(time="2026-11-21T00:00:00Z", flag=True, nothing=None)
    (event,) = items(orjson.dumps(envelope), "application/cloudevents+json", traceparent=PARENT)
    assert event.value == b'{"lead":1}'
    assert dict(event.headers) == {
        "content-type": b"application/json",
        "ce_specversion": b"1.0",
        "ce_id": b"7",
        "ce_source": b"/shop",
        "ce_type": b"visit",
        "ce_time": b"2026-11-21T00:00:00Z",
        "ce_flag": b"true",
        "traceparent": PARENT.encode(),
    }


def test_data_may_be_in_base64():
    data = base64.b64encode(b'{"n": 1.10}').decode()
    (event,) = items(
        orjson.dumps(cloud(data=..., data_base64=data)), "application/cloudevents+json"
    )
    assert event.value == b'{"n": 1.10}'


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"[" + b"[]," * 400_000 + b"[]]", "event-too-large"),
        (b"[" + b"{}," * 300_000 + b"1]", "too-many-parts"),
    ],
)
@pytest.mark.parametrize("form", ["cloudevents", "cloudevents-batch"])
def test_data_in_base64_is_looked_at_before_it_is_parsed(data, kind, form, monkeypatch):
    encoded = base64.b64encode(data).decode()
    body = orjson.dumps(cloud(data=..., data_base64=encoded))
    body = b"[" + body + b"]" if form == "cloudevents-batch" else body
    texts, loads = [], orjson.loads
    monkeypatch.setattr(orjson, "loads", lambda text: texts.append(text) or loads(text))
    (found,) = outcomes(request(body, f"application/{form}+json"))
    assert (found.kind, texts) == (kind, [body])


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"id": ...}, "/id"),
        ({"source": ""}, "/source"),
        ({"specversion": "0.3"}, "/specversion"),
        ({"datacontenttype": "text/xml"}, "/datacontenttype"),
        ({"data": ...}, "/data"),
        ({"data_base64": "e30="}, "/data"),
        ({"data": ..., "data_base64": "e"}, "/data_base64"),
        ({"data": ..., "data_base64": 7}, "/data_base64"),
        ({"data": ..., "data_base64": "ew=="}, "/data_base64"),
        ({"subject": ["a"]}, "/subject"),
        ({"Upper": "a"}, None),
        ({"ext": "x" * 9000}, None),
    ],
)
def test_an_envelope_that_is_wrong_spoils_its_event_alone(changes, pointer):
    body = orjson.dumps([CLOUD, cloud(**changes)])
    good, bad = items(body, "application/cloudevents-batch+json")
    assert isinstance(good, Event)
    assert bad.status in (415, 422)
    assert bad.pointer == pointer


def test_an_envelope_that_is_wrong_refuses_a_single_event():
    assert refusal(b"{}", ce_specversion="1.0", ce_id="1").kind == "bad-cloudevent"
    assert refusal(b"[]", "application/cloudevents+json").kind == "bad-cloudevent"
    assert refusal(b"{}", "application/cloudevents-batch+json").kind == "bad-cloudevent"
