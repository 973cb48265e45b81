"""Schemas at the terminal: a build pipeline stops where a schema is incompatible."""

import json

import pytest

from headrace.cli.servers import folder_of, remember
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.ports import SubjectSetting
from headrace.store.schema_subjects import SqlSchemaSubjects

V1 = {"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]}
BROKEN = V1 | {"fields": [*V1["fields"], {"name": "at", "type": "long"}]}
SUBJECT = "acme.visits-value"


@pytest.fixture
def file(tmp_path):
    def write(schema, name="visit.avsc"):
        path = tmp_path / name
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return str(path)

    return write


def test_what_is_compatible_is_registered_once_and_shown_to_the_letter(headrace, file):
    first = headrace("schemas", "register", SUBJECT, file(V1), "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == {
        "subject": SUBJECT,
        "version": 1,
        "id": 1,
        "deleted": False,
    }
    assert "version 1, id 1" in headrace("schemas", "register", SUBJECT, file(V1)).stdout
    assert headrace("schemas", "show", SUBJECT).stdout.strip() == json.dumps(V1)
    (row,) = json.loads(headrace("schemas", "list", "--json").stdout)
    assert (row["subject"], row["version"], row["type"]) == (SUBJECT, 1, "AVRO")
    heads, line = headrace("schemas", "list").stdout.splitlines()
    assert heads.split() == ["subject", "version", "id", "type", "compatibility"]
    assert line.split() == [SUBJECT, "1", "1", "AVRO", "BACKWARD"]


def test_a_check_that_compares_with_nothing_says_so(headrace, file, store):
    checked = headrace("schemas", "check", "acme.visits-valeu", file(V1))
    assert checked.exit_code == 0
    assert "no version under acme.visits-valeu" in checked.output
    headrace("schemas", "register", SUBJECT, file(V1))
    assert "compatible with" in headrace("schemas", "check", SUBJECT, file(V1)).output
    store.schema_subjects.set_for(SUBJECT, {SubjectSetting.COMPATIBILITY: "NONE"})
    (told,) = json.loads(headrace("schemas", "check", SUBJECT, file(BROKEN), "--json").stdout)[
        "messages"
    ]
    assert told == f"nothing was compared: the level of {SUBJECT} is NONE"


def test_what_is_deleted_is_marked_where_it_is_listed(headrace, file, store):
    ours, optional = store.schema_subjects, {"name": "at", "type": "long", "default": 0}
    for subject in ("acme.alive-value", "acme.gone-value", "acme.part-value"):
        headrace("schemas", "register", subject, file(V1))
    newer = V1 | {"fields": [*V1["fields"], optional]}
    headrace("schemas", "register", "acme.part-value", file(newer))
    ours.delete(ours.seen("acme.gone-value"), [1])
    ours.delete(ours.seen("acme.part-value"), [2])
    found = json.loads(headrace("schemas", "list", "--deleted", "--json").stdout)
    marks = {row["subject"]: (row["deleted"], row["subject_deleted"]) for row in found}
    assert marks == {
        "acme.alive-value": (False, False),
        "acme.gone-value": (True, True),
        "acme.part-value": (True, False),
    }
    heads, *lines = headrace("schemas", "list", "--deleted").stdout.splitlines()
    assert heads.split()[-1] == "deleted"
    ends = [line.split()[5:] for line in lines]
    assert ends == [[], ["subject"], ["this", "version"]]
    assert len(headrace("schemas", "list").stdout.splitlines()) == 3


def test_a_list_asks_the_store_as_often_for_many_subjects_as_for_one(
    headrace, file, store, monkeypatch
):
    level = SubjectSetting.COMPATIBILITY
    for subject in ("acme.a-value", "acme.b-value", "bolt.c-value"):
        headrace("schemas", "register", subject, file(V1))
    store.schema_subjects.set_for(None, {level: "NONE"})
    store.schema_subjects.set_for("acme.b-value", {level: "FULL"})
    asked, real = [], SqlSchemaSubjects.seen
    monkeypatch.setattr(
        SqlSchemaSubjects, "seen", lambda ours, name: asked.append(name) or real(ours, name)
    )
    found = json.loads(headrace("schemas", "list", "--prefix", "acme.", "--json").stdout)
    levels = {row["subject"]: row["compatibility"] for row in found}
    assert levels == {"acme.a-value": "NONE", "acme.b-value": "FULL"}
    assert asked == []


def test_what_is_deleted_while_it_is_listed_is_left_out(headrace, file, store, monkeypatch):
    for subject, schema in (("acme.a-value", V1), ("acme.b-value", BROKEN)):
        headrace("schemas", "register", subject, file(schema))
    real = SqlSchemaSubjects.schemas
    monkeypatch.setattr(SqlSchemaSubjects, "schemas", lambda ours, ids: real(ours, ids[1:]))
    listed = headrace("schemas", "list", "--json")
    assert listed.exit_code == 0, listed.output
    assert [row["subject"] for row in json.loads(listed.stdout)] == ["acme.b-value"]


@pytest.mark.parametrize("words", [["show"], ["check"]])
def test_who_mistypes_a_subject_is_told_the_nearest_names(headrace, file, words):
    for subject in (SUBJECT, "acme.visits-key", "bolt.orders-value"):
        headrace("schemas", "register", subject, file(V1))
    more = [file(V1)] if words == ["check"] else []
    told = headrace("schemas", *words, "acme.visits-valeu", *more).output
    assert "acme.visits-value, acme.visits-key" in " ".join(told.split())
    assert "bolt.orders-value" not in told
    assert "nearest" not in headrace("schemas", *words, "zzz", *more).output


def test_a_check_changes_nothing_and_ends_with_1_where_it_fails(headrace, file, store):
    for words in ((), ("--dry-run",)):
        assert headrace("schemas", "check", SUBJECT, file(V1), *words).exit_code == 0
        assert store.schema_subjects.versions() == []
    told = " ".join(headrace("schemas", "check", "--help").output.split())
    assert "Nothing is registered, with or without --dry-run" in told
    headrace("schemas", "register", SUBJECT, file(V1))
    for command in ("check", "register"):
        result = headrace("schemas", command, SUBJECT, file(BROKEN), "--json")
        assert result.exit_code == 1
        told = json.loads(result.stdout)
        assert not told["compatible"]
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in told["messages"][0]
    assert len(store.schema_subjects.versions()) == 1


def test_what_is_there_already_is_answered_however_it_stands_to_a_newer_version(
    headrace, file, store
):
    level = SubjectSetting.COMPATIBILITY
    store.schema_subjects.set_for(SUBJECT, {level: "NONE"})
    for schema in (BROKEN, V1):
        headrace("schemas", "register", SUBJECT, file(schema))
    store.schema_subjects.set_for(SUBJECT, {level: "BACKWARD"})
    again = headrace("schemas", "register", SUBJECT, file(BROKEN))
    assert (again.exit_code, again.stdout.strip()) == (0, f"{SUBJECT} version 1, id 1")


def test_a_text_of_somebody_else_says_nothing_to_the_terminal(headrace, file):
    text = (
        'syntax = "proto3";\r\n// \x1b]0;owned\x07 \x9b2J\nmessage Visit {\n\tstring lead = 1;\n}\n'
    )
    headrace("schemas", "register", SUBJECT, file(text, "visit.proto"))
    assert headrace("schemas", "show", SUBJECT).stdout.splitlines() == [
        'syntax = "proto3";',
        "// ?]0;owned? ?2J",
        "message Visit {",
        "        string lead = 1;",
        "}",
    ]
    shown = headrace("schemas", "show", SUBJECT, "--json").stdout
    assert json.loads(shown)["schema"].count("\x1b") == 1
    assert "\x1b" not in shown


def test_what_is_no_schema_or_of_no_known_language_is_told(headrace, file):
    assert headrace("schemas", "check", SUBJECT, file("{")).exit_code == 1
    assert headrace("schemas", "check", SUBJECT, file(V1, "visit.txt")).exit_code == 2
    assert headrace("schemas", "check", SUBJECT, "none.avsc").exit_code == 2
    assert headrace("schemas", "show", "none").exit_code == 1


@pytest.mark.parametrize("name", ["", " ", ":.other:visits", "a\nb", "__GLOBAL", "v" * 401])
def test_a_name_that_the_registry_refuses_is_refused_here_too(headrace, file, store, name):
    for words in (("show", name), ("check", name, file(V1)), ("register", name, file(V1))):
        assert headrace("schemas", *words).exit_code == 2
    refers = ("--reference", f"Visit={name}:1")
    assert headrace("schemas", "register", SUBJECT, file(V1), *refers).exit_code == 2
    assert store.schema_subjects.versions() == []


def test_the_default_context_may_be_named_as_everywhere(headrace, file):
    assert headrace("schemas", "register", f":.:{SUBJECT}", file(V1)).exit_code == 0
    assert headrace("schemas", "show", SUBJECT).exit_code == 0


def test_a_schema_refers_to_another_by_its_version(headrace, file):
    headrace("schemas", "register", SUBJECT, file(V1))
    order = {"type": "record", "name": "Order", "fields": [{"name": "visit", "type": "Visit"}]}
    path = file(order, "order.avsc")
    assert headrace("schemas", "check", "acme.orders-value", path).exit_code == 1
    refers = ("--reference", f"Visit={SUBJECT}:1")
    made = headrace("schemas", "register", "acme.orders-value", path, *refers)
    assert made.exit_code == 0, made.output
    shown = json.loads(headrace("schemas", "show", "acme.orders-value", "--json").stdout)
    assert shown["references"] == [{"name": "Visit", "subject": SUBJECT, "version": 1}]


def test_the_registry_needs_a_secret_or_to_be_opened_by_name(headrace, monkeypatch):
    monkeypatch.delenv("HEADRACE_SECRET", raising=False)
    assert "secret" in headrace("registry").output
    assert "127.0.0.1" in headrace("registry", "--insecure-no-auth", "--host", "0.0.0.0").output


def named(config, url, more=""):
    """The configuration with a registry that drivers ask."""
    config.write_text(f"{config.read_text()}registry: {{schema.registry.url: {url}}}\n{more}")


@pytest.mark.parametrize(
    "words",
    [("list",), ("show", SUBJECT), ("check", SUBJECT, "FILE"), ("register", SUBJECT, "FILE")],
)
def test_where_drivers_ask_another_registry_nothing_is_told_of_ours(
    headrace, file, config, store, words
):
    headrace("schemas", "register", SUBJECT, file(V1))
    named(config, "'https://me:hunter2@theirs:8443,http://127.0.0.1:8081'")
    typed = [file(V1) if word == "FILE" else word for word in words]
    refused = headrace("schemas", *typed)
    assert refused.exit_code == 2
    told = " ".join(refused.output.split())
    assert "drivers ask https://theirs:8443, http://127.0.0.1:8081:" in told
    assert "--own is for ours all the same" in told
    assert "hunter2" not in told
    assert headrace("schemas", *typed, "--own").exit_code == 0
    assert len(store.schema_subjects.versions()) == 1


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8085", "http://any:hr_x@localhost:8085/", "http://127.0.0.1:25001"],
)
def test_ours_may_be_named_by_its_door_or_as_up_serves_it(headrace, config, url):
    served = {"registry_url": "http://127.0.0.1:25001", "registry_user_file": "registry-key"}
    remember(folder_of(config.parent), served)
    named(config, url, "schema_registry: {port: 8085}\n")
    listed = headrace("schemas", "list")
    assert listed.exit_code == 0, listed.output


def test_another_path_or_port_is_another_registry(headrace, config):
    named(config, "http://127.0.0.1:8081/apis/ccompat/v7")
    assert headrace("schemas", "list").exit_code == 2
    config.write_text(config.read_text().replace("8081/apis/ccompat/v7", "8082"))
    assert headrace("schemas", "list").exit_code == 2


def test_an_address_that_the_environment_lacks_is_not_taken_for_ours(headrace, config):
    named(config, "'${REGISTRY_THAT_NOBODY_SET}'")
    refused = headrace("schemas", "list")
    assert refused.exit_code == 2
    assert "REGISTRY_THAT_NOBODY_SET" in refused.output


def test_one_that_up_found_in_the_file_is_another_registry(headrace, config):
    remember(folder_of(config.parent), {"registry_url": "http://127.0.0.1:25001"})
    named(config, "http://127.0.0.1:25001")
    assert headrace("schemas", "list").exit_code == 2


@pytest.mark.parametrize(
    "shown",
    [
        "schema.registry.url: https://any:KEY@registry.acme",
        "schema.registry.url: https://registry.acme, basic.auth.user.info: any:KEY",
        "schema.registry.url: https://registry.acme, bearer.auth.token: KEY",
        "schema.registry.url: https://registry.acme, basic.auth.user.info.file: registry-user",
    ],
)
def test_whoever_is_asked_with_a_key_of_ours_is_ours_whatever_its_address(
    headrace, config, store, shown
):
    key, kept = new_key(Role.SCHEMAS, None, "drivers", b"s" * 32, 0.0)
    (config.parent / "registry-user").write_text(f"drivers:{key}\n")
    config.write_text(f"{config.read_text()}registry: {{{shown.replace('KEY', key)}}}\n")
    assert headrace("schemas", "list").exit_code == 2
    store.keys.add(kept)
    assert headrace("schemas", "list").exit_code == 0
    (config.parent / "registry-user").unlink()
    assert headrace("schemas", "list").exit_code == (2 if "file" in shown else 0)
