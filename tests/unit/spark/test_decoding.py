"""Use cases whose records are decoded: what their handlers see, and what becomes of the rest."""

import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_bench import ListSink, by_tenant, of_acme

from headrace.errors import BadRecord, ConfigError, RegistryUnavailable
from headrace.formats import Avro, Bytes, Json, Protobuf, Text
from headrace.model.receipts import Writer
from headrace.model.streams import LaneId, Slice
from headrace.ports import RECORD_SCHEMA, Decoded, SchemaKind, Undecoded, Waiting, WrittenSchema
from headrace.ports.reading import PLACE_COLUMN
from headrace.sinks import ParquetFiles
from headrace.spark.calling import CallRules
from headrace.spark.decoding import decoded, says_writers, writers
from headrace.spark.handling import handle
from headrace.testing.format_contract import as_given
from headrace.testing.handlers import handled
from headrace.testing.records import records
from headrace.testing.schemas_fake import MemorySchemas
from headrace.use_cases import SliceContext, use_case

CONTEXT = SliceContext("count", "acme", (Slice(LaneId("count", "acme", "t[0]"), "t", 0, 100, 1),))
NUMBERS = Json(pa.schema([pa.field("n", pa.int64(), nullable=False)]))
ASIDE = CallRules(set_aside=frozenset({"BadRecord"}))


def made(handler, **options):
    options.setdefault("decode", NUMBERS)
    return use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="count", **options)(
        handler
    )


def same(table, _context):
    return table


def numbers(*values):
    """A record for each: a number as JSON, or bytes as they are."""
    return records([v if isinstance(v, bytes) else b'{"n": %d}' % v for v in values])


def test_a_handler_sees_columns_in_the_place_of_the_value():
    done = handle(made(same), numbers(7), CONTEXT)
    assert done.output.column_names == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "headers",
        "n",
    ]
    assert done.output["n"].to_pylist() == [7]


def test_keys_and_values_may_both_be_decoded():
    both = made(same, decode=Text(), decode_key=Json(pa.schema([("user", pa.string())])))
    given = records([b"a", b"\xff", None], keys=[b'{"user": "u"}', b"{}", b"x"])
    done = handle(both, given, CONTEXT, ASIDE)
    assert done.output.select(["user", "value"]).to_pylist() == [{"user": "u", "value": "a"}]
    assert "key" not in done.output.column_names
    told = [(row, error.message.partition(": ")[2]) for row, error in done.aside]
    assert told == [
        (1, "value: no UTF-8: invalid start byte at byte 0"),
        (2, "key: JSON is malformed: invalid character (byte 0)"),
    ]


def test_what_does_not_decode_stops_its_lane_where_that_is_wanted():
    calls = []

    def seen(table, _context):
        calls.append(table["n"].to_pylist())
        return table

    done = handle(made(seen), numbers(1, 2, b"no", 4, b"no"), CONTEXT)
    assert calls == [[1, 2]]
    assert (done.rows, done.blamed, done.aside) == (2, 2, ())
    assert (done.error.code, done.error.offset, done.error.raw_value) == ("BadRecord", 2, b"no")
    assert done.error.message == (
        "bad record at offset 2 of acme.visits[0]: value: Input data was truncated"
    )
    first = handle(made(seen), numbers(b"no", 4), CONTEXT)
    assert (first.output, first.rows, first.blamed, len(calls)) == (None, 0, 0, 1)


def test_a_record_that_the_handler_refuses_is_kept_as_it_came():
    def picky(table, context):
        if 3 in table["n"].to_pylist():
            raise context.bad_record(table["n"].to_pylist().index(3), "three")
        return table

    done = handle(made(picky), numbers(1, b"no", 3, b"no", 5), CONTEXT, ASIDE)
    assert done.output["n"].to_pylist() == [1, 5]
    assert (done.rows, done.error) == (5, None)
    assert [(row, error.raw_value) for row, error in done.aside] == [
        (1, b"no"),
        (2, b'{"n": 3}'),
        (3, b"no"),
    ]


def test_records_of_which_none_decodes_call_no_handler():
    done = handle(made(lambda *_: 1 / 0), numbers(b"a", b"b"), CONTEXT, ASIDE)
    assert (done.output, done.rows, len(done.aside), done.error) == (None, 2, 2, None)


@pytest.mark.parametrize(
    ("does", "code"),
    [
        (lambda: 1 / 0, "HandlerError"),
        (sys.exit, "HandlerError"),
        (lambda: time.sleep(60), "HandlerHung"),
    ],
    ids=["raises", "exits", "hangs"],
)
def test_a_format_of_ones_own_is_code_of_the_use_case(does, code):
    class Broken(Text):
        def decode(self, payloads):
            does()
            return super().decode(payloads)

    rules = replace(ASIDE, patience_s=0.2)
    done = handle(made(same, decode=Broken()), numbers(1), CONTEXT, rules)
    assert (done.rows, done.error.code, done.aside) == (0, code, ())
    assert (done.blamed, done.error.raw_value) == (0, b'{"n": 1}')


@pytest.mark.parametrize("does", [sys.exit, lambda: time.sleep(60)], ids=["exits", "hangs"])
def test_the_record_that_cannot_be_decoded_in_time_is_found(does):
    class Broken(Json):
        def decode(self, payloads):
            if b'{"n": 5}' in payloads.bytes.to_pylist():
                does()
            return super().decode(payloads)

    broken = made(same, decode=Broken(NUMBERS.columns))
    done = handle(broken, numbers(*range(8)), CONTEXT, replace(ASIDE, patience_s=0.4))
    assert done.output["n"].to_pylist() == [0, 1, 2, 3, 4]
    assert (done.rows, done.blamed, done.error.offset) == (5, 5, 5)
    assert done.error.raw_value == b'{"n": 5}'


class Registered(Json):
    """Of which a registry knows all schemas but that of ``waits``."""

    def decode(self, payloads):
        values = payloads.bytes.to_pylist()
        known = values.index(b"waits") if b"waits" in values else len(values)
        found = super().decode(replace(payloads, bytes=payloads.bytes.slice(0, known)))
        away = Waiting(known, RegistryUnavailable("away", retry_after_s=7.0))
        return found if known == len(values) else replace(found, waiting=away)


@given(
    st.lists(st.sampled_from(["good", "undecoded", "bad", "raises", "waits"]), max_size=12),
    st.booleans(),
)
def test_each_record_is_done_or_aside_or_behind_what_stopped(kinds, aside):
    """Against a handler that is called with one record after the other."""

    def picky(table, context):
        for row, number in enumerate(table["n"].to_pylist()):
            if kinds[number] == "bad":
                raise context.bad_record(row, "bad")
            if kinds[number] == "raises":
                raise RuntimeError("raises")
        return table

    odd = {"undecoded": b"{", "waits": b"waits"}
    given = numbers(*(odd.get(kind, n) for n, kind in enumerate(kinds)))
    use_case = made(picky, decode=Registered(NUMBERS.columns))
    done = handle(use_case, given, CONTEXT, ASIDE if aside else CallRules())
    stops = {"raises", "waits"} if aside else {"raises", "waits", "bad", "undecoded"}
    until = next((n for n, kind in enumerate(kinds) if kind in stops), len(kinds))
    good = [n for n, kind in enumerate(kinds[:until]) if kind == "good"]
    output = [] if done.output is None else done.output.column("n").to_pylist()
    assert output == good
    assert done.rows == until
    assert [row for row, _ in done.aside] == [
        n for n, kind in enumerate(kinds[:until]) if kind != "good"
    ]
    if until < len(kinds) and kinds[until] == "waits":
        assert (done.blamed, done.error.offset) == (until, None)
        assert (done.error.code, done.error.temporary) == ("RegistryUnavailable", True)
        assert done.error.retry_after_s == 7.0
    elif until < len(kinds):
        assert (done.blamed, done.error.offset) == (until, until)
        assert done.error.raw_value == given["value"][until].as_py()
    else:
        assert done.error is None


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
@pytest.mark.parametrize("order", ["lane", "stream"])
def test_a_task_sets_aside_what_does_not_decode(bench, guarantee, order):
    sink = ListSink()
    wanted = Json(pa.schema([pa.field("value", pa.int64(), nullable=False)]))

    def as_bytes(table, context):
        values = [str(value).encode() for value in table["value"].to_pylist()]
        return pa.table({"value": pa.array(values, pa.binary())})

    class Odd(Json):
        """Numbers as they come from the bench, of which each third is none."""

        def decode(self, payloads):
            values = [
                b"no" if int(value) % 3 == 0 else b'{"value": %s}' % value
                for value in payloads.bytes.to_pylist()
            ]
            return super().decode(as_given(pa.chunked_array([pa.array(values, pa.binary())])))

    odd = Odd(wanted.columns)
    receipts = by_tenant(
        bench.run(
            sink,
            handler=as_bytes,
            decode=odd,
            bad_record="dead-letter",
            guarantee=guarantee,
            order=order,
        )
    )
    assert (receipts["acme"].reached, receipts["acme"].error) == (10, None)
    assert of_acme(sink) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    ours = [letter for letter in bench.dead_letters.letters if letter.slice.lane.tenant == "acme"]
    assert [letter.error.raw_value for letter in ours] == [b"0", b"3", b"6", b"9"]


def test_a_test_of_a_use_case_gives_it_decoded_records():
    counted = made(lambda table, _context: table.select(["n"]))
    assert handled(counted, [{"n": 1}, {"n": 2}])["n"].to_pylist() == [1, 2]
    with pytest.raises(BadRecord, match="value: Expected `int`"):
        handled(counted, [{"n": 1}, {"n": "x"}])


NUMBER = {
    "type": "record",
    "name": "Number",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize("framing", ["confluent", "none"])
def test_a_dict_is_written_by_the_schema_that_the_use_case_reads_by(framing):
    avro = made(same, decode=Avro(NUMBER, framing=framing))
    rows = handled(avro, [{"n": 1, "at": NOON}, {"n": 2, "at": None}])
    assert rows.select(["n", "at"]).to_pylist() == [{"n": 1, "at": NOON}, {"n": 2, "at": None}]
    letter = "tests/unit/formats/visits_descriptors.bin"
    protobuf = Protobuf("old.Letter", descriptors=letter, framing=framing)
    rows = handled(made(same, decode=protobuf), [{"id": 5, "size": "LARGE"}])
    assert rows.select(["id", "size"]).to_pylist() == [{"id": 5, "size": "LARGE"}]
    framed = Json(pa.schema([("n", pa.int64())]), framing=framing)
    assert handled(made(same, decode=framed), [{"n": 1}])["n"].to_pylist() == [1]


def test_a_dict_stands_beside_records_of_other_writers():
    schemas = MemorySchemas()
    older = {**NUMBER, "fields": [{"name": "n", "type": "int"}]}
    reader = {**NUMBER, "fields": [NUMBER["fields"][0]]}
    id_ = schemas.add(WrittenSchema(SchemaKind.AVRO, json.dumps(older)))
    sent = b"\0" + id_.to_bytes(4, "big") + b"\2"
    rows = handled(made(same, decode=Avro(reader)), [{"n": 5}, sent], schemas=schemas)
    assert rows["n"].to_pylist() == [5, 1]


def test_a_dict_that_the_schema_has_no_place_for_is_a_fault_of_the_test():
    with pytest.raises(ConfigError, match="value 1 is none of the reader's schema: column n: str"):
        handled(made(same, decode=Avro(NUMBER)), [{"n": 1, "at": None}, {"n": "x", "at": None}])
    letter = Protobuf("old.Letter", descriptors="tests/unit/formats/visits_descriptors.bin")
    with pytest.raises(ConfigError, match=r"value 0 is no old\.Letter: .*size"):
        handled(made(same, decode=letter), [{"id": 1, "size": "HUGE"}])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"decode": Json(pa.schema([("offset", pa.int64())]))}, "names={'its_offset': 'offset'}"),
        ({"decode": Json(pa.schema([("key", pa.int64())]))}, "a column key"),
        (
            {"decode": NUMBERS, "decode_key": Json(pa.schema([("n", pa.int64())]))},
            "a column n, and there is one already",
        ),
        (
            {"decode": Json(pa.schema([("tenant", pa.string())])), "form": "wave", "sink": None},
            "a column tenant, and there is one already",
        ),
        (
            {"decode": Json(pa.schema([("Topic", pa.string())])), "form": "wave", "sink": None},
            "a column Topic, and there is one already",
        ),
        ({"decode": "json"}, "decode is a format, such as Json"),
        ({"decode_key": Text}, "decode is a format, such as Json"),
    ],
)
def test_what_cannot_be_decoded_is_refused_when_it_is_written(options, told):
    with pytest.raises(ConfigError, match=r".") as caught:
        use_case(**{"topic": "{tenant}.v", "sink": ParquetFiles("x"), "name": "c", **options})(same)
    assert told in str(caught.value)


def test_json_that_python_wrote_is_read():
    sent = {"n": 5, "more": json.loads('{"deep": [1, {"x": null}]}')}
    assert handled(made(same), [sent])["n"].to_pylist() == [5]


class Named(Text):
    """Text of which a registry knows all but one, for now; it does not say that it asks one."""

    def decode(self, payloads):
        values = payloads.bytes.to_pylist()
        known = values.index(b"4") if b"4" in values and payloads.schemas.away else len(values)
        found = super().decode(replace(payloads, bytes=payloads.bytes.slice(0, known)))
        away = Waiting(known, RegistryUnavailable("away"))
        return replace(found, waiting=away) if known < len(values) else found


@pytest.mark.parametrize("shared", [True, False])
def test_what_decodes_for_too_long_is_not_claimed(bench, shared):
    class Hangs(Text):
        def decode(self, payloads):
            time.sleep(30)

    sink, bench.limits["timeout_s"] = ListSink(), 0.5
    slices = [piece for piece in bench.slices() if shared or piece.lane.tenant == "acme"]
    told = bench.run(sink, slices=tuple(slices), decode=Hangs(), guarantee="at-most-once")
    assert {(receipt.reached, receipt.committed) for receipt in told} == {(0, False)}
    code = "HandlerSlow" if shared else "HandlerHung"
    assert {receipt.error.code for receipt in told} == {code}


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
@pytest.mark.parametrize(("order", "lanes"), [("lane", (0,)), ("stream", (0, 1))])
def test_what_waits_for_a_registry_is_not_claimed(bench, guarantee, order, lanes):
    def as_bytes(table, _context):
        return pa.table({"value": table["value"].cast(pa.binary())})

    bench.schemas = MemorySchemas(away=True)
    slices = bench.slices(partitions=lanes)
    options = {"handler": as_bytes, "decode": Named(), "guarantee": guarantee, "order": order}
    sink = ListSink()
    told = bench.run(sink, slices=slices, **options)
    assert {(receipt.reached, receipt.lost_from) for receipt in told} == {(4, None)}
    assert {receipt.error.code for receipt in told if receipt.error} == {"RegistryUnavailable"}
    assert of_acme(sink) == [b"%d" % number for number in range(4) for _ in lanes]
    rest = tuple(replace(piece, from_offset=4) for piece in slices)
    again = bench.run(sink, slices=rest, **options)
    assert {(receipt.reached, receipt.committed) for receipt in again} == {(4, False)}
    bench.schemas.away = False
    done = bench.run(sink, slices=rest, **options)
    assert {(receipt.reached, receipt.error) for receipt in done} == {(10, None)}
    assert of_acme(sink) == [b"%d" % number for number in range(10) for _ in lanes]


def test_a_long_reason_is_shortened_once_for_all_of_its_records():
    class Wordy(Text):
        def decode(self, payloads):
            why = "no" * 500_000
            nothing = pa.table({"value": pa.array([], pa.string())})
            return Decoded(nothing, tuple(Undecoded(row, why) for row in range(len(payloads))))

    found = decoded(made(same, decode=Wordy()), numbers(*range(50)), MemorySchemas())
    assert len(found.undecoded) == 50
    assert len({id(told) for told in found.undecoded.values()}) == 1
    assert len(found.undecoded[0]) < 5_000


@pytest.mark.parametrize(
    ("decode", "decode_key", "found"),
    [
        (Avro('"long"'), None, {("value", "7"): 2, ("value", "8"): 1}),
        (Avro('"long"'), Avro('"long"'), {("value", "7"): 2, ("value", "8"): 1, ("key", "9"): 3}),
        (Text(), Avro('"long"'), {("key", "9"): 3}),
        (Avro('"long"', framing="none"), Text(), {}),
        (NUMBERS, Bytes(), {}),
    ],
)
def test_records_are_counted_by_the_schemas_that_they_name(decode, decode_key, found):
    use_case = made(same, decode=decode, decode_key=decode_key)
    given = records(
        [b"\0\0\0\0\7\2", b"\0\0\0\0\x08\2", b"\0\0\0\0\7\2"], keys=[b"\0\0\0\0\x09\2"] * 3
    )
    counted = writers(use_case, given)
    assert counted == {Writer(*writer): count for writer, count in found.items()}
    assert says_writers(use_case) == bool(found)


def test_a_handler_is_not_shown_the_column_of_wide_places():
    seen = []

    @use_case(topic="{tenant}.visits", sink=ParquetFiles("x"))
    def looks(visits, context):
        seen.append(visits.column_names)
        return pa.table({})

    wide = records([b"a"]).append_column(PLACE_COLUMN, pa.array([str(10**55)]))
    assert handle(looks, wide, SliceContext("looks", "acme", ())).error is None
    assert seen == [RECORD_SCHEMA.names]
