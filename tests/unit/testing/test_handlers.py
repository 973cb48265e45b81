"""A test of a use case finds what would else stop its first lane in production."""

import re
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace import BadRecord, use_case
from headrace.errors import ConfigError, RegistryUnavailable, SinkRefused, WrongSchema
from headrace.formats import Avro, Json
from headrace.sinks import Email, KafkaTopic, ParquetFiles, SqlTable
from headrace.testing.handlers import handled

SINKS = {
    "sql": SqlTable("pages", columns={"page": "text"}),
    "parquet": ParquetFiles("pages", schema=pa.schema([("page", pa.string())])),
}


def returning(sink, **columns):
    @use_case(topic="{tenant}.visits", sink=sink, name="pages")
    def pages(visits, context):
        return pa.table(columns)

    return pages


def test_records_are_as_the_reader_gives_them():
    seen = {}

    @use_case(topic="{tenant}.visits", sink=KafkaTopic("t"))
    def look(visits, context):
        seen.update(visits.to_pydict(), tenant=context.tenant, options=context.options)
        seen["slices"] = [str(piece) for piece in context.slices]
        return pa.table({})

    values = [{"page": "/"}, '"text"', b"\xff", None]
    handled(look, values, tenant="bolt", options={"a": "1"})
    assert seen["value"] == [b'{"page": "/"}', b'"text"', b"\xff", None]
    assert seen["topic"] == ["bolt.visits"] * 4
    assert seen["offset"] == [0, 1, 2, 3]
    assert (seen["tenant"], seen["options"]) == ("bolt", {"a": "1"})
    assert seen["slices"] == ["bolt.visits[0] 0..4"]


@pytest.mark.parametrize(
    ("reads", "topic", "seen"),
    [
        (["{tenant}.visits", "{tenant}.clicks"], None, ("acme.clicks", 0, "acme")),
        (["{tenant}.visits", "{tenant}.clicks"], "acme.visits", ("acme.visits", 0, "acme")),
        (["impressions[3]", "impressions[5]"], None, ("impressions", 3, "everyone")),
        (re.compile(r"(?P<tenant>[a-z]+)\.(a|b)"), "bolt.b", ("bolt.b", 0, "bolt")),
        (re.compile("clicks-[0-9]"), "clicks-7", ("clicks-7", 0, "everyone")),
    ],
)
def test_a_record_is_of_one_of_the_topics_that_are_read(reads, topic, seen):
    @use_case(topic=reads, sink=KafkaTopic("t"))
    def look(records, context):
        (piece,) = context.slices
        (row,) = records.to_pylist()
        assert piece.lane.name == f"{row['topic']}[{row['partition']}]"
        found = [row["topic"], row["partition"], context.tenant]
        return pa.table({"value": [repr(found)]})

    rows = handled(look, [b"x"], topic=topic)
    assert rows["value"].to_pylist() == [repr(list(seen))]


@pytest.mark.parametrize(
    ("reads", "topic", "told"),
    [
        (["{tenant}.visits", "{tenant}.clicks"], "acme.carts", "and not 'acme.carts'"),
        ("{tenant}.visits", "bolt.visits", "reads acme.visits, and not 'bolt.visits'"),
        (re.compile("clicks-[0-9]"), None, "say topic='...'"),
        (re.compile("clicks-[0-9]"), "clicks-a", "does not match 'clicks-a'"),
    ],
)
def test_a_topic_that_is_not_read_is_refused(reads, topic, told):
    look = use_case(topic=reads, sink=KafkaTopic("t"), name="look")(lambda records, _: records)
    with pytest.raises(ConfigError, match=told):
        handled(look, [b"x"], topic=topic)


@pytest.mark.parametrize("sink", SINKS.values(), ids=SINKS)
def test_a_column_that_the_sink_does_not_take_is_found(sink):
    assert handled(returning(sink, page=["/"]), [b"x"]).num_rows == 1
    for columns in ({"pages": ["/"]}, {"page": [1]}, {"page": ["/"], "more": [1]}):
        with pytest.raises(WrongSchema, match="page"):
            handled(returning(sink, **columns), [b"x"])


def test_a_message_and_a_mail_are_looked_at_row_by_row():
    with pytest.raises(SinkRefused, match="row 1"):
        handled(returning(KafkaTopic("t"), value=["a", "x" * 2_000_000]), [b"x"])
    mail = {"to": ["a@example.org"], "subject": ["s"], "body": ["b"], "id": ["1"]}
    assert handled(returning(Email("me@example.org"), **mail), [b"x"]).num_rows == 1
    with pytest.raises(SinkRefused, match="line break"):
        handled(returning(Email("me@example.org"), **{**mail, "subject": ["a\nb"]}), [b"x"])


def test_a_row_of_a_table_is_looked_at_by_its_value():
    sink = SqlTable("paid", columns={"amount": "decimal(12, 2)", "booked": "date"})
    paid = {"amount": ["12.50", "1"], "booked": ["2026-01-31", None]}
    assert handled(returning(sink, **paid), [b"x"]).num_rows == 2
    with pytest.raises(SinkRefused, match=r"paid: .*'amount', row 1: it has 3 digits after"):
        handled(returning(sink, **{**paid, "amount": ["12.50", "1.005"]}), [b"x"])
    with pytest.raises(SinkRefused, match="'booked', row 0: the text is no day"):
        handled(returning(sink, **{**paid, "booked": ["31.1.2026", None]}), [b"x"])


def test_an_empty_table_is_right_for_any_sink():
    assert handled(returning(SINKS["sql"]), [b"x"]).num_rows == 0


def test_a_forgotten_return_is_found():
    @use_case(topic="{tenant}.visits", sink=SINKS["sql"])
    def forgets(visits, context):
        pass

    with pytest.raises(WrongSchema, match="without a return"):
        handled(forgets, [b"x"])


def test_what_the_use_case_declares_counts_too():
    declared = pa.schema([("page", pa.string())])

    @use_case(topic="{tenant}.visits", sink=KafkaTopic("t"), output=declared)
    def pages(visits, context):
        return pa.table({"value": ["a"]})

    with pytest.raises(WrongSchema, match="no column page"):
        handled(pages, [b"x"])


def test_a_refused_record_and_an_error_of_the_handler_are_raised_as_they_are():
    @use_case(topic="{tenant}.visits", sink=SINKS["sql"])
    def picky(visits, context):
        if visits["value"][0].as_py() == b"bad":
            raise context.bad_record(0, "no page")
        raise KeyError("page")

    with pytest.raises(BadRecord, match="no page"):
        handled(picky, [b"bad"])
    with pytest.raises(KeyError):
        handled(picky, [b"x"])


def test_a_sink_of_users_without_a_look_takes_what_comes():
    class Mine:
        exactly_once = None

    assert handled(returning(Mine(), anything=[1]), [b"x"]).num_rows == 1


def test_a_dataframe_handler_is_told_to_be_called_otherwise():
    @use_case(topic="{tenant}.visits", form="wave")
    def report(frame, wave):
        pass

    with pytest.raises(ConfigError, match="form wave"):
        handled(report, [b"x"])


MEASURED = {
    "type": "record",
    "name": "Measured",
    "fields": [
        {"name": "much", "type": "double", "default": 0.0},
        {
            "name": "at",
            "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
            "default": None,
        },
    ],
}


def decoding(kind):
    @use_case(topic="{tenant}.visits", decode=kind, sink=ParquetFiles("all"))
    def everything(table, context):
        return table

    return everything


def test_a_dict_that_avro_would_round_is_none_of_its_schema():
    keeps = decoding(Avro(MEASURED))
    at = datetime(2026, 11, 24, 10, 0, 0, 123_000, UTC)
    assert handled(keeps, [{"much": 0.1, "at": at}])["at"].to_pylist() == [at]
    for value in ({"much": 2**53 + 1}, {"at": at.replace(microsecond=123_456)}):
        with pytest.raises(ConfigError, match=r"no exact place.*give a .*bad record as bytes"):
            handled(keeps, [value])


def test_what_json_cannot_hold_is_told_by_its_row():
    paid = decoding(Json(pa.schema([("amount", pa.decimal128(12, 2))])))
    told = "value 1 is no JSON: .*Decimal.*give an amount and a time as text"
    with pytest.raises(ConfigError, match=told):
        handled(paid, [{"amount": "1.50"}, {"amount": Decimal("1.50")}])
    assert handled(paid, [{"amount": "1.50"}])["amount"].to_pylist() == [Decimal("1.50")]


def test_an_unknown_schema_is_told_with_how_a_test_gives_it():
    with pytest.raises(RegistryUnavailable, match=r"schemas=MemorySchemas\(\{99: WrittenSchema"):
        handled(decoding(Avro(MEASURED)), [b"\0\0\0\0\x63abc"])
