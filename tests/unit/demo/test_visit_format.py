"""Visits of two kinds in one topic, and the schema of the one changing in the middle."""

import threading
from dataclasses import replace

import pyarrow as pa
import pytest

from headrace.demo.avro_visits import FIRST_LINES, AvroVisits, encoding_of
from headrace.demo.use_cases import VISITS, visits
from headrace.demo.visits import read_visits
from headrace.errors import RegistryUnavailable
from headrace.formats import Avro
from headrace.formats.framing import counted_ids
from headrace.ports import names_writers, needs_registry
from headrace.schema_registry.rules.avro_rules import avro_faults
from headrace.testing.format_contract import *  # noqa: F403 - as the suite is taken
from headrace.testing.format_contract import as_given
from headrace.testing.schemas_fake import MemorySchemas

GO_ON = threading.Event()
SOME = [visit for visit in read_visits() if FIRST_LINES - 9 < visit.line <= FIRST_LINES + 9]
#: bare Avro of the use cases' own schema, of which everything but lead and path is null
BARE = b"\0\4me\0\4/p\0\0\0"


@pytest.fixture
def formats():
    whole, few = visits(*VISITS.names), visits("lead", "path")
    text = whole.avro.text
    return [
        replace(whole, avro=Avro(text, fields=VISITS.names, framing="none")),
        replace(few, avro=Avro(text, fields=["lead", "path"], framing="none")),
    ]


@pytest.fixture
def payloads():
    json = b'{"lead": "you", "path": "/q", "status": 200}'
    return [BARE, json, b"\0\4", None, b"{}", json, BARE, b""]


@pytest.fixture
def registry():
    return MemorySchemas()


@pytest.fixture
def written(registry):
    made = AvroVisits(registry)
    made.prepare(SOME)
    return made


def column(payloads):
    return pa.chunked_array([pa.array(payloads, pa.binary())])


def read(registry, payloads):
    return visits(*VISITS.names).decode(as_given(column(payloads), schemas=registry))


def test_visits_are_read_as_they_are_whichever_way_they_came(registry, written):
    payloads = [
        visit.as_json() if number % 3 == 0 else written.value(visit, GO_ON)
        for number, visit in enumerate(SOME)
    ]
    found = read(registry, payloads)
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
    assert sorted(counted_ids(as_given(column(payloads))).values()) == [6, 6]


def test_each_subject_has_two_versions_and_the_second_may_follow_the_first(registry, written):
    for visit in SOME:
        written.value(visit, GO_ON)
    assert set(registry.subjects) == {f"{visit.topic}-value" for visit in SOME}
    first, second = (encoding_of(version).registers.schema for version in (1, 2))
    assert [registry.schemas[id_] for id_ in (1, 2)] == [first, second]
    assert avro_faults(second, first) == []
    assert avro_faults(first, second) == []


def test_what_waits_for_the_registry_waits_with_all_that_is_behind_it(registry, written):
    first, last = (written.value(visit, GO_ON) for visit in (SOME[0], SOME[-1]))
    registry.away = True
    json = SOME[3].as_json()
    found = read(registry, [json, json, first, json])
    assert (found.waiting.row, found.columns.num_rows) == (2, 2)
    registry.away = False
    read(registry, [first])
    registry.away = True
    found = read(registry, [first, json, last])
    assert (found.waiting.row, found.columns.num_rows) == (2, 2)


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


def test_it_is_known_of_the_format_that_it_asks_a_registry_and_whose_records_name_schemas():
    assert needs_registry(visits("lead"))
    assert names_writers(visits("lead"))
