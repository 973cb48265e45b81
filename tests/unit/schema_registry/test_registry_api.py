"""What clients are told: ids, versions, codes, and what is refused rather than dropped."""

import json

import pytest
from registry_parts import AVRO, BROKEN, MORE

from headrace.doors.keys import new_key
from headrace.errors import OutcomeUnknown, StoreUnavailable, StoreUnusable
from headrace.model.credentials import Role
from headrace.ports import SubjectSetting
from headrace.schema_registry.rules.texts import MOST_LEVELS

SUBJECT = "/subjects/acme.visits-value"
VERSIONS = f"{SUBJECT}/versions"


def test_a_schema_is_registered_once_however_it_is_laid_out(world):
    first = world.put("acme.visits-value")
    spread = json.dumps(json.loads(AVRO), indent=2, sort_keys=True)
    again = world.put("acme.visits-value", spread)
    other = world.put("bolt.visits-value", AVRO)
    assert [row["id"] for row in (first, again, other)] == [1, 1, 1]
    assert again["version"] == 1
    assert world.ask("GET", "/schemas/ids/1").json()["schema"] == AVRO


def test_what_breaks_the_version_before_is_refused_with_the_reason(world):
    world.put("acme.visits-value")
    answer = world.ask("POST", VERSIONS, {"schema": BROKEN})
    assert (answer.status_code, answer.json()["error_code"]) == (409, 409)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer.json()["message"]
    assert world.put("acme.visits-value", MORE)["version"] == 2


def test_messages_are_told_where_they_are_asked_for(world):
    world.put("acme.visits-value")
    path = "/compatibility/subjects/acme.visits-value/versions/latest"
    assert world.ask("POST", path, {"schema": BROKEN}).json() == {"is_compatible": False}
    told = world.ask("POST", f"{path}?verbose=true", {"schema": BROKEN}).json()
    assert not told["is_compatible"]
    assert "at" in told["messages"][0]
    assert world.store.schema_subjects.newest_id() == 1


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/subjects/none/versions", (404, 40401)),
        ("GET", f"{VERSIONS}/9", (404, 40402)),
        ("GET", f"{VERSIONS}/0", (422, 42202)),
        ("GET", f"{VERSIONS}/first", (422, 42202)),
        ("GET", "/schemas/ids/9", (404, 40403)),
        ("GET", "/schemas/ids/x", (404, 40403)),
        ("GET", "/schemas/ids/99999999999999999999", (404, 40403)),
        ("GET", "/schemas/guids/x", (404, 40403)),
        ("DELETE", "/subjects/none", (404, 40401)),
        ("DELETE", f"{SUBJECT}?permanent=true", (404, 40405)),
        ("DELETE", f"{VERSIONS}/1?permanent=true", (404, 40407)),
        ("GET", "/config/none", (404, 40408)),
        ("GET", "/mode/none", (404, 40409)),
        ("GET", "/nothing", (404, 404)),
        ("PATCH", "/subjects", (405, 405)),
        ("GET", "/subjects/:.other:a/versions", (422, 42208)),
        ("GET", "/contexts/.other/subjects", (422, 42208)),
        ("GET", "/subjects/__GLOBAL/versions", (422, 42208)),
        ("GET", f"/subjects/{'a' * 401}/versions", (422, 42208)),
    ],
)
def test_what_is_not_there_has_its_code(world, method, path, wanted):
    world.put("acme.visits-value")
    assert world.refused(method, path) == wanted


def test_deletion_is_soft_before_it_is_for_good(world):
    world.put("acme.visits-value")
    assert world.ask("GET", f"{VERSIONS}?deletedOnly=true").json() == []
    assert world.ask("DELETE", SUBJECT).json() == [1]
    assert world.ask("GET", f"{VERSIONS}?deletedOnly=true").json() == [1]
    assert world.refused("DELETE", SUBJECT) == (404, 40404)
    assert world.ask("GET", "/subjects").json() == []
    assert world.ask("GET", "/subjects?deleted=true").json() == ["acme.visits-value"]
    assert world.ask("GET", "/schemas/ids/1").status_code == 200
    assert world.ask("DELETE", f"{SUBJECT}?permanent=true").json() == [1]
    assert world.refused("GET", "/schemas/ids/1") == (404, 40403)
    assert world.put("acme.visits-value")["id"] == 2


def test_what_another_schema_refers_to_stays(world):
    world.put("acme.visits-value")
    refers = [{"name": "Visit", "subject": "acme.visits-value", "version": 1}]
    world.put(
        "acme.orders-value",
        '{"type":"record","name":"Order","fields":[{"name":"visit","type":"Visit"}]}',
        references=refers,
    )
    assert world.ask("GET", f"{VERSIONS}/1/referencedby").json() == [2]
    assert world.refused("DELETE", SUBJECT) == (422, 42206)
    assert world.ask("GET", "/schemas/ids/2").json()["references"] == refers


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "Visit", "subject": "none", "version": 1},
        {"name": "Visit", "subject": "acme.visits-value", "version": 7},
        {"name": "Visit", "subject": "acme.orders-value", "version": 1},
        {"name": "Visit", "subject": ":.other:x", "version": 1},
        {"name": "Visit", "subject": "acme.visits-value", "version": 0},
        {"name": "", "subject": "acme.visits-value", "version": 1},
        "Visit",
    ],
)
def test_a_reference_to_nothing_or_to_itself_is_refused(world, reference):
    world.put("acme.visits-value")
    body = {"schema": '{"type":"record","name":"O","fields":[]}', "references": [reference]}
    status, code = world.refused("POST", "/subjects/acme.orders-value/versions", body)
    assert (status, code in (42201, 42208)) == (422, True)
    assert world.ask("GET", "/subjects").json() == ["acme.visits-value"]


def test_two_texts_by_one_name_are_refused_however_far_they_are_referred_to(world):
    world.put("x", '{"type": "string"}', schemaType="JSON")
    world.put("y", '{"type": "integer"}', schemaType="JSON")
    same = {"name": "t.json", "version": 1}
    refers = '{"properties": {"q": {"$ref": "t.json"}}}'
    world.put("b", refers, schemaType="JSON", references=[same | {"subject": "y"}])
    body = {
        "schema": '{"properties": {"p": {"$ref": "t.json"}, "r": {"$ref": "b.json"}}}',
        "schemaType": "JSON",
        "references": [same | {"subject": "x"}, {"name": "b.json", "subject": "b", "version": 1}],
    }
    answer = world.ask("POST", "/subjects/a/versions", body)
    assert (answer.status_code, answer.json()["error_code"]) == (422, 42201)
    assert "two texts by the name 't.json'" in answer.json()["message"]
    assert world.refused("POST", "/compatibility/subjects/b/versions", body) == (422, 42201)
    body["references"][0]["subject"] = "y"
    assert world.ask("POST", "/subjects/a/versions", body).status_code == 200


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("{", (400, 400)),
        ("[]", (400, 400)),
        ("{}", (422, 42201)),
        ('{"schema": 1}', (422, 42201)),
        ('{"schema": "a", "schema": "b"}', (400, 400)),
        (b'{"schema": "\xff"}', (400, 400)),
        ('{"schema": "\\ud800"}', (422, 42201)),
        ("[" * 100_000, (400, 400)),
        ({"schema": AVRO, "schemaType": "XML"}, (422, 42201)),
        ({"schema": AVRO, "metadata": {"owner": "me"}}, (422, 422)),
        ({"schema": AVRO, "ruleSet": {"domainRules": [{}]}}, (422, 422)),
        ({"schema": AVRO, "surprise": 1}, (422, 422)),
        (
            {
                "schema": AVRO,
                "references": [{"name": "a", "subject": "a", "version": 1, "context": ".other"}],
            },
            (422, 422),
        ),
        ({"schema": AVRO, "id": 7}, (422, 42205)),
        (
            {"schema": '{"type":"record","name":"A","fields":[{"name":"a","type":"B"}]}'},
            (422, 42201),
        ),
        ({"schema": '{"type":"array","items":' * 100 + '"int"' + "}" * 100}, (422, 42201)),
    ],
)
def test_a_body_that_cannot_be_kept_whole_is_refused_and_nothing_is_done(world, body, wanted):
    assert world.refused("POST", VERSIONS, body) == wanted
    assert world.ask("GET", "/subjects").json() == []


def test_empty_metadata_is_no_metadata(world):
    world.put("acme.visits-value", metadata=None, ruleSet={})


def test_another_content_type_is_refused(world):
    headers = {"Content-Type": "text/xml"}
    assert world.refused("POST", VERSIONS, "{}", headers=headers) == (415, 415)


def test_a_schema_may_contain_itself(world):
    tree = (
        '{"type":"record","name":"Node","fields":[{"name":"next","type":["null","Node"],'
        '"default":null}]}'
    )
    world.put("acme.visits-value", tree)
    assert world.put("acme.visits-value", tree)["version"] == 1
    deep = {"schema": "[" * (MOST_LEVELS + 2) + "]" * (MOST_LEVELS + 2)}
    assert world.refused("POST", VERSIONS, deep) == (422, 42201)


def test_a_subject_may_have_a_slash_and_the_default_context_is_no_other(world):
    world.put("a%2Fb")
    assert world.ask("GET", "/subjects").json() == ["a/b"]
    assert world.ask("GET", "/subjects/:.:a%2Fb/versions").json() == [1]
    assert world.ask("GET", "/contexts/:.:/subjects").json() == ["a/b"]


def test_what_may_only_be_read_is_not_changed(world):
    world.put("acme.visits-value")
    world.ask("PUT", "/mode", {"mode": "READONLY"})
    assert world.refused("POST", VERSIONS, {"schema": MORE}) == (422, 42205)
    assert world.refused("DELETE", SUBJECT) == (422, 42205)
    assert world.ask("POST", VERSIONS, {"schema": AVRO}).json()["id"] == 1
    world.ask("PUT", "/mode/acme.visits-value", {"mode": "READWRITE"})
    assert world.put("acme.visits-value", MORE)["version"] == 2
    assert world.refused("PUT", "/mode", {"mode": "ANY"}) == (422, 42204)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"mode": "ANY"}, 42204),
        ({"compatibility": "NONE"}, 422),
        ({"mode": "READWRITE", "Mode": "READONLY"}, 422),
    ],
)
@pytest.mark.parametrize("path", ["/mode", "/mode/acme.visits-value"])
def test_a_mode_that_is_not_said_is_not_set(world, path, body, code):
    world.ask("PUT", path, {"mode": "READONLY"})
    assert world.refused("PUT", path, body) == (422, code)
    assert world.ask("GET", path).json() == {"mode": "READONLY"}


def test_an_empty_body_takes_a_mode_back_as_with_confluents_registry(world):
    world.ask("PUT", "/mode", {"mode": "READONLY"})
    # a subject's is its own, and what holds for all goes on to hold for it
    assert world.ask("PUT", "/mode/acme.visits-value", {}).json() == {"mode": "READONLY"}
    assert world.refused("POST", "/subjects/acme.visits-value/versions", {"schema": '"int"'})
    assert world.ask("PUT", "/mode", {}).json() == {"mode": "READWRITE"}


def test_levels_are_set_for_one_or_for_all(world):
    assert world.ask("GET", "/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert world.refused("PUT", "/config", {"compatibility": "SOME"}) == (422, 42203)
    assert world.refused("PUT", "/config", {"compatibility": "FULL", "alias": "a"}) == (422, 422)
    assert world.ask("PUT", "/config", {}).json() == {"compatibility": "BACKWARD"}
    world.ask("PUT", "/config/acme.visits-value", {"compatibility": "none"})
    world.put("acme.visits-value")
    assert world.put("acme.visits-value", BROKEN)["version"] == 2
    left = world.ask("DELETE", "/config/acme.visits-value").json()
    assert left == {"compatibilityLevel": "NONE"}
    path = "/config/acme.visits-value?defaultToGlobal=true"
    assert world.ask("GET", path).json() == {"compatibilityLevel": "BACKWARD"}


def test_a_version_that_came_meanwhile_is_judged_with(world, monkeypatch):
    ours, late = world.store.schema_subjects, []

    def register(*asked):
        if not late:
            late.append(1)
            ours.set_for("acme.visits-value", {SubjectSetting.MODE: "READONLY"})
        return register.real(*asked)

    register.real = ours.register
    monkeypatch.setattr(ours, "register", register)
    assert world.refused("POST", VERSIONS, {"schema": AVRO}) == (422, 42205)


def test_an_answer_of_the_store_that_was_lost_is_found_again(world, monkeypatch):
    ours = world.store.schema_subjects
    real, lost = ours.register, []

    def register(*asked):
        made = real(*asked)
        if not lost:
            lost.append(made)
            raise OutcomeUnknown("lost")
        return made

    monkeypatch.setattr(ours, "register", register)
    assert world.put("acme.visits-value")["version"] == 1
    assert len(ours.versions()) == 1


def test_a_store_that_is_away_is_told_as_something_that_passes(world, monkeypatch):
    def away(*_):
        raise StoreUnavailable("postgresql://db.internal is away")

    monkeypatch.setattr(world.store.schema_subjects, "seen", away)
    answer = world.ask("GET", VERSIONS)
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50001)
    assert "internal" not in answer.text
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize("who", ["operator", "sender", "nobody yet"])
def test_a_store_that_cannot_be_used_is_no_fault_of_a_schema_and_its_place_is_not_told(
    world, monkeypatch, who
):
    made = world.put("acme.visits-value")

    def unusable(*_args, **_kwargs):
        raise StoreUnusable("store postgresql://db/x: it has no tables of Headrace")

    behind = world.store.keys if who == "nobody yet" else world.store.schema_subjects
    for name in dir(behind):
        if not name.startswith("_") and callable(getattr(behind, name)):
            monkeypatch.setattr(behind, name, unusable)
    if who == "nobody yet":
        made_up, _ = new_key(Role.OPERATOR, None, "x", b"another secret of 32 characters!", 0.0)
        headers = {"Authorization": f"Bearer {made_up}"}
        answers = [world.client.get("/subjects", headers=headers)]
    else:
        role = Role.OPERATOR if who == "operator" else Role.SENDER
        answers = [
            world.ask("GET", f"/schemas/ids/{made['id']}", role=role),
            world.ask("POST", VERSIONS, {"schema": MORE}, role=role),
        ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50001)
        assert answer.headers["Retry-After"]
        assert "postgresql" not in answer.text


def test_a_namespace_that_means_nothing_is_not_given_to_another_tenant(world):
    def schema(name, space):
        return json.dumps({"type": "enum", "name": name, "symbols": ["A"], "namespace": space})

    first = world.put("acme.visits-value", schema("x.Y", "what acme alone knows"))
    second = world.put("bolt.visits-value", schema("x.Y", "x"))
    third = world.put("cern.visits-value", schema("Y", "x"))
    assert first["id"] != second["id"] == third["id"]
    assert "acme" not in world.ask("GET", f"/schemas/ids/{second['id']}").text
