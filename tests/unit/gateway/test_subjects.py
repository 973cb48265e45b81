"""Types that name a subject of a registry: checked, written as Avro, and never waited for."""

import asyncio
import base64
import io
import json
from decimal import Decimal

import fastavro
import orjson
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from gateway_parts import TYPES, client_of, in_loop, parts
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from headrace.gateway import usable_versions
from headrace.gateway.event_types import EventType
from headrace.gateway.events import Event, EventFault, EventLimits, Request, RequestRefused
from headrace.gateway.metrics import GatewayMetrics
from headrace.gateway.rates import RequestRoom
from headrace.gateway.reading import read
from headrace.gateway.subjects import Subject, looking
from headrace.ports import SchemaKind, WrittenSchema
from headrace.schema_registry.protoc import compiled
from headrace.schema_registry.rules.protobuf_form import protobuf_form
from headrace.testing.schemas_fake import MemorySchemas
from own_time import own_s

VISITS = "/v1/events/visit"
LEAD, MS = {"name": "lead", "type": "string"}, {"name": "ms", "type": ["null", "long"]}
V1 = {"type": "record", "name": "Visit", "fields": [LEAD, MS | {"default": None}]}
V2 = V1 | {"fields": [LEAD, {"name": "ms", "type": "long"}]}
JSON, LINES = "application/json", "application/x-ndjson"
CLOUD = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "visit"}


def avro(schema):
    return WrittenSchema(SchemaKind.AVRO, json.dumps(schema))


def registry_with(*schemas):
    registry = MemorySchemas()
    for schema in schemas:
        registry.add(schema, "visits-value")
    return registry


def known_subject(*schemas, version=None):
    subject = Subject("visits-value", version)
    subject.look(registry_with(*map(avro, schemas or (V1,))))
    return subject


def visit(subject=None, key=None):
    return EventType("visit", "visits", key, subject=subject or known_subject())


def items(body, media=JSON, kind=None, **headers):
    request = Request({"content-type": media, **headers}, body)
    return read(request, kind or visit(), EventLimits()).items


def refusal(body, media=JSON, kind=None, **headers):
    with pytest.raises(RequestRefused) as caught:
        items(body, media, kind, **headers)
    return caught.value.fault


def value(event, schema=V1, id_=1):
    assert isinstance(event, Event), event
    assert event.value[:5] == b"\0" + id_.to_bytes(4, "big")
    return fastavro.schemaless_reader(
        io.BytesIO(event.value[5:]), fastavro.parse_schema(schema), None
    )


SENT = b'{"lead": "ada", "ms": 9007199254740993}'
MEANT = {"lead": "ada", "ms": 9007199254740993}
STRUCTURED = orjson.dumps({**CLOUD, "data": MEANT})
ENCODED = orjson.dumps({**CLOUD, "data_base64": base64.b64encode(SENT).decode()})


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (SENT, JSON),
        (b"[" + SENT + b"]", JSON),
        (b"\n" + SENT + b"\n", LINES),
        (STRUCTURED, "application/cloudevents+json"),
        (ENCODED, "application/cloudevents+json"),
        (b"[" + STRUCTURED + b"]", "application/cloudevents-batch+json"),
    ],
)
def test_an_event_of_any_form_is_the_same_record(body, media):
    (event,) = items(body, media)
    assert value(event) == MEANT


def test_a_cloudevent_says_what_its_record_holds():
    named = {f"ce-{name}": told for name, told in CLOUD.items()}
    (event,) = items(SENT, **named)
    assert value(event) == MEANT
    assert dict(event.headers)["content-type"] == b"application/avro"


def test_a_key_is_found_in_the_event_as_it_was_sent():
    (event,) = items(SENT, kind=visit(key="/ms"))
    assert event.key == b"9007199254740993"


@pytest.mark.parametrize("media", [JSON, LINES])
def test_of_a_batch_each_event_is_refused_by_itself_with_the_place(media):
    sent = [MEANT, {"lead": 5}, {"led": "ada", "lead": "ada"}, {}, 7, MEANT]
    body = orjson.dumps(sent) if media == JSON else b"\n".join(map(orjson.dumps, sent))
    first, *bad, last = items(body, media)
    assert value(first) == value(last) == MEANT
    assert all(isinstance(fault, EventFault) for fault in bad)
    assert [(fault.status, fault.kind, fault.pointer) for fault in bad] == [
        (422, "not-valid", place) for place in ("/lead", "/led", "/lead", "")
    ]


@pytest.mark.parametrize(
    ("number", "is_taken"),
    [
        (b"9223372036854775807", True),
        (b"9223372036854775808", False),
        (b"18446744073709551616", False),
        (b"9007199254740993e0", True),
        (b"9007199254740993.5", False),
        (b"1" + b"0" * 300, False),
        (b"1.5", False),
        (b"1e3", True),
        (b"123456789012345e4", True),
        (b"-12345678901234.5E5", True),
        (b"1e-400", False),
        (b"1e-99999999999999999999999", False),
    ],
)
@pytest.mark.parametrize("media", [JSON, LINES])
def test_a_number_is_what_was_written_or_refused(number, is_taken, media):
    event = b'{"lead":"a","ms":' + number + b"}"
    (found,) = items(b"[" + event + b"]" if media == JSON else event, media)
    if is_taken:
        assert value(found)["ms"] == Decimal(number.decode())
    else:
        assert found.pointer == "/ms"


@given(
    st.from_regex(r"-?([1-9][0-9]{0,17}|0)(\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
    | st.from_regex(r"-?[1-9][0-9]{10,14}(\.[0-9]{1,3})?[eE][2-6]", fullmatch=True),
    st.sampled_from([JSON, LINES, "cloudevent"]),
)
def test_whatever_whole_number_is_written_no_other_is_kept(number, media):
    event = b'{"lead":"a","ms":' + number.encode() + b"}"
    named = {} if media != "cloudevent" else {f"ce-{name}": told for name, told in CLOUD.items()}
    (found,) = outcomes(event, JSON if named else media, **named)
    meant = Decimal(number)
    if meant == meant.to_integral_value() and -(2**63) <= meant < 2**63:
        assert value(found)["ms"] == meant
    else:
        assert found.pointer == "/ms"


def outcomes(*sent, **headers):
    try:
        return items(*sent, **headers)
    except RequestRefused as refused:
        return [refused.fault]


TWICE = b'{"lead": "a", "ms" :1, "url": "http://x", "ms":2}'


@pytest.mark.parametrize("media", [JSON, "application/cloudevents+json"])
def test_a_name_that_is_there_twice_is_refused_and_not_dropped(media):
    cloud = STRUCTURED.replace(b'"lead":"ada"', b'"lead":"ada","lead":"bob"')
    fault = refusal(TWICE if media == JSON else cloud, media)
    assert (fault.status, fault.kind) == (400, "bad-json")
    assert "twice" in fault.detail
    bad, good = items(TWICE + b"\n" + SENT, LINES)
    assert bad.kind == "bad-json"
    assert value(good) == MEANT


def test_a_text_that_looks_like_names_is_no_trouble():
    sent = {"lead": '":" : ":\n\t: {"a":1,"a":2}', "ms": None}
    (event,) = items(orjson.dumps(sent))
    assert value(event) == sent


def test_all_of_a_request_is_read_by_one_schema():
    subject = known_subject(V1)
    kind = visit(subject)
    first = items(SENT, kind=kind)
    subject.look(registry_with(avro(V1), avro(V2)))
    second = items(SENT, kind=kind)
    assert value(first[0], V1, 1) == value(second[0], V2, 2) == MEANT
    assert refusal(b'{"lead": "ada"}', kind=kind).pointer == "/ms"


def test_a_version_that_is_named_stays():
    registry = registry_with(avro(V1), avro(V2))
    subject = Subject("visits-value", 1)
    subject.look(registry)
    registry.away = True
    subject.look(registry)
    assert subject.known.id == 1


@pytest.mark.parametrize(
    ("newer", "told"),
    [
        (WrittenSchema(SchemaKind.JSON, "[]"), "is an object"),
        (WrittenSchema(SchemaKind.JSON, '{"$ref": "else.json"}'), "are pointers"),
        (WrittenSchema(SchemaKind.JSON, '{"properties": {"a": {"$ref": "#"}}}'), "back to itself"),
        (WrittenSchema(SchemaKind.AVRO, "{"), "no JSON"),
        (avro({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}), "holds"),
        (avro(V2 | {"fields": [LEAD | {"default": 5}]}), "default of field lead"),
    ],
)
def test_a_newer_schema_that_cannot_be_used_leaves_the_one_before(newer, told):
    registry, subject = registry_with(avro(V1)), Subject("visits-value")
    subject.look(registry)
    registry.add(newer, "visits-value")
    with capture_logs() as lines:
        subject.look(registry)
        subject.look(registry)
    assert (subject.known.id, told in subject.trouble) == (1, True)
    (line,) = lines
    assert (line["log_level"], line["meanwhile"]) == (
        "warning",
        "events are written by schema 1, as before",
    )
    registry.add(avro(V2), "visits-value")
    subject.look(registry)
    assert (subject.known.id, subject.trouble) == (3, "")


def test_what_breaks_a_look_does_not_end_all_looks():
    class Broken:
        def numbers(self, *_):
            raise RecursionError("too deep")

    subject = known_subject()
    subject.look(Broken())
    assert subject.known.id == 1
    assert "too deep" in subject.trouble


@in_loop
async def test_a_newer_schema_takes_effect_beside_the_requests():
    registry, subject = registry_with(), Subject("visits-value")
    async with looking([subject], registry, 0.01):
        await until(lambda: subject.trouble)
        registry.add(avro(V1), "visits-value")
        await until(lambda: subject.known)
        registry.away = True
        await until(lambda: subject.trouble)
        assert subject.known.id == 1
        registry.away = False
        registry.add(avro(V2), "visits-value")
        await until(lambda: subject.known.id == 2)


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def with_subject(subject, **types):
    return parts(types={**TYPES, "visit": visit(subject), **types})


@in_loop
async def test_while_no_schema_is_known_its_type_is_refused_and_no_other():
    subject = Subject("visits-value")
    rules, records, topics = with_subject(subject)
    async with client_of(rules, records, topics) as client:
        refused = await client.post(VISITS, json=MEANT)
        other = await client.post("/v1/events/form", json={"id": 1})
        ready = await client.get("/readyz")
        subject.look(registry_with(avro(V1)))
        taken = await client.post(VISITS, json=MEANT)
        then = await client.get("/readyz")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
    assert refused.json()["type"] == "urn:headrace:problem:no-schema"
    assert (other.status_code, taken.status_code) == (202, 202)
    assert ready.json()["schemas"].keys() == {"visit"}
    assert then.json() == {"ready": True}


@in_loop
async def test_a_refusal_names_the_field_and_what_was_expected():
    rules, records, topics = with_subject(known_subject())
    async with client_of(rules, records, topics) as client:
        refused = await client.post(VISITS, json={"lead": "ada", "ms": "soon"})
    told = refused.json()
    assert (refused.status_code, told["pointer"]) == (422, "/ms")
    assert told["errors"] == [
        {"pointer": "/ms", "detail": "null or a number is expected, and this is a text"}
    ]
    assert not records.stored


@in_loop
async def test_what_was_stored_is_the_answer_of_a_repeat_also_under_a_schema_that_refuses_it():
    subject = known_subject(V1)
    rules, records, topics = with_subject(subject)
    once = {"Idempotency-Key": "k"}
    async with client_of(rules, records, topics) as client:
        first = await client.post(VISITS, json={"lead": "ada"}, headers=once)
        subject.look(registry_with(avro(V1), avro(V2)))
        again = await client.post(VISITS, json={"lead": "ada"}, headers=once)
        other = await client.post(VISITS, json={"lead": "ada"}, headers={"Idempotency-Key": "l"})
    assert (first.status_code, again.status_code, other.status_code) == (202, 202, 422)
    assert again.json() == first.json()
    assert again.headers["Idempotent-Replayed"] == "true"
    assert len(records.stored) == 1


@in_loop
async def test_openapi_tells_which_types_are_checked_by_which_subject():
    rules, records, topics = with_subject(known_subject(), old=visit(Subject("old-value", 3)))
    async with client_of(rules, records, topics) as client:
        told = (await client.get("/v1/openapi.json")).json()["info"]["description"]
    assert "`visit` are checked against the newest version of the schema of subject" in told
    assert "`visits-value`" in told
    assert "version 3" in told


def test_metrics_tell_of_schemas():
    figures = GatewayMetrics(RequestRoom(1), {"a": known_subject(), "b": Subject("none")})
    told = figures.exposition().decode()
    assert 'headrace_gateway_schema_id{type="a"} 1.0' in told
    assert 'headrace_gateway_schema_id{type="b"} -1.0' in told
    assert 'headrace_gateway_schema_look_failing{type="a"} 0.0' in told


def test_an_event_that_is_larger_as_avro_than_an_event_may_be_is_refused():
    schema = {"type": "array", "items": "double"}
    kind = visit(known_subject(schema))
    body = b"[" + b"1," * 200_000 + b"1]"
    (fault,) = items(b"[" + body + b"]", kind=kind)
    assert (fault.status, fault.kind) == (413, "event-too-large")


PAGE = {
    "type": "object",
    "required": ["lead"],
    "properties": {"lead": {"type": "string"}, "cents": {"maximum": 0.1}, "at": {"$ref": "Place"}},
    "additionalProperties": False,
}
PLACE = {"type": "object", "properties": {"zip": {"type": "string"}}}


def page():
    whole = WrittenSchema(SchemaKind.JSON, json.dumps(PAGE), (("Place", json.dumps(PLACE)),))
    subject = Subject("visits-value")
    subject.look(registry_with(whole))
    assert subject.trouble == ""
    return visit(subject)


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b' {"lead": "ada",  "cents": 0.05}', JSON),
        (b'[{"lead": "ada", "cents": 0.05}]', JSON),
        (b'\n{"lead": "ada", "cents": 0.05}\n', LINES),
        (
            orjson.dumps({**CLOUD, "data": {"lead": "ada", "cents": 0.05}}),
            "application/cloudevents+json",
        ),
    ],
)
def test_an_event_of_a_json_schema_is_its_json_behind_the_id(body, media):
    (event,) = items(body, media, page())
    assert event.value[:5] == b"\0\0\0\0\1"
    assert json.loads(event.value[5:]) == {"lead": "ada", "cents": 0.05}
    if "cloud" in media:
        assert dict(event.headers)["content-type"] == b"application/json"


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"lead": 5}, "/lead"),
        ({"lead": "ada", "at": {"zip": 7}}, "/at/zip"),
        ({"lead": "ada", "led": "ada"}, ""),
        ({}, ""),
    ],
)
def test_a_json_schema_of_a_registry_refuses_with_the_place(sent, pointer):
    fault = refusal(orjson.dumps(sent), kind=page())
    assert (fault.status, fault.kind, fault.pointer) == (422, "not-valid", pointer)


def test_a_json_schema_of_a_registry_judges_all_digits_of_a_number():
    more = b'{"lead": "ada", "cents": 0.10000000000000000001}'
    assert refusal(more, kind=page()).pointer == "/cents"
    (event,) = items(b'{"lead": "ada", "cents": 0.09999999999999999999}', kind=page())
    assert event.value.endswith(b"0.09999999999999999999}")


def test_an_event_that_would_take_long_by_its_schema_is_refused_at_once():
    asked = {"properties": {"a": {"items": {"allOf": [{"multipleOf": 0.1}] * 150}}}}
    subject = Subject("visits-value")
    subject.look(registry_with(WrittenSchema(SchemaKind.JSON, json.dumps(asked))))
    many, found = orjson.dumps({"a": [0.1] * 20_000}), []
    assert own_s(lambda: found.append(refusal(many, kind=visit(subject)))) < 1
    assert "too much for a schema" in found[0].detail
    assert items(orjson.dumps({"a": [0.1] * 10}), kind=visit(subject))


VISIT = "message Visit { string lead = 1; sint64 ms = 2; } message Other {}"
OTHER = "message Other {} message Visit { string lead = 1; }"


def protobuf(text, others=()):
    written = WrittenSchema(SchemaKind.PROTOBUF, f'syntax="proto3"; {text}')
    descriptor = base64.b64encode(protobuf_form(written, compiled).serialized).decode()
    return WrittenSchema(SchemaKind.PROTOBUF, descriptor, others)


def stamped(text=VISIT, others=()):
    subject = Subject("visits-value")
    subject.look(registry_with(protobuf(text, others)))
    return subject


def test_an_event_of_a_protobuf_subject_is_its_first_message_behind_the_id():
    kind = visit(stamped(), key="/lead")
    (event,) = items(SENT, kind=kind)
    assert event.value == b"\0\0\0\0\1\0" + b"\n\3ada" + b"\x10" + b"\x82" + b"\x80" * 6 + b"\x20"
    assert event.key == b"ada"
    fault = refusal(b'{"lead": "ada", "ms": 1.5}', kind=kind)
    assert (fault.status, fault.kind, fault.pointer) == (422, "not-valid", "/ms")
    named = {f"ce-{name}": told for name, told in CLOUD.items()}
    (event,) = items(SENT, kind=kind, **named)
    assert dict(event.headers)["content-type"] == b"application/protobuf"


def test_a_newer_file_whose_first_message_is_another_one_leaves_the_one_before():
    registry, subject = registry_with(protobuf(VISIT)), Subject("visits-value")
    subject.look(registry)
    registry.add(protobuf(OTHER), "visits-value")
    subject.look(registry)
    assert subject.known.id == 1
    assert "its first message is Other, and Visit was written" in subject.trouble


@pytest.mark.parametrize(
    ("versions", "id_"),
    [
        ([VISIT, OTHER], 1),
        ([VISIT, f"{VISIT} message More {{}}", OTHER], 2),
        ([OTHER, VISIT, OTHER + " message More {}"], 3),
        # Nobody writes by what imports another file.
        (["import", VISIT, OTHER], 2),
        ([VISIT, "import"], 1),
    ],
)
def test_a_gateway_that_starts_anew_writes_as_one_that_has_run(versions, id_):
    registry, ran = registry_with(), Subject("visits-value")
    for text in versions:
        others = (("other.proto", ""),) if text == "import" else ()
        registry.add(protobuf("message A {}" if others else text, others), "visits-value")
        ran.look(registry)
    started = Subject("visits-value")
    started.look(registry)
    assert (started.known.id, started.trouble) == (id_, ran.trouble)
    assert ran.known.id == id_
    assert started.known.writer.message == ran.known.writer.message


def test_whose_older_versions_are_deleted_writes_the_message_of_the_others():
    registry, ran = registry_with(protobuf(VISIT), protobuf(OTHER)), Subject("visits-value")
    ran.look(registry)
    del registry.subjects["visits-value"][0]
    ran.look(registry)
    assert (ran.known.writer.message, ran.trouble) == ("Other", "")


@pytest.mark.parametrize("version", [None, 1])
def test_a_subject_that_was_deleted_is_none_for_whoever_runs_or_starts(version):
    registry, ran = registry_with(avro(V1)), Subject("visits-value", version)
    ran.look(registry)
    registry.away = True
    ran.look(registry)
    assert ran.known.id == 1
    registry.away = False
    del registry.subjects["visits-value"]
    started = Subject("visits-value", version)
    for subject in (ran, started):
        subject.look(registry)
        assert subject.known is None
        assert "visits-value has no version" in subject.trouble
    registry.add(avro(V2), "visits-value")
    ran.look(registry)
    assert (ran.known.id, ran.trouble) == (2, "")


def test_where_only_versions_stay_that_nobody_can_write_by_who_runs_writes_by_none_either():
    registry, ran = registry_with(avro(V1)), Subject("visits-value")
    registry.add(WrittenSchema(SchemaKind.AVRO, '"nonsense'), "visits-value")
    ran.look(registry)
    assert ran.known.id == 1
    del registry.subjects["visits-value"][0]
    started = Subject("visits-value")
    for subject in (ran, started):
        subject.look(registry)
        assert subject.known is None
        assert "schema 2" in subject.trouble
    registry.away = True
    ran.look(registry)
    assert ran.known is None
    registry.away = False
    registry.add(avro(V2), "visits-value")
    ran.look(registry)
    assert ran.known.id == 3


def test_a_schema_that_was_looked_at_is_not_read_anew(monkeypatch):
    registry, subject = registry_with(avro(V1), avro(V2)), Subject("visits-value")
    subject.look(registry)
    known = subject.known
    monkeypatch.setattr(usable_versions, "writer_of", None)
    subject.look(registry)
    assert (subject.known, subject.trouble) == (known, "")


def test_a_newer_version_that_the_registry_has_no_answer_to_is_passed_over():
    registry, ran = registry_with(avro(V1)), Subject("visits-value")
    ran.look(registry)
    newer = registry.add(avro(V2), "visits-value")
    registry.silent = {newer}
    started = Subject("visits-value")
    for subject in (ran, started):
        subject.look(registry)
        assert (subject.known.id, subject.trouble) == (1, "schema 2: it has no answer to this")
    registry.silent = ()
    for subject in (ran, started):
        subject.look(registry)
        assert (subject.known.id, subject.trouble) == (newer, "")
    # What it had an answer to once goes on: a schema with an id never changes.
    registry.silent = {newer}
    for _ in range(2):
        ran.look(registry)
        assert (ran.known.id, ran.trouble) == (newer, "schema 2: it has no answer to this")


def test_where_the_registry_has_no_answer_to_the_oldest_version_nobody_guesses_its_message():
    registry, started = registry_with(protobuf(VISIT), protobuf(OTHER)), Subject("visits-value")
    registry.silent = {1}
    started.look(registry)
    assert (started.known, started.trouble) == (None, "schema 1: it has no answer to this")


def test_a_schema_that_could_not_be_looked_at_is_looked_at_again(monkeypatch):
    registry, subject = registry_with(avro(V1), avro(V2)), Subject("visits-value")
    real, newest = usable_versions.writer_of, avro(V2)

    def short_of_memory(schema):
        if schema == newest:
            raise MemoryError
        return real(schema)

    monkeypatch.setattr(usable_versions, "writer_of", short_of_memory)
    subject.look(registry)
    assert subject.known.id == 1
    monkeypatch.setattr(usable_versions, "writer_of", real)
    subject.look(registry)
    assert (subject.known.id, subject.trouble) == (2, "")


def test_a_protobuf_file_that_imports_another_is_told():
    subject = stamped(others=(("other.proto", ""),))
    assert "imports other.proto" in subject.trouble


def test_a_name_that_is_there_twice_is_refused_by_a_json_schema_too():
    assert refusal(b'{"lead": "ada", "lead": "bob"}', kind=page()).kind == "bad-json"


AT = SerializationContext("acme.visits", MessageField.VALUE)


def test_confluents_deserializers_read_json_and_protobuf():
    (event,) = items(b'{"lead": "ada", "cents": 0.05}', kind=page())
    found = JSONDeserializer('{"type": "object"}')(event.value, AT)
    assert found == {"lead": "ada", "cents": 0.05}
    subject = stamped()
    (event,) = items(SENT, kind=visit(subject))
    message = type(subject.known.writer.writer._put({}))
    read = ProtobufDeserializer(message, {"use.deprecated.format": False})(event.value, AT)
    assert (read.lead, read.ms) == ("ada", 9007199254740993)
