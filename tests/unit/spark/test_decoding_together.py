"""Small slices of several tenants are decoded in one call, and nobody notices."""

import time
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_bench import ListSink, by_tenant

from headrace.errors import RegistryUnavailable
from headrace.formats import Text
from headrace.ports import Undecoded, Waiting
from headrace.sinks import ParquetFiles
from headrace.spark.crash_markers import CrashMarkers
from headrace.spark.decoding import decoded
from headrace.testing.records import records
from headrace.testing.schemas_fake import MemorySchemas
from headrace.use_cases import use_case


class Odd(Text):
    """Text of which some is none, or waits; calls are counted, and may end otherwise."""

    def __init__(self, calls=None, refused=(), waits=(), does=None, at=b""):
        super().__init__()
        named = {"calls": calls, "refused": refused, "waits": waits, "does": does, "at": at}
        for name, value in named.items():
            object.__setattr__(self, name, value)

    def decode(self, payloads):
        values = payloads.bytes.to_pylist()
        if self.calls is not None:
            self.calls.append(len(values))
        if self.does is not None and self.at in values:
            self.does()
        until = next((row for row, value in enumerate(values) if value in self.waits), None)
        known = replace(payloads, bytes=payloads.bytes.slice(0, until))
        bad = [row for row, value in enumerate(values[:until]) if value in self.refused]
        good = [row for row in range(len(known)) if row not in bad]
        found = super().decode(replace(known, bytes=known.bytes.take(pa.array(good, pa.int64()))))
        away = None if until is None else Waiting(until, RegistryUnavailable("away"))
        undecoded = tuple(Undecoded(row, "refused") for row in bad)
        return replace(found, undecoded=undecoded, waiting=away)


def as_bytes(table, _context):
    return pa.table({"value": table["value"].cast(pa.binary())})


def run(bench, kind, **options):
    """Acme has the numbers from 0 on, bolt those from 20 on."""
    acme, bolt = bench.slices()
    slices = (acme, replace(bolt, from_offset=20, until_offset=30))
    sink = ListSink()
    told = by_tenant(
        bench.run(sink, slices=slices, handler=as_bytes, decode=kind, **options),
    )
    written = {tenant: [int(v) for v in values] for tenant, _, _, values in sink.written}
    return told, written


def test_small_slices_of_several_tenants_are_decoded_in_one_call(bench):
    calls = []
    told, written = run(bench, Odd(calls))
    assert calls == [20]
    assert written == {"acme": list(range(10)), "bolt": list(range(20, 30))}
    assert {receipt.error for receipt in told.values()} == {None}


def test_a_bad_record_stops_its_own_lane_where_it_is(bench):
    told, written = run(bench, Odd(refused=(b"27",)))
    assert written == {"acme": list(range(10)), "bolt": list(range(20, 27))}
    assert told["acme"].error is None
    error = told["bolt"].error
    assert (error.offset, error.raw_value, told["bolt"].reached) == (27, b"27", 27)
    assert error.message.endswith("value: refused")


def test_what_is_claimed_is_decoded_together_before_that(bench):
    calls = []
    odd = Odd(calls, refused=(b"7",))
    told = bench.run(ListSink(), handler=as_bytes, decode=odd, guarantee="at-most-once")
    assert {(receipt.committed, receipt.error.offset) for receipt in told} == {(True, 7)}
    assert calls == [20]


@pytest.mark.parametrize("waits", [b"3", b"23"])
def test_what_waits_for_a_registry_holds_up_its_own_lane(bench, waits):
    told, written = run(bench, Odd(waits=(waits,)))
    whole = {"acme": list(range(10)), "bolt": list(range(20, 30))}
    whose = "acme" if waits == b"3" else "bolt"
    whole[whose] = whole[whose][:3]
    assert written == whole
    errors = {name: receipt.error and receipt.error.code for name, receipt in told.items()}
    assert errors == {"acme": None, "bolt": None, whose: "RegistryUnavailable"}


def _hang():
    time.sleep(30)


def _no_memory():
    raise MemoryError


@pytest.mark.parametrize("budget_s", [60.0, 0.2])
@pytest.mark.parametrize(
    ("does", "code"),
    [(_hang, "HandlerSlow"), (_no_memory, "HandlerError")],
    ids=["hangs", "raises"],
)
def test_who_cannot_be_decoded_is_found_and_stops_nobody_else(bench, does, code, budget_s):
    bench.limits["timeout_s"] = 0.5
    told, written = run(bench, Odd(does=does, at=b"29"), budget_s=budget_s)
    assert written["acme"] == list(range(10))
    assert told["acme"].error is None
    assert told["bolt"].error.code == code


def three(bench):
    """Two slices of acme, and then one of bolt, which alone has the number 29."""
    *acme, bolt, _ = bench.slices(partitions=(0, 1))
    return (*acme, replace(bolt, until_offset=30))


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_who_is_slow_to_decode_holds_nobody_up_and_pays_for_it(bench, guarantee):
    slow = Odd(does=partial(time.sleep, 0.6), at=b"29")
    told = bench.run(
        ListSink(),
        slices=three(bench),
        handler=as_bytes,
        decode=slow,
        budget_s=0.4,
        guarantee=guarantee,
    )
    assert [receipt.reached for receipt in told] == [10, 10, 30]
    # However long the call for all took: they share that by their bytes.
    assert told[2].seconds - (told[0].seconds + told[1].seconds) > 0.5


def test_slices_that_decode_slowly_together_are_as_many_as_each_by_itself(bench):
    class Slow(Text):
        def decode(self, payloads):
            time.sleep(0.01 * len(payloads))
            return super().decode(payloads)

    slices = bench.slices(partitions=(0, 1))
    told = bench.run(ListSink(), slices=slices, handler=as_bytes, decode=Slow(), budget_s=0.4)
    assert sum(receipt.reached == 10 for receipt in told) >= 3


def test_what_is_decoded_together_and_left_for_later_is_charged_by_its_bytes(bench):
    def slow(table, context):
        time.sleep(1.2)
        return as_bytes(table, context)

    calls = []
    odd = Odd(calls, does=partial(time.sleep, 0.1), at=b"9")
    acme, bolt = bench.slices()
    bolt = replace(bolt, until_offset=40)
    told = bench.run(ListSink(), slices=(acme, bolt), handler=slow, decode=odd, budget_s=1.2)
    assert calls == [50]
    assert [receipt.reached for receipt in told] == [10, 0]
    assert 0.07 < told[1].seconds < 0.5


def test_after_decoding_together_was_ended_the_rest_of_a_bin_goes_without_it(bench, monkeypatch):
    monkeypatch.setattr("headrace.spark.task.GROUP_RECORDS", 40)
    calls = []
    slow = Odd(calls, does=partial(time.sleep, 0.3), at=b"29")
    *acme, bolt, last = bench.slices(partitions=(0, 1))
    slices = (replace(bolt, until_offset=30), *acme, last)
    told = bench.run(ListSink(), slices=slices, handler=as_bytes, decode=slow, budget_s=0.4)
    assert calls == [40, 30, 10, 10, 10]
    assert [receipt.reached for receipt in told] == [30, 10, 10, 10]


def test_after_an_attempt_that_died_each_is_decoded_by_itself(bench, tmp_path):
    path, calls = tmp_path / "marker", []
    acme, bolt = bench.slices()
    slices = (acme, replace(bolt, from_offset=20, until_offset=30))
    CrashMarkers(path, slices).during(None, lambda: None)
    markers = CrashMarkers(path, slices)
    assert (markers.is_first, markers.killers) == (False, frozenset())
    run(bench, Odd(calls), markers=markers)
    assert calls == [10, 10]


def test_who_is_alone_in_a_bin_is_decoded_by_himself(bench):
    calls = []
    slices = tuple(p for p in bench.slices(partitions=(0, 1)) if p.lane.tenant == "acme")
    bench.run(ListSink(), slices=slices, handler=as_bytes, decode=Odd(calls))
    assert calls == [10, 10]


KINDS = st.lists(st.sampled_from(["good", "refused", "waits"]), max_size=4)


@given(st.lists(KINDS, max_size=5))
def test_what_is_cut_of_many_is_what_each_is_by_itself(portions):
    numbered, tables = [], []
    for kinds in portions:
        begin = len(numbered)
        numbered += kinds
        values = [b"%d" % number for number in range(begin, len(numbered))]
        tables.append(records(values, first_offset=begin))

    def all_that(kind):
        return tuple(b"%d" % number for number, found in enumerate(numbered) if found == kind)

    odd = Odd(refused=all_that("refused"), waits=all_that("waits"))
    made = use_case(topic="{tenant}.t", sink=ParquetFiles("x"), name="count", decode=odd)(as_bytes)
    whole = decoded(made, pa.concat_tables([records([]), *tables]), MemorySchemas())
    parts = list(whole.cut(table.num_rows for table in tables))
    told_of = 0
    for table, part, kinds in zip(tables, parts, portions, strict=True):
        told_of += len(kinds)
        alone = decoded(made, table, MemorySchemas())
        first_waits = numbered.index("waits") if "waits" in numbered else len(numbered)
        assert (part is None) == (told_of > first_waits)
        if part is not None:
            assert part.records.equals(alone.records)
            assert (part.rows or list(range(part.records.num_rows))) == (
                alone.rows or list(range(part.records.num_rows))
            )
            assert (part.undecoded, part.waiting) == (alone.undecoded, None)
