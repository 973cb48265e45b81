"""Who may do what: every route there is, for every role, of one's own subject and of another's."""

import pytest
from registry_parts import AVRO, OF_A_TEAM, OF_ACME, OF_ACME_VISITS

from headrace.model.credentials import Role
from headrace.schema_registry.access import ROUTES

BODIES = {
    "register": {"schema": AVRO},
    "look_up": {"schema": AVRO},
    "check": {"schema": AVRO},
    "check_version": {"schema": AVRO},
    "set_config": {"compatibility": "FULL"},
    "set_mode": {"mode": "READWRITE"},
}
OF_TENANT = (Role.TENANT, Role.SENDER, OF_ACME)


def asked(world, route, role, subject="acme.visits-value"):
    guid = str(world.store.schema_subjects.schema(1).guid)
    path = route.path.format(subject=subject, version="1", id="1", guid=guid)
    return world.ask(route.method, path, BODIES.get(route.handle.__name__), role)


@pytest.fixture
def filled(world):
    for subject in ("acme.visits-value", "bolt.visits-value"):
        world.put(subject)
        world.ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
        world.ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    return world


ROUTE = pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")


@ROUTE
def test_nobody_is_answered_without_a_key(filled, route):
    answer = asked(filled, route, None)
    assert answer.status_code == 401
    assert answer.json()["error_code"] == 401
    # A header for each: some clients read of two ways in one header neither.
    assert answer.headers.get_list("www-authenticate") == ['Basic realm="headrace"', "Bearer"]
    assert answer.json()["message"].endswith("a key is shown as the password of any user too")


@ROUTE
@pytest.mark.parametrize("role", Role)
def test_a_role_does_what_the_table_says_and_nothing_else(filled, route, role):
    answer = asked(filled, route, role)
    if role in route.roles:
        assert answer.status_code == 200, answer.text
    else:
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)


@pytest.mark.parametrize("role", OF_TENANT)
@pytest.mark.parametrize("subject", ["bolt.visits-value", "com.acme.Visit", "acme.visits"])
@ROUTE
def test_what_is_named_after_no_topic_of_the_tenant_is_not_there_for_it(
    filled, route, role, subject
):
    if "{subject}" not in route.path:
        return
    before = filled.store.schema_subjects.versions()
    answer = asked(filled, route, role, subject)
    wanted = (403, 40301) if route.changes else (404, 40401)
    assert (answer.status_code, answer.json()["error_code"]) == wanted
    assert filled.store.schema_subjects.versions() == before


@ROUTE
def test_what_changes_something_is_noted_and_nothing_else_is(filled, route):
    before = len(filled.store.audit.changes())
    asked(filled, route, Role.OPERATOR)
    noted = filled.store.audit.changes()[: len(filled.store.audit.changes()) - before]
    assert [change.tenant for change in noted] == (
        ["acme" if "{subject}" in route.path else None] if route.changes else []
    )


def test_only_what_changes_nothing_is_open_to_viewers():
    assert {route.method for route in ROUTES if Role.VIEWER in route.roles} == {"GET", "POST"}
    assert not [route for route in ROUTES if route.changes and Role.VIEWER in route.roles]


def test_lists_and_ids_show_a_tenant_its_own_alone(filled):
    filled.put("bolt.orders-value", '"string"')
    mine = filled.ask("GET", "/subjects", role=Role.SENDER).json()
    assert mine == ["acme.visits-value"]
    assert {row["subject"] for row in filled.ask("GET", "/schemas", role=Role.SENDER).json()} == {
        "acme.visits-value"
    }
    assert filled.ask("GET", "/schemas/ids/1/subjects", role=Role.SENDER).json() == mine
    assert filled.refused("GET", "/schemas/ids/2", role=Role.SENDER) == (404, 40403)
    assert filled.ask("GET", "/schemas/ids/2", role=Role.VIEWER).status_code == 200


def test_a_tenant_cannot_read_anothers_schema_by_referring_to_it(filled):
    refers = {"schema": '{"type":"record","name":"W","fields":[{"name":"v","type":"Visit"}]}'}
    for subject, status in (("acme.visits-value", 200), ("bolt.visits-value", 422)):
        refers["references"] = [{"name": "Visit", "subject": subject, "version": 1}]
        path = "/subjects/acme.orders-value/versions"
        assert filled.ask("POST", path, refers, Role.TENANT).status_code == status


def test_subjects_of_the_gateways_topics_and_of_records_on_a_topic_are_the_tenants(world):
    for subject in ("acme.orders-key", "acme.visits-com.acme.Visit"):
        path = f"/subjects/{subject}/versions"
        assert world.ask("POST", path, {"schema": AVRO}, Role.SENDER).status_code == 200
    path = "/subjects/acme.visits-a-b/versions"
    assert world.refused("POST", path, {"schema": AVRO}, role=Role.SENDER) == (403, 40301)


def test_a_tenant_reads_the_schemas_of_what_sinks_write_it_and_changes_none(world):
    mine = world.put("acme.scores-value")
    others = world.put("bolt.scores-value", '"string"')
    for who in OF_TENANT:
        assert world.ask("GET", "/subjects", role=who).json() == ["acme.scores-value"]
        assert world.ask("GET", f"/schemas/ids/{mine['id']}", role=who).status_code == 200
        assert world.refused("GET", f"/schemas/ids/{others['id']}", role=who) == (404, 40403)
        found = world.ask("POST", "/subjects/acme.scores-value", {"schema": AVRO}, who)
        assert found.json()["version"] == 1
        path = "/subjects/acme.scores-value/versions"
        assert world.refused("POST", path, {"schema": AVRO}, role=who) == (403, 40301)
    for method, path, body in (
        ("DELETE", "/subjects/acme.scores-value", None),
        ("DELETE", "/subjects/acme.scores-value/versions/1", None),
        ("PUT", "/config/acme.scores-value", {"compatibility": "NONE"}),
        ("DELETE", "/config/acme.scores-value", None),
    ):
        assert world.refused(method, path, body, role=Role.TENANT) == (403, 40301)
    assert world.ask("GET", "/subjects").json() == ["acme.scores-value", "bolt.scores-value"]


def test_who_registers_for_all_registers_everywhere_and_does_nothing_else(world):
    for subject in ("acme.scores-value", "bolt.visits-value", "com.acme.Visit"):
        path = f"/subjects/{subject}/versions"
        assert world.ask("POST", path, {"schema": AVRO}, Role.SCHEMAS).status_code == 200
        for method, other in (("DELETE", path[:-9]), ("PUT", f"/config/{subject}")):
            assert world.refused(method, other, role=Role.SCHEMAS) == (403, 40301)
    assert world.refused("PUT", "/config", role=Role.SCHEMAS) == (403, 40301)


def test_a_serializer_that_looks_up_before_it_registers_needs_no_more_than_role_schemas(world):
    for who in (Role.SCHEMAS, OF_ACME):
        path = "/subjects/acme.visits-value"
        if who is Role.SCHEMAS:
            assert world.refused("POST", path, {"schema": AVRO}, role=who) == (404, 40401)
        made = world.ask("POST", f"{path}/versions", {"schema": AVRO}, who).json()
        assert world.ask("POST", path, {"schema": AVRO}, who).json()["id"] == made["id"]
        newest = world.ask("GET", f"{path}/versions/latest", role=who).json()
        assert newest["id"] == made["id"]


BOUND = pytest.mark.parametrize("who", [OF_A_TEAM, OF_ACME_VISITS])


@BOUND
@ROUTE
def test_a_key_of_some_subjects_does_there_what_its_role_does(filled, route, who):
    answer = asked(filled, route, who)
    if Role.SCHEMAS in route.roles:
        assert answer.status_code == 200, answer.text
    else:
        assert (answer.status_code, answer.json()["error_code"]) == (403, 40301)


@pytest.mark.parametrize(
    ("who", "subject"),
    [
        (OF_A_TEAM, "bolt.visits-value"),
        (OF_A_TEAM, "com.acme.Visit"),
        (OF_A_TEAM, "acme-visits-value"),
        (OF_ACME_VISITS, "bolt.visits-value"),
        (OF_ACME_VISITS, "acme.orders-value"),
    ],
)
@ROUTE
def test_to_a_key_of_some_subjects_others_are_not_there(filled, route, who, subject):
    if "{subject}" not in route.path:
        return
    if subject != "bolt.visits-value":
        filled.put(subject, '"bytes"')
    before = filled.store.schema_subjects.versions()
    answer = asked(filled, route, who, subject)
    wanted = (403, 40301) if route.changes else (404, 40401)
    assert (answer.status_code, answer.json()["error_code"]) == wanted
    assert filled.store.schema_subjects.versions() == before


@BOUND
def test_lists_ids_and_references_show_a_key_of_some_subjects_these_alone(filled, who):
    other = filled.put("bolt.orders-value", '{"type":"record","name":"Part","fields":[]}')
    mine = ["acme.visits-value"]
    assert filled.ask("GET", "/subjects", role=who).json() == mine
    assert filled.ask("GET", "/subjects?subjectPrefix=bolt", role=who).json() == []
    assert {row["subject"] for row in filled.ask("GET", "/schemas", role=who).json()} == {*mine}
    assert filled.ask("GET", "/schemas/ids/1/subjects", role=who).json() == mine
    shown = filled.ask("GET", "/schemas/ids/1/versions", role=who).json()
    assert [row["subject"] for row in shown] == mine
    assert "maxId" not in filled.ask("GET", "/schemas/ids/1?fetchMaxId=true", role=who).json()
    for place in (f"ids/{other['id']}", f"ids/{other['id']}/schema", f"guids/{other['guid']}"):
        assert filled.refused("GET", f"/schemas/{place}", role=who)[0] == 404
    text = '{"type":"record","name":"W","fields":[{"name":"p","type":"Part"}]}'
    refers = [{"name": "Part", "subject": "bolt.orders-value", "version": 1}]
    body = {"schema": text, "references": refers}
    for path in ("/subjects/{}/versions", "/subjects/{}", "/compatibility/subjects/{}/versions"):
        assert filled.refused("POST", path.format("acme.visits-value"), body, role=who)[0] == 422
    assert filled.ask("POST", "/subjects/acme.visits-more/versions", body, role=who).is_success is (
        False
    )
    filled.put("acme.visits-more", text, references=refers)
    path = "/subjects/acme.visits-more/versions/1/referencedby"
    assert filled.ask("GET", path, role=who).json() == []


def test_a_key_of_a_name_to_the_letter_sees_that_alone(filled):
    filled.put("acme.visits-values")
    filled.keys["one"] = filled.key(Role.SCHEMAS, None, "acme.visits-value")
    assert filled.ask("GET", "/subjects", role="one").json() == ["acme.visits-value"]


def test_what_is_nobodys_is_changed_by_operators_and_registered_by_keys_of_no_tenant(world):
    path, body = "/subjects/visits-value/versions", {"schema": AVRO}
    asked = {who: world.ask("POST", path, body, who).status_code for who in world.keys}
    allowed = {who for who, status in asked.items() if status == 200}
    assert allowed == {Role.OPERATOR, Role.SCHEMAS}
