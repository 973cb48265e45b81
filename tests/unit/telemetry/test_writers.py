"""Who wrote a stream's records, over an hour."""

from headrace.model.receipts import MOST_WRITERS, Writer, WrittenBy, most_written
from headrace.telemetry.writers import BUCKET_S, SeenWriters

#: a bucket begins here
START_S = BUCKET_S * 5_000_000


def by(id_, records=1, column="value"):
    return WrittenBy(Writer(column, str(id_)), records)


def told(seen, now_s):
    return {writer.schema_id: writer.records for writer in seen.figures(now_s)}


def test_records_of_a_schema_are_added_up_and_the_newest_schema_comes_first():
    seen = SeenWriters()
    seen.add([by(1, 5)], START_S + 1)
    seen.add([by(1, 2), by(2, 3)], START_S + 400)
    assert told(seen, START_S + 500) == {"2": 3, "1": 7}
    newest, oldest = seen.figures(START_S + 500)
    assert (newest.first_at_s, newest.last_at_s) == (START_S + 400, START_S + 400)
    assert (oldest.first_at_s, oldest.last_at_s) == (START_S + 1, START_S + 400)


def test_what_is_older_than_an_hour_is_forgotten():
    seen = SeenWriters()
    seen.add([by(1, 5)], START_S + 1)
    seen.add([by(1, 2)], START_S + BUCKET_S)
    seen.add([by(2, 1)], START_S + 3 * BUCKET_S)
    assert not seen.forgets(START_S + 3599)
    assert told(seen, START_S + 3599) == {"1": 7, "2": 1}
    assert seen.forgets(START_S + 3600)
    (_, first) = seen.figures(START_S + 3600)
    assert (first.records, first.first_at_s) == (2, START_S + BUCKET_S)
    assert not seen.forgets(START_S + 3600)
    assert told(seen, START_S + 3600 + BUCKET_S) == {"2": 1}
    assert told(seen, START_S + 3600 + 3 * BUCKET_S) == {}
    assert not seen.forgets(START_S + 10**9)


def test_a_clock_that_is_set_back_loses_no_record():
    seen = SeenWriters()
    seen.add([by(1, 5)], START_S + 3600)
    seen.add([by(1, 2)], START_S)
    (writer,) = seen.figures(START_S + 1)
    assert (writer.records, writer.first_at_s, writer.last_at_s) == (7, START_S, START_S)


def test_ids_that_a_stranger_makes_up_grow_nothing_and_hide_no_new_version():
    seen = SeenWriters()
    for number in range(1_000):
        seen.add([by(f"made-up-{number}")], START_S + number / 1_000)
    seen.add([by("version-2", 4)], START_S + 1)
    found = told(seen, START_S + 2)
    assert found["version-2"] == 4
    assert found[""] == 1_000 - (MOST_WRITERS - 1)
    assert len(found) == MOST_WRITERS + 1


def test_of_a_slice_those_who_wrote_most_are_told_apart_and_none_is_lost():
    counts = {Writer("value", str(number)): number + 1 for number in range(100)}
    found = most_written(counts)
    assert len(found) == MOST_WRITERS + 1
    assert found[Writer("value", "99")] == 100
    assert sum(found.values()) == sum(counts.values())
    again = most_written({**found, Writer("value", "99"): 200})
    assert sum(again.values()) == sum(counts.values()) + 100
    assert len(again) == MOST_WRITERS + 1
