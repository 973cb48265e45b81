"""What an attacker did to a registry, and what it comes to now."""

import base64
from uuid import UUID

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from registry_parts import AVRO
from structlog.testing import capture_logs

from headrace.model.credentials import Role
from headrace.ports import NewSchema, SchemaKind, SchemaReference
from headrace.schema_registry import answers, app
from headrace.schema_registry.gathering import MOST_REFERENCES
from headrace.schema_registry.judges import JudgesHere
from headrace.schema_registry.rules.texts import BadSchema, _once

VERSIONS = "/subjects/acme.visits-value/versions"


def record(name, *fields):
    parts = ",".join(f'{{"name":"{field}","type":"{kind}"}}' for field, kind in fields)
    return f'{{"type":"record","name":"{name}","fields":[{parts}]}}'


def refers(subject, version=1, name="Part"):
    return {"name": name, "subject": subject, "version": version}


def counted(world, monkeypatch):
    """How often the store is asked what there is of a subject."""
    asked, real = [], world.store.schema_subjects.seen

    def seen(subject):
        asked.append(subject)
        return real(subject)

    monkeypatch.setattr(world.store.schema_subjects, "seen", seen)
    return asked


def test_references_are_gathered_once_however_many_ways_lead_to_them(world, monkeypatch):
    many = 30

    def every(level):
        subject = f"acme.visits-{level}"
        return [refers(subject, name=f"{level}-{place}") for place in range(many)]

    world.put("acme.visits-0", '{"type":"string"}', schemaType="JSON")
    for level in (1, 2):
        text = f'{{"type":"string","title":"{level}"}}'
        world.put(f"acme.visits-{level}", text, schemaType="JSON", references=every(level - 1))
    asked = counted(world, monkeypatch)
    body = {"schema": '{"type":"string"}', "schemaType": "JSON", "references": every(2)}
    assert world.refused("POST", "/subjects/acme.visits-0", body) == (404, 40403)
    assert len(asked) < 2 * many


def test_a_schema_that_leads_to_too_many_under_few_names_is_refused(world):
    half = MOST_REFERENCES // 2
    for number in range(2 * half):
        world.put(f"s{number}", '{"type":"string"}', schemaType="JSON")
    for which in (0, 1):
        below = [refers(f"s{which * half + place}", name=f"n{place}") for place in range(half)]
        text = f'{{"type":"number","title":"{which}"}}'
        world.put(f"half{which}", text, schemaType="JSON", references=below)
    both = [refers(f"half{which}", name=f"half{which}") for which in (0, 1)]
    body = {"schema": '{"type":"null"}', "schemaType": "JSON", "references": both}
    assert world.refused("POST", "/subjects/c/versions", body) == (422, 42201)


def test_who_sees_not_a_schema_cannot_refer_to_it_by_what_another_way_found(world):
    world.put("bolt.visits-value", record("Part", ("a", "string")))
    world.put(
        "acme.visits-key", record("Own", ("p", "Part")), references=[refers("bolt.visits-value")]
    )
    both = [refers("acme.visits-key", name="Own"), refers("bolt.visits-value")]
    body = {"schema": record("Whole", ("o", "Own"), ("p", "Part")), "references": both}
    assert world.refused("POST", VERSIONS, body, role=Role.TENANT) == (422, 42201)


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/acme.visits-value",
        "/compatibility/subjects/acme.visits-value/versions",
        "/compatibility/subjects/acme.visits-value/versions/1",
    ],
)
def test_a_tenant_that_looks_up_too_often_has_to_wait_and_can_still_register(
    world, monkeypatch, path
):
    monkeypatch.setattr(app, "LOOKS_PER_MINUTE", 2)
    world.put("acme.visits-value")
    body = {"schema": AVRO}
    answers = [world.ask("POST", path, body, Role.SENDER) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[-1].json()["error_code"] == 429
    assert world.ask("POST", path, body).status_code == 200
    assert world.ask("POST", VERSIONS, body, Role.SENDER).status_code == 200


def test_a_tenant_that_changes_too_often_is_told_in_the_log_once_and_fills_no_audit_log(
    world, monkeypatch
):
    monkeypatch.setattr(app, "CHANGES_PER_MINUTE", 1)
    asked = ("POST", VERSIONS, {"schema": AVRO}, Role.SENDER)
    with capture_logs() as logs:
        assert [world.ask(*asked).status_code for _ in range(3)] == [200, 429, 429]
    assert len(world.store.audit.changes()) == 1
    (told,) = [line for line in logs if line["event"] == "changes are refused for a while"]
    assert (told["tenant"], told["status"]) == ("acme", 429)


def test_an_id_goes_on_meaning_one_schema_while_its_referrer_is_softly_deleted(world):
    world.put("acme.visits-Part", record("Part", ("a", "string")))
    made = world.put(
        "acme.visits-value",
        record("Visit", ("p", "Part")),
        references=[refers("acme.visits-Part")],
    )
    for subject in ("acme.visits-value", "acme.visits-Part"):
        assert world.ask("DELETE", f"/subjects/{subject}").status_code == 200
    gone = "/subjects/acme.visits-Part?permanent=true"
    assert world.refused("DELETE", gone) == (422, 42206)
    assert world.put("acme.visits-Part", record("Part", ("a", "string")))["version"] == 2
    assert world.ask("GET", f"/schemas/ids/{made['id']}").status_code == 200


@pytest.mark.parametrize("name", ["\ud800", "a\x00b", "a\nb"])
def test_a_reference_whose_name_nobody_can_print_is_refused(world, name):
    world.put("acme.visits-Part", record("Part", ("a", "string")))
    body = {"schema": record("X"), "references": [refers("acme.visits-Part", name=name)]}
    assert world.refused("POST", VERSIONS, body) == (422, 42201)
    assert world.ask("GET", "/subjects").json() == ["acme.visits-Part"]


def test_half_a_character_that_is_kept_keeps_nobody_from_reading_the_rest(world):
    ours = world.store.schema_subjects
    world.put("acme.visits-Part", record("Part", ("a", "string")))
    refer = SchemaReference("\ud800", "acme.visits-Part", 1)
    new = NewSchema(SchemaKind.AVRO, '"int"', b"d" * 32, UUID(int=7), (refer,))
    ours.register(ours.seen("acme.visits-value"), new)
    rows = world.ask("GET", "/schemas").json()
    assert [row["subject"] for row in rows] == ["acme.visits-Part", "acme.visits-value"]
    assert rows[1]["references"][0]["name"] == "\ud800"


def test_a_fault_of_our_own_is_told_in_the_clients_form_and_noted(world, monkeypatch):
    def fail(*_):
        raise RuntimeError("host db.internal")

    monkeypatch.setattr(world.store.schema_subjects, "seen", fail)
    answer = world.ask("POST", VERSIONS, {"schema": AVRO})
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50001)
    assert "internal" not in answer.text
    noted = world.store.audit.changes()[0]
    assert (noted.action, noted.status) == (f"POST {VERSIONS}", 500)


def test_a_change_is_noted_even_if_there_is_no_answer(world, monkeypatch):
    def fail(_):
        raise RuntimeError("no answer")

    monkeypatch.setattr(app, "_refused", fail)
    monkeypatch.setattr(app, "_json", fail)
    assert world.ask("POST", VERSIONS, {"schema": AVRO}).status_code == 500
    assert [change.status for change in world.store.audit.changes()] == [500]


def test_a_reference_to_the_latest_holds_from_the_second_version_on(world):
    world.put("acme.visits-Part", record("Part", ("a", "string")))
    latest = [refers("acme.visits-Part", -1)]
    first = record("Visit", ("p", "Part"))
    world.put("acme.visits-value", first, references=latest)
    more = first.replace('"name":"Visit"', '"name":"Visit","doc":"more"')
    made = world.put("acme.visits-value", more, references=latest)
    assert (made["version"], made["references"][0]["version"]) == (2, 1)
    body = {"schema": more, "references": latest}
    path = "/compatibility/subjects/acme.visits-value/versions/latest"
    assert world.ask("POST", path, body).json() == {"is_compatible": True}
    assert world.ask("POST", "/subjects/acme.visits-value", body).json()["version"] == 2


def test_what_a_tenant_does_not_see_is_refused_as_what_is_not_there(world):
    world.put("bolt.visits-value", record("Part", ("a", "string")))
    told = []
    for subject in ("bolt.visits-value", "bolt.visits-nothing"):
        body = {"schema": record("X"), "references": [refers(subject, -1)]}
        answer = world.ask("POST", VERSIONS, body, Role.TENANT)
        assert answer.status_code == 422
        told.append(answer.text.replace(subject, "it"))
    assert told[0] == told[1]


def test_how_many_schemas_all_have_is_told_to_who_sees_them_all(world):
    world.put("acme.visits-value")
    path = "/schemas/ids/1?fetchMaxId=true"
    assert world.ask("GET", path, role=Role.VIEWER).json()["maxId"] == 1
    assert "maxId" not in world.ask("GET", path, role=Role.TENANT).json()


PLAIN = 'syntax="proto3"; message Visit { string lead = 1; }'
COMMENTED = f"// of customer Foo\n{PLAIN}"


def described():
    file = FileDescriptorProto(name="foo/secret.proto", syntax="proto3")
    message = file.message_type.add(name="Visit")
    message.field.add(name="lead", number=1, label=1, type=9)
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.mark.parametrize("theirs", [COMMENTED, described()])
def test_nobody_is_shown_the_comments_of_another(world, theirs):
    first = world.put("bolt.visits-value", theirs, schemaType="PROTOBUF")
    mine = world.put("acme.visits-value", PLAIN, schemaType="PROTOBUF")
    assert mine["schema"] == PLAIN
    assert world.refused("GET", f"/schemas/ids/{first['id']}", role=Role.TENANT) == (404, 40403)
    # The other way round it is not lost what somebody says about it.
    again = world.put("bolt.orders-value", theirs, schemaType="PROTOBUF")
    assert again["schema"] == theirs


@pytest.mark.parametrize("first", [PLAIN, COMMENTED, described()])
def test_within_a_subject_all_forms_of_a_file_are_one_schema(world, first):
    made = world.put("acme.visits-value", first, schemaType="PROTOBUF")
    for text in (PLAIN, COMMENTED, described()):
        assert world.put("acme.visits-value", text, schemaType="PROTOBUF") == made
        body = {"schema": text, "schemaType": "PROTOBUF"}
        assert world.ask("POST", "/subjects/acme.visits-value", body).json() == made


def test_what_says_no_more_than_its_content_has_one_id_under_all_subjects(world):
    spread = PLAIN.replace(" ", "\n")
    rows = [
        world.put(f"{tenant}.visits-value", text, schemaType="PROTOBUF")
        for tenant, text in (("acme", PLAIN), ("bolt", spread))
    ]
    assert rows[0]["id"] == rows[1]["id"]


def test_a_descriptor_is_made_by_a_judge_of_who_asks_and_for_one_schema_at_a_time(
    world, monkeypatch
):
    asked, real = [], JudgesHere.form

    def form(self, schema, tenant=None, looked=None):
        asked.append(tenant)
        return real(self, schema, tenant, looked)

    # Longer than what is remembered.
    text = f'syntax="proto3"; message Visit {{ string lead = 1; }} // {"a" * 300_000}'
    made = world.put("acme.visits-value", text, schemaType="PROTOBUF")
    monkeypatch.setattr(JudgesHere, "form", form)
    path = f"/schemas/ids/{made['id']}?format=serialized"
    assert world.ask("GET", path, role=Role.SENDER).json()["schema"] != text
    assert asked == ["acme"]
    assert world.refused("GET", "/schemas?format=serialized") == (422, 422)
    assert asked == ["acme"]


@pytest.mark.parametrize(
    "path",
    [
        "/schemas/ids/{id}?format=serialized",
        "/schemas/ids/{id}/schema?format=%73erialized",
        "/schemas/guids/{guid}?format=serialized",
        "/subjects/acme.visits-value/versions/1?format=serialized",
        "/subjects/acme.visits-value/versions/1/schema?format=serialized",
        "/subjects/acme.visits-value/versions/1/referencedby",
        "/schemas/ids/{id}/subjects",
        "/schemas/ids/{id}/versions",
    ],
)
def test_what_takes_a_judge_or_many_schemas_counts_as_a_look(world, monkeypatch, path):
    monkeypatch.setattr(app, "LOOKS_PER_MINUTE", 1)
    text = 'syntax="proto3"; message Visit { string lead = 1; }'
    made = world.put("acme.visits-value", text, schemaType="PROTOBUF")
    path = path.format(**made)
    assert world.ask("GET", path, role=Role.SENDER).status_code == 200
    assert world.refused("GET", path, role=Role.SENDER) == (429, 429)
    plain = f"/schemas/ids/{made['id']}?format="
    assert world.ask("GET", plain, role=Role.SENDER).status_code == 200
    assert world.ask("GET", path).status_code == 200


def test_of_a_schema_that_many_have_a_tenant_reads_its_own_versions(world, monkeypatch):
    made = world.put("acme.visits-value")
    world.put("bolt.visits-value")
    found, ours = [], world.store.schema_subjects
    real = ours.versions_of

    def versions_of(*asked):
        found.extend(real(*asked))
        return real(*asked)

    monkeypatch.setattr(ours, "versions_of", versions_of)
    for path in ("", "/versions", "/subjects"):
        assert world.ask("GET", f"/schemas/ids/{made['id']}{path}", role=Role.SENDER).is_success
    assert {version.subject for version in found} == {"acme.visits-value"}


def test_a_name_that_comes_twice_is_found_in_one_pass():
    compared = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(1)
            return str.__eq__(self, other)

    many = 1_000
    pairs = [*((Name(number), 1) for number in range(many)), (Name("zz"), 1), (Name("zz"), 2)]
    with pytest.raises(BadSchema, match="has the name 'zz' twice"):
        _once(pairs)
    assert len(compared) < 10 * many


def test_a_number_is_read_to_its_end_however_it_begins(world):
    world.put("acme.visits-value")
    zeros = "0" * 5_000
    for end in ("1", "01", f"{zeros}1"):
        assert world.ask("GET", f"/schemas/ids/{end}").status_code == 200
        assert world.ask("GET", f"{VERSIONS}/{end}").status_code == 200
    for end in ("9" * 19, f"{zeros}{'9' * 5_000}", "2147483648", "\u0661"):
        assert world.refused("GET", f"/schemas/ids/0000{end}") == (404, 40403)
        assert world.refused("GET", f"{VERSIONS}/0000{end}") == (422, 42202)
    assert world.refused("GET", "/schemas/ids/0") == (404, 40403)


def test_a_number_that_no_store_can_have_does_not_come_to_it(world, monkeypatch):
    def fail(_):
        raise AssertionError("asked")

    monkeypatch.setattr(world.store.schema_subjects, "schema", fail)
    path = f"/schemas/ids/{'0' * 19}1{'9' * 19}"
    assert world.refused("GET", path) == (404, 40403)


@pytest.mark.parametrize("limit", ["", "limit=0&", "limit=-1&", "limit=99&"])
def test_a_list_of_schemas_is_answered_in_parts(world, monkeypatch, limit):
    monkeypatch.setattr(answers, "MOST_ROWS", 12)
    for number in range(15):
        world.put(f"s{number:02}")
    first = world.ask("GET", f"/schemas?{limit}").json()
    rest = world.ask("GET", f"/schemas?{limit}offset=12").json()
    assert [row["subject"] for row in first + rest] == [f"s{number:02}" for number in range(15)]
    assert len(first) == 12
    assert len(world.ask("GET", "/schemas?limit=2").json()) == 2
    assert len(world.ask("GET", "/subjects").json()) == 15


def test_texts_that_are_too_long_together_are_not_read_all_at_once(world, monkeypatch):
    monkeypatch.setattr(answers, "MOST_CHARACTERS", 15 * len(AVRO))
    for number in range(40):
        world.put(f"s{number:02}")
    ours, asked = world.store.schema_subjects, []
    real = ours.schemas

    def schemas(ids):
        asked.append(ids)
        return real(ids)

    monkeypatch.setattr(ours, "schemas", schemas)
    assert world.refused("GET", "/schemas") == (422, 422)
    assert len(asked) == 4
    assert len(world.ask("GET", "/schemas?limit=15").json()) == 15


def test_a_change_is_noted_for_the_tenant_however_its_subject_is_named(world):
    world.put("acme.visits-value")
    world.ask("DELETE", "/subjects/:.:acme.visits-value")
    world.ask("DELETE", "/subjects/:.other:acme.visits-value")
    noted = [(change.tenant, change.status) for change in world.store.audit.changes()[:2]]
    assert noted == [(None, 422), ("acme", 200)]


def test_a_path_is_noted_with_what_comes_after_the_longest_name(world):
    subject = f"{'t' * 249}-value"
    world.put(subject)
    world.ask("DELETE", f"/subjects/{subject}/versions/1")
    assert world.store.audit.changes()[0].action == f"DELETE /subjects/{subject}/versions/1"
    world.ask("DELETE", f"/subjects/{'t' * 5_000}")
    assert len(world.store.audit.changes()[0].action) < 700


def test_who_refers_to_a_version_is_asked_of_the_store_at_once(world, monkeypatch):
    world.put("acme.visits-value")
    for subject, name in (("acme.visits-A", "A"), ("acme.visits-B", "B"), ("bolt.visits-C", "C")):
        world.put(subject, record(name), references=[refers("acme.visits-value")])
    ours, asked = world.store.schema_subjects, []
    for name in ("versions_of", "referring"):
        real = getattr(ours, name)
        monkeypatch.setattr(
            ours, name, lambda *about, real=real, name=name: asked.append(name) or real(*about)
        )
    path = "/subjects/acme.visits-value/versions/1/referencedby"
    assert world.ask("GET", path, role=Role.SENDER).json() == [2, 3]
    assert world.ask("GET", path).json() == [2, 3, 4]
    assert asked == ["referring", "referring"]


def test_a_configuration_is_set_and_taken_back_as_a_whole(world, monkeypatch):
    world.put("acme.visits-value")
    ours, times = world.store.schema_subjects, []
    real = ours.set_for
    monkeypatch.setattr(ours, "set_for", lambda *a, **b: times.append(a) or real(*a, **b))
    path, both = "/config/acme.visits-value", {"compatibility": "FULL", "normalize": True}
    assert world.ask("PUT", path, both).json() == both
    assert world.ask("GET", path).json() == {"compatibilityLevel": "FULL", "normalize": True}
    assert world.ask("DELETE", path).json() == {"compatibilityLevel": "FULL"}
    assert world.refused("GET", path) == (404, 40408)
    assert len(times) == 2
