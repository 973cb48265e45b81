"""What a registry answers is a schema, is none, or is no answer; and all of it within a time."""

import json
import ssl
import time
import uuid
from contextlib import suppress

import pytest
import trustme
from replaying import (
    INT,
    ReplayServer,
    closes,
    cuts,
    drips,
    drips_its_body,
    hangs,
)

from headrace.connectors.schema_registry import (
    RegistrySchemas,
    lookups,
    registry_config,
    schemas,
    subjects,
)
from headrace.errors import RegistryUnavailable, SchemaUnknown, TargetMissing
from headrace.gateway.subjects import Subject
from headrace.ports import RegisteredSchema, Registering, SchemaKind, WrittenSchema

AVRO_INT = WrittenSchema(SchemaKind.AVRO, '"int"')


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a loaded machine an answer may take longer than a call waits for it."""
    monkeypatch.setattr(lookups, "LOOKUP_S", 60.0)
    monkeypatch.setattr(lookups, "WAIT_S", lookups.LOOKUP_S + 1)


@pytest.fixture
def server():
    made = ReplayServer()
    yield made
    made.close()


class Registry:
    """A client whose time a test says."""

    def __init__(self, url, **more):
        self.now_s = 0.0
        config = registry_config({"schema.registry.url": url, **more})
        self.client = RegistrySchemas(config, clock=lambda: self.now_s)

    def trouble(self, id_=7, kind=RegistryUnavailable):
        with pytest.raises(kind) as told:
            self.client.schema(id_)
        return told.value


NO_ANSWERS = {
    "an error of its own": ((500, {"error_code": 50001, "message": "store"}), r"HTTP 500 \(store"),
    "a page of a proxy": ((502, b"<html>Bad Gateway</html>"), r"HTTP 502 \(<html>Bad Gateway"),
    "no password": ((401, {"error_code": 401}), r"HTTP 401, see basic.auth.user.info"),
    "no right": ((403, b""), r"HTTP 403, give whoever asks the right"),
    "too much asked": ((429, b"slow down"), r"HTTP 429 \(slow down\)"),
    "a schema that is refused, which nobody gave it": (
        (422, {"error_code": 42201, "message": "store x: it has no tables"}),
        r"HTTP 422 \(store x: it has no tables\)",
    ),
    "a conflict": ((409, {"error_code": 409, "message": "not now"}), r"HTTP 409 \(not now\)"),
    "a page of a proxy that knows no such service": (
        (404, b"<html>default backend"),
        r"HTTP 404, see that .* \(<html>default backend\)",
    ),
    "a 404 of nothing": ((404, b""), r"HTTP 404, see that"),
    "a 404 of some other program": (
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        r"HTTP 404, see that .* \(HTTP 404 Not Found\)",
    ),
    "a 404 with a code that is none": ((404, {"error_code": "40403"}), r"HTTP 404, see that"),
    "a redirect": ((302, b""), r"HTTP 302, name where it redirects to"),
    "a page that says 200": (b"<html>Log in</html>", r"its answer is no JSON: <html>Log in"),
    "a list": ([1], r"its answer is no JSON"),
    "no schema": ({"id": 7}, r"tells no schema"),
    "references that are none": ({**INT, "references": [{"name": 1}]}, r"tells no references"),
    "a version without end": (
        b'{"schema": "1", "references": [{"name": "a", "subject": "b", "version": 1e999}]}',
        r"tells no references",
    ),
    "a subject of half a character": (
        b'{"schema": "1", "references": [{"name": "a", "subject": "\\ud800", "version": 1}]}',
        r"tells no references",
    ),
    "the end of a connection": (closes, r"disconnected"),
    "a part": (cuts, r"incomplete|closed"),
    "an answer without end": (b" " * (17 * 1024 * 1024), r"more than 16777216 bytes"),
}


@pytest.mark.parametrize("case", NO_ANSWERS)
def test_what_is_no_answer_is_waited_for(server, case):
    server.says["/schemas/ids/7"], told = NO_ANSWERS[case]
    registry = Registry(server.url)
    error = registry.trouble()
    assert 0.9 < error.retry_after_s <= 1.0
    with pytest.raises(RegistryUnavailable, match=told):
        raise error
    server.says["/schemas/ids/7"] = INT
    registry.now_s += 1.1
    assert registry.client.schema(7) == AVRO_INT


@pytest.mark.parametrize("says", [hangs, drips, drips_its_body])
def test_a_lookup_ends_in_time_however_slow_the_answer_is(server, monkeypatch, says):
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.3)
    server.says["/schemas/ids/7"] = says
    began_s = time.monotonic()
    with pytest.raises(
        RegistryUnavailable, match=r"timed out|no answer within the time|too slowly"
    ):
        Registry(server.url).client.schema(7)
    # all of each answer takes more
    assert time.monotonic() - began_s < 10


def test_all_addresses_together_have_the_time_of_one(server, monkeypatch):
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.3)
    server.says["/schemas/ids/7"] = hangs
    began_s = time.monotonic()
    Registry(",".join([server.url] * 50)).trouble()
    assert time.monotonic() - began_s < 10


def test_addresses_are_asked_in_turn(server):
    server.says["/schemas/ids/7"] = INT
    registry = Registry(f"http://127.0.0.1:9, {server.url}")
    assert registry.client.schema(7) == AVRO_INT


def test_where_none_answers_each_is_named_and_no_password(server):
    server.says["/schemas/ids/7"] = (500, b"")
    told = str(Registry(f"http://me:hunter2@127.0.0.1:9,{server.url}/").trouble())
    assert "http://127.0.0.1:9: " in told
    assert f"{server.url}: HTTP 500" in told
    assert "hunter2" not in told


def test_a_registry_that_is_away_is_not_asked_for_each_record(server):
    server.says["/schemas/ids/1"] = INT
    registry = Registry(server.url)
    registry.client.schema(1)
    for id_ in range(2, 60):
        server.says[f"/schemas/ids/{id_}"] = (503, b"")
    waits = []
    for id_ in range(2, 60):
        waits.append(round(registry.trouble(id_).retry_after_s))
        registry.client.schema(1)
        registry.now_s += 0.5
    assert len(server.heard) < 8
    assert waits[0] == 1
    assert max(waits) == 15


def test_a_registry_that_is_back_is_asked_at_once_and_pauses_begin_small_again(server):
    server.says["/schemas/ids/7"] = (503, b"")
    registry = Registry(server.url)
    for _ in range(6):
        registry.now_s += registry.trouble().retry_after_s + 0.01
    server.says["/schemas/ids/7"] = INT
    registry.client.schema(7)
    server.says["/schemas/ids/8"] = (503, b"")
    assert registry.trouble(8).retry_after_s == pytest.approx(1.0, abs=0.1)


def test_an_id_that_is_not_known_holds_up_no_other_id(server):
    server.says["/schemas/ids/8"] = INT
    registry = Registry(server.url)
    registry.trouble(7)
    assert registry.client.schema(8) == AVRO_INT


def test_what_is_known_is_asked_for_once(server):
    server.says["/schemas/ids/7"] = INT
    registry = Registry(server.url)
    for _ in range(1_000):
        registry.client.schema(7)
        registry.now_s += 3600
    assert len(server.heard) == 1


@pytest.mark.parametrize("code", [40401, 40402, 40403])
def test_an_id_that_is_not_there_is_asked_for_less_and_less_often_for_a_minute(server, code):
    server.says["/schemas/ids/7"] = (404, {"error_code": code})
    registry = Registry(server.url)
    while registry.now_s < 59.9:
        registry.trouble()
        registry.now_s += 0.1
    assert 5 <= len(server.heard) <= 10
    registry.now_s = 60.1
    assert "was asked for during 60 s" in str(registry.trouble(kind=SchemaUnknown))


def test_that_an_id_is_unknown_is_remembered_for_seconds_only(server):
    registry = Registry(server.url)
    registry.trouble()
    registry.now_s = 61
    registry.trouble(kind=SchemaUnknown)
    server.says["/schemas/ids/7"] = INT
    asked = len(server.heard)
    registry.now_s = 65
    registry.trouble(kind=SchemaUnknown)
    assert len(server.heard) == asked
    registry.now_s = 72
    assert registry.client.schema(7) == AVRO_INT


def test_a_guid_has_a_place_of_its_own(server):
    guid = uuid.uuid4()
    server.says[f"/schemas/guids/{guid}"] = {**INT, "schemaType": "JSON"}
    assert Registry(server.url).client.schema(guid) == WrittenSchema(SchemaKind.JSON, '"int"')


def test_a_schema_that_cannot_be_used_is_unknown_and_not_asked_for_by_each_record(server):
    server.says["/schemas/ids/7"] = {**INT, "schemaType": "XML"}
    registry = Registry(server.url)
    for _ in range(50):
        assert "of kind XML" in str(registry.trouble(kind=SchemaUnknown))
    assert len(server.heard) == 1
    server.says["/schemas/ids/7"] = INT
    registry.now_s += 11
    assert registry.client.schema(7) == AVRO_INT


def test_texts_that_are_referred_to_are_kept_where_the_time_is_over(server, monkeypatch):
    refers = [{"name": "b", "subject": "the/b", "version": 3}]
    server.says["/schemas/ids/7"] = {**INT, "references": refers}
    below = [{"name": "c", "subject": "c", "version": 1}]
    server.says["/subjects/the%2Fb/versions/3?deleted=true"] = {**INT, "references": below}
    server.says["/subjects/c/versions/1?deleted=true"] = hangs
    monkeypatch.setattr(lookups, "LOOKUP_S", 0.3)
    registry = Registry(server.url)
    registry.trouble()
    server.says["/subjects/c/versions/1?deleted=true"] = INT
    registry.now_s += 2
    assert [name for name, _ in registry.client.schema(7).references] == ["c", "b"]
    assert server.paths().count("/subjects/the%2Fb/versions/3?deleted=true") == 1


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"basic.auth.user.info": "me:a:b"}, "Basic bWU6YTpi"),
        ({"bearer.auth.token": "abc"}, "Bearer abc"),
    ],
)
def test_who_asks_is_told_to_every_server(server, given, header):
    server.says["/schemas/ids/7"] = INT
    registry = Registry(server.url, **given)
    registry.client.schema(7)
    assert server.heard[0][1]["Authorization"] == header


def test_what_is_registered_is_told_once_with_its_kind(server):
    server.says["/subjects/a%2Fb-value/versions?normalize=true"] = {"id": 3}
    registry, schema = Registry(server.url), WrittenSchema(SchemaKind.JSON, "{}")
    for _ in range(3):
        how = Registering(normalize_schemas=True)
        made = registry.client.registered("a/b-value", schema, how)
        assert made == RegisteredSchema(3, schema)
    assert [json.loads(body) for _, _, body in server.heard] == [
        {"schema": "{}", "schemaType": "JSON"}
    ]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ((409, {"error_code": 40901, "message": "x"}), r"compatibility refuses the schema.*\(x\)"),
        ((422, {"error_code": 42201}), r"the registry refuses the schema"),
    ],
)
def test_a_schema_that_is_refused_is_told_by_its_subject_and_not_sent_for_each_effect(
    server, says, told
):
    server.says["/subjects/v-value/versions"] = says
    registry = Registry(server.url)
    for _ in range(50):
        with pytest.raises(TargetMissing, match=rf"subject v-value: .*{told}"):
            registry.client.registered("v-value", AVRO_INT, Registering())
        registry.now_s += 1
    assert len(server.heard) == 5


@pytest.mark.parametrize("says", [{"id": 3}, (409, {"error_code": 409, "message": "x" * 200})])
def test_of_many_subjects_those_asked_for_last_are_known_up_to_a_size(server, monkeypatch, says):
    monkeypatch.setattr(subjects, "_MOST_BYTES", 5_000)
    registry = Registry(server.url)

    def register(number):
        server.says[f"/subjects/v{number}-value/versions"] = says
        before = len(server.heard)
        with suppress(TargetMissing):
            registry.client.registered(f"v{number}-value", AVRO_INT, Registering())
        return len(server.heard) - before

    assert sum(map(register, range(20))) == 20
    assert (register(19), register(0)) == (0, 1)


def test_the_newest_there_was_serves_while_nobody_answers(server):
    place = "/subjects/v-value/versions/latest"
    server.says[place] = {**INT, "id": 3}
    registry, how = Registry(server.url), Registering(use_latest_version=True)
    first = registry.client.registered("v-value", AVRO_INT, how)
    server.says[place] = (503, b"")
    registry.now_s += 61
    assert registry.client.registered("v-value", AVRO_INT, how) == first


@pytest.mark.parametrize("id_", [None, "3", -1, 2**32])
def test_an_id_that_is_none_is_no_answer(server, id_):
    server.says["/subjects/v-value/versions"] = {"id": id_}
    with pytest.raises(RegistryUnavailable, match="tells no id"):
        Registry(server.url).client.registered("v-value", AVRO_INT, Registering())


def test_a_certificate_is_believed_if_the_settings_say_who_signed_it(tmp_path):
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    # Whoever asks has to show a certificate as well.
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("me@example.org")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    server = ReplayServer(tls)
    server.says["/schemas/ids/7"] = INT
    ca, certificate = str(tmp_path / "ca.pem"), str(tmp_path / "own.pem")
    told = {"ssl.ca.location": ca, "ssl.certificate.location": certificate}
    assert Registry(server.url, **told).client.schema(7) == AVRO_INT
    assert "certificate" in str(Registry(server.url).trouble()).lower()
    Registry(server.url, **{"ssl.ca.location": ca}).trouble()
    assert len(server.heard) == 1
    server.close()


NOT_A_REGISTRYS = [(404, b"<html>default backend - 404</html>"), (404, {"error_code": 404})]


@pytest.mark.parametrize("says", NOT_A_REGISTRYS)
def test_a_404_of_something_before_a_registry_takes_nothing_away(server, says):
    place = "/subjects/visits-value/versions"
    registry, subject = Registry(server.url), Subject("visits-value")
    server.says |= {place: [1], f"{place}/1": INT | {"id": 7}}
    subject.look(registry.client)
    assert subject.known.id == 7
    for path in (f"{place}/1", place):
        server.says[path] = says
        subject.look(registry.client)
        assert subject.known.id == 7
        assert "HTTP 404" in subject.trouble
    server.says[place] = (404, {"error_code": 40401})
    subject.look(registry.client)
    assert subject.known is None


@pytest.mark.parametrize("says", NOT_A_REGISTRYS)
@pytest.mark.parametrize("how", [Registering(), Registering(use_latest_version=True)])
def test_a_404_of_something_before_a_registry_is_no_refusal_of_what_is_written(server, says, how):
    place = "/subjects/v-value"
    server.says |= {f"{place}/versions": says, f"{place}/versions/latest": says, place: says}
    with pytest.raises(RegistryUnavailable):
        Registry(server.url).client.registered("v-value", AVRO_INT, how)


def test_another_server_is_asked_where_the_first_one_is_no_registry(server):
    server.says |= {"/schemas/ids/7": INT, "/other/schemas/ids/7": (404, b"<html>")}
    assert Registry(f"{server.url}/other, {server.url}").client.schema(7) == AVRO_INT


@pytest.mark.parametrize("status", [409, 422])
def test_only_a_404_makes_a_schema_unknown_however_long_another_refusal_lasts(server, status):
    server.says["/schemas/ids/7"] = status, {"error_code": 42201, "message": "x"}
    registry = Registry(server.url)
    for _ in range(100):
        assert isinstance(registry.trouble(), RegistryUnavailable)
        registry.now_s += 60.0


def test_schemas_are_known_up_to_a_size_and_the_others_are_asked_for_again(server, monkeypatch):
    monkeypatch.setattr(schemas, "MOST_KNOWN_BYTES", 3_500)
    registry, large = Registry(server.url), '"int"'.ljust(1_000)
    server.says = {f"/schemas/ids/{id_}": {"schema": large} for id_ in (1, 2, 3)}
    for id_ in (1, 2, 1, 3, 1):
        assert registry.client.schema(id_).text == large
    assert server.paths() == [f"/schemas/ids/{id_}" for id_ in (1, 2, 3)]
    registry.client.schema(2)
    assert server.paths()[3:] == ["/schemas/ids/2"]
