"""Handlers that are coroutine functions: order, bounds, limits, and who is to blame."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pyarrow as pa
import pytest

from headrace import SliceContext, use_case
from headrace.errors import BrokerUnavailable, ConfigError, WrongSchema
from headrace.formats import Json
from headrace.sinks import ParquetFiles
from headrace.spark import event_loops
from headrace.spark.calling import CallRules
from headrace.spark.handling import Handled, handle
from headrace.testing.handlers import handled
from headrace.testing.records import records
from headrace.use_cases import UseCase

Answer = Callable[[dict[str, Any], SliceContext], Awaitable[Any]]
SET_ASIDE = CallRules(set_aside=frozenset({"BadRecord"}))
CONTEXT = SliceContext("waits", "acme", ())


def of(answer: Answer, **said: Any) -> UseCase:
    output = said.pop("output", pa.schema([pa.field("n", pa.int64())]))
    called = use_case(
        topic="{tenant}.v", sink=ParquetFiles("x"), name="waits", output=output, **said
    )
    return called(answer)


def numbers(count: int, keys: list[bytes | None] | None = None) -> pa.Table:
    return records([str(n).encode() for n in range(count)], keys=keys)


def made(found: Handled) -> list[int]:
    assert found.output is not None
    told: list[int] = found.output["n"].to_pylist()
    return told


async def number(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
    return {"n": int(record["value"])}


def test_rows_come_in_the_order_of_their_records_whichever_answers_first() -> None:
    async def slow_first(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        await asyncio.sleep(0.02 if int(record["value"]) % 3 == 0 else 0)
        return {"n": int(record["value"])}

    assert made(handle(of(slow_first), numbers(100), CONTEXT)) == list(range(100))


class InFlight:
    """A handler that counts how many calls of it there are at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def counts(self, record: dict[str, Any], _: SliceContext) -> list[Any]:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.002)
        self.now -= 1
        return []


def test_so_many_calls_are_in_flight_and_no_more() -> None:
    calls = InFlight()
    found = handle(of(calls.counts, concurrency=7), numbers(60), CONTEXT)
    assert (calls.most, found.rows, found.error) == (7, 60, None)


@pytest.mark.parametrize("order", ["lane", "key", "stream"])
def test_calls_of_one_key_come_one_after_the_other_and_hold_up_no_other_key(order: str) -> None:
    running: Counter[bytes] = Counter()
    seen: list[int] = []

    async def counts(record: dict[str, Any], _: SliceContext) -> list[Any]:
        running[record["key"]] += 1
        assert running[record["key"]] == 1
        await asyncio.sleep(0.001)
        running[record["key"]] -= 1
        seen.append(int(record["value"]))
        return []

    keys: list[bytes | None] = [b"hot"] * 30 + [b"%d" % n for n in range(10)]
    found = handle(of(counts, order=order, concurrency=3), numbers(40, keys), CONTEXT)
    assert found.error is None
    assert [n for n in seen if n < 30] == list(range(30))
    assert seen.index(39) < 20, "the other keys waited for the hot one"


def test_without_an_order_nothing_waits_for_its_key() -> None:
    calls = InFlight()
    handle(of(calls.counts, order="none"), numbers(40, [b"hot"] * 40), CONTEXT)
    assert calls.most == 40


def test_a_record_may_give_several_rows_or_none() -> None:
    async def some(record: dict[str, Any], _: SliceContext) -> list[dict[str, int]]:
        return [{"n": int(record["value"])}] * int(record["value"])

    assert made(handle(of(some), numbers(4), CONTEXT)) == [1, 2, 2, 3, 3, 3]


def test_a_bad_record_is_set_aside_and_nothing_is_called_again() -> None:
    calls: Counter[int] = Counter()

    async def picky(record: dict[str, Any], context: SliceContext) -> dict[str, int]:
        calls[int(record["value"])] += 1
        if int(record["value"]) % 10 == 3:
            raise context.bad_record(0, "a three")
        return {"n": int(record["value"])}

    found = handle(of(picky), numbers(30), CONTEXT, SET_ASIDE)
    assert found.error is None
    assert found.rows == 30
    assert [row for row, _ in found.aside] == [3, 13, 23]
    assert "offset 13 of" in found.aside[1][1].message
    assert "a three" in found.aside[1][1].message
    assert found.aside[1][1].raw_value == b"13"
    assert made(found) == [n for n in range(30) if n % 10 != 3]
    assert set(calls.values()) == {1}


def test_what_raises_stops_at_its_record_and_keeps_what_came_before() -> None:
    calls: Counter[int] = Counter()

    async def raises(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        calls[int(record["value"])] += 1
        await asyncio.sleep(0)
        return {"n": 100 // (int(record["value"]) - 20)}

    found = handle(of(raises, concurrency=5), numbers(1000), CONTEXT)
    assert found.error is not None
    assert found.error.code == "HandlerError"
    assert (found.rows, found.blamed, found.error.offset) == (20, 20, 20)
    assert len(made(found)) == 20
    assert set(calls.values()) == {1}
    assert max(calls) < 30, "calls went on behind the record"


def test_a_server_that_is_away_is_no_records_fault() -> None:
    async def away(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        if int(record["value"]) == 4:
            raise BrokerUnavailable("away")
        return {"n": int(record["value"])}

    found = handle(of(away), numbers(9), CONTEXT)
    assert found.error is not None
    assert found.error.temporary
    assert found.error.offset is None
    assert made(found) == [0, 1, 2, 3]
    assert found.rows == 4


def test_one_call_that_takes_too_long_is_ended_and_named() -> None:
    calls: Counter[int] = Counter()

    async def hangs(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        calls[int(record["value"])] += 1
        await asyncio.sleep(120 if int(record["value"]) == 6 else 0)
        return {"n": int(record["value"])}

    found = handle(of(hangs, call_timeout_s=1.0), numbers(9), CONTEXT, CallRules(patience_s=60))
    assert found.error is not None
    assert found.error.code == "HandlerHung"
    assert "call_timeout_s" in found.error.message
    assert (found.rows, found.error.offset, found.error.raw_value) == (6, 6, b"6")
    assert set(calls.values()) == {1}


def test_a_call_that_blocks_the_loop_is_named() -> None:
    async def blocks(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        if int(record["value"]) == 6:
            time.sleep(30)
        return {"n": int(record["value"])}

    began_s = time.monotonic()
    found = handle(of(blocks, concurrency=2), numbers(9), CONTEXT, CallRules(patience_s=1.0))
    assert found.error is not None
    assert found.error.code == "HandlerHung"
    assert (found.rows, found.blamed, found.error.offset) == (6, 6, 6)
    assert time.monotonic() - began_s < 25


@pytest.mark.parametrize("blocks", [[20], [3, 20, 30]])
def test_a_call_that_blocks_the_loop_for_a_while_costs_its_neighbours_nothing(
    blocks: list[int],
) -> None:
    """They would have answered in time, and are not ended for the time that it took."""

    async def blocks_for_a_while(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        n = int(record["value"])
        await asyncio.sleep(0 if n in blocks else 0.01)
        if n in blocks:
            time.sleep(0.7)
        await asyncio.sleep(0.02)
        return {"n": n}

    waits = of(blocks_for_a_while, call_timeout_s=0.5, concurrency=40)
    found = handle(waits, numbers(40), CONTEXT, CallRules(patience_s=30))
    assert found.error is None
    assert made(found) == list(range(40))


def test_a_call_that_hangs_beside_one_that_blocks_the_loop_is_named() -> None:
    async def mixed(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        n = int(record["value"])
        if n == 2:
            time.sleep(0.7)
        await asyncio.sleep(120 if n == 6 else 0.01)
        return {"n": n}

    found = handle(of(mixed, call_timeout_s=0.5), numbers(9), CONTEXT, CallRules(patience_s=60))
    assert found.error is not None
    assert (found.error.code, found.rows, found.error.offset) == ("HandlerHung", 6, 6)


def test_a_call_that_catches_its_cancellation_is_named() -> None:
    async def stubborn(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        while int(record["value"]) == 2 and not over:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)
        return {"n": int(record["value"])}

    over: list[bool] = []
    waits = of(stubborn, call_timeout_s=0.5)
    found = handle(waits, numbers(4), CONTEXT, CallRules(patience_s=1.5))
    over.append(True)
    assert found.error is not None
    assert found.error.code == "HandlerHung"
    assert (found.rows, found.error.offset) == (2, 2)
    assert made(handle(waits, numbers(4), CONTEXT)) == [0, 1, 2, 3], "the loop goes on"


def test_in_company_all_calls_together_that_take_too_long_blame_nobody() -> None:
    async def slow(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        await asyncio.sleep(0.25)
        return {"n": 1}

    rules = CallRules(patience_s=1.0, shared=True)
    found = handle(of(slow, concurrency=1), numbers(40), CONTEXT, rules)
    assert found.error is not None
    assert found.error.code == "HandlerSlow"
    assert found.error.offset is None
    assert 1 <= found.rows <= 5


def test_an_exit_is_an_error_of_its_record() -> None:
    async def exits(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        if int(record["value"]) == 1:
            raise SystemExit(3)
        if int(record["value"]) == 2:
            raise asyncio.CancelledError
        return {"n": int(record["value"])}

    found = handle(of(exits), numbers(2), CONTEXT)
    assert found.error is not None
    assert found.error.offset == 1
    assert made(found) == [0]
    last = handle(of(exits), numbers(3).slice(2), CONTEXT)
    assert last.error is not None
    assert last.error.offset == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "None, as without a return"),
        (7, "returned int"),
        ({"m": 1}, "no column 'n'"),
        ({"n": "one"}, "'n'"),
        ({"n": 1.5}, "'n'"),
    ],
)
def test_a_wrong_answer_is_told_with_its_record(answer: object, told: str) -> None:
    async def wrong(record: dict[str, Any], _: SliceContext) -> object:
        return answer if int(record["value"]) == 2 else {"n": 1}

    found = handle(of(wrong), numbers(5), CONTEXT)
    assert found.error is not None
    assert found.error.code == "WrongSchema"
    assert told in found.error.message
    assert found.error.offset == 2
    assert made(found) == [1, 1]


def test_nested_columns_are_what_is_declared() -> None:
    output = pa.schema(
        [
            pa.field("of", pa.struct([("a", pa.int64()), ("b", pa.string())])),
            pa.field("tags", pa.map_(pa.string(), pa.string())),
        ]
    )

    async def nested(record: dict[str, Any], _: SliceContext) -> dict[str, Any]:
        return {"of": {"a": 1}, "tags": [("x", "y")]}

    found = handle(of(nested, output=output), numbers(1), CONTEXT)
    assert found.output is not None
    assert found.output.to_pylist() == [{"of": {"a": 1, "b": None}, "tags": [("x", "y")]}]


def test_decoded_columns_are_the_records_and_what_does_not_decode_is_not_called() -> None:
    async def page(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        return {"n": record["page"]}

    waits = of(page, decode=Json(pa.schema([pa.field("page", pa.int64(), nullable=False)])))
    given = records([b'{"page": 1}', b"{}", b'{"page": 3}'])
    found = handle(waits, given, CONTEXT, SET_ASIDE)
    assert made(found) == [1, 3]
    assert [row for row, _ in found.aside] == [1]
    assert handled(waits, [{"page": 8}])["n"].to_pylist() == [8]


def test_what_waits_on_the_loop_is_there_in_the_next_call() -> None:
    loops = set()

    async def remembers(record: dict[str, Any], _: SliceContext) -> list[Any]:
        loops.add(id(asyncio.get_running_loop()))
        return []

    for _ in range(3):
        handle(of(remembers), numbers(2), CONTEXT)
    assert len(loops) == 1


def test_a_day_that_python_does_not_know_is_a_bad_record() -> None:
    given = numbers(3)
    far = pa.array([0, 400_000_000_000_000, 0], given.schema.field("timestamp").type)
    given = given.set_column(given.schema.get_field_index("timestamp"), "timestamp", far)
    found = handle(of(number), given, CONTEXT)
    assert found.error is not None
    assert found.error.code == "BadRecord"
    assert made(found) == [0]
    assert found.blamed == 1


def test_a_test_sees_what_the_first_record_raised() -> None:
    async def wrong(record: dict[str, Any], _: SliceContext) -> None:
        return None

    with pytest.raises(WrongSchema, match="None, as without a return"):
        handled(of(wrong), [b"1"])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"output": None}, "says the columns of its rows"),
        ({"concurrency": 0}, "concurrency is 1 to 1000"),
        ({"concurrency": True}, "concurrency is 1 to 1000"),
        ({"call_timeout_s": 0}, "call_timeout_s is a number of seconds"),
        ({"call_timeout_s": "10"}, "call_timeout_s is a number of seconds"),
        ({"form": "wave", "sink": None}, "no async def"),
    ],
)
def test_what_makes_no_sense_is_refused(said: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {
        "topic": "{tenant}.v",
        "sink": ParquetFiles("x"),
        "output": pa.schema([("n", pa.int64())]),
    }
    with pytest.raises(ConfigError, match=told):
        use_case(**(given | said))(number)


def test_bounds_of_calls_are_for_handlers_that_wait() -> None:
    with pytest.raises(ConfigError, match="async def"):
        use_case(topic="{tenant}.v", sink=ParquetFiles("x"), concurrency=3)(
            lambda visits, context: visits
        )


def test_what_was_answered_before_all_took_too_long_is_kept_and_no_record_is_blamed() -> None:
    called: Counter[int] = Counter()

    async def slow(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        called[int(record["value"])] += 1
        await asyncio.sleep(0.1)
        return {"n": int(record["value"])}

    waits = of(slow, concurrency=4, call_timeout_s=5)
    found = handle(waits, numbers(100), CONTEXT, CallRules(patience_s=2.05))
    assert 8 <= found.rows <= 82
    assert made(found) == list(range(found.rows))
    assert found.error is not None
    assert (found.error.code, found.error.offset, found.blamed) == ("HandlerHung", None, None)
    assert set(called.values()) == {1}
    shared = handle(waits, numbers(100), CONTEXT, CallRules(patience_s=2.05, shared=True))
    assert shared.error is not None
    assert shared.error.code == "HandlerSlow"
    assert made(shared) == list(range(shared.rows))
    assert shared.rows >= 8


def test_what_failed_behind_a_record_without_an_answer_is_not_told_yet() -> None:
    async def raises(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        number = int(record["value"])
        if number == 5:
            raise ValueError("no")
        await asyncio.sleep(20 if number == 2 else 0)
        return {"n": number}

    waits = of(raises, concurrency=8, call_timeout_s=30)
    found = handle(waits, numbers(9), CONTEXT, CallRules(patience_s=1.0))
    assert found.error is not None
    assert (made(found), found.error.code, found.error.offset) == ([0, 1], "HandlerHung", None)


@pytest.mark.parametrize("first", [0, 3])
def test_where_all_calls_block_one_of_them_takes_the_time(first: int) -> None:
    called: list[int] = []

    async def blocks(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        number = int(record["value"])
        called.append(number)
        await asyncio.sleep(0)
        if number >= first:
            time.sleep(20)
        return {"n": number}

    began_s = time.monotonic()
    found = handle(of(blocks, concurrency=50), numbers(50), CONTEXT, CallRules(patience_s=1.0))
    assert time.monotonic() - began_s < 18
    assert found.error is not None
    assert (found.error.code, found.error.offset, found.rows) == ("HandlerHung", first, first)
    assert Counter(called)[first] == 2  # again alone, since it might have been the last of many


def test_where_all_are_slow_and_block_the_last_one_is_not_to_blame() -> None:
    async def busy(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        await asyncio.sleep(0)
        time.sleep(0.01)
        return {"n": int(record["value"])}

    found = handle(of(busy, concurrency=50), numbers(300), CONTEXT, CallRules(patience_s=2.5))
    assert found.error is not None
    assert (found.error.code, found.error.offset) == ("HandlerHung", None)
    assert 20 <= found.rows <= 250
    assert made(found) == list(range(found.rows))


def test_the_only_record_is_to_blame_for_a_time_that_is_over() -> None:
    async def slow(record: dict[str, Any], _: SliceContext) -> list[Any]:
        await asyncio.sleep(20)
        return []

    found = handle(of(slow, call_timeout_s=30), numbers(1), CONTEXT, CallRules(patience_s=0.2))
    assert found.error is not None
    assert (found.error.code, found.error.offset) == ("HandlerHung", 0)


class Leaving:
    """Calls of acme that go well, and leave something behind for those of bolt."""

    def __init__(self) -> None:
        self.over = threading.Event()

    async def thread(self) -> None:
        """As many as there is room for, each at a server that does not answer."""
        for _ in range(200):
            asyncio.get_running_loop().run_in_executor(None, self.over.wait, 30)

    async def task_that_blocks(self) -> None:
        async def blocks() -> None:
            await asyncio.sleep(0.05)
            time.sleep(2)

        self.kept = asyncio.create_task(blocks())

    async def task_that_stays(self) -> None:
        async def stays() -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.01)
                    time.sleep(0.2)

        self.kept = asyncio.create_task(stays())

    async def timer_that_exits(self) -> None:
        asyncio.get_running_loop().call_later(0.05, sys.exit, 3)

    async def timer_that_stops(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, loop.stop)

    async def exit_while_it_ends(self) -> None:
        async def exits() -> None:
            try:
                await asyncio.sleep(9)
            finally:
                sys.exit(3)

        self.kept = asyncio.create_task(exits())
        await asyncio.sleep(0)

    async def factory(self) -> None:
        def refuses(*_: Any, **__: Any) -> Any:
            raise RuntimeError("no tasks here")

        loop = asyncio.get_running_loop()
        loop.call_later(0.0, loop.set_task_factory, refuses)
        await asyncio.sleep(0.01)

    async def debug(self) -> None:
        asyncio.get_running_loop().set_debug(True)


@pytest.mark.parametrize("what", [name for name in vars(Leaving) if name[0] != "_"])
def test_what_a_call_leaves_behind_is_not_there_in_those_of_a_neighbour(what: str) -> None:
    leaving = Leaving()

    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        if context.tenant == "acme":
            await getattr(leaving, what)()
        else:
            assert not asyncio.get_running_loop().get_debug()
            await asyncio.to_thread(int)
            await asyncio.sleep(0.1)
        return {"n": int(record["value"])}

    waits = of(handler, concurrency=1, call_timeout_s=1.0)
    try:
        for _ in range(2):
            assert made(handle(waits, numbers(1), CONTEXT)) == [0]
            found = handle(waits, numbers(2), SliceContext("waits", "bolt", ()))
            assert (made(found), found.error) == ([0, 1], None)
    finally:
        leaving.over.set()


class Within(Leaving):
    """The same for the next calls of its slice, and what is over before that."""

    async def callback_that_exits(self) -> None:
        asyncio.get_running_loop().call_soon(sys.exit, 3)

    async def callback_that_cancels(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)


ENDING = (
    "timer_that_exits",
    "timer_that_stops",
    "exit_while_it_ends",
    "factory",
    "callback_that_exits",
    "callback_that_cancels",
)


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("what", ENDING)
def test_what_a_call_leaves_behind_ends_none_of_the_next_ones(what: str, concurrency: int) -> None:
    leaving = Within()

    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        if record["value"] == b"0":
            await getattr(leaving, what)()
        else:
            await asyncio.sleep(0.05)
        return {"n": int(record["value"])}

    found = handle(of(handler, concurrency=concurrency), numbers(3), CONTEXT)
    assert (made(found), found.error) == ([0, 1, 2], None)


def test_an_exit_in_a_callback_ends_no_call() -> None:
    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        asyncio.get_running_loop().call_later(0.01, sys.exit, 3)
        await asyncio.sleep(0.03)
        return {"n": int(record["value"])}

    assert made(handle(of(handler, concurrency=2), numbers(4), CONTEXT)) == [0, 1, 2, 3]


def test_an_exit_in_a_task_that_is_waited_for_is_an_error_of_its_record() -> None:
    async def exits() -> None:
        sys.exit(3)

    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        if record["value"] == b"1":
            await asyncio.create_task(exits())
        return {"n": int(record["value"])}

    found = handle(of(handler, concurrency=1), numbers(3), CONTEXT)
    assert found.error is not None
    assert (made(found), found.error.offset) == ([0], 1)


def test_what_a_call_sets_in_its_context_is_not_there_in_the_next_ones() -> None:
    whose: ContextVar[int] = ContextVar("whose", default=-1)
    seen = []

    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        seen.append(whose.get())
        whose.set(int(record["value"]))
        await asyncio.sleep(0)
        assert whose.get() == int(record["value"])
        return {"n": whose.get()}

    assert made(handle(of(handler, concurrency=2), numbers(6), CONTEXT)) == list(range(6))
    assert seen == [-1] * 6


def test_a_call_whose_first_step_the_loop_lost_is_closed_with_it(
    recwarn: pytest.WarningsRecorder,
) -> None:
    loop = event_loops.EventLoop()

    async def never() -> None:
        raise AssertionError

    task = asyncio.Task(never(), loop=loop._loop)
    loop._loop._ready.clear()  # type: ignore[attr-defined]
    loop.sweep()
    loop.close()
    del task
    gc.collect()
    assert not [one for one in recwarn if "never awaited" in str(one.message)]


def test_a_task_that_calls_share_goes_on_when_the_one_that_began_it_ends() -> None:
    shared: list[asyncio.Task[int]] = []

    async def fetched() -> int:
        await asyncio.sleep(0.03)
        return 7

    async def handler(record: dict[str, Any], context: SliceContext) -> Any:
        if not shared:
            shared.append(asyncio.create_task(fetched()))
            return {"n": 0}
        await asyncio.shield(shared[0])
        return {"n": int(record["value"])}

    found = handle(of(handler, concurrency=3), numbers(3), CONTEXT)
    assert (made(found), found.error) == ([0, 1, 2], None)


def test_what_another_handler_does_to_loops_is_not_there_in_those_that_wait() -> None:
    class Refuses(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            raise RuntimeError("no loops here")

    other = asyncio.new_event_loop()
    asyncio.set_event_loop_policy(Refuses())
    asyncio._set_running_loop(other)
    try:
        assert made(handle(of(number), numbers(2), CONTEXT)) == [0, 1]
    finally:
        asyncio.set_event_loop_policy(None)
        other.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("where", ["frame", "attribute"])
def test_what_the_error_of_a_call_holds_is_closed_within_the_time_of_all(where: str) -> None:
    took_s: list[float] = []

    class Left:
        """Takes long where it is closed, and says whether that was ended."""

        def __del__(self) -> None:
            """Wait for a server."""
            began_s = time.monotonic()
            try:
                time.sleep(5)
            finally:
                took_s.append(time.monotonic() - began_s)

    async def fails(_record: dict[str, Any], _: SliceContext) -> None:
        left = Left()
        raise ValueError(left if where == "attribute" else type(left))

    found = handle(of(fails), numbers(1), CONTEXT, CallRules(0.5))
    assert found.error is not None
    assert (found.error.code, found.blamed) == ("HandlerError", 0)
    assert took_s[0] < 3


def test_a_call_goes_on_after_an_error_that_another_one_fails_with() -> None:
    """As of a token that all of them wait for."""
    shared = ConfigError("no token")

    async def asks(record: dict[str, Any], _: SliceContext) -> dict[str, int]:
        try:
            raise shared
        except ConfigError:
            await asyncio.sleep(0.05 if record["value"] == b"0" else 0)
            if record["value"] != b"0":
                raise
        return {"n": 0}

    rules = CallRules(set_aside=frozenset({"ConfigError"}))
    found = handle(of(asks), numbers(2), CONTEXT, rules)
    assert (made(found), [row for row, _ in found.aside]) == ([0], [1])
