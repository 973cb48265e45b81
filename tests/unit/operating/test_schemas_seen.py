"""The ids that records carry, in the words of people."""

from uuid import UUID

from headrace.model.statistics import WriterFigures
from headrace.model.topic_lists import topics_of
from headrace.operating.schemas_seen import known_versions, named_after, schemas_seen
from headrace.ports import SchemaKind
from headrace.ports.schema_subjects import NewSchema
from headrace.testing.memory_store import MemoryStore

NOW_S = 1_700_000_000.0


def registered(store, subject, text):
    new = NewSchema(SchemaKind.AVRO, text, text.encode(), UUID(int=len(text)))
    return store.schema_subjects.register(store.schema_subjects.seen(subject), new)


def written_by(id_, column="value", ago_s=5.0):
    return WriterFigures(column, str(id_), 3, NOW_S - 100, NOW_S - ago_s)


def named(store, *writers, topic="acme.visits", others=()):
    names = named_after(topics_of(topic), "acme", others)
    found = schemas_seen(known_versions(store.schema_subjects, names), names, writers, NOW_S)
    everything = known_versions(store.schema_subjects)
    assert found == schemas_seen(everything, names, writers, NOW_S)
    return [(schema.schema_id, schema.subject, schema.version) for schema in found]


def test_an_id_of_the_subject_of_the_topic_has_its_subject_and_version():
    store = MemoryStore()
    first = registered(store, "acme.visits-value", '"long"')
    second = registered(store, "acme.visits-value", '"double"')
    assert named(store, written_by(second.id), written_by(first.id)) == [
        (str(second.id), "acme.visits-value", 2),
        (str(first.id), "acme.visits-value", 1),
    ]


def test_whose_else_a_schema_is_is_not_told():
    store = MemoryStore()
    theirs = registered(store, "bolt.visits-value", '"long"')
    longer = registered(store, "acme.visits-value-old-value", '"double"')
    keys = registered(store, "acme.visits-key", '"string"')
    for version in (theirs, longer, keys):
        assert named(store, written_by(version.id)) == [(str(version.id), None, None)]
    assert named(store, written_by(keys.id, "key")) == [(str(keys.id), "acme.visits-key", 1)]


def test_what_was_told_long_ago_is_over_and_the_others_have_no_id():
    seen = [written_by(7, ago_s=3601.0), written_by("")]
    assert named(MemoryStore(), *seen) == [(None, None, None)]


def test_a_subject_that_all_tenants_share_is_told_by_its_name():
    store = MemoryStore()
    registered(store, "acme.visits-value", '"long"')
    registered(store, "visits-value", '"long"')
    shared = registered(store, "visits-value", '"double"')
    assert named(store, written_by(1)) == [("1", "acme.visits-value", 1)]
    assert named(store, written_by(shared.id)) == [(str(shared.id), "visits-value", 2)]
    for topic, others in (("acmevisits", ()), ("visits.acme", ()), ("acme.visits", {"visits"})):
        assert named(store, written_by(shared.id), topic=topic, others=others) == [
            (str(shared.id), None, None)
        ]


def test_of_a_list_each_topic_has_its_subjects():
    store = MemoryStore()
    shared = registered(store, "clicks-value", '"long"')
    assert named(store, written_by(shared.id), topic="acme.clicks,acme.visits[3]") == [
        (str(shared.id), "clicks-value", 1)
    ]
    names = named_after(topics_of("acme.clicks,acme.visits[3]"), "acme", ["visits"])
    assert names == ("acme.clicks", "acme.visits", "clicks")
