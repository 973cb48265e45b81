"""Visits by two versions of a schema, from the site's producers and from the gateway."""

import json
import threading

import pyarrow as pa
import pytest

from headrace.demo.avro_visits import FIRST_LINES, POSTED_SUBJECT, VERSIONS, AvroVisits, encoding_of
from headrace.demo.use_cases import VISIT
from headrace.demo.visits import read_visits
from headrace.errors import RegistryUnavailable
from headrace.formats import Avro
from headrace.formats.framing import counted_ids
from headrace.gateway.events import EventLimits
from headrace.gateway.subject_events import SubjectEvents
from headrace.gateway.subjects import Subject
from headrace.schema_registry.rules.avro_rules import avro_faults
from headrace.testing.format_contract import as_given
from headrace.testing.schemas_fake import MemorySchemas

GO_ON = threading.Event()
SOME = [visit for visit in read_visits() if FIRST_LINES - 9 < visit.line <= FIRST_LINES + 9]


@pytest.fixture
def registry():
    return MemorySchemas()


@pytest.fixture
def written(registry):
    made = AvroVisits(registry)
    made.register_posted()
    made.prepare(SOME)
    return made


def by_gateway(registry, text):
    """What the gateway makes of an event."""
    subject = Subject(POSTED_SUBJECT)
    subject.look(registry)
    return SubjectEvents(subject, EventLimits()).written(text, json.loads(text))


def read(registry, payloads):
    column = pa.chunked_array([pa.array(payloads, pa.binary())])
    given = as_given(column, schemas=registry)
    return Avro(VISIT).decode(given), sorted(counted_ids(given).items())


def test_visits_are_read_as_they_are_whichever_way_they_came(registry, written):
    payloads = [
        by_gateway(registry, visit.as_json()) if number % 3 == 0 else written.value(visit, GO_ON)
        for number, visit in enumerate(SOME)
    ]
    found, by_schema = read(registry, payloads)
    assert found.undecoded == ()
    expected = [
        {
            "line": visit.line,
            "lead": visit.lead,
            "at": visit.at,
            "path": visit.path,
            "status": visit.status,
            "bytes": visit.size_bytes,
            "method": visit.method if number % 3 == 0 or visit.line > FIRST_LINES else None,
        }
        for number, visit in enumerate(SOME)
    ]
    assert found.columns.to_pylist() == expected
    # The gateway's and the producers' second version are one schema.
    assert by_schema == [(1, 6), (2, 12)]


def test_a_visit_that_is_typed_by_hand_needs_a_lead_and_a_path_alone(registry, written):
    del written
    found, _ = read(
        registry, [by_gateway(registry, b'{"lead": "me", "path": "/projects/keynav/"}')]
    )
    (visit,) = found.columns.to_pylist()
    assert {name: value for name, value in visit.items() if value is not None} == {
        "lead": "me",
        "path": "/projects/keynav/",
    }
    assert by_gateway(registry, b'{"lead": "me"}').kind == "not-valid"


def test_each_subject_has_two_versions_and_the_second_may_follow_the_first(registry, written):
    for visit in SOME:
        written.value(visit, GO_ON)
    assert set(registry.subjects) == {POSTED_SUBJECT, *(f"{visit.topic}-value" for visit in SOME)}
    assert registry.subjects[POSTED_SUBJECT] == [1, 2]
    first, second = (encoding_of(version).registers.schema for version in VERSIONS)
    assert [registry.schemas[id_] for id_ in (1, 2)] == [first, second]
    assert avro_faults(second, first) == []


def test_a_producer_waits_for_a_registry_that_is_away_until_it_is_stopped(registry, written):
    registry.away = True
    over = threading.Event()
    over.set()
    assert written.value(SOME[0], over) is None


def test_a_producer_gives_up_after_a_while(registry, written, monkeypatch):
    monkeypatch.setattr("headrace.demo.avro_visits._REGISTERED_WITHIN_S", -1.0)
    registry.away = True
    with pytest.raises(RegistryUnavailable):
        written.value(SOME[0], GO_ON)
