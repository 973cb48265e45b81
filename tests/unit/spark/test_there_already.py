"""A recorded slice that an earlier attempt has written is not handled again."""

import pytest
from task_bench import ListSink, by_tenant, with_tenant

from headrace.errors import SinkUnavailable
from headrace.ports import Written


class MarkingSink(ListSink):
    """Knows how far each lane came, as a Kafka transaction does."""

    exactly_once = "intent"
    asks_first = True

    def __init__(self):
        super().__init__()
        self.marks, self.asked, self.away = {}, [], False

    def already(self, effects):
        self.asked.append(len(effects))
        if self.away:
            raise SinkUnavailable("no broker answers")
        return [self.marks.get(effect.slices) for effect in effects]

    def _write(self, effect):
        if effect.slices in self.marks:
            return Written(reached=self.marks[effect.slices])
        written = super()._write(effect)
        if written.error is None and effect.output.num_rows:
            self.marks[effect.slices] = effect.reached
        return written


def of_a_stranger(table, context):
    """The tenant of the second record of `acme` was removed."""
    if context.tenant == "acme":
        raise context.bad_record(1, "it is nobody's")
    return with_tenant(table, context)


def run(bench, sink, handler=with_tenant, **more):
    return by_tenant(bench.run(sink, handler=handler, guarantee="exactly-once", **more))


@pytest.mark.parametrize("bad_record", ["suspend", "dead-letter"])
def test_what_a_lost_attempt_wrote_counts_whatever_its_handler_would_say_today(bench, bad_record):
    sink = MarkingSink()
    run(bench, sink, bad_record=bad_record)
    written = list(sink.written)
    receipts = run(bench, sink, of_a_stranger, bad_record=bad_record)
    assert [(found.reached, found.error) for found in receipts.values()] == [(10, None)] * 2
    assert [found.records for found in receipts.values()] == [10, 10]
    assert sink.written == written
    assert bench.dead_letters.letters == []


@pytest.mark.parametrize(("bad_record", "reached"), [("suspend", 0), ("dead-letter", 10)])
def test_where_nothing_was_written_its_handler_is_called(bench, bad_record, reached):
    sink = MarkingSink()
    receipts = run(bench, sink, of_a_stranger, bad_record=bad_record)
    assert (receipts["acme"].reached, receipts["bolt"].reached) == (reached, 10)
    assert sink.asked == [2]


def test_while_nobody_says_what_is_there_no_handler_is_called(bench):
    sink, called = MarkingSink(), []
    sink.away = True

    def handler(table, context):
        called.append(context.tenant)
        return with_tenant(table, context)

    receipts = run(bench, sink, handler)
    assert called == sink.written == []
    assert {(found.reached, found.error.code) for found in receipts.values()} == {
        (0, "SinkUnavailable")
    }
    assert all(found.error.temporary for found in receipts.values())


def test_a_sink_that_does_not_say_so_is_not_asked(bench):
    sink = MarkingSink()
    sink.asks_first = False
    run(bench, sink)
    assert sink.asked == []


@pytest.mark.parametrize("answer", [[], [None], "no", None, [None, None, None], [7, 7], 3])
def test_an_answer_that_means_nothing_stops_its_slices_and_nothing_else(bench, answer):
    sink = MarkingSink()
    sink.already = lambda _effects: answer
    receipts = run(bench, sink)
    assert sink.written == []
    assert {found.reached for found in receipts.values()} == {0}
    assert all(found.error is not None for found in receipts.values())


def test_whatever_a_sink_raises_that_is_asked_stops_its_slices_alone(bench):
    sink = MarkingSink()

    def already(_effects):
        raise RuntimeError("theirs")

    sink.already = already
    receipts = run(bench, sink)
    assert {found.error.message for found in receipts.values()} == {"RuntimeError: theirs"}
    assert sink.written == []
