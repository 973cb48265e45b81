"""What a client asks of a registry, asked of ours and of Apicurio's: where do they differ?

"Like Confluent's" is what each of two servers says of itself. So one list of questions is asked of
both, in order, from an empty registry on, and what the other answers otherwise is a table here. A
row that does not hold any more, on either side, fails.
"""

import json
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.testclient import TestClient

from headrace.doors.open_guard import OpenGuard
from headrace.schema_registry.app import RegistryParts, registry_app
from headrace.schema_registry.judges import JudgesHere
from headrace.schema_registry.owners import Owners
from headrace.testing.memory_store import MemoryStore
from registry_server import RegistryServer

PATIENCE_S = 60
MEDIA = {"Content-Type": "application/vnd.schemaregistry.v1+json"}


def record(name, *fields):
    named = [{"name": f, "type": kind} | more for f, kind, more in fields]
    return json.dumps({"type": "record", "name": name, "fields": named})


AVRO = record("Visit", ("lead", "string", {}))
MORE = record("Visit", ("lead", "string", {}), ("at", "long", {"default": 0}))
BROKEN = record("Visit", ("lead", "string", {}), ("must", "long", {}))
WHOLE = record("Whole", ("visit", "Visit", {}))
REFERS = [{"name": "Visit", "subject": "a", "version": 1}]
DRAFT = "http://json-schema.org/draft-07/schema#"
JSON = {"schema": json.dumps({"$schema": DRAFT, "type": "object"}), "schemaType": "JSON"}
PROTO = {"schema": 'syntax = "proto3"; message V { string lead = 1; }', "schemaType": "PROTOBUF"}
CHECK = "/compatibility/subjects/a/versions"


@dataclass(frozen=True)
class Question:
    """A request, and what of its answer a client goes by."""

    what: str
    asked: str
    body: object = None
    fields: tuple = field(default=())

    def answer(self, client):
        """The status, and the code of a refusal or what was asked for."""
        method, _, path = self.asked.partition(" ")
        content = None if self.body is None else self.body
        if isinstance(content, dict):
            content = json.dumps(content)
        answer = client.request(method, path, content=content, headers=MEDIA)
        try:
            said = answer.json()
        except ValueError:
            return answer.status_code, None
        if answer.status_code >= 400:
            return answer.status_code, said.get("error_code")
        if self.fields:
            return answer.status_code, *(said.get(name) for name in self.fields)
        return answer.status_code, said


A = "/subjects/a"
NUMBERS = ("id",)
QUESTIONS = (
    Question("subjects of an empty registry", "GET /subjects"),
    Question("no such subject", f"GET {A}/versions"),
    Question("no such id", "GET /schemas/ids/999"),
    Question("compatibility unless said", "GET /config", fields=("compatibilityLevel",)),
    Question("mode unless said", "GET /mode"),
    Question("types", "GET /schemas/types"),
    Question("register", f"POST {A}/versions", {"schema": AVRO}, NUMBERS),
    Question("register again", f"POST {A}/versions", {"schema": AVRO}, NUMBERS),
    Question(
        "register in spread out form",
        f"POST {A}/versions",
        {"schema": AVRO.replace(",", ", ")},
        NUMBERS,
    ),
    Question("register elsewhere", "POST /subjects/b/versions", {"schema": AVRO}, NUMBERS),
    Question("by id", "GET /schemas/ids/1", fields=("schema",)),
    Question("text by id", "GET /schemas/ids/1/schema"),
    Question("versions of an id", "GET /schemas/ids/1/versions"),
    Question("by version", f"GET {A}/versions/1", fields=("subject", "version", "id")),
    Question("latest", f"GET {A}/versions/latest", fields=("subject", "version", "id")),
    Question("text by version", f"GET {A}/versions/1/schema"),
    Question("no such version", f"GET {A}/versions/9"),
    Question("no version at all", f"GET {A}/versions/x"),
    Question("by schema", f"POST {A}", {"schema": AVRO}, ("subject", "version", "id")),
    Question("by another schema", f"POST {A}", {"schema": MORE}),
    Question("by schema, no such subject", "POST /subjects/none", {"schema": AVRO}),
    Question("no schema", f"POST {A}/versions", {"schema": "{"}),
    Question("no JSON", f"POST {A}/versions", "{"),
    Question("an unknown type", f"POST {A}/versions", {"schema": "x", "schemaType": "XML"}),
    Question("set compatibility", "PUT /config/a", {"compatibility": "BACKWARD"}),
    Question("set what is none", "PUT /config/a", {"compatibility": "ANY"}),
    Question("compatibility of a subject", "GET /config/a", fields=("compatibilityLevel",)),
    Question("compatibility that is not set", "GET /config/b"),
    Question("compatible", f"POST {CHECK}/latest", {"schema": MORE}, ("is_compatible",)),
    Question("incompatible", f"POST {CHECK}/latest", {"schema": BROKEN}, ("is_compatible",)),
    Question("compatible with no version", f"POST {CHECK}/9", {"schema": MORE}),
    Question("register the compatible", f"POST {A}/versions", {"schema": MORE}, NUMBERS),
    Question("register the incompatible", f"POST {A}/versions", {"schema": BROKEN}),
    Question("register JSON Schema", "POST /subjects/j/versions", JSON, NUMBERS),
    Question("register Protobuf", "POST /subjects/p/versions", PROTO, NUMBERS),
    Question(
        "a reference", "POST /subjects/w/versions", {"schema": WHOLE, "references": REFERS}, NUMBERS
    ),
    Question(
        "a reference to nothing",
        "POST /subjects/w/versions",
        {"schema": WHOLE, "references": [REFERS[0] | {"version": 7}]},
    ),
    Question("referred to by", f"GET {A}/versions/1/referencedby"),
    Question("delete what is referred to", f"DELETE {A}/versions/1"),
    Question("delete for good at once", "DELETE /subjects/w?permanent=true"),
    Question("delete", "DELETE /subjects/w"),
    Question("delete again", "DELETE /subjects/w"),
    Question("deleted, by version", "GET /subjects/w/versions/1"),
    Question("subjects", "GET /subjects"),
    Question("subjects with deleted ones", "GET /subjects?deleted=true"),
    Question("delete for good", "DELETE /subjects/w?permanent=true"),
    Question("delete for good again", "DELETE /subjects/w?permanent=true"),
    Question("subjects after that", "GET /subjects?deleted=true"),
    Question("delete a version", f"DELETE {A}/versions/2"),
    Question("versions after that", f"GET {A}/versions"),
    Question("register the deleted one", f"POST {A}/versions", {"schema": MORE}, NUMBERS),
    Question("its version", f"GET {A}/versions/latest", fields=("version",)),
    Question("set a mode", "PUT /mode/a", {"mode": "READONLY"}),
    Question("set what is no mode", "PUT /mode/a", {"mode": "ANY"}),
    Question("register where it is read only", f"POST {A}/versions", {"schema": record("Visit")}),
    Question("import beside others", "PUT /mode", {"mode": "IMPORT"}),
    Question("import beside others by force", "PUT /mode?force=true", {"mode": "IMPORT"}),
    Question(
        "import", "POST /subjects/i/versions", {"schema": '"int"', "id": 700, "version": 3}, NUMBERS
    ),
    Question("import what is taken", "POST /subjects/i2/versions", {"schema": '"long"', "id": 700}),
    Question("its version there", "GET /subjects/i/versions"),
    Question("an empty schema", "POST /subjects/e/versions", {"schema": ""}),
)

#: what ours answers, as Confluent's registry is told to
OURS = {
    "subjects of an empty registry": (200, []),
    "no such subject": (404, 40401),
    "no such id": (404, 40403),
    "compatibility unless said": (200, "BACKWARD"),
    "mode unless said": (200, {"mode": "READWRITE"}),
    "types": (200, ["JSON", "PROTOBUF", "AVRO"]),
    "register": (200, 1),
    "register again": (200, 1),
    "register in spread out form": (200, 1),
    "register elsewhere": (200, 1),
    "by id": (
        200,
        '{"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]}',
    ),
    "text by id": (
        200,
        {"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]},
    ),
    "versions of an id": (200, [{"subject": "a", "version": 1}, {"subject": "b", "version": 1}]),
    "by version": (200, "a", 1, 1),
    "latest": (200, "a", 1, 1),
    "text by version": (
        200,
        {"type": "record", "name": "Visit", "fields": [{"name": "lead", "type": "string"}]},
    ),
    "no such version": (404, 40402),
    "no version at all": (422, 42202),
    "by schema": (200, "a", 1, 1),
    "by another schema": (404, 40403),
    "by schema, no such subject": (404, 40401),
    "no schema": (422, 42201),
    "no JSON": (400, 400),
    "an unknown type": (422, 42201),
    "set compatibility": (200, {"compatibility": "BACKWARD"}),
    "set what is none": (422, 42203),
    "compatibility of a subject": (200, "BACKWARD"),
    "compatibility that is not set": (404, 40408),
    "compatible": (200, True),
    "incompatible": (200, False),
    "compatible with no version": (404, 40402),
    "register the compatible": (200, 2),
    "register the incompatible": (409, 409),
    "register JSON Schema": (200, 3),
    "register Protobuf": (200, 4),
    "a reference": (200, 5),
    "a reference to nothing": (422, 42201),
    "referred to by": (200, [5]),
    "delete what is referred to": (422, 42206),
    "delete for good at once": (404, 40405),
    "delete": (200, [1]),
    "delete again": (404, 40404),
    "deleted, by version": (404, 40401),
    "subjects": (200, ["a", "b", "j", "p"]),
    "subjects with deleted ones": (200, ["a", "b", "j", "p", "w"]),
    "delete for good": (200, [1]),
    "delete for good again": (404, 40401),
    "subjects after that": (200, ["a", "b", "j", "p"]),
    "delete a version": (200, 2),
    "versions after that": (200, [1]),
    "register the deleted one": (200, 2),
    "its version": (200, 3),
    "set a mode": (200, {"mode": "READONLY"}),
    "set what is no mode": (422, 42204),
    "register where it is read only": (422, 42205),
    "import beside others": (422, 42205),
    "import beside others by force": (200, {"mode": "IMPORT"}),
    "import": (200, 700),
    "import what is taken": (422, 42205),
    "its version there": (200, [3]),
    "an empty schema": (422, 42201),
}
#: what Apicurio 3.0.9 answers otherwise; ids are others after the first of these that made one
OTHERWISE = {
    "compatibility unless said": (200, "NONE"),
    "mode unless said": (404, None),
    "register in spread out form": (200, 2),
    "latest": (200, "a", 2, 2),
    "no version at all": (404, 40402),
    "no JSON": (400, None),
    "set compatibility": (200, {"compatibilityLevel": "BACKWARD"}),
    "set what is none": (500, 0),
    "compatibility that is not set": (200, {"compatibilityLevel": "NONE"}),
    "register the compatible": (200, 4),
    "register JSON Schema": (200, 5),
    "register Protobuf": (200, 6),
    "a reference": (200, 7),
    "referred to by": (200, [7]),
    "delete for good at once": (409, 40405),
    "versions after that": (200, [1, 3]),
    "register the deleted one": (200, 4),
    "set a mode": (204, None),
    "set what is no mode": (400, None),
    "register where it is read only": (200, {"id": 8}),
    "import beside others": (404, None),
    "import beside others by force": (404, None),
    "import": (200, 9),
    "import what is taken": (200, {"id": 10}),
    "its version there": (200, [1]),
    "an empty schema": (200, {"id": 11}),
}


@pytest.fixture
def ours():
    store = MemoryStore()
    parts = RegistryParts(store, OpenGuard("127.0.0.1"), JudgesHere(), Owners(store))
    with TestClient(registry_app(parts), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def theirs(tmp_path):
    with (
        RegistryServer(tmp_path) as server,
        httpx.Client(base_url=server.url, timeout=PATIENCE_S) as client,
    ):
        yield client


def test_ours_answers_as_confluents(ours):
    assert {question.what: question.answer(ours) for question in QUESTIONS} == OURS


def test_another_server_differs_where_the_table_says_and_nowhere_else(theirs):
    found = {question.what: question.answer(theirs) for question in QUESTIONS}
    assert {what: said for what, said in found.items() if said != OURS[what]} == OTHERWISE
