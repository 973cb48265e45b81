"""What a dead letter says of itself, and what of it is cut."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.dead_letter_headers import BLOCK_BYTES, headers_of, kept_in, number
from headrace.testing.dead_letters_contract import letter

WIDE = 10_000_000
MESSAGE = "__connect.errors.exception.message"
TRACE = "__connect.errors.exception.stacktrace"


def test_the_names_are_those_of_kafka_connect():
    said = dict(headers_of(letter("acme.visits", 7, partition=3), WIDE))
    assert said == {
        "__connect.errors.topic": b"acme.visits",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"pages",
        "__connect.errors.stage": b"TASK_PUT",
        "__connect.errors.class.name": b"headrace.use_cases.UseCase",
        "__connect.errors.exception.class.name": b"headrace.errors.HandlerError",
        "__connect.errors.exception.message": b"HandlerError: no page",
        "__connect.errors.exception.stacktrace": b"Traceback: no page",
        "headrace.attempts": b"2",
        "headrace.tenant": b"acme",
        "headrace.epoch": b"1",
        "headrace.timestamp": b"1700000000123",
    }


def test_a_lane_without_a_number_is_told_by_its_name():
    made = letter("acme.visits", 7)
    lane = made.slice.lane._replace(name="shardId-000000000003")
    said = dict(headers_of(replace(made, slice=replace(made.slice, lane=lane)), WIDE))
    assert said["headrace.lane"] == b"shardId-000000000003"
    assert "__connect.errors.partition" not in said
    assert kept_in(list(said.items())).use_case == "pages"


def test_a_record_that_was_somebody_elses_dead_letter_keeps_those_headers():
    own = (("__connect.errors.topic", b"theirs"), ("__connect.errors.offset", b"1"))
    kept = kept_in(headers_of(letter("t", 7, headers=own), WIDE))
    assert (kept.headers, kept.offset, kept.use_case) == (own, 7, "pages")


def test_other_messages_are_no_letters():
    assert kept_in([("trace", b"1")]) is None


def test_a_letter_says_in_which_epoch_it_was_kept_and_one_of_old_that_it_was_in_the_first():
    assert kept_in(headers_of(letter("t", 7, epoch=12), WIDE)).epoch == 12
    assert kept_in([("__connect.errors.topic", b"t")]).epoch == 0


def test_an_offset_that_is_no_number_is_none():
    assert kept_in([("__connect.errors.topic", b"t")]).offset is None
    assert (number(b"12"), number(b"x"), number(b"\xff"), number(None)) == (12, None, None, None)


def size(headers):
    return sum(len(name.encode()) + len(text or b"") for name, text in headers)


@given(
    value=st.integers(0, 3000),
    message=st.text(max_size=3000),
    trace=st.text(max_size=3000),
    limit=st.integers(0, 6000),
)
def test_only_message_and_traceback_give_way_to_the_limit(value, message, trace, limit):
    found = letter("t", 1, value=b"v" * value, message=message, traceback=trace)
    headers = headers_of(found, limit)
    bare = headers_of(letter("t", 1, value=b"v" * value, message="", traceback=""), limit)
    assert headers[: len(bare)] == bare
    added = headers[len(bare) :]
    assert not added or size(headers) + value < limit
    for _, text in added:
        text.decode()


def test_a_long_message_keeps_its_beginning_and_a_long_traceback_its_end():
    found = letter("t", 1, message="first" + "é" * 100_000, traceback="é" * 100_000 + "last")
    said = dict(headers_of(found, WIDE))
    assert said[MESSAGE].decode().startswith("first")
    assert said[TRACE].decode().endswith("last")
    assert len(said[MESSAGE]) <= 8 * 1024
    assert len(said[TRACE]) <= 32 * 1024


def test_the_traceback_gives_way_before_the_message():
    found = letter("t", 1, message="m" * 500, traceback="t" * 5000)
    said = dict(headers_of(found, 2000))
    assert said[MESSAGE] == b"m" * 500
    assert 0 < len(said[TRACE]) < 1000


def test_a_letters_own_headers_have_room_in_a_topic_made_for_them():
    name = "n" * 249
    found = letter(name, 2**62, use_case=name, message="é" * 99_999, traceback="é" * 99_999)
    assert size(headers_of(found, WIDE)) < BLOCK_BYTES - 1000


def test_text_that_is_no_unicode_is_kept_readable():
    said = dict(headers_of(letter("t", 1, message="bad \udc80"), WIDE))
    assert said[MESSAGE] == b"bad \\udc80"
