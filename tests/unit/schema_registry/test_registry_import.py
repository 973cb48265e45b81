"""Schemas that come with the ids and versions that they have elsewhere."""

import pytest
from registry_parts import AVRO, BROKEN, MORE, OF_ACME

from headrace.model.credentials import Role
from headrace.ports import SubjectSetting
from headrace.schema_registry.importing import MOST_GIVEN_ID

SUBJECT = "acme.visits-value"
PROTO = 'syntax = "proto3"; // ours\nmessage Visit { string lead = 1; }'


@pytest.fixture
def moving(world):
    """A registry that imports."""
    assert world.ask("PUT", "/mode", {"mode": "IMPORT"}).json() == {"mode": "IMPORT"}
    return world


def bring(world, text, id_, version=None, subject=SUBJECT, **more):
    body = {"schema": text, "id": id_} | ({} if version is None else {"version": version}) | more
    return world.ask("POST", f"/subjects/{subject}/versions", body)


def refusal(answer):
    return answer.status_code, answer.json().get("error_code")


def test_ids_and_versions_come_along_in_any_order_and_nothing_is_held_against_others(moving):
    for text, id_, version in ((BROKEN, 712, 3), (AVRO, 710, 1), (MORE, 711, 2)):
        assert bring(moving, text, id_, version).json()["id"] == id_
    moving.ask("PUT", "/mode", {"mode": "READWRITE"})
    rows = [moving.ask("GET", f"/subjects/{SUBJECT}/versions/{n}").json() for n in (1, 2, 3)]
    assert [(row["version"], row["id"], row["schema"]) for row in rows] == [
        (1, 710, AVRO),
        (2, 711, MORE),
        (3, 712, BROKEN),
    ]
    assert moving.put("bolt.visits-value", '"string"')["id"] == 713
    assert moving.put("bolt.visits-key", AVRO)["id"] == 710
    body = {"schema": AVRO.replace("Visit", "Other")}
    assert moving.refused("POST", f"/subjects/{SUBJECT}/versions", body) == (409, 409)


def test_the_same_again_is_one_version(moving):
    first = bring(moving, AVRO, 7, 1).json()
    assert [bring(moving, AVRO, 7, v).json() for v in (1, None)] == [first, first]
    assert moving.ask("GET", f"/subjects/{SUBJECT}/versions").json() == [1]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (MORE, (7, None)),
        (MORE, (8, 1)),
        (MORE, (7, 1)),
        (MORE, (None, 2)),
        (MORE, (MOST_GIVEN_ID + 1, None)),
        (MORE, (8, MOST_GIVEN_ID + 1)),
    ],
)
def test_a_number_that_is_taken_or_missing_is_refused_and_nothing_is_done(moving, text, numbers):
    bring(moving, AVRO, 7, 1)
    assert refusal(bring(moving, text, *numbers)) == (422, 42205)
    kept = moving.store.schema_subjects
    assert (kept.versions(), kept.newest_id()) == ([(SUBJECT, 1, 7, False)], 7)


@pytest.mark.parametrize("number", ["7", 1.5, True, -2, 2**31])
def test_what_is_no_number_is_refused(moving, number):
    assert refusal(bring(moving, AVRO, number)) == (422, 422)


def test_two_ids_of_elsewhere_that_are_one_schema_here_both_stay(moving):
    spread = AVRO.replace('","', '" , "')
    assert bring(moving, AVRO, 7, 1).json()["version"] == 1
    for _ in range(2):
        again = bring(moving, spread, 8, 2)
        assert (again.json()["id"], again.json()["version"]) == (8, 2)
    moving.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert moving.ask("GET", "/schemas/ids/8").json()["schema"] == spread
    bring_other = moving.ask("POST", f"/subjects/{SUBJECT}", {"schema": AVRO}).json()
    assert (bring_other["id"], bring_other["version"]) == (7, 1)
    moving.ask("DELETE", f"/subjects/{SUBJECT}/versions/1")
    assert moving.ask("POST", f"/subjects/{SUBJECT}", {"schema": AVRO}).json()["id"] == 8
    assert moving.put(SUBJECT, AVRO)["version"] == 2


def test_a_file_with_comments_keeps_its_id_under_all_subjects_that_bring_it(moving):
    for subject in (SUBJECT, "bolt.visits-value"):
        answer = bring(moving, PROTO, 9, 1, subject, schemaType="PROTOBUF")
        assert answer.json()["id"] == 9
        body = {"schema": PROTO, "schemaType": "PROTOBUF"}
        assert moving.ask("POST", f"/subjects/{subject}", body).json()["id"] == 9
    moving.ask("PUT", "/mode", {"mode": "READWRITE"})
    assert moving.put("acme.visits-key", PROTO, schemaType="PROTOBUF")["id"] == 10


def test_what_is_imported_beside_others_has_to_be_said(world):
    world.put(SUBJECT)
    for path in ("/mode", f"/mode/{SUBJECT}"):
        assert world.refused("PUT", path, {"mode": "IMPORT"}) == (422, 42205)
        assert world.ask("PUT", f"{path}?force=true", {"mode": "IMPORT"}).status_code == 200
        assert world.ask("PUT", path, {"mode": "IMPORT"}).status_code == 200
    assert bring(world, MORE, 70).json()["version"] == 2


def test_without_the_mode_no_number_is_taken(world):
    assert refusal(bring(world, AVRO, 7)) == (422, 42205)
    assert refusal(bring(world, AVRO, None, 1)) == (422, 42205)
    assert world.store.schema_subjects.versions() == []


@pytest.mark.parametrize("role", [OF_ACME, *(role for role in Role if role is not Role.OPERATOR)])
def test_nobody_but_an_operator_takes_ids_or_learns_which_are_taken(moving, role):
    bring(moving, AVRO, 7, 1, "bolt.visits-value")
    for id_ in (7, 8):
        body = {"schema": MORE, "id": id_}
        path = f"/subjects/{SUBJECT}/versions"
        assert moving.refused("POST", path, body, role=role) == (403, 40301)


@pytest.mark.parametrize("role", [Role.OPERATOR, OF_ACME])
def test_what_is_there_already_is_answered_without_a_number_and_nothing_new_is(moving, role):
    first = bring(moving, AVRO, 7, 1).json()
    path = f"/subjects/{SUBJECT}/versions"
    assert moving.ask("POST", path, {"schema": AVRO}, role=role).json() == first
    refused = (422, 42205) if role is Role.OPERATOR else (403, 40301)
    assert moving.refused("POST", path, {"schema": MORE}, role=role) == refused
    assert moving.store.schema_subjects.versions() == [(SUBJECT, 1, 7, False)]


def test_what_refers_to_nothing_is_not_imported_either(moving):
    refers = [{"name": "Part", "subject": "part", "version": 4}]
    assert refusal(bring(moving, AVRO, 7, references=refers)) == (422, 42201)


def test_a_mode_that_changed_meanwhile_is_seen(moving, monkeypatch):
    """The numbers are judged again when the operator has ended the import."""
    ours, real = moving.store.schema_subjects, moving.store.schema_subjects.register

    def register(*asked):
        ours.set_for(None, {SubjectSetting.MODE: "READWRITE"})
        return real(*asked)

    monkeypatch.setattr(ours, "register", register)
    assert refusal(bring(moving, AVRO, 7)) == (422, 42205)
    assert ours.versions() == []
